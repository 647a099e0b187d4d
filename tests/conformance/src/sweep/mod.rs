//! Cases that are the same for every call: a handle that is none, a handle to the wrong kind of object, one without a
//! right, an address where nothing is.
//!
//! A [`Row`] describes a call with arguments that would do. From it and from what the definitions say come up to five
//! cases: `bad_handle` exchanges the handle for values that name nothing, `wrong_type` for one to an object of another
//! kind, `each_right` takes from it one right that the call needs, `enough_rights` all others; `bad_pointer` exchanges
//! each address for ones that a program cannot use so. The system must answer with the status that Zircon documents,
//! leave the process as many handles as it had, and go on.
//!
//! `sweep.rows.complete` sees to it that every call which enters the system has a row, or a reason why not.

mod rows;

use abi::{Dir, Support, SyscallInfo, Via};
use abi::{Rights, Status};
use zx::{
    AsHandleRef, Channel, Clock, Counter, Event, Fifo, Handle, Info, Iob, MonotonicInstant, Port, Signals, Socket,
    Stream, Timer, Vmar, Vmo,
};

use crate::check::{Case, Failure, Outcome, ensure, equal};
use crate::tiny::Tiny;

/// A kind of object, as fixture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Channel,
    Socket,
    Event,
    Port,
    Timer,
    Vmo,
    Fifo,
    Counter,
    Clock,
    Vmar,
    Process,
    Thread,
    Job,
    Debuglog,
    Resource,
    Exception,
    Profile,
    Endpoint,
    Vproc,
    Pager,
    Stream,
    Iob,
    Interrupt,
    Iommu,
    Bti,
    Pmt,
    Msi,
}

/// An argument of a row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arg {
    /// The handle under test.
    Tested,
    /// A good handle of this kind.
    Good(Kind),
    /// A memory object of the pager that is the argument before it.
    Paged,
    /// The address of memory that can be read and written.
    Memory,
    /// The same, where null stands for "not wanted".
    Optional,
    /// The same, where the call is never made with a good address.
    Swept,
    /// The same, where something else is wrong already when the system looks at it.
    Unswept,
    /// A number.
    Number(u64),
}
use Arg::{Good, Memory, Number, Optional, Paged, Swept, Tested, Unswept};

struct Row {
    call: &'static str,
    function: usize,
    /// What the tested handle must be; `None` if any object will do or no handle is an argument.
    kind: Option<Kind>,
    arguments: &'static [Arg],
}

/// Addresses that no program has memory at: null, the first page, beyond the user's part, not canonical, the kernel's,
/// and one whose object would wrap around.
const NOWHERE: [u64; 6] =
    [0, 0x1000, 0x7fff_ffff_f000, 0x0000_8000_0000_0000, 0xffff_8000_0000_0000, 0xffff_ffff_ffff_fff8];

/// Values that name no handle: null, bits that no handle has, and many of which one might.
const NO_HANDLES: [u32; 5] = [0, 1, 0x7fff_ffff, 0xdead_beef, 0xffff_ffff];

/// Pages of which each forbids something: one that can be used and ends where nothing is, one that cannot be written,
/// one that cannot even be read.
struct Ground {
    region: Vmar,
    base: u64,
}

impl Ground {
    fn new() -> zx::Result<Self> {
        let can = abi::ZX_VM_CAN_MAP_READ | abi::ZX_VM_CAN_MAP_WRITE | abi::ZX_VM_CAN_MAP_SPECIFIC;
        let (region, base) = zx::startup::vmar_root_self().allocate(can, 0, 6 * 4096)?;
        let vmo = Vmo::create(3 * 4096, 0)?;
        let read_write = abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_WRITE;
        for (page, permissions) in [(0, read_write), (2, abi::ZX_VM_PERM_READ), (4, 0)] {
            region.map(permissions | abi::ZX_VM_SPECIFIC, page * 4096, &vmo, page as u64 / 2 * 4096, 4096)?;
        }
        Ok(Self { region, base: base as u64 })
    }

