//! Metadata of a VMO's pages that have no frame, and its accounting.
//!
//! A page that a pager supplied as zeroes, or that was zeroed where it would show something else, costs no frame. But
//! the VMO must record it, which takes memory: a run in the page table, or a range among the dirty or zero ones. A VMO
//! is charged for these *notes* as for pages. An operation checks before it adds any ([`Kernel::vmo_may_note`]) and
//! adjusts the charge afterwards ([`Kernel::vmo_update_notes_charge`]).
//!
//! Operations on ranges work in parts that have few notes ([`Kernel::vmo_part`]).

use abi::Status;

use super::{AbsentPages, Backing, Vmo};
use crate::core::continuation::PAGE_WAIT;
use crate::core::continuation::SliceTimer;
use crate::core::object::Id;
use crate::core::port::Packet;
use crate::kernel::Kernel;
use crate::machine::Access;
use crate::machine::{Machine, PAGE};
use crate::memory::pager::{Kind, Source};

/// Bytes that a run of the page table takes.
const RUN: u64 = 384;
/// Bytes that a range, or a page request, takes.
const RANGE: u64 = 64;
/// Bytes that a source takes: the record, its packet, and their slab entries. The pager is charged for it, as it may
/// outlive the VMO; when the pager is closed, the VMO is charged.
pub(crate) const SOURCE: u64 = (size_of::<Source>() + size_of::<Packet>()) as u64 + 2 * RANGE;
/// Most bytes that an operation on one range adds: runs at both ends, and ranges that it splits.
const ADDED: u64 = 2 * RUN + 4 * RANGE;
/// Number of notes that one part covers.
pub(crate) const NOTES: usize = 64;

impl Vmo {
    /// Bytes of the notes that it stores itself.
    pub(super) fn note_bytes(&self) -> u64 {
        self.zeroed.len() as u64 * RANGE
    }
}

