//! `vmar_op_range`: applies an operation to the memory mapped in a range, as if to its VMOs, mapping by mapping.

use abi::Status;

use super::Vmar;
use crate::containers::slab::Key;
use crate::core::continuation::SliceTimer;
use crate::core::continuation::{PAGES_PER_OBJECT, SLICE_MAP_PAGES};
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::Access;
use crate::machine::{LARGE_PAGES, Machine, PAGE};
use crate::memory::aspace::Mapping;

/// Operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RangeOp {
    /// Commits all pages and maps them.
    Commit,
    /// Frees pages; they read as zeroes again.
    Decommit,
    /// Maps the pages that are present.
    MapRange,
    /// Zeroes the range.
    Zero,
    /// A hint without effect.
    DontNeed,
    /// A hint; maps the pages that are present.
    AlwaysNeed,
    /// Requests pages from pagers, and maps them.
    Prefetch,
}

impl<M: Machine> Kernel<M> {
    /// One slice of `vmar_op_range` after `done` bytes. Returns the number of bytes done, if some are left. After an
    /// error, changes already made stay.
    ///
    /// # Errors
    /// `INVALID_ARGS`: not whole pages, or in a VMAR below this one, which the operation or the handle (`with_vmars`)
    /// does not reach. `OUT_OF_RANGE`: not within the VMAR, or beyond a VMO's end. `BAD_STATE`: destroyed, or not all
    /// of it is mapped. `ACCESS_DENIED`: a mapping's maximum permissions do not allow the operation. Errors of the VMO.
    pub fn vmar_op_range_slice(
        &mut self,
        id: Id<Vmar>,
        op: RangeOp,
        (address, len): (u64, u64),
        with_vmars: bool,
        done: u64,
    ) -> Result<Option<u64>, Status> {
        let len = len.checked_next_multiple_of(PAGE).filter(|&len| len > 0).ok_or(Status::INVALID_ARGS)?;
        if !address.is_multiple_of(PAGE) {
            return Err(Status::INVALID_ARGS);
        }
        if !self.objects.get(id)?.covers(address, len) {
            return Err(Status::OUT_OF_RANGE);
        }
        let (_, aspace) = self.vmar_alive(id)?;
        let end = address + len;
        if self.range_has_fixed(aspace, address, end) {
            return Err(Status::ACCESS_DENIED);
        }
        // Like `vmar_protect`, operations that need more than a mapping's current permissions do not reach into VMARs
        // below.
        let own = !with_vmars || matches!(op, RangeOp::Commit | RangeOp::Decommit | RangeOp::Prefetch);
        let (mut at, mut slice) = (address.saturating_add(done), SliceTimer::default());
        while at < end {
            let mapping = self.mapping_at(aspace, at).filter(|mapping| !mapping.table);
            let mapping = *mapping.ok_or(Status::BAD_STATE)?;
            if own && mapping.vmar != id {
                return Err(Status::INVALID_ARGS);
            }
            let to = mapping.end().min(end);
            if let Some(part) = self.mapping_op(aspace, &mapping, op, at, to)? {
                return Ok(Some(at + part - address));
            }
            // A range may have any number of short mappings.
            self.slice_add_work(((to - at) / PAGE).min(SLICE_MAP_PAGES) as u32 / PAGES_PER_OBJECT);
            at = to;
            if at < end && self.slice_over(&mut slice) {
                return Ok(Some(at - address));
            }
        }
        Ok(None)
    }

