//! Operations on VMOs other than reading and writing: committing, locking, cache policies, moving pages, resizing under
//! a mapping.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use abi::{
    Rights, Signals as Raised, Status, ZX_CACHE_POLICY_CACHED, ZX_CACHE_POLICY_UNCACHED,
    ZX_CACHE_POLICY_UNCACHED_DEVICE, ZX_CACHE_POLICY_WRITE_COMBINING, ZX_VMO_CHILD_REFERENCE, ZX_VMO_CHILD_SLICE,
    ZX_VMO_DISCARDABLE, ZX_VMO_OP_ALWAYS_NEED, ZX_VMO_OP_CACHE_CLEAN, ZX_VMO_OP_CACHE_CLEAN_INVALIDATE,
    ZX_VMO_OP_CACHE_INVALIDATE, ZX_VMO_OP_CACHE_SYNC, ZX_VMO_OP_COMMIT, ZX_VMO_OP_DECOMMIT, ZX_VMO_OP_DONT_NEED,
    ZX_VMO_OP_LOCK, ZX_VMO_OP_PREFETCH, ZX_VMO_OP_TRY_LOCK, ZX_VMO_OP_UNLOCK, ZX_VMO_OP_ZERO, ZX_VMO_RESIZABLE,
    ZX_VMO_UNBOUNDED,
};
use zx::{AsHandleRef, Info, Signals, Vmo};

use super::vmar::{READ, READ_WRITE};
use super::vmo_clone::{PAGE, mark, numbered, shows, snapshot, taken};
use super::{cases, raw, without};
use crate::check::{Failure, Outcome, ensure, equal, fails, gives};
use crate::prober::Prober;

cases! {
    "vmo_op.commit.takes_memory" => commit_takes_memory,
    "vmo_op.commit.keeps_content" => commit_keeps_content,
    "vmo_op.decommit.not_whole_pages" => decommit_not_whole_pages,
    "vmo_op.decommit.seen_in_mappings" => decommit_seen_in_mappings,
    "vmo_op.rights.each" => rights_each,
    "vmo_op.hints.change_nothing" => hints_change_nothing,
    "vmo_op.cache.all" => cache_all,
    "vmo_op.cache.nothing" => cache_nothing,
    "vmo_op.cache.bounds" => cache_bounds,
    "vmo_op.lock.not_discardable" => lock_not_discardable,
    "vmo_op.lock.counts" => lock_counts,
    "vmo_op.lock.all_or_nothing" => lock_all_or_nothing,
    "vmo_op.lock.buffer" => lock_buffer,
    "vmo_op.lock.rights" => lock_rights,
    "vmo_cache.set.policies" => cache_policies,
    "vmo_cache.set.in_use" => cache_in_use,
    "vmo_cache.set.uncached_is_not_copied" => cache_uncached,
    "vmo_transfer.moves.pages" => transfer_moves,
    "vmo_transfer.moves.overlapping" => transfer_overlapping,
    "vmo_transfer.moves.between_clones" => transfer_clones,
    "vmo_transfer.arguments.checked" => transfer_arguments,
    "vmo_transfer.through.slices" => transfer_through_slices,
    "vmo_transfer.through.references" => transfer_through_references,
    "vmo_transfer.through.snapshots" => transfer_through_snapshots,
    "vmo_transfer.parent.is_gone" => transfer_parent_is_gone,
    "vmo_transfer.parent.goes_meanwhile" => transfer_parent_goes,
    "vmo_transfer.zeros.over_a_parents_page" => transfer_zeros,
    "vmo.read.into_its_own_mapping" => read_into_own_mapping,
    "vmo.read.by_two_threads" => read_by_two,
    "vmo.read.absent_commits_nothing" => read_absent,
    "vmo.read.rubbish" => read_rubbish,
    "vmo.set_size.rounds_up" => set_size_rounds_up,
    "vmo.set_size.mapped" => set_size_mapped,
    "vmo.set_size.mapped_grows_again" => set_size_mapped_grows,
    "vmo.set_size.rights" => set_size_rights,
    "vmo.mapped.read_only" => mapped_read_only,
    "vmo.mapped.no_permission" => mapped_no_permission,
    "vmo.mapped.permission_taken" => mapped_permission_taken,
    "vmo.stream_size.bounds" => stream_size_bounds,
    "vmo.unbounded.grows_by_writing" => unbounded,
    "vmo.huge.costs_committed_pages_only" => huge,
    "vmo.signals.user" => signals_user,
    "vmo.signals.user_cannot" => signals_user_cannot,
    "vmo.signals.clone" => signals_clone,
    "vmo.signals.mapping_of_child" => signals_mapping,
    "vmo.info.kinds" => info_kinds,
}

fn commit_takes_memory() -> Outcome {
    let vmo = Vmo::create(16 * PAGE, 0)?;
    equal(taken(&vmo)?, (0, 0))?;
    vmo.op_range(ZX_VMO_OP_COMMIT, 0, 0)?;
    vmo.op_range(ZX_VMO_OP_COMMIT, PAGE, PAGE)?;
    equal(taken(&vmo)?, (1, 1))?;
    // A part of a page counts as the whole page.
    vmo.op_range(ZX_VMO_OP_COMMIT, 3 * PAGE + 5, PAGE)?;
    equal(taken(&vmo)?, (3, 3))?;
    vmo.op_range(ZX_VMO_OP_COMMIT, 0, 16 * PAGE)?;
    equal(taken(&vmo)?, (16, 16))?;
    vmo.op_range(ZX_VMO_OP_DECOMMIT, 4 * PAGE, 8 * PAGE)?;
    equal(taken(&vmo)?, (8, 8))
}

