//! Jobs.

use abi::{Rights, Status, ZX_JOB_CRITICAL_PROCESS_RETCODE_NONZERO, ZX_TASK_RETCODE_CRITICAL_PROCESS_KILL};
use zx::{AsHandleRef, Info, Job, Signals};

use super::{cases, late, raw, soon, without};
use crate::check::{Failure, Outcome, ensure, equal, fails, gives};
use crate::puppet::{Puppet, function};
use crate::test_process::{self, KILLED, OwnJob, SPIN, TestProcess};

cases! {
    "job.create.child_listed" => create_child_listed,
    "job.create.rights" => create_rights,
    "job.create.right_enough" => create_right_enough,
    "job.create.options" => create_options,
    "job.create.max_height" => create_max_height,
    "job.create.signals" => create_signals,
    "job.close.leaves_the_tree" => close_leaves_the_tree,
    "job.close.stays_with_children" => close_stays_with_children,
    "job.kill.ends_processes" => kill_ends_processes,
    "job.kill.ends_jobs_below" => kill_ends_jobs_below,
    "job.kill.takes_no_more" => kill_takes_no_more,
    "job.kill.without_children" => kill_without_children,
    "job.kill.leaves_the_tree" => kill_leaves_the_tree,
    "job.kill.chain" => kill_chain,
    "job.kill.rights" => kill_rights,
    "job.wait.until_the_end" => wait_until_the_end,
    "job.info.processes" => info_processes,
    "job.info.no_task_stats" => info_no_task_stats,
    "job.get_child.of_a_process" => get_child_of_a_process,
    "job.create.many_and_gone" => create_many_and_gone,
    "job.property.kill_on_oom" => property_kill_on_oom,
    "job.set_critical.ends_the_job" => critical_ends_the_job,
    "job.set_critical.ends_the_tree" => critical_ends_the_tree,
    "job.set_critical.many_processes" => critical_many_processes,
    "job.set_critical.retcode_nonzero" => critical_retcode_nonzero,
    "job.set_critical.already_bound" => critical_already_bound,
    "job.set_critical.not_above" => critical_not_above,
    "job.set_critical.rights" => critical_rights,
    "job.set_critical.options" => critical_options,
}

fn job() -> Result<OwnJob, Failure> {
    OwnJob::new()
}

fn create_child_listed() -> Outcome {
    let parent = job()?;
    let child = parent.create_child()?;
    let mut koids = [0; 4];
    let size = parent.children(&mut koids)?;
    equal((size.actual, koids[0]), (1, test_process::koid(&child)?))?;
    equal(child.basic_info()?.related_koid, parent.koid()?)?;
    // A grandchild is a child of its own parent only.
    let grandchild = child.create_child()?;
    equal(grandchild.basic_info()?.related_koid, child.koid()?)?;
    equal((children(&parent)?, children(&child)?), (1, 1))?;
    let info = child.info()?;
    equal((info.exited, info.return_code), (0, 0))?;
    let mut out = 0_u32;
    gives(raw!(zx_job_create, 0, 0, &raw mut out), Status::BAD_HANDLE)?;
    equal(out, 0)
}

fn create_rights() -> Outcome {
    let weak = Job::from(without(&*job()?, Rights::MANAGE_JOB)?);
    fails(weak.create_child(), Status::ACCESS_DENIED)
}

fn kill_ends_processes() -> Outcome {
    let job = job()?;
    let processes = [TestProcess::in_job(&job, SPIN)?, TestProcess::in_job(&job, SPIN)?];
    processes.iter().try_for_each(|process| process.start(None, 0))?;
    job.kill()?;
    for process in processes {
        equal(process.end()?, KILLED)?;
    }
    Ok(())
}

