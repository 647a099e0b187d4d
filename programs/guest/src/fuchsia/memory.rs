//! The guest's memory: the pages of one VMO, with reference counts.

use abi::{ZX_VM_PERM_EXECUTE, ZX_VM_PERM_READ, ZX_VM_PERM_WRITE};
use zx::Vmo;

use super::linux::{Result, errno, fails};

/// Size of a page in bytes.
pub const PAGE: u64 = 4096;
/// Access rights to memory.
pub const READ: u32 = ZX_VM_PERM_READ;
/// See [`READ`].
pub const WRITE: u32 = ZX_VM_PERM_WRITE;
/// See [`READ`].
pub const EXECUTE: u32 = ZX_VM_PERM_EXECUTE;

/// A page of memory, by its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame(u32);

impl Frame {
    /// Its offset in the VMO.
    pub fn offset(self) -> u64 {
        u64::from(self.0) * PAGE
    }
}

/// See the description of the module.
pub struct Memory {
    vmo: Vmo,
    /// Reference counts of all pages that were ever allocated.
    counts: Vec<u32>,
    free: Vec<Frame>,
    most: usize,
}

impl Memory {
    /// Creates a memory of `pages` pages.
    pub fn new(pages: usize) -> zx::Result<Memory> {
        let vmo = Vmo::create(pages as u64 * PAGE, 0)?.replace_as_executable(None)?;
        Ok(Memory { vmo, counts: Vec::new(), free: Vec::new(), most: pages })
    }

    /// The VMO that contains the pages.
    pub fn vmo(&self) -> &Vmo {
        &self.vmo
    }

    /// The number of pages, and the number of pages in use.
    pub fn pages(&self) -> (usize, usize) {
        (self.most, self.counts.len() - self.free.len())
    }

    /// Allocates a zeroed page.
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

    /// Adds a reference.
    pub fn share(&mut self, frame: Frame) {
        self.counts[frame.0 as usize] += 1;
    }

    /// Whether there is more than one reference.
    pub fn is_shared(&self, frame: Frame) -> bool {
        self.counts[frame.0 as usize] > 1
    }

    /// Drops a reference. The last one frees the page, which no sub-domain may map any more.
    pub fn give(&mut self, frame: Frame) {
        let count = &mut self.counts[frame.0 as usize];
        *count -= 1;
        if *count == 0 {
            self.free.push(frame);
        }
    }

    /// Allocates a page with the same content.
    pub fn copy(&mut self, frame: Frame) -> Result<Frame> {
        let copy = self.take()?;
        let mut bytes = [0; PAGE as usize];
        self.read(frame, 0, &mut bytes)?;
        self.write(copy, 0, &bytes)?;
        Ok(copy)
    }

    /// Reads bytes of a page.
    pub fn read(&self, frame: Frame, at: u64, bytes: &mut [u8]) -> zx::Result<()> {
        self.vmo.read(bytes, frame.offset() + at)
    }

    /// Writes bytes of a page.
    pub fn write(&self, frame: Frame, at: u64, bytes: &[u8]) -> zx::Result<()> {
        self.vmo.write(bytes, frame.offset() + at)
    }
}
