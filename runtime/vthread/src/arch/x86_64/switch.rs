//! Switches between threads.
//!
//! 1. A thread that lets another run pushes its callee-saved registers on its stack and stores their address in
//!    [`Thread::registers`]. Then it loads the other thread's registers from there and returns to the other thread's
//!    code.
//! 2. An upcall can interrupt a thread anywhere. The upcall copies the interrupted state from the shared page to the
//!    thread (its entry code has already saved the vector registers there), and sets the thread's `registers` to its
//!    [`Thread::frame`]. A switch to the thread then reaches [`preempted`], which restores all of the state and resumes
//!    the thread like after any upcall.
//! 3. A new thread's stack holds registers that make a switch to it reach [`begin`].
//!
//! So a switch is the same however the other thread was left. Switches happen with events disabled, and the resumed
//! thread enables them.

use core::arch::naked_asm;

use crate::{Inner, Thread};

/// Words that a switch loads from a thread's saved registers: six registers, a return address, and padding for
/// alignment.
pub const REGISTERS: usize = 8;

/// Switches threads (step 1).
///
/// # Safety
/// `from` is the running thread; `to` is in a state from which it can resume.
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

/// Resumes a thread without saving the current one; does not return.
#[unsafe(naked)]
unsafe extern "C" fn leave_for(_to: *mut Thread) -> ! {
    naked_asm!("mov rsp, [rdi]", "pop r15", "pop r14", "pop r13", "pop r12", "pop rbx", "pop rbp", "ret",)
}

/// Saved registers with which a switch reaches `place`, with a stack pointer for it.
pub fn first(place: unsafe extern "C" fn() -> !, thread: *mut Thread, stack: u64) -> [u64; REGISTERS] {
    [0, 0, 0, 0, thread as u64, stack, place as usize as u64, 0]
}

/// First instructions of a new thread (step 3). `rbx` is the thread.
#[unsafe(naked)]
pub unsafe extern "C" fn begin() -> ! {
    naked_asm!("lea rsp, [rsp - 8]", "xor ebp, ebp", "mov rdi, rbx", "call {begun}", "ud2", begun = sym begun)
}

extern "C" fn begun(thread: *mut Thread) -> ! {
    // SAFETY: the running thread; `prepare` has set its body.
    let (inner, mut body) = unsafe { (&*(*thread).threads, (*thread).body.take()) };
    inner.enable();
    if let Some(body) = &mut body {
        body(core::ptr::from_ref(inner).cast());
    }
    // The allocator must not be preempted.
    inner.events.disable();
    drop(body);
    inner.end()
}

/// Resumes a preempted thread (step 2). `rbx` is the thread, `rbp` the top of the upcalls' stack, which is unused now.
#[unsafe(naked)]
unsafe extern "C" fn preempted() -> ! {
    naked_asm!("mov rsp, rbp", "mov rdi, rbx", "call {go_on}", "ud2", go_on = sym go_on)
}

extern "C" fn go_on(thread: *mut Thread) -> ! {
    // SAFETY: events are disabled, and `upcall` has saved the thread's state.
    unsafe {
        let events = (*(*thread).threads).events;
        events.saved().write((*thread).saved);
        events.leave()
    }
}

/// Handler of upcalls.
pub extern "C" fn upcall(inner: *mut ()) {
    // SAFETY: `run` passes this pointer.
    let inner = unsafe { &*inner.cast::<Inner>() };
    if !inner.look() {
        return;
    }
    let state = inner.state();
    let Some(next) = state.ready.pop() else { return };
    let (current, top) = (state.current, state.upcalls_top);
    state.preemptions += 1;
    // SAFETY: the interrupted thread, which nothing else uses now.
    unsafe {
        (*current).saved = inner.events.saved().read();
        (*current).frame = first(preempted, current, top);
        (*current).registers = (&raw const (*current).frame).cast();
    }
    state.ready.push(current);
    inner.becomes(next);
    // SAFETY: `next` can resume. Nothing needs this stack's contents any more.
    unsafe { leave_for(next) }
}
