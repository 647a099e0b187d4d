//! Pages whose capabilities stand side by side, mapped and unmapped in one call of the kernel.

use super::*;

impl Memory {
    /// As many of some pages, from the first on, as can be mapped in one call of the kernel: their numbers follow each
    /// other in one chunk, and no program sees them.
    pub fn mappable(&self, frames: &[Frame]) -> u32 {
        let Some(&first) = frames.first().filter(|frame| !frame.is_device()) else { return 0 };
        let chunk = &self.chunks[(first.0 / PARTS) as usize];
        let i = first.0 % PARTS;
        let most = (PARTS - i).min(sys::AT_ONCE as u32);
        let follows = |(n, frame): &(u32, &Frame)| frame.0 == first.0 + n && !bit(&chunk.mapped, i + n);
        if chunk.kind != Kind::Pages { 0 } else { (0..most).zip(frames).take_while(follows).count() as u32 }
    }

    /// Maps that many pages from one on into an address space, as [`Memory::mapping_take`] and mapping each would; gives
    /// the slot that maps the first, the others follow. `None` if the kernel cannot do that at once.
    pub fn map_several(
        &mut self,
        first: Frame,
        count: u32,
        (vspace, address): (u64, u64),
        write: bool,
        caching: sys::Caching,
    ) -> Option<Result<u64, OutOfMemory>> {
        let (number, i) = (first.0 / PARTS, first.0 % PARTS);
        let places = (u64::from(i), u64::from(PARTS + i));
        let leaf = self.leaf_base + u64::from(number);
        let mapped = sys::pages_map(leaf, places, count.into(), vspace, address, write, caching)?;
        if mapped.is_err() {
            return Some(Err(OutOfMemory));
        }
        let chunk = &mut self.chunks[number as usize];
        for i in i..i + count {
            set_bit(&mut chunk.spare, i, true);
            set_bit(&mut chunk.mapped, i, true);
        }
        Some(Ok(self.slot(first.0, PARTS)))
    }

    /// As [`Memory::mapping_give`] for capabilities at slots that follow each other, each its page's spare.
    pub fn mappings_give(&mut self, first: u64, count: u32) {
        match count {
            0 => return,
            1 => return self.mapping_give(first),
            _ => {}
        }
        sys::pages_unmap(first >> LEAF_BITS, first % LEAF_SLOTS, count.into());
        let Some(frame) = self.spare_of(first) else { return };
        let chunk = &mut self.chunks[(frame / PARTS) as usize];
        (frame % PARTS..frame % PARTS + count).for_each(|i| set_bit(&mut chunk.mapped, i, false));
    }

    /// Which of so many capabilities from a slot on map a page that was written by that mapping.
    pub fn written(&self, first: u64, count: u32) -> u64 {
        sys::pages_written(first >> LEAF_BITS, first % LEAF_SLOTS, count.into())
    }

    /// Whether the capability at a slot is its page's spare, and so are those that follow in its chunk.
    pub fn is_spare(&self, slot: u64) -> bool {
        self.spare_of(slot).is_some()
    }

    /// Shows pages that have just been made in the window, where there is a page table for them.
    pub(super) fn window_show(&self, number: u32, first: u32, count: u32) {
        let leaf = self.leaf_base + u64::from(number);
        for i in (first..first + count).step_by(sys::AT_ONCE as usize) {
            let at_once = sys::AT_ONCE.min(u64::from(first + count - i));
            let address = Self::address(Frame(number * PARTS + i));
            let place = u64::from(i);
            let cached = sys::Caching::WriteBack;
            let shown = sys::pages_map(leaf, (place, place), at_once, sys::OWN_VSPACE, address, true, cached);
            let shown = shown.unwrap_or_else(|| {
                (0..at_once).try_for_each(|n| sys::page_map_own(leaf_slot(leaf, place + n), address + n * 4096))
            });
            // All that it takes was there: only a fault of the kernel's could be in the way.
            debug_assert!(shown.is_ok());
        }
    }
}
