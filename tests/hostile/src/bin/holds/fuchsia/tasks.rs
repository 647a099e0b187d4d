//! Operations on all threads of a process or all processes of a job, and much output.

use abi::ZX_INFO_TASK_RUNTIME;
use conformance::check::{Case, Outcome, ensure};
use conformance::test_process::{OwnJob, TestProcess};
use zx::{Info, MonotonicInstant, Process, Thread};

use super::{PROCESSES, holds_shortly, sleeps};

/// Threads of a process that ends.
const THREADS: usize = 2000;
/// Threads of a process that is suspended: they stop at once.
const SUSPENDED: usize = 1000;

/// A process with many sleeping threads.
fn crowd(job: &OwnJob, count: usize) -> Result<(TestProcess, Vec<Thread>), conformance::check::Failure> {
    let tiny = TestProcess::in_job(job, &sleeps())?;
    tiny.start(None, 0)?;
    let mut threads = Vec::new();
    for _ in 1..count {
        let thread = tiny.process.create_thread("one of many")?;
        thread.start(tiny.entry, tiny.stack, 0, 0)?;
        threads.push(thread);
    }
    zx::nanosleep(MonotonicInstant::after(zx::Duration::from_millis(100)))?;
    Ok((tiny, threads))
}

fn kill_threads() -> Outcome {
    let job = OwnJob::new()?;
    let (tiny, threads) = crowd(&job, THREADS)?;
    holds_shortly("kill-threads", || {
        tiny.process.kill()?;
        tiny.end().map(drop)
    })?;
    drop(threads);
    Ok(())
}

fn suspend_threads() -> Outcome {
    let job = OwnJob::new()?;
    let (tiny, threads) = crowd(&job, SUSPENDED)?;
    let mut token = None;
    let suspended = |thread: &Thread, is: bool| -> Outcome {
        let state = thread.info()?.state;
        ensure((state == abi::ZX_THREAD_STATE_SUSPENDED) == is, &format!("{state}"))
    };
    holds_shortly("suspend-threads", || {
        token = Some(tiny.process.suspend()?);
        Ok(())
    })?;
    threads.iter().try_for_each(|thread| suspended(thread, true))?;
    holds_shortly("resume-threads", || {
        drop(token);
        Ok(())
    })?;
    threads.iter().try_for_each(|thread| suspended(thread, false))
}

/// Output leaves the machine byte by byte.
fn output() -> Outcome {
    let line = [b'.'; 99];
    let text = [&line[..], b"\n"].concat().repeat(2000);
    holds_shortly("output", || Ok(std::io::Write::write_all(&mut std::io::stderr(), &text)?))
}

fn runtime_of_threads() -> Outcome {
    let job = OwnJob::new()?;
    let (tiny, _threads) = crowd(&job, SUSPENDED)?;
    runtime("runtime-threads", &tiny.process)
}

fn runtime(kind: &str, task: &impl Info) -> Outcome {
    let times = || task.info_record::<abi::zx_info_task_runtime_t>(ZX_INFO_TASK_RUNTIME);
    let before = times()?.cpu_time;
    holds_shortly(kind, || {
        let now = times()?;
        ensure(now.cpu_time >= before, "it has run less than before")?;
        let waited = [now.queue_time, now.page_fault_time, now.lock_contention_time];
        ensure(waited == [0; 3], "something is told that is not counted")
    })
}

fn runtime_of_processes() -> Outcome {
    let job = OwnJob::new()?;
    let start = |_| -> Result<Process, conformance::check::Failure> {
        let tiny = TestProcess::in_job(&job, &sleeps())?;
        tiny.start(None, 0)?;
        Ok(tiny.process)
    };
    let _all = (0..PROCESSES).map(start).collect::<Result<Vec<_>, _>>()?;
    runtime("runtime-processes", &*job)
}

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("holds.kill.threads", kill_threads),
        Case::new("holds.output", output),
        Case::new("holds.runtime.processes", runtime_of_processes),
        Case::new("holds.runtime.threads", runtime_of_threads),
        Case::new("holds.suspend.threads", suspend_threads),
    ]
}
