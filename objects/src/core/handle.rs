//! Handles: a process's numbers for objects, each with rights.
//!
//! A handle's value combines its index in the process's [`HandleTable`] and a small generation, masked with a secret of
//! the process, so that a value reveals nothing and values of one process are meaningless in another. As in Zircon, the
//! two lowest bits are always set and the highest is never set, so 0 is never a handle. Look-up, insertion and removal
//! are O(1); the table grows in chunks that never move. A handle knows the observers that wait through it, so closing
//! it finds them at once.
//!
//! Source: Zircon's "Handles" concept page; the layout of the value is Hafnon's.

use alloc::boxed::Box;
use alloc::vec::Vec;

use abi::{Rights, Status};

use crate::containers::growth::Grows;
use crate::containers::list::List;
use crate::core::object::ObjectId;
use crate::core::wait::WaitHandle;

mod lookaside;

pub(crate) use lookaside::{HandleLookaside, LookasideEntry};

/// A handle's value as programs see it.
pub type HandleValue = u32;

/// Never a valid handle.
pub const INVALID: HandleValue = 0;

/// A value is reused after 2,048 handles at its index.
const GENERATION_BITS: u32 = 11;
/// A process has at most 262,144 handles, as many as all of Zircon.
const INDEX_BITS: u32 = 18;
const FIXED_BITS: u32 = 3;
const MASK_BITS: u32 = 0x7fff_fffc;
const CHUNK_BITS: u32 = 7;
/// Number of handles by which a table grows.
pub(crate) const CHUNK: usize = 1 << CHUNK_BITS;
/// Bytes that one chunk takes.
pub(crate) const CHUNK_BYTES: u64 = size_of::<[Cell; CHUNK]>() as u64;
const NONE: u32 = u32::MAX;

/// What a handle refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handle {
    /// The object.
    pub object: ObjectId,
    /// The allowed operations.
    pub rights: Rights,
}

#[derive(Clone, Copy)]
enum Slot {
    Free { next: u32 },
    Used { handle: Handle, watchers: List<WaitHandle> },
}

#[derive(Clone, Copy)]
struct Cell {
    generation: u16,
    /// The sole waiter of the object waits through this handle.
    sole_waiter: bool,
    slot: Slot,
}

/// The handle table of a process.
pub struct HandleTable {
    #[allow(clippy::vec_box, reason = "growing the list must not move the cells")]
    chunks: Vec<Box<[Cell; CHUNK]>>,
    free: u32,
    len: u32,
    mask: u32,
    /// Number of chunks allowed: they are charged before the table grows.
    allowed: usize,
}

impl HandleTable {
    /// An empty table whose values are masked with `secret`. It has no room until [`HandleTable::allow`] is called.
    pub fn new(secret: u32) -> Self {
        HandleTable { chunks: Vec::new(), free: NONE, len: 0, mask: secret & MASK_BITS, allowed: 0 }
    }

    /// Number of additional chunks that must be allowed for `count` more handles.
    pub(crate) fn chunks_missing(&self, count: usize) -> usize {
        (self.len as usize).saturating_add(count).div_ceil(CHUNK).saturating_sub(self.allowed)
    }

    /// Allows additional chunks.
    pub fn allow(&mut self, chunks: usize) {
        self.allowed = self.allowed.saturating_add(chunks);
    }

    /// Number of chunks allowed.
    pub(crate) fn allowed(&self) -> usize {
        self.allowed
    }

    /// Number of handles.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are no handles.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline(always)]
    fn encode(&self, index: u32, generation: u16) -> HandleValue {
        let bits = (u32::from(generation) << INDEX_BITS | index) << 2;
        (bits ^ self.mask) | FIXED_BITS
    }

    #[inline]
    fn decode(&self, value: HandleValue) -> Option<(u32, u16)> {
        if value & FIXED_BITS != FIXED_BITS || value >> 31 != 0 {
            return None;
        }
        let bits = ((value ^ self.mask) & MASK_BITS) >> 2;
        Some((bits & ((1 << INDEX_BITS) - 1), (bits >> INDEX_BITS) as u16))
    }

    #[inline]
    fn cell(&self, value: HandleValue) -> Option<&Cell> {
        let (index, generation) = self.decode(value)?;
        let cell = self.chunks.get(index as usize >> CHUNK_BITS)?.get(index as usize & (CHUNK - 1))?;
        (cell.generation == generation).then_some(cell)
    }

    #[inline]
    fn cell_mut(&mut self, value: HandleValue) -> Option<(u32, &mut Cell)> {
        let (index, generation) = self.decode(value)?;
        let cell = self.chunks.get_mut(index as usize >> CHUNK_BITS)?.get_mut(index as usize & (CHUNK - 1))?;
        (cell.generation == generation).then_some((index, cell))
    }