fn kill_ends_jobs_below() -> Outcome {
    let top = job()?;
    let child = top.create_child()?;
    let below = child.create_child()?;
    let processes = [TestProcess::in_job(&top, SPIN)?, TestProcess::in_job(&below, SPIN)?];
    processes.iter().try_for_each(|process| process.start(None, 0))?;
    top.kill()?;
    for process in processes {
        equal(process.end()?, KILLED)?;
        equal(process.process.signals()?, Signals::TASK_TERMINATED)?;
        ensure(process.process.info()?.flags & abi::ZX_INFO_PROCESS_FLAG_EXITED != 0, "it has not ended")?;
    }
    for job in [&*top, &child, &below] {
        equal(job.wait_one(Signals::TASK_TERMINATED, late())?, DEAD)?;
        let info = job.info()?;
        equal((info.exited, info.return_code), (1, KILLED))?;
        takes_no_more(job)?;
    }
    Ok(())
}

/// A killed job accepts neither processes nor jobs any more.
fn takes_no_more(job: &Job) -> Outcome {
    fails(job.create_child(), Status::BAD_STATE)?;
    fails(job.create_process("late"), Status::BAD_STATE)
}

fn kill_takes_no_more() -> Outcome {
    let job = job()?;
    job.kill()?;
    job.wait_one(Signals::TASK_TERMINATED, late())?;
    takes_no_more(&job)
}

fn info_processes() -> Outcome {
    let job = job()?;
    let processes = [TestProcess::in_job(&job, SPIN)?, TestProcess::in_job(&job, SPIN)?];
    let mut expected = [test_process::koid(&processes[0].process)?, test_process::koid(&processes[1].process)?];
    let mut koids = [0; 2];
    let size = job.processes(&mut koids)?;
    expected.sort_unstable();
    koids.sort_unstable();
    equal((size.actual, size.avail, koids), (2, 2, expected))?;
    // A buffer for one koid gets one, and the call reports both.
    let size = job.processes(&mut koids[..1])?;
    equal((size.actual, size.avail), (1, 2))
}

fn get_child_of_a_process() -> Outcome {
    let job = job()?;
    let tiny = TestProcess::in_job(&job, SPIN)?;
    let koid = test_process::koid(&tiny.process)?;
    let process = job.get_child(koid, Rights::SAME_RIGHTS)?;
    equal(process.koid()?, koid)?;
    fails(job.get_child(koid, Rights::from_bits_retain(1 << 30)), Status::ACCESS_DENIED)
}

fn create_many_and_gone() -> Outcome {
    let parent = job()?;
    for _ in 0..300 {
        drop(parent.create_child()?);
    }
    let size = parent.children(&mut [0; 4])?;
    ensure(size.avail == 0, "jobs without a handle are still there")
}

fn create_right_enough() -> Outcome {
    let own = job()?;
    let only = own.duplicate(Rights::MANAGE_JOB)?;
    let child = only.create_child()?;
    ensure(child.basic_info()?.rights == abi::ZX_DEFAULT_JOB_RIGHTS.bits(), "it has other rights")?;
    // Both jobs accept processes.
    for job in [&*own, &child] {
        let (process, _vmar) = job.create_process("in it")?;
        equal(process.basic_info()?.related_koid, job.koid()?)?;
        equal(job.processes(&mut [0; 2])?.avail, 1)?;
    }
    Ok(())
}

fn create_options() -> Outcome {
    let mut out = 0_u32;
    gives(raw!(zx_job_create, job()?.raw_handle(), 1, &raw mut out), Status::INVALID_ARGS)?;
    equal(out, 0)
}

fn create_max_height() -> Outcome {
    let top = job()?;
    let mut chain = vec![top.create_child()?];
    // The tree has 32 levels below the root job.
    for _ in 0..40 {
        match chain.last().map(Job::create_child) {
            Some(Ok(job)) => chain.push(job),
            Some(Err(status)) => {
                equal(status, Status::OUT_OF_RANGE)?;
                break;
            }
            None => {}
        }
    }
    ensure(chain.len() > 8 && chain.len() < 32, &format!("{} levels", chain.len()))?;
    // The last level accepts processes and siblings, but no children.
    let last = chain.pop().ok_or("no job")?;
    fails(last.create_child(), Status::OUT_OF_RANGE)?;
    last.create_process("as deep as can be")?;
    chain.last().ok_or("no job")?.create_child()?;
    Ok(())
}

