//! The PCI configuration of a device, as its driver sees it.

/// Access to the device's PCI configuration registers.
pub trait Config: Clone {
    /// Reads four bytes at `offset`.
    fn read(&self, offset: u8) -> u32;
    /// Writes four bytes at `offset`.
    fn write(&self, offset: u8, value: u32);
    /// Physical address and length of a memory window, by its BAR's index.
    fn window(&self, index: u8) -> Option<(u64, u64)>;
}
