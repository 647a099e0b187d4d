//! Pages of pager-backed VMOs.
//!
//! Such a VMO passes every page look-up to [`Kernel::source_page`]. A page is *present* if the table has an entry for
//! it, or if it is known to be zero: pages by which the VMO has grown, or that were zeroed. Otherwise the pager is
//! asked. The state of a page towards its pager, clean or dirty, is stored in its source ([`crate::memory::pager`]).
//!
//! Clones of the VMO show its pages where they have none of their own: they are its *readers*, and every page unmapped
//! from its mappings is unmapped from theirs, too.

use core::ops::Range;

use abi::Status;

use super::pages::Entry;
use super::{AbsentPages, Vmo};
use crate::containers::slab::Key;
use crate::core::continuation::PAGE_WAIT;
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::Access;
use crate::machine::{Frame, Machine, PAGE};
use crate::memory::pager::Kind;

impl<M: Machine> Kernel<M> {
    /// The frame of a page of a VMO with a source, as [`Kernel::vmo_page`] returns it; the page is within the VMO.
    /// Writing makes the page dirty.
    ///
    /// # Errors
    /// [`PAGE_WAIT`]: it is not present, or may not be written yet. `BAD_STATE`: and no pager can change that.
    /// `NO_MEMORY`.
    pub(crate) fn source_page(
        &mut self,
        id: Id<Vmo>,
        source: Key,
        page: u64,
        access: Access,
    ) -> Result<Option<Frame>, Status> {
        let vmo = self.objects.get(id)?;
        let entry = vmo.pages().ok_or(Status::INTERNAL)?.get(page);
        let (shown, has_readers) = (vmo.zero_mapped, !vmo.readers.is_empty());
        match (entry, access) {
            (Entry::Frame(frame), Access::Read) => return Ok(Some(frame)),
            (Entry::Zero, Access::Read) => return Ok(None),
            _ => self.source_require(id, source, page..page + 1, access)?,
        }
        if access == Access::Read {
            return Ok(None);
        }
        self.vmo_may_note(id)?;
        let frame = match entry {
            Entry::Frame(frame) if !self.frames.is_shared(frame) => frame,
            Entry::Frame(frame) => self.vmo_page_new_frame(id, page, Some(frame))?,
            Entry::Zero | Entry::Absent => {
                let frame = self.vmo_page_new_frame(id, page, None)?;
                if shown || has_readers {
                    // Mappings of the page of zeroes there must fault again.
                    self.vmo_unmap_pages(id, page, page + 1);
                }
                frame
            }
        };
        self.source_written(source, page);
        self.vmo_update_notes_charge(id);
        Ok(Some(frame))
    }

