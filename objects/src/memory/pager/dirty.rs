//! Dirty pages of pager-backed VMOs: pages changed and not yet written back.
//!
//! A present page is *clean* if its content is the pager's. A write makes it dirty; if the pager traps writes, it must
//! consent first. Writeback: the pager reports that it begins. Dirty pages then become *being cleaned*, and all
//! mappings are write-protected, so that a write meanwhile makes its page dirty again. When the pager reports the end,
//! pages still being cleaned become clean.
//!
//! Pages by which a VMO has grown, or that were zeroed, are dirty *zeroes*: they have no frame, but are not requested
//! either. Once they are clean, they are absent.

use core::ops::Range;

use abi::{
    Status, ZX_PAGER_OP_DIRTY, ZX_PAGER_OP_FAIL, ZX_PAGER_OP_WRITEBACK_BEGIN, ZX_PAGER_OP_WRITEBACK_END,
    ZX_VMO_DIRTY_RANGE_IS_ZERO, zx_vmo_dirty_range_t,
};

use super::{Kind, Pager, Source};
use crate::containers::slab::Key;
use crate::core::continuation::SliceTimer;
use crate::core::continuation::{PAGES_PER_OBJECT, SLICE_COMMIT_PAGES};
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::{Machine, PAGE};
use crate::memory::vmo::Vmo;

/// Number of runs that one slice of [`Kernel::pager_query_dirty_ranges`] visits.
const QUERY_RUNS: usize = 512;

/// Progress of a query of dirty ranges.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DirtyQuery {
    /// A range is pending.
    pub has_begun: bool,
    /// The first page that was not looked at yet.
    pub at: u64,
    /// The first page of the pending range, which may still grow.
    pub start: u64,
    /// The page after the pending range.
    pub end: u64,
    /// Whether the pending range is zero.
    pub zero: bool,
}

impl DirtyQuery {
    /// Takes the pending range, which grows no further.
    fn close(&mut self) -> Option<zx_vmo_dirty_range_t> {
        let range = zx_vmo_dirty_range_t {
            offset: self.start * PAGE,
            length: (self.end - self.start) * PAGE,
            options: if self.zero { ZX_VMO_DIRTY_RANGE_IS_ZERO } else { 0 },
        };
        (core::mem::take(&mut self.end) > core::mem::take(&mut self.start)).then_some(range)
    }
}

/// State of a page that is not clean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DirtyState {
    /// Changed. Without a frame it is zero, like `Zero`, but the pager has been asked.
    Dirty,
    /// `Dirty`, and being written back.
    Cleaning,
    /// Known to be zero.
    Zero,
    /// `Zero`, and being written back.
    ZeroCleaning,
}

impl DirtyState {
    fn is_zero(self) -> bool {
        matches!(self, DirtyState::Zero | DirtyState::ZeroCleaning)
    }
}

impl Source {
    /// Whether the pager must be asked before a page becomes dirty.
    pub fn traps(&self) -> bool {
        self.traps
    }

    /// Whether the pager still exists.
    pub fn has_pager(&self) -> bool {
        self.pager.is_some()
    }

    /// Whether it is detached, so that nothing can be requested.
    pub fn is_detached(&self) -> bool {
        self.detached
    }

    /// Whether a page can be written without any bookkeeping.
    pub fn may_write(&self, page: u64) -> bool {
        self.modified && self.dirt.get(page) == Some(DirtyState::Dirty)
    }

    /// The first contiguous range of pages for which the pager must be asked before they are written.
    pub fn first_trapped(&self, pages: Range<u64>) -> Option<Range<u64>> {
        if !self.traps {
            return None;
        }
        let mut start = pages.start;
        let mut at = start;
        while at < pages.end {
            match self.dirt.first(at..pages.end) {
                Some((part, DirtyState::Dirty)) if part.start == start => (start, at) = (part.end, part.end),
                Some((part, DirtyState::Dirty)) => return Some(start..part.start),
                Some((part, _)) => at = part.end,
                None => break,
            }
        }
        (start < pages.end).then_some(start..pages.end)
    }
}

