//! Policies: what jobs permit their processes.

use abi::{
    Rights, Status, ZX_EXCP_POLICY_ERROR, ZX_JOB_POL_ABSOLUTE, ZX_JOB_POL_BASIC_V1, ZX_JOB_POL_BASIC_V2,
    ZX_JOB_POL_RELATIVE, ZX_JOB_POL_TIMER_SLACK, ZX_POL_ACTION_ALLOW, ZX_POL_ACTION_ALLOW_EXCEPTION,
    ZX_POL_ACTION_DENY, ZX_POL_ACTION_KILL, ZX_POL_ACTION_MAX, ZX_POL_BAD_HANDLE, ZX_POL_MAX, ZX_POL_NEW_ANY,
    ZX_POL_NEW_CHANNEL, ZX_POL_NEW_EVENT, ZX_POL_OVERRIDE_ALLOW, ZX_POL_OVERRIDE_DENY, ZX_POL_WRONG_OBJECT,
    ZX_TASK_RETCODE_POLICY_KILL, zx_policy_basic_v2_t, zx_policy_timer_slack_t,
};
use zx::{AsHandleRef, Job, Vmo};

use super::{cases, raw, without};
use crate::caught_exception::catch_type;
use crate::check::{Failure, Outcome, equal, fails, gives};
use crate::puppet::{Puppet, function};
use crate::test_process::{OwnJob, SPIN, TestProcess};

cases! {
    "job.set_policy.topic" => topic,
    "job.set_policy.options" => options,
    "job.set_policy.count" => count,
    "job.set_policy.entries" => entries,
    "job.set_policy.handle" => handle,
    "job.set_policy.with_children" => with_children,
    "job.set_policy.override_deny" => override_deny,
    "job.set_policy.override_allow" => override_allow,
    "job.set_policy.first_form" => first_form,
    "job.set_policy.all_or_nothing" => all_or_nothing,
    "job.set_policy.inherited" => inherited,
    "job.set_policy.denies_new_objects" => denies_new_objects,
    "job.set_policy.exceptions_say_which" => exceptions_say_which,
    "job.set_policy.any_but_one" => any_but_one,
    "job.set_policy.denies_write_and_execute" => denies_write_and_execute,
    "job.set_policy.denies_ambient_exec" => denies_ambient_exec,
    "job.set_policy.kills_for_a_new_object" => kills_for_a_new_object,
    "job.set_policy.kills_for_a_bad_handle" => kills_for_a_bad_handle,
    "job.set_policy.kills_for_a_wrong_object" => kills_for_a_wrong_object,
    "job.set_policy.denied_handles_err_as_ever" => denied_handles_err_as_ever,
    "job.set_timer_slack.valid" => slack_valid,
    "job.set_timer_slack.count" => slack_count,
    "job.set_timer_slack.options" => slack_options,
    "job.set_timer_slack.policy" => slack_policy,
    "job.set_timer_slack.with_children" => slack_with_children,
}

fn job() -> Result<OwnJob, Failure> {
    OwnJob::new()
}

fn entry(condition: u32, action: u32, flags: u32) -> zx_policy_basic_v2_t {
    zx_policy_basic_v2_t { condition, action, flags }
}

/// A job with a policy for one condition.
fn job_with(condition: u32, action: u32) -> Result<OwnJob, Failure> {
    let job = job()?;
    job.set_policy(ZX_JOB_POL_ABSOLUTE, &[entry(condition, action, ZX_POL_OVERRIDE_DENY)])?;
    Ok(job)
}

/// The status of `event_create` in a process of the job.
fn new_event(job: &Job) -> Result<Status, Failure> {
    let puppet = Puppet::new(job)?;
    let room = puppet.room(0)?;
    puppet.call(function!(zx_event_create), &[0, room])
}

fn topic() -> Outcome {
    let entries = [entry(ZX_POL_NEW_EVENT, ZX_POL_ACTION_DENY, ZX_POL_OVERRIDE_DENY)];
    for topic in [2, 3, ZX_JOB_POL_BASIC_V2 + 1, u32::MAX] {
        let status = raw!(zx_job_set_policy, job()?.raw_handle(), ZX_JOB_POL_ABSOLUTE, topic, entries.as_ptr(), 1);
        gives(status, Status::INVALID_ARGS)?;
    }
    Ok(())
}

