//! Safe types for what drivers cannot do in safe code: DMA memory ([`Dma`]), device memory ([`Window`]), and, on top of
//! both, virtio devices ([`virtio`]) and network cards ([`Adapter`], [`virtio::Card`], [`e1000e::Card`]). (I/O ports
//! and interrupts are in the crate `zx`.)
//!
//! A driver is an ordinary program. Its rights to parts of the machine are handles, and these types are made from such
//! handles. No type can limit what a device does with memory whose address it knows: see docs/drivers.md.
//!
//! What needs no device is also built for the host, where its tests run.

mod broken;
#[cfg(target_os = "fuchsia")]
mod config;
#[cfg(target_os = "fuchsia")]
mod dma;
pub mod e1000e;
mod net;
#[cfg(target_os = "fuchsia")]
pub mod virtio;

pub use broken::Broken;
#[cfg(target_os = "fuchsia")]
pub use config::Config;
#[cfg(target_os = "fuchsia")]
pub use dma::{Dma, Pinned, Window};
pub use net::{Adapter, Frames, MOST_FRAMES, MUCH, NetworkCard, Queue, Rings};
