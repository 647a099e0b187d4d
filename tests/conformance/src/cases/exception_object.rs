//! Exception objects: the message that carries one, its tasks, its properties.

use abi::{
    Rights, Status, ZX_EXCEPTION_STATE_HANDLED, ZX_EXCEPTION_STATE_THREAD_EXIT, ZX_EXCEPTION_STATE_TRY_NEXT,
    ZX_EXCEPTION_STRATEGY_FIRST_CHANCE, ZX_EXCEPTION_STRATEGY_SECOND_CHANCE, ZX_EXCP_UNDEFINED_INSTRUCTION,
    ZX_PROP_EXCEPTION_STATE, ZX_PROP_EXCEPTION_STRATEGY,
};
use zx::{AsHandleRef, Channel, Exception, Info};

use super::{cases, late, raw, without};
use crate::caught_exception::{HandledProcess, OwnedTestProcess, UNDEFINED, catch, quiet};
use crate::check::{Outcome, ensure, equal, fails, gives};
use crate::test_process::{self, EXCEPTION};

cases! {
    "exception.object.message" => message,
    "exception.object.rights" => rights,
    "exception.object.koids" => koids,
    "exception.object.transfer" => transfer,
    "exception.object.only_one_handle" => only_one_handle,
    "exception.object.read_too_small" => read_too_small,
    "exception.get_thread.errors" => get_thread_errors,
    "exception.get_thread.rights" => get_thread_rights,
    "exception.get_process.errors" => get_process_errors,
    "exception.get_process.rights" => get_process_rights,
    "exception.get_process.from_a_thread_channel" => get_process_from_a_thread_channel,
    "exception.property.state" => property_state,
    "exception.property.strategy" => property_strategy,
    "exception.property.strategy_not_debugger" => property_strategy_not_debugger,
    "exception.property.sizes" => property_sizes,
    "exception.property.bad_address" => property_bad_address,
    "exception.property.wrong_type" => property_wrong_type,
    "exception.property.rights" => property_rights,
}

/// A process with an exception that its debugger holds.
fn at_debugger() -> Result<(HandledProcess, Exception), crate::check::Failure> {
    let watched = HandledProcess::started(UNDEFINED)?;
    let exception = catch(&watched.debugger)?.exception;
    Ok((watched, exception))
}

fn message() -> Outcome {
    let watched = HandledProcess::started(UNDEFINED)?;
    let (mut bytes, mut handles) = ([0xff; 64], [None, None]);
    let size = watched.debugger.read_wait(&mut bytes, &mut handles, late())?;
    equal((size.bytes, size.handles), (24, 1))?;
    equal(&bytes[..8], &test_process::koid(&watched.tiny.process)?.to_le_bytes()[..])?;
    equal(&bytes[8..16], &test_process::koid(&watched.tiny.thread)?.to_le_bytes()[..])?;
    equal(&bytes[16..20], &ZX_EXCP_UNDEFINED_INSTRUCTION.to_le_bytes()[..])?;
    equal(&bytes[20..24], &[0; 4][..])
}

fn rights() -> Outcome {
    let (_watched, exception) = at_debugger()?;
    let info = exception.basic_info()?;
    equal(info.type_, abi::ZX_OBJ_TYPE_EXCEPTION)?;
    let expected = Rights::TRANSFER | Rights::INSPECT | Rights::GET_PROPERTY | Rights::SET_PROPERTY;
    equal(info.rights, expected.bits())?;
    equal(info.related_koid, 0)
}

fn koids() -> Outcome {
    let watched = HandledProcess::started(UNDEFINED)?;
    for channel in watched.in_order() {
        let caught = catch(channel)?;
        equal(test_process::koid(&caught.exception.thread()?)?, test_process::koid(&watched.tiny.thread)?)?;
        if channel != &watched.thread {
            equal(test_process::koid(&caught.exception.process()?)?, test_process::koid(&watched.tiny.process)?)?;
        }
    }
    Ok(())
}

fn transfer() -> Outcome {
    // The right to decide moves with the handle.
    let (watched, exception) = at_debugger()?;
    let (ours, theirs) = Channel::create()?;
    ours.write(b"exception", [exception.into_handle()])?;
    quiet(&watched.thread)?;
    let mut handles = [None];
    theirs.read(&mut [0; 16], &mut handles).map_err(|(status, _)| status)?;
    let [Some(handle)] = handles else { return Err("no handle came".into()) };
    ours.write(b"again", [handle])?;
    quiet(&watched.thread)?;
    // The handle is closed together with the unread message.
    drop(theirs);
    catch(&watched.thread)?.passed();
    Ok(())
}

