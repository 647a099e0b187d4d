//! Exception channels: which callers can create them, and how long they last.

use abi::{Rights, Status, ZX_EXCEPTION_CHANNEL_DEBUGGER, ZX_EXCEPTION_CHANNEL_JOB_DEBUGGER_MAX_COUNT};
use zx::{AsHandleRef, Channel, Info, Job, Process, Thread};

use super::{cases, raw, without};
use crate::caught_exception::{HandledProcess, OwnedTestProcess, ended};
use crate::check::{Failure, Outcome, equal, fails, gives};
use crate::test_process::{OwnJob, SPIN, TestProcess};

cases! {
    "exception.channel.rights" => rights,
    "exception.channel.bad_handle" => bad_handle,
    "exception.channel.wrong_type" => wrong_type,
    "exception.channel.options" => options,
    "exception.channel.bad_address" => bad_address,
    "exception.channel.needed_rights" => needed_rights,
    "exception.channel.read_only" => read_only,
    "exception.channel.already_bound" => already_bound,
    "exception.channel.kinds_are_apart" => kinds_are_apart,
    "exception.channel.again_after_close" => again_after_close,
    "exception.channel.job_debuggers" => job_debuggers,
    "exception.channel.dead_thread" => dead_thread,
    "exception.channel.dead_process" => dead_process,
    "exception.channel.dead_job" => dead_job,
    "exception.channel.ends_with_task" => ends_with_task,
    "exception.channel.ends_with_job" => ends_with_job,
    "exception.channel.ends_unstarted" => ends_unstarted,
    "exception.channel.debugger_attached" => debugger_attached,
}

const DEBUGGER: u32 = ZX_EXCEPTION_CHANNEL_DEBUGGER;

fn rights() -> Outcome {
    let watched = HandledProcess::new(SPIN)?;
    for channel in watched.in_order() {
        let info = channel.basic_info()?;
        equal(info.type_, abi::ZX_OBJ_TYPE_CHANNEL)?;
        equal(info.rights, (Rights::TRANSFER | Rights::WAIT | Rights::READ).bits())?;
    }
    Ok(())
}

fn create(handle: u32, options: u32) -> Status {
    let mut out = 0_u32;
    let status = raw!(zx_task_create_exception_channel, handle, options, &raw mut out);
    drop(zx::Handle::from_raw(out));
    status
}

fn bad_handle() -> Outcome {
    gives(create(0, 0), Status::BAD_HANDLE)?;
    let gone = zx::Event::create()?.raw_handle();
    gives(create(gone, 0), Status::BAD_HANDLE)
}

fn wrong_type() -> Outcome {
    let event = zx::Event::create()?;
    gives(create(event.raw_handle(), 0), Status::WRONG_TYPE)?;
    gives(create(zx::startup::vmar_root_self().raw_handle(), 0), Status::WRONG_TYPE)
}

fn options() -> Outcome {
    let tiny = OwnedTestProcess::new(SPIN)?;
    for options in [2, 3, 0x8000_0000, u32::MAX] {
        gives(create(tiny.process.raw_handle(), options), Status::INVALID_ARGS)?;
    }
    // A thread has no debugger of its own.
    gives(create(tiny.thread.raw_handle(), DEBUGGER), Status::INVALID_ARGS)
}

fn bad_address() -> Outcome {
    let tiny = OwnedTestProcess::new(SPIN)?;
    for address in [0_u64, 1, 0xffff_8000_0000_0000] {
        let status = raw!(zx_task_create_exception_channel, tiny.process.raw_handle(), 0, address);
        gives(status, Status::INVALID_ARGS)?;
    }
    // The failed calls left no channel that would block a new one.
    tiny.process.create_exception_channel(0)?;
    Ok(())
}

fn needed_rights() -> Outcome {
    let watched = HandledProcess::new(SPIN)?;
    let (tiny, job) = (&watched.tiny, OwnJob::new()?);
    let of_all = [Rights::INSPECT, Rights::DUPLICATE, Rights::TRANSFER, Rights::MANAGE_THREAD];
    for right in of_all {
        fails(Job::from(without(&*job, right)?).create_exception_channel(0), Status::ACCESS_DENIED)?;
        fails(Process::from(without(&tiny.process, right)?).create_exception_channel(0), Status::ACCESS_DENIED)?;
        fails(Thread::from(without(&tiny.thread, right)?).create_exception_channel(0), Status::ACCESS_DENIED)?;
    }
    fails(Job::from(without(&*job, Rights::ENUMERATE)?).create_exception_channel(0), Status::ACCESS_DENIED)?;
    fails(
        Process::from(without(&tiny.process, Rights::ENUMERATE)?).create_exception_channel(0),
        Status::ACCESS_DENIED,
    )?;
    // These rights are sufficient.
    let enough = Rights::INSPECT | Rights::DUPLICATE | Rights::TRANSFER | Rights::MANAGE_THREAD;
    job.duplicate(enough | Rights::ENUMERATE)?.create_exception_channel(0)?;
    let other = OwnedTestProcess::new(SPIN)?;
    other.process.duplicate(enough | Rights::ENUMERATE)?.create_exception_channel(0)?;
    other.thread.duplicate(enough)?.create_exception_channel(0)?;
    Ok(())
}

fn read_only() -> Outcome {
    let watched = HandledProcess::new(SPIN)?;
    for channel in watched.in_order() {
        fails(channel.write(b"a message", []), Status::ACCESS_DENIED)?;
        fails(channel.duplicate(Rights::SAME_RIGHTS), Status::ACCESS_DENIED)?;
    }
    Ok(())
}

