//! What drivers cannot do in safe code, as small safe types: memory that a device reads and writes by itself ([`Dma`]),
//! memory that is a device ([`Window`]), and on top of both the queue of a virtio disk ([`virtio`]), whose protocol is the
//! crate `virtio-drivers`. (I/O ports and interrupts are in the crate `zx`.)
//!
//! A driver is an ordinary program; its right to a part of the machine is a handle, and these types are made from such
//! handles. What a device does with memory that it was told of is beyond any type: see docs/drivers.md.
#![cfg(target_os = "fuchsia")]

mod dma;
pub mod virtio;

pub use dma::{Dma, Window};