fn commit_keeps_content() -> Outcome {
    let vmo = Vmo::create(4 * PAGE, 0)?;
    mark(&vmo, 1, 7)?;
    vmo.op_range(ZX_VMO_OP_COMMIT, 0, 4 * PAGE)?;
    shows(&vmo, &[0, 7, 0, 0])?;
    fails(vmo.op_range(ZX_VMO_OP_COMMIT, PAGE, 4 * PAGE), Status::OUT_OF_RANGE)?;
    fails(vmo.op_range(ZX_VMO_OP_COMMIT, u64::MAX, 2), Status::OUT_OF_RANGE)
}

fn decommit_not_whole_pages() -> Outcome {
    let vmo = numbered(2, 0)?;
    let empty = Vmo::create(2 * PAGE, 0)?;
    for (offset, size) in [(0x10, 0x100), (0, 100), (100, PAGE), (PAGE, 1)] {
        fails(vmo.op_range(ZX_VMO_OP_DECOMMIT, offset, size), Status::INVALID_ARGS)?;
        // The same where no page is committed.
        fails(empty.op_range(ZX_VMO_OP_DECOMMIT, offset, size), Status::INVALID_ARGS)?;
    }
    equal(taken(&vmo)?, (2, 2))?;
    shows(&vmo, &[1, 2])
}

/// Mappings that begin at different pages lose the decommitted page and nothing else. A mapping beyond the VMO's end is
/// not affected.
fn decommit_seen_in_mappings() -> Outcome {
    let root = zx::startup::vmar_root_self();
    let vmo = Vmo::create(4 * PAGE, 0)?;
    vmo.op_range(ZX_VMO_OP_COMMIT, 0, 4 * PAGE)?;
    vmo.op_range(ZX_VMO_OP_DECOMMIT, 0, 4 * PAGE)?;
    vmo.op_range(ZX_VMO_OP_COMMIT, 0, 4 * PAGE)?;
    let mapped = |offset| root.map_here(READ_WRITE | abi::ZX_VM_ALLOW_FAULTS, &vmo, offset, 4 * PAGE as usize);
    let (whole, second, _beyond) = (mapped(0)?, mapped(PAGE)?, mapped(8 * PAGE)?);
    whole.write(PAGE as usize, &[99])?;
    let find = |value: u8| -> Outcome {
        let mut bytes = [1, 1];
        whole.read(PAGE as usize, &mut bytes[..1])?;
        second.read(0, &mut bytes[1..])?;
        equal(bytes, [value; 2])
    };
    find(99)?;
    vmo.op_range(ZX_VMO_OP_DECOMMIT, 0, PAGE)?;
    find(99)?;
    vmo.op_range(ZX_VMO_OP_DECOMMIT, PAGE, PAGE)?;
    find(0)?;
    equal(taken(&vmo)?, (2, 2))
}

fn rights_each() -> Outcome {
    let vmo = Vmo::create(PAGE, 0)?;
    let (blind, constant) = (Vmo::from(without(&vmo, Rights::READ)?), Vmo::from(without(&vmo, Rights::WRITE)?));
    for op in [ZX_VMO_OP_COMMIT, ZX_VMO_OP_DECOMMIT, ZX_VMO_OP_ZERO, ZX_VMO_OP_CACHE_INVALIDATE] {
        fails(constant.op_range(op, 0, PAGE), Status::ACCESS_DENIED)?;
        blind.op_range(op, 0, PAGE)?;
    }
    for op in [
        ZX_VMO_OP_CACHE_SYNC,
        ZX_VMO_OP_CACHE_CLEAN,
        ZX_VMO_OP_CACHE_CLEAN_INVALIDATE,
        ZX_VMO_OP_DONT_NEED,
        ZX_VMO_OP_ALWAYS_NEED,
        ZX_VMO_OP_PREFETCH,
    ] {
        fails(blind.op_range(op, 0, PAGE), Status::ACCESS_DENIED)?;
        constant.op_range(op, 0, PAGE)?;
    }
    for op in [0, 99, u32::MAX] {
        fails(vmo.op_range(op, 0, PAGE), Status::INVALID_ARGS)?;
    }
    Ok(())
}

fn hints_change_nothing() -> Outcome {
    let vmo = numbered(2, 0)?;
    for op in [ZX_VMO_OP_DONT_NEED, ZX_VMO_OP_ALWAYS_NEED, ZX_VMO_OP_PREFETCH] {
        vmo.op_range(op, 0, 2 * PAGE)?;
        vmo.op_range(op, 5, 7)?;
        fails(vmo.op_range(op, PAGE, 2 * PAGE), Status::OUT_OF_RANGE)?;
        shows(&vmo, &[1, 2])?;
    }
    equal(taken(&vmo)?, (2, 2))
}

const CACHE: [u32; 4] =
    [ZX_VMO_OP_CACHE_SYNC, ZX_VMO_OP_CACHE_CLEAN, ZX_VMO_OP_CACHE_INVALIDATE, ZX_VMO_OP_CACHE_CLEAN_INVALIDATE];

fn cache_all() -> Outcome {
    let vmo = numbered(4, 0)?;
    for op in CACHE {
        for (offset, size) in [(0, 1), (0, 4 * PAGE), (5, 6), (PAGE - 1, 2), (4 * PAGE - 1, 1), (PAGE, 2 * PAGE)] {
            vmo.op_range(op, offset, size)?;
        }
        shows(&vmo, &[1, 2, 3, 4])?;
        // The same where no memory is committed.
        let empty = Vmo::create(2 * PAGE, 0)?;
        empty.op_range(op, 0, 2 * PAGE)?;
        equal(taken(&empty)?, (0, 0))?;
    }
    Ok(())
}

fn cache_nothing() -> Outcome {
    let vmo = Vmo::create(PAGE, 0)?;
    for op in CACHE {
        for offset in [0, 1, PAGE] {
            fails(vmo.op_range(op, offset, 0), Status::INVALID_ARGS)?;
        }
    }
    Ok(())
}

fn cache_bounds() -> Outcome {
    let vmo = Vmo::create(2 * PAGE, 0)?;
    for op in CACHE {
        for (offset, size) in [(0, 2 * PAGE + 1), (1, 2 * PAGE), (2 * PAGE, 1), (u64::MAX, 2), (1, u64::MAX)] {
            fails(vmo.op_range(op, offset, size), Status::OUT_OF_RANGE)?;
        }
    }
    Ok(())
}

