//! Cases that are the same for every call: a handle that is none, a handle to the wrong kind of object, an address
//! where nothing is.
//!
//! A [`Row`] describes a call with arguments that would do. From it come up to three cases: `bad_handle` exchanges the
//! handle for values that name nothing, `wrong_type` for one to an object of another kind, `bad_pointer` each address
//! for ones that a program cannot have. The system must answer with the status that Zircon documents and go on.

use abi::{Rights, Status};
use zx::sys;
use zx::{
    AsHandleRef, Channel, Clock, Counter, Event, Fifo, Handle, MonotonicInstant, Port, Signals, Socket, Timer, Vmo,
};

use crate::check::{Case, Outcome};

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
}

/// An argument of a row.
#[derive(Clone, Copy)]
enum Arg {
    /// The handle under test.
    Tested,
    /// A good handle of this kind.
    Good(Kind),
    /// The address of memory that can be read and written.
    Memory,
    /// The same, where null stands for "not wanted".
    Optional,
    /// A number.
    Number(u64),
}
use Arg::{Good, Memory, Number, Optional, Tested};

struct Row {
    name: &'static str,
    function: usize,
    /// What the tested handle must be; `None` if any object will do or no handle is an argument.
    kind: Option<Kind>,
    arguments: &'static [Arg],
}

macro_rules! row {
    ($name:literal, $function:ident, $kind:expr, [$($argument:expr),*]) => {
        Row { name: $name, function: sys::$function as *const () as usize, kind: $kind, arguments: &[$($argument),*] }
    };
}

/// Addresses that no program has memory at: null, the first page, beyond the user's part, not canonical, the kernel's,
/// and one whose object would wrap around.
const NOWHERE: [u64; 6] =
    [0, 0x1000, 0x7fff_ffff_f000, 0x0000_8000_0000_0000, 0xffff_8000_0000_0000, 0xffff_ffff_ffff_fff8];

/// Values that name no handle: null, bits that no handle has, and many of which one might.
const NO_HANDLES: [u32; 5] = [0, 1, 0x7fff_ffff, 0xdead_beef, 0xffff_ffff];

const SAME: u64 = Rights::SAME_RIGHTS.bits() as u64;
const NEVER: u64 = i64::MAX as u64;
const READ: u64 = abi::ZX_VM_PERM_READ as u64;

fn rows() -> Vec<Row> {
    let mut rows = handle_rows();
    rows.extend(message_rows());
    rows.extend(memory_rows());
    rows.extend(task_rows());
    rows.extend(create_rows());
    rows
}

fn handle_rows() -> Vec<Row> {
    vec![
        row!("handle.duplicate", zx_handle_duplicate, None, [Tested, Number(SAME), Memory]),
        row!("handle.replace", zx_handle_replace, None, [Tested, Number(SAME), Memory]),
        row!("handle.check_valid", zx_handle_check_valid, None, [Tested]),
        row!("object.wait_one", zx_object_wait_one, None, [Tested, Number(1 << 3), Number(0), Optional]),
        row!(
            "object.get_info",
            zx_object_get_info,
            None,
            [Tested, Number(abi::ZX_INFO_HANDLE_BASIC as u64), Memory, Number(32), Optional, Optional]
        ),
        row!(
            "object.get_property",
            zx_object_get_property,
            None,
            [Tested, Number(abi::ZX_PROP_NAME as u64), Memory, Number(32)]
        ),
        row!(
            "object.set_property",
            zx_object_set_property,
            None,
            [Tested, Number(abi::ZX_PROP_NAME as u64), Memory, Number(8)]
        ),
        row!("object.signal", zx_object_signal, None, [Tested, Number(0), Number(0)]),
        row!(
            "object.wait_async",
            zx_object_wait_async,
            None,
            [Tested, Good(Kind::Port), Number(1), Number(8), Number(0)]
        ),
        row!(
            "object.wait_async_port",
            zx_object_wait_async,
            Some(Kind::Port),
            [Good(Kind::Event), Tested, Number(1), Number(8), Number(0)]
        ),
        row!("timer.set", zx_timer_set, Some(Kind::Timer), [Tested, Number(NEVER), Number(0)]),
        row!("timer.cancel", zx_timer_cancel, Some(Kind::Timer), [Tested]),
        row!("clock.read", zx_clock_read, Some(Kind::Clock), [Tested, Memory]),
        row!("counter.add", zx_counter_add, Some(Kind::Counter), [Tested, Number(1)]),
        row!("counter.read", zx_counter_read, Some(Kind::Counter), [Tested, Memory]),
        row!("counter.write", zx_counter_write, Some(Kind::Counter), [Tested, Number(1)]),
    ]
}

