//! The registers of a 16550 UART, as offsets from its first port.

/// Received bytes, and bytes to send.
pub const DATA: u16 = 0;
/// Which events interrupt.
pub const INTERRUPTS: u16 = 1;
/// Cause of the interrupt (read).
pub const CAUSE: u16 = 2;
/// FIFO control (write).
pub const FIFO: u16 = 2;
/// Line control: the format of a character.
pub const LINE: u16 = 3;
/// Modem control, and whether interrupts are delivered.
pub const MODEM: u16 = 4;
/// Line status: whether bytes can be read or sent.
pub const STATUS: u16 = 5;
/// Modem status.
pub const MODEM_STATUS: u16 = 6;

/// Interrupt when a byte arrives.
pub const ON_DATA: u8 = 1;
/// Interrupt when bytes can be sent.
pub const ON_ROOM: u8 = 2;
/// In [`STATUS`]: a byte can be read.
pub const HAS_DATA: u8 = 1;
/// In [`STATUS`]: the whole transmit FIFO is free.
pub const HAS_ROOM: u8 = 0x20;
/// Size of the FIFO in bytes.
pub const FIFO_SIZE: usize = 16;

/// Register writes that set 115,200 baud, 8 data bits, FIFOs on, and no interrupts.
pub const SET_UP: [(u16, u8); 7] = [
    (INTERRUPTS, 0),
    // While bit 7 is set, the divisor replaces the data and interrupt registers.
    (LINE, 0x80),
    (DATA, 1),
    (INTERRUPTS, 0),
    (LINE, 3),
    // FIFOs on and empty; one received byte interrupts.
    (FIFO, 7),
    // Ready to receive; interrupts are delivered.
    (MODEM, 0x0b),
];

/// Cause of an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// No interrupt is pending.
    None,
    /// Bytes arrived.
    Data,
    /// Bytes can be sent.
    Room,
    /// A receive error. Reading [`STATUS`] acknowledges it.
    Line,
    /// The modem status changed. Reading [`MODEM_STATUS`] acknowledges it.
    Modem,
}

impl Cause {
    /// Decodes the register [`CAUSE`].
    pub fn from_register(value: u8) -> Cause {
        match value & 0xf {
            value if value & 1 != 0 => Cause::None,
            0x4 | 0xc => Cause::Data,
            0x2 => Cause::Room,
            0x6 => Cause::Line,
            _ => Cause::Modem,
        }
    }
}
