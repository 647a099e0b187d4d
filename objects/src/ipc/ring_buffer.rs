//! Bytes in the order in which they came, for their reader: what a stream's end or a FIFO's end holds.
//!
//! They lie in a buffer that goes round, so what is read leaves nothing to be moved. Programs' bytes are copied from their
//! pages into the buffer and out of it into their pages, with nothing in between.

use alloc::vec::Vec;

use abi::Status;

use crate::containers::growth::Grows;
use crate::containers::slab::Key;
use crate::core::noun::Noun;
use crate::core::object::{Id, Object};
use crate::kernel::Kernel;
use crate::machine::Access;
use crate::machine::{Frame, Machine, PAGE};

/// The least that a buffer holds.
const LEAST: usize = 256;

/// See the module's description.
#[derive(Default)]
pub(crate) struct RingBuffer {
    /// The buffer: all of it can be used.
    bytes: Vec<u8>,
    first: usize,
    len: usize,
}

/// An object that holds a ring for its reader, if it does.
pub(crate) trait Ringed: Noun {
    fn ring(&mut self) -> Option<&mut RingBuffer>;
}

impl RingBuffer {
    /// A ring for so many bytes, which it has room for from the start.
    pub fn with_room(len: usize) -> Result<Self, Status> {
        let mut bytes = Vec::new();
        bytes.room_exact(len)?;
        bytes.resize(len, 0);
        Ok(RingBuffer { bytes, first: 0, len: 0 })
    }

    /// Bytes to be read.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes that can be put in without growth.
    #[inline]
    pub fn room(&self) -> usize {
        self.bytes.len() - self.len
    }

    /// Bytes that its buffer takes.
    pub fn capacity(&self) -> usize {
        self.bytes.len()
    }

    /// What a larger ring must hold for so many more.
    pub fn wanted(&self, more: usize) -> usize {
        self.len.saturating_add(more).next_power_of_two().max(LEAST)
    }

    /// Moves what there is into a larger buffer; gives back the old one.
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

    /// Takes the buffer away from a ring in which there is nothing.
    pub fn take_buffer(&mut self) -> Vec<u8> {
        self.first = 0;
        core::mem::take(&mut self.bytes)
    }

    /// A place in the buffer that is so far behind its first byte.
    #[inline(always)]
    fn place(&self, after: usize) -> usize {
        let place = self.first + after;
        if place < self.bytes.len() { place } else { place - self.bytes.len() }
    }

    /// So many bytes that are free, behind the last: `len` and no more than there is room for.
    #[inline(always)]
    fn free(&mut self, len: usize) -> (&mut [u8], &mut [u8]) {
        let place = self.place(self.len);
        let straight = len.min(self.bytes.len() - place);
        let (before, behind) = self.bytes.split_at_mut_checked(place).unwrap_or_default();
        (behind.get_mut(..straight).unwrap_or_default(), before.get_mut(..len - straight).unwrap_or_default())
    }

    /// So many bytes from the `from`th on, which there are.
    #[inline(always)]
    fn part(&self, from: usize, len: usize) -> (&[u8], &[u8]) {
        let place = self.place(from);
        let straight = len.min(self.bytes.len() - place);
        (
            self.bytes.get(place..place + straight).unwrap_or_default(),
            self.bytes.get(..len - straight).unwrap_or_default(),
        )
    }

    /// Puts bytes of a page in, for which there is room.
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

    /// Copies bytes from the `from`th on, which there are, into a page.
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

    /// So many of the first bytes have been read.
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
    /// Puts a program's bytes into an object's ring that has room for them; all or none. Gives the object.
    ///
    /// # Errors
    /// As [`Kernel::copy_in`].
    #[inline(always)]
    pub(crate) fn ring_fill<T: Ringed>(
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
    fn ring_fill_pages<T: Ringed>(&mut self, id: Id<T>, aspace: Key, from: u64, len: usize) -> Result<(), Status> {
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

    /// Copies the first bytes of an object's ring, as many as there are at least, into a program's memory. They stay. Gives the
    /// object.
    ///
    /// # Errors
    /// As [`Kernel::copy_out`].
    #[inline(always)]
    pub(crate) fn ring_show<T: Ringed>(
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
    fn ring_show_pages<T: Ringed>(&mut self, id: Id<T>, aspace: Key, to: u64, len: usize) -> Result<(), Status> {
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

/// Where an address lies in its page, and how many of `left` bytes do.
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
