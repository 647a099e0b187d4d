//! I/O ports, by capabilities of the kernel.

use sel4::IoPort;

use crate::machine::sys::complain;

/// Reads a byte from a port; all ones if that is not allowed, as from a port without a device.
#[inline]
pub fn port_in(cap: u64, port: u16) -> u8 {
    IoPort::new(cap).in8(port).unwrap_or(0xff)
}

/// Writes a byte to a port.
#[inline]
pub fn port_out(cap: u64, port: u16, value: u8) {
    complain(IoPort::new(cap).out8(port, value), "port");
}

/// Writes two bytes to a port.
pub fn port_out16(cap: u64, port: u16, value: u16) {
    complain(IoPort::new(cap).out16(port, value), "port");
}

/// Writes four bytes to a port.
pub fn port_out32(cap: u64, port: u16, value: u32) {
    complain(IoPort::new(cap).out32(port, value), "port");
}

/// Reads a byte from a port.
pub fn port_read8(cap: u64, port: u16) -> Option<u8> {
    IoPort::new(cap).in8(port).ok()
}

/// Reads two bytes from a port.
pub fn port_read16(cap: u64, port: u16) -> Option<u16> {
    IoPort::new(cap).in16(port).ok()
}

/// Reads four bytes from a port.
pub fn port_read32(cap: u64, port: u16) -> Option<u32> {
    IoPort::new(cap).in32(port).ok()
}