const EMPTY: Signals = Signals::JOB_NO_JOBS.union(Signals::JOB_NO_PROCESSES).union(Signals::JOB_NO_CHILDREN);
const DEAD: Signals = EMPTY.union(Signals::JOB_TERMINATED);

fn create_signals() -> Outcome {
    let parent = job()?;
    equal(parent.signals()?, EMPTY)?;
    let child = parent.create_child()?;
    equal(parent.signals()?, Signals::JOB_NO_PROCESSES)?;
    let process = TestProcess::in_job(&parent, SPIN)?;
    equal(parent.signals()?, Signals::NONE)?;
    drop(child);
    equal(parent.signals()?, Signals::JOB_NO_JOBS)?;
    process.start(None, 0)?;
    process.process.kill()?;
    equal(process.end()?, KILLED)?;
    equal(parent.wait_one(EMPTY, late())? & EMPTY, EMPTY)?;
    // A process that can no longer be started does not count, although a handle to its address space exists.
    let (child, (process, _vmar)) = (parent.create_child()?, parent.create_process("never")?);
    equal(parent.signals()?, Signals::NONE)?;
    drop(process);
    equal(parent.signals()?, Signals::JOB_NO_PROCESSES)?;
    drop(child);
    equal(parent.signals()?, EMPTY)?;
    parent.kill()?;
    equal(parent.signals()?, DEAD)
}

fn children(job: &Job) -> Result<usize, Failure> {
    Ok(job.children(&mut [0; 8])?.avail)
}

fn close_leaves_the_tree() -> Outcome {
    let parent = job()?;
    let (one, other) = (parent.create_child()?, parent.create_child()?);
    let again = one.duplicate(Rights::SAME_RIGHTS)?;
    equal(children(&parent)?, 2)?;
    drop(one);
    equal(children(&parent)?, 2)?;
    drop(again);
    equal(children(&parent)?, 1)?;
    drop(other);
    equal((children(&parent)?, parent.signals()?), (0, EMPTY))
}

fn close_stays_with_children() -> Outcome {
    let parent = job()?;
    let child = parent.create_child()?;
    let koid = test_process::koid(&child)?;
    let process = TestProcess::in_job(&child.create_child()?, SPIN)?;
    drop(child);
    equal(children(&parent)?, 1)?;
    let child = Job::from(parent.get_child(koid, Rights::SAME_RIGHTS)?);
    equal(children(&child)?, 1)?;
    drop(child);
    // The job ends with its last process, although a handle to the process exists.
    process.process.kill()?;
    equal(process.end()?, KILLED)?;
    parent.wait_one(Signals::JOB_NO_JOBS, late())?;
    equal(children(&parent)?, 0)
}

fn kill_without_children() -> Outcome {
    let job = job()?;
    equal(job.info()?.exited, 0)?;
    job.kill()?;
    let info = job.info()?;
    equal((info.exited, info.return_code), (1, KILLED))?;
    takes_no_more(&job)?;
    job.kill()?;
    takes_no_more(&job)
}

fn kill_leaves_the_tree() -> Outcome {
    let parent = job()?;
    let child = parent.create_child()?;
    child.kill()?;
    child.wait_one(Signals::JOB_TERMINATED, late())?;
    equal((children(&parent)?, parent.signals()?), (0, EMPTY))?;
    // The object still exists.
    equal(child.info()?.exited, 1)
}

fn kill_chain() -> Outcome {
    let top = job()?;
    let mut chain = vec![top.create_child()?];
    for _ in 0..5 {
        let next = chain.last().map(Job::create_child).ok_or("no job")??;
        chain.push(next);
    }
    // Each job has a process.
    let processes = chain.iter().map(|job| TestProcess::in_job(job, SPIN)).collect::<Result<Vec<_>, _>>()?;
    processes.iter().try_for_each(|process| process.start(None, 0))?;
    let first = chain.first().ok_or("no job")?;
    first.kill()?;
    // The jobs end from the bottom up: when the first one has ended, all have.
    equal(first.wait_one(Signals::JOB_TERMINATED, late())?, DEAD)?;
    for (job, process) in chain.iter().zip(&processes) {
        equal((job.signals()?, job.info()?.return_code), (DEAD, KILLED))?;
        equal(process.process.signals()?, Signals::TASK_TERMINATED)?;
        equal(process.process.info()?.return_code, KILLED)?;
    }
    equal(children(&top)?, 0)?;
    // The same without handles to the jobs in between.
    let first = top.create_child()?;
    let last = first.create_child()?.create_child()?.create_child()?;
    let process = TestProcess::in_job(&last, SPIN)?;
    process.start(None, 0)?;
    first.kill()?;
    equal(last.wait_one(Signals::JOB_TERMINATED, late())?, DEAD)?;
    equal((process.end()?, last.info()?.return_code, first.info()?.return_code), (KILLED, KILLED, KILLED))?;
    equal(children(&top)?, 0)
}

