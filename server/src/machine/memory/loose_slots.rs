//! Loose slots: slots for capabilities without a fixed place.
//!
//! There is one for about 256 bytes of memory. A further mapping of a page takes one, and its process is charged that
//! much ([`Memory::slot_price`]). Leaves are created when they are needed, and stay.

use alloc::boxed::Box;

use super::*;

/// Slots that are allocated one by one.
pub(super) struct LooseSlots {
    /// For each leaf, for each slot that was ever allocated: the page that it maps, if it maps one, or, while it is
    /// free, the number of the next free slot.
    notes: Vec<Box<[u32]>>,
    /// Number of the first free slot.
    free: u32,
    /// Number of free slots.
    pub count: u64,
    /// Number of slots that map a page.
    pub mapping: u64,
    /// The next slot that was never allocated.
    pub next: u64,
    end: u64,
    leaf: u64,
}

impl Default for LooseSlots {
    fn default() -> Self {
        LooseSlots { notes: Vec::new(), free: NONE, count: 0, mapping: 0, next: 0, end: 0, leaf: LOOSE_LEAF }
    }
}

impl LooseSlots {
    /// Number of a slot.
    pub fn number(slot: u64) -> u32 {
        (slot - leaf_slot(LOOSE_LEAF, 0)) as u32
    }

    /// The entry for a slot.
    pub fn note(&mut self, number: u32) -> &mut u32 {
        &mut self.notes[number as usize / LEAF_SLOTS as usize][number as usize % LEAF_SLOTS as usize]
    }

    /// The page that a slot maps.
    #[inline]
    pub fn frame(&self, slot: u64) -> u32 {
        let number = Self::number(slot) as usize;
        self.notes[number / LEAF_SLOTS as usize][number % LEAF_SLOTS as usize]
    }

    /// Makes room for the entries of a leaf's slots. There is room for all of them, so freeing slots cannot fail.
    fn make_room(&mut self) -> Result<(), OutOfMemory> {
        if self.notes.len() as u64 <= self.leaf - LOOSE_LEAF {
            let mut leaf = Vec::new();
            leaf.room_exact(LEAF_SLOTS as usize)?;
            leaf.resize(LEAF_SLOTS as usize, 0);
            self.notes.room(1)?;
            self.notes.push(leaf.into_boxed_slice());
        }
        Ok(())
    }
}

impl Memory {
    /// Number of loose slots that [`Memory::mapping_take`] and [`Memory::large_take`] have allocated.
    #[inline]
    pub fn mapping_slots(&self) -> u64 {
        self.loose.mapping
    }

    /// The charge for such a slot, in bytes. If all slots are taken, all memory has been charged.
    #[inline]
    pub fn slot_price(&self) -> u64 {
        self.slot_price
    }

    /// An empty slot.
    pub fn slot_alloc(&mut self) -> Result<u64, OutOfMemory> {
        fail_if_planned(MemoryRequest::Slot)?;
        if self.loose.free != NONE {
            let number = self.loose.free;
            self.loose.free = *self.loose.note(number);
            self.loose.count -= 1;
            return Ok(leaf_slot(LOOSE_LEAF, 0) + u64::from(number));
        }
        if self.loose.next == self.loose.end {
            if self.loose.leaf >= self.leaf_base - STRIP_LEAVES {
                return Err(OutOfMemory);
            }
            self.loose.make_room()?;
            self.leaf_make(self.loose.leaf)?;
            self.loose.next = leaf_slot(self.loose.leaf, 0);
            self.loose.end = self.loose.next + LEAF_SLOTS;
            self.loose.leaf += 1;
        }
        self.loose.next += 1;
        Ok(self.loose.next - 1)
    }

    /// Marks `count` allocated slots as permanent.
    pub fn slots_keep(&mut self, count: usize) {
        self.kept += count as u64;
    }

    /// Frees an empty slot.
    pub fn slot_free(&mut self, slot: u64) {
        let number = LooseSlots::number(slot);
        let next = core::mem::replace(&mut self.loose.free, number);
        *self.loose.note(number) = next;
        self.loose.count += 1;
    }
}