    /// One slice of an operation on a part of a mapping. Returns the number of bytes of it that are done, if some are
    /// left.
    fn mapping_op(
        &mut self,
        aspace: Key,
        mapping: &Mapping,
        op: RangeOp,
        from: u64,
        to: u64,
    ) -> Result<Option<u64>, Status> {
        let (vmo, offset, len) = (mapping.named, mapping.named_offset + (from - mapping.base), to - from);
        let (size, content) = (self.vmo_size(vmo)?, self.vmo_content_size(vmo)?);
        let limit = if mapping.content_only { content.next_multiple_of(PAGE).min(size) } else { size };
        let within = || offset.checked_add(len).filter(|&end| end <= limit).map(drop).ok_or(Status::OUT_OF_RANGE);
        if mapping.content_only {
            within()?;
        }
        let allowed = |allowed| if allowed { Ok(()) } else { Err(Status::ACCESS_DENIED) };
        match op {
            RangeOp::Commit => {
                allowed(mapping.max.write)?;
                if let Some(pages) = self.vmo_commit_slice(vmo, offset, len, 0)? {
                    self.mapping_fill(aspace, mapping, from, from + pages * PAGE);
                    return Ok(Some(pages * PAGE));
                }
            }
            RangeOp::Decommit => {
                allowed(mapping.max.write)?;
                return self.vmo_decommit_slice(vmo, offset, len, 0);
            }
            RangeOp::Zero => {
                allowed(mapping.max.write)?;
                return self.vmo_zero_slice(vmo, offset, len, 0);
            }
            RangeOp::DontNeed => return Ok(None),
            RangeOp::Prefetch => {
                allowed(mapping.max.read)?;
                within()?;
                let there = self.vmo_require_part(vmo, offset, len, Access::Read)?;
                let done = self.mapping_fill_slice(aspace, mapping, from, from + there).unwrap_or(there);
                return Ok(Some(done).filter(|&done| done < len));
            }
            RangeOp::MapRange => within()?,
            RangeOp::AlwaysNeed => {}
        }
        Ok(self.mapping_fill_slice(aspace, mapping, from, to))
    }

    /// One slice of [`Kernel::mapping_fill`]. Returns the number of bytes of the part that are done, if some are left.
    fn mapping_fill_slice(&mut self, aspace: Key, mapping: &Mapping, from: u64, to: u64) -> Option<u64> {
        let page_of = |address: u64| (mapping.offset + (address - mapping.base)) / PAGE;
        let end = match self.vmo_first_page(mapping.vmo, page_of(from), page_of(to)) {
            Some(first) => {
                from.saturating_add(((first + 1).next_multiple_of(SLICE_MAP_PAGES) - page_of(from)) * PAGE).min(to)
            }
            None => to,
        };
        self.mapping_fill(aspace, mapping, from, end);
        (end < to).then_some(end - from)
    }

    /// Maps the present pages of a part of a mapping. Best effort: without memory or quota for it, the pages are mapped
    /// when they are touched.
    fn mapping_fill(&mut self, aspace: Key, mapping: &Mapping, from: u64, to: u64) {
        if !mapping.perm.read || mapping.content_only {
            return;
        }
        let Some(machine) = self.aspaces.get(aspace).map(|space| space.machine) else { return };
        self.mapping_change(aspace, mapping.base, |mapping| mapping.shown = true);
        let page_of = |address: u64| (mapping.offset + (address - mapping.base)) / PAGE;
        let (mut page, last) = (page_of(from), page_of(to));
        while let Some(next) = self.vmo_first_page(mapping.vmo, page, last) {
            let at = mapping.base + (next * PAGE - mapping.offset);
            if self.aspace_update_charge(aspace).is_err() {
                return;
            }
            if self.vmo_map_large(machine, mapping, at, false) {
                page = next - next % LARGE_PAGES + LARGE_PAGES;
                continue;
            }
            if self.vmo_map_if_there(machine, at, mapping.vmo, next, mapping.perm).is_err() {
                return;
            }
            page = next + 1;
        }
    }

    /// `ZX_VM_MAP_RANGE` of a new mapping: maps its present pages in advance, from an address up. Does one slice;
    /// returns the address from which more are left.
    pub fn vmar_prefault(&mut self, id: Id<Vmar>, address: u64) -> Option<u64> {
        let aspace = self.objects.get(id).ok()?.aspace?;
        let mapping = *self.mapping_at(aspace, address)?;
        Some(address + self.mapping_fill_slice(aspace, &mapping, address, mapping.end())?)
    }
}

#[cfg(test)]
impl<M: Machine> Kernel<M> {
    /// All slices.
    pub(crate) fn vmar_op_range(
        &mut self,
        id: Id<Vmar>,
        op: RangeOp,
        address: u64,
        len: u64,
        with_vmars: bool,
    ) -> Result<(), Status> {
        let mut done = 0;
        while let Some(next) = self.vmar_op_range_slice(id, op, (address, len), with_vmars, done)? {
            done = next;
        }
        Ok(())
    }
}
