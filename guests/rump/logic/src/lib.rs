//! What the hypercall library of rump kernels decides, as safe code that also runs on the host.
//!
//! - [`Mutex`], [`Condition`], [`RwLock`]: the kernel's locks on futexes. They know nothing of the rump CPU: the library
//!   releases it around a wait where the interface asks for that.
//! - [`Pages`]: which pages of the kernel's memory are in use.
//! - [`BioQueue`]: requests for block I/O between the kernel and the thread that carries them out.
//! - [`parameter`], [`error`], [`file`], [`time`], [`line`]: values that cross the interface.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod bio;
mod condition;
pub mod error;
pub mod file;
mod futex;
pub mod line;
mod mutex;
mod pages;
pub mod parameter;
pub mod rwlock;
#[cfg(test)]
mod tests;
pub mod time;

pub use bio::BioQueue;
pub use condition::{Condition, Ticket};
pub use futex::{Futex, Slept};
pub use mutex::Mutex;
pub use pages::{PAGE, Pages, WrongFree};
pub use rwlock::RwLock;
