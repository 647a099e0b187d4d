//! Userboot's messages: records of the kernel's log.

use core::fmt::{self, Write};

use zx::Debuglog;

/// A record that is being written; text beyond its size is cut off.
struct Record {
    text: [u8; 200],
    len: usize,
}

impl Write for Record {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = &mut self.text[self.len..];
        let len = text.len().min(room.len());
        room[..len].copy_from_slice(&text.as_bytes()[..len]);
        self.len += len;
        Ok(())
    }
}

/// Writes a line to the log; does nothing without a log.
pub fn say(log: Option<&Debuglog>, text: fmt::Arguments<'_>) {
    let mut record = Record { text: [0; 200], len: 0 };
    // The log adds the process's name.
    let _ = record.write_fmt(text);
    if let Some(log) = log {
        let _ = log.write(&record.text[..record.len]);
    }
}
