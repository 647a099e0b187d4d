//! Exceptions for debuggers only: process starting, thread starting, thread exiting, and user exceptions.

use abi::{
    Status, ZX_EXCEPTION_CHANNEL_DEBUGGER, ZX_EXCEPTION_CHANNEL_TYPE_DEBUGGER, ZX_EXCEPTION_CHANNEL_TYPE_JOB_DEBUGGER,
    ZX_EXCEPTION_TARGET_JOB_DEBUGGER, ZX_EXCP_PROCESS_STARTING, ZX_EXCP_SW_BREAKPOINT, ZX_EXCP_THREAD_EXITING,
    ZX_EXCP_THREAD_STARTING, ZX_EXCP_USER, zx_thread_state_general_regs_t,
};
use zx::{AsHandleRef, Channel, Signals};

use super::{cases, late, raw, soon};
use crate::caught_exception::{CaughtException, HandledProcess, OwnedTestProcess, UNDEFINED, catch_type, ended, quiet};
use crate::check::{Failure, Outcome, ensure, equal, gives};
use crate::puppet::{Puppet, function};
use crate::test_process::{self, EXCEPTION, KILLED, OwnJob, SPIN, TestProcess};

cases! {
    "exception.thread_starting.holds" => starting_holds,
    "exception.thread_starting.registers" => starting_registers,
    "exception.thread_starting.second_thread" => starting_second_thread,
    "exception.thread_starting.decision_does_not_matter" => starting_decision_does_not_matter,
    "exception.thread_starting.debugger_closes" => starting_debugger_closes,
    "exception.thread_starting.killed" => starting_killed,
    "exception.thread_exiting.holds" => exiting_holds,
    "exception.thread_exiting.debugger_closes" => exiting_debugger_closes,
    "exception.thread_exiting.killed" => exiting_killed,
    "exception.thread_exiting.killed_while_held" => exiting_killed_while_held,
    "exception.thread_exiting.process_exits" => exiting_process_exits,
    "exception.thread_exiting.many_threads" => exiting_many_threads,
    "exception.process_starting.holds" => process_starting_holds,
    "exception.process_starting.before_thread_starting" => process_starting_before_thread_starting,
    "exception.process_starting.only_first_thread" => process_starting_only_first_thread,
    "exception.process_starting.all_debuggers" => process_starting_all_debuggers,
    "exception.process_starting.decision_does_not_matter" => process_starting_decision_does_not_matter,
    "exception.process_starting.killed" => process_starting_killed,
    "exception.user.errors" => user_errors,
    "exception.user.nobody_listens" => user_nobody_listens,
    "exception.user.delivered" => user_delivered,
    "exception.user.all_debuggers" => user_all_debuggers,
    "exception.user.killed" => user_killed,
}

const DEBUGGER: u32 = ZX_EXCEPTION_CHANNEL_DEBUGGER;
/// `int3`, then spins.
const BREAKPOINT: &[u8] = &[0xcc, 0xeb, 0xfe];

/// Checks that the thread is held in an exception of this type.
fn held(tiny: &TestProcess, kind: u32) -> Outcome {
    zx::nanosleep(soon(10))?;
    equal(tiny.thread.info()?.state, abi::ZX_THREAD_STATE_BLOCKED_EXCEPTION)?;
    let report = tiny.thread.exception_report()?;
    equal(report.header.type_, kind)?;
    equal((report.context.arch.vector, report.context.arch.cr2), (0, 0))?;
    equal((report.context.synth_code, report.context.synth_data), (0, 0))
}

fn starting_holds() -> Outcome {
    let watched = HandledProcess::new(BREAKPOINT)?;
    quiet(&watched.debugger)?;
    watched.tiny.start(None, 0)?;
    let caught = catch_type(&watched.debugger, ZX_EXCP_THREAD_STARTING)?;
    caught.is_of(&watched.tiny)?;
    held(&watched.tiny, ZX_EXCP_THREAD_STARTING)?;
    equal(watched.tiny.thread.info()?.wait_exception_channel_type, ZX_EXCEPTION_CHANNEL_TYPE_DEBUGGER)?;
    watched.in_order().iter().try_for_each(|channel| quiet(channel))?;
    caught.passed();
    // The thread resumes, and no other handler gets the exception.
    catch_type(&watched.debugger, ZX_EXCP_SW_BREAKPOINT)?.passed();
    catch_type(&watched.thread, ZX_EXCP_SW_BREAKPOINT)?.handled()?;
    Ok(())
}

