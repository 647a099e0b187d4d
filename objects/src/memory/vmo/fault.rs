//! Page faults: a thread touches memory that is not mapped in the machine.

use core::ops::Range;

use abi::Status;

use super::{Kind, Vmo};
use crate::containers::slab::Key;
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::Access;
use crate::machine::{Aspace, Cache, Frame, LARGE_PAGE, Machine, PAGE, Perm};
use crate::memory::aspace::Mapping;

/// Fault-around: a fault also maps the committed pages in the aligned block of this many pages around it.
pub(crate) const FAULT_AROUND: u64 = 16;

/// The addresses of the fault-around block of an address in a mapping. Blocks are aligned in the VMO, so that all
/// mappings of a library have the same ones, wherever it is: the machine keeps capabilities for such runs. A block
/// ends where the page table does, because most faults need no second one.
pub(super) fn fault_around(mapping: &Mapping, at: u64) -> Range<u64> {
    let page = (mapping.offset + (at - mapping.base)) / PAGE % FAULT_AROUND;
    let table = at / LARGE_PAGE * LARGE_PAGE;
    let from = at.saturating_sub(page * PAGE).max(mapping.base).max(table);
    let to = at.saturating_add((FAULT_AROUND - page) * PAGE).min(mapping.end()).min(table.saturating_add(LARGE_PAGE));
    from..to
}

impl<M: Machine> Kernel<M> {
    /// Handles a thread's access to an unmapped address. A store allocates the page. A load of an absent page maps the
    /// page of zeroes read-only and commits nothing.
    ///
    /// # Errors
    /// `NOT_FOUND`: nothing is mapped there. `ACCESS_DENIED`. `OUT_OF_RANGE`: beyond the VMO's end. `NO_MEMORY`. Errors
    /// of the VMO's source. [`PAGE_WAIT`](crate::core::continuation::PAGE_WAIT): the caller repeats the call when the
    /// page is present.
    pub fn page_fault(&mut self, key: Key, address: u64, write: bool, execute: bool) -> Result<(), Status> {
        let machine = self.aspaces.get(key).ok_or(Status::BAD_STATE)?.machine;
        let mapping = self.fault_in(key, address).ok_or(Status::NOT_FOUND)?;
        let allowed = match (write, execute) {
            (true, _) => mapping.perm.write,
            (_, true) => mapping.perm.execute,
            _ => mapping.perm.read,
        };
        if !allowed {
            return Err(Status::ACCESS_DENIED);
        }
        self.aspace_update_charge(key)?;
        let at = address / PAGE * PAGE;
        let page_of = |address: u64| (mapping.offset + (address - mapping.base)) / PAGE;
        let page = page_of(at);
        if mapping.content_only && self.is_beyond_content(&mapping, address) {
            return Err(Status::OUT_OF_RANGE);
        }
        if write {
            let (mut frame, new) = self.vmo_page_to_write(mapping.vmo, page)?;
            if self.machine.frame_is_large(frame) {
                if self.vmo_map_large(machine, &mapping, at, true) {
                    return Ok(());
                }
                self.vmo_leave_large(&mapping, at);
                (frame, _) = self.vmo_page_to_write(mapping.vmo, page)?;
            }
            // Around a new page there is seldom a page that is present but not mapped.
            if new && !mapping.content_only {
                let room = (mapping.end() - at) / PAGE - 1;
                return self.vmo_ahead((key, at), (mapping.vmo, page, frame), room, mapping.perm);
            }
            // Mapping a page whose frame could not leave its large page splits the large page; the others are small
            // then.
            if mapping.content_only || self.machine.frame_is_large(frame) {
                self.vmo_map_frame(machine, at, mapping.vmo, frame, mapping.perm)?;
            }
            if mapping.content_only {
                return Ok(());
            }
        } else if let Some(frame) = self.vmo_page(mapping.vmo, page, self.read_access(mapping.vmo))? {
            if self.machine.frame_is_large(frame) {
                if self.vmo_map_large(machine, &mapping, at, false) {
                    return Ok(());
                }
                self.vmo_leave_large(&mapping, at);
            }
            let left = |kernel: &Self| kernel.vmo_page_if_there(mapping.vmo, page).map(|(frame, _)| frame);
            if mapping.content_only || left(self).is_some_and(|frame| self.machine.frame_is_large(frame)) {
                self.vmo_map_if_there(machine, at, mapping.vmo, page, mapping.perm)?;
            }
            if mapping.content_only {
                return Ok(());
            }
        } else {
            let zero = self
                .retry_with_reaper(|kernel| kernel.frames.zero(&mut kernel.machine))
                .map_err(|_| Status::NO_MEMORY)?;
            self.objects.get_mut(mapping.vmo)?.zero_mapped = true;
            return self.vmo_map_frame(machine, at, mapping.vmo, zero, Perm { write: false, ..mapping.perm });
        }
        self.vmo_map_around(machine, &mapping, at)
    }

