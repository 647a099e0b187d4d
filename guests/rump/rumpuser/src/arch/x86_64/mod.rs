//! The thread-local variable with the kernel's thread.
//!
//! The kernel asks for it with each lock, and Rust without its standard library has no thread-local variables, so two
//! instructions access it. The library is linked into executables only: it uses the model of thread-local storage for
//! them, as the kernel's own objects do.

use core::arch::{asm, global_asm};

global_asm!(include_str!("current.s"), options(att_syntax));

/// The kernel's thread that the calling thread is; zero for none.
#[inline]
pub fn current() -> usize {
    let value;
    // SAFETY: reads the calling thread's variable.
    unsafe {
        asm!("movq %fs:rumpuser_current@tpoff, {}", out(reg) value, options(att_syntax, nostack, preserves_flags, readonly));
    }
    value
}

/// Sets it.
#[inline]
pub fn set_current(value: usize) {
    // SAFETY: writes the calling thread's variable, which only these two functions access.
    unsafe {
        asm!("movq {}, %fs:rumpuser_current@tpoff", in(reg) value, options(att_syntax, nostack, preserves_flags));
    }
}