fn starting_registers() -> Outcome {
    let watched = HandledProcess::new(BREAKPOINT)?;
    watched.tiny.start(None, 4711)?;
    let caught = catch_type(&watched.debugger, ZX_EXCP_THREAD_STARTING)?;
    let thread = caught.exception.thread()?;
    let mut registers: zx_thread_state_general_regs_t = thread.registers()?;
    equal((registers.rip, registers.rsp), (watched.tiny.entry as u64, watched.tiny.stack as u64))?;
    equal((registers.rdi, registers.rsi), (0, 4711))?;
    // A debugger can change where the thread begins.
    registers.rip += 1;
    thread.set_registers(&registers)?;
    caught.passed();
    zx::nanosleep(soon(10))?;
    quiet(&watched.debugger)?;
    equal(watched.tiny.thread.info()?.state, abi::ZX_THREAD_STATE_RUNNING)
}

fn starting_second_thread() -> Outcome {
    let watched = HandledProcess::started(SPIN)?;
    let tiny = &watched.tiny;
    let second = tiny.process.create_thread("second")?;
    second.start(tiny.entry, tiny.stack, 0, 0)?;
    let caught = catch_type(&watched.debugger, ZX_EXCP_THREAD_STARTING)?;
    equal((caught.info.pid, caught.info.tid), (test_process::koid(&tiny.process)?, test_process::koid(&second)?))?;
    equal(second.info()?.state, abi::ZX_THREAD_STATE_BLOCKED_EXCEPTION)?;
    // The first thread is not disturbed.
    equal(tiny.thread.info()?.state, abi::ZX_THREAD_STATE_RUNNING)?;
    caught.passed();
    equal(second.info()?.state, abi::ZX_THREAD_STATE_RUNNING)
}

type Decide = fn(CaughtException) -> zx::Result<()>;
const DECISIONS: [Decide; 3] = [
    |caught| {
        caught.passed();
        Ok(())
    },
    CaughtException::handled,
    CaughtException::exits,
];

fn starting_decision_does_not_matter() -> Outcome {
    for decide in DECISIONS {
        let watched = HandledProcess::new(BREAKPOINT)?;
        watched.tiny.start(None, 0)?;
        decide(catch_type(&watched.debugger, ZX_EXCP_THREAD_STARTING)?)?;
        catch_type(&watched.debugger, ZX_EXCP_SW_BREAKPOINT)?.passed();
    }
    Ok(())
}

fn starting_debugger_closes() -> Outcome {
    let HandledProcess { tiny, debugger, thread, .. } = HandledProcess::new(BREAKPOINT)?;
    tiny.start(None, 0)?;
    debugger.wait_one(Signals::CHANNEL_READABLE, late())?;
    drop(debugger);
    catch_type(&thread, ZX_EXCP_SW_BREAKPOINT)?.handled()?;
    Ok(())
}

fn starting_killed() -> Outcome {
    let watched = HandledProcess::new(UNDEFINED)?;
    watched.tiny.start(None, 0)?;
    let caught = catch_type(&watched.debugger, ZX_EXCP_THREAD_STARTING)?;
    watched.tiny.process.kill()?;
    equal(watched.tiny.end()?, KILLED)?;
    caught.handled()?;
    catch_type(&watched.debugger, ZX_EXCP_THREAD_EXITING)?.passed();
    ended(&watched.debugger)?;
    ended(&watched.process)
}

/// A started puppet, and a debugger's channel that was created after the start.
fn debugged() -> Result<(Puppet, Channel, OwnJob), Failure> {
    let job = OwnJob::new()?;
    let puppet = Puppet::new(&job)?;
    let debugger = puppet.tiny.process.create_exception_channel(DEBUGGER)?;
    Ok((puppet, debugger, job))
}

fn exiting_holds() -> Outcome {
    let (puppet, debugger, _job) = debugged()?;
    let tiny = &puppet.tiny;
    let process = tiny.process.create_exception_channel(0)?;
    puppet.post(function!(zx_thread_exit), &[])?;
    let caught = catch_type(&debugger, ZX_EXCP_THREAD_EXITING)?;
    caught.is_of(tiny)?;
    zx::nanosleep(soon(10))?;
    // The thread has not ended yet, but executes no more instructions.
    equal(tiny.thread.info()?.state, abi::ZX_THREAD_STATE_DYING)?;
    equal(tiny.thread.info()?.wait_exception_channel_type, ZX_EXCEPTION_CHANNEL_TYPE_DEBUGGER)?;
    equal(tiny.thread.exception_report()?.header.type_, ZX_EXCP_THREAD_EXITING)?;
    equal(tiny.thread.signals()?.contains(Signals::THREAD_TERMINATED), false)?;
    equal(tiny.process.info()?.flags & abi::ZX_INFO_PROCESS_FLAG_EXITED, 0)?;
    let registers: zx_thread_state_general_regs_t = tiny.thread.registers()?;
    ensure(registers.rip != 0, "it has no registers")?;
    caught.passed();
    equal(tiny.end()?, 0)?;
    equal(tiny.thread.info()?.state, abi::ZX_THREAD_STATE_DEAD)?;
    ended(&process)?;
    ended(&debugger)
}

