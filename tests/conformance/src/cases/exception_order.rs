//! Which handlers get an exception, in which order, and the effect of their decisions.

use abi::{
    Status, ZX_EXCEPTION_CHANNEL_DEBUGGER, ZX_EXCEPTION_CHANNEL_TYPE_DEBUGGER, ZX_EXCEPTION_CHANNEL_TYPE_JOB,
    ZX_EXCEPTION_CHANNEL_TYPE_NONE, ZX_EXCEPTION_CHANNEL_TYPE_PROCESS, ZX_EXCEPTION_CHANNEL_TYPE_THREAD,
    ZX_EXCEPTION_STATE_HANDLED, ZX_EXCEPTION_STRATEGY_FIRST_CHANCE, ZX_EXCEPTION_STRATEGY_SECOND_CHANCE,
    ZX_EXCP_SW_BREAKPOINT, ZX_EXCP_THREAD_EXITING, ZX_EXCP_UNDEFINED_INSTRUCTION,
};
use zx::{AsHandleRef, Channel, Signals};

use super::{cases, late};
use crate::caught_exception::{HandledProcess, OwnedTestProcess, UNDEFINED, catch, catch_type, ended, quiet};
use crate::check::{Outcome, equal};
use crate::test_process::{self, EXCEPTION, KILLED, OwnJob, TestProcess};

cases! {
    "exception.order.all" => all,
    "exception.order.each_can_handle" => each_can_handle,
    "exception.order.channel_types" => channel_types,
    "exception.order.second_chance" => second_chance,
    "exception.order.second_chance_taken_back" => second_chance_taken_back,
    "exception.order.second_chance_handled" => second_chance_handled,
    "exception.order.second_chance_is_per_exception" => second_chance_is_per_exception,
    "exception.order.closed_channels_are_passed" => closed_channels_are_passed,
    "exception.order.closed_unread" => closed_unread,
    "exception.order.closed_while_held" => closed_while_held,
    "exception.order.bound_while_held" => bound_while_held,
    "exception.order.only_jobs" => only_jobs,
    "exception.order.deepest_job" => deepest_job,
    "exception.order.job_debugger_gets_none" => job_debugger_gets_none,
    "exception.order.many_threads" => many_threads,
    "exception.order.state_begins_anew" => state_begins_anew,
    "exception.order.thread_exit" => thread_exit,
    "exception.order.thread_exit_leaves_others" => thread_exit_leaves_others,
    "exception.order.breakpoint_continues" => breakpoint_continues,
    "exception.order.handler_dies" => handler_dies,
    "exception.kill.process" => kill_process,
    "exception.kill.job" => kill_job,
    "exception.kill.unread" => kill_unread,
}

/// `int3`, then spins.
const BREAKPOINT: &[u8] = &[0xcc, 0xeb, 0xfe];

fn all() -> Outcome {
    let watched = HandledProcess::started(UNDEFINED)?;
    for (n, channel) in watched.in_order().into_iter().enumerate() {
        let caught = catch_type(channel, ZX_EXCP_UNDEFINED_INSTRUCTION)?;
        caught.is_of(&watched.tiny)?;
        // No other handler has the exception while this one holds it.
        watched.in_order().iter().try_for_each(|channel| quiet(channel))?;
        equal(watched.tiny.thread.info()?.state, abi::ZX_THREAD_STATE_BLOCKED_EXCEPTION)?;
        caught.passed();
        // The next handler was not skipped.
        if let Some(next) = watched.in_order().get(n + 1) {
            equal(next.signals()?.contains(Signals::CHANNEL_READABLE), true)?;
        }
    }
    equal(watched.tiny.end()?, EXCEPTION)?;
    catch_type(&watched.debugger, ZX_EXCP_THREAD_EXITING)?.passed();
    ended(&watched.process)
}

