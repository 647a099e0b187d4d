//! Large pages.
//!
//! A 2 MiB range that is committed at once gets the frames of one large page of the machine, if one is free. To the VMO
//! they are ordinary frames: shared, copied and freed one by one. The gain is in the machine: a few kernel calls
//! allocate them instead of a thousand, and where the VMO shows all of them, in order, at an aligned address, one
//! mapping serves for 512 pages. Mapping one of them separately splits the page in the machine. That happens when a
//! part was given back, written in a copy, protected or unmapped, and is touched again.

use super::fault::fault_around;
use super::pages::Entry;
use super::{AbsentPages, Kind, Vmo};
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::{Aspace, Frame, LARGE_PAGE, LARGE_PAGES, Machine, PAGE, Perm};
use crate::memory::aspace::Mapping;

/// If a page has at least this many mappings, it leaves its large page without its neighbours, because each must be
/// unmapped everywhere.
const PLACES: usize = 4;

impl Vmo {
    /// Whether a large page at `page` could be mapped as such in all mappings of the VMO.
    fn suits_large(&self, page: u64) -> bool {
        let (from, to) = (page * PAGE, (page + LARGE_PAGES) * PAGE);
        let alike = |(offset, _, (_, base)): (u64, u64, (_, u64))| base.wrapping_sub(offset).is_multiple_of(LARGE_PAGE);
        self.mappings.meeting(from, to).all(alike)
    }
}

impl<M: Machine> Kernel<M> {
    /// Commits the pages from an aligned page up as a large page, if all are absent. Says whether it succeeded; if not,
    /// nothing has changed.
    pub(crate) fn vmo_commit_large(&mut self, id: Id<Vmo>, page: u64) -> bool {
        let end = page + LARGE_PAGES;
        let Ok(vmo) = self.objects.get(id) else { return false };
        let plain = vmo.kind == Kind::Plain && matches!(vmo.absent_pages, AbsentPages::Zeroes);
        if end > vmo.size / PAGE || !plain || !vmo.suits_large(page) {
            return false;
        }
        if self.may_charge(id.object(), LARGE_PAGE).is_err() {
            return false;
        }
        let Ok(vmo) = self.objects.get_mut(id) else { return false };
        let zero_mapped = vmo.zero_mapped && !vmo.mappings.is_empty();
        let Some(pages) = vmo.pages_mut() else { return false };
        if pages.peek(page, end).is_some() || self.machine.heap_reserve().is_err() {
            return false;
        }
        // Runs reserved in vain are freed with the VMO.
        if (page..end).any(|page| pages.reserve(page).is_err()) {
            return false;
        }
        let align = LARGE_PAGE.trailing_zeros() as u8;
        let taken = self.retry_with_reaper(|kernel| kernel.machine.frames_contiguous(LARGE_PAGES as u32, align));
        let Ok(first) = taken else { return false };
        let Some(pages) = self.objects.get_mut(id).ok().and_then(Vmo::pages_mut) else { return false };
        for (page, number) in (page..end).zip(first.0..) {
            pages.set(page, Frame(number));
        }
        if zero_mapped {
            self.vmo_unmap_pages(id, page, end);
        }
        self.charge(id.object(), LARGE_PAGE);
        self.pressure_check();
        true
    }