fn lock_not_discardable() -> Outcome {
    let vmo = Vmo::create(PAGE, 0)?;
    fails(vmo.lock(0, PAGE), Status::NOT_SUPPORTED)?;
    fails(vmo.op_range(ZX_VMO_OP_TRY_LOCK, 0, PAGE), Status::NOT_SUPPORTED)?;
    fails(vmo.op_range(ZX_VMO_OP_UNLOCK, 0, PAGE), Status::NOT_SUPPORTED)
}

fn lock_counts() -> Outcome {
    let vmo = Vmo::create(2 * PAGE, ZX_VMO_DISCARDABLE)?;
    fails(vmo.op_range(ZX_VMO_OP_UNLOCK, 0, 2 * PAGE), Status::BAD_STATE)?;
    let state = vmo.lock(0, 2 * PAGE)?;
    equal((state.offset, state.size, state.discarded_offset, state.discarded_size), (0, 2 * PAGE, 0, 0))?;
    vmo.op_range(ZX_VMO_OP_TRY_LOCK, 0, 2 * PAGE)?;
    mark(&vmo, 1, 5)?;
    for _ in 0..2 {
        vmo.op_range(ZX_VMO_OP_UNLOCK, 0, 2 * PAGE)?;
        // Nothing is discarded while memory is sufficient.
        shows(&vmo, &[0, 5])?;
    }
    fails(vmo.op_range(ZX_VMO_OP_UNLOCK, 0, 2 * PAGE), Status::BAD_STATE)?;
    ensure(vmo.info()?.flags & abi::ZX_INFO_VMO_DISCARDABLE != 0, "it is not said to be discardable")
}

fn lock_all_or_nothing() -> Outcome {
    let vmo = Vmo::create(2 * PAGE, ZX_VMO_DISCARDABLE | ZX_VMO_RESIZABLE)?;
    for (offset, size) in [(0, PAGE), (PAGE, PAGE), (0, 3 * PAGE), (1, 2 * PAGE - 1), (0, 0)] {
        fails(vmo.lock(offset, size), Status::OUT_OF_RANGE)?;
        fails(vmo.op_range(ZX_VMO_OP_TRY_LOCK, offset, size), Status::OUT_OF_RANGE)?;
        fails(vmo.op_range(ZX_VMO_OP_UNLOCK, offset, size), Status::OUT_OF_RANGE)?;
    }
    vmo.set_size(PAGE)?;
    vmo.lock(0, PAGE)?;
    Ok(())
}

fn lock_buffer() -> Outcome {
    let vmo = Vmo::create(PAGE, ZX_VMO_DISCARDABLE)?;
    let mut state = [0_u64; 4];
    let raw = vmo.raw_handle();
    let place = state.as_mut_ptr();
    gives(raw!(zx_vmo_op_range, raw, ZX_VMO_OP_LOCK, 0, PAGE, 0, 0), Status::INVALID_ARGS)?;
    gives(raw!(zx_vmo_op_range, raw, ZX_VMO_OP_LOCK, 0, PAGE, place, 31), Status::INVALID_ARGS)?;
    gives(raw!(zx_vmo_op_range, raw, ZX_VMO_OP_LOCK, 0, PAGE, 0x1000, 32), Status::INVALID_ARGS)?;
    // None of the failed calls has locked it.
    fails(vmo.op_range(ZX_VMO_OP_UNLOCK, 0, PAGE), Status::BAD_STATE)?;
    gives(raw!(zx_vmo_op_range, raw, ZX_VMO_OP_LOCK, 0, PAGE, place, 32), Status::OK)?;
    vmo.op_range(ZX_VMO_OP_UNLOCK, 0, PAGE)?;
    Ok(())
}

fn lock_rights() -> Outcome {
    let vmo = Vmo::create(PAGE, ZX_VMO_DISCARDABLE)?;
    for missing in [Rights::READ, Rights::WRITE] {
        let less = Vmo::from(without(&vmo, missing)?);
        less.op_range(ZX_VMO_OP_TRY_LOCK, 0, PAGE)?;
        less.op_range(ZX_VMO_OP_UNLOCK, 0, PAGE)?;
    }
    let neither = Vmo::from(without(&vmo, Rights::READ | Rights::WRITE)?);
    fails(neither.lock(0, PAGE), Status::ACCESS_DENIED)?;
    fails(neither.op_range(ZX_VMO_OP_TRY_LOCK, 0, PAGE), Status::ACCESS_DENIED)
}

fn cache_policies() -> Outcome {
    let vmo = Vmo::create(PAGE, 0)?;
    equal(vmo.info()?.cache_policy, ZX_CACHE_POLICY_CACHED)?;
    for policy in [
        ZX_CACHE_POLICY_UNCACHED,
        ZX_CACHE_POLICY_UNCACHED_DEVICE,
        ZX_CACHE_POLICY_WRITE_COMBINING,
        ZX_CACHE_POLICY_CACHED,
    ] {
        vmo.set_cache_policy(policy)?;
        equal(vmo.info()?.cache_policy, policy)?;
    }
    for wrong in [4, 5, 99, u32::MAX] {
        fails(vmo.set_cache_policy(wrong), Status::INVALID_ARGS)?;
    }
    let kept = Vmo::from(without(&vmo, Rights::MAP)?);
    fails(kept.set_cache_policy(ZX_CACHE_POLICY_UNCACHED), Status::ACCESS_DENIED)
}