fn options() -> Outcome {
    let entries = [entry(ZX_POL_NEW_EVENT, ZX_POL_ACTION_DENY, ZX_POL_OVERRIDE_DENY)];
    fails(job()?.set_policy(2, &entries), Status::INVALID_ARGS)?;
    fails(job()?.set_policy(u32::MAX, &entries), Status::INVALID_ARGS)
}

fn count() -> Outcome {
    let job = job()?;
    fails(job.set_policy(ZX_JOB_POL_ABSOLUTE, &[]), Status::INVALID_ARGS)?;
    let many = vec![entry(ZX_POL_NEW_EVENT, ZX_POL_ACTION_DENY, ZX_POL_OVERRIDE_DENY); ZX_POL_MAX as usize + 1];
    fails(job.set_policy(ZX_JOB_POL_ABSOLUTE, &many), Status::OUT_OF_RANGE)?;
    job.set_policy(ZX_JOB_POL_ABSOLUTE, &many[1..])?;
    let topic = ZX_JOB_POL_BASIC_V1;
    gives(raw!(zx_job_set_policy, job.raw_handle(), ZX_JOB_POL_ABSOLUTE, topic, 0, 1), Status::INVALID_ARGS)
}

fn entries() -> Outcome {
    let job = job()?;
    let set = |condition, action, flags| job.set_policy(ZX_JOB_POL_ABSOLUTE, &[entry(condition, action, flags)]);
    fails(set(ZX_POL_MAX, ZX_POL_ACTION_ALLOW, ZX_POL_OVERRIDE_DENY), Status::INVALID_ARGS)?;
    fails(set(u32::MAX, ZX_POL_ACTION_ALLOW, ZX_POL_OVERRIDE_DENY), Status::INVALID_ARGS)?;
    fails(set(ZX_POL_NEW_EVENT, ZX_POL_ACTION_MAX, ZX_POL_OVERRIDE_DENY), Status::NOT_SUPPORTED)?;
    fails(set(ZX_POL_NEW_EVENT, ZX_POL_ACTION_ALLOW, 2), Status::INVALID_ARGS)?;
    for condition in 0..ZX_POL_MAX {
        for action in 0..ZX_POL_ACTION_MAX {
            set(condition, action, ZX_POL_OVERRIDE_ALLOW)?;
        }
    }
    Ok(())
}

fn handle() -> Outcome {
    let entries = [entry(ZX_POL_NEW_EVENT, ZX_POL_ACTION_DENY, ZX_POL_OVERRIDE_DENY)];
    let weak = Job::from(without(&*job()?, Rights::SET_POLICY)?);
    fails(weak.set_policy(ZX_JOB_POL_ABSOLUTE, &entries), Status::ACCESS_DENIED)?;
    let event = Job::from(zx::Event::create()?.into_handle());
    fails(event.set_policy(ZX_JOB_POL_ABSOLUTE, &entries), Status::WRONG_TYPE)?;
    let topic = ZX_JOB_POL_BASIC_V2;
    gives(raw!(zx_job_set_policy, 0, ZX_JOB_POL_ABSOLUTE, topic, entries.as_ptr(), 1), Status::BAD_HANDLE)
}

fn with_children() -> Outcome {
    let entries = [entry(ZX_POL_NEW_EVENT, ZX_POL_ACTION_DENY, ZX_POL_OVERRIDE_ALLOW)];
    let job = job()?;
    let child = job.create_child()?;
    fails(job.set_policy(ZX_JOB_POL_RELATIVE, &entries), Status::BAD_STATE)?;
    drop(child);
    job.set_policy(ZX_JOB_POL_RELATIVE, &entries)?;
    let process = TestProcess::in_job(&job, SPIN)?;
    fails(job.set_policy(ZX_JOB_POL_RELATIVE, &entries), Status::BAD_STATE)?;
    process.process.kill()?;
    process.end()?;
    job.set_policy(ZX_JOB_POL_RELATIVE, &entries)?;
    Ok(())
}

