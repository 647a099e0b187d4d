//! The registers of a 16550 UART, as distances from its first port.

/// Received and to be sent bytes.
pub const DATA: u16 = 0;
/// Which events interrupt.
pub const INTERRUPTS: u16 = 1;
/// What interrupted (read).
pub const CAUSE: u16 = 2;
/// The FIFOs (written).
pub const FIFO: u16 = 2;
/// Form of a character.
pub const LINE: u16 = 3;
/// Lines of the modem, and whether interrupts get out.
pub const MODEM: u16 = 4;
/// What is there and what can be sent.
pub const STATUS: u16 = 5;
/// Changes of the modem's lines.
pub const MODEM_STATUS: u16 = 6;

/// A byte came.
pub const ON_DATA: u8 = 1;
/// Bytes can be sent.
pub const ON_ROOM: u8 = 2;
/// In [`STATUS`]: a byte is there.
pub const HAS_DATA: u8 = 1;
/// In [`STATUS`]: the whole FIFO is free.
pub const HAS_ROOM: u8 = 0x20;
/// How many bytes the FIFO takes.
pub const FIFO_SIZE: usize = 16;

/// What to write where for 115,200 characters of eight bits a second, with FIFOs, without interrupts.
pub const SET_UP: [(u16, u8); 7] = [
    (INTERRUPTS, 0),
    // The divisor stands where data and interrupts do while bit 7 is set.
    (LINE, 0x80),
    (DATA, 1),
    (INTERRUPTS, 0),
    (LINE, 3),
    // On and empty; one byte is enough to interrupt.
    (FIFO, 7),
    // Ready, and interrupts get out.
    (MODEM, 0x0b),
];

/// Why the UART interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It does not.
    None,
    /// Bytes came.
    Data,
    /// Bytes can be sent.
    Room,
    /// Something was wrong with a byte: reading [`STATUS`] settles it.
    Line,
    /// The modem's lines changed: reading [`MODEM_STATUS`] settles it.
    Modem,
}

impl Cause {
    /// From the register [`CAUSE`].
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
