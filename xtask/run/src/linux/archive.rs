//! Archives of files in the format of Linux' initial file systems (cpio, newc).

use std::io::Write;

use anyhow::{Context, Result};
use cpio::newc::{Builder, ModeFileType, trailer};

/// An archive that is being made.
#[derive(Debug, Default)]
pub struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    fn entry(&mut self, name: &str, kind: ModeFileType, mode: u32) -> Builder {
        self.entries += 1;
        Builder::new(name).ino(self.entries).nlink(1).mode(mode).set_mode_file_type(kind)
    }

    /// Adds a file with its permissions, a folder, or a symbolic link, whose content is its target.
    ///
    /// # Errors
    /// It is too large.
    pub fn add(&mut self, name: &str, kind: ModeFileType, mode: u32, content: &[u8]) -> Result<()> {
        let len = u32::try_from(content.len()).with_context(|| format!("{name} is too large for Linux"))?;
        let entry = self.entry(name, kind, mode);
        let mut entry = entry.write(std::mem::take(&mut self.bytes), len);
        entry.write_all(content)?;
        self.bytes = entry.finish()?;
        Ok(())
    }

    /// The archive.
    ///
    /// # Errors
    /// None, as it is written to memory.
    pub fn finish(self) -> Result<Vec<u8>> {
        Ok(trailer(self.bytes)?)
    }
}
