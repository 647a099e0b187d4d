//! Addresses of a thread's memory.

use std::arch::asm;

/// The calling thread's stack pointer.
pub fn stack_pointer() -> usize {
    let value;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, rsp", out(reg) value, options(nomem, nostack, preserves_flags)) };
    value
}

/// The calling thread's unsafe stack pointer. Code built with SafeStack keeps variables whose address is taken on that
/// stack.
pub fn unsafe_stack_pointer() -> usize {
    let value;
    // SAFETY: in every thread of the C library, the fourth word at the thread pointer is the unsafe stack pointer.
    unsafe { asm!("mov {}, fs:24", out(reg) value, options(readonly, nostack, preserves_flags)) };
    value
}

/// The calling thread's thread pointer. Thread-local variables are below it.
pub fn thread_pointer() -> usize {
    let value;
    // SAFETY: the first word at the thread pointer is its address.
    unsafe { asm!("mov {}, fs:0", out(reg) value, options(readonly, nostack, preserves_flags)) };
    value
}

/// Recurses with large frames until the stack overflows.
pub fn overflow(depth: usize) -> usize {
    let frame = std::hint::black_box([depth as u8; 4096]);
    if depth == usize::MAX { 0 } else { overflow(depth + 1) + usize::from(frame[depth % 4096]) }
}