fn already_bound() -> Outcome {
    let watched = HandledProcess::new(SPIN)?;
    fails(watched.tiny.thread.create_exception_channel(0), Status::ALREADY_BOUND)?;
    fails(watched.tiny.process.create_exception_channel(0), Status::ALREADY_BOUND)?;
    fails(watched.tiny.process.create_exception_channel(DEBUGGER), Status::ALREADY_BOUND)?;
    fails(watched.inner.create_exception_channel(0), Status::ALREADY_BOUND)
}

fn kinds_are_apart() -> Outcome {
    let tiny = OwnedTestProcess::new(SPIN)?;
    let first = tiny.process.create_exception_channel(DEBUGGER)?;
    let second = tiny.process.create_exception_channel(0)?;
    fails(tiny.process.create_exception_channel(DEBUGGER), Status::ALREADY_BOUND)?;
    drop(first);
    fails(tiny.process.create_exception_channel(0), Status::ALREADY_BOUND)?;
    tiny.process.create_exception_channel(DEBUGGER)?;
    drop(second);
    Ok(())
}

fn again_after_close() -> Outcome {
    let tiny = OwnedTestProcess::new(SPIN)?;
    let job = OwnJob::new()?;
    for _ in 0..3 {
        let channels: [Channel; 4] = [
            tiny.thread.create_exception_channel(0)?,
            tiny.process.create_exception_channel(0)?,
            tiny.process.create_exception_channel(DEBUGGER)?,
            job.create_exception_channel(0)?,
        ];
        drop(channels);
    }
    Ok(())
}

fn job_debuggers() -> Outcome {
    let job = OwnJob::new()?;
    let count = ZX_EXCEPTION_CHANNEL_JOB_DEBUGGER_MAX_COUNT;
    let mut channels =
        (0..count).map(|_| job.create_exception_channel(DEBUGGER)).collect::<zx::Result<Vec<Channel>>>()?;
    fails(job.create_exception_channel(DEBUGGER), Status::ALREADY_BOUND)?;
    // Closing any of them makes room for another.
    channels.remove(7);
    channels.push(job.create_exception_channel(DEBUGGER)?);
    fails(job.create_exception_channel(DEBUGGER), Status::ALREADY_BOUND)
}

fn dead_thread() -> Outcome {
    let tiny = OwnedTestProcess::new(SPIN)?;
    tiny.start(None, 0)?;
    tiny.process.kill()?;
    tiny.end()?;
    fails(tiny.thread.create_exception_channel(0), Status::BAD_STATE)
}

fn dead_process() -> Outcome {
    let tiny = OwnedTestProcess::new(SPIN)?;
    tiny.start(None, 0)?;
    tiny.process.kill()?;
    tiny.end()?;
    fails(tiny.process.create_exception_channel(0), Status::BAD_STATE)?;
    fails(tiny.process.create_exception_channel(DEBUGGER), Status::BAD_STATE)
}

fn dead_job() -> Outcome {
    let job = OwnJob::new()?;
    job.kill()?;
    fails(job.create_exception_channel(0), Status::BAD_STATE)?;
    fails(job.create_exception_channel(DEBUGGER), Status::BAD_STATE)
}

fn ends_with_task() -> Outcome {
    let watched = HandledProcess::started(SPIN)?;
    watched.tiny.process.kill()?;
    ended(&watched.thread)?;
    watched.tiny.end()?;
    ended(&watched.process)?;
    // The debugger got the thread's exit before.
    crate::caught_exception::catch_type(&watched.debugger, abi::ZX_EXCP_THREAD_EXITING)?.passed();
    ended(&watched.debugger)?;
    watched.tiny.job.kill()?;
    ended(&watched.job)?;
    ended(&watched.outer_job)
}

fn ends_with_job() -> Outcome {
    // A job also ends when the last handle to it is closed and it is empty.
    let top = OwnJob::new()?;
    let job = top.create_child()?;
    let channels = [job.create_exception_channel(0)?, job.create_exception_channel(DEBUGGER)?];
    let child = job.create_child()?;
    drop(job);
    for channel in &channels {
        crate::caught_exception::quiet(channel)?;
        equal(channel.signals()?.contains(zx::Signals::CHANNEL_PEER_CLOSED), false)?;
    }
    drop(child);
    channels.iter().try_for_each(ended)
}

fn ends_unstarted() -> Outcome {
    let job = OwnJob::new()?;
    let tiny = TestProcess::in_job(&job, SPIN)?;
    let channels = [
        tiny.thread.create_exception_channel(0)?,
        tiny.process.create_exception_channel(0)?,
        tiny.process.create_exception_channel(DEBUGGER)?,
    ];
    drop(tiny);
    channels.iter().try_for_each(ended)
}

fn debugger_attached() -> Outcome {
    let tiny = OwnedTestProcess::new(SPIN)?;
    let attached = || -> Result<bool, Failure> {
        Ok(tiny.process.info()?.flags & abi::ZX_INFO_PROCESS_FLAG_DEBUGGER_ATTACHED != 0)
    };
    let plain = tiny.process.create_exception_channel(0)?;
    equal(attached()?, false)?;
    let debugger = tiny.process.create_exception_channel(DEBUGGER)?;
    equal(attached()?, true)?;
    drop((plain, debugger));
    equal(attached()?, false)
}
