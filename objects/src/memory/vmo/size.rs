//! Size of a VMO, and size of its content.

use abi::Status;

use super::{AbsentPages, Backing, Vmo, round_up};
use crate::core::continuation::{PAGES_PER_OBJECT, SLICE_FREE_PAGES};
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::{Machine, PAGE};

impl<M: Machine> Kernel<M> {
    /// `vmo_set_size`. Pages beyond the new end are freed; accesses there fault.
    ///
    /// # Errors
    /// `UNAVAILABLE`: not resizable. `OUT_OF_RANGE`: too large. `BAD_STATE`: pages to be cut off are pinned.
    /// `NO_MEMORY`: the job's quota has no room for the new notes.
    pub fn vmo_set_size(&mut self, id: Id<Vmo>, size: u64) -> Result<(), Status> {
        if !self.objects.get(id)?.resizable {
            return Err(Status::UNAVAILABLE);
        }
        let rounded = round_up(size)?;
        let (id, _) = self.vmo_resolve(id, 0)?;
        let old = self.objects.get(id)?.size;
        if rounded > old && self.objects.get(id)?.source().is_some() {
            self.vmo_may_note(id)?;
        }
        if rounded < old {
            if self.objects.get(id)?.is_pinned(rounded / PAGE, old / PAGE) {
                return Err(Status::BAD_STATE);
            }
            self.vmo_drop_pages(id, rounded / PAGE, old / PAGE);
        }
        let vmo = self.objects.get_mut(id)?;
        vmo.size = rounded;
        vmo.content_size = size;
        if let AbsentPages::Other { end, .. } = &mut vmo.absent_pages {
            // What was cut off does not reappear when the VMO grows.
            *end = (*end).min(rounded / PAGE);
        }
        self.source_resized(id, old / PAGE, rounded / PAGE);
        self.vmo_update_notes_charge(id);
        Ok(())
    }

    /// One slice of [`Kernel::vmo_set_size`]: cuts pages off from the end, so other threads see the VMO shrink
    /// gradually. Says whether more is left.
    ///
    /// # Errors
    /// As `vmo_set_size`.
    pub fn vmo_set_size_slice(&mut self, id: Id<Vmo>, size: u64) -> Result<bool, Status> {
        let rounded = round_up(size)?;
        let (target, _) = self.vmo_resolve(id, 0)?;
        let mut slice = self.slice_begin();
        loop {
            let vmo = self.objects.get(target)?;
            let (first, end) = (rounded / PAGE, vmo.size / PAGE);
            let pinned = first < end && vmo.is_pinned(first, end);
            let from = if first < end { self.vmo_last_part(target, first, end) } else { first };
            if from == first || pinned {
                return self.vmo_set_size(id, size).map(|()| false);
            }
            self.vmo_set_size(id, from * PAGE)?;
            self.slice_add_work(SLICE_FREE_PAGES as u32 / PAGES_PER_OBJECT);
            if self.slice_over(&mut slice) {
                return Ok(true);
            }
        }
    }

    /// The VMO that stores the content size: for a reference, its target.
    fn vmo_with_content(&self, id: Id<Vmo>) -> Result<Id<Vmo>, Status> {
        match self.objects.get(id)?.backing {
            Backing::Window { target, whole: true, .. } => Ok(target),
            _ => Ok(id),
        }
    }

    /// The size of a VMO's content in bytes.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn vmo_content_size(&self, id: Id<Vmo>) -> Result<u64, Status> {
        Ok(self.objects.get(self.vmo_with_content(id)?)?.content_size)
    }

    /// Sets the content size; the bytes are there already.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn vmo_note_content_size(&mut self, id: Id<Vmo>, size: u64) -> Result<(), Status> {
        let id = self.vmo_with_content(id)?;
        self.objects.get_mut(id)?.content_size = size;
        Ok(())
    }

    /// `vmo_set_stream_size`: sets the content size; bytes between the old size and a larger new one become zeroes.
    ///
    /// # Errors
    /// As [`Kernel::vmo_set_content_size_slice`].
    pub fn vmo_set_content_size(&mut self, id: Id<Vmo>, size: u64) -> Result<(), Status> {
        while self.vmo_set_content_size_slice(id, size)? {}
        Ok(())
    }

    /// One slice of [`Kernel::vmo_set_content_size`]: other threads see the content grow or shrink gradually. Says
    /// whether more is left.
    ///
    /// # Errors
    /// `OUT_OF_RANGE`: larger than the VMO. As [`Kernel::vmo_zero`].
    pub fn vmo_set_content_size_slice(&mut self, id: Id<Vmo>, size: u64) -> Result<bool, Status> {
        let id = self.vmo_with_content(id)?;
        let vmo = self.objects.get(id)?;
        if size > vmo.size {
            return Err(Status::OUT_OF_RANGE);
        }
        if size > vmo.content_size && self.vmo_content_zero_slice(id, size)? {
            return Ok(true);
        }
        let mut slice = self.slice_begin();
        loop {
            let old = self.objects.get(id)?.content_size;
            let (first, end) = (size.div_ceil(PAGE), old.div_ceil(PAGE));
            let (own, offset) = self.vmo_resolve(id, 0)?;
            let shift = offset / PAGE;
            let last = self.objects.get(own)?.pages().and_then(|pages| pages.last(shift + first, shift + end));
            let from = last.map_or(first, |last| {
                let part = self.vmo_pages_per_slice(own, last);
                ((last - shift) / part * part).max(first)
            });
            self.objects.get_mut(id)?.content_size = if from == first { size } else { from * PAGE };
            // Mappings that end with the content must not show it any longer; other mappings fault their pages in
            // again.
            if from < end {
                self.vmo_unmap_pages(own, shift + from, shift + end);
            }
            if from == first {
                return Ok(false);
            }
            self.slice_add_work(SLICE_FREE_PAGES as u32 / PAGES_PER_OBJECT);
            if self.slice_over(&mut slice) {
                return Ok(true);
            }
        }
    }

    /// Zeroes one slice of the bytes between the content size and the new, larger size. Says whether some are left;
    /// only then has the content size changed.
    ///
    /// # Errors
    /// As [`Kernel::vmo_zero`].
    pub(crate) fn vmo_content_zero_slice(&mut self, id: Id<Vmo>, size: u64) -> Result<bool, Status> {
        let old = self.vmo_content_size(id)?;
        let gap = size.saturating_sub(old);
        if gap == 0 {
            return self.vmo_zero(id, old, gap).map(|()| false);
        }
        match self.vmo_zero_slice(id, old, gap, 0)? {
            Some(zeroed) => self.vmo_note_content_size(id, old + zeroed).map(|()| true),
            None => Ok(false),
        }
    }
}
