//! Shared processes: they share the upper half of their address spaces, their handles and their futexes; each has a
//! lower half of its own. Restricted mode, for which they exist, is in `restricted_shared.rs`.

use std::os::fd::AsFd;
use std::sync::{Arc, Barrier, Condvar, Mutex, mpsc};
use std::thread::{self, JoinHandle};

use abi::{
    PA_USER0, Rights, Status, ZX_EXCP_FATAL_PAGE_FAULT, ZX_INFO_MAPS_TYPE_VMAR, ZX_INFO_PROCESS_MAPS,
    ZX_PROCESS_SHARED, ZX_TASK_RETCODE_EXCEPTION_KILL, ZX_VM_SPECIFIC, zx_info_maps_t,
};
use libc_probe::c11::{thrd_get_zx_process, thrd_set_zx_process};
use zx::spawn::Spawn;
use zx::{AsHandleRef, Event, EventPair, Handle, Info, MonotonicInstant, Process, Signals, Unowned, Vmar, Vmo};

use super::restricted::{PAGE, READ_WRITE, ROOT};
use super::{cases, raw, restricted_shared, without};
use crate::caught_exception::catch_type;
use crate::check::{Failure, Outcome, ensure, equal, fails, gives};
use crate::test_process::{KILLED, OwnJob, koid};

cases! {
    "process.create_shared.arguments" => arguments,
    "process.create_shared.halves" => halves,
    "process.create_shared.ended" => ended,
    "process.create_shared.maps" => maps,
    "process.create_shared.threads" => || inside("threads"),
    "process.create_shared.futexes" => || inside("futexes"),
    "process.create_shared.exits" => || inside("exits"),
    "process.create_shared.killed_while_it_waits" => || inside("killed-while-it-waits"),
    "process.create_shared.crash" => || inside("crash"),
    "process.create_shared.unmapped_under" => || inside("unmapped-under"),
    "process.create_shared.many" => || inside("many"),
    "process.create_shared.outlives" => outlives,
    "process.create_shared.killed_together" => killed_together,
}

/// Where the shared half begins.
const HALF: usize = 1 << 46;

/// Starts this program in a process that others can share; `what` and `handle` say what it does.
fn started(what: &str, handle: Option<Handle>) -> Result<Process, Failure> {
    let program = std::env::args().next().unwrap_or_else(|| "/boot/bin/conformance".to_owned());
    let mut spawn = Spawn::file(&program);
    spawn.arg(&program).arg("--child").arg("shared").arg(what).to_share();
    let error = std::io::stderr();
    spawn.descriptor_like(2, error.as_fd());
    if let Some(handle) = handle {
        spawn.handle(PA_USER0, handle);
    }
    spawn.start().map_err(|(status, why)| format!("{status}: {why}").into())
}

fn end(process: &Process) -> Result<i64, Failure> {
    process.wait_one(Signals::TASK_TERMINATED, MonotonicInstant::INFINITE)?;
    Ok(process.info()?.return_code)
}

/// Runs a case in a process that others can share.
pub(super) fn inside(what: &str) -> Outcome {
    equal(end(&started(what, None)?)?, 0)
}

/// Runs in that process.
pub fn child(what: &str) -> i32 {
    let done = match what {
        "threads" => threads(),
        "futexes" => futexes(),
        "exits" => exits(),
        "killed-while-it-waits" => killed_while_it_waits(),
        "crash" => crash(),
        "unmapped-under" => unmapped_under(),
        "many" => many(),
        "outlives" => outliving(),
        "killed-together" => waiting(),
        "execute" => super::vmar_execute::shared(),
        what => restricted_shared::child(what),
    };
    match done {
        Ok(()) => 0,
        Err(failure) => {
            eprintln!("{what}, in a process to be shared: {failure}");
            1
        }
    }
}

/// A process that shares with this one.
pub(super) struct Member {
    pub(super) process: Process,
    /// The root VMAR of its lower half.
    pub(super) vmar: Vmar,
}

impl Member {
    pub(super) fn new() -> Result<Self, Failure> {
        let (process, vmar) = zx::startup::process_self().create_shared("member")?;
        Ok(Self { process, vmar })
    }

