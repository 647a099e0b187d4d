//! The scenes: they create every kind of object and use it in a way that takes memory.
//!
//! A scene ends with the first call that fails, and drops what it has created; so it must be written such that it ends,
//! whichever call fails. It never waits without a deadline.

use std::process::{Command, Stdio};
use std::sync::atomic::AtomicU32;
use std::thread;

use abi::{
    Rights, Status, ZX_EXCEPTION_STATE_HANDLED, ZX_VM_PERM_READ, ZX_VM_PERM_WRITE, ZX_VMO_CHILD_SNAPSHOT,
    ZX_VMO_OP_COMMIT, ZX_VMO_OP_ZERO, ZX_VMO_RESIZABLE,
};
use conformance::caught_exception::UNDEFINED;
use conformance::check::{Failure, Outcome, ensure, equal};
use conformance::test_process::{OwnJob, SPIN, TestProcess};
use zx::{
    AsHandleRef, Channel, Clock, Counter, Duration, Event, EventPair, Exception, Fifo, Handle, Interrupt, Iob, Job,
    MonotonicInstant, Pager, Port, Signals, Socket, Stream, Timer, Vmo,
};

/// The argument after `--child` that makes a program end at once.
pub const NOTHING: &str = "nothing";

/// A scene.
type Scene = fn() -> Outcome;

/// All scenes by name.
pub const ALL: &[(&str, Scene)] = &[
    ("exceptions", exceptions),
    ("handles", handles),
    ("large", large),
    ("mappings", mappings),
    ("memory", memory),
    ("messages", messages),
    ("objects", objects),
    ("pagers", pagers),
    ("processes", processes),
    ("programs", programs),
    ("threads", threads),
    ("waits", waits),
];

const PAGE: u64 = 4096;

fn soon() -> MonotonicInstant {
    MonotonicInstant::after(Duration::from_seconds(5))
}

/// One of each kind.
fn objects() -> Outcome {
    let vmo = Vmo::create(3 * PAGE, ZX_VMO_RESIZABLE)?;
    let stream = Stream::create(abi::ZX_STREAM_MODE_READ | abi::ZX_STREAM_MODE_WRITE, &vmo, 0)?;
    // A short write: there was memory for a part of the bytes only.
    if stream.write(&[7; 9000])? < 9000 {
        return Err(Status::NO_MEMORY.into());
    }
    let pair = EventPair::create()?;
    let _all = (Event::create()?, Channel::create()?, Socket::create(0)?, Fifo::create(64, 16)?, Port::create()?);
    let _more = (Timer::create(0)?, Counter::create()?, Clock::create(abi::ZX_CLOCK_OPT_MAPPABLE)?, Pager::create()?);
    let _iob =
        Iob::create(&[Iob::private_region(abi::ZX_IOB_ACCESS_EP0_CAN_MAP_READ, 2 * PAGE, zx::IobDiscipline::None)])?;
    let _interrupt = Interrupt::create_virtual()?;
    let _job = zx::startup::job_default().ok_or("there is no default job")?.create_child()?;
    drop(pair);
    Ok(())
}

/// Many handles.
fn handles() -> Outcome {
    let event = Event::create()?;
    let many = (0..300).map(|_| event.duplicate(Rights::SAME_RIGHTS)).collect::<zx::Result<Vec<_>>>()?;
    let (a, b) = Channel::create()?;
    let sent: Vec<Handle> = many.into_iter().take(64).map(Handle::from).collect();
    a.write_handles(b"", sent)?;
    let mut got = [const { None }; 64];
    equal(b.read(&mut [], &mut got).map_err(|(status, _)| status)?.handles, 64)
}

/// Messages, bytes and packets that are queued for their readers.
fn messages() -> Outcome {
    let (a, b) = Channel::create()?;
    for size in [0, 10, 100, 1000, 10_000, 65_536, 20_000] {
        a.write(&vec![1; size], [Event::create()?.into()])?;
    }
    let (mut bytes, mut handles) = (vec![0; 65_536], [None]);
    for size in [0, 10, 100, 1000] {
        equal(b.read(&mut bytes, &mut handles).map_err(|(status, _)| status)?.bytes, size)?;
    }
    let (c, d) = Socket::create(0)?;
    if c.write(&vec![2; 100_000])? < 100_000 {
        return Err(Status::NO_MEMORY.into());
    }
    equal(d.read(&mut bytes)?, 65_536)?;
    let (e, _f) = Socket::create(abi::ZX_SOCKET_DATAGRAM)?;
    for _ in 0..20 {
        e.write(&[3; 500])?;
    }
    let (g, _h) = Fifo::create(128, 32)?;
    equal(g.write(32, &[4; 32 * 100])?, 100)?;
    let port = Port::create()?;
    for _ in 0..100 {
        port.queue(&abi::zx_port_packet_t::default())?;
    }
    Ok(())
}

