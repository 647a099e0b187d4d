//! The C library of programs, which is also their dynamic linker: one image, mapped once by whoever creates the process.
//!
//! A process starts in this image, not in its executable. What happens then, in the order of the modules:
//!
//! 1. [`start`]: the image relocates itself, reads the *loader message* from the bootstrap channel,
//! 2. [`loader`]: maps the executable and the libraries that it needs, binds their symbols,
//! 3. [`start`] again, from the executable's `_start`: reads the *main message* (arguments, environment, handles), makes
//!    the first thread a [`thread`], hands descriptors to libfdio, runs initialisers and calls `main`.
//!
//! The rest is what a C library has to do with the system: [`malloc`], [`mman`], [`time`], [`env`], [`exit`]... All that
//! only computes, and stdio, is C: musl's sources and a few of ours (`../c`), linked into the same image; [`c`] is the seam.
//! File descriptors and sockets are libfdio's; this library works without it.
//!
//! On the build host only the parts without system calls exist (ELF reading, symbol look-up, moving bytes), so that they
//! can be tested there.
#![cfg_attr(target_os = "fuchsia", no_std)]
#![cfg_attr(not(target_os = "fuchsia"), allow(dead_code))]
// C functions: what they demand of their arguments is what the C standard or POSIX says, not repeated at each.
#![allow(clippy::missing_safety_doc, non_camel_case_types)]

#[cfg(target_os = "fuchsia")]
extern crate alloc;

mod loader;

#[cfg(target_os = "fuchsia")]
mod c;
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
#[cfg(any(target_os = "fuchsia", test))]
mod memory;
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

/// A bug in this library: said on standard error, then the process ends as by `abort`.
#[cfg(all(target_os = "fuchsia", not(test)))]
#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    fatal::report(format_args!("libc.so: {info}"));
    exit::abort()
}

// The prebuilt `core` names these because it can unwind. This library is built not to: nothing comes here. Hidden, so that
// no program takes them for its unwinder's.
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
