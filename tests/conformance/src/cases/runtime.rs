//! Run time of tasks.
//!
//! The system counts in steps of some milliseconds. The cases therefore check only that the run time grows for tasks
//! that run, and for no others.

use std::sync::mpsc;
use std::thread;

use abi::{Status, hafnon_vproc_state_t};
use zx::{AsHandleRef, Info, Job, Process, Reason, Rights, Signals, TaskInfo, Thread, VirtualProcessor};

use super::restricted::{Code, bind, enters, state};
use super::vproc::{CODE, Domain, FLAGS};

use super::{cases, late, without};
use crate::check::{Failure, Outcome, ensure, equal, fails};
use crate::test_process::{self, KILLED, SPIN, TestProcess};

cases! {
    "runtime.thread.increases" => thread_increases,
    "runtime.thread.in_time" => thread_in_time,
    "runtime.thread.stopped" => thread_stopped,
    "runtime.thread.stats" => thread_stats,
    "runtime.thread.virtual_processor" => thread_virtual_processor,
    "runtime.thread.restricted" => thread_restricted,
    "runtime.thread.last_processor" => thread_last_processor,
    "runtime.process.sum" => process_sum,
    "runtime.job.sum" => job_sum,
    "runtime.job.kernel" => job_kernel,
    "runtime.task.rights" => task_rights,
}

fn pause() {
    std::thread::sleep(std::time::Duration::from_millis(30));
}

fn cpu(task: &impl TaskInfo) -> Result<i64, Failure> {
    Ok(task.runtime()?.cpu_time)
}

/// Waits until a task's run time is greater than `before`.
fn grows(task: &impl TaskInfo, before: i64) -> Result<i64, Failure> {
    for _ in 0..200 {
        match cpu(task)? {
            now if now > before => return Ok(now),
            _ => pause(),
        }
    }
    Err("no time passes for it".into())
}

fn job() -> Result<Job, Failure> {
    Ok(zx::startup::job_default().ok_or("there is no job")?.create_child()?)
}

fn end(tiny: &TestProcess) -> Outcome {
    tiny.process.kill()?;
    equal(tiny.end()?, KILLED)
}

fn thread_increases() -> Outcome {
    let tiny = TestProcess::new(SPIN)?;
    equal(cpu(&tiny.thread)?, 0)?;
    let start = zx::MonotonicInstant::now();
    tiny.start(None, 0)?;
    let first = grows(&tiny.thread, 0)?;
    let second = grows(&tiny.thread, first)?;
    let passed = (zx::MonotonicInstant::now() - start).into_nanos();
    // At most one step more than the time that has passed.
    ensure(second <= passed + 10_000_000, "it ran longer than it could")?;
    end(&tiny)?;
    let last = cpu(&tiny.thread)?;
    ensure(last >= second, "the dead have run less than the living")?;
    pause();
    equal(cpu(&tiny.thread)?, last)
}

/// A thread's run time does not exceed the elapsed time. The case runs for 500 ms, long enough to show that a step is
/// not longer than documented.
fn thread_in_time() -> Outcome {
    let tiny = TestProcess::new(SPIN)?;
    let start = zx::MonotonicInstant::now();
    tiny.start(None, 0)?;
    thread::sleep(std::time::Duration::from_millis(500));
    let ran = cpu(&tiny.thread)?;
    let passed = (zx::MonotonicInstant::now() - start).into_nanos();
    if ran > passed + passed / 50 + 4_000_000 {
        return Err(format!("it ran for {ran} ns of {passed} ns").into());
    }
    end(&tiny)
}

fn thread_stopped() -> Outcome {
    let tiny = test_process::spinning()?;
    grows(&tiny.thread, 0)?;
    let token = tiny.thread.suspend()?;
    tiny.thread.wait_one(Signals::THREAD_SUSPENDED, late())?;
    let before = cpu(&tiny.thread)?;
    pause();
    equal(cpu(&tiny.thread)?, before)?;
    drop(token);
    grows(&tiny.thread, before)?;
    end(&tiny)
}