    /// Another handle to the root VMAR of its lower half.
    pub(super) fn lower(&self) -> Result<Vmar, Failure> {
        Ok(Vmar::from(self.vmar.duplicate_handle(Rights::SAME_RIGHTS)?))
    }

    /// Runs `what` in a new thread of it. The process ends with its last thread.
    pub(super) fn runs<T: Send + 'static>(&self, what: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        let before = thrd_set_zx_process(self.process.raw_handle());
        let thread = thread::spawn(what);
        thrd_set_zx_process(before);
        thread
    }

    /// Runs `what` in a new thread of it and waits for the result.
    pub(super) fn does<T: Send + 'static>(
        &self,
        what: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        self.runs(what).join().map_err(|_| "it panicked")?
    }
}

fn job() -> Result<OwnJob, Failure> {
    OwnJob::new()
}

fn arguments() -> Outcome {
    let job = job()?;
    let (first, root) = job.create_shared_process("first")?;
    equal((root.info()?.base, root.info()?.base + root.info()?.len), (HALF, ROOT.info()?.base + ROOT.info()?.len))?;
    let create = |handle: u32, options: u32, outs: [u64; 2]| {
        raw!(zx_process_create_shared, handle, options, b"x".as_ptr(), 1, outs[0], outs[1])
    };
    let mut out = [0_u32; 2];
    let [a, b] = &mut out;
    let outs = [&raw mut *a as u64, &raw mut *b as u64];
    for options in [ZX_PROCESS_SHARED, 2, u32::MAX] {
        gives(create(first.raw_handle(), options, outs), Status::INVALID_ARGS)?;
    }
    for outs in [[outs[0], 0], [0, outs[1]], [1 << 47, outs[1]]] {
        gives(create(first.raw_handle(), 0, outs), Status::INVALID_ARGS)?;
    }
    gives(create(0, 0, outs), Status::BAD_HANDLE)?;
    gives(create(job.raw_handle(), 0, outs), Status::WRONG_TYPE)?;
    gives(create(zx::startup::process_self().raw_handle(), 0, outs), Status::INVALID_ARGS)?;
    for right in [Rights::MANAGE_PROCESS, Rights::GET_PROPERTY] {
        fails(Process::from(without(&first, right)?).create_shared("no"), Status::ACCESS_DENIED)?;
    }
    let (second, lower) = first.create_shared("second")?;
    let info = lower.info()?;
    equal((info.base, info.base + info.len), (ROOT.info()?.base, HALF))?;
    equal(second.get_name()?[..7].to_vec(), b"second\0".to_vec())?;
    equal(second.basic_info()?.rights, first.basic_info()?.rights)?;
    equal(lower.basic_info()?.rights, root.basic_info()?.rights)?;
    equal(second.basic_info()?.related_koid, koid(&*job)?)?;
    // No mapping can lie beyond the half.
    let vmo = Vmo::create(PAGE, 0)?;
    fails(lower.map(READ_WRITE | ZX_VM_SPECIFIC, info.len, &vmo, 0, PAGE as usize), Status::INVALID_ARGS)?;
    fails(
        root.map(READ_WRITE | ZX_VM_SPECIFIC, 0usize.wrapping_sub(PAGE as usize), &vmo, 0, PAGE as usize),
        Status::INVALID_ARGS,
    )?;
    let last = lower.map(READ_WRITE | ZX_VM_SPECIFIC, info.len - PAGE as usize, &vmo, 0, PAGE as usize)?;
    equal(last + PAGE as usize, HALF)
}

fn byte(process: &Process, at: usize) -> Result<u8, Failure> {
    let mut byte = [0];
    process.read_memory(at, &mut byte)?;
    Ok(byte[0])
}

