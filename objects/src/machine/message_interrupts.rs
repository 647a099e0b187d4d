//! Optional: interrupts that devices raise by writing a message.

use super::DeviceError;

/// Vectors for message-signalled interrupts. A device raises vector `first + i` when it writes the value `data + i` to
/// `address`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MsiBlock {
    /// The first vector.
    pub first: u32,
    /// The number of vectors, a power of two.
    pub count: u32,
    /// The physical address that a device is to write to.
    pub address: u64,
    /// The value for the first vector, a multiple of `count`, so that a device may set the low bits.
    pub data: u32,
}

/// Vectors for message-signalled interrupts. [`super::Interrupts::irq_open`] watches a vector.
pub trait MessageInterrupts {
    /// Whether devices can raise interrupts by messages.
    fn has_message_interrupts(&self) -> bool {
        false
    }
    /// Allocates `count` vectors for messages, a power of two up to 32. `Denied`: more than the machine ever has.
    fn msi_alloc(&mut self, _count: u32) -> Result<MsiBlock, DeviceError> {
        Err(DeviceError::Denied)
    }
    /// Frees vectors, none of which is watched any more. The caller has made sure that the device no longer sends.
    fn msi_free(&mut self, _block: MsiBlock) {}
}
