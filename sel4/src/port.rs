//! I/O ports.

use crate::cap::cap;
use crate::generated::invoke;
use crate::{Result, Slot, family};

cap! {
    /// The authority to hand out I/O ports.
    IoPortControl
}
cap! {
    /// A range of I/O ports.
    IoPort
}

impl IoPortControl {
    /// Puts a capability to the ports `first` to `last`, both included, into the empty slot. From 13 on, ranges that
    /// are handed out must not overlap. On 5.0.0 the boot capability covers all ports and is narrowed; `control_slot`
    /// is its slot.
    pub fn issue(self, control_slot: Slot, first: u16, last: u16, to: Slot) -> Result<()> {
        family::issue_ports(self, control_slot, first, last, to)
    }
}

impl IoPort {
    /// Reads a byte.
    pub fn in8(self, port: u16) -> Result<u8> {
        invoke::x86_ioport_in8(self, port)
    }

    /// Reads two bytes.
    pub fn in16(self, port: u16) -> Result<u16> {
        invoke::x86_ioport_in16(self, port)
    }

    /// Reads four bytes.
    pub fn in32(self, port: u16) -> Result<u32> {
        invoke::x86_ioport_in32(self, port)
    }

    /// Writes a byte.
    pub fn out8(self, port: u16, value: u8) -> Result<()> {
        invoke::x86_ioport_out8(self, port, value)
    }

    /// Writes two bytes.
    pub fn out16(self, port: u16, value: u16) -> Result<()> {
        invoke::x86_ioport_out16(self, port, value)
    }

    /// Writes four bytes.
    pub fn out32(self, port: u16, value: u32) -> Result<()> {
        invoke::x86_ioport_out32(self, port, value)
    }
}
