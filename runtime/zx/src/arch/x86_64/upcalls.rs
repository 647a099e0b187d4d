//! Upcalls, for programs that test them.

use core::arch::naked_asm;
use core::ptr;
use core::sync::atomic::AtomicU64;

use std::boxed::Box;
use std::vec;

use crate::{Events, Vectors};

/// Size of the upcalls' stack in units of 16 bytes: 16 KiB.
const STACK: usize = 1024;

/// State for [`called`].
struct Context<'c> {
    events: Events,
    event: &'c dyn Fn(Events),
}

/// Runs `body` while upcalls of a virtual processor take its events. Each upcall calls `event` on its own stack, with
/// events disabled. `body` must enable events; afterwards they are disabled. `event` can interrupt any code, so it must
/// not use anything that the interrupted code may be using.
pub fn with_upcalls<T>(events: Events, event: &dyn Fn(Events), body: impl FnOnce(Events) -> T) -> T {
    let (mut stack, mut vectors) = (vec![0; STACK], Box::new(Vectors::INITIAL));
    let mut context = Context { events, event };
    events.set_vectors(&raw mut *vectors);
    // SAFETY: all three exist until events are disabled below; a panic in `body` ends the test program.
    unsafe { events.set_handler(&mut stack, called, (&raw mut context).cast()) };
    let result = body(events);
    events.disable();
    // SAFETY: a valid reference; it keeps the context alive until here, where no upcall can use it any more.
    let _ = unsafe { ptr::read_volatile(&raw const context.events) };
    result
}

extern "C" fn called(context: *mut ()) {
    // SAFETY: `with_upcalls` passes this pointer.
    let context = unsafe { &*context.cast::<Context<'_>>() };
    if context.events.take() {
        (context.event)(context.events);
    }
}

/// Enables events, and handles an event that was already pending, as an upcall would. For the body of [`with_upcalls`].
pub fn enable(events: Events, event: &dyn Fn(Events)) {
    while events.enable() {
        events.disable();
        if events.take() {
            event(events);
        }
    }
}

/// Fills all registers and part of the stack below them, and loops until the word is not 0. Returns 0 if in each
/// iteration everything was unchanged, otherwise the number of the check that failed.
pub fn hold(until: &AtomicU64) -> u64 {
    // SAFETY: follows the C convention, and writes only to its own stack.
    unsafe { hold_all(until.as_ptr()) }
}

macro_rules! hold {
    ($($register:literal $value:literal),* ; $($vector:literal $of:literal),*) => {
        naked_asm!(
            "push rbx", "push rbp", "push r12", "push r13", "push r14", "push r15",
            $(concat!("mov ", $register, ", ", $value),)*
            $(concat!("movq ", $vector, ", ", $of),)*
            "mov [rsp - 8], rbx", "mov [rsp - 128], r15",
            "2:",
            "mov ecx, 1",
            "stc",
            "jnc 3f",
            "mov rax, 0x77",
            "std",
            "pushfq", "pop rcx", "bt rcx, 10",
            "cld",
            "mov ecx, 2",
            "jnc 3f",
            "mov [rsp - 8], rbx",
            "cmp rax, 0x77",
            $("jne 3f", "lea rcx, [rcx + 1]", concat!("cmp ", $register, ", ", $value),)*
            $("jne 3f", "lea rcx, [rcx + 1]", concat!("movq rax, ", $vector), concat!("cmp rax, ", $of),)*
            "jne 3f", "lea rcx, [rcx + 1]", "cmp [rsp - 8], rbx",
            "jne 3f", "lea rcx, [rcx + 1]", "cmp [rsp - 128], r15",
            "jne 3f",
            "cmp qword ptr [rdi], 0",
            "je 2b",
            "xor eax, eax",
            "jmp 4f",
            "3:",
            "mov rax, rcx",
            "4:",
            "pop r15", "pop r14", "pop r13", "pop r12", "pop rbp", "pop rbx",
            "ret",
        )
    };
}

#[unsafe(naked)]
unsafe extern "C" fn hold_all(_until: *mut u64) -> u64 {
    hold!(
        "rbx" "0x1b1b1b1b", "rdx" "0x2d2d2d2d", "rsi" "0x35353535", "rbp" "0x4b4b4b4b", "r8" "0x58585858",
        "r9" "0x69696969", "r10" "0x1a1a1a1a", "r11" "0x1b1b1b1c", "r12" "0x1c1c1c1c", "r13" "0x1d1d1d1d",
        "r14" "0x1e1e1e1e", "r15" "0x1f1f1f1f";
        "xmm0" "rbx", "xmm1" "rdx", "xmm2" "rsi", "xmm7" "rbp", "xmm8" "r8", "xmm9" "r9", "xmm14" "r10", "xmm15" "r11"
    )
}