fn override_deny() -> Outcome {
    let job = job_with(ZX_POL_NEW_EVENT, ZX_POL_ACTION_DENY)?;
    let allow = [entry(ZX_POL_NEW_EVENT, ZX_POL_ACTION_ALLOW, ZX_POL_OVERRIDE_DENY)];
    let deny = [entry(ZX_POL_NEW_EVENT, ZX_POL_ACTION_DENY, ZX_POL_OVERRIDE_DENY)];
    // In the job itself, and in a job below it, which has inherited the policy.
    for job in [&*job, &job.create_child()?] {
        let status = job.set_policy(ZX_JOB_POL_ABSOLUTE, &allow).err();
        // The first job has a child.
        let child = job.children(&mut [0; 1])?.avail;
        equal(status, Some(if child == 0 { Status::ALREADY_EXISTS } else { Status::BAD_STATE }))?;
    }
    fails(job.set_policy(ZX_JOB_POL_ABSOLUTE, &allow), Status::ALREADY_EXISTS)?;
    job.set_policy(ZX_JOB_POL_RELATIVE, &allow)?;
    job.set_policy(ZX_JOB_POL_ABSOLUTE, &deny)?;
    equal(new_event(&job)?, Status::ACCESS_DENIED)
}

fn override_allow() -> Outcome {
    let job = job()?;
    let set = |job: &Job, action| {
        job.set_policy(ZX_JOB_POL_ABSOLUTE, &[entry(ZX_POL_NEW_EVENT, action, ZX_POL_OVERRIDE_ALLOW)])
    };
    set(&job, ZX_POL_ACTION_DENY)?;
    let child = job.create_child()?;
    equal(new_event(&child)?, Status::ACCESS_DENIED)?;
    let other = job.create_child()?;
    set(&other, ZX_POL_ACTION_ALLOW)?;
    equal(new_event(&other)?, Status::OK)?;
    // A condition that the lower job has fixed cannot be changed there.
    let fixed = job.create_child()?;
    fixed.set_policy(ZX_JOB_POL_ABSOLUTE, &[entry(ZX_POL_NEW_EVENT, ZX_POL_ACTION_ALLOW, ZX_POL_OVERRIDE_DENY)])?;
    fails(set(&fixed, ZX_POL_ACTION_DENY), Status::ALREADY_EXISTS)?;
    equal(new_event(&fixed)?, Status::OK)
}

fn first_form() -> Outcome {
    let job = job()?;
    let set = |action: u32| {
        let words = [ZX_POL_NEW_EVENT, action];
        let topic = ZX_JOB_POL_BASIC_V1;
        raw!(zx_job_set_policy, job.raw_handle(), ZX_JOB_POL_ABSOLUTE, topic, words.as_ptr(), 1)
    };
    gives(set(ZX_POL_ACTION_DENY), Status::OK)?;
    gives(set(ZX_POL_ACTION_DENY), Status::OK)?;
    gives(set(ZX_POL_ACTION_ALLOW), Status::ALREADY_EXISTS)?;
    equal(new_event(&job)?, Status::ACCESS_DENIED)
}

fn all_or_nothing() -> Outcome {
    let job = job_with(ZX_POL_NEW_CHANNEL, ZX_POL_ACTION_DENY)?;
    let entries = [
        entry(ZX_POL_NEW_EVENT, ZX_POL_ACTION_DENY, ZX_POL_OVERRIDE_DENY),
        entry(ZX_POL_NEW_CHANNEL, ZX_POL_ACTION_ALLOW, ZX_POL_OVERRIDE_DENY),
    ];
    fails(job.set_policy(ZX_JOB_POL_ABSOLUTE, &entries), Status::ALREADY_EXISTS)?;
    equal(new_event(&job)?, Status::OK)
}

fn inherited() -> Outcome {
    let job = job_with(ZX_POL_NEW_EVENT, ZX_POL_ACTION_DENY)?;
    equal(new_event(&job.create_child()?.create_child()?)?, Status::ACCESS_DENIED)?;
    equal(new_event(&*self::job()?)?, Status::OK)
}

