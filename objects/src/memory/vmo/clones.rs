//! Clones of a VMO, which share its frames copy-on-write.

use abi::Status;

use super::pages::Pages;
use super::{AbsentPages, Backing, Kind, Vmo, round_up};
use crate::core::continuation::SliceTimer;
use crate::core::continuation::{PAGES_PER_OBJECT, UNMAP_BATCH_PAGES, UNSLICED_BYTES};
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::{Cache, Machine, PAGE};
use crate::memory::pager::RunMap;

/// The semantics of a clone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CloneKind {
    /// The parent's content at the time of the call.
    Snapshot,
    /// Pages from the parent's pager may show later content of the parent, until the clone is written there.
    AtLeastOnWrite,
    /// The same, but pages that were modified in the parent are copied now.
    Modified,
}

impl<M: Machine> Kernel<M> {
    /// `vmo_create_child` for clones: `size` bytes from `offset` up, with zeroes beyond the parent's end.
    ///
    /// # Errors
    /// `INVALID_ARGS`: `offset` is not page-aligned, or the memory is contiguous. `OUT_OF_RANGE`: the size or the end
    /// is too large. `NOT_SUPPORTED`: the VMO cannot have such a clone: device memory, discardable memory; a snapshot
    /// of pager-backed memory. `BAD_STATE`: pages are pinned, or it is not cached. `NO_MEMORY`.
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
        // The parent's content ends with the parent.
        let end = end.min(self.vmo_size(parent)?).max(offset);
        let visible = (end - offset) / PAGE;
        let (named, _) = self.vmo_resolve(parent, 0)?;
        let vmo = self.objects.get(named)?;
        match vmo.kind {
            Kind::Plain if vmo.discard.is_none() => {}
            Kind::Contiguous => return Err(Status::INVALID_ARGS),
            _ => return Err(Status::NOT_SUPPORTED),
        }
        if vmo.cache != Cache::Cached || vmo.has_pins() {
            return Err(Status::BAD_STATE);
        }
        let (target, from) = if visible == 0 { (named, 0) } else { self.vmo_resolve(parent, offset)? };
        let from = from / PAGE;
        self.ahead_reclaim_vmo(target);
        let absent_pages = match self.objects.get(target)?.absent_pages {
            AbsentPages::Zeroes => AbsentPages::Zeroes,
            AbsentPages::Discarded | AbsentPages::Device(_) => return Err(Status::NOT_SUPPORTED),
            _ if kind == CloneKind::Snapshot => return Err(Status::NOT_SUPPORTED),
            AbsentPages::Source(_) => AbsentPages::Other { vmo: target, from, end: visible },
            AbsentPages::Other { vmo, from: first, end } => {
                AbsentPages::Other { vmo, from: first.saturating_add(from), end: end.saturating_sub(from).min(visible) }
            }
        };
        let pages = match absent_pages {
            // The pages of the pager-backed VMO are shown, not shared: the pager may change or evict them there.
            AbsentPages::Other { vmo, .. } if vmo == target => Pages::default(),
            _ => self.vmo_share_pages(target, from, visible)?,
        };
        let zeroed = match absent_pages {
            AbsentPages::Other { vmo, .. } if vmo != target => self.objects.get(target)?.zeroed.part(from, visible),
            _ => RunMap::default(),
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
        vmo.absent_pages = absent_pages;
        vmo.zeroed = zeroed;
        vmo.notes_charge = vmo.note_bytes();
        vmo.is_clone = true;
        vmo.shares = true;
        if let AbsentPages::Other { vmo, .. } = absent_pages {
            self.add_ref(vmo.object());
            self.objects.enlist(vmo, |vmo| &mut vmo.readers, child.object());
        }
        self.vmo_adopt(parent, child);
        Ok(child)
    }

    /// One slice of the work that can precede [`Kernel::vmo_create_clone`] and so shortens it: write-protects all
    /// mappings of the range. A store meanwhile makes its page writable again. The clone itself is made in one step, so
    /// that it shows its parent at one point in time. Returns the number of pages done, if some are left.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn vmo_clone_protect_slice(
        &mut self,
        id: Id<Vmo>,
        offset: u64,
        len: u64,
        done: u64,
    ) -> Result<Option<u64>, Status> {
        let end = offset.saturating_add(len).min(self.vmo_size(id)?);
        if end <= offset || end - offset <= UNSLICED_BYTES {
            return Ok(None);
        }
        let (target, from) = self.vmo_resolve(id, offset)?;
        let (first, to) = (from / PAGE, (from + (end - offset)).div_ceil(PAGE));
        let (mut at, mut slice) = (first + done, SliceTimer::default());
        let vmo = self.objects.get(target)?;
        if vmo.mappings.is_empty() || vmo.kind != Kind::Plain {
            return Ok(None);
        }
        while let Some(page) = self.vmo_first_page(target, at, to) {
            at = (page + 1).next_multiple_of(UNMAP_BATCH_PAGES.into()).min(to);
            self.vmo_protect_pages(target, page, at);
            self.slice_add_work(UNMAP_BATCH_PAGES / PAGES_PER_OBJECT);
            if self.slice_over(&mut slice) {
                break;
            }
        }
        // The clone is not made in a slice that is partly used up, either.
        Ok(Some(at - first).filter(|&looked| looked != done))
    }

    /// Records that no handle to the clone allows writing.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn vmo_make_immutable(&mut self, id: Id<Vmo>) -> Result<(), Status> {
        self.objects.get_mut(id)?.is_immutable = true;
        Ok(())
    }

    /// Makes a page table that starts with page `from` of a VMO. Its frames are shared from now on, and all mappings of
    /// them are write-protected.
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

    /// Frees a page table that belongs to no VMO (any more).
    pub(super) fn vmo_discard_table(&mut self, mut pages: Pages) {
        pages.take_all(0, u64::MAX, |chunk| {
            chunk.frames().for_each(|(_, frame)| self.frames.release(&mut self.machine, frame));
        });
    }
}