fn message_rows() -> Vec<Row> {
    const CHANNEL: Option<Kind> = Some(Kind::Channel);
    const SOCKET: Option<Kind> = Some(Kind::Socket);
    vec![
        row!("channel.write", zx_channel_write, CHANNEL, [Tested, Number(0), Memory, Number(4), Number(0), Number(0)]),
        row!(
            "channel.write_etc",
            zx_channel_write_etc,
            CHANNEL,
            [Tested, Number(0), Memory, Number(4), Number(0), Number(0)]
        ),
        row!(
            "channel.read",
            zx_channel_read,
            CHANNEL,
            [Tested, Number(0), Memory, Number(0), Number(64), Number(0), Optional, Optional]
        ),
        row!(
            "channel.read_etc",
            zx_channel_read_etc,
            CHANNEL,
            [Tested, Number(0), Memory, Number(0), Number(64), Number(0), Optional, Optional]
        ),
        row!("socket.write", zx_socket_write, SOCKET, [Tested, Number(0), Memory, Number(4), Optional]),
        row!("socket.read", zx_socket_read, SOCKET, [Tested, Number(0), Memory, Number(4), Optional]),
        row!("socket.set_disposition", zx_socket_set_disposition, SOCKET, [Tested, Number(0), Number(0)]),
        row!("port.queue", zx_port_queue, Some(Kind::Port), [Tested, Memory]),
        row!("port.wait", zx_port_wait, Some(Kind::Port), [Tested, Number(0), Optional]),
        row!("port.cancel", zx_port_cancel, Some(Kind::Port), [Tested, Good(Kind::Event), Number(1)]),
        row!("fifo.write", zx_fifo_write, Some(Kind::Fifo), [Tested, Number(8), Memory, Number(1), Optional]),
        row!("fifo.read", zx_fifo_read, Some(Kind::Fifo), [Tested, Number(8), Memory, Number(1), Optional]),
    ]
}

fn memory_rows() -> Vec<Row> {
    const VMO: Option<Kind> = Some(Kind::Vmo);
    const VMAR: Option<Kind> = Some(Kind::Vmar);
    vec![
        row!("vmo.read", zx_vmo_read, VMO, [Tested, Memory, Number(0), Number(8)]),
        row!("vmo.write", zx_vmo_write, VMO, [Tested, Memory, Number(0), Number(8)]),
        row!("vmo.get_size", zx_vmo_get_size, VMO, [Tested, Memory]),
        row!("vmo.set_size", zx_vmo_set_size, VMO, [Tested, Number(8192)]),
        row!("vmo.get_stream_size", zx_vmo_get_stream_size, VMO, [Tested, Memory]),
        row!("vmo.set_stream_size", zx_vmo_set_stream_size, VMO, [Tested, Number(0)]),
        row!(
            "vmo.op_range",
            zx_vmo_op_range,
            VMO,
            [Tested, Number(abi::ZX_VMO_OP_COMMIT as u64), Number(0), Number(4096), Number(0), Number(0)]
        ),
        row!(
            "vmo.create_child",
            zx_vmo_create_child,
            VMO,
            [Tested, Number(abi::ZX_VMO_CHILD_SLICE as u64), Number(0), Number(4096), Memory]
        ),
        row!("vmar.allocate", zx_vmar_allocate, VMAR, [Tested, Number(0), Number(0), Number(4096), Memory, Memory]),
        row!(
            "vmar.map",
            zx_vmar_map,
            VMAR,
            [Tested, Number(READ), Number(0), Good(Kind::Vmo), Number(0), Number(4096), Memory]
        ),
        row!(
            "vmar.map_vmo",
            zx_vmar_map,
            VMO,
            [Good(Kind::Vmar), Number(READ), Number(0), Tested, Number(0), Number(4096), Memory]
        ),
        row!("vmar.unmap", zx_vmar_unmap, VMAR, [Tested, Number(0x10_0000_0000), Number(4096)]),
        row!("vmar.protect", zx_vmar_protect, VMAR, [Tested, Number(READ), Number(0x10_0000_0000), Number(4096)]),
        row!("vmar.destroy", zx_vmar_destroy, VMAR, [Tested]),
    ]
}

fn task_rows() -> Vec<Row> {
    const PROCESS: Option<Kind> = Some(Kind::Process);
    vec![
        row!("thread.create", zx_thread_create, PROCESS, [Tested, Memory, Number(4), Number(0), Memory]),
        row!(
            "thread.start",
            zx_thread_start,
            Some(Kind::Thread),
            [Tested, Number(0x100_0000), Number(0), Number(0), Number(0)]
        ),
        row!(
            "process.create",
            zx_process_create,
            Some(Kind::Job),
            [Tested, Memory, Number(4), Number(0), Memory, Memory]
        ),
        row!(
            "process.start",
            zx_process_start,
            PROCESS,
            [Tested, Good(Kind::Thread), Number(0x100_0000), Number(0), Number(0), Number(0)]
        ),
        row!("job.create", zx_job_create, Some(Kind::Job), [Tested, Number(0), Memory]),
        row!("task.kill", zx_task_kill, None, [Tested]),
    ]
}

