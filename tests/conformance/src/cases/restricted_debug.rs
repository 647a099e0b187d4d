//! Breakpoints in restricted mode: a thread's breakpoints apply in both modes.

use std::thread;

use abi::{ZX_EXCP_HW_BREAKPOINT, zx_restricted_state_t, zx_thread_state_debug_regs_t};
use zx::{AsHandleRef, MonotonicInstant, Reason, Signals, Thread};

use super::cases;
use super::restricted::{Code, Shared, bind, state, this};
use crate::check::{Failure, Outcome, equal};

cases! {
    "restricted.debug.inside" => inside,
    "restricted.debug.before" => before,
}

/// `lock inc dword ptr [rdi]; L: cmp dword ptr [rsi], 0; je L; syscall`
const AWAITS: &[u8] = &[0xf0, 0xff, 0x07, 0x83, 0x3e, 0x00, 0x74, 0xfb, 0x0f, 0x05];
/// Offset of the comparison.
const COMPARES: u64 = 3;
/// The bits of DR6 that are always set.
const DR6: u64 = 0xffff_0ff0;

/// Suspends a thread, replaces its debug registers, and returns the DR6 that it had.
fn exchange(thread: &Thread, registers: &zx_thread_state_debug_regs_t) -> Result<u64, Failure> {
    let token = thread.suspend()?;
    thread.wait_one(Signals::THREAD_SUSPENDED, MonotonicInstant::INFINITE)?;
    let before: zx_thread_state_debug_regs_t = thread.registers()?;
    thread.set_registers(registers)?;
    drop(token);
    Ok(before.dr6)
}

fn breakpoint(address: u64) -> zx_thread_state_debug_regs_t {
    zx_thread_state_debug_regs_t { dr: [address, 0, 0, 0], dr6: 0, dr7: 1 }
}

/// A thread is given a breakpoint while it runs in restricted mode.
fn inside() -> Outcome {
    let (code, memory, thread) = (Code::new(AWAITS)?, Shared::new(1)?, this()?);
    let mut restricted = bind()?;
    thread::scope(|scope| {
        let address = code.ip() + COMPARES;
        let (memory, thread) = (&memory, &thread);
        let other = scope.spawn(move || -> Outcome {
            memory.await_word(0)?;
            equal(exchange(thread, &breakpoint(address))?, DR6)
        });
        let given = zx_restricted_state_t { rdi: memory.address(), rsi: memory.address() + 64, ..state(1, code.ip()) };
        *restricted.state() = given;
        let reason = restricted.enter()?;
        other.join().unwrap_or(Err("it panicked".into()))?;
        equal((reason, restricted.state().ip), (Reason::Exception, address))?;
        equal(restricted.exception().header.type_, ZX_EXCP_HW_BREAKPOINT)?;
        // DR6 of the thread reports the hit, and the breakpoint stays in force until it is removed.
        let other = scope.spawn(move || exchange(thread, &breakpoint(address)));
        equal(other.join().unwrap_or(Err("it panicked".into()))?, DR6 | 1)?;
        restricted.state().ip = address;
        equal((restricted.enter()?, restricted.state().ip), (Reason::Exception, address))?;
        scope.spawn(move || exchange(thread, &zx_thread_state_debug_regs_t::default()));
        memory.set(64, 1)?;
        restricted.state().ip = code.ip();
        while restricted.enter()? == Reason::Exception {
            restricted.state().ip = code.ip();
        }
        Ok(())
    })
}

/// A thread that already has a breakpoint binds state and enters restricted mode.
fn before() -> Outcome {
    let (code, memory, thread) = (Code::new(AWAITS)?, Shared::new(1)?, this()?);
    memory.set(64, 1)?;
    let address = code.ip() + COMPARES;
    thread::scope(|scope| {
        let thread = &thread;
        let other = scope.spawn(move || exchange(thread, &breakpoint(address)));
        other.join().unwrap_or(Err("it panicked".into()))?;
        let given = zx_restricted_state_t { rdi: memory.address(), rsi: memory.address() + 64, ..state(1, code.ip()) };
        {
            let mut restricted = bind()?;
            *restricted.state() = given;
            equal((restricted.enter()?, restricted.state().ip), (Reason::Exception, address))?;
        }
        // The next state has a new runner, which must have no breakpoint left.
        let other = scope.spawn(move || exchange(thread, &zx_thread_state_debug_regs_t::default()));
        equal(other.join().unwrap_or(Err("it panicked".into()))?, DR6 | 1)?;
        let mut restricted = bind()?;
        *restricted.state() = given;
        equal(restricted.enter()?, Reason::Syscall)
    })
}
