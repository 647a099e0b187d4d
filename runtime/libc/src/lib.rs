//! The C library, which is also the dynamic linker: one image, which the process's creator maps.
//!
//! A process starts in this image, not in its executable. The steps, by module:
//!
//! 1. [`start`]: the image relocates itself and reads the *loader message* from the bootstrap channel.
//! 2. [`loader`] maps the executable and the libraries that it needs, and binds their symbols.
//! 3. [`start`] again, called from the executable's `_start`: reads the *main message* (arguments, environment,
//!    handles), makes the first thread a [`thread`], passes descriptors to libfdio, runs initialisers and calls `main`.
//!
//! The rest is what a C library does with the system: [`malloc`], [`mman`], [`time`], [`env`], [`exit`]... Everything
//! that only computes, and stdio, is written in C: musl's sources and a few of ours (`../c`), linked into the same
//! image; [`c`] is the interface to them. libfdio implements file descriptors and sockets; this library works without
//! it.
//!
//! On the build host only the parts without system calls are compiled (ELF reading, symbol look-up, memory functions),
//! for their tests.
#![cfg_attr(target_os = "fuchsia", no_std)]
#![cfg_attr(not(target_os = "fuchsia"), allow(dead_code))]
// The C standard and POSIX document what these C functions demand of their arguments.
#![allow(clippy::missing_safety_doc, non_camel_case_types)]

#[cfg(target_os = "fuchsia")]
extern crate alloc;

mod loader;

#[cfg(any(target_os = "fuchsia", test))]
mod arch;
#[cfg(target_os = "fuchsia")]
mod c;
#[cfg(target_os = "fuchsia")]
mod children;
#[cfg(target_os = "fuchsia")]
mod env;
#[cfg(target_os = "fuchsia")]
mod errno;
#[cfg(target_os = "fuchsia")]
mod exit;
#[cfg(target_os = "fuchsia")]
mod fatal;
#[cfg(target_os = "fuchsia")]
mod lock;
#[cfg(target_os = "fuchsia")]
mod malloc;
#[cfg(target_os = "fuchsia")]
mod mman;
#[cfg(target_os = "fuchsia")]
mod random;
#[cfg(target_os = "fuchsia")]
mod signal;
#[cfg(target_os = "fuchsia")]
mod start;
#[cfg(target_os = "fuchsia")]
mod sys;
#[cfg(target_os = "fuchsia")]
mod system;
#[cfg(target_os = "fuchsia")]
mod thread;
#[cfg(target_os = "fuchsia")]
mod time;

/// A bug in this library: writes the message to standard error, then ends the process like `abort`.
#[cfg(all(target_os = "fuchsia", not(test)))]
#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    fatal::report(format_args!("libc.so: {info}"));
    exit::abort()
}

// The prebuilt `core` refers to these functions because it can unwind. This library is built without unwinding and
// never calls them. They are hidden, so that no program uses them instead of its unwinder's.
#[cfg(all(target_os = "fuchsia", not(test)))]
core::arch::global_asm!(
    ".pushsection .text.no_unwind,\"ax\",@progbits",
    ".global _Unwind_Resume",
    ".hidden _Unwind_Resume",
    ".global rust_eh_personality",
    ".hidden rust_eh_personality",
    "_Unwind_Resume:",
    "rust_eh_personality:",
    "ud2",
    ".popsection",
);