/// Memory that is written, cloned, shrunk and grown.
fn memory() -> Outcome {
    let vmo = Vmo::create(200 * PAGE, ZX_VMO_RESIZABLE)?;
    for page in [0_u64, 1, 63, 64, 130] {
        vmo.write(&page.to_le_bytes(), page * PAGE)?;
    }
    let first = vmo.create_child(ZX_VMO_CHILD_SNAPSHOT, 0, 150 * PAGE)?;
    vmo.write(&[9; 8], 0)?;
    let second = first.create_child(ZX_VMO_CHILD_SNAPSHOT, PAGE, 100 * PAGE)?;
    second.write(&[9; 8], 62 * PAGE)?;
    first.op_range(ZX_VMO_OP_COMMIT, 0, 20 * PAGE)?;
    vmo.op_range(ZX_VMO_OP_ZERO, 8, 70 * PAGE)?;
    vmo.set_size(400 * PAGE)?;
    vmo.op_range(ZX_VMO_OP_COMMIT, 380 * PAGE, 20 * PAGE)?;
    let other = Vmo::create(100 * PAGE, 0)?;
    other.transfer_data(3 * PAGE, 20 * PAGE, &vmo, 380 * PAGE)?;
    let mut word = [0; 8];
    first.read(&mut word, 64 * PAGE)?;
    equal(u64::from_le_bytes(word), 64)?;
    second.read(&mut word, 0)?;
    equal(u64::from_le_bytes(word), 1)
}

/// Memory of several large pages.
fn large() -> Outcome {
    const LARGE: u64 = 2 << 20;
    let vmo = Vmo::create(3 * LARGE, 0)?;
    vmo.op_range(ZX_VMO_OP_COMMIT, 0, 3 * LARGE)?;
    let root = zx::startup::vmar_root_self();
    let mapping = root.map_here(ZX_VM_PERM_READ | ZX_VM_PERM_WRITE, &vmo, 0, 3 * LARGE as usize)?;
    root.op_range(abi::ZX_VMAR_OP_MAP_RANGE, mapping.address(), mapping.len())?;
    vmo.op_range(abi::ZX_VMO_OP_DECOMMIT, LARGE + PAGE, PAGE)?;
    let clone = vmo.create_child(ZX_VMO_CHILD_SNAPSHOT, 0, LARGE)?;
    vmo.write(&[1; 8], 5 * PAGE)?;
    clone.write(&[1; 8], 7 * PAGE)?;
    root.unmap(mapping.address() + PAGE as usize, PAGE as usize)?;
    mapping.write(LARGE as usize, &[1; 8])?;
    Ok(())
}

/// Mappings that are touched, split and protected.
fn mappings() -> Outcome {
    let root = zx::startup::vmar_root_self();
    let vmo = Vmo::create(64 * PAGE, 0)?;
    let both = ZX_VM_PERM_READ | ZX_VM_PERM_WRITE;
    let mapping = root.map_here(both, &vmo, 0, 64 * PAGE as usize)?;
    for page in (0..64).step_by(9) {
        mapping.write(page * PAGE as usize, &[1; 8])?;
    }
    let again = root.map_here(both, &vmo, 0, 64 * PAGE as usize)?;
    root.op_range(abi::ZX_VMAR_OP_MAP_RANGE, again.address(), again.len())?;
    let clone = vmo.create_child(ZX_VMO_CHILD_SNAPSHOT, 0, 64 * PAGE)?;
    let copy = root.map_here(both, &clone, 0, 64 * PAGE as usize)?;
    copy.write(9 * PAGE as usize, &[2; 8])?;
    mapping.write(18 * PAGE as usize, &[2; 8])?;
    root.protect(ZX_VM_PERM_READ, again.address() + 8 * PAGE as usize, 16 * PAGE as usize)?;
    let (region, _) = root.allocate(abi::ZX_VM_CAN_MAP_READ | abi::ZX_VM_CAN_MAP_SPECIFIC, 0, 1 << 30)?;
    let mut result = Ok(());
    for place in 0..8 {
        let at = place * ((1 << 30) / 8);
        result = result.and(region.map(ZX_VM_PERM_READ | abi::ZX_VM_SPECIFIC, at, &vmo, 0, PAGE as usize).map(drop));
    }
    // The mappings end with the region only if the region is destroyed.
    region.destroy()?;
    Ok(result?)
}

