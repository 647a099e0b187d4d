//! A ring of descriptors in the old layout: 16 bytes with the address of a buffer, its length, a command, a status.
//!
//! The card works through a ring in order, so the driver knows which buffer a descriptor stands for: the card can only
//! say *that* it has finished with a buffer, and how long a frame is. That length is checked.

use std::collections::VecDeque;

use core::sync::atomic::{Ordering, fence};

use crate::broken::Broken;
use crate::net::Queue;

/// Descriptors of a ring.
pub const DESCRIPTORS: u16 = 256;
/// Bytes of a descriptor.
const DESCRIPTOR: usize = 16;
/// Bytes of a ring: a page.
pub const BYTES: usize = DESCRIPTORS as usize * DESCRIPTOR;
/// Bytes that the card writes to a buffer at most. A longer frame would go on in the next buffer.
pub const BUFFER: usize = 2048;

/// Offsets in a descriptor: of the length of a frame that came in, and of the status.
const LENGTH: usize = 8;
const STATUS: usize = 12;
/// Status: the card has finished with the descriptor; the frame ends in this buffer.
const DONE: u32 = 1;
const END: u32 = 1 << 1;
/// In the word of the status, errors of a frame: checksum, symbol, sequence, carrier, receiving.
const ERRORS: u32 = 0x97 << 8;
/// Commands for a frame to send: it ends in this buffer; append Ethernet's checksum; report when it is sent.
const COMMANDS: u64 = (1 | 1 << 1 | 1 << 3) << 24;

/// The memory of a ring.
pub trait Memory {
    /// Reads two bytes.
    fn read_u16(&self, offset: usize) -> u16;
    /// Reads four bytes.
    fn read_u32(&self, offset: usize) -> u32;
    /// Writes eight bytes.
    fn write_u64(&self, offset: usize, value: u64);
}

/// A ring.
#[derive(Debug)]
pub struct Ring<M> {
    memory: M,
    /// Descriptors that the card has at most.
    most: usize,
    /// The driver's numbers for the buffers that the card has, in order.
    given: VecDeque<u16>,
    /// Index of the next descriptor to give, and the one at the last [`Ring::untold`].
    tail: u16,
    told: u16,
    /// The last buffer had no end of its frame, so the next one has none's beginning.
    cut: bool,
}

impl<M: Memory> Ring<M> {
    /// An empty ring in this memory, which is zero. The card has at most `most` descriptors, fewer than all.
    pub fn new(memory: M, most: usize) -> Ring<M> {
        // If the card had all, its tail would be its head, which means none.
        let most = most.min(usize::from(DESCRIPTORS) - 1);
        Ring { memory, most, given: VecDeque::with_capacity(most), tail: 0, told: 0, cut: false }
    }

    /// The memory.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    fn give(&mut self, number: u16, address: u64, rest: u64) -> bool {
        if !self.has_room() {
            return false;
        }
        let at = usize::from(self.tail) * DESCRIPTOR;
        self.memory.write_u64(at, address);
        // The status becomes zero.
        self.memory.write_u64(at + 8, rest);
        self.given.push_back(number);
        self.tail = (self.tail + 1) % DESCRIPTORS;
        true
    }

    /// The tail that the card is to be told of, if it changed since the last time.
    pub fn untold(&mut self) -> Option<u16> {
        if self.told == self.tail {
            return None;
        }
        self.told = self.tail;
        // The card sees the descriptors before the tail.
        fence(Ordering::Release);
        Some(self.tail)
    }

    /// Whether the card has finished with a buffer.
    pub fn is_done(&self) -> bool {
        self.status().is_some()
    }

    /// Offset and status of the oldest descriptor, if the card has finished with it.
    fn status(&self) -> Option<(usize, u32)> {
        // Less than a ring.
        let given = self.given.len() as u16;
        let index = (self.tail + DESCRIPTORS - given) % DESCRIPTORS;
        let at = usize::from(index) * DESCRIPTOR;
        if given == 0 {
            return None;
        }
        let status = self.memory.read_u32(at + STATUS);
        // This side sees the status before what it stands for.
        fence(Ordering::Acquire);
        (status & DONE != 0).then_some((at, status))
    }
}

// The card learns of what it was given by the tail ([`Ring::untold`]).
impl<M: Memory> Queue for Ring<M> {
    fn has_room(&self) -> bool {
        self.given.len() < self.most
    }

    fn given(&self) -> usize {
        self.given.len()
    }

    fn give_empty(&mut self, number: u16, address: u64, len: usize) -> bool {
        // The card knows one size for all buffers.
        len >= BUFFER && self.give(number, address, 0)
    }

    fn give_frame(&mut self, number: u16, address: u64, len: usize) -> bool {
        u16::try_from(len).is_ok_and(|len| self.give(number, address, u64::from(len) | COMMANDS))
    }

    // The length is 0 if there is no whole frame: a frame with an error, or one that is longer than a buffer.
    fn take_received(&mut self) -> Result<Option<(u16, usize)>, Broken> {
        let Some((at, status)) = self.status() else { return Ok(None) };
        let len = usize::from(self.memory.read_u16(at + LENGTH));
        if len > BUFFER {
            return Err(Broken::Length);
        }
        let Some(number) = self.given.pop_front() else { return Ok(None) };
        let was_cut = core::mem::replace(&mut self.cut, status & END == 0);
        let is_whole = !was_cut && status & END != 0 && status & ERRORS == 0;
        Ok(Some((number, if is_whole { len } else { 0 })))
    }

