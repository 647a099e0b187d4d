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
core::arch::global_asm!(include_str!("arch/x86_64/start.s"));
