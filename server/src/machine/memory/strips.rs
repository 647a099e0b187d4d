//! Adjacent page capabilities, mapped and unmapped in one kernel call.
//!
//! The first program that maps a page uses its spare capability, and spares are adjacent as pages are. Pages that are
//! already mapped elsewhere (mostly code of libraries) are mapped by a *strip*: up to 16 adjacent loose slots with
//! copies of these pages' capabilities. A strip that maps nothing keeps its copies for the next mapping of these pages.
//! This gives no program access to anything: the copies are the server's capabilities to the server's pages. If the
//! chunk has been retyped since, the copies were deleted with it, and are made again when they are needed.

use super::*;
use objects::containers::growth::Grows;

/// Slots of a strip.
const STRIP: u32 = 16;
/// Minimum number of pages for which a strip is faster.
const WORTH: u32 = 3;
/// Maximum number of strips.
const STRIPS: usize = (STRIP_LEAVES * LEAF_SLOTS) as usize / STRIP as usize;

/// Strips. They have their own leaves, from the last leaf for loose slots downwards.
#[derive(Default)]
pub(super) struct Strips {
    list: Vec<Strip>,
    /// All strips, by their first page.
    by_page: BTreeSet<(u32, u32)>,
    leaves: u64,
}

/// See the module's description.
struct Strip {
    /// The first page whose capability it holds.
    first: u32,
    count: u32,
    /// Number of slots that map a page.
    live: u32,
}

/// How adjacent pages can be mapped in one kernel call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum MappedBy {
    /// By their spares: no program maps them.
    Spares,
    /// By a strip: they are mapped elsewhere.
    Strip,
}

impl Strips {
    /// The lowest leaf of strips.
    pub fn lowest(&self, leaf_base: u64) -> u64 {
        leaf_base - self.leaves
    }
}

impl Memory {
    /// How many of these pages, from the first on, can be mapped in one kernel call: their numbers are consecutive in
    /// one chunk, and either all or none of them are mapped by programs.
    pub fn mappable(&self, frames: &[Frame]) -> (u32, MappedBy) {
        let Some(&first) = frames.first().filter(|frame| !frame.is_device()) else { return (0, MappedBy::Spares) };
        let chunk = &self.chunks[(first.0 / PARTS) as usize];
        let i = first.0 % PARTS;
        let seen = bit(&chunk.mapped, i);
        let (by, most) = if seen { (MappedBy::Strip, STRIP) } else { (MappedBy::Spares, sys::AT_ONCE as u32) };
        let follows = |(n, frame): &(u32, &Frame)| frame.0 == first.0 + n && bit(&chunk.mapped, i + n) == seen;
        let count = (0..most.min(PARTS - i)).zip(frames).take_while(follows).count() as u32;
        let pays = chunk.kind == Kind::Pages && (by == MappedBy::Spares || count >= WORTH);
        (if pays { count } else { 0 }, by)
    }

    /// Maps `count` pages from `first` on into an address space, as a [`Memory::mapping_take`] and a mapping of each
    /// would. Returns the slot that maps the first; the others follow. `None` if one kernel call cannot do it.
    pub fn map_several(
        &mut self,
        first: Frame,
        (count, by): (u32, MappedBy),
        (vspace, address): (u64, u64),
        write: bool,
        attributes: sys::Attributes,
    ) -> Option<Result<u64, OutOfMemory>> {
        let own = sys::place(self.slot(first.0, 0));
        let (slot, strip) = match by {
            MappedBy::Spares => (self.slot(first.0, PARTS), None),
            MappedBy::Strip => {
                let strip = self.strip_take(first.0, count)?;
                (self.strip_slot(strip), Some(strip))
            }
        };
        let mapped = sys::pages_map(own, sys::place(slot), count.into(), vspace, address, write, attributes)?;
        if mapped.is_err() {
            return Some(Err(OutOfMemory));
        }
        if let Some(strip) = strip.and_then(|strip| self.strips.list.get_mut(strip as usize)) {
            strip.live = count;
            return Some(Ok(slot));
        }
        let chunk = &mut self.chunks[(first.0 / PARTS) as usize];
        for i in first.0 % PARTS..first.0 % PARTS + count {
            set_bit(&mut chunk.spare, i, true);
            set_bit(&mut chunk.mapped, i, true);
        }
        Some(Ok(slot))
    }

