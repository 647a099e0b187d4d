//! A disk as a file system sees it.

use std::io::Result;

/// A disk. Offsets and lengths are multiples of [`Blocks::block`], in bytes.
pub trait Blocks {
    /// Size of the disk in bytes.
    fn size(&self) -> u64;
    /// Size of a block in bytes, a power of two: the smallest unit of reads and writes.
    fn block(&self) -> u32 {
        512
    }
    /// Whether the disk cannot be written.
    fn read_only(&self) -> bool;
    /// Reads whole blocks.
    ///
    /// # Errors
    /// Errors of the disk.
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<()>;
    /// Writes whole blocks. They are durable only after the next [`Blocks::flush`].
    ///
    /// # Errors
    /// Errors of the disk.
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()>;
    /// Makes all writes durable.
    ///
    /// # Errors
    /// Errors of the disk.
    fn flush(&mut self) -> Result<()>;
}
