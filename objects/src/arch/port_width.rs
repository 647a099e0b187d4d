//! Width of an access to an I/O port.

/// Width of an access to an I/O port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PortWidth {
    /// 1.
    Byte,
    /// 2.
    Word,
    /// 4.
    Long,
}

impl PortWidth {
    /// The width in bytes.
    pub const fn bytes(self) -> u16 {
        match self {
            PortWidth::Byte => 1,
            PortWidth::Word => 2,
            PortWidth::Long => 4,
        }
    }

    /// The value that a read from a port without a device returns.
    pub const fn all_ones(self) -> u32 {
        u32::MAX >> (32 - 8 * self.bytes())
    }
}
