//! Creates, loads and starts a process from an ELF image.
//!
//! Zircon has no `exec`: the program that starts a process builds it. The steps are: read the ELF file's headers and
//! reject a file that is not a program for this system ([`Image`]); create an empty process; map the program's segments
//! into it, or those of its dynamic linker if it names one; map the vDSO and a stack; write the start messages to its
//! bootstrap channel; start its first thread. [`Launcher`] does this; if a step fails, it leaves nothing of the process
//! behind.
//!
//! This crate uses no file system: the caller passes VMOs. [`loader`] has both sides of the loader service, from which
//! dynamic linkers get their libraries.
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
