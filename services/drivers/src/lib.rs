//! Code that drivers share with their clients, and the parts of the drivers that make no system calls.
#![forbid(unsafe_code)]

pub mod block;
pub mod clock;
#[cfg(target_os = "fuchsia")]
pub mod netdevice;
pub mod pci;
#[cfg(target_os = "fuchsia")]
pub mod pci_client;
#[cfg(target_os = "fuchsia")]
pub mod startup;
pub mod terminal;
pub mod uart;