    /// Reserves room for `count` more handles, so that as many insertions cannot fail.
    ///
    /// # Errors
    /// `NO_MEMORY`; `SHOULD_WAIT`: growth must be allowed first. The table is unchanged, or has grown by some chunks.
    pub fn reserve(&mut self, count: usize) -> Result<(), Status> {
        let room = (self.chunks.len() << CHUNK_BITS) - self.len as usize;
        for _ in 0..count.saturating_sub(room).div_ceil(CHUNK) {
            self.grow()?;
        }
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) -> Result<(), Status> {
        if self.chunks.len() >= self.allowed {
            return Err(Status::SHOULD_WAIT);
        }
        let first = self.chunks.len() << CHUNK_BITS;
        if first + CHUNK > 1 << INDEX_BITS {
            return Err(Status::NO_MEMORY);
        }
        let first = first as u32;
        let mut cells = Vec::new();
        cells.room_exact(CHUNK)?;
        for i in 0..CHUNK as u32 {
            let next = if i + 1 < CHUNK as u32 { first + i + 1 } else { self.free };
            cells.push(Cell { generation: 0, sole_waiter: false, slot: Slot::Free { next } });
        }
        self.chunks.room(1)?;
        self.chunks.push(cells.into_boxed_slice().try_into().map_err(|_| Status::NO_MEMORY)?);
        self.free = first;
        Ok(())
    }

    /// Inserts a handle.
    ///
    /// # Errors
    /// `NO_MEMORY`; `SHOULD_WAIT`: growth must be allowed first.
    #[inline]
    pub fn insert(&mut self, handle: Handle) -> Result<HandleValue, Status> {
        if self.free == NONE {
            self.grow()?;
        }
        self.fill(handle)
    }

    /// Whether there is room for `count` handles without growth.
    #[inline(always)]
    pub(crate) fn has_room(&self, count: usize) -> bool {
        // For one handle, a look at the free list is enough.
        if count == 1 { self.free != NONE } else { (self.chunks.len() << CHUNK_BITS) - self.len as usize >= count }
    }

    /// Inserts a handle; there must be room.
    #[inline(always)]
    pub(crate) fn fill(&mut self, handle: Handle) -> Result<HandleValue, Status> {
        let index = self.free;
        let cell = self
            .chunks
            .get_mut(index as usize >> CHUNK_BITS)
            .and_then(|c| c.get_mut(index as usize & (CHUNK - 1)))
            .ok_or(Status::INTERNAL)?;
        let Slot::Free { next } = cell.slot else { return Err(Status::INTERNAL) };
        cell.slot = Slot::Used { handle, watchers: List::default() };
        let generation = cell.generation;
        self.free = next;
        self.len += 1;
        Ok(self.encode(index, generation))
    }

    /// The handle with a value.
    ///
    /// # Errors
    /// `BAD_HANDLE`.
    #[inline]
    pub fn get(&self, value: HandleValue) -> Result<Handle, Status> {
        match self.cell(value) {
            Some(Cell { slot: Slot::Used { handle, .. }, .. }) => Ok(*handle),
            _ => Err(Status::BAD_HANDLE),
        }
    }

    /// The observers that wait through a handle.
    pub(crate) fn watchers(&mut self, value: HandleValue) -> Option<&mut List<WaitHandle>> {
        match self.cell_mut(value) {
            Some((_, Cell { slot: Slot::Used { watchers, .. }, .. })) => Some(watchers),
            _ => None,
        }
    }

    /// Sets whether the sole waiter waits through a handle. Says whether there is such a handle.
    #[inline(always)]
    pub(crate) fn set_sole_waiter(&mut self, value: HandleValue, sole_waiter: bool) -> bool {
        match self.cell_mut(value) {
            Some((_, cell @ Cell { slot: Slot::Used { .. }, .. })) => {
                cell.sole_waiter = sole_waiter;
                true
            }
            _ => false,
        }
    }

    /// The object of a handle through which a sole waiter waits.
    pub(crate) fn sole_waiter(&self, value: HandleValue) -> Option<ObjectId> {
        match self.cell(value) {
            Some(Cell { sole_waiter: true, slot: Slot::Used { handle, .. }, .. }) => Some(handle.object),
            _ => None,
        }
    }

    /// Removes a handle without observers.
    ///
    /// # Errors
    /// `BAD_HANDLE`; `SHOULD_WAIT`: observers wait through it.
    #[inline]
    pub fn remove(&mut self, value: HandleValue) -> Result<Handle, Status> {
        let free = self.free;
        let (index, cell) = self.cell_mut(value).ok_or(Status::BAD_HANDLE)?;
        let Slot::Used { handle, watchers } = cell.slot else { return Err(Status::BAD_HANDLE) };
        if !watchers.is_empty() || cell.sole_waiter {
            return Err(Status::SHOULD_WAIT);
        }
        cell.slot = Slot::Free { next: free };
        cell.generation = (cell.generation + 1) & ((1 << GENERATION_BITS) - 1);
        self.free = index;
        self.len -= 1;
        Ok(handle)
    }