fn kill_rights() -> Outcome {
    let job = job()?;
    fails(Job::from(without(&*job, Rights::DESTROY)?).kill(), Status::ACCESS_DENIED)?;
    equal(job.info()?.exited, 0)
}

fn wait_until_the_end() -> Outcome {
    let job = job()?;
    let process = TestProcess::in_job(&job, SPIN)?;
    process.start(None, 0)?;
    // A signal that is set already ends the wait, and no other signal is reported.
    equal(job.wait_one(Signals::JOB_NO_JOBS, late())?, Signals::JOB_NO_JOBS)?;
    process.process.kill()?;
    equal(job.wait_one(Signals::JOB_NO_PROCESSES, late())?, EMPTY)?;
    let process = TestProcess::in_job(&job, SPIN)?;
    process.start(None, 0)?;
    let ends = Signals::JOB_TERMINATED | Signals::JOB_NO_PROCESSES;
    fails(job.wait_one(ends, soon(5)), Status::TIMED_OUT)?;
    job.kill()?;
    equal(job.wait_one(Signals::JOB_TERMINATED, late())? & ends, ends)
}

fn info_no_task_stats() -> Outcome {
    let mut record = [0_u8; 64];
    fails(job()?.get_info(abi::ZX_INFO_TASK_STATS, &mut record), Status::WRONG_TYPE)
}

fn property_kill_on_oom() -> Outcome {
    let job = job()?;
    let set = |value: u64| job.set_property(abi::ZX_PROP_JOB_KILL_ON_OOM, &value.to_le_bytes());
    equal(job.info()?.kill_on_oom, 0)?;
    set(1)?;
    equal(job.info()?.kill_on_oom, 1)?;
    fails(set(2), Status::INVALID_ARGS)?;
    equal(job.info()?.kill_on_oom, 1)?;
    set(0)?;
    equal(job.info()?.kill_on_oom, 0)?;
    fails(job.set_property(abi::ZX_PROP_JOB_KILL_ON_OOM, &[0; 7]), Status::BUFFER_TOO_SMALL)?;
    let wrong = zx::Vmo::create(0, 0)?.set_property(abi::ZX_PROP_JOB_KILL_ON_OOM, &[0; 8]);
    fails(wrong, Status::WRONG_TYPE)
}

const CRITICAL: i64 = ZX_TASK_RETCODE_CRITICAL_PROCESS_KILL;

/// The job must have been ended by a critical process.
fn ended(job: &Job) -> Outcome {
    equal(job.wait_one(Signals::JOB_TERMINATED, late())?, DEAD)?;
    equal(job.info()?.return_code, CRITICAL)
}

fn critical_ends_the_job() -> Outcome {
    let job = job()?;
    let (critical, other) = (TestProcess::in_job(&job, SPIN)?, TestProcess::in_job(&job, SPIN)?);
    job.set_critical(0, &critical.process)?;
    critical.start(None, 0)?;
    other.start(None, 0)?;
    equal(job.info()?.exited, 0)?;
    critical.process.kill()?;
    ended(&job)?;
    equal((critical.end()?, other.end()?), (KILLED, CRITICAL))
}

