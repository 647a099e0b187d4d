//! The device's side of a queue.

use alloc::vec::Vec;
use core::sync::atomic::{Ordering, fence};

use crate::memory::{Gone, Memory};
use crate::{DESCRIPTOR, INDIRECT, NEXT, NO_INTERRUPT, NO_NOTIFY, WRITE, avail_event_at, used_event_at, wants_event};

/// Entries of the available ring that are read at a time.
const HEADS: usize = 32;
/// Elements of the used ring that are written at a time.
const ELEMENTS: usize = 64;
/// Size of an element of the used ring in bytes.
const ELEMENT: usize = 8;

/// What is wrong with a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The available index is further ahead than the queue is long.
    Index,
    /// The number of a descriptor is not one of the queue, or of the table.
    Number,
    /// A chain has more descriptors than the queue, or loops.
    Loop,
    /// A table of indirect descriptors has no valid size, is nested, or was not negotiated.
    Indirect,
    /// A descriptor is for the other direction.
    Direction,
    /// A buffer is not in the guest's memory.
    Place,
    /// The memory has gone.
    Memory,
}

impl From<Gone> for Broken {
    fn from(_: Gone) -> Broken {
        Broken::Memory
    }
}

/// Which way the device accesses the buffers of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// It reads them.
    Read,
    /// It writes them.
    Write,
}

/// Where a queue is, by the guest's addresses; its parts are inside of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingPlace {
    /// Number of descriptors, a power of two.
    pub size: u16,
    /// The table of descriptors.
    pub descriptors: u64,
    /// The available ring.
    pub available: u64,
    /// The used ring.
    pub used: u64,
}

/// A buffer, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its address.
    pub at: u64,
    /// Its length in bytes.
    pub len: u32,
}

/// A chain of buffers: the device has a copy of its descriptors, which the guest cannot change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// Its number.
    pub head: u16,
    /// Its buffers, in order. Empty ones are left out.
    pub parts: Vec<Part>,
    /// Bytes of all buffers.
    pub len: u64,
    /// Descriptors that were read for it, also empty ones and the one of a table.
    pub descriptors: u16,
}

/// The device's side of a queue.
#[derive(Clone, Debug)]
pub struct Ring {
    place: RingPlace,
    direction: Direction,
    event_index: bool,
    indirect: bool,
    /// The index of the next chain, and that behind the last one which the driver has made available, as far as known.
    next: u16,
    seen: u16,
    /// Entries of the available ring from `next` on that were read.
    heads: [u16; HEADS],
    first_head: usize,
    known_heads: usize,
    /// The used index that the driver knows, and the one at its last notification.
    used: u16,
    told: u16,
    /// Elements for the used ring that the driver does not know yet.
    done: [u8; ELEMENTS * ELEMENT],
    done_count: usize,
}

/// A descriptor.
struct Descriptor {
    at: u64,
    len: u32,
    flags: u16,
    next: u16,
}

impl Descriptor {
    #[inline]
    fn read<M: Memory>(memory: &M, at: u64) -> Result<Descriptor, Broken> {
        let mut bytes = [0; DESCRIPTOR];
        memory.read(at, &mut bytes)?;
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = bytes;
        Ok(Descriptor {
            at: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            len: u32::from_le_bytes([i, j, k, l]),
            flags: u16::from_le_bytes([m, n]),
            next: u16::from_le_bytes([o, p]),
        })
    }
}

impl Ring {
    /// A queue that begins with this index. `event_index` and `indirect` are the negotiated features.
    pub fn new(place: RingPlace, direction: Direction, base: u16, event_index: bool, indirect: bool) -> Ring {
        Ring {
            place,
            direction,
            event_index,
            indirect,
            next: base,
            seen: base,
            heads: [0; HEADS],
            first_head: 0,
            known_heads: 0,
            used: base,
            told: base,
            done: [0; ELEMENTS * ELEMENT],
            done_count: 0,
        }
    }