fn cache_in_use() -> Outcome {
    let root = zx::startup::vmar_root_self();
    let vmo = Vmo::create(2 * PAGE, 0)?;
    let busy = |vmo: &Vmo| fails(vmo.set_cache_policy(ZX_CACHE_POLICY_UNCACHED), Status::BAD_STATE);
    let mapping = root.map_here(READ, &vmo, 0, 4096)?;
    busy(&vmo)?;
    drop(mapping);
    let child = vmo.create_child(ZX_VMO_CHILD_SLICE, 0, PAGE)?;
    busy(&vmo)?;
    busy(&child)?;
    drop(child);
    let copy = snapshot(&vmo, 0, 1)?;
    busy(&vmo)?;
    busy(&copy)?;
    drop(copy);
    // A VMO with committed memory can become uncached, but not cached.
    vmo.op_range(ZX_VMO_OP_COMMIT, 0, PAGE)?;
    vmo.set_cache_policy(ZX_CACHE_POLICY_UNCACHED)?;
    fails(vmo.set_cache_policy(ZX_CACHE_POLICY_CACHED), Status::BAD_STATE)?;
    // Without committed memory it can, and calls can read and write it again.
    vmo.op_range(ZX_VMO_OP_DECOMMIT, 0, PAGE)?;
    fails(vmo.read(&mut [0], 0), Status::BAD_STATE)?;
    vmo.set_cache_policy(ZX_CACHE_POLICY_CACHED)?;
    vmo.write(&[1], 0)?;
    vmo.read(&mut [0], 0)?;
    // Setting the current policy is refused as well where no policy can be set.
    let mapping = root.map_here(READ, &vmo, 0, 4096)?;
    fails(vmo.set_cache_policy(ZX_CACHE_POLICY_CACHED), Status::BAD_STATE)?;
    drop(mapping);
    Ok(vmo.set_cache_policy(ZX_CACHE_POLICY_CACHED)?)
}

fn cache_uncached() -> Outcome {
    let root = zx::startup::vmar_root_self();
    let vmo = numbered(2, 0)?;
    vmo.set_cache_policy(ZX_CACHE_POLICY_UNCACHED)?;
    fails(vmo.read(&mut [0], 0), Status::BAD_STATE)?;
    fails(vmo.write(&[0], 0), Status::BAD_STATE)?;
    // It is mapped like other memory.
    let mapping = root.map_here(READ_WRITE, &vmo, 0, 8192)?;
    let mut byte = [0];
    mapping.read(4096, &mut byte)?;
    equal(byte, [2])?;
    mapping.write(4096, &[9])?;
    mapping.read(4096, &mut byte)?;
    equal(byte, [9])
}

fn transfer_moves() -> Outcome {
    let root = zx::startup::vmar_root_self();
    let (to, from) = (numbered(4, 0)?, Vmo::create(4 * PAGE, 0)?);
    mark(&from, 0, 10)?;
    mark(&from, 2, 12)?;
    let mapping = root.map_here(READ, &to, 0, 4 * 4096)?;
    let mut byte = [0];
    mapping.read(4096, &mut byte)?;
    equal(byte, [2])?;
    to.transfer_data(PAGE, 3 * PAGE, &from, 0)?;
    // Absent pages were moved as zeroes.
    shows(&to, &[1, 10, 0, 12])?;
    shows(&from, &[0, 0, 0, 0])?;
    equal((taken(&to)?, taken(&from)?), ((3, 3), (0, 0)))?;
    mapping.read(4096, &mut byte)?;
    equal(byte, [10])?;
    to.transfer_data(0, 0, &from, 0)?;
    shows(&to, &[1, 10, 0, 12])
}

fn transfer_overlapping() -> Outcome {
    let vmo = numbered(4, 0)?;
    vmo.transfer_data(PAGE, 2 * PAGE, &vmo, 0)?;
    shows(&vmo, &[0, 1, 2, 4])?;
    vmo.transfer_data(0, 3 * PAGE, &vmo, PAGE)?;
    shows(&vmo, &[1, 2, 4, 0])?;
    vmo.transfer_data(PAGE, PAGE, &vmo, PAGE)?;
    shows(&vmo, &[1, 2, 4, 0])?;
    equal(taken(&vmo)?, (3, 3))
}

fn transfer_clones() -> Outcome {
    let vmo = numbered(2, 0)?;
    let (one, two) = (snapshot(&vmo, 0, 2)?, snapshot(&vmo, 0, 2)?);
    let to = Vmo::create(2 * PAGE, 0)?;
    to.transfer_data(0, 2 * PAGE, &one, 0)?;
    shows(&one, &[0, 0])?;
    shows(&to, &[1, 2])?;
    mark(&to, 0, 9)?;
    shows(&two, &[1, 2])?;
    shows(&vmo, &[1, 2])?;
    // Clones of overwritten pages keep the old content.
    vmo.transfer_data(0, PAGE, &to, 0)?;
    shows(&vmo, &[9, 2])?;
    shows(&two, &[1, 2])
}

/// A VMO of five pages with this number each.
fn filled(value: u8) -> Result<Vmo, Failure> {
    let vmo = Vmo::create(5 * PAGE, 0)?;
    (0..5).try_for_each(|page| mark(&vmo, page, value))?;
    Ok(vmo)
}

/// Moves three pages from `from` to `to`, which show the same as these parents in their first pages.
fn transfer_three((to, to_parent): (&Vmo, &Vmo), (from, from_parent): (&Vmo, &Vmo)) -> Outcome {
    let pages = |vmo: &Vmo| vmo.get_size().map(|size| (size / PAGE) as usize);
    to.transfer_data(0, 3 * PAGE, from, 0)?;
    shows(to, &[1, 1, 1, 2, 2][..pages(to)?])?;
    shows(to_parent, &[1, 1, 1, 2, 2])?;
    shows(from, &[0, 0, 0, 1, 1][..pages(from)?])?;
    shows(from_parent, &[0, 0, 0, 1, 1])
}

fn transfer_through_slices() -> Outcome {
    let (to, from) = (filled(2)?, filled(1)?);
    let part = to.create_child(ZX_VMO_CHILD_SLICE, 0, 3 * PAGE)?;
    transfer_three((&part, &to), (&from, &from))?;
    let (to, from) = (filled(2)?, filled(1)?);
    let part = from.create_child(ZX_VMO_CHILD_SLICE, 0, 3 * PAGE)?;
    transfer_three((&to, &to), (&part, &from))
}

