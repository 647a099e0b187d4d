//! The two serial ports and the other devices behind I/O ports.
//!
//! - **The console** takes text for people. The server writes text at once and waits for the port if necessary, but for
//!   a bounded time: if the port does not move, text is lost and the system continues.
//! - **The host link** carries bytes in both directions for the host tool. Received bytes wait in a ring; bytes to send
//!   wait in another, which the port's interrupt empties 16 at a time, the size of the port's buffer. A port that has
//!   sent them at once, as emulated ones have, is filled [`FILLS`] times at most before the server waits for an
//!   interrupt again, because each byte is a system call of seL4. When the send ring is full, the call returns how many
//!   bytes were accepted. When the receive ring is full, received bytes stay in the port.

use core::sync::atomic::{AtomicBool, AtomicU16, Ordering};

use objects::machine::Power;
use server_boot::FLAG_POWER;
use server_boot::cspace::{PORT_ACPI, PORT_CONSOLE, PORT_EXIT, PORT_LINK, PORT_RESET, PORT_RTC, root_slot};

use super::Sel4;
use super::arch::ports::{port_in, port_out, port_out16};
use super::clock::seconds_from_date;

const DATA: u16 = 0;
const INTERRUPTS: u16 = 1;
const FIFO: u16 = 2;
const LINE: u16 = 3;
const MODEM: u16 = 4;
const STATUS: u16 = 5;

const STATUS_RECEIVED: u8 = 1;
const STATUS_EMPTY: u8 = 1 << 5;
const INTERRUPT_RECEIVED: u8 = 1;
const INTERRUPT_EMPTY: u8 = 2;
/// Bytes in the port's own buffer.
const FIFO_SIZE: usize = 16;
/// Maximum number of times that the buffer is filled in one event.
const FILLS: usize = 16;

/// Polls of the port's state before text is dropped: some seconds, so that a busy host can catch up.
const PATIENCE: u32 = 5_000_000;

/// Bytes in a ring; a power of two.
const RING: usize = 16 << 10;

struct Ring {
    bytes: [u8; RING],
    head: usize,
    tail: usize,
}

impl Ring {
    const fn new() -> Self {
        Ring { bytes: [0; RING], head: 0, tail: 0 }
    }

    fn len(&self) -> usize {
        self.tail.wrapping_sub(self.head)
    }

    fn push(&mut self, byte: u8) -> bool {
        if self.len() == RING {
            return false;
        }
        self.bytes[self.tail % RING] = byte;
        self.tail = self.tail.wrapping_add(1);
        true
    }

    fn pop(&mut self) -> Option<u8> {
        if self.len() == 0 {
            return None;
        }
        let byte = self.bytes[self.head % RING];
        self.head = self.head.wrapping_add(1);
        Some(byte)
    }
}

/// Whether the console's port did not move at the last wait. Then later writes poll once and do not wait.
static STUCK: AtomicBool = AtomicBool::new(false);

/// First I/O port of the console; 0: no console.
static CONSOLE: AtomicU16 = AtomicU16::new(0);

/// Sets the console's first port.
pub fn console_init(first_port: u16) {
    CONSOLE.store(first_port, Ordering::Relaxed);
}

/// Writes text to the console, if there is one.
pub fn console_write(text: &[u8]) {
    let (port, console) = (root_slot(PORT_CONSOLE), CONSOLE.load(Ordering::Relaxed));
    if console == 0 {
        return;
    }
    for part in text.chunks(FIFO_SIZE) {
        let patience = if STUCK.load(Ordering::Relaxed) { 1 } else { PATIENCE };
        let ready = (0..patience).any(|_| port_in(port, console + STATUS) & STATUS_EMPTY != 0);
        STUCK.store(!ready, Ordering::Relaxed);
        if !ready {
            return;
        }
        for byte in part {
            port_out(port, console + DATA, *byte);
        }
    }
}

/// The host link.
pub struct Link {
    /// First I/O port; 0: no host link.
    first: u16,
    received: Ring,
    to_send: Ring,
    /// The interrupts that are enabled in the port.
    interrupts: u8,
}

impl Link {
    /// An unopened link; see [`Link::open`].
    pub const fn new() -> Self {
        Link { first: 0, received: Ring::new(), to_send: Ring::new(), interrupts: 0 }
    }

    /// Sets up the port. `first` is the first of its eight I/O ports.
    pub fn open(&mut self, first: u16) {
        self.first = first;
        let port = root_slot(PORT_LINK);
        for (register, value) in [
            (INTERRUPTS, 0),
            (LINE, 0x80), // the next two set the rate
            (DATA, 1),
            (INTERRUPTS, 0),
            (LINE, 0x03),  // 8 bits, no parity, one stop bit
            (FIFO, 0xc7),  // on, emptied, interrupt at 14 received
            (MODEM, 0x0b), // ready; OUT2 lets interrupts through
        ] {
            port_out(port, self.first + register, value);
        }
        self.set_interrupts(INTERRUPT_RECEIVED);
    }

