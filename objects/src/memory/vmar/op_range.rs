//! `vmar_op_range`: to the memory that is mapped in a range as if to its VMOs, mapping by mapping.

use abi::Status;

use super::Vmar;
use crate::containers::slab::Key;
use crate::core::continuation::Portion;
use crate::core::continuation::{SHOWS, WORK};
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::Access;
use crate::machine::{LARGE_PAGES, Machine, PAGE};
use crate::memory::aspace::Mapping;

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RangeOp {
    /// All pages exist, and are mapped.
    Commit,
    /// Gives pages back; they are zeroes again.
    Decommit,
    /// Maps the pages that exist.
    MapRange,
    /// Zeroes.
    Zero,
    /// A hint.
    DontNeed,
    /// A hint, with which the pages that exist are mapped.
    AlwaysNeed,
    /// Brings in the pages that can be had, and maps them.
    Prefetch,
}

impl<M: Machine> Kernel<M> {
    /// A portion of `vmar_op_range`, of which `done` bytes are done. Says how many are then, if some are left. What was done
    /// before an error stays.
    ///
    /// # Errors
    /// `INVALID_ARGS`: not whole pages, or in a VMAR below this one where the operation, or the handle (`with_vmars`),
    /// does not reach. `OUT_OF_RANGE`: not within the VMAR, or beyond a VMO's end. `BAD_STATE`: destroyed, or not all of
    /// it is mapped. `ACCESS_DENIED`: a mapping cannot be made to allow it. Whatever the VMO says.
    pub fn vmar_op_range_portion(
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
        // What asks for more than the mapping allows now does not go through a VMAR below, as protecting does not.
        let own = !with_vmars || matches!(op, RangeOp::Commit | RangeOp::Decommit | RangeOp::Prefetch);
        let (mut at, mut portion) = (address.saturating_add(done), Portion::default());
        while at < end {
            let mapping = *self.mapping_at(aspace, at).ok_or(Status::BAD_STATE)?;
            if own && mapping.vmar != id {
                return Err(Status::INVALID_ARGS);
            }
            let to = mapping.end().min(end);
            if let Some(part) = self.mapping_op(aspace, &mapping, op, at, to)? {
                return Ok(Some(at + part - address));
            }
            // A range may have any number of short mappings.
            self.worked(((to - at) / PAGE).min(SHOWS) as u32 / WORK);
            at = to;
            if at < end && self.portion_over(&mut portion) {
                return Ok(Some(at - address));
            }
        }
        Ok(None)
    }

    /// A portion of an operation on a part of a mapping. Says how many bytes of it are done, if some are left.
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
                if let Some(pages) = self.vmo_commit_portion(vmo, offset, len, 0)? {
                    self.mapping_fill(aspace, mapping, from, from + pages * PAGE);
                    return Ok(Some(pages * PAGE));
                }
            }
            RangeOp::Decommit => {
                allowed(mapping.max.write)?;
                return self.vmo_decommit_portion(vmo, offset, len, 0);
            }
            RangeOp::Zero => {
                allowed(mapping.max.write)?;
                return self.vmo_zero_portion(vmo, offset, len, 0);
            }
            RangeOp::DontNeed => return Ok(None),
            RangeOp::Prefetch => {
                allowed(mapping.max.read)?;
                within()?;
                let there = self.vmo_require_part(vmo, offset, len, Access::Read)?;
                let done = self.mapping_fill_portion(aspace, mapping, from, from + there).unwrap_or(there);
                return Ok(Some(done).filter(|&done| done < len));
            }
            RangeOp::MapRange => within()?,
            RangeOp::AlwaysNeed => {}
        }
        Ok(self.mapping_fill_portion(aspace, mapping, from, to))
    }

    /// As [`Kernel::mapping_fill`], but no more than a portion. Says how many bytes of the part are done, if some are left.
    fn mapping_fill_portion(&mut self, aspace: Key, mapping: &Mapping, from: u64, to: u64) -> Option<u64> {
        let page_of = |address: u64| (mapping.offset + (address - mapping.base)) / PAGE;
        let end = match self.vmo_first_page(mapping.vmo, page_of(from), page_of(to)) {
            Some(first) => from.saturating_add(((first + 1).next_multiple_of(SHOWS) - page_of(from)) * PAGE).min(to),
            None => to,
        };
        self.mapping_fill(aspace, mapping, from, end);
        (end < to).then_some(end - from)
    }

    /// Maps the pages of a part of a mapping that exist. A favour: without memory for it, or where the process may
    /// not have so much, they are mapped when they are touched.
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
            if self.aspace_pays(aspace).is_err() {
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

    /// As `ZX_VM_MAP_RANGE` asks when a mapping is made: maps in advance those of its pages that exist, from an address
    /// on. Does a portion; says from where on more are to be done.
    pub fn vmar_prefault(&mut self, id: Id<Vmar>, address: u64) -> Option<u64> {
        let aspace = self.objects.get(id).ok()?.aspace?;
        let mapping = *self.mapping_at(aspace, address)?;
        Some(address + self.mapping_fill_portion(aspace, &mapping, address, mapping.end())?)
    }
}

#[cfg(test)]
impl<M: Machine> Kernel<M> {
    /// All portions.
    pub(crate) fn vmar_op_range(
        &mut self,
        id: Id<Vmar>,
        op: RangeOp,
        address: u64,
        len: u64,
        with_vmars: bool,
    ) -> Result<(), Status> {
        let mut done = 0;
        while let Some(next) = self.vmar_op_range_portion(id, op, (address, len), with_vmars, done)? {
            done = next;
        }
        Ok(())
    }
}