fn transfer_through_references() -> Outcome {
    let (to, from) = (filled(2)?, filled(1)?);
    let all = to.create_child(ZX_VMO_CHILD_REFERENCE, 0, 0)?;
    transfer_three((&all, &to), (&from, &from))?;
    let (to, from) = (filled(2)?, filled(1)?);
    let all = from.create_child(ZX_VMO_CHILD_REFERENCE, 0, 0)?;
    transfer_three((&to, &to), (&all, &from))
}

/// A snapshot gives its pages away, or gets others; its parent and its own child keep theirs.
fn transfer_through_snapshots() -> Outcome {
    for with_child in [false, true] {
        let (to, from) = (filled(2)?, filled(1)?);
        let copy = snapshot(&from, 0, 3)?;
        mark(&copy, 0, 1)?;
        let child = if with_child { Some(snapshot(&copy, 0, 3)?) } else { None };
        to.transfer_data(0, 3 * PAGE, &copy, 0)?;
        shows(&copy, &[0, 0, 0])?;
        shows(&from, &[1; 5])?;
        shows(&to, &[1, 1, 1, 2, 2])?;
        child.iter().try_for_each(|child| shows(child, &[1, 1, 1]))?;

        let (to, from) = (filled(2)?, filled(1)?);
        let copy = snapshot(&to, 0, 3)?;
        mark(&copy, 0, 7)?;
        let child = if with_child { Some(snapshot(&copy, 0, 3)?) } else { None };
        copy.transfer_data(0, 3 * PAGE, &from, 0)?;
        shows(&copy, &[1, 1, 1])?;
        shows(&from, &[0, 0, 0, 1, 1])?;
        shows(&to, &[2; 5])?;
        child.iter().try_for_each(|child| shows(child, &[7, 2, 2]))?;
    }
    Ok(())
}

fn transfer_parent_is_gone() -> Outcome {
    let (to, from) = (filled(2)?, filled(1)?);
    let copy = snapshot(&from, 1, 3)?;
    drop(from);
    to.transfer_data(0, 3 * PAGE, &copy, 0)?;
    shows(&copy, &[0, 0, 0])?;
    shows(&to, &[1, 1, 1, 2, 2])
}

/// The source's parent is closed at some moment of the call.
fn transfer_parent_goes() -> Outcome {
    const PAGES: u64 = 1024;
    let (to, from) = (Vmo::create(PAGES * PAGE, 0)?, Vmo::create(PAGES * PAGE, 0)?);
    for page in 0..PAGES {
        from.write(&[42], page * PAGE)?;
    }
    let copy = snapshot(&from, 0, PAGES)?;
    let closes = thread::spawn(move || drop(from));
    to.transfer_data(0, PAGES * PAGE, &copy, 0)?;
    closes.join().map_err(|_| "it panicked")?;
    for page in 0..PAGES {
        let mut bytes = [[0]; 2];
        to.read(&mut bytes[0], page * PAGE)?;
        copy.read(&mut bytes[1], page * PAGE)?;
        equal(bytes, [[42], [0]])?;
    }
    Ok(())
}

/// Pages that the source has never had hide the ones of the destination's parent.
fn transfer_zeros() -> Outcome {
    let parent = numbered(1, 0)?;
    let copy = snapshot(&parent, 0, 1)?;
    shows(&copy, &[1])?;
    copy.transfer_data(0, PAGE, &Vmo::create(PAGE, 0)?, 0)?;
    shows(&copy, &[0])?;
    shows(&parent, &[1])
}

fn transfer_arguments() -> Outcome {
    let (to, from) = (numbered(2, 0)?, numbered(2, 0)?);
    for (offset, len, at) in [(1, PAGE, 0), (0, 1, 0), (0, PAGE, 100)] {
        fails(to.transfer_data(offset, len, &from, at), Status::INVALID_ARGS)?;
    }
    for (offset, len, at) in [(PAGE, 2 * PAGE, 0), (0, 2 * PAGE, PAGE), (0, 3 * PAGE, 0), (0, PAGE, 1 << 62)] {
        fails(to.transfer_data(offset, len, &from, at), Status::OUT_OF_RANGE)?;
    }
    let (a, b) = (to.raw_handle(), from.raw_handle());
    gives(raw!(zx_vmo_transfer_data, a, 1, 0, PAGE, b, 0), Status::INVALID_ARGS)?;
    for missing in [Rights::READ, Rights::WRITE] {
        let less = Vmo::from(without(&from, missing)?);
        fails(to.transfer_data(0, PAGE, &less, 0), Status::ACCESS_DENIED)?;
    }
    let constant = Vmo::from(without(&to, Rights::WRITE)?);
    fails(constant.transfer_data(0, PAGE, &from, 0), Status::ACCESS_DENIED)?;
    shows(&to, &[1, 2])?;
    shows(&from, &[1, 2])
}

fn read_into_own_mapping() -> Outcome {
    // A VMO is read into a mapping of another part of itself, or of the same part.
    let vmo = numbered(4, 0)?;
    let root = zx::startup::vmar_root_self();
    let mapping = root.map_here(READ_WRITE, &vmo, 0, 4 * 4096)?;
    let at = mapping.address();
    gives(raw!(zx_vmo_read, vmo.raw_handle(), at + 8192, 0, 4096), Status::OK)?;
    shows(&vmo, &[1, 2, 1, 4])?;
    gives(raw!(zx_vmo_read, vmo.raw_handle(), at, 0, 4 * 4096), Status::OK)?;
    shows(&vmo, &[1, 2, 1, 4])?;
    gives(raw!(zx_vmo_write, vmo.raw_handle(), at + 4096, 3 * PAGE, 4096), Status::OK)?;
    shows(&vmo, &[1, 2, 1, 2])
}

