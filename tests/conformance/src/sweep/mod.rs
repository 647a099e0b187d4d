//! Cases that are the same for every call: an invalid handle, a handle to an object of the wrong type, a handle without
//! a required right, an unmapped address.
//!
//! A definition has rows of valid arguments. From them and from the rest of the definition come up to five cases:
//! - `bad_handle` replaces the handle by values that are no handles.
//! - `wrong_type` replaces it by handles to objects of other types.
//! - `each_right` removes one right that the call needs.
//! - `enough_rights` removes all rights that the call does not need.
//! - `bad_pointer` replaces each address by ones that a program cannot use in this way.
//!
//! The system must return the status that Zircon documents, leave the process as many handles as it had, and continue
//! to work.
//!
//! A call that enters the server has a row or a reason for having none; otherwise the code generator refuses its
//! definition.

use abi::SweepArg::{self, Good, Memory, Number, Optional, Paged, Swept, Tested, Unswept};
use abi::{Dir, RightInfo, Sweep, SyscallInfo};
use abi::{Rights, Status};
use zx::{
    AsHandleRef, Channel, Clock, Counter, Event, Fifo, Handle, Info, Iob, MonotonicInstant, Port, Signals, Socket,
    Stream, Timer, Vmar, Vmo,
};

use crate::check::{Case, Failure, Outcome, ensure};
use crate::test_process::TestProcess;

/// A call with one row of arguments from its definition.
#[derive(Clone, Copy)]
struct Row {
    info: &'static SyscallInfo,
    function: usize,
    arguments: &'static [SweepArg],
}

/// All rows of all calls.
fn rows() -> impl Iterator<Item = Row> {
    let calls = abi::SYSCALLS.iter().filter_map(|info| Some((info, zx::sys::address(info.name)?)));
    calls.flat_map(|(info, function)| {
        let rows = match info.tests().sweep {
            Sweep::Rows(rows) => rows,
            Sweep::None(_) => &[],
        };
        rows.iter().map(move |arguments| Row { info, function, arguments })
    })
}

/// Addresses at which no program has memory: null, the first page, the page below 2^47, the first non-canonical
/// address, the kernel's half, and an address from which any object would wrap around.
const NOWHERE: [u64; 6] =
    [0, 0x1000, 0x7fff_ffff_f000, 0x0000_8000_0000_0000, 0xffff_8000_0000_0000, 0xffff_ffff_ffff_fff8];

/// Values that are no handles of this process: null, values whose fixed bits are wrong, and a value that a handle could
/// have.
const NO_HANDLES: [u32; 5] = [0, 1, 0x7fff_ffff, 0xdead_beef, 0xffff_ffff];