fn each_can_handle() -> Outcome {
    for who in 0..5 {
        let watched = HandledProcess::started(BREAKPOINT)?;
        for channel in &watched.in_order()[..who] {
            catch_type(channel, ZX_EXCP_SW_BREAKPOINT)?.passed();
        }
        catch_type(watched.in_order()[who], ZX_EXCP_SW_BREAKPOINT)?.handled()?;
        watched.in_order().iter().try_for_each(|channel| quiet(channel))?;
        equal(watched.tiny.thread.info()?.state, abi::ZX_THREAD_STATE_RUNNING)?;
        watched.tiny.process.kill()?;
        equal(watched.tiny.end()?, KILLED)?;
    }
    Ok(())
}

fn channel_types() -> Outcome {
    let watched = HandledProcess::started(UNDEFINED)?;
    let kinds = [
        ZX_EXCEPTION_CHANNEL_TYPE_DEBUGGER,
        ZX_EXCEPTION_CHANNEL_TYPE_THREAD,
        ZX_EXCEPTION_CHANNEL_TYPE_PROCESS,
        ZX_EXCEPTION_CHANNEL_TYPE_JOB,
        ZX_EXCEPTION_CHANNEL_TYPE_JOB,
    ];
    for (channel, kind) in watched.in_order().into_iter().zip(kinds) {
        let caught = catch(channel)?;
        equal(watched.tiny.thread.info()?.wait_exception_channel_type, kind)?;
        caught.passed();
    }
    watched.tiny.end()?;
    equal(watched.tiny.thread.info()?.wait_exception_channel_type, ZX_EXCEPTION_CHANNEL_TYPE_NONE)
}

fn second_chance() -> Outcome {
    let watched = HandledProcess::started(UNDEFINED)?;
    let caught = catch(&watched.debugger)?;
    equal(caught.exception.strategy()?, ZX_EXCEPTION_STRATEGY_FIRST_CHANCE)?;
    caught.exception.set_strategy(ZX_EXCEPTION_STRATEGY_SECOND_CHANCE)?;
    equal(caught.exception.strategy()?, ZX_EXCEPTION_STRATEGY_SECOND_CHANCE)?;
    caught.passed();
    let caught = catch(&watched.thread)?;
    // The other handlers see the strategy that the debugger has set.
    equal(caught.exception.strategy()?, ZX_EXCEPTION_STRATEGY_SECOND_CHANCE)?;
    caught.passed();
    catch(&watched.process)?.passed();
    quiet(&watched.job)?;
    let caught = catch(&watched.debugger)?;
    equal(caught.exception.strategy()?, ZX_EXCEPTION_STRATEGY_SECOND_CHANCE)?;
    equal(watched.tiny.thread.info()?.wait_exception_channel_type, ZX_EXCEPTION_CHANNEL_TYPE_DEBUGGER)?;
    caught.passed();
    catch(&watched.job)?.passed();
    quiet(&watched.debugger)?;
    catch(&watched.outer_job)?.passed();
    equal(watched.tiny.end()?, EXCEPTION)
}

fn second_chance_taken_back() -> Outcome {
    let watched = HandledProcess::started(UNDEFINED)?;
    let caught = catch(&watched.debugger)?;
    caught.exception.set_strategy(ZX_EXCEPTION_STRATEGY_SECOND_CHANCE)?;
    caught.exception.set_strategy(ZX_EXCEPTION_STRATEGY_FIRST_CHANCE)?;
    caught.passed();
    catch(&watched.thread)?.passed();
    catch(&watched.process)?.passed();
    quiet(&watched.debugger)?;
    catch(&watched.job)?.passed();
    Ok(())
}

fn second_chance_handled() -> Outcome {
    let watched = HandledProcess::started(BREAKPOINT)?;
    let caught = catch(&watched.debugger)?;
    caught.exception.set_strategy(ZX_EXCEPTION_STRATEGY_SECOND_CHANCE)?;
    caught.passed();
    catch(&watched.thread)?.passed();
    catch(&watched.process)?.passed();
    catch(&watched.debugger)?.handled()?;
    watched.in_order().iter().try_for_each(|channel| quiet(channel))?;
    equal(watched.tiny.thread.info()?.state, abi::ZX_THREAD_STATE_RUNNING)
}