/// A mapping in the shared half is visible to all, including later processes, until it is unmapped; the lower halves
/// are separate.
fn halves() -> Outcome {
    let job = job()?;
    let (first, root) = job.create_shared_process("first")?;
    let (second, lower) = first.create_shared("second")?;
    let vmo = Vmo::create(2 * PAGE, 0)?;
    let common = root.map(READ_WRITE, 0, &vmo, 0, 2 * PAGE as usize)?;
    let (third, other) = second.create_shared("third")?;
    for (value, writer) in (1..).zip([&first, &second, &third]) {
        writer.write_memory(common, &[value])?;
        for reader in [&first, &second, &third] {
            equal(byte(reader, common)?, value)?;
        }
    }
    let at = [&lower, &other].map(|vmar| -> Result<usize, Failure> {
        Ok(vmar.map(READ_WRITE | ZX_VM_SPECIFIC, 0x1000, &Vmo::create(PAGE, 0)?, 0, PAGE as usize)?)
    });
    let [Ok(at), Ok(same)] = at else { return Err("a lower half cannot be mapped".into()) };
    equal(at, same)?;
    second.write_memory(at, &[22])?;
    third.write_memory(at, &[33])?;
    equal((byte(&second, at)?, byte(&third, at)?), (22, 33))?;
    fails(first.read_memory(at, &mut [0]), Status::NO_MEMORY)?;
    root.unmap(common, PAGE as usize)?;
    for process in [&first, &second, &third] {
        fails(process.read_memory(common, &mut [0]), Status::NO_MEMORY)?;
        equal(byte(process, common + PAGE as usize)?, 0)?;
    }
    Ok(())
}

/// Processes that share can end one by one; the shared half is destroyed with the last one.
fn ended() -> Outcome {
    let job = job()?;
    let (first, root) = job.create_shared_process("first")?;
    let (second, lower) = first.create_shared("second")?;
    let vmo = Vmo::create(PAGE, 0)?;
    let common = root.map(READ_WRITE, 0, &vmo, 0, PAGE as usize)?;
    lower.map(READ_WRITE, 0, &vmo, 0, PAGE as usize)?;
    first.kill()?;
    equal(end(&first)?, KILLED)?;
    fails(first.read_memory(common, &mut [0]), Status::BAD_STATE)?;
    second.write_memory(common, &[7])?;
    let (third, _) = first.create_shared("third")?;
    equal(byte(&third, common)?, 7)?;
    root.map(READ_WRITE, 0, &vmo, 0, PAGE as usize)?;
    second.kill()?;
    equal(end(&second)?, KILLED)?;
    fails(lower.map(READ_WRITE, 0, &vmo, 0, PAGE as usize), Status::BAD_STATE)?;
    third.kill()?;
    equal(end(&third)?, KILLED)?;
    fails(root.map(READ_WRITE, 0, &vmo, 0, PAGE as usize), Status::BAD_STATE)?;
    for process in [&first, &second, &third] {
        fails(process.create_shared("late"), Status::BAD_STATE)?;
    }
    // A process that was never started ends as well when its last handle is closed.
    let (first, root) = job.create_shared_process("first")?;
    let (second, _) = first.create_shared("second")?;
    drop(first);
    let (third, _) = second.create_shared("third")?;
    drop(second);
    drop(third);
    fails(root.map(READ_WRITE, 0, &vmo, 0, PAGE as usize), Status::BAD_STATE)
}