fn exiting_debugger_closes() -> Outcome {
    let (puppet, debugger, _job) = debugged()?;
    puppet.post(function!(zx_thread_exit), &[])?;
    debugger.wait_one(Signals::CHANNEL_READABLE, late())?;
    drop(debugger);
    equal(puppet.tiny.end()?, 0)
}

fn exiting_killed() -> Outcome {
    let (puppet, debugger, _job) = debugged()?;
    puppet.tiny.process.kill()?;
    puppet.tiny.end()?;
    // The message waits in the channel, but the thread does not wait for the debugger.
    equal(puppet.tiny.thread.info()?.state, abi::ZX_THREAD_STATE_DEAD)?;
    let caught = catch_type(&debugger, ZX_EXCP_THREAD_EXITING)?;
    caught.is_of(&puppet.tiny)?;
    equal(test_process::koid(&caught.exception.thread()?)?, caught.info.tid)?;
    equal(test_process::koid(&caught.exception.process()?)?, caught.info.pid)?;
    caught.passed();
    ended(&debugger)
}

fn exiting_killed_while_held() -> Outcome {
    let (puppet, debugger, _job) = debugged()?;
    puppet.post(function!(zx_thread_exit), &[])?;
    let caught = catch_type(&debugger, ZX_EXCP_THREAD_EXITING)?;
    puppet.tiny.process.kill()?;
    equal(puppet.tiny.end()?, KILLED)?;
    caught.passed();
    // The exit is reported once.
    ended(&debugger)
}

fn exiting_process_exits() -> Outcome {
    let (puppet, debugger, _job) = debugged()?;
    puppet.post(function!(zx_process_exit), &[77])?;
    // The process ends without waiting for the debugger.
    equal(puppet.tiny.end()?, 77)?;
    catch_type(&debugger, ZX_EXCP_THREAD_EXITING)?.passed();
    ended(&debugger)
}

fn exiting_many_threads() -> Outcome {
    let tiny = OwnedTestProcess::new(SPIN)?;
    tiny.start(None, 0)?;
    let others = (0..40).map(|_| tiny.process.create_thread("other")).collect::<zx::Result<Vec<_>>>()?;
    others.iter().try_for_each(|thread| thread.start(tiny.entry, tiny.stack, 0, 0))?;
    // A thread that was never started does not exit.
    let _never = tiny.process.create_thread("never")?;
    let debugger = tiny.process.create_exception_channel(DEBUGGER)?;
    tiny.process.kill()?;
    tiny.end()?;
    let mut gone = Vec::new();
    for _ in 0..41 {
        let caught = catch_type(&debugger, ZX_EXCP_THREAD_EXITING)?;
        gone.push(caught.info.tid);
    }
    ended(&debugger)?;
    let mut expected = vec![test_process::koid(&tiny.thread)?];
    for other in &others {
        expected.push(test_process::koid(other)?);
    }
    gone.sort_unstable();
    expected.sort_unstable();
    equal(gone, expected)
}

fn process_starting_holds() -> Outcome {
    let job = OwnJob::new()?;
    let (debugger, plain) = (job.create_exception_channel(DEBUGGER)?, job.create_exception_channel(0)?);
    let tiny = TestProcess::in_job(&job, BREAKPOINT)?;
    quiet(&debugger)?;
    tiny.start(None, 0)?;
    let caught = catch_type(&debugger, ZX_EXCP_PROCESS_STARTING)?;
    caught.is_of(&tiny)?;
    held(&tiny, ZX_EXCP_PROCESS_STARTING)?;
    equal(tiny.thread.info()?.wait_exception_channel_type, ZX_EXCEPTION_CHANNEL_TYPE_JOB_DEBUGGER)?;
    equal(test_process::koid(&caught.exception.process()?)?, test_process::koid(&tiny.process)?)?;
    quiet(&plain)?;
    caught.passed();
    catch_type(&plain, ZX_EXCP_SW_BREAKPOINT)?.handled()?;
    quiet(&debugger)
}

