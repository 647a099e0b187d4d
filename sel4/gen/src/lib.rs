//! Reads a kernel's own interface definitions and writes the binding's generated half.
//!
//! seL4 describes the methods of its objects and its system calls in XML files. Their numbers depend on the version and
//! on the configuration, so the generator takes them from the kernel that will run:
//!
//! 1. [`Kernel::load`] reads the files of a [`Location`] (the source tree of 5.0.0, or an installed prefix of 13 to
//!    16), drops what its configuration excludes and numbers the rest;
//! 2. [`emit`] writes the Rust code that `sel4` includes: labels, system-call numbers, one function per method,
//!    constants;
//! 3. [`headers::headers`] writes the C headers that 5.0.0's own build needs from the same files.
#![forbid(unsafe_code)]

mod condition;
mod config;
mod emit;
mod error;
pub mod headers;
mod interfaces;
mod kernel;
mod types;

pub use condition::Condition;
pub use config::Config;
pub use emit::emit;
pub use error::Error;
pub use interfaces::{Interfaces, Method, Parameter, Struct, SyscallGroup, Syscalls};
pub use kernel::{Family, Kernel, Location};
