//! Zircon's kernel objects as plain Rust over an abstract machine.
//!
//! Each family of objects has a folder, and each noun a file in it: a struct holds what a noun is, and methods on
//! [`Kernel`] say what can be done with it. Objects have numbers ([`Id`]), not pointers: there are no cycles to
//! collect, no borrow outlives a call, and a stale reference to a destroyed object is detected.
//!
//! A family uses those above it in this list, except for a few names that `docs/architecture.md` lists with the
//! reasons:
//! - [`containers`]: storage, lists and maps that know nothing of the kernel;
//! - [`arch`]: registers, and what else belongs to a processor;
//! - [`machine`]: what the objects need from the machine below;
//! - [`core`](crate::core): identity, handles, signals, waits, ports and accounts;
//! - [`memory`]: VMOs, VMARs, pagers, and access to a program's memory;
//! - [`time`]: deadlines, timers and clocks;
//! - [`ipc`]: channels, sockets, FIFOs, streams and IOBuffers;
//! - [`task`]: jobs, processes and threads, with exceptions, scheduling and restricted mode;
//! - [`device`]: interrupts, DMA, I/O ports and resources;
//! - [`guest`]: virtual processors and native components;
//! - [`kernel`]: the state of the whole server, and the reaper.
//!
//! Nothing here knows of seL4, and nothing is unsafe. Errors are Zircon's status codes; `INTERNAL` would mean that the
//! kernel itself lost count of something.
#![no_std]
#![forbid(unsafe_code)]
// No input of a program may panic the server.
#![cfg_attr(
    not(any(test, feature = "fake")),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, clippy::indexing_slicing)
)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod arch;
pub mod containers;
pub mod core;
pub mod device;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
pub mod guest;
pub mod ipc;
pub mod kernel;
pub mod machine;
pub mod memory;
pub mod task;
#[cfg(test)]
mod tests;
pub mod time;

pub use crate::core::object::{Id, ObjectId};
pub use crate::kernel::Kernel;
