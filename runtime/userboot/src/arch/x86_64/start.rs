//! The entry point.

use core::arch::global_asm;

// The server starts the thread here, with the bootstrap channel in rdi and the vDSO's base in rsi; no other register is
// defined.
global_asm!(
    ".section .text._start, \"ax\", @progbits",
    ".globl _start",
    ".type _start, @function",
    "_start:",
    "xor %ebp, %ebp",
    "and $-16, %rsp",
    "lea __ehdr_start(%rip), %rdx",
    "lea _DYNAMIC(%rip), %rcx",
    "call userboot_start",
    "ud2",
    // The prebuilt `alloc` crate refers to functions of an unwinder. Userboot does not unwind: a panic ends the
    // process.
    ".globl _Unwind_Resume",
    ".hidden _Unwind_Resume",
    ".globl rust_eh_personality",
    ".hidden rust_eh_personality",
    "_Unwind_Resume:",
    "rust_eh_personality:",
    "ud2",
    ".hidden __ehdr_start",
    ".hidden _DYNAMIC",
    ".text",
    options(att_syntax)
);
