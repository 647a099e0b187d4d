//! What is written in the instructions of a processor.

#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(all(target_arch = "x86_64", target_os = "fuchsia"))]
pub use x86_64::*;
