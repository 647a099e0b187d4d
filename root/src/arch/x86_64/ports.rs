//! I/O ports: those that the root task uses itself, and those that it hands out.
//!
//! From seL4 13 on, the kernel hands out each port once, and the resulting capability can be copied but not narrowed.
//! 5.0.0 has one capability to all ports that can be narrowed any number of times. So the root task takes each range
//! from the kernel once, keeps the capability, and copies it to each user of the range. From 13 on, two ranges must be
//! equal or disjoint.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sel4::bootinfo::IO_PORT_CONTROL;
use sel4::{IoPort, Rights, Slot};

use crate::error::{Context, Error};
use crate::make::own_slot;

/// Slots reserved for ranges, from the first empty one on; [`crate::memory`] starts behind them.
pub const SLOTS: u64 = 64;

/// First and last port of the range whose capability is in the slot of this number; 0 for an empty slot.
static RANGES: [AtomicU64; SLOTS as usize] = [const { AtomicU64::new(0) }; SLOTS as usize];
static FIRST_SLOT: AtomicU64 = AtomicU64::new(0);

/// The serial port of the console.
const CONSOLE: (u16, u16) = (0x3f8, 0x3ff);
/// The emulator's exit port.
const EXIT: (u16, u16) = (0xf4, 0xf4);
/// The device of the boot files.
const FWCFG: (u16, u16) = (0x510, 0x51b);

/// Takes the ports that the root task uses itself. Without them there is no console, so errors could not be reported.
pub fn init(first_slot: u64) {
    FIRST_SLOT.store(first_slot, Relaxed);
    for (first, last) in [CONSOLE, EXIT, FWCFG] {
        let _ = own(first, last);
    }
}

/// The slot of a range. Takes the range from the kernel if necessary.
fn own(first: u16, last: u16) -> Result<u64, Error> {
    // A range that is only port 0 would look like an empty entry; no device has that port.
    let range = u64::from(first) << 16 | u64::from(last);
    let known = |known: &AtomicU64| [0, range].contains(&known.load(Relaxed));
    let place = RANGES.iter().position(known).ok_or(Error::OutOfSlots)?;
    let slot = FIRST_SLOT.load(Relaxed) + place as u64;
    if RANGES[place].load(Relaxed) == 0 {
        let control = own_slot(IO_PORT_CONTROL.cptr().0);
        IO_PORT_CONTROL.issue(control, first, last, own_slot(slot)).context("I/O ports")?;
        RANGES[place].store(range, Relaxed);
    }
    Ok(slot)
}

/// Copies the capability to a range of I/O ports into a slot.
pub fn issue(first: u16, last: u16, to: Slot) -> Result<(), Error> {
    to.copy_from(own_slot(own(first, last)?), Rights::ALL).context("I/O ports")
}

/// The ports that the root task can access: its own, and those of instances.
pub struct OwnPorts;

/// The ports that the root task can access.
pub const PORTS: OwnPorts = OwnPorts;

impl OwnPorts {
    fn at(&self, port: u16) -> sel4::Result<IoPort> {
        let holds = |range: u64| range != 0 && (range >> 16..=range & 0xffff).contains(&u64::from(port));
        let place = RANGES.iter().position(|range| holds(range.load(Relaxed))).ok_or(sel4::Error::IllegalOperation)?;
        Ok(IoPort::new(FIRST_SLOT.load(Relaxed) + place as u64))
    }

    /// Reads a byte.
    pub fn in8(&self, port: u16) -> sel4::Result<u8> {
        self.at(port)?.in8(port)
    }

    /// Reads four bytes.
    pub fn in32(&self, port: u16) -> sel4::Result<u32> {
        self.at(port)?.in32(port)
    }

    /// Writes a byte.
    pub fn out8(&self, port: u16, value: u8) -> sel4::Result<()> {
        self.at(port)?.out8(port, value)
    }

    /// Writes two bytes.
    pub fn out16(&self, port: u16, value: u16) -> sel4::Result<()> {
        self.at(port)?.out16(port, value)
    }

    /// Writes four bytes.
    pub fn out32(&self, port: u16, value: u32) -> sel4::Result<()> {
        self.at(port)?.out32(port, value)
    }
}