    /// Maps the large page around an address of a mapping, if the VMO shows all of it there in order, and all of it may
    /// be written if `write` is set. Says whether it did.
    pub(crate) fn vmo_map_large(&mut self, machine: Aspace, mapping: &Mapping, at: u64, write: bool) -> bool {
        let start = at / LARGE_PAGE * LARGE_PAGE;
        let Some(before) = start.checked_sub(mapping.base) else { return false };
        let offset = mapping.offset + before;
        if before + LARGE_PAGE > mapping.len || !offset.is_multiple_of(LARGE_PAGE) || mapping.content_only {
            return false;
        }
        let page = offset / PAGE;
        let Some((first, writable)) = self.vmo_page_if_there(mapping.vmo, page) else { return false };
        if !first.0.is_multiple_of(LARGE_PAGES as u32) || write && !writable || !self.machine.frame_is_large(first) {
            return false;
        }
        let in_order = (page..page + LARGE_PAGES)
            .zip(first.0..)
            .all(|(page, number)| self.vmo_page_if_there(mapping.vmo, page) == Some((Frame(number), writable)));
        let Ok(cache) = self.objects.get(mapping.vmo).map(|vmo| vmo.cache) else { return false };
        let perm = Perm { write: mapping.perm.write && writable, ..mapping.perm };
        in_order && self.machine.map_large(machine, start, first, perm, cache).is_ok()
    }
}