/// Calls that create something, each with its condition and with valid arguments; the last one or two arguments are
/// places for handles.
const CALLS: [(u32, Call, &[u64]); 9] = [
    (abi::ZX_POL_NEW_VMO, || function!(zx_vmo_create), &[4096, 0, 0]),
    (abi::ZX_POL_NEW_CHANNEL, || function!(zx_channel_create), &[0, 0, 8]),
    (abi::ZX_POL_NEW_EVENT, || function!(zx_event_create), &[0, 0]),
    (abi::ZX_POL_NEW_EVENTPAIR, || function!(zx_eventpair_create), &[0, 0, 8]),
    (abi::ZX_POL_NEW_PORT, || function!(zx_port_create), &[0, 0]),
    (abi::ZX_POL_NEW_SOCKET, || function!(zx_socket_create), &[0, 0, 8]),
    (abi::ZX_POL_NEW_FIFO, || function!(zx_fifo_create), &[8, 8, 0, 0, 8]),
    (abi::ZX_POL_NEW_TIMER, || function!(zx_timer_create), &[0, 0, 0]),
    (abi::ZX_POL_NEW_PROCESS, || function!(zx_process_create), &[0, 0, 1, 0, 0, 8]),
];

/// The address of a call.
type Call = fn() -> u64;

/// Makes a puppet, which has the handle `home` to a job, make one of the [`CALLS`].
fn post(puppet: &Puppet, home: u64, (condition, function, arguments): (u32, Call, &[u64])) -> Outcome {
    let room = puppet.room(64)?;
    let outs = if arguments.last() == Some(&8) { 2 } else { 1 };
    let mut arguments = arguments.to_vec();
    let first = arguments.len() - outs;
    arguments[first..].iter_mut().for_each(|place| *place += room);
    if condition == abi::ZX_POL_NEW_PROCESS {
        (arguments[0], arguments[1]) = (home, room);
    }
    puppet.post(function(), &arguments)
}

fn result(puppet: &Puppet) -> Result<Status, Failure> {
    Ok(Status(puppet.result()?.ok_or("the process that should make a call has ended")? as i32))
}

fn denies_new_objects() -> Outcome {
    let home = job()?;
    for (denied, ..) in CALLS {
        let puppet = Puppet::of(job_with(denied, ZX_POL_ACTION_DENY)?)?;
        let below = puppet.give(home.duplicate_handle(Rights::SAME_RIGHTS)?)?;
        for call in CALLS {
            post(&puppet, below, call)?;
            let expected = if call.0 == denied { Status::ACCESS_DENIED } else { Status::OK };
            let status = result(&puppet)?;
            if status != expected {
                return Err(format!("{denied} is denied, and {} gives {status}", call.0).into());
            }
        }
    }
    Ok(())
}

fn exceptions_say_which() -> Outcome {
    let home = job()?;
    for call in CALLS {
        let puppet = Puppet::of(job_with(call.0, ZX_POL_ACTION_ALLOW_EXCEPTION)?)?;
        let below = puppet.give(home.duplicate_handle(Rights::SAME_RIGHTS)?)?;
        let channel = puppet.tiny.process.create_exception_channel(0)?;
        post(&puppet, below, call)?;
        let caught = catch_type(&channel, ZX_EXCP_POLICY_ERROR)?;
        // For these conditions, the exception code equals the condition.
        equal(caught.exception.thread()?.exception_report()?.context.synth_code, call.0)?;
        caught.handled()?;
        gives(result(&puppet)?, Status::OK)?;
    }
    Ok(())
}

fn any_but_one() -> Outcome {
    let job = job()?;
    let entries = [
        entry(ZX_POL_NEW_ANY, ZX_POL_ACTION_DENY, ZX_POL_OVERRIDE_DENY),
        entry(ZX_POL_NEW_EVENT, ZX_POL_ACTION_ALLOW, ZX_POL_OVERRIDE_DENY),
    ];
    job.set_policy(ZX_JOB_POL_ABSOLUTE, &entries)?;
    let puppet = Puppet::new(&job)?;
    let room = puppet.room(0)?;
    gives(puppet.call(function!(zx_event_create), &[0, room])?, Status::OK)?;
    gives(puppet.call(function!(zx_port_create), &[0, room])?, Status::ACCESS_DENIED)?;
    gives(puppet.call(function!(zx_vmo_create), &[4096, 0, room])?, Status::ACCESS_DENIED)
}

