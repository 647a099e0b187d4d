//! The image's file, as the file systems use it: blocks that are read and written, with a limit on reads.

use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read, Result, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::rc::Rc;

use anyhow::Context as _;
use rustix::fs::{FlockOperation, fcntl_lock};

/// An image. A machine may have written its content, which may contain cycles, so the number of bytes read in one
/// [turn](Device::turn) is limited. Clones share the image; each has its own position.
#[derive(Clone, Debug)]
pub struct Device {
    file: Rc<File>,
    size: u64,
    at: u64,
    /// Number of bytes that may still be read in this turn.
    left: Rc<Cell<u64>>,
}

impl Device {
    /// Opens an image that no other process uses.
    ///
    /// # Errors
    /// It does not exist, cannot be written although that is necessary, or a machine uses it.
    pub fn open(image: &Path, writable: bool) -> anyhow::Result<Device> {
        let name = image.display();
        let file = OpenOptions::new().read(true).write(writable).open(image);
        let file = file.with_context(|| format!("cannot open {name}"))?;
        // QEMU holds such locks on the images of its machines.
        let lock =
            if writable { FlockOperation::NonBlockingLockExclusive } else { FlockOperation::NonBlockingLockShared };
        fcntl_lock(&file, lock).with_context(|| format!("{name}: a machine uses it, or another program"))?;
        let size = file.metadata().with_context(|| format!("cannot read {name}"))?.len();
        let device = Device { file: Rc::new(file), size, at: 0, left: Rc::default() };
        device.turn();
        Ok(device)
    }

    /// Size of the image in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Begins an operation, which resets the limit of reads.
    pub fn turn(&self) {
        self.left.set(self.size.saturating_mul(16).saturating_add(256 << 20));
    }

    /// Reads all of `bytes` at an offset.
    ///
    /// # Errors
    /// The range exceeds the image, or the limit of reads is reached.
    pub fn read_at(&self, bytes: &mut [u8], at: u64) -> Result<()> {
        // Reading less than a block takes as long as reading a block.
        let left = self.left.get().checked_sub(bytes.len().max(512) as u64);
        self.left.set(left.ok_or_else(|| Error::other("its directories or files lead round in circles"))?);
        self.file.read_exact_at(bytes, at)
    }

    /// Writes all of `bytes` at an offset.
    ///
    /// # Errors
    /// The range exceeds the image, or the host cannot write it.
    pub fn write_at(&self, bytes: &[u8], at: u64) -> Result<()> {
        let end = at.checked_add(bytes.len() as u64).filter(|end| *end <= self.size);
        end.ok_or_else(|| Error::new(ErrorKind::UnexpectedEof, "behind the end of the image"))?;
        self.file.write_all_at(bytes, at)
    }

    /// Makes all writes durable on the host's disk.
    ///
    /// # Errors
    /// The host cannot sync the file.
    pub fn settle(&self) -> Result<()> {
        self.file.sync_all()
    }
}

impl Read for Device {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize> {
        let count = (bytes.len() as u64).min(self.size.saturating_sub(self.at)) as usize;
        self.read_at(&mut bytes[..count], self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

impl Write for Device {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.write_at(bytes, self.at)?;
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Seek for Device {
    fn seek(&mut self, to: SeekFrom) -> Result<u64> {
        let to = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.size.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = to.ok_or(ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}
