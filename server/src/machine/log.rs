//! Lines on the console: `[seconds] LEVEL who: text`.

use core::fmt::{self, Write};

use super::clock::Clock;
use super::serial::console_write;

/// Severity of a line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// Information about normal operation.
    Info,
    /// An error that ends something.
    Error,
}

/// A line that is being formatted. A line that is too long is truncated.
struct Line {
    text: [u8; 512],
    len: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.text.len() - self.len;
        let part = &text.as_bytes()[..text.len().min(room)];
        self.text[self.len..self.len + part.len()].copy_from_slice(part);
        self.len += part.len();
        Ok(())
    }
}

/// Writes one line. Without a clock the time is 0.
pub fn line(clock: Option<&Clock>, level: Level, text: fmt::Arguments<'_>) {
    let mut line = Line { text: [0; 512], len: 0 };
    let micros = clock.map_or(0, |clock| clock.now() / 1_000);
    let letter = if level == Level::Info { 'I' } else { 'E' };
    let _ = write!(line, "[{:3}.{:06}] {letter} server: {text}", micros / 1_000_000, micros % 1_000_000);
    console_write(&line.text[..line.len]);
    console_write(b"\r\n");
}