    /// Commits pages from an address up, as stores or loads there would, and maps them without fault-around, because
    /// the caller knows which pages it wants. Maps adjacent pages together; returns their number, at least one.
    ///
    /// # Errors
    /// As [`Kernel::page_fault`], for the first of them.
    pub fn pages_map(&mut self, key: Key, address: u64, wanted: u64, write: bool) -> Result<u64, Status> {
        let machine = self.aspaces.get(key).ok_or(Status::BAD_STATE)?.machine;
        let mapping = self.fault_in(key, address).ok_or(Status::NOT_FOUND)?;
        self.aspace_update_charge(key)?;
        let at = address / PAGE * PAGE;
        let first = (mapping.offset + (at - mapping.base)) / PAGE;
        // Making a page may reclaim memory, but none of the pages found here.
        self.ahead_keep_open(mapping.vmo);
        let Some(frame) = self.page_to_map(&mapping, first, write)? else {
            return self.page_fault(key, address, write, false).map(|()| 1);
        };
        // A frame that is only read may be shared.
        let perm = Perm { write, ..mapping.perm };
        let wanted = wanted.min((mapping.end() - at) / PAGE).min(FAULT_AROUND);
        if wanted <= 1 {
            return self.vmo_map_frame(machine, at, mapping.vmo, frame, perm).map(|()| 1);
        }
        let mut frames = [frame; FAULT_AROUND as usize];
        let mut count = 1;
        for (page, place) in (first..first + wanted).zip(&mut frames).skip(1) {
            // An error of a later page is reported when that page is the first.
            let Ok(Some(frame)) = self.page_to_map(&mapping, page, write) else { break };
            *place = frame;
            count += 1;
        }
        // Maps only frames that the VMO still has: making the last of them may have reclaimed memory.
        let is_there = |(page, frame): &(u64, &Frame)| {
            self.vmo_page_if_there(mapping.vmo, *page).is_some_and(|(there, _)| there == **frame)
        };
        let count = (first..).zip(frames.iter().take(count)).take_while(is_there).count();
        if count == 0 {
            return self.page_fault(key, address, write, false).map(|()| 1);
        }
        let cache = self.objects.get(mapping.vmo)?.cache;
        let run = frames.get(..count).unwrap_or_default();
        self.slice_add_work(count as u32 - 1);
        let mapped = self.retry_with_reaper(|kernel| kernel.machine.map_run(machine, at, run, perm, cache));
        mapped.map(|()| count as u64).map_err(|_| Status::NO_MEMORY)
    }

    /// The frame of a page to map by itself; none if the page needs a fault.
    #[inline]
    fn page_to_map(&mut self, mapping: &Mapping, page: u64, write: bool) -> Result<Option<Frame>, Status> {
        let frame = match write {
            true if mapping.perm.write => Some(self.vmo_page_to_write(mapping.vmo, page)?.0),
            false if mapping.perm.read => self.vmo_page(mapping.vmo, page, self.read_access(mapping.vmo))?,
            _ => return Err(Status::ACCESS_DENIED),
        };
        Ok(frame.filter(|frame| !self.machine.frame_is_large(*frame) && !mapping.content_only))
    }

    /// Maps the present pages in the block around an address; adjacent pages with equal permissions are mapped
    /// together. Only a failure to map the page at the address itself is an error.
    fn vmo_map_around(&mut self, machine: Aspace, mapping: &Mapping, at: u64) -> Result<(), Status> {
        let cache = self.objects.get(mapping.vmo)?.cache;
        let Range { start: from, end: to } = fault_around(mapping, at);
        let mut frames = [Frame(0); FAULT_AROUND as usize];
        // Pages that were looked up but not mapped yet: start, count, and whether they are writable.
        let (mut start, mut count, mut write) = (from, 0_usize, false);
        let page_of = |address: u64| (mapping.offset + (address - mapping.base)) / PAGE;
        let mut result = Ok(());
        for near in (from..=to).step_by(PAGE as usize) {
            let there = if near < to { self.vmo_page_if_there(mapping.vmo, page_of(near)) } else { None };
            // Does not split a large page for fault-around.
            let there = there.filter(|(frame, _)| near == at || !self.machine.frame_is_large(*frame));
            if count != 0 && there.is_none_or(|(_, writable)| writable != write) {
                let perm = Perm { write: mapping.perm.write && write, ..mapping.perm };
                let run = frames.get(..count).unwrap_or_default();
                let mapped = self.machine.map_run(machine, start, run, perm, cache);
                if mapped.is_err() && (start..near).contains(&at) {
                    result = self.vmo_map_if_there(machine, at, mapping.vmo, page_of(at), mapping.perm);
                }
                count = 0;
            }
            if let Some((frame, writable)) = there {
                if count == 0 {
                    (start, write) = (near, writable);
                }
                if let Some(place) = frames.get_mut(count) {
                    *place = frame;
                    count += 1;
                }
            }
        }
        result
    }

