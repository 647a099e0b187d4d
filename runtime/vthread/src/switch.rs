//! From one thread to another.
//!
//! 1. A thread that lets another run puts the registers that a function keeps on its stack, and where they are into
//!    [`Thread::registers`]; the other one's are taken from where its own are, and it returns to where it was.
//! 2. An upcall finds a thread anywhere. Its state goes from the page into the thread, its vector registers were put there by the
//!    upcall's entry; and its `registers` are its [`Thread::frame`], by which whoever switches to it comes to
//!    [`preempted`]. There all is put back, and resumed as after any upcall.
//! 3. A thread that has not run yet has on its stack what makes it come to [`begin`].
//!
//! So whoever switches need not know how the other was left. All of it is done with events disabled, and a thread that is gone on
//! with enables them.

use core::arch::naked_asm;

use crate::{Inner, Thread};

/// Words that a switch takes from where a thread's registers are: six registers, an address, and one to keep the stack aligned.
pub const REGISTERS: usize = 8;

/// Step 1.
///
/// # Safety
/// `from` is the thread that runs; `to` can go on.
#[unsafe(naked)]
pub unsafe extern "C" fn switch(_from: *mut Thread, _to: *mut Thread) {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov [rdi], rsp",
        "mov rsp, [rsi]",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}

/// Goes on with a thread and never comes back.
#[unsafe(naked)]
unsafe extern "C" fn leave_for(_to: *mut Thread) -> ! {
    naked_asm!("mov rsp, [rdi]", "pop r15", "pop r14", "pop r13", "pop r12", "pop rbx", "pop rbp", "ret",)
}

/// The registers of a thread that is to come to a place, with a stack pointer for it.
pub fn first(place: unsafe extern "C" fn() -> !, thread: *mut Thread, stack: u64) -> [u64; REGISTERS] {
    [0, 0, 0, 0, thread as u64, stack, place as usize as u64, 0]
}

/// Step 3: `rbx` is the thread.
#[unsafe(naked)]
pub unsafe extern "C" fn begin() -> ! {
    naked_asm!("lea rsp, [rsp - 8]", "xor ebp, ebp", "mov rdi, rbx", "call {begun}", "ud2", begun = sym begun)
}

extern "C" fn begun(thread: *mut Thread) -> ! {
    // SAFETY: the thread that runs; its body was put there when it was prepared.
    let (inner, mut body) = unsafe { (&*(*thread).threads, (*thread).body.take()) };
    inner.enable();
    if let Some(body) = &mut body {
        body(core::ptr::from_ref(inner).cast());
    }
    // The allocator is for one thread at a time.
    inner.events.disable();
    drop(body);
    inner.end()
}

/// Step 2, in which `rbx` is the thread and `rbp` the top of the upcalls' stack, which nobody uses now.
#[unsafe(naked)]
unsafe extern "C" fn preempted() -> ! {
    naked_asm!("mov rsp, rbp", "mov rdi, rbx", "call {go_on}", "ud2", go_on = sym go_on)
}

extern "C" fn go_on(thread: *mut Thread) -> ! {
    // SAFETY: events are disabled, and the thread was left by `upcall`.
    unsafe {
        let events = (*(*thread).threads).events;
        events.saved().write((*thread).saved);
        events.leave()
    }
}

/// What an upcall does.
pub extern "C" fn upcall(inner: *mut ()) {
    // SAFETY: what `run` has given.
    let inner = unsafe { &*inner.cast::<Inner>() };
    if !inner.look() {
        return;
    }
    let state = inner.state();
    let Some(next) = state.ready.pop() else { return };
    let (current, top) = (state.current, state.upcalls_top);
    state.preemptions += 1;
    // SAFETY: the thread that was interrupted, which is nobody's now.
    unsafe {
        (*current).saved = inner.events.saved().read();
        (*current).frame = first(preempted, current, top);
        (*current).registers = (&raw const (*current).frame).cast();
    }
    state.ready.push(current);
    inner.becomes(next);
    // SAFETY: it can go on. What is on this stack is no longer needed.
    unsafe { leave_for(next) }
}