/// Converts a range of bytes to pages.
///
/// # Errors
/// `INVALID_ARGS`: they are not whole pages. `OUT_OF_RANGE`: they are not within `size` bytes.
pub(super) fn whole_pages(offset: u64, length: u64, size: u64) -> Result<Range<u64>, Status> {
    if !offset.is_multiple_of(PAGE) || !length.is_multiple_of(PAGE) {
        return Err(Status::INVALID_ARGS);
    }
    let end = offset.checked_add(length).filter(|&end| end <= size).ok_or(Status::OUT_OF_RANGE)?;
    Ok(offset / PAGE..end / PAGE)
}

impl<M: Machine> Kernel<M> {
    /// The source of a VMO of this pager.
    ///
    /// # Errors
    /// `INVALID_ARGS`: the VMO is not the pager's, or no longer.
    pub fn source_of(&self, pager: Id<Pager>, vmo: Id<Vmo>) -> Result<Key, Status> {
        let key = self.objects.get(vmo)?.source().ok_or(Status::INVALID_ARGS)?;
        let source = self.sources.get(key).ok_or(Status::INVALID_ARGS)?;
        if source.pager == Some(pager) { Ok(key) } else { Err(Status::INVALID_ARGS) }
    }

    /// A writable page was written.
    pub(crate) fn source_written(&mut self, key: Key, page: u64) {
        let Some(source) = self.sources.get_mut(key) else { return };
        source.modified = true;
        if source.dirt.get(page) != Some(DirtyState::Dirty) {
            source.dirt.set(page..page + 1, Some(DirtyState::Dirty));
        }
    }

    /// Pages were zeroed and have no frames any more.
    pub(crate) fn source_zeroed(&mut self, key: Key, pages: Range<u64>) {
        let Some(source) = self.sources.get_mut(key) else { return };
        source.modified = true;
        // Pages for which the pager has already consented keep that state.
        let mut at = pages.start;
        while at < pages.end {
            let dirty = match source.dirt.first(at..pages.end) {
                Some((part, DirtyState::Dirty)) if source.traps => part,
                Some((part, _)) => part.end..part.end,
                None => pages.end..pages.end,
            };
            source.dirt.set(at..dirty.start, Some(DirtyState::Zero));
            at = dirty.end.max(at + 1);
        }
        self.source_filled(key, Kind::Read, pages.start, pages.end);
    }

    /// The VMO's size changes from `old` to `size` pages.
    pub(crate) fn source_set_size(&mut self, id: Id<Vmo>, key: Key, old: u64, size: u64) {
        let Some(source) = self.sources.get_mut(key) else { return };
        if size == old {
            return;
        }
        source.modified = true;
        if size > old {
            source.dirt.set(old..size, Some(DirtyState::Zero));
            return;
        }
        source.dirt.set(size..old, None);
        for kind in [Kind::Read, Kind::Dirty] {
            self.source_truncate(id, key, kind, size);
        }
    }

    /// Number of pages of a range that have not arrived yet.
    fn source_missing(&self, id: Id<Vmo>, key: Key, kind: Kind, pages: Range<u64>) -> Result<u64, Status> {
        let (mut at, mut missing) = (pages.start, 0);
        loop {
            let next = match kind {
                Kind::Read => self.source_absent(id, key, at..pages.end)?,
                Kind::Dirty => self.sources.get(key).and_then(|source| source.first_trapped(at..pages.end)),
            };
            let Some(next) = next else { return Ok(missing) };
            missing += next.end - next.start;
            at = next.end;
        }
    }

    /// 4D: requests are cut off at the VMO's end. The remaining part of a request stays requested.
    fn source_truncate(&mut self, id: Id<Vmo>, key: Key, kind: Kind, size: u64) {
        while let Some((start, _)) = self.sources.get(key).and_then(|s| s.requests.first(kind, size..u64::MAX)) {
            let missing = self.source_missing(id, key, kind, start..size.max(start)).unwrap_or(0);
            let Some(request) = self.sources.get_mut(key).and_then(|s| s.requests.get_mut(kind, start)) else { return };
            if missing == 0 {
                self.source_finish(key, kind, start, Status::OK);
                continue;
            }
            (request.end, request.missing) = (size, missing);
            for waiters in request.joined.split_off(&size).into_values() {
                self.page_wait_end(waiters, Status::OK);
            }
            self.source_update_packet(key, kind, start);
        }
    }

