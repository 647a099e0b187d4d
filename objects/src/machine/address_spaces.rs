//! Address spaces of programs.

use super::{Frame, PAGE_SIZE};
pub use crate::arch::layout::{COMPONENT_BASE, KEPT, KEPT_END, USER_BASE, USER_HALF, USER_TOP};
use crate::containers::growth::OutOfMemory;

/// An address space.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Aspace(pub u32);

/// The access for which a page is needed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Reading.
    Read,
    /// Writing.
    Write,
}

/// Access that a mapping allows. A mapping without any access is not made at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Perm {
    /// Loads.
    pub read: bool,
    /// Stores.
    pub write: bool,
    /// Instruction fetches.
    pub execute: bool,
}

impl Perm {
    /// Whether this allows every access that `other` allows.
    pub fn allows(self, other: Perm) -> bool {
        self.read >= other.read && self.write >= other.write && self.execute >= other.execute
    }
}

/// Caching of accesses through a mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Cache {
    /// Cached, as for ordinary memory.
    #[default]
    Cached,
    /// Uncached.
    Uncached,
    /// Uncached and strongly ordered, for device registers.
    UncachedDevice,
    /// Write-combining, for frame buffers.
    WriteCombining,
}

/// Address spaces and their mappings.
///
/// The objects know what is mapped where; the machine only makes mappings. Several address spaces can map one page.
pub trait AddressSpaces {
    /// Creates an empty address space.
    fn aspace_create(&mut self) -> Result<Aspace, OutOfMemory>;
    /// Destroys an address space with all its mappings; the frames stay. No thread is in it any more.
    fn aspace_destroy(&mut self, aspace: Aspace);
    /// Bytes that an address space takes beyond an empty one: for its page tables, and for each mapping of a page that
    /// is mapped more than once, including the page of zeroes.
    fn aspace_bytes(&self, _aspace: Aspace) -> u64 {
        0
    }
    /// Maps a page at a page-aligned address and replaces any mapping there. All mappings of a page should have the
    /// same caching.
    fn map(&mut self, aspace: Aspace, address: u64, frame: Frame, perm: Perm, cache: Cache) -> Result<(), OutOfMemory>;
    /// How many of `pages` pages from an address up can be unmapped or changed for at most the cost of `most` mapped
    /// pages; at least one.
    fn stretch(&self, aspace: Aspace, address: u64, pages: u64, most: u32) -> u64;
    /// Unmaps as many pages from an address up as [`Self::stretch`] returns; returns their number.
    fn unmap_some(&mut self, aspace: Aspace, address: u64, pages: u64, most: u32) -> u64 {
        let some = self.stretch(aspace, address, pages, most);
        self.unmap(aspace, address, some);
        some
    }
    /// Maps pages at consecutive addresses, like [`Self::map`]; fastest where nothing is mapped. After an error,
    /// some of the first ones may be mapped.
    fn map_run(
        &mut self,
        aspace: Aspace,
        address: u64,
        frames: &[Frame],
        perm: Perm,
        cache: Cache,
    ) -> Result<(), OutOfMemory> {
        let mut pages = frames.iter().zip((address..).step_by(PAGE_SIZE));
        pages.try_for_each(|(frame, at)| self.map(aspace, at, *frame, perm, cache))
    }
    /// Whether the machine can tell which pages were written: see [`Self::written`].
    fn knows_written(&self) -> bool {
        false
    }
    /// Which of `pages` pages (at most 64) from an address up the program has written since they were mapped there: a
    /// bitmap, lowest page first. A page that is not mapped counts as not written.
    fn written(&mut self, _aspace: Aspace, _address: u64, _pages: u32) -> u64 {
        0
    }
    /// Whether a page belongs to an aligned group of [`super::LARGE_PAGES`] pages that can be mapped as one large page. The
    /// group stays so until one of its pages is mapped separately, which costs as much as mapping some hundred pages.
    fn frame_is_large(&self, _frame: Frame) -> bool {
        false
    }
    /// Maps a large page at an address that is a multiple of [`super::LARGE_PAGE`] and replaces any mappings in its range. All
    /// small pages of the large page must belong to the mapping.
    fn map_large(
        &mut self,
        _aspace: Aspace,
        _address: u64,
        _first: Frame,
        _perm: Perm,
        _cache: Cache,
    ) -> Result<(), OutOfMemory> {
        Err(OutOfMemory)
    }
    /// Unmaps `pages` pages from a page-aligned address up and skips those that are not mapped. The cost depends only
    /// on the number of mapped pages, not on the length of the range. A mapped large page that the range touches may be
    /// unmapped as a whole.
    fn unmap(&mut self, aspace: Aspace, address: u64, pages: u64);
    /// Removes write and execute access that `within` does not allow from the mapped pages in a range. Costs no more
    /// than [`Self::unmap`]. A mapped large page that the range touches may lose the access as a whole.
    fn protect(&mut self, aspace: Aspace, address: u64, pages: u64, within: Perm);
}