fn second_chance_is_per_exception() -> Outcome {
    // Two breakpoints: the debugger requests a second chance for the first one only.
    let watched = HandledProcess::started(&[0xcc, 0xcc, 0xeb, 0xfe])?;
    let caught = catch(&watched.debugger)?;
    caught.exception.set_strategy(ZX_EXCEPTION_STRATEGY_SECOND_CHANCE)?;
    caught.handled()?;
    let caught = catch(&watched.debugger)?;
    equal(caught.exception.strategy()?, ZX_EXCEPTION_STRATEGY_FIRST_CHANCE)?;
    caught.handled()?;
    Ok(())
}

fn closed_channels_are_passed() -> Outcome {
    let HandledProcess { tiny, debugger, thread, process, job, outer_job, .. } = HandledProcess::started(UNDEFINED)?;
    catch(&debugger)?.passed();
    let caught = catch(&thread)?;
    drop((process, job, debugger));
    caught.passed();
    catch(&outer_job)?.passed();
    equal(tiny.end()?, EXCEPTION)
}

fn closed_unread() -> Outcome {
    let HandledProcess { tiny, debugger, thread, process, job, outer_job, .. } = HandledProcess::started(UNDEFINED)?;
    for channel in [debugger, thread, process, job, outer_job] {
        channel.wait_one(Signals::CHANNEL_READABLE, late())?;
        equal(tiny.thread.info()?.state, abi::ZX_THREAD_STATE_BLOCKED_EXCEPTION)?;
    }
    equal(tiny.end()?, EXCEPTION)
}

fn closed_while_held() -> Outcome {
    // The holder of the exception decides, even if the channel through which it came is closed.
    let HandledProcess { tiny, debugger, thread, process, .. } = HandledProcess::started(BREAKPOINT)?;
    let caught = catch(&debugger)?;
    drop(debugger);
    quiet(&thread)?;
    equal(tiny.thread.info()?.wait_exception_channel_type, ZX_EXCEPTION_CHANNEL_TYPE_DEBUGGER)?;
    caught.handled()?;
    quiet(&thread)?;
    quiet(&process)?;
    equal(tiny.thread.info()?.state, abi::ZX_THREAD_STATE_RUNNING)
}

fn bound_while_held() -> Outcome {
    // The server looks for a handler when its turn comes, not before.
    let tiny = OwnedTestProcess::new(UNDEFINED)?;
    let thread = tiny.thread.create_exception_channel(0)?;
    tiny.start(None, 0)?;
    let caught = catch(&thread)?;
    let debugger = tiny.process.create_exception_channel(ZX_EXCEPTION_CHANNEL_DEBUGGER)?;
    let process = tiny.process.create_exception_channel(0)?;
    caught.passed();
    catch(&process)?.passed();
    equal(tiny.end()?, EXCEPTION)?;
    catch_type(&debugger, ZX_EXCP_THREAD_EXITING)?.passed();
    ended(&debugger)
}

fn only_jobs() -> Outcome {
    let job = OwnJob::new()?;
    let channel = job.create_exception_channel(0)?;
    let tiny = TestProcess::in_job(&job, UNDEFINED)?;
    tiny.start(None, 0)?;
    let caught = catch_type(&channel, ZX_EXCP_UNDEFINED_INSTRUCTION)?;
    caught.is_of(&tiny)?;
    caught.passed();
    equal(tiny.end()?, EXCEPTION)
}

fn deepest_job() -> Outcome {
    // From the deepest possible job up to this one.
    let top = OwnJob::new()?;
    let mut jobs = vec![top.create_child()?];
    while let Ok(job) = jobs[jobs.len() - 1].create_child() {
        jobs.push(job);
    }
    let channels = jobs.iter().map(|job| job.create_exception_channel(0)).collect::<zx::Result<Vec<Channel>>>()?;
    let tiny = TestProcess::in_job(&jobs[jobs.len() - 1], UNDEFINED)?;
    tiny.start(None, 0)?;
    channels.iter().rev().try_for_each(|channel| -> Outcome {
        catch(channel)?.passed();
        Ok(())
    })?;
    equal(tiny.end()?, EXCEPTION)
}

