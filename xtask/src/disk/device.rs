//! The image's file, as the file systems see it: blocks that are read and written, and an end to both.

use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read, Result, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::rc::Rc;

use anyhow::Context as _;
use rustix::fs::{FlockOperation, fcntl_lock};

/// An image. What it holds was perhaps written by a machine, and may lead round in circles: so only so much is read in one
/// [turn](Device::turn). Clones are of the same image, each with a place of its own.
#[derive(Clone, Debug)]
pub struct Device {
    file: Rc<File>,
    size: u64,
    at: u64,
    /// Bytes that may be read in this turn.
    left: Rc<Cell<u64>>,
}

impl Device {
    /// Opens an image that nobody else uses.
    ///
    /// # Errors
    /// It is not there, cannot be written where that is wanted, or a machine has it.
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

    /// Bytes of it.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Something begins for which much may be read again.
    pub fn turn(&self) {
        self.left.set(self.size.saturating_mul(16).saturating_add(256 << 20));
    }

    /// Reads all of `bytes` at a place.
    ///
    /// # Errors
    /// They do not lie in it, or too much was read.
    pub fn read_at(&self, bytes: &mut [u8], at: u64) -> Result<()> {
        // A short piece takes as long as one of a block.
        let left = self.left.get().checked_sub(bytes.len().max(512) as u64);
        self.left.set(left.ok_or_else(|| Error::other("its directories or files lead round in circles"))?);
        self.file.read_exact_at(bytes, at)
    }

    /// Writes all of `bytes` at a place.
    ///
    /// # Errors
    /// They do not lie in it, or the host cannot write them.
    pub fn write_at(&self, bytes: &[u8], at: u64) -> Result<()> {
        let end = at.checked_add(bytes.len() as u64).filter(|end| *end <= self.size);
        end.ok_or_else(|| Error::new(ErrorKind::UnexpectedEof, "behind the end of the image"))?;
        self.file.write_all_at(bytes, at)
    }

    /// Has everything reach the host's disk.
    ///
    /// # Errors
    /// It cannot.
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
