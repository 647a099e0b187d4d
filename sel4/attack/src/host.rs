//! The interface to the host: output lines on the first serial port, the order, and the machine's end.

use core::fmt::{self, Write};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sel4::IoPort;
use sel4::bootinfo::{INIT_CNODE, IO_PORT_CONTROL};

/// Number of slots that this module takes, from the first empty one on.
pub const SLOTS: u64 = PORTS.len() as u64;

/// First and last port of the console, of the emulator's exit device, and of the firmware configuration device.
const PORTS: [(u16, u16); 3] = [(0x3f8, 0x3ff), (0xf4, 0xf4), (0x510, 0x511)];
const CONSOLE: usize = 0;
const EXIT: usize = 1;
const FIRMWARE: usize = 2;

const KEY_DIRECTORY: u16 = 0x19;
/// Bytes of a directory entry: size, key, two unused bytes, name.
const ENTRY: usize = 64;
const ENTRY_NAME: usize = 8;
const NAME: &[u8] = b"opt/hafnon/attack\0";

static FIRST_SLOT: AtomicU64 = AtomicU64::new(0);

fn port(number: usize) -> IoPort {
    IoPort::new(FIRST_SLOT.load(Relaxed) + number as u64)
}

/// Takes the ports, with slots from this one on. Without them errors could not be reported.
pub fn init(first_slot: u64) {
    FIRST_SLOT.store(first_slot, Relaxed);
    let slot = |cptr| INIT_CNODE.own_slot(cptr);
    for (number, (first, last)) in PORTS.into_iter().enumerate() {
        let to = slot(port(number).cptr());
        let _ = IO_PORT_CONTROL.issue(slot(IO_PORT_CONTROL.cptr()), first, last, to);
    }
}

/// The console.
pub struct Console;

impl Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            let _ = port(CONSOLE).out8(PORTS[CONSOLE].0, byte);
        }
        Ok(())
    }
}

/// Writes a line.
pub fn line(text: fmt::Arguments<'_>) {
    let _ = writeln!(Console, "{text}");
}

/// Writes the last line and ends the machine.
pub fn end(text: fmt::Arguments<'_>, code: u8) -> ! {
    line(text);
    let _ = port(EXIT).out8(PORTS[EXIT].0, code);
    loop {
        sel4::r#yield();
    }
}

/// An order: a name and numbers, separated by blanks.
pub struct Order {
    text: [u8; 64],
    len: usize,
}

impl Order {
    /// Reads the order from the device; empty if there is none.
    pub fn read() -> Order {
        let mut order = Order { text: [0; 64], len: 0 };
        select(KEY_DIRECTORY);
        let count = u32::from_be_bytes([next(), next(), next(), next()]);
        for _ in 0..count.min(256) {
            let mut entry = [0; ENTRY];
            entry.fill_with(next);
            if entry[ENTRY_NAME..].starts_with(NAME) {
                let size = u32::from_be_bytes([entry[0], entry[1], entry[2], entry[3]]) as usize;
                select(u16::from_be_bytes([entry[4], entry[5]]));
                order.len = size.min(order.text.len());
                order.text[..order.len].fill_with(next);
                break;
            }
        }
        order
    }

    fn words(&self) -> impl Iterator<Item = &str> {
        core::str::from_utf8(&self.text[..self.len]).unwrap_or_default().split_ascii_whitespace()
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.words().next().unwrap_or_default()
    }

    /// The number at this position; 0 if there is none.
    pub fn number(&self, place: usize) -> u64 {
        self.words().nth(place).and_then(|word| word.parse().ok()).unwrap_or(0)
    }
}

fn select(key: u16) {
    let _ = port(FIRMWARE).out16(PORTS[FIRMWARE].0, key);
}

fn next() -> u8 {
    port(FIRMWARE).in8(PORTS[FIRMWARE].1).unwrap_or(0)
}
