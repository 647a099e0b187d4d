//! Discardable VMOs, whose content the server may drop when memory is short.
//!
//! A user locks a discardable VMO while using it. While no lock is held, the VMO is in a list, ordered by the time of
//! its last unlock, and its content may be dropped at any time, always as a whole. Accesses then fail until the VMO is
//! locked again, and the lock reports the loss.

use abi::Status;

use super::{AbsentPages, Vmo};
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::Machine;

/// The additional state of a discardable VMO.
#[derive(Default)]
pub(crate) struct Discard {
    locks: u64,
}

impl Vmo {
    /// Whether it is discardable.
    pub fn is_discardable(&self) -> bool {
        self.discard.is_some()
    }
}

impl<M: Machine> Kernel<M> {
    /// Makes a new VMO discardable.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn vmo_make_discardable(&mut self, id: Id<Vmo>) -> Result<(), Status> {
        self.objects.get_mut(id)?.discard = Some(Discard::default());
        Ok(())
    }

    fn vmo_locks(&mut self, id: Id<Vmo>, offset: u64, len: u64) -> Result<&mut u64, Status> {
        let vmo = self.objects.get_mut(id)?;
        let discard = vmo.discard.as_mut().ok_or(Status::NOT_SUPPORTED)?;
        if offset != 0 || len != vmo.size { Err(Status::OUT_OF_RANGE) } else { Ok(&mut discard.locks) }
    }

    /// `ZX_VMO_OP_LOCK`: keeps the content from now on. Says whether it had been dropped.
    ///
    /// # Errors
    /// `NOT_SUPPORTED`: it is not discardable. `OUT_OF_RANGE`: the range is not the whole VMO.
    pub fn vmo_lock(&mut self, id: Id<Vmo>, offset: u64, len: u64) -> Result<bool, Status> {
        let locks = self.vmo_locks(id, offset, len)?;
        *locks = locks.checked_add(1).ok_or(Status::BAD_STATE)?;
        self.vmo_unlisted(id);
        let vmo = self.objects.get_mut(id)?;
        let was = matches!(vmo.absent_pages, AbsentPages::Discarded);
        if was {
            vmo.absent_pages = AbsentPages::Zeroes;
        }
        Ok(was)
    }

    /// `ZX_VMO_OP_TRY_LOCK`: like [`Kernel::vmo_lock`], but only if the content is still there.
    ///
    /// # Errors
    /// As [`Kernel::vmo_lock`]. `UNAVAILABLE`: the content was dropped.
    pub fn vmo_try_lock(&mut self, id: Id<Vmo>, offset: u64, len: u64) -> Result<(), Status> {
        self.vmo_locks(id, offset, len)?;
        if matches!(self.objects.get(id)?.absent_pages, AbsentPages::Discarded) {
            return Err(Status::UNAVAILABLE);
        }
        self.vmo_lock(id, offset, len).map(drop)
    }

    /// `ZX_VMO_OP_UNLOCK`.
    ///
    /// # Errors
    /// As [`Kernel::vmo_lock`]. `BAD_STATE`: it is not locked.
    pub fn vmo_unlock(&mut self, id: Id<Vmo>, offset: u64, len: u64) -> Result<(), Status> {
        let locks = self.vmo_locks(id, offset, len)?;
        *locks = locks.checked_sub(1).ok_or(Status::BAD_STATE)?;
        self.vmo_may_be_discarded(id);
        Ok(())
    }

    /// A VMO has got pages, or has lost a lock or pin: if it is unlocked and unpinned, appends it to the list.
    pub(crate) fn vmo_may_be_discarded(&mut self, id: Id<Vmo>) {
        let Ok(vmo) = self.objects.get(id) else { return };
        let unlocked = vmo.discard.as_ref().is_some_and(|discard| discard.locks == 0);
        let pages = vmo.pages().is_some_and(|pages| pages.len() != 0);
        if unlocked && pages && !vmo.has_pins() && !vmo.unlocked.is_linked() {
            self.unlocked.push(&mut self.objects.slab, id.object().key());
            self.pressure_may_relieve();
        }
    }

    /// Removes a VMO from the list, if it is in it.
    pub(crate) fn vmo_unlisted(&mut self, id: Id<Vmo>) {
        if self.objects.get(id).is_ok_and(|vmo| vmo.unlocked.is_linked()) {
            self.unlocked.remove(&mut self.objects.slab, id.object().key());
        }
    }

    /// Number of pages of unlocked VMOs, except one, that could be dropped.
    pub(crate) fn vmo_discardable_pages(&self, but: Id<Vmo>) -> u64 {
        let ids = self.objects.listed(self.unlocked).map(Id::<Vmo>::new).filter(|id| *id != but);
        ids.filter_map(|id| self.objects.get(id).ok()).map(Vmo::own_pages).sum()
    }

    /// Drops the content of unlocked VMOs, the longest unlocked first, until `pages` pages are free. Returns the number
    /// of freed pages.
    pub fn vmo_reclaim_discardable(&mut self, pages: u64) -> u64 {
        let mut freed = 0;
        while freed < pages
            && let Some(key) = self.unlocked.pop(&mut self.objects.slab)
        {
            let id: Id<Vmo> = Id::new(crate::ObjectId(key));
            let Ok(vmo) = self.objects.get_mut(id) else { continue };
            let held = vmo.pages().map_or(0, super::pages::Pages::len);
            if held == 0 || vmo.has_pins() {
                continue;
            }
            vmo.absent_pages = AbsentPages::Discarded;
            // Also unmaps the page of zeroes.
            let end = vmo.size / crate::machine::PAGE;
            self.vmo_drop_pages(id, 0, end);
            freed += held;
        }
        freed
    }
}