    /// As [`Memory::mapping_give`] for capabilities in adjacent slots of a leaf whose capabilities stay.
    pub fn mappings_give(&mut self, first: u64, count: u32) {
        match count {
            0 => return,
            1 => sys::page_unmap(first),
            _ => sys::pages_unmap(sys::place(first), count.into()),
        }
        for slot in first..first + u64::from(count) {
            if let Some(strip) = self.strip_of(slot) {
                self.strips.list[strip as usize].live -= 1;
            } else if let Some(frame) = self.spare_of(slot) {
                set_bit(&mut self.chunks[(frame / PARTS) as usize].mapped, frame % PARTS, false);
            }
        }
    }

    /// Which of `count` capabilities from slot `first` on map a page that was written by that mapping, one bit for
    /// each.
    pub fn written(&self, first: u64, count: u32) -> u64 {
        sys::pages_written(sys::place(first), count.into())
    }

    /// Whether the capability in a slot stays there when it maps nothing: a spare, or one of a strip.
    pub fn stays(&self, slot: u64) -> bool {
        slot >> LEAF_BITS >= self.strips.lowest(self.leaf_base)
    }

    /// The strip that a slot belongs to.
    fn strip_of(&self, slot: u64) -> Option<u32> {
        let leaf = slot >> LEAF_BITS;
        let in_strips = leaf < self.leaf_base && leaf >= self.strips.lowest(self.leaf_base);
        let number = |leaf: u64| (self.leaf_base - 1 - leaf) * LEAF_SLOTS + slot % LEAF_SLOTS;
        in_strips.then(|| (number(leaf) / u64::from(STRIP)) as u32)
    }

    /// The first slot of a strip.
    fn strip_slot(&self, strip: u32) -> u64 {
        let number = u64::from(strip) * u64::from(STRIP);
        leaf_slot(self.leaf_base - 1 - number / LEAF_SLOTS, number % LEAF_SLOTS)
    }

    /// The page whose capability is in a slot of a strip.
    pub(super) fn strip_frame(&self, slot: u64) -> Option<u32> {
        let strip = self.strip_of(slot)?;
        Some(self.strips.list[strip as usize].first + (slot - self.strip_slot(strip)) as u32)
    }

    /// Takes a strip that maps nothing, for `count` pages from `first` on.
    fn strip_take(&mut self, first: u32, count: u32) -> Option<u32> {
        fail_if_planned(MemoryRequest::Slot).ok()?;
        let fits = |&&(_, strip): &&(u32, u32)| {
            self.strips.list.get(strip as usize).is_some_and(|strip| strip.live == 0 && strip.count == count)
        };
        if let Some(&(_, strip)) = self.strips.by_page.range((first, 0)..=(first, u32::MAX)).find(fits) {
            return Some(strip);
        }
        let new = Strip { first, count, live: 0 };
        let number = self.strips.list.len() as u32;
        let strip = if self.strips.list.len() < STRIPS {
            self.strips.list.room(1).ok()?;
            if u64::from(number * STRIP) == self.strips.leaves * LEAF_SLOTS {
                self.leaf_make(self.leaf_base - 1 - self.strips.leaves).ok()?;
                self.strips.leaves += 1;
            }
            self.strips.list.push(new);
            number
        } else {
            // An unused strip loses its copies.
            let strip = self.strips.list.iter().position(|strip| strip.live == 0)? as u32;
            let slot = self.strip_slot(strip);
            let old = core::mem::replace(&mut self.strips.list[strip as usize], new);
            (0..u64::from(old.count)).for_each(|i| sys::delete(slot + i));
            self.strips.by_page.remove(&(old.first, strip));
            strip
        };
        self.strips.by_page.insert((first, strip));
        Some(strip)
    }

    /// Maps newly made pages in the window. Their page table must exist.
    pub(super) fn window_show(&self, number: u32, first: u32, count: u32) {
        for i in (first..first + count).step_by(sys::AT_ONCE as usize) {
            let at_once = sys::AT_ONCE.min(u64::from(first + count - i));
            let part = number * PARTS + i;
            let (slot, address) = (self.slot(part, 0), Self::address(Frame(part)));
            let (place, cached) = (sys::place(slot), sys::Caching::WriteBack.not_executed());
            let shown = sys::pages_map(place, place, at_once, sys::OWN_VSPACE, address, true, cached);
            let shown =
                shown.unwrap_or_else(|| (0..at_once).try_for_each(|n| sys::page_map_own(slot + n, address + n * 4096)));
            // Everything needed exists, so only an error in the kernel could make this fail.
            debug_assert!(shown.is_ok());
        }
    }
}
