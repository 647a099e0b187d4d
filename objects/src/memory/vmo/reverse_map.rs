//! The reverse map of a VMO.

use super::pages::Entry;
use super::{AbsentPages, Vmo};
use crate::containers::slab::{Key, Slab};
use crate::core::continuation::SLICE_FREE_PAGES;
use crate::core::noun::Variant;
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::{Aspace, Machine, PAGE, Perm};
use crate::memory::aspace::each_machine;
use crate::memory::aspace::{AddressSpace, Mapping};

/// From this many mappings of a VMO on, slices that free its pages are smaller.
const MANY_PLACES: u64 = 4;

impl<M: Machine> Kernel<M> {
    /// Enters a new mapping into the reverse map of its VMOs and keeps them alive.
    #[inline(always)]
    pub(crate) fn reverse_map_insert(&mut self, aspace: Key, mapping: &Mapping) {
        let Mapping { base, len, vmo, offset, named, .. } = *mapping;
        if let Ok(object) = self.objects.any_mut(vmo.object()) {
            object.refs += 1;
            if let Some(vmo) = Vmo::of_mut(&mut object.body) {
                vmo.spaces.add(aspace);
                match mapping.table {
                    true => vmo.page_tables += 1,
                    false => vmo.mappings.insert(offset, len, (aspace, base)),
                }
                vmo.num_mappings += usize::from(named == mapping.vmo);
            }
        }
        if let Some(space) = self.aspaces.get_mut(aspace) {
            space.mapped += 1;
        }
        if named != vmo {
            self.add_ref(named.object());
            if let Ok(named) = self.objects.get_mut(named) {
                named.num_mappings += 1;
                named.spaces.add(aspace);
            }
        }
    }

    /// The inverse of [`Kernel::reverse_map_insert`].
    pub(crate) fn reverse_map_remove(&mut self, aspace: Key, mapping: &Mapping) {
        let Mapping { base, len, vmo, offset, named, .. } = *mapping;
        self.frames.lookaside.forget(base, len);
        if let Some(space) = self.aspaces.get_mut(aspace) {
            space.mapped = space.mapped.saturating_sub(1);
        }
        if named != vmo {
            if let Ok(named) = self.objects.get_mut(named) {
                named.num_mappings = named.num_mappings.saturating_sub(1);
                named.spaces.subtract(aspace);
            }
            self.drop_ref(named.object());
        }
        let Ok(object) = self.objects.any_mut(vmo.object()) else { return };
        if let Some(vmo) = Vmo::of_mut(&mut object.body)
            && (mapping.table || vmo.mappings.remove(offset, (aspace, base)))
        {
            vmo.page_tables = vmo.page_tables.saturating_sub(mapping.table.into());
            vmo.num_mappings = vmo.num_mappings.saturating_sub(usize::from(named == mapping.vmo));
            vmo.spaces.subtract(aspace);
        }
        object.refs = object.refs.saturating_sub(1);
        if object.refs == 0 && object.handles == 0 {
            self.reaper_enqueue(vmo.object());
        }
    }

    /// The number of pages at a page that one slice frees: the more mappings the pages must be removed from, the fewer.
    /// A large page is never divided.
    pub(crate) fn vmo_pages_per_slice(&self, id: Id<Vmo>, page: u64) -> u64 {
        let Ok(vmo) = self.objects.get(id) else { return SLICE_FREE_PAGES };
        let from = page / SLICE_FREE_PAGES * SLICE_FREE_PAGES;
        let end = from.saturating_add(SLICE_FREE_PAGES).saturating_mul(PAGE);
        let meeting = vmo.mappings.meeting(from.saturating_mul(PAGE), end);
        let places = meeting.take(SLICE_FREE_PAGES as usize).count() as u64;
        let is_large = |vmo: &Vmo| match vmo.pages().map(|pages| pages.get(page)) {
            Some(Entry::Frame(frame)) => self.machine.frame_is_large(frame),
            _ => false,
        };
        if places < MANY_PLACES || is_large(vmo) {
            return SLICE_FREE_PAGES;
        }
        SLICE_FREE_PAGES / places.next_power_of_two()
    }

    /// Unmaps the pages `[from, to)` in all address spaces, including where a clone shows them. The cost depends on the
    /// number of mapped pages.
    pub(crate) fn vmo_unmap_pages(&mut self, id: Id<Vmo>, from: u64, to: u64) {
        self.each_mapped(id, from, to, M::unmap);
    }

    /// Write-protects the pages `[from, to)` in all mappings.
    pub(crate) fn vmo_protect_pages(&mut self, id: Id<Vmo>, from: u64, to: u64) {
        let within = Perm { read: true, write: false, execute: true };
        self.each_mapped(id, from, to, |machine, aspace, address, pages| {
            machine.protect(aspace, address, pages, within)
        });
    }

    fn each_mapped(&mut self, id: Id<Vmo>, from: u64, to: u64, act: impl Fn(&mut M, Aspace, u64, u64)) {
        let Self { objects, aspaces, machine, .. } = self;
        let Ok(vmo) = objects.get(id) else { return };
        each_mapping(vmo, from, to, aspaces, |aspace, address, pages| act(machine, aspace, address, pages));
        for reader in objects.listed(vmo.readers) {
            if let Ok(reader) = objects.get::<Vmo>(Id::new(reader))
                && let AbsentPages::Other { from: first, end, .. } = reader.absent_pages
            {
                let (from, to) = (from.saturating_sub(first), to.saturating_sub(first).min(end));
                each_mapping(reader, from, to, aspaces, |aspace, address, pages| act(machine, aspace, address, pages));
            }
        }
    }
}

/// Calls `act` for each part of a mapping that shows pages in `[from, to)`: address space, address and number of pages.
fn each_mapping(vmo: &Vmo, from: u64, to: u64, aspaces: &Slab<AddressSpace>, mut act: impl FnMut(Aspace, u64, u64)) {
    if from >= to || vmo.mappings.is_empty() {
        return;
    }
    let (from, to) = (from.saturating_mul(PAGE), to.saturating_mul(PAGE));
    for (offset, len, (aspace, base)) in vmo.mappings.meeting(from, to) {
        let start = from.max(offset);
        let end = to.min(offset + len);
        each_machine(aspaces, aspace, |machine| act(machine, base + (start - offset), (end - start) / PAGE));
    }
}