fn job_debugger_gets_none() -> Outcome {
    let job = OwnJob::new()?;
    let debugger = job.create_exception_channel(ZX_EXCEPTION_CHANNEL_DEBUGGER)?;
    let tiny = TestProcess::in_job(&job, UNDEFINED)?;
    tiny.start(None, 0)?;
    catch_type(&debugger, abi::ZX_EXCP_PROCESS_STARTING)?.passed();
    equal(tiny.end()?, EXCEPTION)?;
    quiet(&debugger)
}

fn many_threads() -> Outcome {
    // Threads in exceptions do not affect each other; each exception is decided separately.
    let tiny = OwnedTestProcess::new(BREAKPOINT)?;
    let channel = tiny.process.create_exception_channel(0)?;
    tiny.start(None, 0)?;
    let others = (0..8).map(|_| tiny.process.create_thread("other")).collect::<zx::Result<Vec<_>>>()?;
    others.iter().try_for_each(|thread| thread.start(tiny.entry, tiny.stack, 0, 0))?;
    let mut caught = (0..9).map(|_| catch(&channel)).collect::<Result<Vec<_>, _>>()?;
    let mut numbers: Vec<u64> = caught.iter().map(|caught| caught.info.tid).collect();
    numbers.sort_unstable();
    numbers.dedup();
    equal(numbers.len(), 9)?;
    let fourth = caught.remove(4);
    let thread = fourth.exception.thread()?;
    fourth.handled()?;
    equal(thread.info()?.state, abi::ZX_THREAD_STATE_RUNNING)?;
    for caught in &caught {
        let thread = caught.exception.thread()?;
        equal(thread.info()?.state, abi::ZX_THREAD_STATE_BLOCKED_EXCEPTION)?;
    }
    // An exception that no handler takes ends the process and its other threads.
    caught.remove(0).passed();
    equal(tiny.end()?, EXCEPTION)?;
    caught.into_iter().try_for_each(|caught| caught.handled())?;
    Ok(())
}

fn state_begins_anew() -> Outcome {
    let watched = HandledProcess::started(UNDEFINED)?;
    for channel in watched.in_order() {
        let caught = catch(channel)?;
        equal(caught.exception.state()?, abi::ZX_EXCEPTION_STATE_TRY_NEXT)?;
        caught.exception.set_state(ZX_EXCEPTION_STATE_HANDLED)?;
        equal(caught.exception.state()?, ZX_EXCEPTION_STATE_HANDLED)?;
        caught.exception.set_state(abi::ZX_EXCEPTION_STATE_THREAD_EXIT)?;
        equal(caught.exception.state()?, abi::ZX_EXCEPTION_STATE_THREAD_EXIT)?;
        // The last state that was set counts.
        caught.exception.set_state(abi::ZX_EXCEPTION_STATE_TRY_NEXT)?;
        caught.passed();
    }
    equal(watched.tiny.end()?, EXCEPTION)
}

fn thread_exit() -> Outcome {
    let watched = HandledProcess::started(UNDEFINED)?;
    catch(&watched.debugger)?.passed();
    catch(&watched.thread)?.exits()?;
    quiet(&watched.process)?;
    // The thread exits as if by itself: the debugger can look at it first.
    let caught = catch_type(&watched.debugger, ZX_EXCP_THREAD_EXITING)?;
    equal(watched.tiny.thread.signals()?.contains(Signals::THREAD_TERMINATED), false)?;
    caught.passed();
    // It was the last thread, so the process ends normally.
    equal(watched.tiny.end()?, 0)
}