fn create_rows() -> Vec<Row> {
    vec![
        row!("channel.create", zx_channel_create, None, [Number(0), Memory, Memory]),
        row!("socket.create", zx_socket_create, None, [Number(0), Memory, Memory]),
        row!("event.create", zx_event_create, None, [Number(0), Memory]),
        row!("eventpair.create", zx_eventpair_create, None, [Number(0), Memory, Memory]),
        row!("port.create", zx_port_create, None, [Number(0), Memory]),
        row!("timer.create", zx_timer_create, None, [Number(0), Number(0), Memory]),
        row!("fifo.create", zx_fifo_create, None, [Number(8), Number(8), Number(0), Memory, Memory]),
        row!("counter.create", zx_counter_create, None, [Number(0), Memory]),
        row!("vmo.create", zx_vmo_create, None, [Number(4096), Number(0), Memory]),
        row!("handle.close_many", zx_handle_close_many, None, [Memory, Number(1)]),
        row!("object.wait_many", zx_object_wait_many, None, [Memory, Number(1), Number(0)]),
        row!("futex.wait", zx_futex_wait, None, [Memory, Number(0), Number(0), Number(0)]),
    ]
}

/// An object in a state in which every call has something to do, and what must live as long.
struct Fixture {
    handle: Handle,
    _others: Vec<Handle>,
}

fn fixture(kind: Kind) -> zx::Result<Fixture> {
    let one = |handle: Handle| Fixture { handle, _others: Vec::new() };
    let two = |a: Handle, b: Handle| Fixture { handle: a, _others: vec![b] };
    let job = || zx::startup::job_default().ok_or(Status::NOT_FOUND);
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
            let port = Port::create()?;
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
        Kind::Counter => one(Counter::create()?.into()),
        Kind::Clock => one(Clock::create(abi::ZX_CLOCK_OPT_AUTO_START)?.into()),
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
    })
}

impl Row {
    /// The kind of object that the tested handle is, when it is a good one.
    fn good_kind(&self) -> Kind {
        // A memory object has everything that a call on any object may want, such as a name.
        self.kind.unwrap_or(Kind::Vmo)
    }

    fn has_handle(&self) -> bool {
        self.arguments.iter().any(|argument| matches!(argument, Tested))
    }

    /// Makes the call with the tested handle, and with `address` in the place of pointer `exchanged`.
    fn call(&self, tested: u32, exchanged: Option<(usize, u64)>) -> zx::Result<Status> {
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
                Memory | Optional => match exchanged {
                    Some((place, address)) if place == index => address,
                    _ => memory[index].as_mut_ptr() as u64,
                },
                Number(number) => *number,
            });
        }
        Ok(Status(zx::probe::call(self.function, &words) as i32))
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
            let status = self.call(fixture.handle.raw_handle(), None)?;
            if status != Status::WRONG_TYPE {
                return Err(format!("a handle to a {kind:?} gave {status}, expected ZX_ERR_WRONG_TYPE").into());
            }
        }
        Ok(())
    }

    fn bad_pointer(&self) -> Outcome {
        for (index, argument) in self.arguments.iter().enumerate() {
            if !matches!(argument, Memory | Optional) {
                continue;
            }
            for address in NOWHERE {
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
            }
        }
        // The system lives, and so does this process.
        zx::nanosleep(MonotonicInstant::ZERO)?;
        Ok(())
    }
}

/// What a call answers to arguments that would do, for each row that it has.
pub fn answers(function: usize) -> zx::Result<Vec<Status>> {
    rows()
        .iter()
        .filter(|row| row.function == function)
        .map(|row| {
            let fixture = fixture(row.good_kind())?;
            row.call(fixture.handle.raw_handle(), None)
        })
        .collect()
}

/// The cases of all rows.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let count = rows().len();
    for index in 0..count {
        let row = &rows()[index];
        let mut add = |what: &str, run: fn(&Row) -> Outcome| {
            cases.push(Case::new(&format!("{}.{what}", row.name), move || run(&rows()[index])));
        };
        if row.has_handle() {
            add("bad_handle", Row::bad_handle);
        }
        if row.kind.is_some() {
            add("wrong_type", Row::wrong_type);
        }
        if row.arguments.iter().any(|argument| matches!(argument, Memory | Optional)) {
            add("bad_pointer", Row::bad_pointer);
        }
    }
    cases
}
