//! Operations on ranges of a VMO's pages. The cost depends on the number of present pages, not on the size of the
//! range.

use abi::Status;

use super::{AbsentPages, Kind, Vmo, range};
use crate::core::continuation::SLICE_COMMIT_PAGES;
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::Access;
use crate::machine::{LARGE_PAGES, Machine, PAGE, PAGE_SIZE};
use crate::memory::pager::DirtyState;

/// Number of pages committed before the heap is checked for memory for the table.
const STRIDE: u64 = 64;

impl<M: Machine> Kernel<M> {
    /// `ZX_VMO_OP_COMMIT`: commits every page of a range as the VMO's own.
    ///
    /// # Errors
    /// `OUT_OF_RANGE`. `NOT_SUPPORTED`: device memory. `NO_MEMORY`: a part may then be committed, unless it is clear
    /// from the start that there are not enough free pages. As [`Kernel::vmo_page`].
    pub fn vmo_commit(&mut self, id: Id<Vmo>, offset: u64, len: u64) -> Result<(), Status> {
        let r = range(offset, len, self.vmo_size(id)?)?;
        let (id, from) = self.vmo_resolve(id, offset)?;
        if let Kind::Physical { .. } = self.objects.get(id)?.kind {
            return Err(Status::NOT_SUPPORTED);
        }
        self.vmo_commit_pages(id, from / PAGE, (from + (r.end - r.start)).div_ceil(PAGE))
    }

    /// One slice of [`Kernel::vmo_commit`] after `done` pages. Returns the number of pages done, if some are left.
    ///
    /// # Errors
    /// As `vmo_commit`.
    pub fn vmo_commit_slice(&mut self, id: Id<Vmo>, offset: u64, len: u64, done: u64) -> Result<Option<u64>, Status> {
        let (first, end) = (offset / PAGE, offset.saturating_add(len).div_ceil(PAGE));
        if end - first <= SLICE_COMMIT_PAGES {
            return self.vmo_commit(id, offset, len).map(|()| None);
        }
        let size = self.vmo_size(id)?;
        // Skips what the VMO has lost meanwhile.
        let end = if done == 0 { end } else { end.min(size / PAGE) };
        if done == 0 {
            range(offset, len, size)?;
        } else if first + done >= end {
            return Ok(None);
        }
        let (target, from) = self.vmo_resolve(id, first * PAGE)?;
        let vmo = self.objects.get(target)?;
        if matches!(vmo.kind, Kind::Physical { .. }) {
            return Err(Status::NOT_SUPPORTED);
        }
        if vmo.source().is_some() {
            // Pages from a pager are committed once they are supplied.
            self.ahead_keep_open(target);
            let there = self.vmo_require_slice(target, from, (end - first) * PAGE, done * PAGE)?;
            return Ok(there.map(|there| there / PAGE));
        }
        let shift = from / PAGE;
        let (at, end) = (shift + done, shift + (end - first));
        if done == 0 {
            self.vmo_require_pages(target, at..end, Access::Read)?;
            if self.reaper_may_free_frames(end - at) {
                return Ok(Some(0));
            }
            self.vmo_may_commit(target, at, end)?;
        }
        self.ahead_keep_open(target);
        let to = if at.is_multiple_of(LARGE_PAGES) && end - at >= LARGE_PAGES && self.vmo_commit_large(target, at) {
            at + LARGE_PAGES
        } else {
            let to = (at + 1).next_multiple_of(SLICE_COMMIT_PAGES).min(end);
            self.vmo_commit_pages(target, at, to)?;
            to
        };
        Ok(Some(to - shift).filter(|_| to < end))
    }

    /// Whether committing the pages `[first, end)` of a VMO with its own pages can succeed, as far as can be known.
    fn vmo_may_commit(&mut self, id: Id<Vmo>, first: u64, end: u64) -> Result<(), Status> {
        let there = self.objects.get(id)?.pages().map_or(0, |pages| pages.count(first, end));
        let more = end.saturating_sub(first).saturating_sub(there);
        self.may_charge(id.object(), more.saturating_mul(PAGE))?;
        if self.frames_can_be_had(id, more) { Ok(()) } else { Err(Status::NO_MEMORY) }
    }