fn thread_exit_leaves_others() -> Outcome {
    let tiny = OwnedTestProcess::new(BREAKPOINT)?;
    let channel = tiny.process.create_exception_channel(0)?;
    tiny.start(None, 0)?;
    let caught = catch(&channel)?;
    let other = tiny.process.create_thread("other")?;
    other.start(tiny.entry, tiny.stack, 0, 0)?;
    catch(&channel)?.handled()?;
    caught.exits()?;
    tiny.thread.wait_one(Signals::THREAD_TERMINATED, late())?;
    equal(other.info()?.state, abi::ZX_THREAD_STATE_RUNNING)?;
    equal(tiny.process.info()?.flags & abi::ZX_INFO_PROCESS_FLAG_EXITED, 0)?;
    tiny.process.kill()?;
    Ok(())
}

fn breakpoint_continues() -> Outcome {
    // A breakpoint has already been executed when it is handled: three of them follow one another.
    let tiny = OwnedTestProcess::new(&[0xcc, 0xcc, 0xcc, 0x0f, 0x0b])?;
    let channel = tiny.process.create_exception_channel(0)?;
    tiny.start(None, 0)?;
    for _ in 0..3 {
        catch_type(&channel, ZX_EXCP_SW_BREAKPOINT)?.handled()?;
    }
    // An undefined instruction has not been executed, so it raises its exception again.
    for _ in 0..3 {
        catch_type(&channel, ZX_EXCP_UNDEFINED_INSTRUCTION)?.handled()?;
    }
    catch_type(&channel, ZX_EXCP_UNDEFINED_INSTRUCTION)?.passed();
    equal(tiny.end()?, EXCEPTION)
}

fn handler_dies() -> Outcome {
    // The handler's process holds the only handle to the channel, and ends while an exception is in it.
    let HandledProcess { tiny, debugger, thread, process, .. } = HandledProcess::started(UNDEFINED)?;
    let handler = OwnedTestProcess::spinning_with(debugger.into_handle())?;
    quiet(&thread)?;
    handler.process.kill()?;
    let caught = catch(&thread)?;
    // The same with a handle to the exception itself.
    let handler = OwnedTestProcess::spinning_with(caught.exception.into_handle())?;
    quiet(&process)?;
    handler.process.kill()?;
    catch(&process)?.passed();
    drop(tiny);
    Ok(())
}

/// Checks an exception whose thread was killed by `kill`.
fn killed(kill: impl FnOnce(&HandledProcess) -> zx::Result<()>) -> Outcome {
    let watched = HandledProcess::started(UNDEFINED)?;
    catch(&watched.debugger)?.passed();
    let caught = catch(&watched.thread)?;
    kill(&watched)?;
    watched.tiny.end()?;
    catch_type(&watched.debugger, ZX_EXCP_THREAD_EXITING)?.passed();
    equal(test_process::koid(&caught.exception.thread()?)?, caught.info.tid)?;
    caught.exception.set_state(ZX_EXCEPTION_STATE_HANDLED)?;
    equal(caught.exception.state()?, ZX_EXCEPTION_STATE_HANDLED)?;
    equal(caught.exception.thread()?.exception_report(), Err(Status::BAD_STATE))?;
    caught.passed();
    quiet(&watched.process)?;
    quiet(&watched.job)
}

fn kill_process() -> Outcome {
    killed(|watched| watched.tiny.process.kill())
}

fn kill_job() -> Outcome {
    killed(|watched| watched.tiny.job.kill())
}

fn kill_unread() -> Outcome {
    let watched = HandledProcess::started(UNDEFINED)?;
    watched.debugger.wait_one(Signals::CHANNEL_READABLE, late())?;
    watched.tiny.process.kill()?;
    equal(watched.tiny.end()?, KILLED)?;
    // The message and the next one can still be read.
    let caught = catch_type(&watched.debugger, ZX_EXCP_UNDEFINED_INSTRUCTION)?;
    equal(test_process::koid(&caught.exception.process()?)?, test_process::koid(&watched.tiny.process)?)?;
    caught.passed();
    catch_type(&watched.debugger, ZX_EXCP_THREAD_EXITING)?.passed();
    ended(&watched.debugger)?;
    quiet(&watched.thread)
}
