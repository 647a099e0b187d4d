//! The unwinder of programs: a note, not code.
//!
//! Programs need `libunwind.a` (`_Unwind_*`) when they are linked. The official Rust target brings one, LLVM's, in its own
//! library directory, where the compiler tells the linker to look: Rust programs need nothing from this repository. C and
//! C++ programs link the same file; the sysroot may hold a copy of it:
//! `$(rustc --print target-libdir --target x86_64-unknown-fuchsia)/libunwind.a`.
//!
//! What it asks of the C library is part of `runtime/libc`: `dl_iterate_phdr` (with counts of loaded modules, so that it
//! can keep what it found), `dladdr`, read-write locks, and an unsafe stack in every thread (it is built with SafeStack).
#![no_std]
