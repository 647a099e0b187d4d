//! `Scrt1.o`: the first instructions of a program.
//!
//! The dynamic linker jumps here after it has loaded and relocated everything, with the registers that the process
//! started with: `rdi` = the bootstrap channel, `rsi` = the base of the vDSO. This file only passes the address of the
//! program's `main` to the C library. The C library then reads the rest of the start message, runs the initialisers,
//! calls `main`, and exits with its result. `Scrt1.o` is an object file, not a library: the linker puts it first in
//! each executable.
//!
//! Build: `rustc --edition 2024 --target x86_64-unknown-fuchsia --crate-type lib --emit obj -o Scrt1.o src/lib.rs`.
#![no_std]

#[cfg(target_os = "fuchsia")]
core::arch::global_asm!(
    ".pushsection .text._start,\"ax\",@progbits",
    ".global _start",
    ".type _start,@function",
    "_start:",
    ".cfi_startproc",
    // Outermost frame: unwinders and debuggers stop here.
    ".cfi_undefined rip",
    "xor ebp, ebp",
    "and rsp, -16",
    "mov rsi, qword ptr [rip + main@GOTPCREL]",
    "call qword ptr [rip + __libc_start_main@GOTPCREL]",
    "ud2",
    ".cfi_endproc",
    ".size _start, . - _start",
    ".popsection",
    // `__dso_handle` identifies this module to `__cxa_atexit`; only its address matters.
    ".pushsection .data.rel.ro.__dso_handle,\"aw\",@progbits",
    ".global __dso_handle",
    ".hidden __dso_handle",
    ".balign 8",
    "__dso_handle: .quad __dso_handle",
    ".popsection",
);