fn read_by_two() -> Outcome {
    // Two threads read the second half of one VMO into a mapping of the first half of the other one, in opposite
    // directions, over and over. A third thread decommits the pages of both.
    let vmos = [Arc::new(Vmo::create(32 * PAGE, 0)?), Arc::new(Vmo::create(32 * PAGE, 0)?)];
    let done = Arc::new(AtomicU32::new(0));
    let threads: Vec<_> = (0..2)
        .map(|n| {
            let (from, to, done) = (vmos[n].clone(), vmos[1 - n].clone(), done.clone());
            thread::spawn(move || -> zx::Result<()> {
                let root = zx::startup::vmar_root_self();
                let mapping = root.map_here(READ_WRITE, &to, 0, 16 * 4096)?;
                for _ in 0..100 {
                    let status = raw!(zx_vmo_read, from.raw_handle(), mapping.address(), 16 * PAGE, 16 * 4096);
                    if status != Status::OK {
                        return Err(status);
                    }
                }
                done.fetch_add(1, Ordering::Relaxed);
                Ok(())
            })
        })
        .collect();
    while done.load(Ordering::Relaxed) < 2 && threads.iter().any(|thread| !thread.is_finished()) {
        for vmo in &vmos {
            vmo.op_range(ZX_VMO_OP_DECOMMIT, 0, 16 * PAGE)?;
        }
        thread::yield_now();
    }
    for thread in threads {
        thread.join().map_err(|_| "a thread has panicked")??;
    }
    for vmo in &vmos {
        vmo.op_range(ZX_VMO_OP_DECOMMIT, 0, 16 * PAGE)?;
        // Reading has not committed any page.
        equal(taken(vmo)?, (0, 0))?;
    }
    Ok(())
}

fn read_absent() -> Outcome {
    let root = zx::startup::vmar_root_self();
    let vmo = Vmo::create(8 * PAGE, 0)?;
    let mut bytes = vec![1; 8 * 4096];
    vmo.read(&mut bytes, 0)?;
    ensure(bytes.iter().all(|byte| *byte == 0), "what was never written is not zero")?;
    let mapping = root.map_here(READ_WRITE, &vmo, 0, 8 * 4096)?;
    for page in 0..8 {
        let mut byte = [1];
        mapping.read(page * 4096 + 77, &mut byte)?;
        equal(byte, [0])?;
    }
    equal(taken(&vmo)?, (0, 0))?;
    // The same for the buffer of a call.
    let other = Vmo::create(PAGE, 0)?;
    gives(raw!(zx_vmo_write, other.raw_handle(), mapping.address(), 0, 4096), Status::OK)?;
    equal((taken(&vmo)?, taken(&other)?), ((0, 0), (1, 1)))?;
    mapping.write(4096, &[1])?;
    equal(taken(&vmo)?, (1, 1))
}

fn read_rubbish() -> Outcome {
    let vmo = numbered(1, 0)?;
    let raw = vmo.raw_handle();
    for address in [0_u64, 0x1000, 0x7fff_ffff_f000, 0xffff_8000_0000_0000] {
        gives(raw!(zx_vmo_read, raw, address, 0, 1), Status::INVALID_ARGS)?;
        gives(raw!(zx_vmo_write, raw, address, 0, 1), Status::INVALID_ARGS)?;
    }
    // Longer than the VMO, and longer than any memory.
    let byte = [0_u8; 1];
    for len in [PAGE + 1, 1 << 40, u64::MAX] {
        gives(raw!(zx_vmo_read, raw, byte.as_ptr(), 0, len), Status::OUT_OF_RANGE)?;
        gives(raw!(zx_vmo_write, raw, byte.as_ptr(), 0, len), Status::OUT_OF_RANGE)?;
    }
    shows(&vmo, &[1])
}

fn set_size_rounds_up() -> Outcome {
    let vmo = Vmo::create(0, ZX_VMO_RESIZABLE)?;
    for size in [0, 1, PAGE - 1, PAGE, PAGE + 1, 5 * PAGE - 1] {
        vmo.set_size(size)?;
        equal((vmo.get_size()?, vmo.get_stream_size()?), (size.next_multiple_of(PAGE), size))?;
    }
    fails(vmo.set_size(u64::MAX), Status::OUT_OF_RANGE)?;
    fails(vmo.set_size(u64::MAX - PAGE), Status::OUT_OF_RANGE)?;
    equal(vmo.get_size()?, 5 * PAGE)
}

fn set_size_mapped() -> Outcome {
    let root = zx::startup::vmar_root_self();
    let prober = Prober::new()?;
    let (vmar, base) = prober.region(4)?;
    let vmo = numbered(3, ZX_VMO_RESIZABLE)?;
    let options = READ_WRITE | abi::ZX_VM_SPECIFIC | abi::ZX_VM_ALLOW_FAULTS;
    vmar.map(options, 0, &vmo, 0, 4 * 4096)?;
    for page in 0..3 {
        prober.finds(base + page * 4096, page as u8 + 1)?;
    }
    equal(prober.load(base + 3 * 4096)?, Err(Status::OUT_OF_RANGE))?;
    vmo.set_size(PAGE)?;
    prober.stores(base, 9)?;
    for page in 1..4 {
        equal(prober.load(base + page * 4096)?, Err(Status::OUT_OF_RANGE))?;
        equal(prober.store(base + page * 4096, 1)?, Err(Status::OUT_OF_RANGE))?;
    }
    // A call's buffer ends there, too.
    let mapping = root.map_here(options & !abi::ZX_VM_SPECIFIC, &vmo, 0, 2 * 4096)?;
    let other = Vmo::create(2 * PAGE, 0)?;
    let (raw, at) = (other.raw_handle(), mapping.address());
    gives(raw!(zx_vmo_read, raw, at + 4096, 0, 1), Status::INVALID_ARGS)?;
    gives(raw!(zx_vmo_write, raw, at + 4090, 0, 10), Status::INVALID_ARGS)
}

