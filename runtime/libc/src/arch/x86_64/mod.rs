//! The 64-bit x86 processors.

mod memory;
#[cfg(target_os = "fuchsia")]
mod start;
#[cfg(target_os = "fuchsia")]
mod tls;
#[cfg(target_os = "fuchsia")]
mod wait;

#[cfg(target_os = "fuchsia")]
pub use memory::*;
#[cfg(target_os = "fuchsia")]
pub use start::{entry, run_on};
#[cfg(target_os = "fuchsia")]
pub use tls::{descriptor_offset, descriptor_undefined};
#[cfg(target_os = "fuchsia")]
pub use wait::{__libc_wait, Progress, call_instead, end_wait, is_in_call, place, progress_of_wait};
