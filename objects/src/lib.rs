//! Zircon's kernel objects as plain Rust over an abstract machine.
//!
//! There is one file per noun. A struct holds the state of a noun; the operations on it are methods on [`Kernel`], the
//! single root of all state, and are defined in the noun's file. Objects refer to each other by number ([`Id`]), not by
//! pointer: there are no reference cycles, no borrow outlives a call, and a stale number is detected.
//!
//! The other modules are shared by all nouns:
//! - [`object`]: identity, signals, and destruction of objects;
//! - [`handle`]: a process's numbers for objects;
//! - [`wait`]: observers of signals, and the protocol of a wait;
//! - [`usermem`]: the only access to a program's memory;
//! - [`machine`]: the interface to the machine below.
//!
//! Nothing here depends on seL4, and nothing is unsafe. Errors are Zircon's status codes; `INTERNAL` means that the
//! kernel's own bookkeeping is wrong.
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

pub mod account;
pub mod aspace;
pub mod bti;
pub mod buffers;
pub mod channel;
pub mod clock;
pub mod component;
mod copy;
pub mod counter;
mod deadline;
pub mod debug;
pub mod debuglog;
#[cfg(test)]
mod endless_tests;
pub mod endpoint;
pub mod ends;
pub mod event;
pub mod eventpair;
pub mod exception;
#[cfg(test)]
mod exception_tests;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
mod few;
pub mod fifo;
mod frames;
pub mod futex;
pub mod handle;
mod in_call;
pub mod interrupt;
pub mod iob;
pub mod iommu;
pub mod ioports;
pub mod job;
pub mod kernel;
pub mod list;
pub mod machine;
#[cfg(test)]
mod many_tests;
pub mod maps;
#[cfg(test)]
mod marks_tests;
#[cfg(test)]
mod model;
pub mod msi;
pub mod name;
mod noun;
pub mod object;
pub mod pager;
pub mod policy;
pub mod port;
pub mod portions;
pub mod pressure;
pub mod process;
pub mod profile;
mod recent;
pub mod refusal;
mod report;
pub mod resource;
pub mod restricted;
mod ring;
pub mod shared;
pub mod slab;
pub mod socket;
mod sole;
mod spans;
#[cfg(test)]
mod starved_tests;
pub mod stream;
pub mod suspend_token;
#[cfg(test)]
mod tests;
pub mod thread;
pub mod timer;
mod trace;
mod turns;
pub mod user_registers;
pub mod usermem;
pub mod vmar;
pub mod vmo;
pub mod vproc;
pub mod wait;

pub use kernel::Kernel;
pub use object::{Id, ObjectId};
