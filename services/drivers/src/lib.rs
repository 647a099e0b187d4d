//! What drivers and their clients have in common, and what of the drivers is free of system calls.
#![forbid(unsafe_code)]

pub mod block;
pub mod clock;
pub mod pci;
#[cfg(target_os = "fuchsia")]
pub mod startup;
pub mod terminal;
pub mod uart;