/// `ZX_INFO_PROCESS_MAPS` of a member lists both halves, sorted by address.
fn maps() -> Outcome {
    let job = job()?;
    let (first, root) = job.create_shared_process("first")?;
    let (second, lower) = first.create_shared("second")?;
    let vmo = Vmo::create(3 * PAGE, 0)?;
    vmo.set_name("mapped")?;
    let below = lower.map(READ_WRITE, 0, &vmo, 0, PAGE as usize)?;
    let (nested, _) = root.allocate(abi::ZX_VM_CAN_MAP_READ | abi::ZX_VM_CAN_MAP_WRITE, 0, 0x10_0000)?;
    let above = nested.map(READ_WRITE, 0, &vmo, PAGE, 2 * PAGE as usize)?;
    let told = |process: &Process| -> Result<Vec<(usize, usize, usize)>, Failure> {
        let mut maps = vec![zx_info_maps_t::default(); 16];
        let size = process.get_info_records(ZX_INFO_PROCESS_MAPS, &mut maps)?;
        equal(size.actual, size.avail)?;
        maps.truncate(size.actual);
        Ok(maps.iter().map(|map| (map.depth, map.base, map.base + map.size)).collect())
    };
    let (base, top) = (ROOT.info()?.base, ROOT.info()?.base + ROOT.info()?.len);
    let region = nested.info()?;
    let upper = [(1, HALF, top), (2, region.base, region.base + region.len), (3, above, above + 2 * PAGE as usize)];
    equal(told(&first)?, [&[(0, base, top)][..], &upper].concat())?;
    let own = [(0, base, top), (1, base, HALF), (2, below, below + PAGE as usize)];
    equal(told(&second)?, [&own[..], &upper].concat())?;
    equal(second.task_stats()?.mem_mapped_bytes, 3 * PAGE as usize)?;
    equal(first.task_stats()?.mem_mapped_bytes, 2 * PAGE as usize)?;
    // A caller with little room reads one record at a time.
    let mut one = [zx_info_maps_t::default()];
    let size = second.get_info_records(ZX_INFO_PROCESS_MAPS, &mut one)?;
    equal((size.actual, size.avail, one[0].type_ == ZX_INFO_MAPS_TYPE_VMAR), (1, 6, false))
}

/// A thread of a member belongs to that member's process, and uses the shared handles.
fn threads() -> Outcome {
    let member = Member::new()?;
    let event = Event::create()?;
    let (raw_event, own) = (event.raw_handle(), koid(&*zx::startup::process_self())?);
    let theirs = koid(&member.process)?;
    ensure(own != theirs, "it is this process")?;
    let (made, of, inner) = member.does(move || {
        let of = zx::startup::thread_self().basic_info()?.related_koid;
        Unowned::<Event>::from_raw(raw_event).ok_or("no handle")?.signal(Signals::NONE, Signals::USER_1)?;
        // A thread that it creates belongs to the same process.
        let set = thrd_get_zx_process();
        let inner = thread::spawn(|| zx::startup::thread_self().basic_info().map(|basic| basic.related_koid));
        ensure(set != zx::startup::process_self().raw_handle(), "it makes threads elsewhere")?;
        let inner = inner.join().map_err(|_| "it panicked")??;
        Ok((Event::create()?.into_handle().into_raw(), of, inner))
    })?;
    equal((of, inner), (theirs, theirs))?;
    equal(event.signals()? & Signals::USER_1, Signals::USER_1)?;
    // A handle that the thread created is also a handle of this process, and outlives the member.
    equal(end(&member.process)?, 0)?;
    let made = Event::from(Handle::from_raw(made).ok_or("no handle")?);
    made.signal(Signals::NONE, Signals::USER_0)?;
    equal(zx::startup::thread_self().basic_info()?.related_koid, own)
}

/// Locks and condition variables work among threads of several processes, which wake each other.
fn futexes() -> Outcome {
    const TURNS: usize = 300;
    let members = [Member::new()?, Member::new()?];
    let state = Arc::new((Mutex::new(0_usize), Condvar::new()));
    let takes_turns = |me: usize| {
        let state = state.clone();
        move || {
            let (count, changed) = &*state;
            for _ in 0..TURNS {
                let mut count = changed.wait_while(count.lock().unwrap(), |count| *count % 3 != me).unwrap();
                *count += 1;
                changed.notify_all();
            }
        }
    };
    let threads = [members[0].runs(takes_turns(0)), members[1].runs(takes_turns(1)), thread::spawn(takes_turns(2))];
    for thread in threads {
        thread.join().map_err(|_| "it panicked")?;
    }
    let count = *state.0.lock().unwrap();
    equal(count, 3 * TURNS)
}

