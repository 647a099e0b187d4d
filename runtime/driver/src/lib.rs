//! Safe types for what drivers cannot do in safe code: DMA memory ([`Dma`]), device memory ([`Window`]), and, on top of
//! both, virtio devices ([`virtio`]). (I/O ports and interrupts are
//! in the crate `zx`.)
//!
//! A driver is an ordinary program. Its rights to parts of the machine are handles, and these types are made from such
//! handles. No type can limit what a device does with memory whose address it knows: see docs/drivers.md.
#![cfg(target_os = "fuchsia")]

mod dma;
pub mod virtio;

pub use dma::{Dma, Pinned, Window};
