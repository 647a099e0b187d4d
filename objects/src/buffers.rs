//! Buffers for messages, kept for the next ones.
//!
//! Small messages come and go all the time. A few buffers of those that were read are kept, so that the next message needs
//! no memory to be found, cleared and given back.

use alloc::vec::Vec;

use abi::Status;

/// How many are kept.
const MOST: usize = 16;
/// The largest that is.
const LARGEST: usize = 1024;

/// See the module's description.
#[derive(Default)]
pub struct Buffers {
    kept: Vec<Vec<u8>>,
}

impl Buffers {
    /// A buffer of a length, to be written: there may be anything in it.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    #[inline(always)]
    pub fn take(&mut self, len: usize) -> Result<Vec<u8>, Status> {
        match self.kept.pop() {
            Some(mut buffer) if buffer.len() >= len => {
                buffer.truncate(len);
                Ok(buffer)
            }
            other => longer(other, len),
        }
    }

    /// Takes a buffer back.
    #[inline(always)]
    pub fn give(&mut self, buffer: Vec<u8>) {
        if self.kept.len() < MOST && (1..=LARGEST).contains(&buffer.capacity()) && self.kept.try_reserve(1).is_ok() {
            self.kept.push(buffer);
        }
    }
}

#[inline(never)]
fn longer(kept: Option<Vec<u8>>, len: usize) -> Result<Vec<u8>, Status> {
    let mut buffer = kept.filter(|kept| kept.capacity() >= len).unwrap_or_default();
    buffer.try_reserve_exact(len - buffer.len()).map_err(|_| Status::NO_MEMORY)?;
    buffer.resize(len, 0);
    Ok(buffer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_have_the_length_that_was_asked_for() {
        let mut buffers = Buffers::default();
        for len in [64, 0, 10, 64, 100, 3000, 100, 1] {
            let buffer = buffers.take(len).unwrap();
            assert_eq!(buffer.len(), len);
            buffers.give(buffer);
        }
        assert!(buffers.kept.iter().all(|buffer| buffer.capacity() <= LARGEST));
    }

    #[test]
    fn a_bounded_number_is_kept() {
        let mut buffers = Buffers::default();
        let many: Vec<_> = (0..100).map(|_| buffers.take(64).unwrap()).collect();
        many.into_iter().for_each(|buffer| buffers.give(buffer));
        assert_eq!(buffers.kept.len(), MOST);
    }
}
