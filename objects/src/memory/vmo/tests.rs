//! Cases that the random trees ([`super::trees`]) do not reach.

use abi::{Rights, Status};

use super::{CloneKind, Vmo};
use crate::Kernel;
use crate::containers::name::Name;
use crate::core::handle::Handle;
use crate::core::object::Id;
use crate::fake::FakeMachine;
use crate::machine::Access;
use crate::machine::{PAGE, PAGE_SIZE, Perm};
use crate::memory::vmar::{MapRequest, Place};

fn vmo(kernel: &mut Kernel<FakeMachine>, pages: u64) -> Id<Vmo> {
    let id = kernel.vmo_create(pages * PAGE, false).unwrap();
    kernel.add_handle(id.object());
    id
}

#[test]
fn a_huge_vmo_costs_its_written_pages_only() {
    let mut kernel = Kernel::new(FakeMachine::new(100)).unwrap();
    let huge = kernel.vmo_create(1 << 60, true).unwrap();
    kernel.add_handle(huge.object());
    for at in [0, 1 << 40, (1 << 60) - 1] {
        kernel.vmo_write(huge, at, &[7]).unwrap();
    }
    assert_eq!(kernel.vmo_commit(huge, 0, 1 << 60), Err(Status::NO_MEMORY));
    assert_eq!(kernel.machine.frames_in_use(), 3);
    let copy = kernel.vmo_create_clone(huge, CloneKind::Snapshot, 1 << 40, 1 << 60, true).unwrap();
    kernel.add_handle(copy.object());
    kernel.vmo_zero(huge, 5, (1 << 60) - 10).unwrap();
    let mut byte = [1];
    kernel.vmo_read(copy, 0, &mut byte).unwrap();
    assert_eq!((byte, kernel.vmo_memory(copy).unwrap().committed), ([7], 2 * PAGE));
    kernel.vmo_set_size(copy, 1 << 20).unwrap();
    assert_eq!(kernel.vmo_memory(copy).unwrap().private, PAGE);
    kernel.vmo_transfer((huge, 1 << 50), 1 << 20, (copy, 0)).unwrap();
    kernel.vmo_read(huge, 1 << 50, &mut byte).unwrap();
    assert_eq!(byte, [7]);
    assert_eq!(kernel.vmo_decommit(copy, 0, 1 << 20), Err(Status::NOT_SUPPORTED));
    assert_eq!(kernel.machine.frames_in_use(), 3);
}

/// Maps pages together when the last of them needs memory and none is free: pages made ahead and never touched are
/// given back for it, but not the pages to be mapped.
#[test]
fn pages_that_are_mapped_together_are_all_there() {
    const RW: Perm = Perm { read: true, write: true, execute: false };
    let mut kernel = Kernel::new(FakeMachine::new(20_000)).unwrap();
    let job = kernel.root_job().unwrap();
    let (process, root) = kernel.process_create(job, Name::new(b"p")).unwrap();
    let both = [vmo(&mut kernel, 64), vmo(&mut kernel, 64)];
    let aspace = kernel.objects.get(process).unwrap().aspace.unwrap();
    let bases = both.map(|vmo| {
        let request = MapRequest { vmo, offset: 0, len: 64 * PAGE, perm: RW, max: RW, fixed: false };
        let base = kernel.vmar_map(root, Place::Anywhere { align: PAGE, limit: None }, request).unwrap();
        // The second fault continues the run of the first and allocates ahead.
        for page in 0..2 {
            kernel.page_fault(aspace, base + page * PAGE, true, false).unwrap();
        }
        base
    });
    let made = kernel.vmo_committed(both[0]).unwrap() / PAGE;
    assert!(made > 3, "nothing was made ahead");
    kernel.machine.limit = kernel.machine.frames_in_use();
    let mapped = kernel.pages_map(aspace, bases[0] + 2 * PAGE, made, true).unwrap();
    assert_eq!(mapped, made);
    kernel.check_memory();
    assert_eq!(kernel.vmo_committed(both[0]), Ok((made + 2) * PAGE));
    assert!(kernel.vmo_committed(both[1]).unwrap() < made * PAGE, "the other one has kept what it did not touch");
}

#[test]
fn discarded_pages_are_gone_until_locked() {
    let mut kernel = Kernel::new(FakeMachine::new(100)).unwrap();
    let both = [vmo(&mut kernel, 4), vmo(&mut kernel, 4)];
    for id in both {
        kernel.vmo_make_discardable(id).unwrap();
        assert!(!kernel.vmo_lock(id, 0, 4 * PAGE).unwrap());
        kernel.vmo_commit(id, 0, 3 * PAGE).unwrap();
    }
    assert_eq!(kernel.vmo_reclaim_discardable(1), 0);
    kernel.vmo_unlock(both[1], 0, 4 * PAGE).unwrap();
    kernel.vmo_unlock(both[0], 0, 4 * PAGE).unwrap();
    assert_eq!(kernel.vmo_unlock(both[0], 0, 4 * PAGE), Err(Status::BAD_STATE));
    assert_eq!(kernel.vmo_lock(both[0], 0, PAGE), Err(Status::OUT_OF_RANGE));
    // Drops the VMO that has been unlocked longest, as a whole.
    assert_eq!(kernel.vmo_reclaim_discardable(1), 3);
    assert_eq!(kernel.vmo_try_lock(both[1], 0, 4 * PAGE), Err(Status::UNAVAILABLE));
    assert_eq!(kernel.vmo_page(both[1], 0, Access::Read), Err(Status::NOT_FOUND));
    assert_eq!(kernel.vmo_try_lock(both[0], 0, 4 * PAGE), Ok(()));
    assert_eq!(kernel.vmo_lock(both[1], 0, 4 * PAGE), Ok(true));
    assert_eq!(kernel.vmo_page(both[1], 0, Access::Read), Ok(None));
    assert_eq!(kernel.vmo_reclaim_discardable(100), 0);
    // Pinned pages stay, whether or not the VMO is locked.
    let pin = kernel.vmo_pin(both[0], 0, PAGE).unwrap();
    kernel.vmo_unlock(both[0], 0, 4 * PAGE).unwrap();
    assert_eq!(kernel.vmo_reclaim_discardable(100), 0);
    kernel.vmo_unpin(pin);
    assert_eq!(kernel.vmo_reclaim_discardable(100), 3);
    for id in both {
        kernel.close(Handle { object: id.object(), rights: Rights::NONE });
    }
    kernel.reap();
    assert_eq!(kernel.machine.frames_in_use(), 0);
}

#[test]
fn a_copy_that_there_is_no_memory_for_changes_nothing() {
    let mut kernel = Kernel::new(FakeMachine::new(4)).unwrap();
    let first = vmo(&mut kernel, 4);
    kernel.vmo_write(first, 0, &[3; 3 * PAGE_SIZE]).unwrap();
    let copy = kernel.vmo_create_clone(first, CloneKind::Snapshot, 0, 4 * PAGE, false).unwrap();
    kernel.add_handle(copy.object());
    kernel.vmo_write(copy, 0, &[4]).unwrap();
    assert_eq!(kernel.vmo_write(copy, PAGE, &[4]), Err(Status::NO_MEMORY));
    let mut bytes = [0; 2];
    kernel.vmo_read(copy, PAGE, &mut bytes).unwrap();
    assert_eq!(bytes, [3, 3]);
    // The last owner writes in place.
    kernel.close(Handle { object: first.object(), rights: Rights::NONE });
    kernel.reap();
    kernel.vmo_write(copy, PAGE, &[4]).unwrap();
    assert_eq!(kernel.machine.frames_in_use(), 3);
}
