//! Ring buffers: the bytes that wait at a stream socket's or FIFO's end.
//!
//! Reading moves no remaining bytes. Programs' bytes are copied directly between their pages and the buffer.

use alloc::vec::Vec;

use abi::Status;

use crate::containers::growth::Grows;
use crate::containers::slab::Key;
use crate::core::noun::Noun;
use crate::core::object::{Id, Object};
use crate::kernel::Kernel;
use crate::machine::Access;
use crate::machine::{Frame, Machine, PAGE};

/// Minimum capacity in bytes.
const LEAST: usize = 256;

/// See the module's description.
#[derive(Default)]
pub(crate) struct RingBuffer {
    /// The buffer; all of it is usable.
    bytes: Vec<u8>,
    first: usize,
    len: usize,
}

/// An object that contains a ring for its reader.
pub(crate) trait HasRingBuffer: Noun {
    fn ring(&mut self) -> Option<&mut RingBuffer>;
}

impl RingBuffer {
    /// A ring with room for `len` bytes from the start.
    pub fn with_room(len: usize) -> Result<Self, Status> {
        let mut bytes = Vec::new();
        bytes.room_exact(len)?;
        bytes.resize(len, 0);
        Ok(RingBuffer { bytes, first: 0, len: 0 })
    }

    /// Number of bytes to read.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Number of bytes that fit without growth.
    #[inline]
    pub fn room(&self) -> usize {
        self.bytes.len() - self.len
    }

    /// Capacity in bytes.
    pub fn capacity(&self) -> usize {
        self.bytes.len()
    }

    /// The capacity of a ring with room for `more` bytes.
    pub fn wanted(&self, more: usize) -> usize {
        self.len.saturating_add(more).next_power_of_two().max(LEAST)
    }

    /// The least capacity with room for `more` bytes.
    pub fn least(&self, more: usize) -> usize {
        self.len.saturating_add(more).next_multiple_of(LEAST)
    }

    /// Moves the content into a larger buffer; returns the old one.
    pub fn grow_into(&mut self, mut bytes: Vec<u8>) -> Vec<u8> {
        let (first, second) = self.part(0, self.len);
        let (to, rest) = bytes.split_at_mut_checked(first.len()).unwrap_or_default();
        to.copy_from_slice(first);
        if let Some(to) = rest.get_mut(..second.len()) {
            to.copy_from_slice(second);
        }
        self.first = 0;
        core::mem::replace(&mut self.bytes, bytes)
    }

    /// Takes the buffer of an empty ring.
    pub fn take_buffer(&mut self) -> Vec<u8> {
        self.first = 0;
        core::mem::take(&mut self.bytes)
    }

    /// The index of a position relative to the first byte.
    #[inline(always)]
    fn place(&self, after: usize) -> usize {
        let place = self.first + after;
        if place < self.bytes.len() { place } else { place - self.bytes.len() }
    }

    /// The `len` free bytes after the last one; `len` must not exceed the room.
    #[inline(always)]
    fn free(&mut self, len: usize) -> (&mut [u8], &mut [u8]) {
        let place = self.place(self.len);
        let straight = len.min(self.bytes.len() - place);
        let (before, behind) = self.bytes.split_at_mut_checked(place).unwrap_or_default();
        (behind.get_mut(..straight).unwrap_or_default(), before.get_mut(..len - straight).unwrap_or_default())
    }

    /// The `len` bytes from position `from`; they must exist.
    #[inline(always)]
    fn part(&self, from: usize, len: usize) -> (&[u8], &[u8]) {
        let place = self.place(from);
        let straight = len.min(self.bytes.len() - place);
        (
            self.bytes.get(place..place + straight).unwrap_or_default(),
            self.bytes.get(..len - straight).unwrap_or_default(),
        )
    }

    /// Appends bytes of a page; there must be room.
    #[inline(always)]
    fn put_from<M: Machine>(&mut self, machine: &M, (frame, offset): (Frame, usize), len: usize) {
        let place = self.place(self.len);
        match self.bytes.get_mut(place..).and_then(|bytes| bytes.get_mut(..len)) {
            Some(straight) => machine.frame_read(frame, offset, straight),
            None => {
                let (first, second) = self.free(len);
                machine.frame_read(frame, offset, first);
                machine.frame_read(frame, offset + first.len(), second);
            }
        }
        self.len += len;
    }

    /// Copies bytes from position `from`, which must exist, into a page.
    #[inline(always)]
    fn show_to<M: Machine>(&self, machine: &mut M, from: usize, (frame, offset): (Frame, usize), len: usize) {
        let place = self.place(from);
        match self.bytes.get(place..).and_then(|bytes| bytes.get(..len)) {
            Some(straight) => machine.frame_write(frame, offset, straight),
            None => {
                let (first, second) = self.part(from, len);
                machine.frame_write(frame, offset, first);
                machine.frame_write(frame, offset + first.len(), second);
            }
        }
    }

    /// Removes the first `len` bytes.
    #[inline]
    pub fn drop_front(&mut self, len: usize) {
        self.first = self.place(len);
        self.len -= len;
        if self.len == 0 {
            self.first = 0;
        }
    }
}