    /// Addresses that a call must refuse which reads, or writes, more than a byte there.
    fn refused(&self, dir: Dir, ty: &str) -> Vec<u64> {
        let mut refused = vec![self.base + 4095];
        // The name of a futex is an address; what lies there matters to few calls.
        if ty != "futex" {
            refused.push(self.base + 4 * 4096);
        }
        if dir == Dir::Out {
            let code = Ground::new as fn() -> zx::Result<Self> as usize as u64;
            refused.extend([self.base + 2 * 4096, code]);
        }
        refused
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        let _ = self.region.destroy();
    }
}

/// How many handles this process has.
fn handles() -> Result<u32, Failure> {
    let mut stats = [0; size_of::<abi::zx_info_process_handle_stats_t>()];
    zx::startup::process_self().get_info(abi::ZX_INFO_PROCESS_HANDLE_STATS, &mut stats)?;
    Ok(stats.chunks_exact(4).map(|word| u32::from_le_bytes(std::array::from_fn(|i| word[i]))).sum())
}

/// An object in a state in which every call has something to do, and what must live as long.
struct Fixture {
    handle: Handle,
    _others: Vec<Handle>,
}

/// A memory object of a page that this pager supplies.
fn paged(pager: &Handle) -> zx::Result<Vmo> {
    let pager = zx::Unowned::<zx::Pager>::from_raw(pager.raw_handle()).ok_or(Status::BAD_HANDLE)?;
    pager.create_vmo(0, &Port::create()?, 0, 4096)
}

fn fixture(kind: Kind) -> zx::Result<Fixture> {
    let one = |handle: Handle| Fixture { handle, _others: Vec::new() };
    let two = |a: Handle, b: Handle| Fixture { handle: a, _others: vec![b] };
    let job = || zx::startup::job_default().ok_or(Status::NOT_FOUND);
    let resource = || zx::startup::resource().ok_or(Status::NOT_FOUND);
    Ok(match kind {
        Kind::Channel => {
            let (a, b) = Channel::create()?;
            b.write(b"something", [])?;
            two(a.into(), b.into())
        }
        Kind::Socket => {
            let (a, b) = Socket::create(0)?;
            b.write(b"something")?;
            two(a.into(), b.into())
        }
        Kind::Event => {
            let event = Event::create()?;
            event.signal(Signals::NONE, Signals::USER_0)?;
            one(event.into())
        }
        Kind::Port => {
            let port = Port::create_for_interrupts()?;
            port.queue(&crate::cases::user_packet(1, [0; 4]))?;
            one(port.into())
        }
        Kind::Timer => one(Timer::create(0)?.into()),
        Kind::Vmo => one(Vmo::create(4096, 0)?.into()),
        Kind::Fifo => {
            let (a, b) = Fifo::create(8, 8)?;
            b.write(8, b"12345678")?;
            two(a.into(), b.into())
        }
        Kind::Iob => {
            let all = Iob::private_region(0xff, 4096, zx::IobDiscipline::IdAllocator);
            let (a, b) = Iob::create(&[all])?;
            two(a.into(), b.into())
        }
        Kind::Stream => {
            let vmo = Vmo::create(4096, 0)?;
            let read_write = abi::ZX_STREAM_MODE_READ | abi::ZX_STREAM_MODE_WRITE;
            one(Stream::create(read_write, &vmo, 0)?.into())
        }
        Kind::Counter => one(Counter::create()?.into()),
        Kind::Clock => one(Clock::create(abi::ZX_CLOCK_OPT_AUTO_START | abi::ZX_CLOCK_OPT_MAPPABLE)?.into()),
        Kind::Vmar => {
            let options = abi::ZX_VM_CAN_MAP_READ | abi::ZX_VM_CAN_MAP_WRITE;
            one(zx::startup::vmar_root_self().allocate(options, 0, 1 << 20)?.0.into())
        }
        Kind::Process => {
            let (process, vmar) = job()?.create_process("fixture")?;
            two(process.into(), vmar.into())
        }
        Kind::Thread => {
            let (process, vmar) = job()?.create_process("fixture")?;
            let thread = process.create_thread("fixture")?;
            Fixture { handle: thread.into(), _others: vec![process.into(), vmar.into()] }
        }
        Kind::Job => one(job()?.create_child()?.into()),
        Kind::Debuglog => {
            let resource = zx::startup::resource().ok_or(Status::NOT_FOUND)?;
            one(zx::Debuglog::create(&resource, abi::ZX_LOG_FLAG_READABLE)?.into())
        }
        Kind::Pager => one(zx::Pager::create()?.into()),
        Kind::Profile => {
            let resource = zx::startup::resource().ok_or(Status::NOT_FOUND)?;
            let profile = abi::zx_profile_info_t { flags: 1, ..Default::default() };
            let (mut out, function) = (0_u32, zx::sys::zx_profile_create as *const () as usize);
            let words = [u64::from(resource.raw_handle()), 0, &raw const profile as u64, &raw mut out as u64];
            zx::probe::call(function, &words);
            one(Handle::from_raw(out).ok_or(Status::NOT_FOUND)?)
        }
        Kind::Endpoint => one(zx::Endpoint::create(&*resource()?)?.into()),
        Kind::Vproc => {
            let (mut out, mut page) = (0_u32, 0_u32);
            let words = [0, &raw mut out as u64, &raw mut page as u64];
            zx::probe::call(zx::sys::zx_vproc_create as *const () as usize, &words);
            let page = Handle::from_raw(page).ok_or(Status::NOT_FOUND)?;
            two(Handle::from_raw(out).ok_or(Status::NOT_FOUND)?, page)
        }
        Kind::Resource => {
            one(zx::startup::resource().ok_or(Status::NOT_FOUND)?.duplicate_handle(Rights::SAME_RIGHTS)?)
        }
        Kind::Iommu => one(zx::Iommu::create_stub(&*resource()?)?.into()),
        Kind::Bti => one(zx::Bti::create(&zx::Iommu::create_stub(&*resource()?)?, 1)?.into()),
        Kind::Pmt => {
            // Whoever makes the call with it unpins it, so that nothing is left in quarantine.
            let bti = zx::Bti::create(&zx::Iommu::create_stub(&*resource()?)?, 1)?;
            let pmt = bti.pin(abi::ZX_BTI_PERM_READ, &Vmo::create(4096, 0)?, 0, 4096, &mut [0])?;
            two(pmt.into(), bti.into())
        }
        Kind::Msi => one(zx::Msi::allocate(&*resource()?, 1)?.into()),
        Kind::Interrupt => {
            let interrupt = zx::Interrupt::create_virtual()?;
            interrupt.trigger(MonotonicInstant::ZERO)?;
            one(interrupt.into())
        }
        Kind::Exception => {
            // A process that runs into an undefined instruction, and ends when nobody cares.
            let tiny = Tiny::new(&[0x0f, 0x0b]).map_err(|_| Status::INTERNAL)?;
            let channel = tiny.process.create_exception_channel(0)?;
            tiny.start(None, 0).map_err(|_| Status::INTERNAL)?;
            let mut handles = [None];
            channel.read_wait(&mut [0; 64], &mut handles, crate::cases::late())?;
            let handle = handles[0].take().ok_or(Status::NOT_FOUND)?;
            Fixture { handle, _others: vec![channel.into(), tiny.process.into(), tiny.thread.into()] }
        }
    })
}

