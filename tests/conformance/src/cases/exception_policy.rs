//! Exceptions of calls that violate a policy.

use abi::{
    Status, ZX_EXCP_POLICY_ERROR, ZX_JOB_POL_ABSOLUTE, ZX_POL_ACTION_ALLOW_EXCEPTION, ZX_POL_ACTION_DENY_EXCEPTION,
    ZX_POL_BAD_HANDLE, ZX_POL_NEW_EVENT, ZX_POL_NEW_TIMER, ZX_POL_OVERRIDE_DENY, zx_policy_basic_v2_t,
};
use zx::Channel;

use super::cases;
use crate::caught_exception::{catch, catch_type, quiet};
use crate::check::{Failure, Outcome, equal, gives};
use crate::puppet::{Puppet, function};
use crate::test_process::{EXCEPTION, KILLED, OwnJob};

cases! {
    "exception.policy.denied" => denied,
    "exception.policy.result_is_changed" => result_is_changed,
    "exception.policy.allowed" => allowed,
    "exception.policy.bad_handle" => bad_handle,
    "exception.policy.unhandled" => unhandled,
    "exception.policy.passed_on" => passed_on,
    "exception.policy.thread_exit" => policy_thread_exit,
    "exception.policy.killed" => policy_killed,
}

/// A puppet whose job has a policy, and the exception channel of its process.
fn limited(condition: u32, action: u32) -> Result<(Puppet, Channel, OwnJob), Failure> {
    let job = OwnJob::new()?;
    job.set_policy(ZX_JOB_POL_ABSOLUTE, &[zx_policy_basic_v2_t { condition, action, flags: ZX_POL_OVERRIDE_DENY }])?;
    let puppet = Puppet::new(&job)?;
    let channel = puppet.tiny.process.create_exception_channel(0)?;
    Ok((puppet, channel, job))
}

/// Makes the puppet create an event, which violates its policy.
fn make_event(puppet: &Puppet) -> Outcome {
    puppet.post(function!(zx_event_create), &[0, puppet.room(0)?])
}

fn result(puppet: &Puppet) -> Result<Status, Failure> {
    Ok(Status(puppet.result()?.ok_or("the puppet has ended")? as i32))
}

fn denied() -> Outcome {
    let (puppet, channel, _job) = limited(ZX_POL_NEW_EVENT, ZX_POL_ACTION_DENY_EXCEPTION)?;
    make_event(&puppet)?;
    let caught = catch_type(&channel, ZX_EXCP_POLICY_ERROR)?;
    caught.is_of(&puppet.tiny)?;
    let thread = caught.exception.thread()?;
    equal(thread.info()?.state, abi::ZX_THREAD_STATE_BLOCKED_EXCEPTION)?;
    let report = thread.exception_report()?;
    equal(report.context.arch, abi::zx_x86_64_exc_data_t::default())?;
    equal((report.context.synth_code, report.context.synth_data), (abi::ZX_EXCP_POLICY_CODE_NEW_EVENT, 0))?;
    let registers: abi::zx_thread_state_general_regs_t = thread.registers()?;
    equal(registers.rax as i32, Status::ACCESS_DENIED.0)?;
    caught.handled()?;
    // The program gets the same status as without the exception.
    gives(result(&puppet)?, Status::ACCESS_DENIED)?;
    equal(puppet.word(0)?, 0)?;
    // A permitted call raises no exception.
    gives(puppet.call(function!(zx_counter_create), &[0, puppet.room(0)?])?, Status::OK)?;
    quiet(&channel)
}

fn result_is_changed() -> Outcome {
    let (puppet, channel, _job) = limited(ZX_POL_NEW_EVENT, ZX_POL_ACTION_DENY_EXCEPTION)?;
    make_event(&puppet)?;
    let caught = catch_type(&channel, ZX_EXCP_POLICY_ERROR)?;
    let thread = caught.exception.thread()?;
    let mut registers: abi::zx_thread_state_general_regs_t = thread.registers()?;
    registers.rax = i64::from(Status::INTERNAL.0).cast_unsigned();
    thread.set_registers(&registers)?;
    caught.handled()?;
    gives(result(&puppet)?, Status::INTERNAL)
}

fn allowed() -> Outcome {
    let (puppet, channel, _job) = limited(ZX_POL_NEW_TIMER, ZX_POL_ACTION_ALLOW_EXCEPTION)?;
    let arguments = [0, u64::from(abi::ZX_CLOCK_MONOTONIC), puppet.room(0)?];
    puppet.post(function!(zx_timer_create), &arguments)?;
    let caught = catch_type(&channel, ZX_EXCP_POLICY_ERROR)?;
    let report = caught.exception.thread()?.exception_report()?;
    equal(report.context.synth_code, abi::ZX_EXCP_POLICY_CODE_NEW_TIMER)?;
    caught.handled()?;
    gives(result(&puppet)?, Status::OK)?;
    // The timer has been created.
    let timer = u64::from(puppet.word(0)?);
    gives(puppet.call(function!(zx_timer_cancel), &[timer])?, Status::OK)
}

fn bad_handle() -> Outcome {
    let (puppet, channel, _job) = limited(ZX_POL_BAD_HANDLE, ZX_POL_ACTION_DENY_EXCEPTION)?;
    puppet.post(function!(zx_event_create), &[0, puppet.room(0)?])?;
    gives(result(&puppet)?, Status::OK)?;
    puppet.post(function!(zx_timer_cancel), &[0])?;
    let caught = catch_type(&channel, ZX_EXCP_POLICY_ERROR)?;
    let report = caught.exception.thread()?.exception_report()?;
    equal(report.context.synth_code, abi::ZX_EXCP_POLICY_CODE_BAD_HANDLE)?;
    caught.handled()?;
    gives(result(&puppet)?, Status::BAD_HANDLE)
}

fn unhandled() -> Outcome {
    let (puppet, channel, _job) = limited(ZX_POL_NEW_EVENT, ZX_POL_ACTION_ALLOW_EXCEPTION)?;
    drop(channel);
    make_event(&puppet)?;
    equal(puppet.tiny.end()?, EXCEPTION)
}

fn passed_on() -> Outcome {
    let (puppet, channel, _job) = limited(ZX_POL_NEW_EVENT, ZX_POL_ACTION_DENY_EXCEPTION)?;
    let debugger = puppet.tiny.process.create_exception_channel(abi::ZX_EXCEPTION_CHANNEL_DEBUGGER)?;
    let thread = puppet.tiny.thread.create_exception_channel(0)?;
    make_event(&puppet)?;
    for handler in [&debugger, &thread, &channel] {
        catch_type(handler, ZX_EXCP_POLICY_ERROR)?.passed();
    }
    equal(puppet.tiny.end()?, EXCEPTION)
}

fn policy_thread_exit() -> Outcome {
    let (puppet, channel, _job) = limited(ZX_POL_NEW_EVENT, ZX_POL_ACTION_DENY_EXCEPTION)?;
    make_event(&puppet)?;
    catch(&channel)?.exits()?;
    equal(puppet.tiny.end()?, 0)
}

fn policy_killed() -> Outcome {
    let (puppet, channel, _job) = limited(ZX_POL_NEW_EVENT, ZX_POL_ACTION_DENY_EXCEPTION)?;
    make_event(&puppet)?;
    let caught = catch(&channel)?;
    puppet.tiny.process.kill()?;
    equal(puppet.tiny.end()?, KILLED)?;
    caught.handled()?;
    Ok(())
}