impl<M: Machine> Kernel<M> {
    /// Appends a program's bytes to an object's ring, which must have room; all or none. Returns the object.
    ///
    /// # Errors
    /// As [`Kernel::copy_in`].
    #[inline(always)]
    pub(crate) fn ring_fill<T: HasRingBuffer>(
        &mut self,
        id: Id<T>,
        aspace: Key,
        from: u64,
        len: usize,
    ) -> Result<&mut Object, Status> {
        if let Some(spot) = self.known(aspace, from, len, Access::Read) {
            let object = self.objects.any_mut(id.object())?;
            let ring = T::own_mut(&mut object.body)?.ring().ok_or(Status::INTERNAL)?;
            ring.put_from(&self.machine, spot, len);
            return Ok(object);
        }
        self.ring_fill_pages(id, aspace, from, len)?;
        self.objects.any_mut(id.object())
    }

    #[inline(never)]
    fn ring_fill_pages<T: HasRingBuffer>(
        &mut self,
        id: Id<T>,
        aspace: Key,
        from: u64,
        len: usize,
    ) -> Result<(), Status> {
        let mut done = 0;
        while done < len {
            let at = from.wrapping_add(done as u64);
            let (offset, part) = in_page(at, len - done);
            let found = self.user_page(aspace, at, Access::Read);
            let ring = self.objects.get_mut(id)?.ring().ok_or(Status::INTERNAL)?;
            match found {
                Ok(Some(frame)) => ring.put_from(&self.machine, (frame, offset), part),
                Ok(None) => {
                    let (first, second) = ring.free(part);
                    first.fill(0);
                    second.fill(0);
                    ring.len += part;
                }
                Err(status) => {
                    ring.len -= done;
                    return Err(status);
                }
            }
            done += part;
        }
        Ok(())
    }

    /// Copies the first bytes of an object's ring, which must exist, into a program's memory without removing them.
    /// Returns the object.
    ///
    /// # Errors
    /// As [`Kernel::copy_out`].
    #[inline(always)]
    pub(crate) fn ring_show<T: HasRingBuffer>(
        &mut self,
        id: Id<T>,
        aspace: Key,
        to: u64,
        len: usize,
    ) -> Result<&mut Object, Status> {
        if let Some(spot) = self.known(aspace, to, len, Access::Write) {
            let object = self.objects.any_mut(id.object())?;
            let ring = T::own_mut(&mut object.body)?.ring().ok_or(Status::INTERNAL)?;
            ring.show_to(&mut self.machine, 0, spot, len);
            return Ok(object);
        }
        self.ring_show_pages(id, aspace, to, len)?;
        self.objects.any_mut(id.object())
    }

    #[inline(never)]
    fn ring_show_pages<T: HasRingBuffer>(&mut self, id: Id<T>, aspace: Key, to: u64, len: usize) -> Result<(), Status> {
        let mut done = 0;
        while done < len {
            let at = to.wrapping_add(done as u64);
            let (offset, part) = in_page(at, len - done);
            let frame = self.user_page(aspace, at, Access::Write)?.ok_or(Status::INTERNAL)?;
            let ring = self.objects.get_mut(id)?.ring().ok_or(Status::INTERNAL)?;
            ring.show_to(&mut self.machine, done, (frame, offset), part);
            done += part;
        }
        Ok(())
    }
}

/// Splits an address: its offset in its page, and how many of `left` bytes are in that page.
#[inline(always)]
fn in_page(address: u64, left: usize) -> (usize, usize) {
    let offset = address % PAGE;
    (offset as usize, left.min((PAGE - offset) as usize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use proptest::prelude::*;

    impl RingBuffer {
        fn put(&mut self, bytes: &[u8]) {
            let (first, second) = self.free(bytes.len());
            let (a, b) = bytes.split_at(first.len());
            first.copy_from_slice(a);
            second.copy_from_slice(b);
            self.len += bytes.len();
        }
    }

    proptest! {
        #[test]
        fn behaves_as_a_queue(ops in proptest::collection::vec((0..3u8, 0..100usize), 0..200)) {
            let mut ring = RingBuffer::with_room(10).unwrap();
            let mut model = VecDeque::new();
            for (n, (op, amount)) in ops.into_iter().enumerate() {
                match op {
                    0 => {
                        let bytes: Vec<u8> = (0..amount).map(|i| (n + i) as u8).collect();
                        if ring.room() < bytes.len() {
                            let wanted = ring.wanted(bytes.len());
                            ring.grow_into(std::vec![0; wanted]);
                        }
                        ring.put(&bytes);
                        model.extend(bytes);
                    }
                    1 => {
                        let len = amount.min(ring.len());
                        ring.drop_front(len);
                        model.drain(..len);
                    }
                    _ if ring.len() == 0 => {
                        ring.take_buffer();
                    }
                    _ => {}
                }
                prop_assert_eq!(ring.len(), model.len());
                let (first, second) = ring.part(0, ring.len());
                prop_assert!(first.iter().chain(second).eq(model.iter()));
            }
        }
    }
}
