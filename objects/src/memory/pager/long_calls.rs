//! Long calls on pagers, and the end of a pager, in slices: see [`crate::core::continuation`] and
//! [`crate::kernel::reaper`].

use core::ops::Range;

use abi::{Status, ZX_PAGER_OP_DIRTY, ZX_PAGER_OP_FAIL};

use super::dirty::whole_pages;
use super::{Kind, Pager, Source};
use crate::containers::slab::Key;
use crate::core::continuation::SliceTimer;
use crate::core::continuation::{PAGES_PER_OBJECT, UNMAP_BATCH_PAGES};
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::{Machine, PAGE};
use crate::memory::vmo::{NOTES, Vmo};

/// Units of work between two checks of the time.
const PART: u32 = NOTES as u32;

impl Pager {
    /// Whether it has no VMOs.
    pub(crate) fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }
}

impl Source {
    /// The first page of the request that has `count` requests before it in a range.
    pub(crate) fn nth_request(&self, pages: Range<u64>, count: usize) -> Option<u64> {
        [Kind::Read, Kind::Dirty].into_iter().filter_map(|kind| self.requests.nth(kind, pages.clone(), count)).min()
    }
}

impl<M: Machine> Kernel<M> {
    /// One slice of [`Kernel::pager_op_range`] after `done` bytes. For `ZX_PAGER_OP_DIRTY` a first pass checks the
    /// whole range before a second one changes anything. Returns the number of bytes done, if some are left.
    ///
    /// # Errors
    /// As `pager_op_range`.
    pub fn pager_op_range_slice(
        &mut self,
        pager: Id<Pager>,
        op: u32,
        vmo: Id<Vmo>,
        (offset, length): (u64, u64),
        data: u64,
        mut done: u64,
    ) -> Result<Option<u64>, Status> {
        if done == 0 {
            self.pager_may_op(pager, op, vmo, (offset, length), data)?;
        }
        let key = self.source_of(pager, vmo)?;
        // `ZX_PAGER_OP_DIRTY` goes through the range twice.
        let looks = if op == ZX_PAGER_OP_DIRTY { length } else { 0 };
        let mut slice = SliceTimer::default();
        loop {
            let at = offset + if done < looks { done } else { done - looks };
            // Skips what the VMO has lost meanwhile.
            let end = (offset + length).min(self.vmo_size(vmo)?);
            if at >= end {
                if done >= looks {
                    return Ok(None);
                }
                done = looks;
                continue;
            }
            let to = (self.vmo_part(vmo, at / PAGE, end / PAGE) * PAGE).clamp(at + PAGE, end);
            if done >= looks {
                self.source_op(key, op, vmo, at / PAGE..to / PAGE, data)?;
            } else if self.source_absent(vmo, key, at / PAGE..to / PAGE)?.is_some() {
                return Err(Status::NOT_FOUND);
            }
            done += to - at;
            if done < looks && to == end {
                done = looks;
            }
            if done >= looks + length {
                return Ok(None);
            }
            self.slice_add_work(PART);
            if self.slice_over(&mut slice) {
                return Ok(Some(done));
            }
        }
    }

    /// One slice of `pager_detach_vmo`. The first one stops all further requests; each evicts clean pages. Says whether
    /// some are left.
    ///
    /// # Errors
    /// `INVALID_ARGS`: the VMO is not the pager's.
    pub fn pager_detach_vmo_slice(&mut self, pager: Id<Pager>, vmo: Id<Vmo>, begins: bool) -> Result<bool, Status> {
        let key = match begins {
            true => self.source_of(pager, vmo)?,
            false => self.objects.get(vmo)?.source().ok_or(Status::INVALID_ARGS)?,
        };
        let mut slice = SliceTimer::default();
        while self.source_detach_some(key) {
            self.slice_add_work(PART);
            if self.slice_over(&mut slice) {
                return Ok(true);
            }
        }
        self.source_complete(key);
        Ok(false)
    }

    /// 4C, one piece: stops all further requests, and evicts clean pages. Says whether there was anything to do.
    fn source_detach_some(&mut self, key: Key) -> bool {
        if self.source_stop_some(key) {
            return true;
        }
        let vmo = self.sources.get(key).and_then(|source| source.vmo);
        vmo.is_some_and(|vmo| self.source_evict_some(vmo, key))
    }

    /// The first half: stops further requests; present pages stay.
    fn source_stop_some(&mut self, key: Key) -> bool {
        let Some(source) = self.sources.get_mut(key) else { return false };
        source.detached = true;
        let Some((kind, start)) = source.requests.any() else { return false };
        self.source_finish(key, kind, start, Status::BAD_STATE);
        true
    }

    /// Releases a part of what a closed pager still holds. Says whether there was anything. Pages that it has supplied
    /// stay, since no call evicts them.
    pub(crate) fn pager_drain(&mut self, pager: Id<Pager>) -> bool {
        let Some(key) = self.objects.get(pager).ok().and_then(|pager| pager.sources.first()) else { return false };
        if !self.source_stop_some(key) {
            self.source_leave_pager(key);
            self.source_withdraw(key);
            self.source_free_if_done(key);
        }
        self.slice_add_work(PART / PAGES_PER_OBJECT);
        true
    }

    /// One slice of write-protecting all mappings of a VMO after `done` pages. Returns the number of pages done, if
    /// some are left.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn pager_protect_slice(&mut self, vmo: Id<Vmo>, done: u64) -> Result<Option<u64>, Status> {
        let pages = self.vmo_size(vmo)? / PAGE;
        let (mut at, mut slice) = (done, SliceTimer::default());
        while let Some(page) = self.vmo_first_page(vmo, at, pages) {
            at = (page + 1).next_multiple_of(UNMAP_BATCH_PAGES.into());
            self.vmo_protect_pages(vmo, page, at);
            self.slice_add_work(UNMAP_BATCH_PAGES / PAGES_PER_OBJECT);
            if self.slice_over(&mut slice) {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    /// Checks an operation on a range; returns the source and the pages.
    ///
    /// # Errors
    /// As [`Kernel::pager_op_range`].
    pub(super) fn pager_may_op(
        &mut self,
        pager: Id<Pager>,
        op: u32,
        vmo: Id<Vmo>,
        (offset, length): (u64, u64),
        data: u64,
    ) -> Result<(Key, Range<u64>), Status> {
        super::dirty::op_is_known(op, data)?;
        let key = self.source_of(pager, vmo)?;
        let pages = whole_pages(offset, length, self.vmo_size(vmo)?)?;
        let source = self.sources.get(key).ok_or(Status::INTERNAL)?;
        if source.is_detached() && super::dirty::op_asks(op) {
            return Err(Status::BAD_STATE);
        }
        // An operation adds no notes if the pages are dirty already, are cleaned along whole runs, or have failed.
        if op == ZX_PAGER_OP_DIRTY || op != ZX_PAGER_OP_FAIL && source.dirt.cuts(&pages) {
            self.vmo_may_note(vmo)?;
        }
        Ok((key, pages))
    }
}

#[cfg(test)]
impl<M: Machine> Kernel<M> {
    /// All slices.
    pub(crate) fn pager_detach_vmo(&mut self, pager: Id<Pager>, vmo: Id<Vmo>) -> Result<(), Status> {
        let mut goes_on = self.pager_detach_vmo_slice(pager, vmo, true)?;
        while goes_on {
            goes_on = self.pager_detach_vmo_slice(pager, vmo, false)?;
        }
        Ok(())
    }
}