impl Row {
    /// The call's definition.
    fn info(&self) -> &'static SyscallInfo {
        let name = self.call.trim_start_matches("zx_");
        abi::SYSCALLS.iter().find(|info| info.name == name).expect("rows are made of calls")
    }

    fn tested(&self) -> Option<usize> {
        self.arguments.iter().position(|argument| *argument == Tested)
    }

    /// `noun.call`, with the tested argument's name if that is not the first.
    fn name(&self) -> String {
        let info = self.info();
        let call = info.name.strip_prefix(info.noun).map_or(info.name, |rest| rest.trim_start_matches('_'));
        match self.tested() {
            Some(place) if place > 0 => format!("{}.{call}_{}", info.noun, info.args[place].name),
            _ => format!("{}.{call}", info.noun),
        }
    }

    /// The kind of object that the tested handle is, when it is a good one.
    fn good_kind(&self) -> Kind {
        // A memory object has everything that a call on any object may want, such as a name.
        self.kind.unwrap_or(Kind::Vmo)
    }

    /// The rights that the tested handle needs, by the call's definition.
    fn needs(&self) -> Rights {
        let Some(place) = self.tested() else { return Rights::NONE };
        let (info, argument) = (self.info(), self.info().args[place].name);
        info.rights.iter().filter(|right| right.arg == argument).fold(Rights::NONE, |all, right| all | right.needs)
    }

    /// The type of object that the definition asks for.
    fn asked(&self) -> Option<&'static str> {
        let (info, argument) = (self.info(), self.info().args[self.tested()?].name);
        info.rights.iter().find(|right| right.arg == argument).map(|right| right.object)
    }

    /// Whether the call takes the tested handle away even when it fails.
    fn consumes(&self) -> bool {
        matches!(
            self.call,
            "zx_handle_replace" | "zx_vmo_replace_as_executable" | "zx_handle_close_many" | "zx_pmt_unpin"
        )
    }

    /// Makes the call with the tested handle, and with `address` in the place of pointer `exchanged`. A call that fails
    /// must leave the process its handles.
    fn call(&self, tested: u32, exchanged: Option<(usize, u64)>) -> Result<Status, Failure> {
        // Each pointer gets memory of its own, so that one result does not overwrite another's.
        let mut memory = vec![[0_u64; 32]; self.arguments.len()];
        let mut fixtures = Vec::new();
        let mut words = Vec::new();
        for (index, argument) in self.arguments.iter().enumerate() {
            words.push(match argument {
                Tested => u64::from(tested),
                Good(kind) => {
                    let fixture = fixture(*kind)?;
                    let raw = fixture.handle.raw_handle();
                    fixtures.push(fixture);
                    u64::from(raw)
                }
                Paged => {
                    let Some(pager) = fixtures.last_mut() else { return Err("there is no pager before it".into()) };
                    let vmo = paged(&pager.handle)?;
                    let raw = vmo.raw_handle();
                    pager._others.push(vmo.into());
                    u64::from(raw)
                }
                Memory | Optional | Swept | Unswept => match exchanged {
                    Some((place, address)) if place == index => address,
                    _ => memory[index].as_mut_ptr() as u64,
                },
                Number(number) => *number,
            });
        }
        let before = handles()?;
        let status = Status(zx::probe::call(self.function, &words) as i32);
        let after = handles()?;
        if status != Status::OK && before != after && !(self.consumes() && after + 1 == before) {
            return Err(format!("it gave {status}, and of {before} handles there are {after}").into());
        }
        Ok(status)
    }

    fn bad_handle(&self) -> Outcome {
        let gone = Event::create()?.raw_handle();
        let no_handles = NO_HANDLES.into_iter().chain([gone]);
        for value in no_handles {
            let status = self.call(value, None)?;
            if status != Status::BAD_HANDLE {
                return Err(format!("the handle value {value:#x} gave {status}, expected ZX_ERR_BAD_HANDLE").into());
            }
        }
        Ok(())
    }

    fn wrong_type(&self) -> Outcome {
        for kind in [Kind::Event, Kind::Channel, Kind::Vmo, Kind::Port] {
            if kind == self.good_kind() {
                continue;
            }
            let fixture = fixture(kind)?;
            // A call on objects of several types may look at the rights first.
            let rights = Rights::from_bits_retain(fixture.handle.basic_info()?.rights);
            let status = self.call(fixture.handle.raw_handle(), None)?;
            let denied = matches!(self.asked(), Some("any" | "task")) && !rights.contains(self.needs());
            if status != Status::WRONG_TYPE && !(denied && status == Status::ACCESS_DENIED) {
                return Err(format!("a handle to a {kind:?} gave {status}, expected ZX_ERR_WRONG_TYPE").into());
            }
            self.let_go(fixture);
        }
        Ok(())
    }

    /// Drops a fixture whose handle the call may have taken.
    fn let_go(&self, fixture: Fixture) {
        if self.consumes() {
            std::mem::forget(fixture.handle);
        }
    }

    /// Makes the call through a handle with these rights.
    fn call_with(&self, rights: impl Fn(Rights) -> Rights) -> Result<Option<Status>, Failure> {
        let Fixture { handle, _others } = fixture(self.good_kind())?;
        let all = Rights::from_bits_retain(handle.basic_info()?.rights);
        if !all.contains(self.needs()) {
            return Ok(None);
        }
        let handle = handle.replace(rights(all))?;
        let status = self.call(handle.raw_handle(), None)?;
        self.let_go(Fixture { handle, _others });
        Ok(Some(status))
    }

    fn each_right(&self) -> Outcome {
        for right in self.needs() {
            if let Some(status) = self.call_with(|all| all & !right)?
                && status != Status::ACCESS_DENIED
            {
                return Err(format!("without {right:?} it gave {status}, expected ZX_ERR_ACCESS_DENIED").into());
            }
        }
        Ok(())
    }

    fn enough_rights(&self) -> Outcome {
        let status = self.call_with(|_| self.needs())?;
        ensure(status != Some(Status::ACCESS_DENIED), "the rights that the definition names are not enough")
    }

    fn bad_pointer(&self) -> Outcome {
        let ground = Ground::new()?;
        for (index, argument) in self.arguments.iter().enumerate() {
            if !matches!(argument, Memory | Optional | Swept) {
                continue;
            }
            let info = self.info().args[index];
            let dir = info.dir.ok_or("the definition has no address here")?;
            for address in NOWHERE.into_iter().chain(ground.refused(dir, info.ty)) {
                if matches!(argument, Optional) && address == 0 {
                    continue;
                }
                let fixture = fixture(self.good_kind())?;
                let status = self.call(fixture.handle.raw_handle(), Some((index, address)))?;
                if status != Status::INVALID_ARGS {
                    let detail =
                        format!("argument {index} as {address:#x} gave {status}, expected ZX_ERR_INVALID_ARGS");
                    return Err(detail.into());
                }
                self.let_go(fixture);
            }
        }
        // The system lives, and so does this process.
        zx::nanosleep(MonotonicInstant::ZERO)?;
        Ok(())
    }
}