    fn take_sent(&mut self) -> Result<Option<u16>, Broken> {
        Ok(self.status().and_then(|_| self.given.pop_front()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::vec;
    use std::vec::Vec;

    /// The memory of a ring, which the test sees as the card does.
    #[derive(Clone, Debug)]
    struct Plain(Rc<RefCell<Vec<u8>>>);

    impl Plain {
        fn new() -> Plain {
            Plain(Rc::new(RefCell::new(vec![0; BYTES])))
        }

        fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
            self.0.borrow()[at..at + N].try_into().unwrap()
        }

        /// What the card writes when it has finished with a descriptor.
        fn finish(&self, index: usize, len: u16, status: u8, errors: u8) {
            let at = index * DESCRIPTOR;
            let mut bytes = self.0.borrow_mut();
            bytes[at + 8..at + 10].copy_from_slice(&len.to_le_bytes());
            (bytes[at + 12], bytes[at + 13]) = (status, errors);
        }
    }

    impl Memory for Plain {
        fn read_u16(&self, offset: usize) -> u16 {
            u16::from_le_bytes(self.bytes(offset))
        }
        fn read_u32(&self, offset: usize) -> u32 {
            u32::from_le_bytes(self.bytes(offset))
        }
        fn write_u64(&self, offset: usize, value: u64) {
            self.0.borrow_mut()[offset..offset + 8].copy_from_slice(&value.to_le_bytes());
        }
    }

    fn ring(most: usize) -> (Ring<Plain>, Plain) {
        let memory = Plain::new();
        (Ring::new(memory.clone(), most), memory)
    }

    #[test]
    fn a_descriptor_has_the_layout_of_the_data_sheet() {
        let (mut ring, memory) = ring(4);
        assert!(ring.give_frame(7, 0x0102_0304_0506_0708, 0x5ea));
        assert_eq!(memory.bytes(0), [8, 7, 6, 5, 4, 3, 2, 1, 0xea, 5, 0, 0x0b, 0, 0, 0, 0]);
        memory.finish(1, 0xffff, 0xff, 0xff);
        assert!(ring.give_empty(8, 0x1000, BUFFER));
        assert_eq!(memory.bytes(16), [0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn buffers_come_back_in_order_round_the_ring() {
        let (mut ring, memory) = ring(100);
        let (mut next, mut expected) = (0_u16, 0_u16);
        for _ in 0..20 {
            while ring.give_empty(next, u64::from(next) * 4096, BUFFER) {
                next += 1;
            }
            assert_eq!(ring.given(), 100);
            assert_eq!(ring.untold(), Some(next % DESCRIPTORS));
            assert_eq!(ring.untold(), None);
            for _ in 0..77 {
                assert!(!ring.is_done());
                assert_eq!(ring.take_received(), Ok(None));
                memory.finish(usize::from(expected % DESCRIPTORS), 60 + expected % 1000, 3, 0);
                assert!(ring.is_done());
                assert_eq!(ring.take_received(), Ok(Some((expected, usize::from(60 + expected % 1000)))));
                expected += 1;
            }
        }
    }

    #[test]
    fn a_ring_is_never_full() {
        let (mut ring, _) = ring(10_000);
        let count = (0..1000).filter(|number| ring.give_empty(*number, 0, BUFFER)).count();
        assert_eq!(count, 255);
        assert_eq!(ring.untold(), Some(255));
    }

    #[test]
    fn a_card_that_lies_is_found_out() {
        let (mut ring, memory) = ring(8);
        // The card has none of them.
        (0..256).for_each(|index| memory.finish(index, 60, 3, 0));
        assert_eq!(ring.take_received(), Ok(None));
        assert_eq!(ring.take_sent(), Ok(None));
        assert!(ring.give_empty(1, 0, BUFFER));
        assert!(!ring.is_done());
        memory.finish(0, 2049, 3, 0);
        assert_eq!(ring.take_received(), Err(Broken::Length));
        memory.finish(0, 2048, 3, 0);
        assert_eq!(ring.take_received(), Ok(Some((1, 2048))));
        assert_eq!(ring.take_received(), Ok(None));
    }

    #[test]
    fn parts_of_frames_and_wrong_frames_are_none() {
        let (mut ring, memory) = ring(8);
        (0..6).for_each(|number| assert!(ring.give_empty(number, 0, BUFFER)));
        // Two buffers of one frame, then a whole one, one with a checksum of Ethernet that is wrong, and one whose
        // checksum of TCP is wrong, of which the client judges.
        for (index, (status, errors)) in [(1, 0), (1, 0), (3, 0), (3, 0), (3, 1), (3, 0x20)].into_iter().enumerate() {
            memory.finish(index, 1000, status, errors);
        }
        let lens: Vec<usize> = (0..6).map(|_| ring.take_received().unwrap().unwrap().1).collect();
        assert_eq!(lens, [0, 0, 0, 1000, 0, 1000]);
    }

    #[test]
    fn sent_frames_come_back() {
        let (mut ring, memory) = ring(8);
        assert!(ring.give_frame(3, 0, 60) && ring.give_frame(5, 0, 60));
        // The second alone is not finished, whatever its descriptor says.
        memory.finish(1, 60, 1, 0);
        assert_eq!(ring.take_sent(), Ok(None));
        memory.finish(0, 60, 1, 0);
        assert_eq!([ring.take_sent(), ring.take_sent(), ring.take_sent()], [Ok(Some(3)), Ok(Some(5)), Ok(None)]);
    }
}
