//! A pool of message buffers for reuse.
//!
//! Small messages are frequent. The pool keeps a few buffers of messages that were read, so that the next message needs
//! no allocation and no clearing; and a large buffer of each power of two, for long messages and for sockets' rings.
//!
//! A queue is charged for the length of a buffer, not for its capacity. So nobody gets a buffer that is much larger than
//! asked for.

use alloc::vec::Vec;

use abi::Status;

use crate::containers::growth::Grows;
use crate::core::handle::Handle;

/// Number of small buffers kept.
const MOST: usize = 16;
/// Largest size of a small buffer.
const LARGEST: usize = 1024;
/// Largest size of a buffer of medium size, for a datagram that fills a frame of Ethernet, and the number kept.
const MEDIUM: usize = 2048;
const MOST_MEDIUM: usize = 32;
/// Largest size of a large buffer.
const HUGE: usize = crate::ipc::socket::CAPACITY;
/// The number of large buffers.
const CLASSES: usize = (HUGE / MEDIUM).ilog2() as usize;
/// The most by which the capacity of a buffer exceeds the length that was asked for: this many bytes, or for long ones an
/// eighth of the length.
const SLACK: usize = 128;
/// The same of a list, in handles.
const LIST_SLACK: usize = 8;

/// See the module's description.
#[derive(Default)]
pub struct BufferPool {
    kept: Vec<Vec<u8>>,
    medium: Vec<Vec<u8>>,
    /// By [`class`].
    large: [Vec<u8>; CLASSES],
    /// Empty handle lists of messages.
    lists: Vec<Vec<Handle>>,
}

impl BufferPool {
    /// A buffer of `len` bytes to write into, with arbitrary content.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    #[inline(always)]
    pub fn take(&mut self, len: usize) -> Result<Vec<u8>, Status> {
        match self.kept.pop() {
            Some(mut buffer) if buffer.len() >= len && buffer.capacity() <= len + SLACK => {
                buffer.truncate(len);
                Ok(buffer)
            }
            other => self.longer(other, len),
        }
    }

    /// Returns a buffer to the pool.
    #[inline(always)]
    pub fn give(&mut self, buffer: Vec<u8>) {
        let fits = (1..=LARGEST).contains(&buffer.capacity());
        if fits && self.kept.len() < MOST && self.kept.len() < self.kept.capacity() {
            self.kept.push(buffer);
        } else {
            self.give_slow(buffer);
        }
    }

    /// An empty list with room for `count` handles.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    #[inline]
    pub fn take_list(&mut self, count: usize) -> Result<Vec<Handle>, Status> {
        let fits = |list: &Vec<Handle>| list.capacity() <= count + LIST_SLACK;
        let mut list = self.lists.pop().filter(fits).unwrap_or_default();
        if list.capacity() < count {
            list.room_exact(count)?;
        }
        Ok(list)
    }

    /// Returns a list to the pool, if it is empty.
    #[inline]
    pub fn give_list(&mut self, list: Vec<Handle>) {
        if list.capacity() > 0 && list.is_empty() && self.lists.len() < MOST {
            self.lists.push(list);
        }
    }

    #[inline(never)]
    fn longer(&mut self, kept: Option<Vec<u8>>, len: usize) -> Result<Vec<u8>, Status> {
        if len > LARGEST {
            if let Some(kept) = kept {
                self.give(kept);
            }
            if len <= MEDIUM {
                return match self.medium.pop() {
                    Some(mut buffer) if buffer.len() >= len && fits(&buffer, len) => {
                        buffer.truncate(len);
                        Ok(buffer)
                    }
                    other => filled(other, len),
                };
            }
            let kept = class(len).and_then(|class| self.large.get_mut(class));
            let kept = kept.filter(|kept| kept.capacity() >= len && fits(kept, len));
            return filled(kept.map(core::mem::take), len);
        }
        filled(kept.filter(|kept| kept.capacity() >= len), len)
    }