    /// Commits the pages `[first, end)` of a VMO with its own pages.
    pub(crate) fn vmo_commit_pages(&mut self, id: Id<Vmo>, first: u64, end: u64) -> Result<(), Status> {
        self.ahead_keep_open(id);
        // Requests all pages of a pager at once; they are committed once supplied.
        self.vmo_require_pages(id, first..end, Access::Read)?;
        if self.objects.get(id)?.source().is_some() {
            return Ok(());
        }
        self.vmo_may_commit(id, first, end)?;
        let mut page = first;
        while page < end {
            if page.is_multiple_of(LARGE_PAGES) && end - page >= LARGE_PAGES && self.vmo_commit_large(id, page) {
                page += LARGE_PAGES;
                continue;
            }
            if page.is_multiple_of(STRIDE) {
                self.retry_with_reaper(|kernel| kernel.machine.heap_reserve()).map_err(|_| Status::NO_MEMORY)?;
            }
            self.vmo_page(id, page, Access::Write)?;
            page += 1;
        }
        Ok(())
    }

    /// `ZX_VMO_OP_DECOMMIT`: frees pages; they read as zeroes afterwards.
    ///
    /// # Errors
    /// `INVALID_ARGS`: not whole pages. `OUT_OF_RANGE`. `NOT_SUPPORTED`: it is a clone or has clones, has a source, or
    /// is contiguous or device memory. `BAD_STATE`: pages are pinned.
    pub fn vmo_decommit(&mut self, id: Id<Vmo>, offset: u64, len: u64) -> Result<(), Status> {
        let (target, first, end) = self.vmo_may_decommit(id, offset, len)?;
        self.vmo_drop_pages(target, first, end);
        Ok(())
    }

    /// Checks [`Kernel::vmo_decommit`]; returns the VMO and the pages to free.
    fn vmo_may_decommit(&self, id: Id<Vmo>, offset: u64, len: u64) -> Result<(Id<Vmo>, u64, u64), Status> {
        let (target, from) = self.vmo_resolve(id, offset)?;
        let vmo = self.objects.get(target)?;
        let copied = vmo.clones != 0 || vmo.is_clone && vmo.parent.is_some();
        if copied
            || vmo.kind != Kind::Plain
            || !matches!(vmo.absent_pages, AbsentPages::Zeroes | AbsentPages::Discarded)
        {
            return Err(Status::NOT_SUPPORTED);
        }
        range(offset, len, self.vmo_size(id)?)?;
        if !offset.is_multiple_of(PAGE) || !len.is_multiple_of(PAGE) {
            return Err(Status::INVALID_ARGS);
        }
        let (first, end) = (from / PAGE, (from + len) / PAGE);
        if self.objects.get(target)?.is_pinned(first, end) {
            return Err(Status::BAD_STATE);
        }
        Ok((target, first, end))
    }

    /// One slice of [`Kernel::vmo_decommit`] after `done` bytes. Returns the number of bytes done, if some are left.
    ///
    /// # Errors
    /// As `vmo_decommit`.
    pub fn vmo_decommit_slice(&mut self, id: Id<Vmo>, offset: u64, len: u64, done: u64) -> Result<Option<u64>, Status> {
        let (at, part) = self.to_give_back(id, offset, len, done)?;
        if part < len && done == 0 {
            // The first slice reports the errors of the whole range.
            self.vmo_may_decommit(id, offset, len)?;
        }
        self.vmo_decommit(id, at, part)?;
        Ok(Some(done + part).filter(|&done| part != 0 && done < len))
    }

    /// The next slice of a range whose pages are freed: where, and how many bytes. Absent pages cost nothing, a large
    /// page is never divided, and parts that the VMO has lost meanwhile are skipped.
    fn to_give_back(&self, id: Id<Vmo>, offset: u64, len: u64, done: u64) -> Result<(u64, u64), Status> {
        let (at, mut left) = (offset.wrapping_add(done), len.saturating_sub(done));
        if done != 0 {
            left = left.min(self.vmo_size(id)?.saturating_sub(at));
        }
        let (target, from) = self.vmo_resolve(id, at)?;
        let end = from.saturating_add(left);
        let to = self.vmo_part(target, from / PAGE, end.div_ceil(PAGE));
        Ok((at, to.saturating_mul(PAGE).min(end).saturating_sub(from)))
    }

    /// `ZX_VMO_OP_ZERO`. Frees whole pages where that is allowed.
    ///
    /// # Errors
    /// `OUT_OF_RANGE`. `NOT_SUPPORTED`: device memory. As [`Kernel::vmo_page`].
    pub fn vmo_zero(&mut self, id: Id<Vmo>, offset: u64, len: u64) -> Result<(), Status> {
        let r = range(offset, len, self.vmo_size(id)?)?;
        let (id, from) = self.vmo_resolve(id, offset)?;
        if let Kind::Physical { .. } = self.objects.get(id)?.kind {
            return Err(Status::NOT_SUPPORTED);
        }
        let to = from + (r.end - r.start);
        let whole = from.next_multiple_of(PAGE)..to / PAGE * PAGE;
        if whole.start >= whole.end {
            // The range is within one page, or covers the end of one and the start of the next.
            let middle = whole.start.min(to);
            self.vmo_zero_part(id, from, middle)?;
            return self.vmo_zero_part(id, middle, to);
        }
        self.vmo_zero_part(id, from, whole.start)?;
        self.vmo_zero_part(id, whole.end, to)?;
        self.vmo_zero_pages(id, whole.start / PAGE, whole.end / PAGE)
    }

