//! VMOs whose content may be thrown away when memory is short.
//!
//! Who uses a discardable VMO locks it. While nobody does, it stands in a list, in the order in which the last locks
//! were taken away, and what it holds may go at any time, all at once. From then on what it showed is no longer
//! anything: touching it is an error until it is locked again, and whoever locks it is told.

use abi::Status;

use super::{Beneath, Vmo};
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::Machine;

/// What a discardable VMO has more than others.
#[derive(Default)]
pub(crate) struct Discard {
    locks: u64,
}

impl Vmo {
    /// Whether its content may be thrown away at times.
    pub fn is_discardable(&self) -> bool {
        self.discard.is_some()
    }
}

impl<M: Machine> Kernel<M> {
    /// Makes a VMO that has just been made discardable.
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

    /// `ZX_VMO_OP_LOCK`: the content stays from now on. Says whether it had been thrown away.
    ///
    /// # Errors
    /// `NOT_SUPPORTED`: it is not discardable. `OUT_OF_RANGE`: the range is not all of it.
    pub fn vmo_lock(&mut self, id: Id<Vmo>, offset: u64, len: u64) -> Result<bool, Status> {
        let locks = self.vmo_locks(id, offset, len)?;
        *locks = locks.checked_add(1).ok_or(Status::BAD_STATE)?;
        self.vmo_unlisted(id);
        let vmo = self.objects.get_mut(id)?;
        let was = matches!(vmo.beneath, Beneath::Discarded);
        if was {
            vmo.beneath = Beneath::Zeroes;
        }
        Ok(was)
    }

    /// `ZX_VMO_OP_TRY_LOCK`: as [`Kernel::vmo_lock`], but only if the content is there.
    ///
    /// # Errors
    /// As [`Kernel::vmo_lock`]. `UNAVAILABLE`: it has been thrown away.
    pub fn vmo_try_lock(&mut self, id: Id<Vmo>, offset: u64, len: u64) -> Result<(), Status> {
        self.vmo_locks(id, offset, len)?;
        if matches!(self.objects.get(id)?.beneath, Beneath::Discarded) {
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

    /// A VMO has got pages, or has lost a lock or pin: if nobody needs it, it goes to the end of the list.
    pub(crate) fn vmo_may_be_discarded(&mut self, id: Id<Vmo>) {
        let Ok(vmo) = self.objects.get(id) else { return };
        let unlocked = vmo.discard.as_ref().is_some_and(|discard| discard.locks == 0);
        let pages = vmo.pages().is_some_and(|pages| pages.len() != 0);
        if unlocked && pages && vmo.pins.is_empty() && !vmo.unlocked.is_linked() {
            self.unlocked.push(&mut self.objects.slab, id.object().key());
            self.pressure_may_relieve();
        }
    }

    /// A VMO that is in the list is to stay.
    pub(crate) fn vmo_unlisted(&mut self, id: Id<Vmo>) {
        if self.objects.get(id).is_ok_and(|vmo| vmo.unlocked.is_linked()) {
            self.unlocked.remove(&mut self.objects.slab, id.object().key());
        }
    }

    /// Pages of unlocked VMOs but one, which could be thrown away.
    pub(crate) fn vmo_discardable_pages(&self, but: Id<Vmo>) -> u64 {
        let ids = self.objects.listed(self.unlocked).map(Id::<Vmo>::new).filter(|id| *id != but);
        ids.filter_map(|id| self.objects.get(id).ok()).map(Vmo::own_pages).sum()
    }

    /// Throws the content of unlocked VMOs away, those first that have been unlocked longest, until so many pages have
    /// come free. Gives how many have.
    pub fn vmo_reclaim_discardable(&mut self, pages: u64) -> u64 {
        let mut freed = 0;
        while freed < pages
            && let Some(key) = self.unlocked.pop(&mut self.objects.slab)
        {
            let id: Id<Vmo> = Id::new(crate::ObjectId(key));
            let Ok(vmo) = self.objects.get_mut(id) else { continue };
            let held = vmo.pages().map_or(0, super::pages::Pages::len);
            if held == 0 || !vmo.pins.is_empty() {
                continue;
            }
            vmo.beneath = Beneath::Discarded;
            // Also where it shows zeroes.
            let end = vmo.size / crate::machine::PAGE;
            self.vmo_drop_pages(id, 0, end);
            freed += held;
        }
        freed
    }
}