    #[inline(never)]
    fn give_slow(&mut self, buffer: Vec<u8>) {
        if buffer.capacity() <= LARGEST {
            if self.kept.len() < MOST && buffer.capacity() > 0 && self.kept.room_exact(MOST).is_ok() {
                self.kept.push(buffer);
            }
        } else if buffer.capacity() <= MEDIUM {
            if self.medium.len() < MOST_MEDIUM && self.medium.room_exact(MOST_MEDIUM - self.medium.len()).is_ok() {
                self.medium.push(buffer);
            }
        } else if let Some(kept) = class(buffer.capacity()).and_then(|class| self.large.get_mut(class)) {
            *kept = buffer;
        }
    }
}

/// The class of a large buffer of `len` bytes: the powers of two from twice [`MEDIUM`] to [`HUGE`]. `None`: it is none, or is
/// longer.
fn class(len: usize) -> Option<usize> {
    let class = len.checked_sub(1)?.checked_ilog2()?.checked_sub(MEDIUM.ilog2())? as usize;
    (class < CLASSES).then_some(class)
}

/// Whether a buffer is not much larger than `len` bytes.
fn fits(buffer: &Vec<u8>, len: usize) -> bool {
    buffer.capacity() <= len + SLACK.max(len / 8)
}

/// A buffer of `len` bytes: the kept one, if it is not much larger, or a new one.
fn filled(kept: Option<Vec<u8>>, len: usize) -> Result<Vec<u8>, Status> {
    let mut buffer = kept.filter(|kept| fits(kept, len)).unwrap_or_default();
    buffer.truncate(len);
    buffer.room_exact(len - buffer.len())?;
    buffer.resize(len, 0);
    Ok(buffer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_have_the_length_that_was_asked_for() {
        let mut buffers = BufferPool::default();
        for len in [64, 0, 10, 64, 100, 3000, 100, 1] {
            let buffer = buffers.take(len).unwrap();
            assert_eq!(buffer.len(), len);
            buffers.give(buffer);
        }
        assert!(buffers.kept.iter().all(|buffer| buffer.capacity() <= LARGEST));
        assert_eq!(buffers.large[0].capacity(), 3000);
    }

    #[test]
    fn no_buffer_is_much_larger_than_asked_for() {
        for first in [1, 64, 1000, LARGEST, 1500, MEDIUM, 5000, HUGE] {
            for then in [0, 1, 64, 500, LARGEST, LARGEST + 1, MEDIUM, MEDIUM + 1, 100_000, HUGE] {
                let mut buffers = BufferPool::default();
                let kept = buffers.take(first).unwrap();
                buffers.give(kept);
                let taken = buffers.take(then).unwrap();
                assert!(taken.capacity() <= then + SLACK.max(then / 8), "{first}, then {then}: {}", taken.capacity());
                // And what was cut short does not come back as a longer one that is charged less.
                buffers.give(taken);
                assert!(buffers.take(1).unwrap().capacity() <= 1 + SLACK, "{first}, {then}, then 1");
            }
        }
        // Whatever others are long, the next one of the same length is there.
        let mut buffers = BufferPool::default();
        let lens = [MEDIUM + 1, 4096, 5000, 16_384, 65_536, HUGE];
        let kept = lens.map(|len| buffers.take(len).unwrap());
        let places = [2, 3, 4, 5].map(|at| kept[at].as_ptr());
        kept.into_iter().for_each(|buffer| buffers.give(buffer));
        let again = lens.map(|len| buffers.take(len).unwrap());
        assert_eq!([2, 3, 4, 5].map(|at| again[at].as_ptr()), places);
        // Longer ones are not kept.
        let longer = buffers.take(HUGE + 1).unwrap();
        buffers.give(longer);
        assert!(buffers.large.iter().all(|kept| kept.capacity() <= HUGE));
        let list = buffers.take_list(64).unwrap();
        buffers.give_list(list);
        assert!(buffers.take_list(1).unwrap().capacity() <= 1 + LIST_SLACK);
    }

    #[test]
    fn a_bounded_number_is_kept() {
        let mut buffers = BufferPool::default();
        for len in [64, 1500] {
            let many: Vec<_> = (0..100).map(|_| buffers.take(len).unwrap()).collect();
            many.into_iter().for_each(|buffer| buffers.give(buffer));
        }
        assert_eq!((buffers.kept.len(), buffers.medium.len()), (MOST, MOST_MEDIUM));
        assert!(buffers.large.iter().all(|kept| kept.capacity() == 0));
    }
}
