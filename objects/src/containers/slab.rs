//! Storage in which an entry keeps its number: insertion, look-up and removal in O(1), without a fixed limit.
//!
//! Entries are in chunks that never move, so growth costs one small allocation and no copying. A reused number gets a
//! new generation, so a stale [`Key`] finds no entry instead of a wrong one.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::num::NonZeroU32;

use crate::containers::growth::{Grows, OutOfMemory};

const CHUNK_BITS: u32 = 6;
const CHUNK: usize = 1 << CHUNK_BITS;
const NONE: u32 = u32::MAX;

/// The number of an entry and its generation.
#[derive(Clone, Copy, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(clippy::derived_hash_with_manual_eq, reason = "both look at all there is")]
#[repr(C)]
pub struct Key {
    /// Index in the slab.
    pub index: u32,
    generation: NonZeroU32,
}

impl Key {
    /// The lowest value in the order.
    pub const FIRST: Key = Key { index: 0, generation: NonZeroU32::MIN };

    #[inline(always)]
    pub(crate) fn to_word(self) -> u64 {
        u64::from(self.index) | u64::from(self.generation.get()) << u32::BITS
    }

    pub(crate) fn from_word(word: u64) -> Option<Self> {
        Some(Key { index: word as u32, generation: NonZeroU32::new((word >> u32::BITS) as u32)? })
    }
}

impl PartialEq for Key {
    /// Compares both fields as one word.
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        self.to_word() == other.to_word()
    }
}

enum Slot<T> {
    Free { next: u32 },
    Used(T),
}

struct Cell<T> {
    generation: NonZeroU32,
    slot: Slot<T>,
}

/// See the module's description.
pub struct Slab<T> {
    chunks: Vec<Box<[Cell<T>; CHUNK]>>,
    free: u32,
    len: usize,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { chunks: Vec::new(), free: NONE, len: 0 }
    }
}

