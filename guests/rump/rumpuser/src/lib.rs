//! `librumpuser.a`: the hypercalls, interface rumpuser(3), revision 17, with which a NetBSD rump kernel runs as a program.
//!
//! A **rump kernel** is a library in the program's process. It has a few virtual processors, **rump CPUs**; a thread of
//! the kernel runs while it has one. Each hypercall comes with a rump CPU. A call that waits releases it first
//! ([`kernel::outside`]), or, where the interface forbids that, keeps it.
//!
//! Every function here is called by a C kernel in the same address space, which is as trusted as the library: pointers
//! are valid as the interface says. What the functions decide is in the crate `rump-logic`, without unsafe code.
#![cfg_attr(target_os = "fuchsia", no_std)]
#![cfg(target_os = "fuchsia")]
#![allow(clippy::missing_safety_doc, reason = "the head of the crate says it for all")]

mod arch;
mod bio;
mod c;
mod clock;
mod console;
mod files;
mod kernel;
mod locks;
mod memory;
mod parameters;
mod process;
mod shmif;
mod sysproxy;
mod threads;
