//! The console: lines of text on the first serial port, `[seconds] LEVEL root: text`.

use core::fmt::{self, Write};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::ports::PORTS;

const PORT: u16 = 0x3f8;
const STATUS: u16 = 5;
const STATUS_EMPTY: u8 = 1 << 5;
/// Looks at the port's state before text is dropped: some seconds, in which a host that has much to do comes back.
const PATIENCE: u32 = 5_000_000;

static MEGAHERTZ: AtomicU64 = AtomicU64::new(1_000);
static START: AtomicU64 = AtomicU64::new(0);

/// The processor's counter when this program started: what firmware and kernel took, as it starts with the machine.
pub fn start() -> u64 {
    START.load(Relaxed)
}

/// The processor's counter.
pub fn tsc() -> u64 {
    // SAFETY: the instruction only reads a counter, and the kernel leaves it to everyone.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Microseconds from one reading of the processor's counter to another.
pub fn micros(from: u64, to: u64) -> u64 {
    to.wrapping_sub(from) / MEGAHERTZ.load(Relaxed)
}

/// So many microseconds as the processor's counter counts them.
pub fn counts(micros: u64) -> u64 {
    micros.saturating_mul(MEGAHERTZ.load(Relaxed))
}

/// How often the processor's counter counts in a microsecond.
pub fn megahertz() -> u64 {
    MEGAHERTZ.load(Relaxed)
}

/// Sets the console's port up and starts the lines' time, from a counter of so many megahertz.
pub fn init(megahertz: u64) {
    open(PORT);
    MEGAHERTZ.store(megahertz.max(1), Relaxed);
    START.store(tsc(), Relaxed);
}

/// Sets up the port of a console, whose first this is; servers only write.
pub fn open(first: u16) {
    for (register, value) in [
        (1, 0),    // no interrupts
        (3, 0x80), // the next two set the rate
        (0, 1),
        (1, 0),
        (3, 0x03), // 8 bits, no parity, one stop bit
        (2, 0x07), // buffers on: 16 bytes can be written when the port says that it is empty
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

/// Sends bytes by a serial port whose first this is.
pub fn send(first: u16, bytes: &[u8]) {
    for part in bytes.chunks(16) {
        if (0..PATIENCE).any(|_| PORTS.in8(first + STATUS).unwrap_or(0) & STATUS_EMPTY != 0) {
            for byte in part {
                let _ = PORTS.out8(first, *byte);
            }
        }
    }
}

/// Writes one line of a level's letter.
pub fn line(level: char, text: fmt::Arguments<'_>) {
    let micros = micros(start(), tsc());
    let (seconds, rest) = (micros / 1_000_000, micros % 1_000_000);
    let _ = write!(Console, "[{seconds:3}.{rest:06}] {level} root: {text}\r\n");
}

/// Writes a line that a component says; what is no plain text of it becomes dots.
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
