//! What the target's unwinder forgets: the unsafe stack.
//!
//! The unwinder that comes with Rust's target is built with SafeStack, as all C is there: each thread has a second stack
//! for variables whose address is taken, and `fs:0x18` points to its end. A frame of C gives its part back when it returns.
//! The unwinder's own frames never do when an exception is caught: it jumps from within them to where it is caught. Rust
//! has no such frames and so does not notice, until a thread has caught some hundred panics and the unsafe stack is at its
//! end. So:
//!
//! 1. who raises, or goes on with, an exception comes here first: where the unsafe stack ends now is noted;
//! 2. the unwinder does its work;
//! 3. its jump to where the exception is caught comes here too, and puts the pointer back.
//!
//! The names below are the unwinder's; in its own object files they are renamed to those with `__plain` (see
//! `xtask/src/unwinder.rs`). Between 1 and 3 nothing else unwinds in a thread.
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
    // 1
    "mov rax, qword ptr fs:[0x18]",
    "mov rcx, qword ptr [rip + .Lunsafe_stack@GOTTPOFF]",
    "mov qword ptr fs:[rcx], rax",
    // 2: as if it had been called by our caller.
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
    // 3: the registers that are to be loaded lie on the unsafe stack; nothing is put there before they are.
    "mov rcx, qword ptr [rip + .Lunsafe_stack@GOTTPOFF]",
    "mov rax, qword ptr fs:[rcx]",
    "mov qword ptr fs:[0x18], rax",
    "jmp __plain__libunwind_Registers_x86_64_jumpto",
    ".cfi_endproc",
    ".size __libunwind_Registers_x86_64_jumpto, . - __libunwind_Registers_x86_64_jumpto",
    ".popsection",
);