fn process_starting_before_thread_starting() -> Outcome {
    let watched = HandledProcess::new(BREAKPOINT)?;
    let job_debugger = watched.inner.create_exception_channel(DEBUGGER)?;
    watched.tiny.start(None, 0)?;
    let caught = catch_type(&job_debugger, ZX_EXCP_PROCESS_STARTING)?;
    quiet(&watched.debugger)?;
    caught.passed();
    held(&watched.tiny, ZX_EXCP_THREAD_STARTING)?;
    catch_type(&watched.debugger, ZX_EXCP_THREAD_STARTING)?.passed();
    catch_type(&watched.debugger, ZX_EXCP_SW_BREAKPOINT)?.passed();
    Ok(())
}

fn process_starting_only_first_thread() -> Outcome {
    let job = OwnJob::new()?;
    let debugger = job.create_exception_channel(DEBUGGER)?;
    let tiny = TestProcess::in_job(&job, SPIN)?;
    tiny.start(None, 0)?;
    catch_type(&debugger, ZX_EXCP_PROCESS_STARTING)?.passed();
    let second = tiny.process.create_thread("second")?;
    second.start(tiny.entry, tiny.stack, 0, 0)?;
    quiet(&debugger)?;
    equal(second.info()?.state, abi::ZX_THREAD_STATE_RUNNING)
}

fn process_starting_all_debuggers() -> Outcome {
    let outer = OwnJob::new()?;
    let inner = outer.create_child()?;
    // The outer job's channel is created first, but its turn comes last.
    let above = outer.create_exception_channel(DEBUGGER)?;
    let first = inner.create_exception_channel(DEBUGGER)?;
    let second = inner.create_exception_channel(DEBUGGER)?;
    let third = inner.create_exception_channel(DEBUGGER)?;
    let order = [&first, &second, &third, &above];
    let tiny = TestProcess::in_job(&inner, BREAKPOINT)?;
    let process = tiny.process.create_exception_channel(0)?;
    tiny.start(None, 0)?;
    for channel in order {
        let caught = catch_type(channel, ZX_EXCP_PROCESS_STARTING)?;
        order.iter().try_for_each(|channel| quiet(channel))?;
        quiet(&process)?;
        caught.passed();
    }
    catch_type(&process, ZX_EXCP_SW_BREAKPOINT)?.handled()?;
    // Closed channels are skipped, whether or not their message was read.
    let tiny = TestProcess::in_job(&inner, BREAKPOINT)?;
    let process = tiny.process.create_exception_channel(0)?;
    drop(second);
    tiny.start(None, 0)?;
    first.wait_one(Signals::CHANNEL_READABLE, late())?;
    drop(first);
    catch_type(&third, ZX_EXCP_PROCESS_STARTING)?.passed();
    catch_type(&above, ZX_EXCP_PROCESS_STARTING)?.passed();
    catch_type(&process, ZX_EXCP_SW_BREAKPOINT)?.handled()?;
    Ok(())
}

fn process_starting_decision_does_not_matter() -> Outcome {
    for decide in DECISIONS {
        let outer = OwnJob::new()?;
        let inner = outer.create_child()?;
        let channels = [inner.create_exception_channel(DEBUGGER)?, outer.create_exception_channel(DEBUGGER)?];
        let tiny = TestProcess::in_job(&inner, BREAKPOINT)?;
        let process = tiny.process.create_exception_channel(0)?;
        tiny.start(None, 0)?;
        for channel in &channels {
            decide(catch_type(channel, ZX_EXCP_PROCESS_STARTING)?)?;
        }
        catch_type(&process, ZX_EXCP_SW_BREAKPOINT)?.handled()?;
    }
    Ok(())
}

fn process_starting_killed() -> Outcome {
    let outer = OwnJob::new()?;
    let inner = outer.create_child()?;
    let channels = [inner.create_exception_channel(DEBUGGER)?, outer.create_exception_channel(DEBUGGER)?];
    let tiny = TestProcess::in_job(&inner, UNDEFINED)?;
    tiny.start(None, 0)?;
    let caught = catch_type(&channels[0], ZX_EXCP_PROCESS_STARTING)?;
    tiny.process.kill()?;
    ensure(tiny.end()? != EXCEPTION, "it has run")?;
    caught.passed();
    quiet(&channels[1])
}

