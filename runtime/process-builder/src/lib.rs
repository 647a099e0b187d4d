//! Creates, loads and starts a process from an ELF image.
//!
//! Zircon has no `exec`: whoever starts a process builds it. That is, in order: read the ELF file's headers and refuse
//! what is not a program for this system ([`Image`]); create an empty process; map the program's segments into it, or
//! those of its dynamic linker when it names one; map the vDSO and a stack; send the messages that the process finds on
//! its bootstrap channel; start its first thread. [`Launcher`] does this; nothing of the process is left when it fails.
//!
//! No file system is asked here: the caller hands in memory objects. [`loader`] is the service that dynamic linkers get
//! their libraries from, for those who ask it and for those who are it.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod image;
mod launch;
mod load;
pub mod loader;
mod needed;

pub use image::{ALWAYS_THERE, DEFAULT_STACK_SIZE, FileSource, INTERPRETER, Image, ImageError, PAGE_SIZE, Segment};
pub use launch::{Error, Launcher, Process};
pub use load::{Loaded, VmoSource, load};
