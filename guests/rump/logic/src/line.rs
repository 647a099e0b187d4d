//! The console's line.

/// The longest line that is written in one piece.
const LONGEST: usize = 256;

/// Bytes that are written together: a line, or as many as there is room for.
#[derive(Debug)]
pub struct Line {
    bytes: [u8; LONGEST],
    len: usize,
}

impl Line {
    /// An empty line.
    pub const fn new() -> Line {
        Line { bytes: [0; LONGEST], len: 0 }
    }

    /// Adds a byte; returns whether the line is to be written now.
    pub fn push(&mut self, byte: u8) -> bool {
        if let Some(place) = self.bytes.get_mut(self.len) {
            *place = byte;
            self.len += 1;
        }
        byte == b'\n' || self.len == LONGEST
    }

    /// The bytes. They are gone with the next one.
    pub fn take(&mut self) -> &[u8] {
        let len = core::mem::take(&mut self.len);
        &self.bytes[..len]
    }
}

impl Default for Line {
    fn default() -> Line {
        Line::new()
    }
}
