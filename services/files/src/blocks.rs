//! A disk as a file system sees it.

use std::io::Result;

/// A disk. Offsets and lengths are multiples of [`Blocks::block`].
pub trait Blocks {
    /// Bytes.
    fn size(&self) -> u64;
    /// Bytes of the smallest piece that can be read or written, a power of two.
    fn block(&self) -> u32 {
        512
    }
    /// Nothing can be written.
    fn read_only(&self) -> bool;
    /// Reads whole blocks.
    ///
    /// # Errors
    /// The disk's.
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<()>;
    /// Writes whole blocks. They stay only after the next [`Blocks::flush`].
    ///
    /// # Errors
    /// The disk's.
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()>;
    /// Has all that was written stay.
    ///
    /// # Errors
    /// The disk's.
    fn flush(&mut self) -> Result<()>;
}