    /// The index of the next chain.
    pub fn index(&self) -> u16 {
        self.next
    }

    /// How many chains the driver has made available, at least; looks anew if it knows of none.
    ///
    /// # Errors
    /// [`Broken`].
    #[inline]
    pub fn available<M: Memory>(&mut self, memory: &M) -> Result<u16, Broken> {
        if self.next == self.seen {
            self.look(memory)?;
        }
        Ok(self.seen.wrapping_sub(self.next))
    }

    #[inline]
    fn look<M: Memory>(&mut self, memory: &M) -> Result<(), Broken> {
        let seen = memory.load(self.place.available.wrapping_add(2))?;
        if seen.wrapping_sub(self.next) > self.place.size {
            return Err(Broken::Index);
        }
        // Entries that were read before stay as they were read.
        self.seen = seen;
        Ok(())
    }

    /// The number of the next chain. There is one.
    #[inline]
    fn head<M: Memory>(&mut self, memory: &M) -> Result<u16, Broken> {
        if self.first_head == self.known_heads {
            let slot = self.next & (self.place.size - 1);
            let most = usize::from(self.place.size - slot).min(HEADS);
            let count = usize::from(self.seen.wrapping_sub(self.next)).min(most);
            let mut bytes = [0; HEADS * 2];
            let bytes = &mut bytes[..count * 2];
            memory.read(self.place.available.wrapping_add(4 + 2 * u64::from(slot)), bytes)?;
            let (numbers, _) = bytes.as_chunks::<2>();
            for (head, number) in self.heads.iter_mut().zip(numbers) {
                *head = u16::from_le_bytes(*number);
            }
            (self.first_head, self.known_heads) = (0, count);
        }
        let head = *self.heads.get(self.first_head).ok_or(Broken::Number)?;
        self.first_head += 1;
        self.next = self.next.wrapping_add(1);
        if head < self.place.size { Ok(head) } else { Err(Broken::Number) }
    }

    /// Takes the next chain. Returns false if there is none.
    ///
    /// # Errors
    /// [`Broken`].
    #[inline]
    pub fn pop<M: Memory>(&mut self, memory: &M, chain: &mut Chain) -> Result<bool, Broken> {
        if self.available(memory)? == 0 {
            return Ok(false);
        }
        let head = self.head(memory)?;
        chain.head = head;
        chain.parts.clear();
        chain.len = 0;
        let mut left = self.place.size;
        chain.descriptors = 0;
        self.walk(memory, chain, (self.place.descriptors, self.place.size), head, &mut left, self.indirect)?;
        Ok(true)
    }

    /// Reads the descriptors of a table from `number` on.
    #[inline]
    fn walk<M: Memory>(
        &self,
        memory: &M,
        chain: &mut Chain,
        (table, count): (u64, u16),
        mut number: u16,
        left: &mut u16,
        may_be_indirect: bool,
    ) -> Result<(), Broken> {
        loop {
            if number >= count {
                return Err(Broken::Number);
            }
            *left = left.checked_sub(1).ok_or(Broken::Loop)?;
            chain.descriptors += 1;
            let descriptor = Descriptor::read(memory, table.wrapping_add(u64::from(number) * DESCRIPTOR as u64))?;
            let Descriptor { at, len, flags, next } = descriptor;
            if flags & INDIRECT != 0 {
                if !may_be_indirect || flags & NEXT != 0 || len == 0 || !(len as usize).is_multiple_of(DESCRIPTOR) {
                    return Err(Broken::Indirect);
                }
                let entries =
                    u16::try_from(len as usize / DESCRIPTOR).ok().filter(|entries| *entries <= self.place.size);
                let entries = entries.ok_or(Broken::Indirect)?;
                if !memory.holds(at, len.into()) {
                    return Err(Broken::Place);
                }
                // The descriptor that refers to the table is none of the chain's buffers.
                *left += 1;
                return self.walk(memory, chain, (at, entries), 0, left, false);
            }
            let writes = flags & WRITE != 0;
            if writes != (self.direction == Direction::Write) {
                return Err(Broken::Direction);
            }
            if len > 0 {
                if !memory.holds(at, len.into()) {
                    return Err(Broken::Place);
                }
                chain.parts.push(Part { at, len });
                chain.len += u64::from(len);
            }
            if flags & NEXT == 0 {
                return Ok(());
            }
            number = next;
        }
    }