fn denies_write_and_execute() -> Outcome {
    let puppet = Puppet::of(job_with(abi::ZX_POL_VMAR_WX, ZX_POL_ACTION_DENY)?)?;
    let vmar = puppet.give(puppet.tiny.vmar.duplicate(Rights::SAME_RIGHTS)?.into_handle())?;
    let vmo = puppet.give(Vmo::create(4096, 0)?.replace_as_executable(None)?.into_handle())?;
    let room = puppet.room(0)?;
    let (r, w, x) = (abi::ZX_VM_PERM_READ, abi::ZX_VM_PERM_WRITE, abi::ZX_VM_PERM_EXECUTE);
    let map = |options: u32| puppet.call(function!(zx_vmar_map), &[vmar, u64::from(options), 0, vmo, 0, 4096, room]);
    gives(map(r | w | x)?, Status::ACCESS_DENIED)?;
    gives(map(r | w)?, Status::OK)?;
    let at = u64::from(puppet.word(0)?) | u64::from(puppet.word(4)?) << 32;
    let protect = |options: u32| puppet.call(function!(zx_vmar_protect), &[vmar, u64::from(options), at, 4096]);
    gives(protect(r | w | x)?, Status::ACCESS_DENIED)?;
    gives(protect(r | x)?, Status::OK)?;
    // Without the policy, writable and executable memory is permitted.
    let puppet = Puppet::of(job()?)?;
    let vmar = puppet.give(puppet.tiny.vmar.duplicate(Rights::SAME_RIGHTS)?.into_handle())?;
    let vmo = puppet.give(Vmo::create(4096, 0)?.replace_as_executable(None)?.into_handle())?;
    let arguments = [vmar, u64::from(r | w | x), 0, vmo, 0, 4096, puppet.room(0)?];
    gives(puppet.call(function!(zx_vmar_map), &arguments)?, Status::OK)
}

fn denies_ambient_exec() -> Outcome {
    let puppet = Puppet::of(job_with(abi::ZX_POL_AMBIENT_MARK_VMO_EXEC, ZX_POL_ACTION_DENY)?)?;
    let vmo = puppet.give(Vmo::create(4096, 0)?.into_handle())?;
    let room = puppet.room(0)?;
    gives(puppet.call(function!(zx_vmo_replace_as_executable), &[vmo, 0, room])?, Status::ACCESS_DENIED)
}

/// The puppet makes a call for which its job's policy kills it.
fn killed_by(puppet: &Puppet, function: u64, arguments: &[u64]) -> Outcome {
    puppet.post(function, arguments)?;
    equal(puppet.result()?, None)?;
    equal(puppet.tiny.end()?, ZX_TASK_RETCODE_POLICY_KILL)
}

fn kills_for_a_new_object() -> Outcome {
    let puppet = Puppet::of(job_with(ZX_POL_NEW_EVENT, ZX_POL_ACTION_KILL)?)?;
    let room = puppet.room(0)?;
    gives(puppet.call(function!(zx_port_create), &[0, room])?, Status::OK)?;
    // The server checks arguments before the policy.
    gives(puppet.call(function!(zx_event_create), &[1, room])?, Status::INVALID_ARGS)?;
    killed_by(&puppet, function!(zx_event_create), &[0, room])
}

fn kills_for_a_bad_handle() -> Outcome {
    let job = job_with(ZX_POL_BAD_HANDLE, ZX_POL_ACTION_KILL)?;
    let puppet = Puppet::new(&job)?;
    let valid = u64::from(abi::ZX_INFO_HANDLE_VALID);
    gives(puppet.call(function!(zx_object_get_info), &[0, valid, 0, 0, 0, 0])?, Status::BAD_HANDLE)?;
    gives(puppet.call(function!(zx_handle_check_valid), &[1234])?, Status::BAD_HANDLE)?;
    gives(puppet.call(function!(zx_handle_close), &[0])?, Status::OK)?;
    killed_by(&puppet, function!(zx_handle_close), &[1234])?;
    let basic = u64::from(abi::ZX_INFO_HANDLE_BASIC);
    for (function, arguments) in [
        (function!(zx_object_get_info), [0, basic, 0, 0]),
        (function!(zx_object_wait_one), [0, 1, 0, 0]),
        (function!(zx_channel_read), [7, 0, 0, 0]),
        (function!(zx_task_kill), [0, 0, 0, 0]),
    ] {
        killed_by(&Puppet::new(&job)?, function, &arguments)?;
    }
    Ok(())
}

