//! The driver's side of a queue, for programs that are guests. It believes its device no more than it must: what it reads
//! of the used ring selects its own records.

use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{Ordering, fence};

use crate::memory::{Gone, Memory};
use crate::{
    DESCRIPTOR, INDIRECT, NEXT, NO_INTERRUPT, NO_NOTIFY, RingPlace, WRITE, avail_event_at, used_event_at, wants_event,
};

/// A buffer of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Its address.
    pub at: u64,
    /// Its length in bytes.
    pub len: u32,
    /// Whether the device writes to it.
    pub write: bool,
}

/// The driver's side of a queue.
#[derive(Debug)]
pub struct DriverRing {
    place: RingPlace,
    event_index: bool,
    free: Vec<u16>,
    /// For each head that the device has: its descriptors.
    chains: Vec<Vec<u16>>,
    /// The next index of the available ring, the one that the device knows, and the one at its last notification.
    next: u16,
    told: u16,
    used: u16,
}

impl DriverRing {
    /// Bytes that the parts of a queue of this size take, one behind the other.
    pub fn bytes(size: u16) -> u64 {
        let size = u64::from(size);
        (16 * size + 6 + 2 * size).next_multiple_of(4) + 6 + 8 * size
    }

    /// A queue of this size, a power of two, at an address that is a multiple of 16. The memory there is zero.
    pub fn new(at: u64, size: u16, event_index: bool) -> DriverRing {
        let available = at + 16 * u64::from(size);
        let used = (available + 6 + 2 * u64::from(size)).next_multiple_of(4);
        let place = RingPlace { size, descriptors: at, available, used };
        let free = (0..size).rev().collect();
        DriverRing { place, event_index, free, chains: vec![Vec::new(); size.into()], next: 0, told: 0, used: 0 }
    }

    /// Where its parts are.
    pub fn place(&self) -> RingPlace {
        self.place
    }

    /// Number of free descriptors.
    pub fn room(&self) -> usize {
        self.free.len()
    }

    fn describe<M: Memory>(memory: &M, at: u64, buffer: (u64, u32), flags: u16, next: u16) -> Result<(), Gone> {
        let mut bytes = [0; DESCRIPTOR];
        bytes[..8].copy_from_slice(&buffer.0.to_le_bytes());
        bytes[8..12].copy_from_slice(&buffer.1.to_le_bytes());
        bytes[12..14].copy_from_slice(&flags.to_le_bytes());
        bytes[14..].copy_from_slice(&next.to_le_bytes());
        memory.write(at, &bytes)
    }

    /// Makes a chain available, with its descriptors in `table` if there is one, which has room for them. Returns its
    /// number; `None` if there are too few descriptors. The device learns of it by [`DriverRing::publish`].
    ///
    /// # Errors
    /// [`Gone`].
    pub fn add<M: Memory>(&mut self, memory: &M, buffers: &[Buffer], table: Option<u64>) -> Result<Option<u16>, Gone> {
        let needed = if table.is_some() { 1 } else { buffers.len() };
        if needed == 0 || self.free.len() < needed {
            return Ok(None);
        }
        let mut numbers = self.free.split_off(self.free.len() - needed);
        numbers.reverse();
        let head = numbers[0];
        let entry = |table: u64, number: u16| table + DESCRIPTOR as u64 * u64::from(number);
        for (at, buffer) in buffers.iter().enumerate() {
            let write = if buffer.write { WRITE } else { 0 };
            let next = if at + 1 < buffers.len() { NEXT } else { 0 };
            let (place, following) = match table {
                Some(table) => (entry(table, at as u16), at as u16 + 1),
                None => (entry(self.place.descriptors, numbers[at]), numbers.get(at + 1).copied().unwrap_or(0)),
            };
            DriverRing::describe(memory, place, (buffer.at, buffer.len), write | next, following)?;
        }
        if let Some(table) = table {
            let bytes = (buffers.len() * DESCRIPTOR) as u32;
            DriverRing::describe(memory, entry(self.place.descriptors, head), (table, bytes), INDIRECT, 0)?;
        }
        let slot = u64::from(self.next & (self.place.size - 1));
        memory.write(self.place.available + 4 + 2 * slot, &head.to_le_bytes())?;
        self.next = self.next.wrapping_add(1);
        self.chains[usize::from(head)] = numbers;
        Ok(Some(head))
    }

    /// Tells the device of the chains. Returns whether it wants to be notified.
    ///
    /// # Errors
    /// [`Gone`].
    pub fn publish<M: Memory>(&mut self, memory: &M) -> Result<bool, Gone> {
        if self.next == self.told {
            return Ok(false);
        }
        memory.store(self.place.available + 2, self.next)?;
        fence(Ordering::SeqCst);
        let wanted = if self.event_index {
            wants_event(memory.load(self.place.used + avail_event_at(self.place.size))?, self.next, self.told)
        } else {
            memory.load(self.place.used)? & NO_NOTIFY == 0
        };
        self.told = self.next;
        Ok(wanted)
    }

    /// Takes a chain that the device has given back, and the bytes that it wrote. A number that is none of those which the
    /// device has comes back as `None` in the pair.
    ///
    /// # Errors
    /// [`Gone`].
    pub fn take<M: Memory>(&mut self, memory: &M) -> Result<Option<(Option<u16>, u32)>, Gone> {
        if memory.load(self.place.used + 2)? == self.used {
            return Ok(None);
        }
        let slot = u64::from(self.used & (self.place.size - 1));
        let mut bytes = [0; 8];
        memory.read(self.place.used + 4 + 8 * slot, &mut bytes)?;
        self.used = self.used.wrapping_add(1);
        let [a, b, c, d, e, f, g, h] = bytes;
        let written = u32::from_le_bytes([e, f, g, h]);
        let head = u16::try_from(u32::from_le_bytes([a, b, c, d])).ok();
        let Some(chain) =
            head.and_then(|head| self.chains.get_mut(usize::from(head))).filter(|chain| !chain.is_empty())
        else {
            return Ok(Some((None, written)));
        };
        self.free.append(chain);
        Ok(Some((head, written)))
    }

    /// Asks the device for no notifications.
    ///
    /// # Errors
    /// [`Gone`].
    pub fn be_quiet<M: Memory>(&self, memory: &M) -> Result<(), Gone> {
        if self.event_index { Ok(()) } else { memory.store(self.place.available, NO_INTERRUPT) }
    }

    /// Asks the device for a notification after it has given back `after` more chains. Returns whether it has given back
    /// some already.
    ///
    /// # Errors
    /// [`Gone`].
    pub fn be_loud<M: Memory>(&self, memory: &M, after: u16) -> Result<bool, Gone> {
        if self.event_index {
            memory.store(self.place.available + used_event_at(self.place.size), self.used.wrapping_add(after))?;
        } else {
            memory.store(self.place.available, 0)?;
        }
        fence(Ordering::SeqCst);
        let given = memory.load(self.place.used + 2)?.wrapping_sub(self.used);
        Ok(given > after)
    }
}