/// Processes of a few instructions, in nested jobs.
fn processes() -> Outcome {
    let job = own_job()?;
    let below = OwnJob::below(&job)?;
    for _ in 0..3 {
        let tiny = TestProcess::in_job(&below, UNDEFINED)?;
        let exceptions = tiny.process.create_exception_channel(0)?;
        // Before the first thread runs: its exception may end it.
        let _other = tiny.process.create_thread("other")?;
        tiny.start(None, 0)?;
        // Its first instruction is on a page whose allocation may fail, too.
        let told = Exception::receive(&exceptions, soon());
        tiny.process.kill()?;
        // An exception that could not be delivered here went to the next handler, or ended the process.
        told.map_err(|_| Status::NO_MEMORY)?;
        tiny.end()?;
    }
    let spins = TestProcess::in_job(&below, SPIN)?;
    spins.start(None, 0)?;
    job.kill()?;
    spins.end()?;
    Ok(())
}

fn own_job() -> Result<OwnJob, Failure> {
    OwnJob::below(&*default_job()?)
}

fn default_job() -> Result<zx::Unowned<'static, Job>, Failure> {
    zx::startup::job_default().ok_or_else(|| "there is no default job".into())
}

/// Exceptions for each kind of handler.
fn exceptions() -> Outcome {
    let job = own_job()?;
    let tiny = TestProcess::in_job(&job, UNDEFINED)?;
    let channels = [
        job.create_exception_channel(0)?,
        tiny.process.create_exception_channel(0)?,
        tiny.thread.create_exception_channel(0)?,
        tiny.process.create_exception_channel(abi::ZX_EXCEPTION_CHANNEL_DEBUGGER)?,
    ];
    tiny.start(None, 0)?;
    // The start of a thread goes to the debugger; the exception of its first instruction goes to all handlers in turn.
    for (number, channel) in [3, 3, 2, 1, 0].into_iter().zip(0..) {
        let (exception, _) = match Exception::receive(&channels[number], soon()) {
            Ok(received) => received,
            // An exception that could not be delivered went to the next handler, or ended the process.
            Err(Status::TIMED_OUT | Status::PEER_CLOSED) => return Err(Status::NO_MEMORY.into()),
            Err(status) => return Err(status.into()),
        };
        exception.thread()?.exception_report()?;
        if channel == 0 {
            exception.set_state(ZX_EXCEPTION_STATE_HANDLED)?;
        }
    }
    tiny.end()?;
    Ok(())
}

/// Threads of this process.
fn threads() -> Outcome {
    let (a, b) = Channel::create()?;
    let make = |_| {
        // The thread still runs when it is joined, so that the join requests memory, too.
        let made = thread::Builder::new()
            .stack_size(64 << 10)
            .spawn(|| _ = zx::nanosleep(MonotonicInstant::after(Duration::from_millis(1))));
        made.map_err(|error| Failure::from(format!("NO_MEMORY for a thread: {error}")))
    };
    // Joins the threads that were created, also if others were not.
    let made: Vec<_> = (0..4).map(make).collect();
    let joined: Vec<_> = made.into_iter().map(|made| made.map(|thread| thread.join().is_ok())).collect();
    for joined in joined {
        ensure(joined?, "a thread panicked")?;
    }
    a.write(b"", [])?;
    b.read(&mut [], &mut []).map_err(|(status, _)| status)?;
    Ok(())
}

/// Programs, with everything that `std` does for them.
fn programs() -> Outcome {
    let program = std::env::args().next().ok_or("this program does not know its name")?;
    let started = Command::new(program).args(["--child", NOTHING]).stdout(Stdio::piped()).output();
    let output = started.map_err(|error| Failure::from(format!("NO_MEMORY for a program: {error}")))?;
    // A program reports by its exit code that one of its requests failed.
    if output.status.success() { Ok(()) } else { Err(format!("NO_MEMORY in a program: {}", output.status).into()) }
}