impl<M: Machine> Kernel<M> {
    /// Whether a VMO can be charged for the notes that an operation on one range of it may add.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub(crate) fn vmo_may_note(&mut self, id: Id<Vmo>) -> Result<(), Status> {
        self.may_charge(id.object(), ADDED)
    }

    /// Sets a VMO's charge for notes to what they take now.
    pub(crate) fn vmo_update_notes_charge(&mut self, id: Id<Vmo>) {
        let Ok(vmo) = self.objects.get(id) else { return };
        let owed = vmo.note_bytes()
            + match (&vmo.backing, vmo.absent_pages) {
                (Backing::Pages(pages), AbsentPages::Source(source)) => {
                    let own = self.sources.get(source).map_or(0, |source| {
                        let record = if source.has_pager() { 0 } else { SOURCE };
                        record + source.dirt.len() as u64 * RANGE
                    });
                    own + pages.runs() as u64 * RUN
                }
                _ => 0,
            };
        let Ok(vmo) = self.objects.get_mut(id) else { return };
        let paid = core::mem::replace(&mut vmo.notes_charge, owed);
        if owed > paid {
            self.charge(id.object(), owed - paid);
        } else if owed < paid {
            self.discharge(id.object(), paid - owed);
        }
    }

    /// The end of the first part of the pages `[from, to)`, of a VMO with its own pages, that has few notes.
    fn vmo_notes_end(&self, id: Id<Vmo>, from: u64, to: u64) -> u64 {
        let Ok(vmo) = self.objects.get(id) else { return to };
        let runs = |end| vmo.pages().and_then(|pages| pages.nth_run(from, end, NOTES)).unwrap_or(end);
        match vmo.absent_pages {
            AbsentPages::Source(source) => {
                let Some(source) = self.sources.get(source) else { return to };
                let end = source.dirt.nth(from..runs(to), NOTES).unwrap_or(runs(to));
                source.nth_request(from..end, NOTES).unwrap_or(end)
            }
            // Pages shown of the other VMO count, too. That VMO itself shows none of another.
            AbsentPages::Other { vmo: other, from: shift, end: shown } => {
                let end = vmo.zeroed.nth(from..runs(to), NOTES).unwrap_or(runs(to));
                if from >= end.min(shown) {
                    return end;
                }
                let below = |page: u64| page.saturating_add(shift);
                let to = self.vmo_notes_end(other, below(from), below(end.min(shown))).saturating_sub(shift);
                if to < end.min(shown) { to } else { end }
            }
            AbsentPages::Zeroes | AbsentPages::Discarded | AbsentPages::Device(_) => to,
        }
    }

    /// Like [`Kernel::vmo_require`] for the first part of a range that has few notes; returns the number of bytes that
    /// are present. If pages are missing, requests the whole contiguous range of them at once, even beyond that part.
    ///
    /// # Errors
    /// As `vmo_require`.
    pub fn vmo_require_part(&mut self, id: Id<Vmo>, offset: u64, len: u64, access: Access) -> Result<u64, Status> {
        let (target, from) = self.vmo_resolve(id, offset)?;
        let to = from.checked_add(len).ok_or(Status::OUT_OF_RANGE)?;
        let (first, end) = (from / PAGE, to.div_ceil(PAGE));
        let part = self.vmo_notes_end(target, first, end);
        let there = self.vmo_require_pages(target, first..part, access);
        if there == Err(PAGE_WAIT)
            && part < end
            && let Some(asked) = self.first_wanted(Kind::Read)
        {
            let shift = match self.objects.get(target)?.absent_pages {
                AbsentPages::Other { from, .. } => from,
                _ => 0,
            };
            // All pages before are present.
            self.vmo_require_pages(target, asked.saturating_sub(shift)..end, Access::Read)?;
        }
        there.map(|()| part.saturating_mul(PAGE).min(to) - from)
    }

    /// One slice of [`Kernel::vmo_require`] after `done` bytes. Returns the number of bytes done, if some are left.
    ///
    /// # Errors
    /// As `vmo_require`.
    pub fn vmo_require_slice(
        &mut self,
        id: Id<Vmo>,
        offset: u64,
        len: u64,
        mut done: u64,
    ) -> Result<Option<u64>, Status> {
        let mut slice = SliceTimer::default();
        while done < len {
            done += self.vmo_require_part(id, offset.saturating_add(done), len - done, Access::Read)?;
            self.slice_add_work(NOTES as u32);
            if done < len && self.slice_over(&mut slice) {
                return Ok(Some(done));
            }
        }
        Ok(None)
    }

    /// The end of the first part of the pages `[from, to)`, of a VMO with its own pages, that fits in one slice. Absent
    /// pages cost nothing, and a large page is never divided.
    pub(crate) fn vmo_part(&self, id: Id<Vmo>, from: u64, to: u64) -> u64 {
        let to = self.vmo_notes_end(id, from, to);
        match self.vmo_first_page(id, from, to) {
            Some(page) => (page + 1).next_multiple_of(self.vmo_pages_per_slice(id, page)).min(to),
            None => to,
        }
    }

    /// The start of the last part of the pages `[from, to)` that fits in one slice.
    pub(super) fn vmo_last_part(&self, id: Id<Vmo>, from: u64, to: u64) -> u64 {
        let Ok(vmo) = self.objects.get(id) else { return from };
        let Some(pages) = vmo.pages() else { return from };
        let mut first = from;
        if let Some(source) = vmo.source().and_then(|source| self.sources.get(source)) {
            first = first.max(pages.nth_run_back(first, to, NOTES).unwrap_or(first));
            first = first.max(source.dirt.nth_back(first..to, NOTES).unwrap_or(first));
        }
        first = first.max(vmo.zeroed.nth_back(first..to, NOTES).unwrap_or(first));
        match pages.last(first, to) {
            Some(last) => (last / self.vmo_pages_per_slice(id, last) * self.vmo_pages_per_slice(id, last)).max(first),
            None => first,
        }
    }
}