/// More run time than a waiting thread itself can have.
const LONG: i64 = 50_000_000;

/// A thread of this process makes other code run: `run` makes it run, and `stop` ends that. The run time must count for
/// the thread.
fn of_others(run: impl FnOnce(Thread) -> Outcome + Send + 'static, stop: impl FnOnce(&Thread) -> Outcome) -> Outcome {
    let (tell, told) = mpsc::channel();
    let owner = thread::spawn(move || -> Outcome {
        let this = zx::startup::thread_self().duplicate(Rights::SAME_RIGHTS)?;
        tell.send(zx::startup::thread_self().duplicate(Rights::SAME_RIGHTS)?).map_err(|_| "nobody asks")?;
        run(this)
    });
    let thread = told.recv().map_err(|_| "it was not made")?;
    let first = grows(&thread, 0)?;
    let second = grows(&thread, first + LONG)?;
    stop(&thread)?;
    owner.join().unwrap_or(Err("it panicked".into()))?;
    thread.wait_one(Signals::THREAD_TERMINATED, late())?;
    ensure(cpu(&thread)? >= second, "the dead have run less than the living")
}

/// Code in a virtual processor counts towards its owner's run time, also after the virtual processor is gone.
fn thread_virtual_processor() -> Outcome {
    let domain = Domain::new(SPIN)?;
    let entered = domain.process.duplicate(Rights::SAME_RIGHTS)?;
    let run = move |this: Thread| {
        let root = zx::startup::vmar_root_self();
        let mut processor = VirtualProcessor::create(&root)?;
        *processor.state() = hafnon_vproc_state_t { ip: CODE, flags: FLAGS, ..Default::default() };
        // The call returns when the sub-domain has been destroyed.
        processor.enter(&entered)?;
        let ran = cpu(&this)?;
        ensure(ran >= LONG, "nothing was told of it")?;
        drop(processor);
        ensure(cpu(&this)? >= ran, "it was forgotten")
    };
    of_others(run, |_| Ok(domain.process.kill()?))
}

/// Code in restricted mode counts towards its thread's run time.
fn thread_restricted() -> Outcome {
    let code = Code::new(SPIN)?;
    let run = move |this: Thread| {
        let mut restricted = bind()?;
        equal(enters(&mut restricted, state(1, code.ip()))?.0, Reason::Kick)?;
        let ran = cpu(&this)?;
        ensure(ran >= LONG, "nothing was told of it")?;
        drop(restricted);
        ensure(cpu(&this)? >= ran, "it was forgotten")
    };
    of_others(run, |thread| Ok(thread.restricted_kick()?))
}

fn thread_stats() -> Outcome {
    let tiny = TestProcess::new(SPIN)?;
    equal(tiny.thread.stats()?.total_runtime, 0)?;
    tiny.start(None, 0)?;
    let ran = grows(&tiny.thread, 0)?;
    ensure(tiny.thread.stats()?.total_runtime >= ran, "two calls do not agree")?;
    end(&tiny)?;
    fails(tiny.thread.stats(), Status::BAD_STATE)
}

fn thread_last_processor() -> Outcome {
    let tiny = TestProcess::new(SPIN)?;
    equal(tiny.thread.stats()?.last_scheduled_cpu, abi::ZX_INFO_INVALID_CPU)?;
    tiny.start(None, 0)?;
    grows(&tiny.thread, 0)?;
    equal(tiny.thread.stats()?.last_scheduled_cpu, 0)?;
    equal(zx::startup::thread_self().stats()?.last_scheduled_cpu, 0)?;
    end(&tiny)
}

