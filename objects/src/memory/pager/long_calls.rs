//! Long calls of pagers, and the end of a pager, in portions: see [`crate::core::continuation`] and [`crate::kernel::reaper`].

use core::ops::Range;

use abi::{Status, ZX_PAGER_OP_DIRTY, ZX_PAGER_OP_FAIL};

use super::dirty::whole_pages;
use super::{Kind, Pager, Source};
use crate::containers::slab::Key;
use crate::core::continuation::Portion;
use crate::core::continuation::{UNMAPS, WORK};
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::{Machine, PAGE};
use crate::memory::vmo::{NOTES, Vmo};

/// Work between two looks at the clock.
const PART: u32 = NOTES as u32;

impl Pager {
    /// Whether it has no VMOs.
    pub(crate) fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }
}

impl Source {
    /// The first page of the request that has so many before it among those in a range.
    pub(crate) fn nth_request(&self, pages: Range<u64>, count: usize) -> Option<u64> {
        [Kind::Read, Kind::Dirty].into_iter().filter_map(|kind| self.requests.nth(kind, pages.clone(), count)).min()
    }
}

impl<M: Machine> Kernel<M> {
    /// A portion of [`Kernel::pager_op_range`], of which `done` bytes are dealt with; what is to be dirty is looked at as a
    /// whole before any of it is. Says how many are then, if some are left.
    ///
    /// # Errors
    /// As `pager_op_range`.
    pub fn pager_op_range_portion(
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
        // What is to be dirty is gone through twice.
        let looks = if op == ZX_PAGER_OP_DIRTY { length } else { 0 };
        let mut portion = Portion::default();
        loop {
            let at = offset + if done < looks { done } else { done - looks };
            // What the VMO has lost meanwhile is left out.
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
            self.worked(PART);
            if self.portion_over(&mut portion) {
                return Ok(Some(done));
            }
        }
    }

    /// A portion of `pager_detach_vmo`: nothing more is asked for from the first on. Pages that the pager has as they are go. Says
    /// whether some are left.
    ///
    /// # Errors
    /// `INVALID_ARGS`: the VMO is not the pager's.
    pub fn pager_detach_vmo_portion(&mut self, pager: Id<Pager>, vmo: Id<Vmo>, begins: bool) -> Result<bool, Status> {
        let key = match begins {
            true => self.source_of(pager, vmo)?,
            false => self.objects.get(vmo)?.source().ok_or(Status::INVALID_ARGS)?,
        };
        let mut portion = Portion::default();
        while self.source_detach_some(key) {
            self.worked(PART);
            if self.portion_over(&mut portion) {
                return Ok(true);
            }
        }
        self.source_complete(key);
        Ok(false)
    }

    /// 4C, piece by piece: nothing can be asked for any more, and pages that the pager has as they are go. Says whether there was
    /// anything to be let go of.
    fn source_detach_some(&mut self, key: Key) -> bool {
        if self.source_refuse_some(key) {
            return true;
        }
        let vmo = self.sources.get(key).and_then(|source| source.vmo);
        vmo.is_some_and(|vmo| self.source_evict_some(vmo, key))
    }

    /// The first half of it: nothing can be asked for any more, what is there stays.
    fn source_refuse_some(&mut self, key: Key) -> bool {
        let Some(source) = self.sources.get_mut(key) else { return false };
        source.detached = true;
        let Some((kind, start)) = source.requests.any() else { return false };
        self.source_finish(key, kind, start, Status::BAD_STATE);
        true
    }

    /// The last handle to a pager is gone: its VMOs are on their own, and nobody is told.
    pub(crate) fn pager_unreachable(&mut self, pager: Id<Pager>) {
        self.doom(pager.object());
    }

    /// Something of what a pager has that nobody can use any more is let go of. Says whether there was anything. Pages that it has
    /// supplied stay: nobody has said that they are to go.
    pub(crate) fn pager_let_go(&mut self, pager: Id<Pager>) -> bool {
        let Some(key) = self.objects.get(pager).ok().and_then(|pager| pager.sources.first()) else { return false };
        if !self.source_refuse_some(key) {
            self.source_leave(key);
            self.source_withdraw(key);
            self.source_settle(key);
        }
        self.worked(PART / WORK);
        true
    }

    /// A portion of taking the permission to write from all mappings of a VMO, of which `done` pages are looked at. Says how many
    /// are then, if some are left.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn pager_protect_portion(&mut self, vmo: Id<Vmo>, done: u64) -> Result<Option<u64>, Status> {
        let pages = self.vmo_size(vmo)? / PAGE;
        let (mut at, mut portion) = (done, Portion::default());
        while let Some(page) = self.vmo_first_page(vmo, at, pages) {
            at = (page + 1).next_multiple_of(UNMAPS.into());
            self.vmo_protect_pages(vmo, page, at);
            self.worked(UNMAPS / WORK);
            if self.portion_over(&mut portion) {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    /// Whether an operation on a range can be: which source's pages they are.
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
        // What is dirty or is cleaned as a whole, or has failed, is no more to be noted than before.
        if op == ZX_PAGER_OP_DIRTY || op != ZX_PAGER_OP_FAIL && source.dirt.cuts(&pages) {
            self.vmo_may_note(vmo)?;
        }
        Ok((key, pages))
    }
}

#[cfg(test)]
impl<M: Machine> Kernel<M> {
    /// All portions.
    pub(crate) fn pager_detach_vmo(&mut self, pager: Id<Pager>, vmo: Id<Vmo>) -> Result<(), Status> {
        let mut goes_on = self.pager_detach_vmo_portion(pager, vmo, true)?;
        while goes_on {
            goes_on = self.pager_detach_vmo_portion(pager, vmo, false)?;
        }
        Ok(())
    }
}