impl<M: Machine> Kernel<M> {
    /// Moves the page at an address of a mapping out of its large page to a frame of its own, together with the
    /// unshared pages of its fault-around block. Without memory, the page stays.
    pub(crate) fn vmo_leave_large(&mut self, mapping: &Mapping, at: u64) {
        let page_of = |address: u64| (mapping.offset + (address - mapping.base)) / PAGE;
        let page = page_of(at);
        let block = fault_around(mapping, at);
        let around = page_of(block.start)..page_of(block.end - PAGE) + 1;
        let alone = self.objects.get(mapping.vmo).is_ok_and(|vmo| {
            let meeting = vmo.mappings.meeting(around.start * PAGE, around.end * PAGE);
            vmo.readers.is_empty() && meeting.take(PLACES).count() < PLACES && !mapping.content_only
        });
        let others = if alone { around } else { page..page };
        for near in core::iter::once(page).chain(others) {
            let Ok(vmo) = self.objects.get(mapping.vmo) else { return };
            let Some(Entry::Frame(frame)) = vmo.pages().map(|pages| pages.get(near)) else { continue };
            let moves = vmo.kind == Kind::Plain && !vmo.is_pinned(near, near + 1);
            let is_wanted = near == page || !self.frames.is_shared(frame);
            if !moves || !is_wanted || !self.machine.frame_is_large(frame) {
                continue;
            }
            if self.vmo_page_new_frame(mapping.vmo, near, Some(frame)).is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::containers::name::Name;
    use crate::containers::slab::Key;
    use crate::fake::FakeMachine;
    use crate::memory::vmar::{MapRequest, Place};
    use crate::memory::vmo::CloneKind;

    use super::*;

    const RW: Perm = Perm { read: true, write: true, execute: false };

    struct World {
        kernel: Kernel<FakeMachine>,
        aspace: Key,
        vmo: Id<Vmo>,
        base: u64,
    }

    /// A VMO of two large pages, committed, and mapped except for the first page.
    fn world(skip: u64) -> World {
        let mut kernel = Kernel::new(FakeMachine::new(4096)).unwrap();
        let job = kernel.root_job().unwrap();
        let (process, root) = kernel.process_create(job, Name::new(b"test")).unwrap();
        let vmo = kernel.vmo_create(2 * LARGE_PAGE, false).unwrap();
        kernel.vmo_commit(vmo, 0, 2 * LARGE_PAGE).unwrap();
        let len = 2 * LARGE_PAGE - skip;
        let request = MapRequest { vmo, offset: skip, len, perm: RW, max: RW, fixed: false };
        let base = kernel.vmar_map(root, Place::Anywhere { align: PAGE, limit: None }, request).unwrap();
        let aspace = kernel.objects.get(process).unwrap().aspace.unwrap();
        World { kernel, aspace, vmo, base }
    }

    impl World {
        fn touch(&mut self, offset: u64, write: bool) {
            self.kernel.page_fault(self.aspace, self.base + offset, write, false).unwrap();
        }

        fn mapped(&self) -> usize {
            self.kernel.machine.mapped.values().map(|space| space.len()).sum()
        }
    }

    #[test]
    fn one_fault_maps_a_large_page_in_whole() {
        let mut world = world(0);
        assert_eq!(world.kernel.machine.large.len(), 2);
        world.touch(5 * PAGE, true);
        assert_eq!(world.mapped(), 512);
        world.touch(LARGE_PAGE + PAGE, false);
        assert_eq!(world.mapped(), 1024);
        assert_eq!(world.kernel.machine.splits, 0);
    }

    #[test]
    fn decommitting_a_part_unmaps_the_large_page_and_the_rest_faults_in() {
        let mut world = world(0);
        world.touch(0, true);
        world.kernel.vmo_write(world.vmo, 9 * PAGE, b"kept").unwrap();
        world.kernel.vmo_decommit(world.vmo, 8 * PAGE, PAGE).unwrap();
        assert_eq!((world.mapped(), world.kernel.machine.splits), (0, 0));
        world.touch(9 * PAGE, false);
        assert_eq!((world.mapped(), world.kernel.machine.splits), (15, 0));
        let mut kept = [0; 4];
        world.kernel.vmo_read(world.vmo, 9 * PAGE, &mut kept).unwrap();
        assert_eq!(&kept, b"kept");
    }

    #[test]
    fn a_copy_is_written_page_by_page_and_the_other_stays_large() {
        let mut world = world(0);
        world.touch(0, true);
        let clone = world.kernel.vmo_create_clone(world.vmo, CloneKind::Snapshot, 0, 2 * LARGE_PAGE, false).unwrap();
        // The kernel wrote: the frame is private to the clone, and the original stays mapped read-only as it was.
        world.kernel.vmo_write(clone, 3 * PAGE, b"new").unwrap();
        assert_eq!((world.mapped(), world.kernel.machine.splits), (512, 0));
        world.touch(3 * PAGE, true);
        assert_eq!(world.kernel.machine.splits, 0);
        let mut old = [1; 3];
        world.kernel.vmo_read(world.vmo, 3 * PAGE, &mut old).unwrap();
        assert_eq!(old, [0; 3]);
    }

    #[test]
    fn an_unaligned_mapping_gets_small_pages() {
        let mut world = world(PAGE);
        world.kernel.vmo_write(world.vmo, 0, b"kept").unwrap();
        world.touch(0, true);
        world.touch(20 * PAGE, false);
        assert_eq!(world.kernel.machine.splits, 0);
        let mut kept = [0; 4];
        world.kernel.vmo_read(world.vmo, 0, &mut kept).unwrap();
        assert_eq!(&kept, b"kept");
        // Committing where a mapping is not aligned for it makes no large page at all.
        let mut kernel = world.kernel;
        kernel.vmo_decommit(world.vmo, 0, 2 * LARGE_PAGE).unwrap();
        kernel.vmo_commit(world.vmo, 0, 2 * LARGE_PAGE).unwrap();
        assert!(kernel.machine.large.is_empty());
    }

    #[test]
    fn an_operation_on_a_part_splits_a_large_page() {
        let mut world = world(PAGE);
        let pin = world.kernel.vmo_pin(world.vmo, 2 * PAGE, PAGE).unwrap();
        let before = world.kernel.vmo_pinned_frame(&pin, 0).unwrap();
        world.touch(PAGE, true);
        assert_eq!(world.kernel.machine.splits, 1);
        assert_eq!(world.kernel.vmo_pinned_frame(&pin, 0).unwrap(), before);
        world.kernel.vmo_unpin(pin);
    }

    #[test]
    fn without_memory_a_large_page_is_split() {
        let mut world = world(PAGE);
        let rest = world.kernel.vmo_create(4096 * PAGE, false).unwrap();
        let mut page = 0;
        while world.kernel.vmo_commit(rest, page * PAGE, PAGE).is_ok() {
            page += 1;
        }
        world.touch(0, true);
        assert_eq!(world.kernel.machine.splits, 1);
    }
}
