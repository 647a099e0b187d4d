//! Interrupts: they arrive as signals on a notification.

use crate::cap::cap;
use crate::generated::invoke;
use crate::{Notification, Result, Slot};

cap! {
    /// The authority to take interrupts.
    IrqControl
}
cap! {
    /// The authority over one interrupt.
    IrqHandler
}

impl IrqControl {
    /// Takes pin `pin` of I/O APIC `ioapic` and puts the handler's capability into the empty slot. `vector`, from 0 to
    /// 109, must be free. `level`: level-triggered, not edge-triggered; `active_low`: active on the low level or the
    /// falling edge.
    pub fn get_ioapic(self, to: Slot, ioapic: u64, pin: u64, level: bool, active_low: bool, vector: u64) -> Result<()> {
        invoke::irqcontrol_get_ioapic(self, to.root, to.index, to.depth, ioapic, pin, level, active_low, vector)
    }

    /// Takes `vector` (0 to 109) for a PCI device's message-signalled interrupt. The device must be configured to write
    /// the vector plus 48 to its processor's interrupt address.
    pub fn get_msi(self, to: Slot, bus: u64, device: u64, function: u64, handle: u64, vector: u64) -> Result<()> {
        invoke::irqcontrol_get_msi(self, to.root, to.index, to.depth, bus, device, function, handle, vector)
    }
}

impl IrqHandler {
    /// Acknowledges the interrupt, so that it can arrive again. Must also be called once before the first one.
    pub fn ack(self) -> Result<()> {
        invoke::irqhandler_ack(self)
    }

    /// Sets the notification that the interrupt signals, with this capability's badge.
    pub fn set_notification(self, notification: Notification) -> Result<()> {
        invoke::irqhandler_set_notification(self, notification)
    }

    /// Removes the notification.
    pub fn clear(self) -> Result<()> {
        invoke::irqhandler_clear(self)
    }
}
