//! Devices: interrupts, DMA, I/O ports, the host link, and the right to use them.

pub mod bti;
pub mod debug;
pub mod interrupt;
pub mod iommu;
pub mod ioports;
pub mod msi;
pub mod resource;