fn critical_ends_the_tree() -> Outcome {
    let above = job()?;
    let top = above.create_child()?;
    let (left, right) = (top.create_child()?, top.create_child()?);
    let critical = Puppet::new(&left)?;
    let (in_right, in_top) = (TestProcess::in_job(&right, SPIN)?, TestProcess::in_job(&top, SPIN)?);
    let beside = TestProcess::in_job(&above, SPIN)?;
    top.set_critical(0, &critical.tiny.process)?;
    in_right.start(None, 0)?;
    critical.post(function!(zx_process_exit), &[7])?;
    equal(critical.tiny.end()?, 7)?;
    [&top, &left, &right].into_iter().try_for_each(ended)?;
    equal((in_right.end()?, in_top.end()?), (CRITICAL, CRITICAL))?;
    equal((above.info()?.exited, beside.process.info()?.flags), (0, 0))
}

fn critical_many_processes() -> Outcome {
    let job = job()?;
    let processes =
        [TestProcess::in_job(&job, SPIN)?, TestProcess::in_job(&job, SPIN)?, TestProcess::in_job(&job, SPIN)?];
    for process in &processes {
        job.set_critical(0, &process.process)?;
        process.start(None, 0)?;
    }
    let [a, b, c] = processes;
    b.process.kill()?;
    ended(&job)?;
    equal((a.end()?, b.end()?, c.end()?), (CRITICAL, KILLED, CRITICAL))
}

fn critical_retcode_nonzero() -> Outcome {
    let job = job()?;
    let option = ZX_JOB_CRITICAL_PROCESS_RETCODE_NONZERO;
    let (zero, one) = (Puppet::new(&job)?, Puppet::new(&job)?);
    job.set_critical(option, &zero.tiny.process)?;
    job.set_critical(option, &one.tiny.process)?;
    zero.post(function!(zx_process_exit), &[0])?;
    equal(zero.tiny.end()?, 0)?;
    equal((job.info()?.exited, one.tiny.process.info()?.return_code), (0, 0))?;
    equal(job.signals()? & Signals::JOB_TERMINATED, Signals::NONE)?;
    one.post(function!(zx_process_exit), &[1])?;
    equal(one.tiny.end()?, 1)?;
    ended(&job)
}

fn critical_already_bound() -> Outcome {
    let top = job()?;
    let below = top.create_child()?;
    let process = TestProcess::in_job(&below, SPIN)?.process;
    below.set_critical(0, &process)?;
    for job in [&below, &top] {
        fails(job.set_critical(0, &process), Status::ALREADY_BOUND)?;
    }
    // The first setting stays in effect.
    process.kill()?;
    ended(&below)?;
    equal(top.info()?.exited, 0)
}

fn critical_not_above() -> Outcome {
    let (home, other) = (job()?, job()?);
    let below = home.create_child()?;
    let process = TestProcess::in_job(&home, SPIN)?.process;
    for job in [&other, &below] {
        fails(job.set_critical(0, &process), Status::INVALID_ARGS)?;
    }
    home.set_critical(0, &process)?;
    Ok(())
}

fn critical_rights() -> Outcome {
    let job = job()?;
    let process = TestProcess::in_job(&job, SPIN)?.process;
    fails(Job::from(without(&*job, Rights::DESTROY)?).set_critical(0, &process), Status::ACCESS_DENIED)?;
    let deaf = zx::Process::from(without(&process, Rights::WAIT)?);
    fails(job.set_critical(0, &deaf), Status::ACCESS_DENIED)?;
    let words = [u64::from(job.raw_handle()), u64::from(process.raw_handle())];
    gives(raw!(zx_job_set_critical, words[1], 0, words[1]), Status::WRONG_TYPE)?;
    gives(raw!(zx_job_set_critical, words[0], 0, words[0]), Status::WRONG_TYPE)?;
    gives(raw!(zx_job_set_critical, 0, 0, words[1]), Status::BAD_HANDLE)?;
    gives(raw!(zx_job_set_critical, words[0], 0, 0), Status::BAD_HANDLE)?;
    Ok(job.set_critical(0, &process)?)
}

fn critical_options() -> Outcome {
    let job = job()?;
    let process = TestProcess::in_job(&job, SPIN)?.process;
    fails(job.set_critical(2, &process), Status::INVALID_ARGS)
}
