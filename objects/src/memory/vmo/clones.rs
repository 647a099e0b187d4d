//! Copies of a VMO, which share its frames until someone writes.

use abi::Status;

use super::pages::Pages;
use super::{Backing, Beneath, Kind, Vmo, round_up};
use crate::core::continuation::Portion;
use crate::core::continuation::{SHORT, UNMAPS, WORK};
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::{Cache, Machine, PAGE};
use crate::memory::pager::Runs;

/// What a clone promises.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CloneKind {
    /// It is what its parent was at this time.
    Snapshot,
    /// What its parent's pager supplies it may take over at any time before it is written.
    AtLeastOnWrite,
    /// The same, but what has been written in the parent is copied now.
    Modified,
}

impl<M: Machine> Kernel<M> {
    /// `vmo_create_child` for copies: `size` bytes from `offset` on, zeroes beyond the parent's end.
    ///
    /// # Errors
    /// `INVALID_ARGS`: `offset` is not at a page, or the memory is in one piece. `OUT_OF_RANGE`: the size or the end is too
    /// large. `NOT_SUPPORTED`: the VMO cannot have such a copy: a device's memory, discardable memory; a snapshot of what
    /// a pager supplies. `BAD_STATE`: pages are pinned, or it is not cached. `NO_MEMORY`.
    pub fn vmo_create_clone(
        &mut self,
        parent: Id<Vmo>,
        kind: CloneKind,
        offset: u64,
        size: u64,
        resizable: bool,
    ) -> Result<Id<Vmo>, Status> {
        let rounded = round_up(size)?;
        if !offset.is_multiple_of(PAGE) {
            return Err(Status::INVALID_ARGS);
        }
        let end = offset.checked_add(rounded).ok_or(Status::OUT_OF_RANGE)?;
        // What there is to be copied ends with the parent.
        let end = end.min(self.vmo_size(parent)?).max(offset);
        let visible = (end - offset) / PAGE;
        let (named, _) = self.vmo_resolve(parent, 0)?;
        let vmo = self.objects.get(named)?;
        match vmo.kind {
            Kind::Plain if vmo.discard.is_none() => {}
            Kind::Contiguous => return Err(Status::INVALID_ARGS),
            _ => return Err(Status::NOT_SUPPORTED),
        }
        if vmo.cache != Cache::Cached || !vmo.pins.is_empty() {
            return Err(Status::BAD_STATE);
        }
        let (target, from) = if visible == 0 { (named, 0) } else { self.vmo_resolve(parent, offset)? };
        let from = from / PAGE;
        self.ahead_settle_of(target);
        let beneath = match self.objects.get(target)?.beneath {
            Beneath::Zeroes => Beneath::Zeroes,
            Beneath::Discarded | Beneath::Device(_) => return Err(Status::NOT_SUPPORTED),
            _ if kind == CloneKind::Snapshot => return Err(Status::NOT_SUPPORTED),
            Beneath::Source(_) => Beneath::Other { vmo: target, from, end: visible },
            Beneath::Other { vmo, from: first, end } => {
                Beneath::Other { vmo, from: first.saturating_add(from), end: end.saturating_sub(from).min(visible) }
            }
        };
        let pages = match beneath {
            // What the pager's VMO has is seen through, not shared: there, it may be changed or taken away.
            Beneath::Other { vmo, .. } if vmo == target => Pages::default(),
            _ => self.vmo_share_pages(target, from, visible)?,
        };
        let zeroed = match beneath {
            Beneath::Other { vmo, .. } if vmo != target => self.objects.get(target)?.zeroed.part(from, visible),
            _ => Runs::default(),
        };
        let child = match self.vmo_new(rounded, size, resizable, Backing::Pages(Pages::default())) {
            Ok(child) => child,
            Err(status) => {
                self.vmo_discard_table(pages);
                return Err(status);
            }
        };
        let vmo = self.objects.get_mut(child)?;
        vmo.backing = Backing::Pages(pages);
        vmo.beneath = beneath;
        vmo.zeroed = zeroed;
        vmo.notes_paid = vmo.note_bytes();
        vmo.is_clone = true;
        vmo.shares = true;
        if let Beneath::Other { vmo, .. } = beneath {
            self.add_ref(vmo.object());
            self.objects.enlist(vmo, |vmo| &mut vmo.readers, child.object());
        }
        self.vmo_adopt(parent, child);
        Ok(child)
    }

    /// A portion of what may be done before [`Kernel::vmo_create_clone`], so that it takes no longer than it must: no mapping of what is
    /// going to be shared allows to write, but where somebody writes again. The copy itself is made at once, so that it is what
    /// its parent was at one time. Says how many pages are looked at then, if some are left.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn vmo_clone_portion(&mut self, id: Id<Vmo>, offset: u64, len: u64, done: u64) -> Result<Option<u64>, Status> {
        let end = offset.saturating_add(len).min(self.vmo_size(id)?);
        if end <= offset || end - offset <= SHORT {
            return Ok(None);
        }
        let (target, from) = self.vmo_resolve(id, offset)?;
        let (first, to) = (from / PAGE, (from + (end - offset)).div_ceil(PAGE));
        let (mut at, mut portion) = (first + done, Portion::default());
        let vmo = self.objects.get(target)?;
        if vmo.mappings.is_empty() || vmo.kind != Kind::Plain {
            return Ok(None);
        }
        while let Some(page) = self.vmo_first_page(target, at, to) {
            at = (page + 1).next_multiple_of(UNMAPS.into()).min(to);
            self.vmo_protect_pages(target, page, at);
            self.worked(UNMAPS / WORK);
            if self.portion_over(&mut portion) {
                break;
            }
        }
        // Nor does the copy begin in a portion of which something is used.
        Ok(Some(at - first).filter(|&looked| looked != done))
    }

    /// Notes that nobody has been given a copy to write.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn vmo_make_immutable(&mut self, id: Id<Vmo>) -> Result<(), Status> {
        self.objects.get_mut(id)?.is_immutable = true;
        Ok(())
    }

    /// A table of the pages of a VMO from `from` on, starting at 0. Their frames are shared from now on, and no mapping
    /// of them allows to write.
    fn vmo_share_pages(&mut self, id: Id<Vmo>, from: u64, count: u64) -> Result<Pages, Status> {
        let to = from.saturating_add(count);
        let mut table = Pages::default();
        let mut at = from;
        let old = self.objects.get(id)?.pages().ok_or(Status::INTERNAL)?;
        self.frames.lookaside.forget_all();
        while let Some(chunk) = old.peek(at, to) {
            let shared = self.machine.heap_reserve().and_then(|()| self.frames.share(&chunk));
            let made = shared.and_then(|()| {
                table.put(&chunk, from, 0).inspect_err(|_| {
                    chunk.frames().for_each(|(_, frame)| self.frames.release(&mut self.machine, frame));
                })
            });
            if made.is_err() {
                self.vmo_discard_table(table);
                return Err(Status::NO_MEMORY);
            }
            at = chunk.end();
        }
        if table.len() != 0 {
            self.objects.get_mut(id)?.shares = true;
            self.vmo_protect_pages(id, from, to);
        }
        Ok(table)
    }

    /// Lets go of a table that no VMO has (any more).
    pub(super) fn vmo_discard_table(&mut self, mut pages: Pages) {
        pages.take_all(0, u64::MAX, |chunk| {
            chunk.frames().for_each(|(_, frame)| self.frames.release(&mut self.machine, frame));
        });
    }
}
