//! Which I/O ports a process may use.

use alloc::vec::Vec;

use abi::Status;

use crate::containers::growth::Grows;
use crate::machine::PortWidth;

/// I/O ports that there are.
pub(crate) const PORTS: u32 = 1 << 16;

/// The ports that a process may use.
#[derive(Default)]
pub(crate) struct PortGrants {
    /// A bit for each port, or nothing if there was never one.
    bits: Vec<u64>,
}

impl PortGrants {
    /// Whether there was never one.
    pub(crate) fn is_empty(&self) -> bool {
        self.bits.is_empty()
    }

    /// Grants or withdraws some ports.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub(crate) fn set(&mut self, first: u32, count: u32, to: bool) -> Result<(), Status> {
        if self.bits.is_empty() && to {
            let words = PORTS.div_ceil(u64::BITS) as usize;
            self.bits.room_exact(words)?;
            self.bits.resize(words, 0);
        }
        for port in first..first + count {
            if let Some(word) = self.bits.get_mut((port / u64::BITS) as usize) {
                let bit = 1 << (port % u64::BITS);
                *word = if to { *word | bit } else { *word & !bit };
            }
        }
        Ok(())
    }

    /// Whether all ports of an access are granted.
    pub(crate) fn has(&self, first: u16, width: PortWidth) -> bool {
        let first = u32::from(first);
        let is_set = |port: u32| self.bits.get((port / u64::BITS) as usize).map(|word| word >> (port % u64::BITS) & 1);
        (first..first + u32::from(width.bytes())).all(|port| is_set(port) == Some(1))
    }
}