/// A member that exits or is killed ends alone.
fn exits() -> Outcome {
    let (leaves, stays) = (Member::new()?, Member::new()?);
    let (tell, told) = mpsc::channel::<u32>();
    let staying = stays.runs(move || told.iter().sum::<u32>());
    drop(leaves.runs(|| zx::process_exit(55)));
    equal(end(&leaves.process)?, 55)?;
    tell.send(3).map_err(|_| "it does not listen")?;
    let killed = Member::new()?;
    drop(killed.runs(|| {
        loop {
            std::hint::spin_loop();
        }
    }));
    killed.process.kill()?;
    equal(end(&killed.process)?, KILLED)?;
    tell.send(4).map_err(|_| "it does not listen")?;
    drop(tell);
    equal(staying.join().map_err(|_| "it panicked")?, 7)?;
    equal(end(&stays.process)?, 0)
}

/// A member is killed while one of its threads is the sole waiter of an object. Afterwards the shared handle works as
/// if no thread had waited.
fn killed_while_it_waits() -> Outcome {
    let (event, begins) = (Event::create()?, Event::create()?);
    let (handle, tells) = (event.raw_handle(), begins.raw_handle());
    let member = Member::new()?;
    drop(member.runs(move || {
        let _ = raw!(zx_object_signal, tells, 0, Signals::USER_0.bits());
        raw!(zx_object_wait_one, handle, Signals::USER_7.bits(), i64::MAX, 0)
    }));
    begins.wait_one(Signals::USER_0, MonotonicInstant::INFINITE)?;
    std::thread::sleep(std::time::Duration::from_millis(20));
    member.process.kill()?;
    equal(end(&member.process)?, KILLED)?;
    let handle = event.into_handle().into_raw();
    gives(raw!(zx_handle_close, handle), Status::OK)?;
    gives(raw!(zx_handle_close, handle), Status::BAD_HANDLE)
}

/// An exception of a member's thread goes to that member's exception channel, and ends that member alone.
fn crash() -> Outcome {
    let member = Member::new()?;
    let channel = member.process.create_exception_channel(0)?;
    let own = zx::startup::process_self().create_exception_channel(0)?;
    drop(member.runs(zx::probe::undefined_instruction));
    let caught = catch_type(&channel, abi::ZX_EXCP_UNDEFINED_INSTRUCTION)?;
    equal(caught.info.pid, koid(&member.process)?)?;
    equal(koid(&caught.exception.process()?)?, koid(&member.process)?)?;
    drop(caught);
    fails(own.wait_one(Signals::CHANNEL_READABLE, MonotonicInstant::ZERO), Status::TIMED_OUT)?;
    equal(end(&member.process)?, ZX_TASK_RETCODE_EXCEPTION_KILL)
}

/// Memory of the shared half is unmapped or made read-only for all processes while they use it.
fn unmapped_under() -> Outcome {
    for protects in [true, false] {
        let shared = ROOT.map_here(READ_WRITE, &Vmo::create(PAGE, 0)?, 0, PAGE as usize)?;
        let (at, barrier) = (shared.address(), Arc::new(Barrier::new(4)));
        let mut members = Vec::new();
        for _ in 0..3 {
            let (member, barrier) = (Member::new()?, barrier.clone());
            let channel = member.process.create_exception_channel(0)?;
            drop(member.runs(move || {
                zx::probe::write(at, 1);
                barrier.wait();
                loop {
                    zx::probe::write(at, 1);
                }
            }));
            members.push((member, channel));
        }
        barrier.wait();
        if protects {
            ROOT.protect(abi::ZX_VM_PERM_READ, at, PAGE as usize)?;
        } else {
            drop(shared);
        }
        for (member, channel) in members {
            let caught = catch_type(&channel, ZX_EXCP_FATAL_PAGE_FAULT)?;
            let report = caught.exception.thread()?.exception_report()?;
            equal(report.context.arch.cr2, at as u64)?;
            drop(caught);
            equal(end(&member.process)?, ZX_TASK_RETCODE_EXCEPTION_KILL)?;
        }
    }
    Ok(())
}