fn user_errors() -> Outcome {
    let context = abi::zx_exception_context_t::default();
    let context = &raw const context;
    for options in [0, 2, 3, u32::MAX] {
        gives(raw!(zx_thread_raise_exception, options, ZX_EXCP_USER, context), Status::INVALID_ARGS)?;
    }
    let kinds = [0, ZX_EXCP_THREAD_STARTING, ZX_EXCP_PROCESS_STARTING, abi::ZX_EXCP_POLICY_ERROR, 0x309];
    for kind in kinds {
        let target = ZX_EXCEPTION_TARGET_JOB_DEBUGGER;
        gives(raw!(zx_thread_raise_exception, target, kind, context), Status::INVALID_ARGS)?;
    }
    for address in [0_u64, 0xffff_8000_0000_0000] {
        let target = ZX_EXCEPTION_TARGET_JOB_DEBUGGER;
        gives(raw!(zx_thread_raise_exception, target, ZX_EXCP_USER, address), Status::INVALID_ARGS)?;
    }
    Ok(())
}

fn user_nobody_listens() -> Outcome {
    zx::raise_user_exception(abi::ZX_EXCP_USER_CODE_USER0, 1)?;
    // Exception handlers of a process and its debugger get no user exceptions.
    let job = OwnJob::new()?;
    let puppet = Puppet::new(&job)?;
    let channels = [0, DEBUGGER].map(|options| puppet.tiny.process.create_exception_channel(options));
    gives(raise(&puppet).and_then(|()| result(&puppet))?, Status::OK)?;
    channels.into_iter().try_for_each(|channel| quiet(&channel?))
}

/// Makes a puppet raise a user exception.
fn raise(puppet: &Puppet) -> Outcome {
    let mut context = [0xff; 32];
    context[24..28].copy_from_slice(&abi::ZX_EXCP_USER_CODE_USER2.to_le_bytes());
    context[28..32].copy_from_slice(&4711_u32.to_le_bytes());
    let room = puppet.room(0)?;
    puppet.tiny.process.write_memory(room as usize, &context)?;
    let arguments = [u64::from(ZX_EXCEPTION_TARGET_JOB_DEBUGGER), u64::from(ZX_EXCP_USER), room];
    puppet.post(function!(zx_thread_raise_exception), &arguments)
}

fn result(puppet: &Puppet) -> Result<Status, Failure> {
    Ok(Status(puppet.result()?.ok_or("the puppet has ended")? as i32))
}

fn user_delivered() -> Outcome {
    for decide in DECISIONS {
        let job = OwnJob::new()?;
        let puppet = Puppet::new(&job)?;
        let debugger = job.create_exception_channel(DEBUGGER)?;
        let others = [job.create_exception_channel(0)?, puppet.tiny.process.create_exception_channel(DEBUGGER)?];
        raise(&puppet)?;
        let caught = catch_type(&debugger, ZX_EXCP_USER)?;
        caught.is_of(&puppet.tiny)?;
        let thread = caught.exception.thread()?;
        equal(thread.info()?.state, abi::ZX_THREAD_STATE_BLOCKED_EXCEPTION)?;
        equal(thread.info()?.wait_exception_channel_type, ZX_EXCEPTION_CHANNEL_TYPE_JOB_DEBUGGER)?;
        let report = thread.exception_report()?;
        equal(report.context.arch, abi::zx_x86_64_exc_data_t::default())?;
        equal((report.context.synth_code, report.context.synth_data), (abi::ZX_EXCP_USER_CODE_USER2, 4711))?;
        decide(caught)?;
        gives(result(&puppet)?, Status::OK)?;
        others.iter().try_for_each(quiet)?;
    }
    Ok(())
}

fn user_all_debuggers() -> Outcome {
    let outer = OwnJob::new()?;
    let inner = outer.create_child()?;
    let puppet = Puppet::new(&inner)?;
    let above = outer.create_exception_channel(DEBUGGER)?;
    let first = inner.create_exception_channel(DEBUGGER)?;
    let second = inner.create_exception_channel(DEBUGGER)?;
    raise(&puppet)?;
    for channel in [&first, &second, &above] {
        catch_type(channel, ZX_EXCP_USER)?.passed();
    }
    gives(result(&puppet)?, Status::OK)
}

fn user_killed() -> Outcome {
    let job = OwnJob::new()?;
    let puppet = Puppet::new(&job)?;
    let debugger = job.create_exception_channel(DEBUGGER)?;
    raise(&puppet)?;
    let caught = catch_type(&debugger, ZX_EXCP_USER)?;
    puppet.tiny.process.kill()?;
    equal(puppet.tiny.end()?, KILLED)?;
    caught.passed();
    Ok(())
}
