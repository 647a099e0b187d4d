//! Page tables: mappings whose owner decides about every page.
//!
//! A page table is a mapping of a VMO without permissions: no access to it finds a page, and nothing is mapped on a
//! fault. `vproc_map` maps any pages of the VMO at any addresses in it, and unmaps them. The system records only which
//! VMO it is, so a page costs no more than the machine's entry for it. The owner fills it like a TLB.
//!
//! Nothing can find the places in a page table that show a page of the VMO. So the pages must not go while there is a
//! page table of their VMO: they are pinned when they are committed ([`Vmo::is_pinned`]), and a page is never mapped
//! before it is committed and belongs to the VMO alone. The VMO cannot be resized, and lives as long as the page table.
//!
//! Unlike other pins, these need no right to a device, but the right to set properties of the VMO: they keep its other
//! users from decommitting and cloning it.

use abi::Status;

use super::{Child, MapRequest, Place, Vmar};
use crate::containers::slab::Key;
use crate::core::continuation::{PAGES_PER_OBJECT, UNMAP_BATCH_PAGES};
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::{Cache, Machine, Perm};
use crate::memory::aspace::Mapping;
use crate::memory::vmo::{FAULT_AROUND, Vmo};

/// A mapping from a large page makes small pages of it, which takes as long as mapping this many pages.
const SPLIT: u32 = 128;

impl Vmar {
    /// The VMO of the page table in it that covers a range.
    #[inline(always)] // Most VMARs have none, and a call costs more than finding that out.
    pub fn page_table(&self, address: u64, len: u64) -> Option<Id<Vmo>> {
        if !self.has_page_tables {
            return None;
        }
        match self.children.at(address)? {
            Child::Mapping(mapping) if mapping.table && len <= mapping.end() - address => Some(mapping.vmo),
            _ => None,
        }
    }
}

impl<M: Machine> Kernel<M> {
    /// `vmar_map` with `HAFNON_VM_PAGE_TABLE`: makes an empty page table of a VMO. Returns its address.
    ///
    /// # Errors
    /// `NOT_SUPPORTED`: the VMO is not plain memory of a fixed size. Others as [`Kernel::vmar_map`].
    pub fn page_table_create(&mut self, id: Id<Vmar>, place: Place, vmo: Id<Vmo>, len: u64) -> Result<u64, Status> {
        if !self.objects.get(vmo)?.may_have_page_tables() {
            return Err(Status::NOT_SUPPORTED);
        }
        let (perm, max) = (Perm::default(), Perm::default());
        let request = MapRequest { vmo, offset: 0, len, perm, max, fixed: false };
        let mapping = Mapping { table: true, shown: true, ..self.mapping_wanted(id, &request)? };
        let (base, aspace) = self.vmar_place(id, place, mapping.len)?;
        self.aspace_update_charge(aspace)?;
        self.objects.get_mut(id)?.has_page_tables = true;
        self.mapping_insert(aspace, Mapping { base, ..mapping });
        Ok(base)
    }

    /// Maps pages of a page table's VMO at consecutive addresses in it, in the place of others, and commits them. Maps
    /// at most [`FAULT_AROUND`] of them; returns their number, at least one.
    ///
    /// # Errors
    /// `OUT_OF_RANGE`: the first is beyond the VMO's end. `NO_MEMORY`.
    pub fn page_table_map(
        &mut self,
        aspace: Key,
        vmo: Id<Vmo>,
        (address, page, pages): (u64, u64, u64),
        perm: Perm,
    ) -> Result<u64, Status> {
        let machine = self.aspaces.get(aspace).ok_or(Status::BAD_STATE)?.machine;
        self.aspace_update_charge(aspace)?;
        let (first, _) = self.vmo_page_to_write(vmo, page)?;
        if self.machine.frame_is_large(first) {
            self.slice_add_work(SPLIT / PAGES_PER_OBJECT);
        }
        if pages <= 1 {
            return self.vmo_map_frame(machine, address, vmo, first, perm).map(|()| 1);
        }
        let mut frames = [first; FAULT_AROUND as usize];
        let mut count = 1;
        for (page, place) in (page..page.saturating_add(pages)).zip(&mut frames).skip(1) {
            // An error of a later page is reported when that page is the first.
            let Ok((frame, _)) = self.vmo_page_to_write(vmo, page) else { break };
            *place = frame;
            count += 1;
        }
        let run = frames.get(..count).unwrap_or_default();
        self.slice_add_work(count as u32);
        let mapped =
            self.retry_with_reaper(|kernel| kernel.machine.map_run(machine, address, run, perm, Cache::Cached));
        mapped.map(|()| count as u64).map_err(|_| Status::NO_MEMORY)
    }

    /// Unmaps pages of a page table, as many as fit between two checks of the time; returns how many of the `pages`
    /// are done.
    pub fn page_table_unmap(&mut self, aspace: Key, address: u64, pages: u64) -> u64 {
        let some = self.space_stretch(aspace, address, pages);
        self.space_unmap(aspace, address, some);
        self.slice_add_work(some.min(UNMAP_BATCH_PAGES.into()) as u32 / PAGES_PER_OBJECT);
        some
    }
}

#[cfg(test)]
mod tests;