fn only_one_handle() -> Outcome {
    let (_watched, exception) = at_debugger()?;
    fails(exception.duplicate(Rights::SAME_RIGHTS), Status::ACCESS_DENIED)?;
    // Replacing the handle makes no decision.
    let exception = exception.replace(Rights::INSPECT | Rights::TRANSFER)?;
    quiet(&_watched.thread)?;
    drop(exception);
    catch(&_watched.thread)?.passed();
    Ok(())
}

fn read_too_small() -> Outcome {
    let watched = HandledProcess::started(UNDEFINED)?;
    watched.debugger.wait_one(zx::Signals::CHANNEL_READABLE, late())?;
    let short = watched.debugger.read(&mut [0; 23], &mut [None]).map_err(|(status, _)| status);
    fails(short, Status::BUFFER_TOO_SMALL)?;
    let none = watched.debugger.read(&mut [0; 24], &mut []).map_err(|(status, _)| status);
    fails(none, Status::BUFFER_TOO_SMALL)?;
    quiet(&watched.thread)?;
    catch(&watched.debugger)?.passed();
    Ok(())
}

fn get_thread_errors() -> Outcome {
    let (_watched, exception) = at_debugger()?;
    let mut out = 0_u32;
    gives(raw!(zx_exception_get_thread, 0, &raw mut out), Status::BAD_HANDLE)?;
    let event = zx::Event::create()?;
    gives(raw!(zx_exception_get_thread, event.raw_handle(), &raw mut out), Status::WRONG_TYPE)?;
    gives(raw!(zx_exception_get_thread, exception.raw_handle(), 0), Status::INVALID_ARGS)?;
    equal(out, 0)
}

fn get_process_errors() -> Outcome {
    let (_watched, exception) = at_debugger()?;
    let mut out = 0_u32;
    gives(raw!(zx_exception_get_process, 0, &raw mut out), Status::BAD_HANDLE)?;
    let event = zx::Event::create()?;
    gives(raw!(zx_exception_get_process, event.raw_handle(), &raw mut out), Status::WRONG_TYPE)?;
    gives(raw!(zx_exception_get_process, exception.raw_handle(), 0), Status::INVALID_ARGS)?;
    equal(out, 0)
}

/// The handles to the tasks have the rights of the handle with which the channel was created.
fn get_thread_rights() -> Outcome {
    let tiny = OwnedTestProcess::new(UNDEFINED)?;
    let weak = zx::Thread::from(without(&tiny.thread, Rights::WRITE | Rights::DESTROY | Rights::SIGNAL)?);
    let expected = weak.basic_info()?.rights;
    let channel = weak.create_exception_channel(0)?;
    tiny.start(None, 0)?;
    let caught = catch(&channel)?;
    drop(weak);
    equal(caught.exception.thread()?.basic_info()?.rights, expected)?;
    fails(caught.exception.thread()?.suspend(), Status::ACCESS_DENIED)
}

fn get_process_rights() -> Outcome {
    let tiny = OwnedTestProcess::new(UNDEFINED)?;
    let weak = zx::Process::from(without(&tiny.process, Rights::WRITE | Rights::DESTROY)?);
    let expected = weak.basic_info()?.rights;
    let channel = weak.create_exception_channel(0)?;
    tiny.start(None, 0)?;
    let caught = catch(&channel)?;
    equal(caught.exception.process()?.basic_info()?.rights, expected)?;
    equal(caught.exception.thread()?.basic_info()?.rights, expected)?;
    fails(caught.exception.process()?.kill(), Status::ACCESS_DENIED)
}

fn get_process_from_a_thread_channel() -> Outcome {
    let tiny = OwnedTestProcess::new(UNDEFINED)?;
    let thread = tiny.thread.create_exception_channel(0)?;
    let process = tiny.process.create_exception_channel(0)?;
    tiny.start(None, 0)?;
    let caught = catch(&thread)?;
    fails(caught.exception.process(), Status::ACCESS_DENIED)?;
    caught.passed();
    // The process's handler may get the process.
    catch(&process)?.exception.process()?;
    Ok(())
}