fn set_size_mapped_grows() -> Outcome {
    let prober = Prober::new()?;
    let (vmar, base) = prober.region(2)?;
    let vmo = numbered(2, ZX_VMO_RESIZABLE)?;
    vmar.map(READ_WRITE | abi::ZX_VM_SPECIFIC | abi::ZX_VM_ALLOW_FAULTS, 0, &vmo, 0, 2 * 4096)?;
    prober.finds(base + 4096, 2)?;
    for _ in 0..3 {
        vmo.set_size(PAGE)?;
        vmo.set_size(2 * PAGE)?;
        prober.finds(base + 4096, 0)?;
        prober.stores(base + 4096, 7)?;
    }
    vmo.set_size(0)?;
    equal(prober.load(base)?, Err(Status::OUT_OF_RANGE))
}

fn set_size_rights() -> Outcome {
    let vmo = Vmo::create(PAGE, ZX_VMO_RESIZABLE)?;
    ensure(Rights::from_bits_retain(vmo.basic_info()?.rights).contains(Rights::RESIZE), "no right to resize")?;
    let fixed = Vmo::create(PAGE, 0)?;
    ensure(!Rights::from_bits_retain(fixed.basic_info()?.rights).contains(Rights::RESIZE), "a right to resize")?;
    let less = Vmo::from(without(&vmo, Rights::RESIZE)?);
    fails(less.set_size(0), Status::ACCESS_DENIED)?;
    let less = Vmo::from(without(&vmo, Rights::WRITE)?);
    fails(less.set_size(0), Status::ACCESS_DENIED)?;
    equal(vmo.get_size()?, PAGE)
}

fn mapped_read_only() -> Outcome {
    let root = zx::startup::vmar_root_self();
    let prober = Prober::new()?;
    let (vmar, base) = prober.region(2)?;
    let vmo = numbered(1, 0)?;
    vmar.map(READ | abi::ZX_VM_SPECIFIC, 0, &vmo, 0, 4096)?;
    prober.finds_read_only(base, 1)?;
    // Calls do not write there either.
    let mapping = root.map_here(READ, &vmo, 0, 4096)?;
    gives(raw!(zx_vmo_read, vmo.raw_handle(), mapping.address(), 0, 1), Status::INVALID_ARGS)?;
    shows(&vmo, &[1])
}

fn mapped_no_permission() -> Outcome {
    let prober = Prober::new()?;
    let (vmar, base) = prober.region(1)?;
    let vmo = numbered(1, 0)?;
    vmar.map(abi::ZX_VM_SPECIFIC, 0, &vmo, 0, 4096)?;
    equal(prober.load(base)?, Err(Status::ACCESS_DENIED))?;
    equal(prober.store(base, 1)?, Err(Status::ACCESS_DENIED))?;
    vmar.protect(READ, base, 4096)?;
    prober.finds_read_only(base, 1)
}

fn mapped_permission_taken() -> Outcome {
    let prober = Prober::new()?;
    let (vmar, base) = prober.region(1)?;
    let vmo = numbered(1, 0)?;
    vmar.map(READ_WRITE | abi::ZX_VM_SPECIFIC, 0, &vmo, 0, 4096)?;
    prober.stores(base, 5)?;
    vmar.protect(0, base, 4096)?;
    equal(prober.load(base)?, Err(Status::ACCESS_DENIED))?;
    equal(prober.store(base, 1)?, Err(Status::ACCESS_DENIED))?;
    vmar.protect(READ_WRITE, base, 4096)?;
    prober.finds(base, 5)?;
    prober.stores(base, 1)
}

fn stream_size_bounds() -> Outcome {
    let vmo = Vmo::create(2 * PAGE, 0)?;
    vmo.write(&[7; 8192], 0)?;
    equal(vmo.get_stream_size()?, 2 * PAGE)?;
    fails(vmo.set_stream_size(2 * PAGE + 1), Status::OUT_OF_RANGE)?;
    vmo.set_stream_size(100)?;
    equal((vmo.get_stream_size()?, vmo.get_size()?), (100, 2 * PAGE))?;
    // Bytes that become part of the stream again are zero.
    vmo.set_stream_size(PAGE + 100)?;
    let mut bytes = [1; 8192];
    vmo.read(&mut bytes, 0)?;
    ensure(bytes[..100].iter().all(|byte| *byte == 7), "content is lost")?;
    ensure(bytes[100..4196].iter().all(|byte| *byte == 0), "what was cut off is back")?;
    ensure(bytes[4196..].iter().all(|byte| *byte == 7), "more was zeroed than asked for")
}

fn unbounded() -> Outcome {
    let vmo = Vmo::create(10, ZX_VMO_UNBOUNDED)?;
    ensure(vmo.get_size()? > 1 << 60, "it has an end")?;
    equal((vmo.get_stream_size()?, taken(&vmo)?), (10, (0, 0)))?;
    vmo.write(&[1], 1 << 60)?;
    vmo.set_stream_size(1 << 59)?;
    equal((vmo.get_stream_size()?, taken(&vmo)?), (1 << 59, (1, 1)))?;
    fails(vmo.set_size(PAGE), Status::UNAVAILABLE)?;
    fails(Vmo::create(0, ZX_VMO_UNBOUNDED | ZX_VMO_RESIZABLE), Status::INVALID_ARGS)
}

fn huge() -> Outcome {
    let size = 1 << 60;
    let vmo = Vmo::create(size, ZX_VMO_RESIZABLE)?;
    for (n, at) in [0, 1 << 35, 1 << 50, size - 1].into_iter().enumerate() {
        vmo.write(&[n as u8 + 1], at)?;
    }
    fails(vmo.op_range(ZX_VMO_OP_COMMIT, 0, size), Status::NO_MEMORY)?;
    equal(taken(&vmo)?, (4, 4))?;
    let copy = snapshot(&vmo, (1 << 50) / PAGE, 1 << 40)?;
    let mut byte = [0];
    copy.read(&mut byte, 0)?;
    equal((byte, taken(&copy)?), ([3], (1, 0)))?;
    ensure(vmo.op_range(ZX_VMO_OP_DECOMMIT, 0, size).is_err(), "a VMO with a copy has given memory back")?;
    drop(copy);
    vmo.op_range(ZX_VMO_OP_DECOMMIT, PAGE, size - 2 * PAGE)?;
    equal(taken(&vmo)?, (2, 2))?;
    vmo.set_size(1 << 50)?;
    equal(taken(&vmo)?, (1, 1))
}

