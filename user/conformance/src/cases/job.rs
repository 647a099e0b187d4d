//! Jobs.

use abi::{Rights, Status};
use zx::{AsHandleRef, Info, Job, Signals};

use super::{cases, late, without};
use crate::check::{Failure, Outcome, ensure, equal, fails};
use crate::tiny::{self, KILLED, SPIN, Tiny};

cases! {
    "job.create.child_listed" => create_child_listed,
    "job.create.rights" => create_rights,
    "job.kill.ends_processes" => kill_ends_processes,
    "job.kill.ends_jobs_below" => kill_ends_jobs_below,
    "job.kill.takes_no_more" => kill_takes_no_more,
    "job.info.processes" => info_processes,
    "job.get_child.of_a_process" => get_child_of_a_process,
    "job.create.many_and_gone" => create_many_and_gone,
}

fn job() -> Result<Job, Failure> {
    Ok(zx::startup::job_default().ok_or("there is no default job")?.create_child()?)
}

fn create_child_listed() -> Outcome {
    let parent = job()?;
    let child = parent.create_child()?;
    let mut koids = [0; 4];
    let size = parent.children(&mut koids)?;
    equal((size.actual, koids[0]), (1, tiny::koid(&child)?))?;
    equal(child.basic_info()?.related_koid, parent.koid()?)
}

fn create_rights() -> Outcome {
    let weak = Job::from(without(&job()?, Rights::MANAGE_JOB | Rights::WRITE)?);
    fails(weak.create_child(), Status::ACCESS_DENIED)
}

fn kill_ends_processes() -> Outcome {
    let job = job()?;
    let processes = [Tiny::in_job(&job, SPIN)?, Tiny::in_job(&job, SPIN)?];
    processes.iter().try_for_each(|process| process.start(None, 0))?;
    job.kill()?;
    for process in processes {
        equal(process.end()?, KILLED)?;
    }
    Ok(())
}

fn kill_ends_jobs_below() -> Outcome {
    let top = job()?;
    let below = top.create_child()?.create_child()?;
    let process = Tiny::in_job(&below, SPIN)?;
    process.start(None, 0)?;
    top.kill()?;
    equal(process.end()?, KILLED)
}

fn kill_takes_no_more() -> Outcome {
    let job = job()?;
    job.kill()?;
    job.wait_one(Signals::TASK_TERMINATED, late())?;
    fails(job.create_child(), Status::BAD_STATE)?;
    fails(job.create_process("late"), Status::BAD_STATE)
}

fn info_processes() -> Outcome {
    let job = job()?;
    let processes = [Tiny::in_job(&job, SPIN)?, Tiny::in_job(&job, SPIN)?];
    let mut expected = [tiny::koid(&processes[0].process)?, tiny::koid(&processes[1].process)?];
    let mut koids = [0; 2];
    let size = job.processes(&mut koids)?;
    expected.sort_unstable();
    koids.sort_unstable();
    equal((size.actual, size.avail, koids), (2, 2, expected))?;
    // A buffer that holds one gets one, and is told of both.
    let size = job.processes(&mut koids[..1])?;
    equal((size.actual, size.avail), (1, 2))
}

fn get_child_of_a_process() -> Outcome {
    let job = job()?;
    let tiny = Tiny::in_job(&job, SPIN)?;
    let koid = tiny::koid(&tiny.process)?;
    let process = job.get_child(koid, Rights::SAME_RIGHTS)?;
    equal(process.koid()?, koid)?;
    fails(job.get_child(koid, Rights::from_bits_retain(1 << 30)), Status::INVALID_ARGS)
}

fn create_many_and_gone() -> Outcome {
    let parent = job()?;
    for _ in 0..300 {
        drop(parent.create_child()?);
    }
    let size = parent.children(&mut [0; 4])?;
    ensure(size.avail == 0, "jobs without a handle are still there")
}
