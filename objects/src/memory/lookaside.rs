//! Lookaside cache of recent address look-ups.
//!
//! Most calls pass addresses in the same few places: a thread's stack, its buffers. A small table caches the frame of
//! each page, so that the walk over mappings and page tables is made once. Only results that the next walk would find
//! again are cached: a page that the VMO itself holds, for which nothing waits, in a mapping that ends only at its own
//! end. Entries are invalidated in two ways:
//!
//! - When a mapping is removed or loses permissions, the entries of its pages ([`Lookaside::forget`]).
//! - When a frame is freed, gets another owner, or moves to another VMO, all entries: [`Lookaside::forget_all`] only
//!   increments the era, and entries of an earlier era are invalid.

use crate::containers::slab::Key;
use crate::machine::Access;
use crate::machine::{Frame, PAGE};

/// Number of entries; a power of two.
const ENTRIES: u64 = 64;

/// No page has this number.
const NO_PAGE: u64 = u64::MAX;

#[derive(Clone, Copy)]
struct Entry {
    page: u64,
    /// The same page number if the page is writable, otherwise [`NO_PAGE`].
    writable: u64,
    aspace: Key,
    frame: Frame,
    /// [`Lookaside::era`] when the entry was made.
    era: u64,
}

/// See the description of the module.
pub(crate) struct Lookaside {
    entries: [Entry; ENTRIES as usize],
    era: u64,
}

/// The index of a page's entry. Stacks and buffers of several threads are at similar distances, so a multiplicative
/// hash takes all bits of the page number into account.
#[inline(always)]
fn place(page: u64) -> usize {
    (page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - ENTRIES.trailing_zeros())) as usize
}

impl Default for Lookaside {
    fn default() -> Self {
        let none = Entry { page: NO_PAGE, writable: NO_PAGE, aspace: Key::FIRST, frame: Frame(0), era: 0 };
        Lookaside { entries: [none; ENTRIES as usize], era: 1 }
    }
}

impl Lookaside {
    /// The frame behind an address, if it is cached.
    #[inline(always)]
    pub fn find(&self, aspace: Key, address: u64, access: Access) -> Option<Frame> {
        let page = address / PAGE;
        let entry = self.entries.get(place(page))?;
        let found = if access == Access::Read { entry.page } else { entry.writable };
        (found == page && entry.era == self.era && entry.aspace == aspace).then_some(entry.frame)
    }

    /// Caches a result. `writable`: the program may write there, and the frame needs no copy first.
    #[inline]
    pub fn keep(&mut self, aspace: Key, address: u64, frame: Frame, writable: bool) {
        let page = address / PAGE;
        if let Some(entry) = self.entries.get_mut(place(page)) {
            let writable = if writable { page } else { NO_PAGE };
            *entry = Entry { page, writable, aspace, frame, era: self.era };
        }
    }

    /// The pages of a range were unmapped in an address space, or lost permissions.
    pub fn forget(&mut self, base: u64, len: u64) {
        let pages = len / PAGE;
        if pages >= ENTRIES {
            return self.forget_all();
        }
        let first = base / PAGE;
        for page in first..first.saturating_add(pages) {
            // Other pages' entries stay, so that the end of one process costs others few of theirs. The address space
            // is not compared: an entry bears the program's, and the mapping may be in the one that it shares.
            if let Some(entry) = self.entries.get_mut(place(page))
                && entry.page == page
            {
                entry.era = 0;
            }
        }
    }

    /// The current era; it changes when earlier results may be invalid.
    #[inline(always)]
    pub fn era(&self) -> u64 {
        self.era
    }

    /// A frame that may be cached is no longer the one that a program should see.
    #[inline]
    pub fn forget_all(&mut self) {
        self.era += 1;
    }

    /// All entries: address space, address, frame, and whether it is writable.
    #[cfg(any(test, feature = "fake"))]
    pub fn known(&self) -> impl Iterator<Item = (Key, u64, Frame, bool)> + '_ {
        let known = self.entries.iter().filter(|entry| entry.era == self.era);
        known.map(|entry| (entry.aspace, entry.page * PAGE, entry.frame, entry.writable == entry.page))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forgetting_a_page_keeps_others_of_the_same_place() {
        let (mut cache, space) = (Lookaside::default(), Key::FIRST);
        let kept = 1_u64 << 20;
        let other = (1..).find(|page| place(*page) == place(kept)).unwrap();
        cache.keep(space, kept * PAGE, Frame(7), true);
        cache.forget(other * PAGE, PAGE);
        assert_eq!(cache.find(space, kept * PAGE, Access::Write), Some(Frame(7)));
        cache.forget(kept * PAGE, PAGE);
        assert_eq!(cache.find(space, kept * PAGE, Access::Read), None);
    }
}