    /// Whether a VMO, or the VMO whose pages it shows, is pager-backed.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn vmo_is_paged(&self, id: Id<Vmo>) -> Result<bool, Status> {
        let (target, _) = self.vmo_resolve(id, 0)?;
        Ok(matches!(self.objects.get(target)?.absent_pages, AbsentPages::Source(_) | AbsentPages::Other { .. }))
    }

    /// Whether a page of a VMO with a source may be mapped writable without asking the source first.
    pub(crate) fn source_allows_write(&self, source: Key, page: u64) -> bool {
        self.sources.get(source).is_some_and(|source| source.may_write(page))
    }

    /// Ensures that every page of a range is present. If not, requests the first contiguous range of missing pages.
    ///
    /// # Errors
    /// [`PAGE_WAIT`]. `BAD_STATE`: there is no pager to ask. `OUT_OF_RANGE`: the range overflows.
    pub fn vmo_require(&mut self, id: Id<Vmo>, offset: u64, len: u64, access: Access) -> Result<(), Status> {
        let (id, from) = self.vmo_resolve(id, offset)?;
        let to = from.checked_add(len).ok_or(Status::OUT_OF_RANGE)?;
        self.vmo_require_pages(id, from / PAGE..to.div_ceil(PAGE), access)
    }

    /// Like [`Kernel::vmo_require`] for pages of a VMO with its own pages.
    pub(super) fn vmo_require_pages(&mut self, id: Id<Vmo>, pages: Range<u64>, access: Access) -> Result<(), Status> {
        let vmo = self.objects.get(id)?;
        match vmo.absent_pages {
            AbsentPages::Zeroes | AbsentPages::Discarded | AbsentPages::Device(_) => Ok(()),
            AbsentPages::Source(source) => {
                let end = pages.end.min(vmo.size / PAGE);
                self.source_require(id, source, pages.start..end, access)
            }
            AbsentPages::Other { vmo: other, from, end } => {
                let mut at = pages.start;
                let to = pages.end.min(end);
                while let Some(gap) = self.objects.get(id)?.pages().and_then(|table| table.gap(at, to)) {
                    let gap = match self.objects.get(id)?.zeroed.first(gap.clone()) {
                        Some((zeroed, _)) if zeroed.start == gap.start => {
                            at = zeroed.end;
                            continue;
                        }
                        Some((zeroed, _)) => gap.start..zeroed.start,
                        None => gap,
                    };
                    at = gap.end;
                    self.vmo_require_pages(other, gap.start + from..gap.end + from, Access::Read)?;
                }
                Ok(())
            }
        }
    }

    /// The same for pages of a VMO with a source; all of them are within it.
    fn source_require(&mut self, id: Id<Vmo>, key: Key, pages: Range<u64>, access: Access) -> Result<(), Status> {
        let absent = self.source_absent(id, key, pages.clone())?;
        let source = self.sources.get(key).ok_or(Status::BAD_STATE)?;
        let there = pages.start..absent.as_ref().map_or(pages.end, |absent| absent.start);
        let (kind, wanted) = match access {
            Access::Write if let Some(clean) = source.first_trapped(there) => (Kind::Dirty, clean),
            _ => match absent {
                Some(absent) => (Kind::Read, absent),
                None => return Ok(()),
            },
        };
        if source.is_detached() {
            return Err(Status::BAD_STATE);
        }
        self.page_wait_record(key, kind, wanted);
        Err(PAGE_WAIT)
    }

    /// The first contiguous range of absent pages within a range.
    pub(crate) fn source_absent(&self, id: Id<Vmo>, key: Key, pages: Range<u64>) -> Result<Option<Range<u64>>, Status> {
        let table = self.objects.get(id)?.pages().ok_or(Status::INTERNAL)?;
        let dirt = &self.sources.get(key).ok_or(Status::BAD_STATE)?.dirt;
        let mut at = pages.start;
        while let Some(gap) = table.gap(at, pages.end) {
            // The only record of a page outside the table is that it is zero.
            match dirt.first(gap.clone()) {
                None => return Ok(Some(gap)),
                Some((zero, _)) if zero.start > gap.start => return Ok(Some(gap.start..zero.start)),
                Some((zero, _)) => at = zero.end,
            }
        }
        Ok(None)
    }

    /// The size of a VMO changes to `size` pages. Pages by which a VMO with a source grows are zero. Pages that its
    /// readers showed beyond a smaller size are zeroes from then on, and nothing waits for them any more.
    pub(crate) fn source_resized(&mut self, id: Id<Vmo>, old: u64, size: u64) {
        let Ok(vmo) = self.objects.get(id) else { return };
        if let AbsentPages::Source(key) = vmo.absent_pages {
            self.source_set_size(id, key, old, size);
        }
        if size >= old {
            return;
        }
        let Ok(vmo) = self.objects.get(id) else { return };
        let mut next = self.objects.after(vmo.readers, None);
        while let Some(reader) = next {
            if let Ok(Vmo { absent_pages: AbsentPages::Other { from, end, .. }, .. }) =
                self.objects.get_mut(Id::new(reader))
            {
                *end = (*end).min(size.saturating_sub(*from));
            }
            let Ok(vmo) = self.objects.get(id) else { return };
            next = self.objects.after(vmo.readers, Some(reader));
        }
    }

    /// Makes the pages `[from, to)` of a VMO with a source read as zeroes.
    ///
    /// # Errors
    /// As [`Kernel::vmo_require`].
    pub(super) fn source_zero(&mut self, id: Id<Vmo>, key: Key, from: u64, to: u64) -> Result<(), Status> {
        self.source_may_zero(id, key, from, to)?;
        self.vmo_may_note(id)?;
        self.vmo_drop_pages(id, from, to);
        self.source_zeroed(key, from..to);
        self.vmo_update_notes_charge(id);
        Ok(())
    }

    /// Whether the pages can be zeroed without a wait.
    ///
    /// # Errors
    /// As [`Kernel::source_zero`].
    pub(super) fn source_may_zero(&mut self, id: Id<Vmo>, key: Key, from: u64, to: u64) -> Result<(), Status> {
        if from < to && self.sources.get(key).is_some_and(|source| source.traps()) {
            self.source_require(id, key, from..to, Access::Write)?;
        }
        Ok(())
    }

    /// Evicts some clean pages of a detached source. Says whether there were any pages to look at.
    pub(crate) fn source_evict_some(&mut self, id: Id<Vmo>, key: Key) -> bool {
        let Some(from) = self.sources.get(key).map(|source| source.evicted).filter(|&from| from < u64::MAX) else {
            return false;
        };
        let to = self.vmo_part(id, from, u64::MAX);
        // Mappings of the remaining pages fault again.
        self.vmo_unmap_pages(id, from, to);
        let mut at = from;
        while at < to
            && let Some(source) = self.sources.get(key)
        {
            let dirty = source.dirt.first(at..to).map_or(to..to, |(dirty, _)| dirty);
            if at < dirty.start {
                self.vmo_release_pages(id, at, dirty.start);
            }
            at = dirty.end;
        }
        if let Some(source) = self.sources.get_mut(key) {
            source.evicted = to;
        }
        self.vmo_update_notes_charge(id);
        true
    }

    /// Moves pages from a plain VMO to absent pages of a VMO with a source, from page `to` up. The plain VMO loses all
    /// pages of the range.
    ///
    /// # Errors
    /// `NO_MEMORY`: some pages may have been moved.
    pub(crate) fn source_supply(
        &mut self,
        id: Id<Vmo>,
        key: Key,
        to: Range<u64>,
        (aux, from): (Id<Vmo>, u64),
    ) -> Result<(), Status> {
        let count = to.end - to.start;
        self.vmo_may_note(id)?;
        self.ahead_reclaim_vmo(aux);
        self.vmo_unmap_pages(aux, from, from + count);
        let mut result = Ok(());
        let mut at = to.start;
        while result.is_ok()
            && let Some(absent) = self.source_absent(id, key, at..to.end)?
        {
            at = absent.start;
            while at < absent.end && result.is_ok() {
                result = self.source_supply_page(id, at, aux, from + (at - to.start));
                at += u64::from(result.is_ok());
            }
            self.source_filled(key, Kind::Read, absent.start, at);
        }
        // Pages that could not be moved stay, so that the pager can try again.
        let moved = if result.is_ok() { count } else { at - to.start };
        self.vmo_drop_pages(aux, from, from + moved);
        self.vmo_update_notes_charge(id);
        result
    }

    fn source_supply_page(&mut self, id: Id<Vmo>, page: u64, aux: Id<Vmo>, from: u64) -> Result<(), Status> {
        self.machine.heap_reserve().map_err(|_| Status::NO_MEMORY)?;
        self.may_charge(id.object(), PAGE)?;
        let pages = self.objects.get_mut(id)?.pages_mut().ok_or(Status::INTERNAL)?;
        pages.reserve(page).map_err(|_| Status::NO_MEMORY)?;
        let there = self.objects.get(aux)?.pages().map(|pages| pages.get(from));
        let frame = match there {
            Some(Entry::Frame(frame)) if self.frames.is_shared(frame) => {
                let copy = self.machine.frame_alloc().map_err(|_| Status::NO_MEMORY)?;
                self.machine.frame_copy(frame, copy);
                Some(copy)
            }
            Some(Entry::Frame(frame)) => {
                self.objects.get_mut(aux)?.pages_mut().and_then(|pages| pages.take(from, from + 1));
                self.frames.lookaside.forget_all();
                self.discharge(aux.object(), PAGE);
                Some(frame)
            }
            _ => None,
        };
        let pages = self.objects.get_mut(id)?.pages_mut().ok_or(Status::INTERNAL)?;
        match frame {
            Some(frame) => {
                let _ = pages.set(page, frame);
                self.charge(id.object(), PAGE);
            }
            None => pages.set_zero(page).map_err(|_| Status::NO_MEMORY)?,
        }
        Ok(())
    }

    /// Whether pages of a VMO can be moved into a pager-backed one; returns the VMO that has them, and the first page.
    ///
    /// # Errors
    /// `NOT_SUPPORTED`: it is not plain memory. `BAD_STATE`: some pages are pinned.
    pub(crate) fn source_aux(&self, aux: Id<Vmo>, offset: u64, pages: u64) -> Result<(Id<Vmo>, u64), Status> {
        let (target, from) = self.vmo_resolve(aux, offset)?;
        let (vmo, from) = (self.objects.get(target)?, from / PAGE);
        if !matches!(vmo.absent_pages, AbsentPages::Zeroes) || vmo.kind != super::Kind::Plain {
            return Err(Status::NOT_SUPPORTED);
        }
        if vmo.is_pinned(from, from.saturating_add(pages)) {
            return Err(Status::BAD_STATE);
        }
        Ok((target, from))
    }

    /// Unmaps pages that were known to be zero and no longer are.
    pub(crate) fn source_forget_zeroes(&mut self, id: Id<Vmo>, pages: Range<u64>) {
        self.vmo_unmap_pages(id, pages.start, pages.end);
    }
}

impl Vmo {
    /// The source of a pager-backed VMO.
    pub(crate) fn source(&self) -> Option<Key> {
        match self.absent_pages {
            AbsentPages::Source(source) => Some(source),
            _ => None,
        }
    }
}