impl<T> Slab<T> {
    /// Number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    fn cell(&self, index: u32) -> Option<&Cell<T>> {
        self.chunks.get(index as usize >> CHUNK_BITS)?.get(index as usize & (CHUNK - 1))
    }

    #[inline]
    fn cell_mut(&mut self, index: u32) -> Option<&mut Cell<T>> {
        self.chunks.get_mut(index as usize >> CHUNK_BITS)?.get_mut(index as usize & (CHUNK - 1))
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) -> Result<(), OutOfMemory> {
        let first = u32::try_from(self.chunks.len() << CHUNK_BITS).map_err(|_| OutOfMemory)?;
        if first >= NONE - CHUNK as u32 {
            return Err(OutOfMemory);
        }
        let mut cells = Vec::new();
        cells.room_exact(CHUNK)?;
        for i in 0..CHUNK as u32 {
            let next = if i + 1 < CHUNK as u32 { first + i + 1 } else { self.free };
            cells.push(Cell { generation: NonZeroU32::MIN, slot: Slot::Free { next } });
        }
        self.chunks.room(1)?;
        self.chunks.push(cells.into_boxed_slice().try_into().map_err(|_| OutOfMemory)?);
        self.free = first;
        Ok(())
    }

    /// Inserts an entry.
    #[inline]
    pub fn insert(&mut self, value: T) -> Result<Key, OutOfMemory> {
        if self.free == NONE {
            self.grow()?;
        }
        let index = self.free;
        let Some(cell) = self.cell_mut(index) else { return Err(OutOfMemory) };
        let Slot::Free { next } = cell.slot else { return Err(OutOfMemory) };
        cell.slot = Slot::Used(value);
        let generation = cell.generation;
        self.free = next;
        self.len += 1;
        Ok(Key { index, generation })
    }

    /// The entry with this key, if it still exists.
    #[inline]
    pub fn get(&self, key: Key) -> Option<&T> {
        match self.cell(key.index) {
            Some(Cell { generation, slot: Slot::Used(value) }) if *generation == key.generation => Some(value),
            _ => None,
        }
    }

    /// The entry with this key, mutable.
    #[inline]
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        match self.cell_mut(key.index) {
            Some(Cell { generation, slot: Slot::Used(value) }) if *generation == key.generation => Some(value),
            _ => None,
        }
    }

    /// The current entry with this index, and its key.
    #[inline]
    pub fn at(&self, index: u32) -> Option<(Key, &T)> {
        match self.cell(index) {
            Some(Cell { generation, slot: Slot::Used(value) }) => Some((Key { index, generation: *generation }, value)),
            _ => None,
        }
    }

    /// Removes an entry.
    pub fn remove(&mut self, key: Key) -> Option<T> {
        let free = self.free;
        let cell = self.cell_mut(key.index)?;
        if cell.generation != key.generation || matches!(cell.slot, Slot::Free { .. }) {
            return None;
        }
        cell.generation = cell.generation.checked_add(1).unwrap_or(NonZeroU32::MIN);
        let Slot::Used(value) = core::mem::replace(&mut cell.slot, Slot::Free { next: free }) else { return None };
        self.free = key.index;
        self.len -= 1;
        Some(value)
    }

    /// Removes an entry and drops it in place.
    #[inline]
    pub fn drop_entry(&mut self, key: Key) {
        let free = self.free;
        let Some(cell) = self.cell_mut(key.index) else { return };
        if cell.generation == key.generation && matches!(cell.slot, Slot::Used(_)) {
            cell.generation = cell.generation.checked_add(1).unwrap_or(NonZeroU32::MIN);
            cell.slot = Slot::Free { next: free };
            self.free = key.index;
            self.len -= 1;
        }
    }

    /// Removes an entry whose droppable parts `take` moves out; the rest is not dropped. Does nothing if `take` returns
    /// none.
    #[inline(always)]
    pub fn vacate<R>(&mut self, key: Key, take: impl FnOnce(&mut T) -> Option<R>) -> Option<R> {
        let free = self.free;
        let cell = self.cell_mut(key.index).filter(|cell| cell.generation == key.generation)?;
        let Slot::Used(value) = &mut cell.slot else { return None };
        let taken = take(value)?;
        cell.generation = cell.generation.checked_add(1).unwrap_or(NonZeroU32::MIN);
        core::mem::forget(core::mem::replace(&mut cell.slot, Slot::Free { next: free }));
        self.free = key.index;
        self.len -= 1;
        Some(taken)
    }

    /// All entries, by index.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        self.chunks.iter().flat_map(|c| c.iter()).enumerate().filter_map(|(i, cell)| match &cell.slot {
            Slot::Used(value) => Some((Key { index: i as u32, generation: cell.generation }, value)),
            Slot::Free { .. } => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    #[test]
    fn a_stale_key_finds_nothing() {
        let mut slab = Slab::default();
        let a = slab.insert("a").unwrap();
        assert_eq!(slab.remove(a), Some("a"));
        let b = slab.insert("b").unwrap();
        assert_eq!(a.index, b.index);
        assert_eq!(slab.get(a), None);
        assert_eq!(slab.remove(a), None);
        assert_eq!(slab.get(b), Some(&"b"));
    }

    proptest! {
        #[test]
        fn behaves_as_a_map(ops in proptest::collection::vec((any::<bool>(), any::<u16>()), 0..400)) {
            let mut slab = Slab::default();
            let mut model = BTreeMap::new();
            for (insert, n) in ops {
                if insert {
                    let key = slab.insert(n).unwrap();
                    prop_assert!(model.insert(key, n).is_none());
                } else if let Some((&key, _)) = model.iter().nth(n as usize % model.len().max(1)) {
                    prop_assert_eq!(slab.remove(key), model.remove(&key));
                }
                prop_assert_eq!(slab.len(), model.len());
            }
            for (key, n) in &model {
                prop_assert_eq!(slab.get(*key), Some(n));
            }
            prop_assert_eq!(slab.iter().count(), model.len());
        }
    }
}