/// Three pages, each with an unmapped page behind it: one is readable and writable, one is read-only, one has no
/// permissions.
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

    /// Addresses that a call must refuse if it accesses more than one byte there in this direction.
    fn refused(&self, dir: Dir, ty: &str) -> Vec<u64> {
        let mut refused = vec![self.base + 4095];
        // A futex is named by its address; few calls read its content.
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

/// The number of handles of this process.
fn handles() -> Result<u32, Failure> {
    let mut stats = [0; size_of::<abi::zx_info_process_handle_stats_t>()];
    zx::startup::process_self().get_info(abi::ZX_INFO_PROCESS_HANDLE_STATS, &mut stats)?;
    Ok(stats.chunks_exact(4).map(|word| u32::from_le_bytes(std::array::from_fn(|i| word[i]))).sum())
}

/// An object in a state in which every call on it has an effect, and the objects that must live as long.
struct Fixture {
    handle: Handle,
    _others: Vec<Handle>,
}

/// A VMO of one page, which this pager supplies.
fn paged(pager: &Handle) -> zx::Result<Vmo> {
    let pager = zx::Unowned::<zx::Pager>::from_raw(pager.raw_handle()).ok_or(Status::BAD_HANDLE)?;
    pager.create_vmo(0, &Port::create()?, 0, 4096)
}

fn fixture(noun: &str) -> zx::Result<Fixture> {
    let one = |handle: Handle| Fixture { handle, _others: Vec::new() };
    let two = |a: Handle, b: Handle| Fixture { handle: a, _others: vec![b] };
    let job = || zx::startup::job_default().ok_or(Status::NOT_FOUND);
    let resource = || zx::startup::resource().ok_or(Status::NOT_FOUND);
    Ok(match noun {
        "channel" => {
            let (a, b) = Channel::create()?;
            b.write(b"something", [])?;
            two(a.into(), b.into())
        }
        "socket" => {
            let (a, b) = Socket::create(0)?;
            b.write(b"something")?;
            two(a.into(), b.into())
        }
        "event" => {
            let event = Event::create()?;
            event.signal(Signals::NONE, Signals::USER_0)?;
            one(event.into())
        }
        "port" => {
            let port = Port::create_for_interrupts()?;
            port.queue(&crate::cases::user_packet(1, [0; 4]))?;
            one(port.into())
        }
        "timer" => one(Timer::create(0)?.into()),
        "vmo" => one(Vmo::create(4096, 0)?.into()),
        "fifo" => {
            let (a, b) = Fifo::create(8, 8)?;
            b.write(8, b"12345678")?;
            two(a.into(), b.into())
        }
        "iob" => {
            let all = Iob::private_region(0xff, 4096, zx::IobDiscipline::IdAllocator);
            let (a, b) = Iob::create(&[all])?;
            two(a.into(), b.into())
        }
        "stream" => {
            let vmo = Vmo::create(4096, 0)?;
            let read_write = abi::ZX_STREAM_MODE_READ | abi::ZX_STREAM_MODE_WRITE;
            one(Stream::create(read_write, &vmo, 0)?.into())
        }
        "counter" => one(Counter::create()?.into()),
        "clock" => one(Clock::create(abi::ZX_CLOCK_OPT_AUTO_START | abi::ZX_CLOCK_OPT_MAPPABLE)?.into()),
        "vmar" => {
            let options = abi::ZX_VM_CAN_MAP_READ | abi::ZX_VM_CAN_MAP_WRITE;
            one(zx::startup::vmar_root_self().allocate(options, 0, 1 << 20)?.0.into())
        }
        "process" => {
            let (process, vmar) = job()?.create_process("fixture")?;
            two(process.into(), vmar.into())
        }
        "thread" => {
            let (process, vmar) = job()?.create_process("fixture")?;
            let thread = process.create_thread("fixture")?;
            Fixture { handle: thread.into(), _others: vec![process.into(), vmar.into()] }
        }
        "job" => one(job()?.create_child()?.into()),
        "debuglog" => {
            let resource = zx::startup::resource().ok_or(Status::NOT_FOUND)?;
            one(zx::Debuglog::create(&resource, abi::ZX_LOG_FLAG_READABLE)?.into())
        }
        "pager" => one(zx::Pager::create()?.into()),
        "profile" => {
            let resource = zx::startup::resource().ok_or(Status::NOT_FOUND)?;
            let profile = abi::zx_profile_info_t { flags: 1, ..Default::default() };
            let (mut out, function) = (0_u32, zx::sys::zx_profile_create as *const () as usize);
            let words = [u64::from(resource.raw_handle()), 0, &raw const profile as u64, &raw mut out as u64];
            zx::probe::call(function, &words);
            one(Handle::from_raw(out).ok_or(Status::NOT_FOUND)?)
        }
        "endpoint" => one(zx::Endpoint::create(&*resource()?)?.into()),
        "vproc" => {
            let (mut out, mut page) = (0_u32, 0_u32);
            let words = [0, &raw mut out as u64, &raw mut page as u64];
            zx::probe::call(zx::sys::zx_vproc_create as *const () as usize, &words);
            let page = Handle::from_raw(page).ok_or(Status::NOT_FOUND)?;
            two(Handle::from_raw(out).ok_or(Status::NOT_FOUND)?, page)
        }
        "resource" => one(zx::startup::resource().ok_or(Status::NOT_FOUND)?.duplicate_handle(Rights::SAME_RIGHTS)?),
        "iommu" => one(zx::Iommu::create_stub(&*resource()?)?.into()),
        "bti" => one(zx::Bti::create(&zx::Iommu::create_stub(&*resource()?)?, 1)?.into()),
        "pmt" => {
            // The call that uses it also unpins the memory, so that nothing stays in quarantine.
            let bti = zx::Bti::create(&zx::Iommu::create_stub(&*resource()?)?, 1)?;
            let pmt = bti.pin(abi::ZX_BTI_PERM_READ, &Vmo::create(4096, 0)?, 0, 4096, &mut [0])?;
            two(pmt.into(), bti.into())
        }
        "msi" => one(zx::Msi::allocate(&*resource()?, 1)?.into()),
        "interrupt" => {
            let interrupt = zx::Interrupt::create_virtual()?;
            interrupt.trigger(MonotonicInstant::ZERO)?;
            one(interrupt.into())
        }
        "exception" => {
            // A process that executes an undefined instruction and is killed if no handler takes the exception.
            let tiny = TestProcess::new(&[0x0f, 0x0b]).map_err(|_| Status::INTERNAL)?;
            let channel = tiny.process.create_exception_channel(0)?;
            tiny.start(None, 0).map_err(|_| Status::INTERNAL)?;
            let mut handles = [None];
            channel.read_wait(&mut [0; 64], &mut handles, crate::cases::late())?;
            let handle = handles[0].take().ok_or(Status::NOT_FOUND)?;
            Fixture { handle, _others: vec![channel.into(), tiny.process.into(), tiny.thread.into()] }
        }
        _ => return Err(Status::NOT_FOUND),
    })
}

impl Row {
    fn tested(&self) -> Option<usize> {
        self.arguments.iter().position(|argument| matches!(argument, Tested(_)))
    }

    /// The noun that the tested handle must be; `None` if any object is accepted or no handle is tested.
    fn noun(&self) -> Option<&'static str> {
        self.arguments.iter().find_map(|argument| match argument {
            Tested(noun) => *noun,
            _ => None,
        })
    }

    /// What the definition requires of the tested handle.
    fn asked(&self) -> Option<&'static RightInfo> {
        let argument = self.info.args[self.tested()?].name;
        self.info.rights.iter().find(|right| right.arg == argument)
    }

    /// `noun.call`, with the tested argument's name if it is not the first.
    fn name(&self) -> String {
        let info = self.info;
        let call = info.name.strip_prefix(info.noun).map_or(info.name, |rest| rest.trim_start_matches('_'));
        match self.tested() {
            Some(place) if place > 0 => format!("{}.{call}_{}", info.noun, info.args[place].name),
            _ => format!("{}.{call}", info.noun),
        }
    }

    /// The type of object that a valid tested handle refers to.
    fn good_noun(&self) -> &'static str {
        // A VMO supports everything that a call on any object may need, such as a name.
        self.noun().unwrap_or("vmo")
    }

    /// The rights of the tested handle that the call's definition requires.
    fn needs(&self) -> Rights {
        self.asked().map_or(Rights::NONE, |right| right.needs)
    }

    /// Whether the call consumes the tested handle even when it fails.
    fn consumes(&self) -> bool {
        self.tested().is_some_and(|place| self.info.args[place].consumed)
    }

    /// Makes the call with the tested handle, and with `address` instead of the pointer argument `exchanged`. A call
    /// that fails must leave the process its handles.
    fn call(&self, tested: u32, exchanged: Option<(usize, u64)>) -> Result<Status, Failure> {
        // Each pointer gets memory of its own, so that no result overwrites another one.
        let mut memory = vec![[0_u64; 32]; self.arguments.len()];
        let mut fixtures = Vec::new();
        let mut words = Vec::new();
        for (index, argument) in self.arguments.iter().enumerate() {
            words.push(match argument {
                Tested(_) => u64::from(tested),
                Good(noun) => {
                    let fixture = fixture(noun)?;
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
        for noun in ["event", "channel", "vmo", "port"] {
            if noun == self.good_noun() {
                continue;
            }
            let fixture = fixture(noun)?;
            // A call on objects of several types may check the rights first.
            let rights = Rights::from_bits_retain(fixture.handle.basic_info()?.rights);
            let status = self.call(fixture.handle.raw_handle(), None)?;
            let denied = self.asked().is_some_and(|asked| matches!(asked.object, "any" | "task"))
                && !rights.contains(self.needs());
            if status != Status::WRONG_TYPE && !(denied && status == Status::ACCESS_DENIED) {
                return Err(format!("a handle to a {noun} gave {status}, expected ZX_ERR_WRONG_TYPE").into());
            }
            self.let_go(fixture);
        }
        Ok(())
    }

    /// Drops a fixture whose handle the call may have consumed.
    fn let_go(&self, fixture: Fixture) {
        if self.consumes() {
            std::mem::forget(fixture.handle);
        }
    }

    /// Makes the call through a handle whose rights `rights` reduces. `None` if the fixture's handle lacks a required
    /// right.
    fn call_with(&self, rights: impl Fn(Rights) -> Rights) -> Result<Option<Status>, Failure> {
        let Fixture { handle, _others } = fixture(self.good_noun())?;
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
            let info = self.info.args[index];
            let dir = info.dir.ok_or("the definition has no address here")?;
            for address in NOWHERE.into_iter().chain(ground.refused(dir, info.ty)) {
                if matches!(argument, Optional) && address == 0 {
                    continue;
                }
                let fixture = fixture(self.good_noun())?;
                let status = self.call(fixture.handle.raw_handle(), Some((index, address)))?;
                if status != Status::INVALID_ARGS {
                    let detail =
                        format!("argument {index} as {address:#x} gave {status}, expected ZX_ERR_INVALID_ARGS");
                    return Err(detail.into());
                }
                self.let_go(fixture);
            }
        }
        // The system and this process still work.
        zx::nanosleep(MonotonicInstant::ZERO)?;
        Ok(())
    }
}

/// The status of the call with valid arguments, for each of its rows.
pub fn answers(function: usize) -> Result<Vec<Status>, Failure> {
    let of_the_call = rows().filter(|row| row.function == function && !row.arguments.contains(&Swept));
    of_the_call
        .map(|row| {
            let fixture = fixture(row.good_noun())?;
            let status = row.call(fixture.handle.raw_handle(), None)?;
            row.let_go(fixture);
            Ok(status)
        })
        .collect()
}

/// The cases of all rows.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for row in rows() {
        // A second row of a call has other arguments.
        let again = if names.contains(&row.name()) { "_again" } else { "" };
        let name = row.name() + again;
        names.push(row.name());
        let mut add = |what: &str, run: fn(&Row) -> Outcome| {
            cases.push(Case::new(&format!("{name}.{what}"), move || run(&row)));
        };
        if let Some(place) = row.tested() {
            add("bad_handle", Row::bad_handle);
            if row.needs() != Rights::NONE {
                add("each_right", Row::each_right);
                let argument = row.info.args[place].name;
                if !row.info.rights.iter().any(|right| right.arg == argument && right.more) {
                    add("enough_rights", Row::enough_rights);
                }
            }
        }
        if row.noun().is_some() {
            add("wrong_type", Row::wrong_type);
        }
        if row.arguments.iter().any(|argument| matches!(argument, Memory | Optional | Swept)) {
            add("bad_pointer", Row::bad_pointer);
        }
    }
    cases
}