    /// `pager_op_range`.
    ///
    /// # Errors
    /// `INVALID_ARGS`: the VMO is not the pager's, the range is not whole pages, or `data` is invalid. `OUT_OF_RANGE`.
    /// `NOT_SUPPORTED`: unknown operation. `NOT_FOUND`: pages to be made dirty are absent. `BAD_STATE`: the VMO is
    /// detached. `NO_MEMORY`: the job's quota has no room for the new notes.
    pub fn pager_op_range(
        &mut self,
        pager: Id<Pager>,
        op: u32,
        vmo: Id<Vmo>,
        (offset, length): (u64, u64),
        data: u64,
    ) -> Result<(), Status> {
        let (key, pages) = self.pager_may_op(pager, op, vmo, (offset, length), data)?;
        self.source_op(key, op, vmo, pages, data)
    }

    /// Does [`Kernel::pager_op_range`] for pages that were checked.
    pub(super) fn source_op(
        &mut self,
        key: Key,
        op: u32,
        vmo: Id<Vmo>,
        pages: Range<u64>,
        data: u64,
    ) -> Result<(), Status> {
        match op {
            ZX_PAGER_OP_FAIL => {
                self.source_failed(key, pages.start, pages.end, failure(data)?);
            }
            ZX_PAGER_OP_DIRTY => self.source_make_dirty(vmo, key, pages)?,
            ZX_PAGER_OP_WRITEBACK_BEGIN => {
                let zeroes_only = data != 0;
                let source = self.sources.get_mut(key).ok_or(Status::INTERNAL)?;
                source.dirt.change(pages.clone(), |dirt| {
                    Some(match dirt {
                        DirtyState::Dirty if !zeroes_only => DirtyState::Cleaning,
                        DirtyState::Zero => DirtyState::ZeroCleaning,
                        other => other,
                    })
                });
                self.vmo_protect_pages(vmo, pages.start, pages.end);
            }
            _ => self.source_cleaned(vmo, key, pages),
        }
        self.vmo_update_notes_charge(vmo);
        Ok(())
    }

    /// `ZX_PAGER_OP_DIRTY`: marks present pages as dirty.
    fn source_make_dirty(&mut self, vmo: Id<Vmo>, key: Key, pages: Range<u64>) -> Result<(), Status> {
        if self.source_absent(vmo, key, pages.clone())?.is_some() {
            return Err(Status::NOT_FOUND);
        }
        let mut at = pages.start;
        while at < pages.end {
            let Some(source) = self.sources.get_mut(key) else { return Ok(()) };
            // The next run of pages, all dirty or all not dirty.
            let (part, dirty) = match source.dirt.first(at..pages.end) {
                Some((part, dirt)) if part.start == at => (part, dirt == DirtyState::Dirty),
                Some((part, _)) => (at..part.start, false),
                None => (at..pages.end, false),
            };
            at = part.end;
            if !dirty {
                source.dirt.set(part.clone(), Some(DirtyState::Dirty));
                self.source_filled(key, Kind::Dirty, part.start, part.end);
            }
        }
        Ok(())
    }

    /// Pages of a range that are being cleaned become clean.
    fn source_cleaned(&mut self, vmo: Id<Vmo>, key: Key, pages: Range<u64>) {
        let mut at = pages.start;
        while let Some((part, dirt)) = self.sources.get(key).and_then(|s| s.dirt.first(at..pages.end)) {
            at = part.end;
            if matches!(dirt, DirtyState::Cleaning | DirtyState::ZeroCleaning) {
                // Zeroes without frames are absent from now on.
                self.source_forget_zeroes(vmo, part.clone());
                if let Some(source) = self.sources.get_mut(key) {
                    source.dirt.set(part.clone(), None);
                }
                // A page that a thread wants to write must be supplied first.
                if self.source_absent(vmo, key, part.clone()).is_ok_and(|absent| absent.is_some()) {
                    self.source_retry(key, Kind::Dirty, part);
                }
            }
        }
    }

