//! Threads in exceptions that are suspended at the same time, and handlers that read or change their registers.

use abi::{Status, ZX_EXCP_SW_BREAKPOINT, ZX_EXCP_UNDEFINED_INSTRUCTION, zx_thread_state_general_regs_t};
use zx::{AsHandleRef, Signals};

use super::{cases, late, soon};
use crate::caught_exception::{OwnedTestProcess, UNDEFINED, catch, catch_type, quiet};
use crate::check::{Outcome, ensure, equal, fails};

cases! {
    "exception.suspend.token_goes_first" => token_goes_first,
    "exception.suspend.exception_goes_first" => exception_goes_first,
    "exception.suspend.two_tokens" => two_tokens,
    "exception.suspend.at_start" => suspend_at_start,
    "exception.registers.of_a_fault" => registers_of_a_fault,
    "exception.registers.after_a_breakpoint" => registers_after_a_breakpoint,
    "exception.registers.skip" => registers_skip,
    "exception.registers.values" => registers_values,
    "exception.registers.not_outside" => registers_not_outside,
}

/// `int3; int3`, then spins.
const TWO_BREAKPOINTS: &[u8] = &[0xcc, 0xcc, 0xeb, 0xfe];

fn token_goes_first() -> Outcome {
    let tiny = OwnedTestProcess::new(TWO_BREAKPOINTS)?;
    let channel = tiny.process.create_exception_channel(0)?;
    tiny.start(None, 0)?;
    let caught = catch_type(&channel, ZX_EXCP_SW_BREAKPOINT)?;
    let token = tiny.thread.suspend()?;
    // Two reasons stop the thread now: the exception and the token.
    equal(tiny.thread.info()?.state, abi::ZX_THREAD_STATE_BLOCKED_EXCEPTION)?;
    drop(token);
    equal(tiny.thread.info()?.state, abi::ZX_THREAD_STATE_BLOCKED_EXCEPTION)?;
    zx::nanosleep(soon(10))?;
    quiet(&channel)?;
    caught.handled()?;
    catch_type(&channel, ZX_EXCP_SW_BREAKPOINT)?.handled()?;
    Ok(())
}

fn exception_goes_first() -> Outcome {
    let tiny = OwnedTestProcess::new(TWO_BREAKPOINTS)?;
    let channel = tiny.process.create_exception_channel(0)?;
    tiny.start(None, 0)?;
    let caught = catch_type(&channel, ZX_EXCP_SW_BREAKPOINT)?;
    let token = tiny.thread.suspend()?;
    caught.handled()?;
    zx::nanosleep(soon(10))?;
    quiet(&channel)?;
    equal(tiny.thread.info()?.state, abi::ZX_THREAD_STATE_SUSPENDED)?;
    ensure(tiny.thread.signals()?.contains(Signals::THREAD_SUSPENDED), "nothing tells that it is suspended")?;
    fails(tiny.thread.exception_report(), Status::BAD_STATE)?;
    drop(token);
    catch_type(&channel, ZX_EXCP_SW_BREAKPOINT)?.handled()?;
    Ok(())
}

fn two_tokens() -> Outcome {
    let tiny = OwnedTestProcess::new(TWO_BREAKPOINTS)?;
    let channel = tiny.process.create_exception_channel(abi::ZX_EXCEPTION_CHANNEL_DEBUGGER)?;
    tiny.start(None, 0)?;
    catch_type(&channel, abi::ZX_EXCP_THREAD_STARTING)?.handled()?;
    let caught = catch_type(&channel, ZX_EXCP_SW_BREAKPOINT)?;
    let info = tiny.thread.info()?;
    let expected = (abi::ZX_THREAD_STATE_BLOCKED_EXCEPTION, abi::ZX_EXCEPTION_CHANNEL_TYPE_DEBUGGER);
    equal((info.state, info.wait_exception_channel_type), expected)?;
    let (one, other) = (tiny.thread.suspend()?, tiny.thread.suspend()?);
    drop(one);
    equal(tiny.thread.info()?.state, abi::ZX_THREAD_STATE_BLOCKED_EXCEPTION)?;
    // The exception is over; one token still suspends the thread.
    caught.handled()?;
    tiny.thread.wait_one(Signals::THREAD_SUSPENDED, late())?;
    let info = tiny.thread.info()?;
    let expected = (abi::ZX_THREAD_STATE_SUSPENDED, abi::ZX_EXCEPTION_CHANNEL_TYPE_NONE);
    equal((info.state, info.wait_exception_channel_type), expected)?;
    quiet(&channel)?;
    drop(other);
    catch_type(&channel, ZX_EXCP_SW_BREAKPOINT)?.handled()?;
    equal(tiny.thread.wait_one(Signals::THREAD_RUNNING, late())? & Signals::THREAD_SUSPENDED, Signals::NONE)?;
    equal(tiny.thread.info()?.state, abi::ZX_THREAD_STATE_RUNNING)
}