    /// Any handle of the table from an index on, for emptying it. Looks at no free cell once the table is empty.
    pub fn any(&self, from: &mut usize) -> Option<HandleValue> {
        while self.len != 0 && *from < self.chunks.len() << CHUNK_BITS {
            let i = *from;
            let cell = self.chunks.get(i >> CHUNK_BITS)?.get(i & (CHUNK - 1))?;
            if let Slot::Used { .. } = cell.slot {
                return Some(self.encode(i as u32, cell.generation));
            }
            *from += 1;
        }
        None
    }

    /// The handle at an index, with its value, for interruptible walks: the inner option is none for a free cell, the
    /// outer one beyond the last index.
    pub fn at(&self, place: usize) -> Option<Option<(HandleValue, Handle)>> {
        let cell = self.chunks.get(place >> CHUNK_BITS)?.get(place & (CHUNK - 1))?;
        Some(match cell.slot {
            Slot::Used { handle, .. } => Some((self.encode(place as u32, cell.generation), handle)),
            Slot::Free { .. } => None,
        })
    }

    /// All handles with their values, by index.
    pub fn iter(&self) -> impl Iterator<Item = (HandleValue, Handle)> {
        self.chunks.iter().flat_map(|c| c.iter()).enumerate().filter_map(|(i, cell)| match cell.slot {
            Slot::Used { handle, .. } => Some((self.encode(i as u32, cell.generation), handle)),
            Slot::Free { .. } => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    fn handle(n: u32) -> Handle {
        Handle { object: ObjectId::for_test(n), rights: Rights::from_bits_truncate(n) }
    }

    #[test]
    fn values_look_as_zircons() {
        let mut table = HandleTable::new(0xdead_beef);
        table.allow(1 << 16);
        for n in 0..1000 {
            let value = table.insert(handle(n)).unwrap();
            assert_eq!(value & 3, 3);
            assert_eq!(value >> 31, 0);
        }
    }

    #[test]
    fn a_closed_value_is_bad_at_once_and_for_a_while() {
        let mut table = HandleTable::new(0x1234_5678);
        table.allow(1 << 16);
        let value = table.insert(handle(1)).unwrap();
        table.remove(value).unwrap();
        for n in 0..2047 {
            assert_eq!(table.get(value), Err(Status::BAD_HANDLE));
            let other = table.insert(handle(n)).unwrap();
            assert_ne!(other, value);
            table.remove(other).unwrap();
        }
    }

    #[test]
    fn an_empty_table_is_not_searched() {
        let mut table = HandleTable::new(0x1234_5678);
        table.allow(1 << 16);
        let values = [1, 2].map(|n| table.insert(handle(n)).unwrap());
        let mut from = 0;
        for value in values {
            assert_eq!(table.any(&mut from), Some(value));
            table.remove(value).unwrap();
        }
        assert_eq!((table.any(&mut from), from), (None, 1));
    }

    #[test]
    fn another_process_s_value_is_bad() {
        let mut a = HandleTable::new(0x1111_1110);
        a.allow(1 << 16);
        let b = HandleTable::new(0x2222_2220);
        let value = a.insert(handle(1)).unwrap();
        assert_eq!(b.get(value), Err(Status::BAD_HANDLE));
    }

    #[derive(Clone, Debug)]
    enum Op {
        Insert(u32),
        Remove(usize),
        Guess(u32),
        Reserve(u8),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            4 => any::<u32>().prop_map(Op::Insert),
            3 => any::<usize>().prop_map(Op::Remove),
            1 => any::<u32>().prop_map(Op::Guess),
            1 => any::<u8>().prop_map(Op::Reserve),
        ]
    }

    proptest! {
        #[test]
        fn behaves_as_a_map(secret in any::<u32>(), ops in proptest::collection::vec(op(), 0..600)) {
            let mut table = HandleTable::new(secret);
        table.allow(1 << 16);
            let mut model: BTreeMap<u32, Handle> = BTreeMap::new();
            for op in ops {
                match op {
                    Op::Insert(n) => {
                        let value = table.insert(handle(n)).unwrap();
                        prop_assert_ne!(value, INVALID);
                        prop_assert!(model.insert(value, handle(n)).is_none());
                    }
                    Op::Remove(n) if !model.is_empty() => {
                        let (&value, &h) = model.iter().nth(n % model.len()).unwrap();
                        model.remove(&value);
                        prop_assert_eq!(table.remove(value), Ok(h));
                        prop_assert_eq!(table.remove(value), Err(Status::BAD_HANDLE));
                    }
                    Op::Remove(_) => {}
                    Op::Guess(value) => {
                        prop_assert_eq!(table.get(value).ok(), model.get(&value).copied());
                    }
                    Op::Reserve(n) => table.reserve(n as usize).unwrap(),
                }
                prop_assert_eq!(table.len(), model.len());
            }
            prop_assert_eq!(table.iter().collect::<BTreeMap<_, _>>(), model.clone());
            prop_assert!((0..).map_while(|place| table.at(place)).flatten().eq(table.iter()));
            for (value, h) in &model {
                prop_assert_eq!(table.get(*value), Ok(*h));
            }
        }
    }
}
