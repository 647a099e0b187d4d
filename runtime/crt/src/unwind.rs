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
core::arch::global_asm!(
    ".pushsection .tbss.unsafe_stack,\"awT\",@nobits",
    ".balign 8",
    ".type .Lunsafe_stack,@tls_object",
    ".Lunsafe_stack: .zero 8",
    ".popsection",
    ".macro noting name",
    ".pushsection .text.\\name,\"ax\",@progbits",
    ".global \\name",
    ".type \\name,@function",
    "\\name:",
    ".cfi_startproc",
    // 1: save the pointer to the unsafe stack.
    "mov rax, qword ptr fs:[0x18]",
    "mov rcx, qword ptr [rip + .Lunsafe_stack@GOTTPOFF]",
    "mov qword ptr fs:[rcx], rax",
    // 2: tail call, so that the unwinder sees our caller as its own.
    "jmp __plain\\name",
    ".cfi_endproc",
    ".size \\name, . - \\name",
    ".popsection",
    ".endm",
    "noting _Unwind_RaiseException",
    "noting _Unwind_Resume",
    "noting _Unwind_ForcedUnwind",
    ".pushsection .text.__libunwind_Registers_x86_64_jumpto,\"ax\",@progbits",
    ".global __libunwind_Registers_x86_64_jumpto",
    ".hidden __libunwind_Registers_x86_64_jumpto",
    ".type __libunwind_Registers_x86_64_jumpto,@function",
    "__libunwind_Registers_x86_64_jumpto:",
    ".cfi_startproc",
    // 3: the registers to load are on the unsafe stack; nothing overwrites them there before they are loaded.
    "mov rcx, qword ptr [rip + .Lunsafe_stack@GOTTPOFF]",
    "mov rax, qword ptr fs:[rcx]",
    "mov qword ptr fs:[0x18], rax",
    "jmp __plain__libunwind_Registers_x86_64_jumpto",
    ".cfi_endproc",
    ".size __libunwind_Registers_x86_64_jumpto, . - __libunwind_Registers_x86_64_jumpto",
    ".popsection",
);