fn suspend_at_start() -> Outcome {
    // A debugger and a token hold the thread before its first instruction.
    let tiny = OwnedTestProcess::new(TWO_BREAKPOINTS)?;
    let debugger = tiny.process.create_exception_channel(abi::ZX_EXCEPTION_CHANNEL_DEBUGGER)?;
    let token = tiny.process.suspend()?;
    tiny.start(None, 0)?;
    catch_type(&debugger, abi::ZX_EXCP_THREAD_STARTING)?.passed();
    zx::nanosleep(soon(10))?;
    quiet(&debugger)?;
    equal(tiny.thread.info()?.state, abi::ZX_THREAD_STATE_SUSPENDED)?;
    drop(token);
    catch_type(&debugger, ZX_EXCP_SW_BREAKPOINT)?.handled()?;
    Ok(())
}

type Registers = zx_thread_state_general_regs_t;

fn registers_of_a_fault() -> Outcome {
    // mov rax, 0x1122334455667788; mov r15, rax; ud2
    let mut code = vec![0x48, 0xb8];
    code.extend(0x1122_3344_5566_7788_u64.to_le_bytes());
    code.extend([0x49, 0x89, 0xc7, 0x0f, 0x0b]);
    let tiny = OwnedTestProcess::new(&code)?;
    let channel = tiny.process.create_exception_channel(0)?;
    tiny.start(None, 4711)?;
    let caught = catch_type(&channel, ZX_EXCP_UNDEFINED_INSTRUCTION)?;
    let registers: Registers = caught.exception.thread()?.registers()?;
    equal((registers.rax, registers.r15, registers.rsi), (0x1122_3344_5566_7788, 0x1122_3344_5566_7788, 4711))?;
    // The instruction pointer is at the instruction that failed.
    equal((registers.rip, registers.rsp), (tiny.entry as u64 + 13, tiny.stack as u64))
}

fn registers_after_a_breakpoint() -> Outcome {
    let tiny = OwnedTestProcess::new(TWO_BREAKPOINTS)?;
    let channel = tiny.process.create_exception_channel(0)?;
    tiny.start(None, 0)?;
    for n in 1..=2 {
        let caught = catch_type(&channel, ZX_EXCP_SW_BREAKPOINT)?;
        // A breakpoint has been executed: the instruction pointer is behind it.
        equal(tiny.thread.registers::<Registers>()?.rip, tiny.entry as u64 + n)?;
        caught.handled()?;
    }
    Ok(())
}

fn registers_skip() -> Outcome {
    // ud2; int3: a handler moves the thread behind the instruction that fails.
    let tiny = OwnedTestProcess::new(&[0x0f, 0x0b, 0xcc, 0xeb, 0xfe])?;
    let channel = tiny.process.create_exception_channel(0)?;
    tiny.start(None, 0)?;
    let caught = catch_type(&channel, ZX_EXCP_UNDEFINED_INSTRUCTION)?;
    let mut registers: Registers = tiny.thread.registers()?;
    registers.rip += 2;
    tiny.thread.set_registers(&registers)?;
    caught.handled()?;
    catch_type(&channel, ZX_EXCP_SW_BREAKPOINT)?.handled()?;
    Ok(())
}

fn registers_values() -> Outcome {
    // ud2; mov [rsi], rax; int3
    let tiny = OwnedTestProcess::new(&[0x0f, 0x0b, 0x48, 0x89, 0x06, 0xcc])?;
    let channel = tiny.process.create_exception_channel(0)?;
    tiny.start(None, 0)?;
    let caught = catch_type(&channel, ZX_EXCP_UNDEFINED_INSTRUCTION)?;
    let thread = caught.exception.thread()?;
    let mut registers: Registers = thread.registers()?;
    let place = tiny.stack as u64 - 64;
    (registers.rip, registers.rax, registers.rsi) = (registers.rip + 2, 0x0123_4567_89ab_cdef, place);
    thread.set_registers(&registers)?;
    equal(thread.registers::<Registers>()?.rax, registers.rax)?;
    caught.handled()?;
    let caught = catch_type(&channel, ZX_EXCP_SW_BREAKPOINT)?;
    let mut bytes = [0; 8];
    tiny.process.read_memory(place as usize, &mut bytes)?;
    equal(u64::from_le_bytes(bytes), 0x0123_4567_89ab_cdef)?;
    caught.passed();
    Ok(())
}

fn registers_not_outside() -> Outcome {
    let tiny = OwnedTestProcess::new(UNDEFINED)?;
    let channel = tiny.process.create_exception_channel(0)?;
    fails(tiny.thread.registers::<Registers>(), Status::BAD_STATE)?;
    tiny.start(None, 0)?;
    let caught = catch(&channel)?;
    tiny.thread.registers::<Registers>()?;
    tiny.process.kill()?;
    fails(tiny.thread.registers::<Registers>(), Status::BAD_STATE)?;
    caught.passed();
    Ok(())
}