    /// The access that a load needs: memory with other caching than ordinary memory cannot be shown as the page of
    /// zeroes.
    fn read_access(&self, vmo: Id<Vmo>) -> Access {
        let device = |kind| matches!(kind, Kind::Physical { .. });
        let as_it_is = self.objects.get(vmo).is_ok_and(|vmo| vmo.cache == Cache::Cached || device(vmo.kind));
        if as_it_is { Access::Read } else { Access::Write }
    }

    /// Maps a page of a VMO if it is present, writable only if it may be written as it is.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub(crate) fn vmo_map_if_there(
        &mut self,
        machine: Aspace,
        at: u64,
        vmo: Id<Vmo>,
        page: u64,
        perm: Perm,
    ) -> Result<(), Status> {
        match self.vmo_page_if_there(vmo, page) {
            Some((frame, writable)) => {
                self.vmo_map_frame(machine, at, vmo, frame, Perm { write: perm.write && writable, ..perm })
            }
            None => Ok(()),
        }
    }

    pub(in crate::memory) fn vmo_map_frame(
        &mut self,
        machine: Aspace,
        at: u64,
        vmo: Id<Vmo>,
        frame: Frame,
        perm: Perm,
    ) -> Result<(), Status> {
        let cache = self.objects.get(vmo)?.cache;
        self.retry_with_reaper(|kernel| kernel.machine.map(machine, at, frame, perm, cache))
            .map_err(|_| Status::NO_MEMORY)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use crate::containers::name::Name;
    use crate::fake::FakeMachine;
    use crate::memory::vmar::{MapRequest, Place};

    use super::*;

    const RW: Perm = Perm { read: true, write: true, execute: false };
    const PAGES: u64 = 1024;

    /// The pages that one load maps: the VMO is committed, and mapped at an offset in its VMAR.
    fn mapped_by_a_load(place: u64, offset: u64, at: u64) -> Vec<u64> {
        let mut kernel = Kernel::new(FakeMachine::new(4096)).unwrap();
        let job = kernel.root_job().unwrap();
        let (process, root) = kernel.process_create(job, Name::new(b"test")).unwrap();
        let vmo = kernel.vmo_create(PAGES * PAGE, false).unwrap();
        for page in 0..PAGES {
            kernel.vmo_write(vmo, page * PAGE, b"here").unwrap();
        }
        let request =
            MapRequest { vmo, offset: offset * PAGE, len: (PAGES - offset) * PAGE, perm: RW, max: RW, fixed: false };
        let base = kernel.vmar_map(root, Place::At(place * PAGE), request).unwrap();
        let aspace = kernel.objects.get(process).unwrap().aspace.unwrap();
        kernel.page_fault(aspace, base + at * PAGE, false, false).unwrap();
        let spaces = kernel.machine.mapped.values();
        let mut pages: Vec<u64> = spaces.flat_map(|space| space.keys()).map(|at| (at - base) / PAGE + offset).collect();
        pages.sort_unstable();
        pages
    }

    #[test]
    fn a_block_is_the_same_pages_of_the_vmo_wherever_it_is_mapped() {
        for place in [512, 513, 519, 527, 528] {
            assert_eq!(mapped_by_a_load(place, 0, 37), (32..48).collect::<Vec<u64>>(), "at page {place}");
        }
        assert_eq!(mapped_by_a_load(512, 35, 2), (35..48).collect::<Vec<u64>>());
    }

    #[test]
    fn a_block_ends_with_the_page_table() {
        // The table ends before page 504 of the VMO.
        assert_eq!(mapped_by_a_load(520, 0, 503), (496..504).collect::<Vec<u64>>());
        assert_eq!(mapped_by_a_load(520, 0, 505), (504..512).collect::<Vec<u64>>());
    }
}