/// User signals are independent of the VMO's own signal.
fn signals_user() -> Outcome {
    let vmo = Vmo::create(PAGE, 0)?;
    let (own, user) = (Signals::VMO_ZERO_CHILDREN, Signals::USER_0);
    fails(vmo.wait_one(user, zx::MonotonicInstant::INFINITE_PAST), Status::TIMED_OUT)?;
    equal(vmo.signals()?, own)?;
    gives(raw!(zx_object_signal, vmo.raw_handle(), 0, user.bits()), Status::OK)?;
    equal(vmo.wait_one(user, super::late())?, own | user)?;
    let clone = snapshot(&vmo, 0, 1)?;
    equal((vmo.signals()?, clone.signals()?), (user, own))?;
    gives(raw!(zx_object_signal, vmo.raw_handle(), user.bits(), 0), Status::OK)?;
    equal(vmo.signals()?, Signals::NONE)?;
    drop(clone);
    equal(vmo.signals()?, own)
}

fn signals_user_cannot() -> Outcome {
    let vmo = Vmo::create(PAGE, 0)?;
    let own = Raised::VMO_ZERO_CHILDREN.bits();
    gives(raw!(zx_object_signal, vmo.raw_handle(), own, 0), Status::INVALID_ARGS)?;
    gives(raw!(zx_object_signal, vmo.raw_handle(), 0, own), Status::INVALID_ARGS)?;
    let bare = Vmo::from(without(&vmo, Rights::SIGNAL)?);
    gives(raw!(zx_object_signal, bare.raw_handle(), 0, 1 << 24), Status::ACCESS_DENIED)?;
    ensure(vmo.signals()?.contains(Signals::VMO_ZERO_CHILDREN), "it has children")
}

fn signals_clone() -> Outcome {
    let vmo = Vmo::create(PAGE, 0)?;
    let childless = |vmo: &Vmo, expected: bool| -> Outcome {
        let result = vmo.wait_one(Signals::VMO_ZERO_CHILDREN, zx::MonotonicInstant::INFINITE_PAST);
        if expected { result.map(drop).map_err(Into::into) } else { fails(result, Status::TIMED_OUT) }
    };
    for _ in 0..10 {
        childless(&vmo, true)?;
        let clone = snapshot(&vmo, 0, 1)?;
        childless(&clone, true)?;
        childless(&vmo, false)?;
        let second = snapshot(&clone, 0, 1)?;
        childless(&second, true)?;
        childless(&clone, false)?;
        childless(&vmo, false)?;
        drop(clone);
        childless(&vmo, false)?;
        childless(&second, true)?;
        drop(second);
    }
    childless(&vmo, true)
}

fn signals_mapping() -> Outcome {
    let root = zx::startup::vmar_root_self();
    let vmo = Vmo::create(2 * PAGE, 0)?;
    for slice in [false, true] {
        let child = if slice { vmo.create_child(ZX_VMO_CHILD_SLICE, 0, PAGE)? } else { snapshot(&vmo, 0, 1)? };
        let mapping = root.map_here(READ_WRITE, &child, 0, 4096)?;
        drop(child);
        // No handle to the child exists, but a mapping does.
        ensure(!vmo.signals()?.contains(Signals::VMO_ZERO_CHILDREN), "a mapped child is not counted")?;
        mapping.write(0, &[1])?;
        drop(mapping);
        ensure(vmo.signals()?.contains(Signals::VMO_ZERO_CHILDREN), "a child that is gone is counted")?;
    }
    Ok(())
}

fn info_kinds() -> Outcome {
    let root = zx::startup::vmar_root_self();
    let base = abi::ZX_INFO_VMO_TYPE_PAGED | abi::ZX_INFO_VMO_VIA_HANDLE;
    for (options, flags) in [
        (0, 0),
        (ZX_VMO_RESIZABLE, abi::ZX_INFO_VMO_RESIZABLE),
        (ZX_VMO_DISCARDABLE, abi::ZX_INFO_VMO_DISCARDABLE),
        (ZX_VMO_UNBOUNDED, 0),
    ] {
        let vmo = Vmo::create(PAGE, options)?;
        vmo.set_name("kind")?;
        let info = vmo.info()?;
        equal(info.flags, base | flags)?;
        equal((info.koid, info.parent_koid, info.num_children), (vmo.koid()?, 0, 0))?;
        equal(info.size_bytes, vmo.get_size()?)?;
        equal(Rights::from_bits_retain(info.handle_rights), Rights::from_bits_retain(vmo.basic_info()?.rights))?;
        ensure(info.name.starts_with(b"kind\0") && info.metadata_bytes > 0, "the name or what it takes is wrong")?;
        vmo.write(&[1], 0)?;
        let info = vmo.info()?;
        equal((info.committed_bytes, info.populated_bytes), (PAGE, PAGE))?;
        equal((info.committed_private_bytes, info.committed_scaled_bytes), (PAGE, PAGE))?;
        // Discardable memory can disappear at any time, so the mapping needs the option.
        let options = READ | abi::ZX_VM_ALLOW_FAULTS;
        let mapping = root.map_here(options, &vmo, 0, 4096)?;
        let again = root.map_here(options, &vmo, 0, 4096)?;
        let info = vmo.info()?;
        equal((info.num_mappings, info.share_count), (2, 1))?;
        drop((mapping, again));
    }
    Ok(())
}