    /// One slice of `pager_query_dirty_ranges`: passes the dirty ranges of a range of bytes, rounded to pages, to
    /// `each` in order. Says whether some are left.
    ///
    /// # Errors
    /// `INVALID_ARGS`: the VMO is not the pager's. `OUT_OF_RANGE`. As `each`.
    pub fn pager_query_dirty_ranges(
        &self,
        pager: Id<Pager>,
        vmo: Id<Vmo>,
        (offset, length): (u64, u64),
        query: &mut DirtyQuery,
        mut each: impl FnMut(zx_vmo_dirty_range_t) -> Result<(), Status>,
    ) -> Result<bool, Status> {
        let key = self.source_of(pager, vmo)?;
        let (size, mut end) = (self.vmo_size(vmo)?, offset.checked_add(length).ok_or(Status::OUT_OF_RANGE)?);
        if end > size && !query.has_begun {
            return Err(Status::OUT_OF_RANGE);
        }
        if !query.has_begun {
            *query = DirtyQuery { at: offset / PAGE, has_begun: true, ..DirtyQuery::default() };
        }
        // Skips what the VMO has lost meanwhile.
        end = end.min(size);
        let dirt = &self.sources.get(key).ok_or(Status::INTERNAL)?.dirt;
        for _ in 0..QUERY_RUNS {
            let Some((part, dirt)) = dirt.first(query.at..end.div_ceil(PAGE)) else {
                return query.close().map_or(Ok(()), each).map(|()| false);
            };
            query.at = part.end;
            if query.end == part.start && query.zero == dirt.is_zero() && query.start < query.end {
                query.end = part.end;
                continue;
            }
            query.close().map_or(Ok(()), &mut each)?;
            (query.start, query.end, query.zero) = (part.start, part.end, dirt.is_zero());
        }
        Ok(true)
    }

    /// `pager_query_vmo_stats`: whether a VMO was modified since that flag was last reset.
    ///
    /// # Errors
    /// `INVALID_ARGS`: the VMO is not the pager's.
    pub fn pager_query_modified(&self, pager: Id<Pager>, vmo: Id<Vmo>) -> Result<bool, Status> {
        let key = self.source_of(pager, vmo)?;
        Ok(self.sources.get(key).is_some_and(|source| source.modified))
    }

    /// Resets the "modified" flag of a VMO, and says whether it was set. While the flag is reset, no mapping may be
    /// writable: the caller write-protects all mappings ([`Kernel::pager_protect_slice`]), so that the next store is
    /// noticed. A store meanwhile counts as one before the reset.
    ///
    /// # Errors
    /// As [`Kernel::pager_query_modified`].
    pub fn pager_reset_modified(&mut self, pager: Id<Pager>, vmo: Id<Vmo>) -> Result<bool, Status> {
        let key = self.source_of(pager, vmo)?;
        Ok(self.sources.get_mut(key).is_some_and(|source| core::mem::take(&mut source.modified)))
    }

    /// `pager_supply_pages`.
    ///
    /// # Errors
    /// `INVALID_ARGS`: the VMO is not the pager's, or a range is not whole pages. `NOT_SUPPORTED`: pages of `aux`
    /// cannot be moved. `OUT_OF_RANGE`. `BAD_STATE`: the VMO is detached. `NO_MEMORY`.
    pub fn pager_supply_pages(
        &mut self,
        pager: Id<Pager>,
        vmo: Id<Vmo>,
        (offset, length): (u64, u64),
        (aux, aux_offset): (Id<Vmo>, u64),
    ) -> Result<(), Status> {
        let (key, pages, aux) = self.pager_may_supply(pager, vmo, (offset, length), (aux, aux_offset))?;
        self.source_supply(vmo, key, pages, aux)
    }

