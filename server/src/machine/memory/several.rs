//! Pages whose capabilities stand side by side, mapped and unmapped in one call of the kernel.
//!
//! The first program that sees a page sees it by its spare capability, and spares stand side by side as pages do. Pages
//! that others see already (code of libraries, mostly) are mapped by a *strip*: up to 16 loose slots side by side with
//! copies of the capabilities of so many pages. A strip that maps nothing any more keeps its copies, for whoever maps
//! these pages next. It cannot give anything to anybody by that: what it holds are capabilities of the server's to the
//! server's pages; where a chunk has been cut anew meanwhile, they are gone, and are made again when they are needed.

use super::*;
use objects::containers::growth::Grows;

/// Slots of a strip.
const STRIP: u32 = 16;
/// Pages for which a strip pays.
const WORTH: u32 = 3;
/// The most strips.
const STRIPS: usize = (STRIP_LEAVES * LEAF_SLOTS) as usize / STRIP as usize;

/// Strips, which stand in leaves of their own, from the last one for loose slots downwards.
#[derive(Default)]
pub(super) struct Strips {
    list: Vec<Strip>,
    /// All of them by the first of their pages.
    by_page: BTreeSet<(u32, u32)>,
    leaves: u64,
}

/// See the module's description.
struct Strip {
    /// The first page whose capability it holds.
    first: u32,
    count: u32,
    /// Slots that map a page.
    live: u32,
}

/// How pages that follow each other can be mapped at once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// By their spares: no program sees them.
    Spares,
    /// By a strip: others see them.
    Strip,
}

impl Strips {
    /// The lowest leaf that strips have.
    pub fn lowest(&self, leaf_base: u64) -> u64 {
        leaf_base - self.leaves
    }
}

impl Memory {
    /// As many of some pages, from the first on, as can be mapped in one call of the kernel: their numbers follow each
    /// other in one chunk, and programs see all or none of them.
    pub fn mappable(&self, frames: &[Frame]) -> (u32, By) {
        let Some(&first) = frames.first().filter(|frame| !frame.is_device()) else { return (0, By::Spares) };
        let chunk = &self.chunks[(first.0 / PARTS) as usize];
        let i = first.0 % PARTS;
        let seen = bit(&chunk.mapped, i);
        let (by, most) = if seen { (By::Strip, STRIP) } else { (By::Spares, sys::AT_ONCE as u32) };
        let follows = |(n, frame): &(u32, &Frame)| frame.0 == first.0 + n && bit(&chunk.mapped, i + n) == seen;
        let count = (0..most.min(PARTS - i)).zip(frames).take_while(follows).count() as u32;
        let pays = chunk.kind == Kind::Pages && (by == By::Spares || count >= WORTH);
        (if pays { count } else { 0 }, by)
    }

    /// Maps that many pages from one on into an address space, as [`Memory::mapping_take`] and mapping each would; gives
    /// the slot that maps the first, the others follow. `None` if that cannot be done at once.
    pub fn map_several(
        &mut self,
        first: Frame,
        (count, by): (u32, By),
        (vspace, address): (u64, u64),
        write: bool,
        attributes: sys::Attributes,
    ) -> Option<Result<u64, OutOfMemory>> {
        let own = sys::place(self.slot(first.0, 0));
        let (slot, strip) = match by {
            By::Spares => (self.slot(first.0, PARTS), None),
            By::Strip => {
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

    /// As [`Memory::mapping_give`] for capabilities at slots of a leaf that follow each other and that stay.
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

    /// Which of so many capabilities from a slot on map a page that was written by that mapping.
    pub fn written(&self, first: u64, count: u32) -> u64 {
        sys::pages_written(sys::place(first), count.into())
    }

    /// Whether the capability at a slot stays there when it maps nothing: a spare, or one of a strip.
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

    /// The page whose capability stands at a slot of a strip.
    pub(super) fn strip_frame(&self, slot: u64) -> Option<u32> {
        let strip = self.strip_of(slot)?;
        Some(self.strips.list[strip as usize].first + (slot - self.strip_slot(strip)) as u32)
    }

    /// A strip that maps nothing, for some pages.
    fn strip_take(&mut self, first: u32, count: u32) -> Option<u32> {
        granted(Want::Slot).ok()?;
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
            // One that nobody has in use loses what it held.
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

    /// Shows pages that have just been made in the window, where there is a page table for them.
    pub(super) fn window_show(&self, number: u32, first: u32, count: u32) {
        for i in (first..first + count).step_by(sys::AT_ONCE as usize) {
            let at_once = sys::AT_ONCE.min(u64::from(first + count - i));
            let part = number * PARTS + i;
            let (slot, address) = (self.slot(part, 0), Self::address(Frame(part)));
            let (place, cached) = (sys::place(slot), sys::Caching::WriteBack.not_executed());
            let shown = sys::pages_map(place, place, at_once, sys::OWN_VSPACE, address, true, cached);
            let shown =
                shown.unwrap_or_else(|| (0..at_once).try_for_each(|n| sys::page_map_own(slot + n, address + n * 4096)));
            // All that it takes was there: only a fault of the kernel's could be in the way.
            debug_assert!(shown.is_ok());
        }
    }
}
