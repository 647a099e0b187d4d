//! Optional: I/O ports.

use crate::arch::PortWidth;

/// I/O ports, which only some processors have.
pub trait PortIo {
    /// Whether the processor has I/O ports.
    fn has_ports(&self) -> bool {
        false
    }
    /// Whether programs may use all `count` I/O ports from `first` up.
    fn ports_usable(&self, _first: u16, _count: u32) -> bool {
        false
    }
    /// Reads from an I/O port; returns all ones for an unusable one.
    fn port_read(&mut self, _port: u16, width: PortWidth) -> u32 {
        width.all_ones()
    }
    /// Writes to an I/O port; ignored for an unusable one.
    fn port_write(&mut self, _port: u16, _width: PortWidth, _value: u32) {}
}