fn kills_for_a_wrong_object() -> Outcome {
    let job = job_with(ZX_POL_WRONG_OBJECT, ZX_POL_ACTION_KILL)?;
    let puppet = Puppet::new(&job)?;
    let event = puppet.give(zx::Event::create()?.into_handle())?;
    gives(puppet.call(function!(zx_object_signal), &[event, 0, 1 << 24])?, Status::OK)?;
    gives(puppet.call(function!(zx_handle_close), &[1234])?, Status::BAD_HANDLE)?;
    killed_by(&puppet, function!(zx_timer_cancel), &[event])
}

fn denied_handles_err_as_ever() -> Outcome {
    let puppet = Puppet::of(job_with(ZX_POL_BAD_HANDLE, ZX_POL_ACTION_DENY)?)?;
    gives(puppet.call(function!(zx_handle_close), &[1234])?, Status::BAD_HANDLE)?;
    let puppet = Puppet::of(job_with(ZX_POL_WRONG_OBJECT, ZX_POL_ACTION_DENY)?)?;
    let event = puppet.give(zx::Event::create()?.into_handle())?;
    gives(puppet.call(function!(zx_timer_cancel), &[event])?, Status::WRONG_TYPE)
}

fn slack(min_slack: i64, default_mode: u32) -> zx_policy_timer_slack_t {
    zx_policy_timer_slack_t { min_slack, default_mode, ..Default::default() }
}

fn raw_slack(job: &Job, options: u32, policy: &zx_policy_timer_slack_t, count: u32) -> Status {
    raw!(zx_job_set_policy, job.raw_handle(), options, ZX_JOB_POL_TIMER_SLACK, core::ptr::from_ref(policy), count)
}

fn slack_valid() -> Outcome {
    let job = job()?;
    for mode in [abi::ZX_TIMER_SLACK_CENTER, abi::ZX_TIMER_SLACK_EARLY, abi::ZX_TIMER_SLACK_LATE] {
        for min_slack in [0, 1_000_000, i64::MAX] {
            gives(raw_slack(&job, ZX_JOB_POL_RELATIVE, &slack(min_slack, mode), 1), Status::OK)?;
        }
    }
    // Timers of its processes fire, whatever their slack is.
    let puppet = Puppet::new(&job)?;
    let room = puppet.room(0)?;
    gives(puppet.call(function!(zx_timer_create), &[0, 0, room])?, Status::OK)?;
    let timer = u64::from(puppet.word(0)?);
    let deadline = super::soon(5).0 as u64;
    gives(puppet.call(function!(zx_timer_set), &[timer, deadline, 0])?, Status::OK)?;
    let signal = u64::from(zx::Signals::TIMER_SIGNALED.bits());
    gives(puppet.call(function!(zx_object_wait_one), &[timer, signal, super::late().0 as u64, 0])?, Status::OK)
}

fn slack_count() -> Outcome {
    let job = job()?;
    for count in [0, 2, u32::MAX] {
        gives(raw_slack(&job, ZX_JOB_POL_RELATIVE, &slack(0, 0), count), Status::INVALID_ARGS)?;
    }
    let null = raw!(zx_job_set_policy, job.raw_handle(), ZX_JOB_POL_RELATIVE, ZX_JOB_POL_TIMER_SLACK, 0, 1);
    gives(null, Status::INVALID_ARGS)
}

fn slack_options() -> Outcome {
    let job = job()?;
    for options in [ZX_JOB_POL_ABSOLUTE, 2, u32::MAX] {
        gives(raw_slack(&job, options, &slack(0, 0), 1), Status::INVALID_ARGS)?;
    }
    Ok(())
}

fn slack_policy() -> Outcome {
    let job = job()?;
    for (min_slack, mode) in [(-1, abi::ZX_TIMER_SLACK_CENTER), (i64::MIN, abi::ZX_TIMER_SLACK_LATE), (0, 3)] {
        fails(job.set_timer_slack(&slack(min_slack, mode)), Status::INVALID_ARGS)?;
    }
    Ok(())
}

fn slack_with_children() -> Outcome {
    let job = job()?;
    let child = job.create_child()?;
    fails(job.set_timer_slack(&slack(0, 0)), Status::BAD_STATE)?;
    drop(child);
    let process = TestProcess::in_job(&job, SPIN)?;
    fails(job.set_timer_slack(&slack(0, 0)), Status::BAD_STATE)?;
    process.process.kill()?;
    process.end()?;
    Ok(job.set_timer_slack(&slack(0, 0))?)
}