    /// Queues bytes to send; returns how many it took.
    pub fn write(&mut self, data: &[u8]) -> usize {
        if self.first == 0 {
            return data.len();
        }
        let taken = data.iter().take_while(|byte| self.to_send.push(**byte)).count();
        self.transmit();
        taken
    }

    /// Reads received bytes; returns how many.
    pub fn read(&mut self, out: &mut [u8]) -> usize {
        let mut count = 0;
        for byte in out.iter_mut() {
            let Some(received) = self.received.pop() else { break };
            *byte = received;
            count += 1;
        }
        if count > 0 && self.first != 0 {
            self.receive();
        }
        count
    }

    /// Handles the port's interrupt: reads received bytes, and sends queued bytes.
    pub fn interrupt(&mut self) {
        self.receive();
        self.transmit();
    }

    fn receive(&mut self) {
        let port = root_slot(PORT_LINK);
        while self.received.len() < RING && port_in(port, self.first + STATUS) & STATUS_RECEIVED != 0 {
            self.received.push(port_in(port, self.first + DATA));
        }
        // With a full ring, the receive interrupt would repeat forever.
        let wanted = if self.received.len() < RING { INTERRUPT_RECEIVED } else { 0 };
        self.set_interrupts(self.interrupts & !INTERRUPT_RECEIVED | wanted);
    }

    fn transmit(&mut self) {
        let port = root_slot(PORT_LINK);
        for _ in 0..FILLS {
            if self.to_send.len() == 0 || port_in(port, self.first + STATUS) & STATUS_EMPTY == 0 {
                break;
            }
            for _ in 0..FIFO_SIZE {
                let Some(byte) = self.to_send.pop() else { break };
                port_out(port, self.first + DATA, byte);
            }
        }
        let wanted = if self.to_send.len() > 0 { INTERRUPT_EMPTY } else { 0 };
        self.set_interrupts(self.interrupts & !INTERRUPT_EMPTY | wanted);
    }

    /// Sends all queued bytes, for the end of the system. A busy host may take its time, but not forever.
    pub fn flush(&mut self) {
        let port = root_slot(PORT_LINK);
        let mut patience = 50 * PATIENCE;
        while self.first != 0 && patience > 0 && self.to_send.len() > 0 {
            self.transmit();
            patience -= 1;
        }
        // Waits for the port's own buffer, and the byte that is on the line.
        while self.first != 0 && patience > 0 && port_in(port, self.first + STATUS) & (1 << 6) == 0 {
            patience -= 1;
        }
    }

    fn set_interrupts(&mut self, wanted: u8) {
        if wanted != self.interrupts {
            self.interrupts = wanted;
            port_out(root_slot(PORT_LINK), self.first + INTERRUPTS, wanted);
        }
    }
}

/// Switches the machine off.
pub fn power_off() {
    // ACPI's sleep control register of QEMU's chip set: sleep type 0 (off), enable.
    port_out16(root_slot(PORT_ACPI), 0x604, 0x2000);
    port_out(root_slot(PORT_EXIT), 0xf4, 0);
}

/// Starts the machine again.
pub fn reboot() {
    port_out(root_slot(PORT_RESET), 0xcf9, 0x06);
    port_out(root_slot(PORT_EXIT), 0xf4, 0);
}

/// Seconds since 1970, from the real-time clock. Two readings must agree, because the clock may change during a
/// reading.
pub fn date() -> Option<i64> {
    let mut last = None;
    for _ in 0..10 {
        let now = read_date();
        if last == Some(now) {
            return Some(now);
        }
        last = Some(now);
    }
    None
}

fn read_date() -> i64 {
    let port = root_slot(PORT_RTC);
    let register = |index: u8| {
        port_out(port, 0x70, index);
        port_in(port, 0x71)
    };
    let format = register(0x0b);
    let number = |value: u8| {
        let binary = format & 4 != 0;
        i64::from(if binary { value } else { (value >> 4) * 10 + (value & 15) })
    };
    let hour_raw = register(4);
    let mut hour = number(hour_raw & 0x7f);
    if format & 2 == 0 {
        // Twelve-hour format: the top bit means afternoon, and 12 means 0.
        hour = hour % 12 + if hour_raw & 0x80 != 0 { 12 } else { 0 };
    }
    let (year, month, day) = (number(register(9)), number(register(8)), number(register(7)));
    let (minute, second) = (number(register(2)), number(register(0)));
    seconds_from_date(2000 + year, month, day, hour, minute, second)
}

impl objects::machine::Console for Sel4 {
    fn console_write(&mut self, text: &[u8]) {
        console_write(text);
    }

    fn serial_write(&mut self, data: &[u8]) -> usize {
        self.link.write(data)
    }

    fn serial_read(&mut self, out: &mut [u8]) -> usize {
        self.link.read(out)
    }
}

impl objects::machine::PowerSwitch for Sel4 {
    fn power(&mut self, how: Power) {
        self.link.flush();
        if self.flags & FLAG_POWER != 0 {
            match how {
                Power::Off => power_off(),
                Power::Reboot => reboot(),
            }
        }
    }
}