/// Memory whose pages this process supplies.
fn pagers() -> Outcome {
    let (pager, port) = (Pager::create()?, Port::create()?);
    let vmo = pager.create_vmo(ZX_VMO_RESIZABLE | abi::ZX_VMO_TRAP_DIRTY, &port, 1, 80 * PAGE)?;
    let reader = vmo.duplicate(Rights::SAME_RIGHTS)?;
    let reads = thread::Builder::new().stack_size(64 << 10).spawn(move || {
        let mut bytes = [0; 8];
        reader.read(&mut bytes, 3 * PAGE)?;
        reader.read(&mut bytes, 70 * PAGE)?;
        reader.write(&bytes, 70 * PAGE)
    });
    let reads = reads.map_err(|error| Failure::from(format!("NO_MEMORY for a thread: {error}")))?;
    let supplied = supply(&pager, &port, &vmo);
    // Any reader that still waits learns that no pages will come.
    while pager.detach_vmo(&vmo) == Err(Status::NO_MEMORY) {}
    let read = reads.join().map_err(|_| "a reader panicked")?;
    supplied?;
    match read {
        Err(Status::BAD_STATE | Status::NO_MEMORY) => Err(Status::NO_MEMORY.into()),
        read => Ok(read?),
    }
}

fn supply(pager: &Pager, port: &Port, vmo: &Vmo) -> Outcome {
    for _ in 0..3 {
        let packet = match port.wait(MonotonicInstant::after(Duration::from_millis(200))) {
            // A request of the reader failed, and it asks for no more pages.
            Err(Status::TIMED_OUT) => return Err(Status::NO_MEMORY.into()),
            packet => packet?,
        };
        let [command, offset, length, _] = packet.payload;
        match command as u16 {
            abi::ZX_PAGER_VMO_READ => {
                let aux = Vmo::create(length, 0)?;
                aux.op_range(ZX_VMO_OP_COMMIT, 0, length)?;
                pager.supply_pages(vmo, offset, length, &aux, 0)?;
            }
            _ => pager.op_range(abi::ZX_PAGER_OP_DIRTY, vmo, offset, length, 0)?,
        }
    }
    let mut ranges = [abi::zx_vmo_dirty_range_t::default(); 4];
    pager.query_dirty_ranges(vmo, 0, 80 * PAGE, &mut ranges)?;
    pager.op_range(abi::ZX_PAGER_OP_WRITEBACK_BEGIN, vmo, 70 * PAGE, PAGE, 0)?;
    Ok(pager.op_range(abi::ZX_PAGER_OP_WRITEBACK_END, vmo, 70 * PAGE, PAGE, 0)?)
}

static WORD: AtomicU32 = AtomicU32::new(0);

/// Waits of all kinds.
fn waits() -> Outcome {
    let (event, port) = (Event::create()?, Port::create()?);
    let timers = (0..70).map(|_| Timer::create(0)).collect::<zx::Result<Vec<_>>>()?;
    for (timer, key) in timers.iter().zip(0..) {
        timer.wait_async(&port, key, Signals::TIMER_SIGNALED, 0)?;
        timer.set(MonotonicInstant::after(Duration::from_micros(500)), Duration::from_nanos(0))?;
    }
    for _ in 0..70 {
        port.wait(soon())?;
    }
    let past = || MonotonicInstant::after(Duration::from_micros(50));
    for result in [
        event.wait_one(Signals::USER_0, past()).map(drop),
        port.wait(past()).map(drop),
        zx::futex_wait(&WORD, 0, None, past()),
        wait_for_many(&event, past()),
    ] {
        match result {
            Err(Status::TIMED_OUT) => {}
            result => result?,
        }
    }
    for key in 0..70 {
        event.wait_async(&port, key, Signals::USER_0, 0)?;
    }
    event.signal(Signals::empty(), Signals::USER_0)?;
    for _ in 0..70 {
        port.wait(soon())?;
    }
    Ok(())
}

fn wait_for_many(event: &Event, deadline: MonotonicInstant) -> zx::Result<()> {
    let item = || abi::zx_wait_item_t { handle: event.raw_handle(), waitfor: Signals::USER_1.bits(), pending: 0 };
    zx::wait_many(&mut [(); 8].map(|()| item()), deadline)
}