/// Many members at once, each with memory of its own at the same address.
fn many() -> Outcome {
    const MEMBERS: usize = 64;
    const AT: usize = 0x1000_0000;
    let barrier = Arc::new(Barrier::new(MEMBERS));
    let counts = Arc::new(Mutex::new(Vec::new()));
    let mut members = Vec::new();
    for n in 0..MEMBERS {
        let member = Member::new()?;
        let base = member.vmar.info()?.base;
        member.vmar.map(READ_WRITE | ZX_VM_SPECIFIC, AT - base, &Vmo::create(PAGE, 0)?, 0, PAGE as usize)?;
        let (barrier, counts) = (barrier.clone(), counts.clone());
        let thread = member.runs(move || {
            zx::probe::write(AT, n as u8 + 1);
            barrier.wait();
            counts.lock().unwrap().push(zx::probe::read(AT));
        });
        members.push((member, thread));
    }
    for (_, thread) in &mut members.iter_mut().map(|(member, thread)| (member, thread)) {
        while !thread.is_finished() {
            thread::yield_now();
        }
    }
    let mut counts = std::mem::take(&mut *counts.lock().unwrap());
    counts.sort_unstable();
    equal(counts, (1..=MEMBERS as u8).collect::<Vec<_>>())?;
    for (member, _) in &members {
        equal(end(&member.process)?, 0)?;
    }
    Ok(())
}

fn given() -> Result<EventPair, Failure> {
    zx::startup::take(PA_USER0, 0).map(EventPair::from).ok_or_else(|| "nothing was given".into())
}

/// The first process ends before another one that shares with it. Handles and memory stay with the other process, and
/// are released when it ends.
fn outlives() -> Outcome {
    let (ours, theirs) = EventPair::create()?;
    let first = started("outlives", Some(theirs.into_handle()))?;
    equal(end(&first)?, 3)?;
    for _ in 0..3 {
        ours.signal_peer(Signals::NONE, Signals::USER_0)?;
        ours.wait_one(Signals::USER_1, MonotonicInstant::INFINITE)?;
        ours.signal(Signals::USER_1, Signals::NONE)?;
    }
    fails(ours.wait_one(Signals::EVENTPAIR_PEER_CLOSED, MonotonicInstant::ZERO), Status::TIMED_OUT)?;
    ours.signal_peer(Signals::NONE, Signals::USER_2)?;
    ours.wait_one(Signals::EVENTPAIR_PEER_CLOSED, MonotonicInstant::INFINITE)?;
    Ok(())
}

fn outliving() -> Outcome {
    let pair = given()?;
    let member = Member::new()?;
    drop(member.runs(move || -> Outcome {
        loop {
            let seen = pair.wait_one(Signals::USER_0 | Signals::USER_2, MonotonicInstant::INFINITE)?;
            if seen.contains(Signals::USER_2) {
                // The process's end must close the handle, not the destructor.
                std::mem::forget(pair);
                zx::process_exit(0);
            }
            pair.signal(Signals::USER_0, Signals::NONE)?;
            pair.signal_peer(Signals::NONE, Signals::USER_1)?;
        }
    }));
    zx::process_exit(3)
}

/// Killing the job kills all of its processes.
fn killed_together() -> Outcome {
    let job = job()?;
    let (ours, theirs) = EventPair::create()?;
    let program = std::env::args().next().unwrap_or_else(|| "/boot/bin/conformance".to_owned());
    let mut spawn = Spawn::file(&program);
    spawn.arg(&program).arg("--child").arg("shared").arg("killed-together").to_share();
    spawn.job(&job).handle(PA_USER0, theirs.into_handle());
    let first = spawn.start().map_err(|(status, why)| format!("{status}: {why}"))?;
    ours.wait_one(Signals::USER_1, MonotonicInstant::INFINITE)?;
    let mut koids = [0; 8];
    equal(job.processes(&mut koids)?.actual, 4)?;
    job.kill()?;
    equal(end(&first)?, KILLED)?;
    ours.wait_one(Signals::EVENTPAIR_PEER_CLOSED, MonotonicInstant::INFINITE)?;
    job.wait_one(Signals::TASK_TERMINATED, MonotonicInstant::INFINITE)?;
    Ok(())
}

fn waiting() -> Outcome {
    let pair = given()?;
    for _ in 0..3 {
        let member = Member::new()?;
        drop(member.runs(thread::park));
        std::mem::forget(member);
    }
    pair.signal_peer(Signals::NONE, Signals::USER_1)?;
    loop {
        thread::park();
    }
}
