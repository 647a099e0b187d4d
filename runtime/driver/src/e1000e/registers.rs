//! The registers of the 82574L that this driver uses, by the names of its data sheet: offsets in the first window, and
//! bits.

/// Bytes of the window with the registers, at least.
pub const REGISTERS: usize = 0x2_0000;

/// Device control.
pub const CTRL: usize = 0x0000;
/// Full duplex.
pub const CTRL_FD: u32 = 1;
/// The card starts no more accesses to memory.
pub const CTRL_GIO_MASTER_DISABLE: u32 = 1 << 2;
/// The link may come up.
pub const CTRL_SLU: u32 = 1 << 6;
/// Speed and duplex are forced: both are left to the two ends of the link.
pub const CTRL_FORCED: u32 = 1 << 11 | 1 << 12;
/// Resets the card, and reads as zero afterwards.
pub const CTRL_RST: u32 = 1 << 26;

/// Device status.
pub const STATUS: usize = 0x0008;
/// There is a link.
pub const STATUS_LU: u32 = 1 << 1;
/// Accesses to memory are possible, or not finished yet.
pub const STATUS_GIO_MASTER_ENABLE: u32 = 1 << 19;

/// Control of the card's own memory, which has its settings and its hardware address.
pub const EECD: usize = 0x0010;
/// The card has read it after a reset.
pub const EECD_AUTO_RD: u32 = 1 << 9;

/// Extended device control.
pub const CTRL_EXT: usize = 0x0018;
/// A message that was sent is not pending any more.
pub const CTRL_EXT_PBA_CLR: u32 = 1 << 31;

/// Interrupt causes. Writing ones clears them.
pub const ICR: usize = 0x00c0;
/// Interrupt mask: ones written to the first switch causes on, ones written to the second switch them off.
pub const IMS: usize = 0x00d0;
pub const IMC: usize = 0x00d8;
/// Causes: frames came in, frames were sent.
pub const CAUSE_RXQ0: u32 = 1 << 20;
pub const CAUSE_TXQ0: u32 = 1 << 22;
/// Causes: the link changed, and one of those without a message of their own.
pub const CAUSES_OF_LINK: u32 = 1 << 2 | 1 << 24;
/// Causes that a message clears by itself: none here, as this driver clears them when it has looked.
pub const EIAC: usize = 0x00dc;
/// Which message a cause sends.
pub const IVAR: usize = 0x00e4;
/// Causes of receiving, of sending, and all others: each sends message 0.
pub const IVAR_ALL_TO_0: u32 = 0x8 | 0x8 << 8 | 0x8 << 16;
/// The time between two messages 0, in units of 256 ns.
pub const EITR_0: usize = 0x00e8;

/// Receive control.
pub const RCTL: usize = 0x0100;
pub const RCTL_EN: u32 = 1 << 1;
/// Frames to all hardware addresses are received.
pub const RCTL_UPE: u32 = 1 << 3;
/// All frames to groups are received: the service drops those that it has not joined, by their IP address.
pub const RCTL_MPE: u32 = 1 << 4;
/// Broadcasts are received, too.
pub const RCTL_BAM: u32 = 1 << 15;
/// The checksum of Ethernet is not stored.
pub const RCTL_SECRC: u32 = 1 << 26;

/// Transmit control.
pub const TCTL: usize = 0x0400;
pub const TCTL_EN: u32 = 1 << 1;
/// Short frames are padded.
pub const TCTL_PSP: u32 = 1 << 3;
/// Collisions, which only a half-duplex link has: how often a frame is sent again, and the time for that.
pub const TCTL_COLLISIONS: u32 = 0x3f << 12 | 0xf << 4;
/// The gap between frames, and its value by the data sheet.
pub const TIPG: usize = 0x0410;
pub const TIPG_VALUE: u32 = 6 << 20 | 8 << 10 | 8;

/// Base of a ring's registers: receiving, sending.
pub const RECEIVE: usize = 0x2800;
pub const SEND: usize = 0x3800;
/// In a ring's registers: its address in two halves, its length in bytes, its head, its tail.
pub const ADDRESS_LOW: usize = 0x00;
pub const ADDRESS_HIGH: usize = 0x04;
pub const LENGTH: usize = 0x08;
pub const HEAD: usize = 0x10;
pub const TAIL: usize = 0x18;

/// Delays of interrupts in units of 1 µs: receiving twice, sending twice.
pub const DELAYS: [usize; 4] = [0x2820, 0x282c, 0x3820, 0x382c];
/// Receive checksums, receive filter and several queues: all zero, so descriptors have the old layout.
pub const RXCSUM: usize = 0x5000;
pub const RFCTL: usize = 0x5008;
pub const MRQC: usize = 0x5818;
/// The table of multicast addresses: empty, as the card receives all groups.
pub const MTA: usize = 0x5200;
pub const MTA_ENTRIES: usize = 128;
/// The first hardware address, in two halves. The upper half says whether it is valid.
pub const RAL_0: usize = 0x5400;
pub const RAH_0: usize = 0x5404;
pub const RAH_VALID: u32 = 1 << 31;

/// What a register reads of a card that is not there any more.
pub const NOTHING: u32 = u32::MAX;
/// How often [`wait`] reads a register.
const LOOKS: u32 = 100;

/// Waits until a bit of a register is on or off, with a `pause` between two looks. Returns whether it is: not if the card
/// needs too long, or is not there any more.
pub fn wait(mut read: impl FnMut() -> u32, bit: u32, on: bool, mut pause: impl FnMut()) -> bool {
    for _ in 0..LOOKS {
        match read() {
            NOTHING => return false,
            value if (value & bit != 0) == on => return true,
            _ => pause(),
        }
    }
    false
}

/// The hardware address in these two registers, if it is valid and one card's.
pub fn mac(low: u32, high: u32) -> Option<[u8; 6]> {
    let [a, b, c, d] = low.to_le_bytes();
    let [e, f, ..] = high.to_le_bytes();
    let mac = [a, b, c, d, e, f];
    (high & RAH_VALID != 0 && a & 1 == 0 && mac != [0; 6]).then_some(mac)
}
