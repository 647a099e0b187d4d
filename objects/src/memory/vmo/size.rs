//! How large a VMO is, and how much of it is content.

use abi::Status;

use super::{Backing, Beneath, Vmo, round_up};
use crate::core::continuation::{GIVES_BACK, WORK};
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::{Machine, PAGE};

impl<M: Machine> Kernel<M> {
    /// `vmo_set_size`. Pages beyond the new end are given back; accesses there are faults.
    ///
    /// # Errors
    /// `UNAVAILABLE`: not resizable. `OUT_OF_RANGE`: too large. `BAD_STATE`: pages that would go are pinned.
    /// `NO_MEMORY`: its job may not have what is to be noted.
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
        if let Beneath::Other { end, .. } = &mut vmo.beneath {
            // What was cut off does not come back.
            *end = (*end).min(rounded / PAGE);
        }
        self.source_resized(id, old / PAGE, rounded / PAGE);
        self.vmo_noted(id);
        Ok(())
    }

    /// A portion of [`Kernel::vmo_set_size`]: what it cuts off goes from the end on, and others see a VMO that becomes smaller by and
    /// by. Says whether more is to go.
    ///
    /// # Errors
    /// As `vmo_set_size`.
    pub fn vmo_set_size_portion(&mut self, id: Id<Vmo>, size: u64) -> Result<bool, Status> {
        let rounded = round_up(size)?;
        let (target, _) = self.vmo_resolve(id, 0)?;
        let mut portion = self.portion();
        loop {
            let vmo = self.objects.get(target)?;
            let (first, end) = (rounded / PAGE, vmo.size / PAGE);
            let pinned = first < end && vmo.is_pinned(first, end);
            let from = if first < end { self.vmo_last_part(target, first, end) } else { first };
            if from == first || pinned {
                return self.vmo_set_size(id, size).map(|()| false);
            }
            self.vmo_set_size(id, from * PAGE)?;
            self.worked(GIVES_BACK as u32 / WORK);
            if self.portion_over(&mut portion) {
                return Ok(true);
            }
        }
    }

    /// The VMO that keeps the size of a VMO's content: a reference has none of its own.
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

    /// Says how many bytes of content there are; they are there already.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn vmo_note_content_size(&mut self, id: Id<Vmo>, size: u64) -> Result<(), Status> {
        let id = self.vmo_with_content(id)?;
        self.objects.get_mut(id)?.content_size = size;
        Ok(())
    }

    /// `vmo_set_stream_size`: the size of the content; bytes between an old and a larger new one are zeroes.
    ///
    /// # Errors
    /// As [`Kernel::vmo_set_content_size_portion`].
    pub fn vmo_set_content_size(&mut self, id: Id<Vmo>, size: u64) -> Result<(), Status> {
        while self.vmo_set_content_size_portion(id, size)? {}
        Ok(())
    }

    /// A portion of that: others see content that becomes larger or smaller by and by. Says whether more is to be done.
    ///
    /// # Errors
    /// `OUT_OF_RANGE`: larger than the VMO. As [`Kernel::vmo_zero`].
    pub fn vmo_set_content_size_portion(&mut self, id: Id<Vmo>, size: u64) -> Result<bool, Status> {
        let id = self.vmo_with_content(id)?;
        let vmo = self.objects.get(id)?;
        if size > vmo.size {
            return Err(Status::OUT_OF_RANGE);
        }
        if size > vmo.content_size && self.vmo_content_zero_portion(id, size)? {
            return Ok(true);
        }
        let mut portion = self.portion();
        loop {
            let old = self.objects.get(id)?.content_size;
            let (first, end) = (size.div_ceil(PAGE), old.div_ceil(PAGE));
            let (own, offset) = self.vmo_resolve(id, 0)?;
            let shift = offset / PAGE;
            let last = self.objects.get(own)?.pages().and_then(|pages| pages.last(shift + first, shift + end));
            let from = last.map_or(first, |last| {
                let part = self.vmo_portion(own, last);
                ((last - shift) / part * part).max(first)
            });
            self.objects.get_mut(id)?.content_size = if from == first { size } else { from * PAGE };
            // Mappings that end with the content show it no longer; others fault their pages in again.
            if from < end {
                self.vmo_unmap_pages(own, shift + from, shift + end);
            }
            if from == first {
                return Ok(false);
            }
            self.worked(GIVES_BACK as u32 / WORK);
            if self.portion_over(&mut portion) {
                return Ok(true);
            }
        }
    }

    /// Zeroes what lies between the content and a larger size of it, or a portion of that, by which the content grows. Says
    /// whether that was not all; only then is the size of the content another.
    ///
    /// # Errors
    /// As [`Kernel::vmo_zero`].
    pub(crate) fn vmo_content_zero_portion(&mut self, id: Id<Vmo>, size: u64) -> Result<bool, Status> {
        let old = self.vmo_content_size(id)?;
        let gap = size.saturating_sub(old);
        if gap == 0 {
            return self.vmo_zero(id, old, gap).map(|()| false);
        }
        match self.vmo_zero_portion(id, old, gap, 0)? {
            Some(zeroed) => self.vmo_note_content_size(id, old + zeroed).map(|()| true),
            None => Ok(false),
        }
    }
}
