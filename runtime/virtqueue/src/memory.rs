//! Access to a guest's memory.

use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU8, Ordering, fence};

/// An access was not possible: the address is not the guest's, or the page could not be had any more. Part of it may have
/// been done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

/// The memory of a guest, by the guest's addresses. Other programs access it at the same time.
pub trait Memory {
    /// Whether a range belongs to the guest. The memory may go away nevertheless.
    fn holds(&self, at: u64, len: u64) -> bool;

    /// Copies bytes from the memory.
    ///
    /// # Errors
    /// [`Gone`].
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Gone>;

    /// Copies bytes to the memory.
    ///
    /// # Errors
    /// [`Gone`].
    fn write(&self, at: u64, from: &[u8]) -> Result<(), Gone>;

    /// Reads a number at once. What the other side wrote before it is seen by later accesses (acquire).
    ///
    /// # Errors
    /// [`Gone`]; the address is odd.
    fn load(&self, at: u64) -> Result<u16, Gone>;

    /// Writes a number at once. Who sees it also sees what was written before (release).
    ///
    /// # Errors
    /// [`Gone`]; the address is odd.
    fn store(&self, at: u64, value: u16) -> Result<(), Gone>;
}

/// Ordinary memory, for tests without a guest: it begins at address 0.
#[derive(Debug)]
pub struct Plain(Vec<AtomicU8>);

impl Plain {
    /// Zeroes.
    pub fn new(len: usize) -> Plain {
        let mut bytes = vec![];
        bytes.resize_with(len, || AtomicU8::new(0));
        Plain(bytes)
    }

    fn range(&self, at: u64, len: usize) -> Result<&[AtomicU8], Gone> {
        let start = usize::try_from(at).map_err(|_| Gone)?;
        self.0.get(start..start.checked_add(len).ok_or(Gone)?).ok_or(Gone)
    }
}

impl Memory for Plain {
    fn holds(&self, at: u64, len: u64) -> bool {
        usize::try_from(len).is_ok_and(|len| self.range(at, len).is_ok())
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Gone> {
        let range = self.range(at, into.len())?;
        for (byte, from) in into.iter_mut().zip(range) {
            *byte = from.load(Ordering::Relaxed);
        }
        Ok(())
    }

    fn write(&self, at: u64, from: &[u8]) -> Result<(), Gone> {
        for (byte, to) in from.iter().zip(self.range(at, from.len())?) {
            to.store(*byte, Ordering::Relaxed);
        }
        Ok(())
    }

    fn load(&self, at: u64) -> Result<u16, Gone> {
        let mut bytes = [0; 2];
        self.read(at, &mut bytes)?;
        fence(Ordering::Acquire);
        Ok(u16::from_le_bytes(bytes))
    }

    fn store(&self, at: u64, value: u16) -> Result<(), Gone> {
        fence(Ordering::Release);
        self.write(at, &value.to_le_bytes())
    }
}