fn property_state() -> Outcome {
    let (_watched, exception) = at_debugger()?;
    equal(exception.state()?, ZX_EXCEPTION_STATE_TRY_NEXT)?;
    for state in [ZX_EXCEPTION_STATE_HANDLED, ZX_EXCEPTION_STATE_THREAD_EXIT, ZX_EXCEPTION_STATE_TRY_NEXT] {
        exception.set_state(state)?;
        equal(exception.state()?, state)?;
    }
    for state in [3, 4, u32::MAX] {
        fails(exception.set_state(state), Status::INVALID_ARGS)?;
    }
    equal(exception.state()?, ZX_EXCEPTION_STATE_TRY_NEXT)
}

fn property_strategy() -> Outcome {
    let (_watched, exception) = at_debugger()?;
    equal(exception.strategy()?, ZX_EXCEPTION_STRATEGY_FIRST_CHANCE)?;
    exception.set_strategy(ZX_EXCEPTION_STRATEGY_SECOND_CHANCE)?;
    fails(exception.set_strategy(2), Status::INVALID_ARGS)?;
    fails(exception.set_strategy(u32::MAX), Status::INVALID_ARGS)?;
    equal(exception.strategy()?, ZX_EXCEPTION_STRATEGY_SECOND_CHANCE)
}

fn property_strategy_not_debugger() -> Outcome {
    let watched = HandledProcess::started(UNDEFINED)?;
    catch(&watched.debugger)?.passed();
    for channel in &watched.in_order()[1..] {
        let caught = catch(channel)?;
        let strategies = [ZX_EXCEPTION_STRATEGY_FIRST_CHANCE, ZX_EXCEPTION_STRATEGY_SECOND_CHANCE];
        for strategy in strategies {
            fails(caught.exception.set_strategy(strategy), Status::BAD_STATE)?;
        }
        equal(caught.exception.strategy()?, ZX_EXCEPTION_STRATEGY_FIRST_CHANCE)?;
    }
    Ok(())
}

const BOTH: [u32; 2] = [ZX_PROP_EXCEPTION_STATE, ZX_PROP_EXCEPTION_STRATEGY];

fn property_sizes() -> Outcome {
    let (_watched, exception) = at_debugger()?;
    for property in BOTH {
        for size in 0..4 {
            fails(exception.get_property(property, &mut [0; 8][..size]), Status::BUFFER_TOO_SMALL)?;
            fails(exception.set_property(property, &[0; 8][..size]), Status::BUFFER_TOO_SMALL)?;
        }
        let mut value = [0xff; 8];
        exception.get_property(property, &mut value)?;
        equal(value, [0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff])?;
        exception.set_property(property, &[1, 0, 0, 0, 0xff])?;
    }
    Ok(())
}

fn property_bad_address() -> Outcome {
    let (_watched, exception) = at_debugger()?;
    for property in BOTH {
        for address in [0_u64, 0xffff_8000_0000_0000] {
            let get = raw!(zx_object_get_property, exception.raw_handle(), property, address, 4);
            gives(get, Status::INVALID_ARGS)?;
            let set = raw!(zx_object_set_property, exception.raw_handle(), property, address, 4);
            gives(set, Status::INVALID_ARGS)?;
        }
    }
    Ok(())
}

fn property_wrong_type() -> Outcome {
    let thread = zx::startup::thread_self();
    for property in BOTH {
        fails(thread.get_property(property, &mut [0; 4]), Status::WRONG_TYPE)?;
        fails(thread.set_property(property, &[0; 4]), Status::WRONG_TYPE)?;
    }
    Ok(())
}

fn property_rights() -> Outcome {
    let (watched, exception) = at_debugger()?;
    let exception = exception.replace(Rights::GET_PROPERTY | Rights::INSPECT)?;
    fails(exception.set_state(ZX_EXCEPTION_STATE_HANDLED), Status::ACCESS_DENIED)?;
    equal(exception.state()?, ZX_EXCEPTION_STATE_TRY_NEXT)?;
    drop(exception);
    let exception = catch(&watched.thread)?.exception.replace(Rights::SET_PROPERTY)?;
    fails(exception.state(), Status::ACCESS_DENIED)?;
    // Getting the thread needs no right.
    ensure(exception.thread().is_ok(), "the thread cannot be had")?;
    drop(exception);
    watched.tiny.process.kill()?;
    ensure(watched.tiny.end()? != EXCEPTION, "it was not killed")
}