    /// Checks [`Kernel::pager_supply_pages`]; returns the source, its pages, and the VMO and first page that supply
    /// them.
    #[allow(clippy::type_complexity, reason = "it is taken apart at once")]
    fn pager_may_supply(
        &self,
        pager: Id<Pager>,
        vmo: Id<Vmo>,
        (offset, length): (u64, u64),
        (aux, aux_offset): (Id<Vmo>, u64),
    ) -> Result<(Key, core::ops::Range<u64>, (Id<Vmo>, u64)), Status> {
        let key = self.source_of(pager, vmo)?;
        let pages = whole_pages(offset, length, self.vmo_size(vmo)?)?;
        whole_pages(aux_offset, length, self.vmo_size(aux)?)?;
        let aux = self.source_aux(aux, aux_offset, pages.end - pages.start)?;
        if self.sources.get(key).is_some_and(|source| source.detached) {
            return Err(Status::BAD_STATE);
        }
        let (_, total) = self.machine.memory();
        // Each page takes an entry, even one of zeroes.
        if pages.end - pages.start > total / PAGE {
            return Err(Status::NO_MEMORY);
        }
        Ok((key, pages, aux))
    }

    /// One slice of [`Kernel::pager_supply_pages`] after `done` bytes. Returns the number of bytes done, if some are
    /// left.
    ///
    /// # Errors
    /// As `pager_supply_pages`; pages that were moved stay moved.
    pub fn pager_supply_slice(
        &mut self,
        pager: Id<Pager>,
        vmo: Id<Vmo>,
        (offset, length): (u64, u64),
        (aux, aux_offset): (Id<Vmo>, u64),
        mut done: u64,
    ) -> Result<Option<u64>, Status> {
        let part = SLICE_COMMIT_PAGES * PAGE;
        if length <= part {
            return self.pager_supply_pages(pager, vmo, (offset, length), (aux, aux_offset)).map(|()| None);
        }
        // The first slice reports the errors of the whole range.
        self.pager_may_supply(pager, vmo, (offset, length), (aux, aux_offset))?;
        let mut slice = SliceTimer::default();
        while done < length {
            let part = part.min(length - done);
            self.pager_supply_pages(pager, vmo, (offset + done, part), (aux, aux_offset + done))?;
            done += part;
            self.slice_add_work(SLICE_COMMIT_PAGES as u32 / PAGES_PER_OBJECT);
            if self.slice_over(&mut slice) {
                break;
            }
        }
        Ok(Some(done).filter(|&done| done < length))
    }
}

/// Checks that an operation exists and its data is valid.
///
/// # Errors
/// `NOT_SUPPORTED`, `INVALID_ARGS`.
pub(super) fn op_is_known(op: u32, data: u64) -> Result<(), Status> {
    match op {
        ZX_PAGER_OP_FAIL => failure(data).map(drop),
        ZX_PAGER_OP_WRITEBACK_BEGIN if data != 0 && data != ZX_VMO_DIRTY_RANGE_IS_ZERO => Err(Status::INVALID_ARGS),
        ZX_PAGER_OP_DIRTY | ZX_PAGER_OP_WRITEBACK_END if data != 0 => Err(Status::INVALID_ARGS),
        ZX_PAGER_OP_DIRTY | ZX_PAGER_OP_WRITEBACK_BEGIN | ZX_PAGER_OP_WRITEBACK_END => Ok(()),
        _ => Err(Status::NOT_SUPPORTED),
    }
}

/// Whether an operation answers requests.
pub(super) fn op_asks(op: u32) -> bool {
    matches!(op, ZX_PAGER_OP_FAIL | ZX_PAGER_OP_DIRTY)
}

/// The status with which a pager fails requests.
fn failure(data: u64) -> Result<Status, Status> {
    let allowed =
        [Status::IO, Status::IO_DATA_INTEGRITY, Status::BAD_STATE, Status::NO_SPACE, Status::BUFFER_TOO_SMALL];
    let status = i32::try_from(data.cast_signed()).map(Status).map_err(|_| Status::INVALID_ARGS)?;
    if allowed.contains(&status) { Ok(status) } else { Err(Status::INVALID_ARGS) }
}
