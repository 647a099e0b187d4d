//! The guest's memory: pages of one VMO, each of them free or counted.

use abi::{ZX_VM_PERM_EXECUTE, ZX_VM_PERM_READ, ZX_VM_PERM_WRITE};
use zx::Vmo;

use super::linux::{Result, errno, fails};

/// Bytes of a page.
pub const PAGE: u64 = 4096;
/// What can be done with memory.
pub const READ: u32 = ZX_VM_PERM_READ;
/// See [`READ`].
pub const WRITE: u32 = ZX_VM_PERM_WRITE;
/// See [`READ`].
pub const EXECUTE: u32 = ZX_VM_PERM_EXECUTE;

/// A page of memory, by its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame(u32);

impl Frame {
    /// Where in the VMO it is.
    pub fn offset(self) -> u64 {
        u64::from(self.0) * PAGE
    }
}

/// See the module's description.
pub struct Memory {
    vmo: Vmo,
    /// How many have each page that was ever had.
    counts: Vec<u32>,
    free: Vec<Frame>,
    most: usize,
}

impl Memory {
    /// So many pages.
    pub fn new(pages: usize) -> zx::Result<Memory> {
        let vmo = Vmo::create(pages as u64 * PAGE, 0)?.replace_as_executable(None)?;
        Ok(Memory { vmo, counts: Vec::new(), free: Vec::new(), most: pages })
    }

    /// Where they are.
    pub fn vmo(&self) -> &Vmo {
        &self.vmo
    }

    /// Pages that there are, and those of them that somebody has.
    pub fn pages(&self) -> (usize, usize) {
        (self.most, self.counts.len() - self.free.len())
    }

    /// A page of zeros.
    pub fn take(&mut self) -> Result<Frame> {
        if let Some(frame) = self.free.pop() {
            self.write(frame, 0, &[0; PAGE as usize])?;
            self.counts[frame.0 as usize] = 1;
            return Ok(frame);
        }
        if self.counts.len() == self.most {
            return fails(errno::ENOMEM);
        }
        self.counts.push(1);
        Ok(Frame(self.counts.len() as u32 - 1))
    }

    /// One more has it.
    pub fn share(&mut self, frame: Frame) {
        self.counts[frame.0 as usize] += 1;
    }

    /// Whether more than one has it.
    pub fn is_shared(&self, frame: Frame) -> bool {
        self.counts[frame.0 as usize] > 1
    }

    /// One has it no more; nobody sees it any more if that was the last one.
    pub fn give(&mut self, frame: Frame) {
        let count = &mut self.counts[frame.0 as usize];
        *count -= 1;
        if *count == 0 {
            self.free.push(frame);
        }
    }

    /// Another page with the same content.
    pub fn copy(&mut self, frame: Frame) -> Result<Frame> {
        let copy = self.take()?;
        let mut bytes = [0; PAGE as usize];
        self.read(frame, 0, &mut bytes)?;
        self.write(copy, 0, &bytes)?;
        Ok(copy)
    }

    /// Some bytes of it.
    pub fn read(&self, frame: Frame, at: u64, bytes: &mut [u8]) -> zx::Result<()> {
        self.vmo.read(bytes, frame.offset() + at)
    }

    /// Changes some of them.
    pub fn write(&self, frame: Frame, at: u64, bytes: &[u8]) -> zx::Result<()> {
        self.vmo.write(bytes, frame.offset() + at)
    }
}
