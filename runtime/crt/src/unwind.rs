//! Restores the unsafe stack when the target's unwinder catches an exception.
//!
//! The unwinder of Rust's target is built with SafeStack, like all C code of the target: each thread has a second stack
//! for variables whose address is taken, and `fs:0x18` points to its top. A C function releases its part of that stack
//! when it returns. The unwinder's own functions never return when an exception is caught: the unwinder jumps from them
//! to the landing pad, and so leaks their part of the unsafe stack. Rust code has no frames on that stack, so the leak
//! shows only after a thread has caught a few hundred panics and the unsafe stack overflows. This file fixes it in
//! three steps:
//!
//! 1. A call that raises or resumes an exception comes here first; the code here saves the pointer to the unsafe stack.
//! 2. The unwinder does its work.
//! 3. Its jump to the landing pad also comes here, and the code here restores the pointer.
//!
//! The symbols below have the unwinder's names; `xtask/build/src/unwinder.rs` renames the unwinder's own symbols to names
//! with the prefix `__plain`. Between steps 1 and 3 the thread unwinds nothing else.
#![no_std]

#[cfg(target_os = "fuchsia")]
core::arch::global_asm!(include_str!("arch/x86_64/unwind.s"));