    /// One slice of [`Kernel::vmo_zero`] after `done` bytes. Returns the number of bytes done, if some are left.
    ///
    /// # Errors
    /// As `vmo_zero`.
    pub fn vmo_zero_slice(&mut self, id: Id<Vmo>, offset: u64, len: u64, done: u64) -> Result<Option<u64>, Status> {
        if done == 0 {
            range(offset, len, self.vmo_size(id)?)?;
            let (target, from) = self.vmo_resolve(id, offset)?;
            if let Some(source) = self.objects.get(target)?.source() {
                self.source_may_zero(target, source, from.div_ceil(PAGE), (from + len) / PAGE)?;
            }
        }
        let (at, part) = self.to_give_back(id, offset, len, done)?;
        self.vmo_zero(id, at, part)?;
        Ok(Some(done + part).filter(|&done| part != 0 && done < len))
    }

    /// Zeroes a part of one page.
    fn vmo_zero_part(&mut self, id: Id<Vmo>, from: u64, to: u64) -> Result<(), Status> {
        if from < to
            && self.vmo_page(id, from / PAGE, Access::Read)?.is_some()
            && let Some(frame) = self.vmo_page(id, from / PAGE, Access::Write)?
        {
            self.machine.frame_zero(frame, (from % PAGE) as usize, (to - from) as usize);
        }
        Ok(())
    }

    /// Makes the pages `[from, to)` read as zeroes.
    fn vmo_zero_pages(&mut self, id: Id<Vmo>, from: u64, to: u64) -> Result<(), Status> {
        if let Some(source) = self.objects.get(id)?.source() {
            return self.source_zero(id, source, from, to);
        }
        let vmo = self.objects.get(id)?;
        if matches!(vmo.absent_pages, AbsentPages::Other { .. }) {
            self.vmo_may_note(id)?;
        }
        let vmo = self.objects.get(id)?;
        if vmo.kind == Kind::Contiguous || vmo.is_pinned(from, to) {
            self.vmo_zero_in_place(id, from, to)?;
            if matches!(self.objects.get(id)?.absent_pages, AbsentPages::Other { .. }) {
                // Pages of the VMO that this clone shows may be mapped.
                self.vmo_unmap_pages(id, from, to);
            }
        } else {
            self.vmo_drop_pages(id, from, to);
        }
        let Vmo { absent_pages, zeroed, .. } = self.objects.get_mut(id)?;
        match absent_pages {
            AbsentPages::Other { end, .. } if to >= *end => *end = (*end).min(from),
            AbsentPages::Other { .. } => zeroed.set(from..to, Some(DirtyState::Zero)),
            AbsentPages::Zeroes | AbsentPages::Discarded | AbsentPages::Device(_) | AbsentPages::Source(_) => {
                return Ok(());
            }
        }
        self.vmo_update_notes_charge(id);
        Ok(())
    }

    /// Zeroes the present pages in `[from, to)` without freeing them, as some may have to stay.
    fn vmo_zero_in_place(&mut self, id: Id<Vmo>, from: u64, to: u64) -> Result<(), Status> {
        let mut at = from;
        while let Some(page) = self.vmo_first_page(id, at, to) {
            if let Some(frame) = self.vmo_page(id, page, Access::Write)? {
                self.machine.frame_zero(frame, 0, PAGE_SIZE);
            }
            at = page + 1;
        }
        Ok(())
    }

    /// Unmaps the pages `[from, to)` and releases their frames.
    pub(crate) fn vmo_drop_pages(&mut self, id: Id<Vmo>, from: u64, to: u64) {
        self.vmo_unmap_pages(id, from, to);
        self.vmo_release_pages(id, from, to);
    }

    /// Releases the frames of pages that are mapped nowhere.
    pub(super) fn vmo_release_pages(&mut self, id: Id<Vmo>, from: u64, to: u64) {
        let Ok(pages) = self.objects.get_mut(id).and_then(|vmo| vmo.pages_mut().ok_or(Status::INTERNAL)) else {
            return;
        };
        let had = pages.len();
        pages.take_all(from, to, |chunk| {
            chunk.frames().for_each(|(_, frame)| self.frames.release(&mut self.machine, frame));
        });
        let gone = had.saturating_sub(pages.len());
        self.discharge(id.object(), gone * PAGE);
        self.pressure_check();
    }
}