    /// Puts the last `count` chains back, which were taken and not used: they are the next ones again.
    pub fn put_back(&mut self, count: u16) {
        self.next = self.next.wrapping_sub(count);
        // They are read anew.
        (self.first_head, self.known_heads) = (0, 0);
    }

    /// Gives a chain back, into which `written` bytes were written. The driver learns of it by [`Ring::publish`].
    ///
    /// # Errors
    /// [`Broken`].
    #[inline]
    pub fn push<M: Memory>(&mut self, memory: &M, head: u16, written: u32) -> Result<(), Broken> {
        if self.done_count == ELEMENTS {
            self.write_done(memory)?;
        }
        if let Some(element) = self.done.get_mut(self.done_count * ELEMENT..(self.done_count + 1) * ELEMENT) {
            element[..4].copy_from_slice(&u32::from(head).to_le_bytes());
            element[4..].copy_from_slice(&written.to_le_bytes());
            self.done_count += 1;
        }
        Ok(())
    }

    /// Writes the elements that are waiting, and then the index.
    fn write_done<M: Memory>(&mut self, memory: &M) -> Result<(), Broken> {
        let mut written = 0;
        while written < self.done_count {
            let slot = self.used & (self.place.size - 1);
            let count = usize::from(self.place.size - slot).min(self.done_count - written);
            let bytes = self.done.get(written * ELEMENT..(written + count) * ELEMENT).ok_or(Broken::Number)?;
            memory.write(self.place.used.wrapping_add(4 + ELEMENT as u64 * u64::from(slot)), bytes)?;
            written += count;
            self.used = self.used.wrapping_add(count as u16);
        }
        self.done_count = 0;
        memory.store(self.place.used.wrapping_add(2), self.used)?;
        Ok(())
    }

    /// Tells the driver of the chains that were given back. Returns whether it wants to be notified.
    ///
    /// # Errors
    /// [`Broken`].
    pub fn publish<M: Memory>(&mut self, memory: &M) -> Result<bool, Broken> {
        if self.done_count > 0 {
            self.write_done(memory)?;
        }
        if self.used == self.told {
            return Ok(false);
        }
        // The driver sees the index before this side looks whether it wants a notification.
        fence(Ordering::SeqCst);
        let wanted = if self.event_index {
            let event = memory.load(self.place.available.wrapping_add(used_event_at(self.place.size)))?;
            wants_event(event, self.used, self.told)
        } else {
            memory.load(self.place.available)? & NO_INTERRUPT == 0
        };
        self.told = self.used;
        Ok(wanted)
    }

    /// Asks the driver for no notifications. With an event index, it sends none until the next [`Ring::be_loud`].
    ///
    /// # Errors
    /// [`Broken`].
    pub fn be_quiet<M: Memory>(&mut self, memory: &M) -> Result<(), Broken> {
        if !self.event_index {
            memory.store(self.place.used, NO_NOTIFY)?;
        }
        Ok(())
    }

    /// Asks the driver for a notification of the next chain. Returns whether there are chains already, of which there may
    /// be none.
    ///
    /// # Errors
    /// [`Broken`].
    pub fn be_loud<M: Memory>(&mut self, memory: &M) -> Result<bool, Broken> {
        if self.event_index {
            memory.store(self.place.used.wrapping_add(avail_event_at(self.place.size)), self.next)?;
        } else {
            memory.store(self.place.used, 0)?;
        }
        // The driver sees this before this side looks for the last time.
        fence(Ordering::SeqCst);
        self.look(memory)?;
        Ok(self.seen != self.next)
    }
}