fn process_sum() -> Outcome {
    let tiny = test_process::spinning()?;
    let second = tiny.process.create_thread("second")?;
    second.start(tiny.entry, tiny.stack, 0, 0)?;
    grows(&tiny.thread, 0)?;
    grows(&second, 0)?;
    let token = tiny.process.suspend()?;
    for thread in [&tiny.thread, &second] {
        thread.wait_one(Signals::THREAD_SUSPENDED, late())?;
    }
    let sum = cpu(&tiny.process)?;
    equal(sum, cpu(&tiny.thread)? + cpu(&second)?)?;
    // The run time of ended threads counts.
    end(&tiny)?;
    drop(token);
    equal(cpu(&tiny.process)?, sum)
}

fn job_sum() -> Outcome {
    let top = job()?;
    let below = top.create_child()?;
    equal((cpu(&top)?, cpu(&below)?), (0, 0))?;
    let (first, second) = (TestProcess::in_job(&top, SPIN)?, TestProcess::in_job(&below, SPIN)?);
    first.start(None, 0)?;
    second.start(None, 0)?;
    grows(&first.process, 0)?;
    grows(&second.process, 0)?;
    let tokens = [first.process.suspend()?, second.process.suspend()?];
    for tiny in [&first, &second] {
        tiny.thread.wait_one(Signals::THREAD_SUSPENDED, late())?;
    }
    let (a, b) = (cpu(&first.process)?, cpu(&second.process)?);
    equal((cpu(&top)?, cpu(&below)?), (a + b, b))?;
    // The run time of ended processes and of destroyed jobs still counts.
    end(&second)?;
    equal((cpu(&top)?, cpu(&below)?), (a + b, b))?;
    drop((below, second));
    equal(cpu(&top)?, a + b)?;
    end(&first)?;
    equal(cpu(&top)?, a + b)?;
    drop(tokens);
    Ok(())
}

fn job_kernel() -> Outcome {
    const SIZE: u64 = 64 * 4096;
    const TIME: u64 = 20_000_000;
    // One process computes and makes no calls, while this one makes long calls.
    let quiet = job()?;
    let tiny = TestProcess::in_job(&quiet, SPIN)?;
    tiny.start(None, 0)?;
    grows(&tiny.process, 0)?;
    let job = zx::startup::job_default().ok_or("there is no job")?;
    let (before, quiet_before) = (job.usage()?.kernel_time, quiet.usage()?.kernel_time);
    let (vmo, start, deadline) = (zx::Vmo::create(SIZE, 0)?, zx::MonotonicInstant::now(), late());
    while job.usage()?.kernel_time < before + TIME {
        ensure(zx::MonotonicInstant::now() < deadline, "no time passes for it")?;
        vmo.op_range(abi::ZX_VMO_OP_COMMIT, 0, SIZE)?;
        vmo.op_range(abi::ZX_VMO_OP_DECOMMIT, 0, SIZE)?;
    }
    let passed = (zx::MonotonicInstant::now() - start).into_nanos();
    ensure(passed + 10_000_000 >= TIME as i64, "the kernel worked longer than it could")?;
    equal(quiet.usage()?.kernel_time, quiet_before)?;
    end(&tiny)
}

fn task_rights() -> Outcome {
    let tiny = TestProcess::new(SPIN)?;
    let job = job()?;
    fails(Thread::from(without(&tiny.thread, Rights::INSPECT)?).runtime(), Status::ACCESS_DENIED)?;
    fails(Thread::from(without(&tiny.thread, Rights::INSPECT)?).stats(), Status::ACCESS_DENIED)?;
    fails(Process::from(without(&tiny.process, Rights::INSPECT)?).runtime(), Status::ACCESS_DENIED)?;
    fails(Job::from(without(&job, Rights::INSPECT)?).runtime(), Status::ACCESS_DENIED)?;
    let event = zx::Event::create()?;
    fails(event.get_info(abi::ZX_INFO_TASK_RUNTIME, &mut [0; 32]), Status::WRONG_TYPE)
}