/// Every call that takes a handle or an address into the system has a row with as many arguments, or stands among
/// those without, and none stands there needlessly.
fn complete() -> Outcome {
    let rows = rows::rows();
    let mut missing = Vec::new();
    for info in abi::SYSCALLS {
        let row = rows.iter().find(|row| std::ptr::eq(row.info(), info));
        let asks = info.args.iter().any(|arg| arg.dir.is_some() || arg.ty == "handle");
        let there = !matches!(info.support, Support::Unsupported(_)) && info.via == Via::Server;
        let without = rows::WITHOUT.iter().any(|(name, _)| *name == info.name);
        match row {
            Some(row) => {
                equal((info.name, row.arguments.len()), (info.name, info.args.len()))?;
                ensure(!without, &format!("{} has a row and stands among those without", info.name))?;
            }
            None if asks && there && !without => missing.push(info.name),
            None => {}
        }
    }
    ensure(missing.is_empty(), &format!("no rows: {}", missing.join(", ")))
}

/// What a call answers to arguments that would do, for each row that it has.
pub fn answers(function: usize) -> Result<Vec<Status>, Failure> {
    let rows = rows::rows();
    let of_the_call = rows.iter().filter(|row| row.function == function && !row.arguments.contains(&Swept));
    of_the_call
        .map(|row| {
            let fixture = fixture(row.good_kind())?;
            let status = row.call(fixture.handle.raw_handle(), None)?;
            row.let_go(fixture);
            Ok(status)
        })
        .collect()
}

/// The cases of all rows.
pub fn cases() -> Vec<Case> {
    let mut cases = vec![Case::new("sweep.rows.complete", complete)];
    for (index, row) in rows::rows().iter().enumerate() {
        let name = row.name();
        // A second row of a call has other arguments.
        let again = rows::rows()[..index].iter().filter(|other| other.name() == name).count();
        let name = if again > 0 { format!("{name}_again") } else { name };
        let mut add = |what: &str, run: fn(&Row) -> Outcome| {
            cases.push(Case::new(&format!("{name}.{what}"), move || run(&rows::rows()[index])));
        };
        if row.tested().is_some() {
            add("bad_handle", Row::bad_handle);
            if row.needs() != Rights::NONE {
                add("each_right", Row::each_right);
                if !rows::MORE_RIGHTS.contains(&name.as_str()) {
                    add("enough_rights", Row::enough_rights);
                }
            }
        }
        if row.kind.is_some() {
            add("wrong_type", Row::wrong_type);
        }
        if row.arguments.iter().any(|argument| matches!(argument, Memory | Optional | Swept)) {
            add("bad_pointer", Row::bad_pointer);
        }
    }
    cases
}
