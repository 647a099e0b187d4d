//! The console: lines of text on the first serial port, `[seconds] LEVEL root: text`.

use core::fmt::{self, Write};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::arch::ports::PORTS;
use crate::arch::tsc;

const PORT: u16 = 0x3f8;
const STATUS: u16 = 5;
const STATUS_EMPTY: u8 = 1 << 5;
/// Polls of the port's state before text is dropped: some seconds, so that a busy host can catch up.
const PATIENCE: u32 = 5_000_000;

static MEGAHERTZ: AtomicU64 = AtomicU64::new(1_000);
static START: AtomicU64 = AtomicU64::new(0);

/// The time-stamp counter when this program started. It starts with the machine, so this is the time that firmware and
/// kernel took.
pub fn start() -> u64 {
    START.load(Relaxed)
}

/// Microseconds between two readings of the time-stamp counter.
pub fn micros(from: u64, to: u64) -> u64 {
    to.wrapping_sub(from) / MEGAHERTZ.load(Relaxed)
}

/// Counts of the time-stamp counter in that many microseconds.
pub fn counts(micros: u64) -> u64 {
    micros.saturating_mul(MEGAHERTZ.load(Relaxed))
}

/// Counts of the time-stamp counter per microsecond.
pub fn megahertz() -> u64 {
    MEGAHERTZ.load(Relaxed)
}

/// Sets up the console's port and starts the time of its lines. `megahertz` is the rate of the time-stamp counter.
pub fn init(megahertz: u64) {
    open(PORT);
    MEGAHERTZ.store(megahertz.max(1), Relaxed);
    START.store(tsc(), Relaxed);
}

/// Sets up a console port for output. `first` is its first I/O port. Servers only write.
pub fn open(first: u16) {
    for (register, value) in [
        (1, 0),    // no interrupts
        (3, 0x80), // the next two set the rate
        (0, 1),
        (1, 0),
        (3, 0x03), // 8 bits, no parity, one stop bit
        (2, 0x07), // buffers on: 16 bytes can be written when the port reports that it is empty
        (4, 0x03), // ready
    ] {
        let _ = PORTS.out8(first + register, value);
    }
}

struct Console;

impl Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        send(PORT, text.as_bytes());
        Ok(())
    }
}

/// Sends bytes through a serial port. `first` is its first I/O port.
pub fn send(first: u16, bytes: &[u8]) {
    for part in bytes.chunks(16) {
        if (0..PATIENCE).any(|_| PORTS.in8(first + STATUS).unwrap_or(0) & STATUS_EMPTY != 0) {
            for byte in part {
                let _ = PORTS.out8(first, *byte);
            }
        }
    }
}

/// Writes one line; `level` is the letter of its severity.
pub fn line(level: char, text: fmt::Arguments<'_>) {
    let micros = micros(start(), tsc());
    let (seconds, rest) = (micros / 1_000_000, micros % 1_000_000);
    let _ = write!(Console, "[{seconds:3}.{rest:06}] {level} root: {text}\r\n");
}

/// Writes a line of a component. Characters that are not printable ASCII become dots.
pub fn says(component: &str, text: &[u8]) {
    let micros = micros(start(), tsc());
    let _ = write!(Console, "[{:3}.{:06}] I {component}: ", micros / 1_000_000, micros % 1_000_000);
    for byte in text {
        let byte = if (b' '..=b'~').contains(byte) { *byte } else { b'.' };
        send(PORT, &[byte]);
    }
    send(PORT, b"\r\n");
}

macro_rules! info {
    ($($arg:tt)*) => { $crate::console::line('I', format_args!($($arg)*)) };
}
macro_rules! error {
    ($($arg:tt)*) => { $crate::console::line('E', format_args!($($arg)*)) };
}
pub(crate) use {error, info};
