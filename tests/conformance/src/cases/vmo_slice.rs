//! Slices and references: VMOs that show the pages of another VMO.

use abi::{
    Rights, Status, ZX_INFO_VMO_IS_COW_CLONE, ZX_STREAM_MODE_READ, ZX_STREAM_MODE_WRITE, ZX_STREAM_SEEK_ORIGIN_START,
    ZX_VMO_CHILD_NO_WRITE, ZX_VMO_CHILD_REFERENCE, ZX_VMO_CHILD_RESIZABLE, ZX_VMO_CHILD_SLICE, ZX_VMO_CHILD_SNAPSHOT,
    ZX_VMO_CHILD_SNAPSHOT_AT_LEAST_ON_WRITE, ZX_VMO_CHILD_SNAPSHOT_MODIFIED, ZX_VMO_OP_COMMIT, ZX_VMO_OP_DECOMMIT,
    ZX_VMO_OP_ZERO, ZX_VMO_RESIZABLE,
};
use zx::{AsHandleRef, Info, Signals, Stream, Vmo};

use super::vmar::{READ, READ_WRITE};
use super::vmo_clone::{PAGE, mark, numbered, shows, snapshot, taken};
use super::{cases, late, without};
use crate::check::{Outcome, ensure, equal, fails};
use crate::prober::Prober;

cases! {
    "vmo_slice.write.goes_through" => write_goes_through,
    "vmo_slice.op_range.commit" => op_range_commit,
    "vmo_slice.op_range.decommit" => op_range_decommit,
    "vmo_slice.op_range.decommit_of_parent" => op_range_decommit_of_parent,
    "vmo_slice.op_range.bounds" => op_range_bounds,
    "vmo_slice.nested.shows_the_same" => nested,
    "vmo_slice.create.not_resizable" => create_not_resizable,
    "vmo_slice.create.not_within" => create_not_within,
    "vmo_slice.create.no_copy" => create_no_copy,
    "vmo_slice.create.nothing" => create_nothing,
    "vmo_slice.create.rounds_up" => create_rounds_up,
    "vmo_slice.create.rights" => create_rights,
    "vmo_slice.children.signal" => children_signal,
    "vmo_slice.children.grandchild_last" => children_grandchild_last,
    "vmo_slice.clone.ends_with_the_slice" => clone_ends_with_the_slice,
    "vmo_slice.clone.of_a_slice_of_a_clone" => clone_of_a_slice_of_a_clone,
    "vmo_slice.mapped.shows_the_parent" => mapped_shows_the_parent,
    "vmo_reference.create.arguments" => reference_arguments,
    "vmo_reference.size.is_the_parents" => reference_size,
    "vmo_reference.size.changes_the_parents" => reference_resizes,
    "vmo_reference.size.takes_the_right" => reference_takes_the_right,
    "vmo_reference.outlives.its_parent" => reference_outlives,
    "vmo_reference.shares.both_ways" => reference_shares,
    "vmo_reference.children.signal" => reference_children_signal,
    "vmo_reference.children.snapshot" => reference_snapshot,
    "vmo_reference.children.slice" => reference_slice,
    "vmo_reference.children.nested" => reference_nested,
    "vmo_reference.mapped.updates" => reference_mapped,
    "vmo_reference.mapped.parent_is_gone" => reference_mapped_without_parent,
    "vmo_reference.mapped.nested" => reference_mapped_nested,
    "vmo_reference.stream.of_two" => reference_streams,
    "vmo_reference.info.no_clone" => reference_info,
    "vmo_reference.info.pages_are_the_parents" => reference_pages,
}

fn slice(of: &Vmo, page: u64, pages: u64) -> zx::Result<Vmo> {
    of.create_child(ZX_VMO_CHILD_SLICE, page * PAGE, pages * PAGE)
}

fn write_goes_through() -> Outcome {
    let vmo = numbered(4, 0)?;
    let part = slice(&vmo, 1, 2)?;
    shows(&part, &[2, 3])?;
    mark(&part, 0, 20)?;
    shows(&vmo, &[1, 20, 3, 4])?;
    mark(&vmo, 2, 30)?;
    shows(&part, &[20, 30])?;
    // No page is counted twice.
    equal((taken(&vmo)?, taken(&part)?), ((4, 4), (0, 0)))?;
    drop(vmo);
    shows(&part, &[20, 30])
}

fn op_range_commit() -> Outcome {
    let vmo = Vmo::create(4 * PAGE, 0)?;
    let part = slice(&vmo, 1, 2)?;
    part.op_range(ZX_VMO_OP_COMMIT, 0, 2 * PAGE)?;
    equal((taken(&vmo)?, taken(&part)?), ((2, 2), (0, 0)))?;
    shows(&vmo, &[0, 0, 0, 0])
}

fn op_range_decommit() -> Outcome {
    let vmo = numbered(4, 0)?;
    let part = slice(&vmo, 1, 2)?;
    let inner = slice(&part, 1, 1)?;
    inner.op_range(ZX_VMO_OP_DECOMMIT, 0, PAGE)?;
    shows(&vmo, &[1, 2, 0, 4])?;
    equal(taken(&vmo)?, (3, 3))?;
    part.op_range(ZX_VMO_OP_DECOMMIT, 0, 2 * PAGE)?;
    shows(&vmo, &[1, 0, 0, 4])?;
    equal(taken(&vmo)?, (2, 2))?;
    // Not where a clone exists.
    let copy = snapshot(&vmo, 0, 4)?;
    fails(part.op_range(ZX_VMO_OP_DECOMMIT, 0, PAGE), Status::NOT_SUPPORTED)?;
    let part_of_copy = slice(&copy, 0, 1)?;
    fails(part_of_copy.op_range(ZX_VMO_OP_DECOMMIT, 0, PAGE), Status::NOT_SUPPORTED)
}

fn op_range_decommit_of_parent() -> Outcome {
    let vmo = numbered(3, 0)?;
    let part = slice(&vmo, 1, 1)?;
    vmo.op_range(ZX_VMO_OP_DECOMMIT, 0, 2 * PAGE)?;
    shows(&part, &[0])?;
    shows(&vmo, &[0, 0, 3])?;
    equal(taken(&vmo)?, (1, 1))
}

fn op_range_bounds() -> Outcome {
    let vmo = numbered(4, 0)?;
    let part = slice(&vmo, 1, 2)?;
    for op in [ZX_VMO_OP_COMMIT, ZX_VMO_OP_DECOMMIT, ZX_VMO_OP_ZERO] {
        fails(part.op_range(op, PAGE, 2 * PAGE), Status::OUT_OF_RANGE)?;
        fails(part.op_range(op, 3 * PAGE, 0), Status::OUT_OF_RANGE)?;
        fails(part.op_range(op, u64::MAX - PAGE + 1, PAGE), Status::OUT_OF_RANGE)?;
    }
    fails(part.write(&[1, 1], 2 * PAGE - 1), Status::OUT_OF_RANGE)?;
    shows(&vmo, &[1, 2, 3, 4])
}

fn nested() -> Outcome {
    let vmo = numbered(6, 0)?;
    let part = slice(&vmo, 1, 4)?;
    let inner = slice(&part, 1, 2)?;
    shows(&inner, &[3, 4])?;
    mark(&inner, 0, 30)?;
    shows(&part, &[2, 30, 4, 5])?;
    shows(&vmo, &[1, 2, 30, 4, 5, 6])?;
    equal((inner.info()?.parent_koid, part.info()?.parent_koid), (part.koid()?, vmo.koid()?))?;
    fails(slice(&part, 3, 2), Status::INVALID_ARGS)?;
    drop((vmo, part));
    shows(&inner, &[30, 4])
}

fn create_not_resizable() -> Outcome {
    let fixed = Vmo::create(2 * PAGE, 0)?;
    let options = ZX_VMO_CHILD_SLICE | ZX_VMO_CHILD_RESIZABLE;
    fails(fixed.create_child(options, 0, PAGE), Status::INVALID_ARGS)?;
    let sizable = Vmo::create(2 * PAGE, ZX_VMO_RESIZABLE)?;
    fails(slice(&sizable, 0, 1), Status::NOT_SUPPORTED)?;
    fails(slice(&fixed, 0, 1)?.set_size(2 * PAGE), Status::UNAVAILABLE)
}

fn create_not_within() -> Outcome {
    // The same for a VMO that cannot have slices at all.
    for options in [0, ZX_VMO_RESIZABLE] {
        let vmo = Vmo::create(2 * PAGE, options)?;
        for (page, pages) in [(0, 3), (1, 2), (2, 1), (3, 0), (1 << 40, 1)] {
            fails(slice(&vmo, page, pages), Status::INVALID_ARGS)?;
        }
        fails(vmo.create_child(ZX_VMO_CHILD_SLICE, 1, PAGE), Status::INVALID_ARGS)?;
        let last = u64::MAX - PAGE + 1;
        fails(vmo.create_child(ZX_VMO_CHILD_SLICE, last, PAGE), Status::INVALID_ARGS)?;
        for (offset, size) in [(0, u64::MAX), (0, last), (last, last), (last, u64::MAX)] {
            fails(vmo.create_child(ZX_VMO_CHILD_SLICE, offset, size), Status::OUT_OF_RANGE)?;
        }
        equal(vmo.info()?.num_children, 0)?;
    }
    Ok(())
}

fn create_no_copy() -> Outcome {
    // A child either shares the memory or is a copy: not both.
    let vmo = Vmo::create(2 * PAGE, 0)?;
    for copy in [ZX_VMO_CHILD_SNAPSHOT, ZX_VMO_CHILD_SNAPSHOT_AT_LEAST_ON_WRITE, ZX_VMO_CHILD_SNAPSHOT_MODIFIED] {
        fails(vmo.create_child(ZX_VMO_CHILD_SLICE | copy, 0, PAGE), Status::INVALID_ARGS)?;
        fails(vmo.create_child(ZX_VMO_CHILD_REFERENCE | copy, 0, 0), Status::INVALID_ARGS)?;
    }
    fails(vmo.create_child(ZX_VMO_CHILD_SLICE | ZX_VMO_CHILD_REFERENCE, 0, 0), Status::INVALID_ARGS)?;
    // Nor is it reported as a copy-on-write clone.
    for child in [slice(&vmo, 0, 1)?, slice(&snapshot(&vmo, 0, 1)?, 0, 1)?] {
        equal(child.info()?.flags & abi::ZX_INFO_VMO_IS_COW_CLONE, 0)?;
    }
    Ok(())
}

fn create_nothing() -> Outcome {
    for size in [0, 2] {
        let vmo = Vmo::create(size * PAGE, 0)?;
        let nothing = slice(&vmo, size, 0)?;
        equal((nothing.get_size()?, vmo.info()?.num_children), (0, 1))?;
        fails(nothing.write(&[1], 0), Status::OUT_OF_RANGE)?;
        fails(nothing.read(&mut [1], 0), Status::OUT_OF_RANGE)?;
        nothing.write(&[], 0)?;
    }
    Ok(())
}

fn create_rounds_up() -> Outcome {
    let vmo = numbered(2, 0)?;
    let part = vmo.create_child(ZX_VMO_CHILD_SLICE, 0, PAGE + 1)?;
    equal((part.get_size()?, part.get_stream_size()?), (2 * PAGE, PAGE + 1))?;
    shows(&part, &[1, 2])?;
    fails(vmo.create_child(ZX_VMO_CHILD_SLICE, PAGE, PAGE + 1), Status::INVALID_ARGS)
}

fn create_rights() -> Outcome {
    let vmo = numbered(1, 0)?.replace_as_executable(None)?;
    let rights = |vmo: &Vmo| -> zx::Result<Rights> { Ok(Rights::from_bits_retain(vmo.basic_info()?.rights)) };
    // A slice is the same memory: it has the rights of the parent's handle, and loses only what the caller removes.
    equal(rights(&slice(&vmo, 0, 1)?)?, rights(&vmo)?)?;
    let constant = vmo.create_child(ZX_VMO_CHILD_SLICE | ZX_VMO_CHILD_NO_WRITE, 0, PAGE)?;
    equal(rights(&constant)?, rights(&vmo)? & !Rights::WRITE)?;
    let readable = Vmo::from(super::without(&vmo, Rights::WRITE)?);
    ensure(!rights(&slice(&readable, 0, 1)?)?.contains(Rights::WRITE), "a slice may be written, its parent not")
}

fn children_signal() -> Outcome {
    let vmo = Vmo::create(2 * PAGE, 0)?;
    let none = |vmo: &Vmo| -> zx::Result<bool> { Ok(vmo.signals()?.contains(Signals::VMO_ZERO_CHILDREN)) };
    ensure(none(&vmo)?, "it has children at the start")?;
    let (one, two) = (slice(&vmo, 0, 1)?, slice(&vmo, 1, 1)?);
    ensure(!none(&vmo)?, "the children are not seen")?;
    drop(one);
    ensure(!none(&vmo)?, "the second child is not seen")?;
    drop(two);
    ensure(none(&vmo)?, "the end of the last child is not seen")
}

fn children_grandchild_last() -> Outcome {
    let vmo = Vmo::create(2 * PAGE, 0)?;
    let none = |vmo: &Vmo| -> zx::Result<bool> { Ok(vmo.signals()?.contains(Signals::VMO_ZERO_CHILDREN)) };
    let part = slice(&vmo, 0, 2)?;
    let inner = slice(&part, 0, 1)?;
    drop(part);
    ensure(!none(&vmo)?, "a slice of a slice is not seen")?;
    drop(inner);
    ensure(none(&vmo)?, "its end is not seen")
}

fn clone_ends_with_the_slice() -> Outcome {
    let vmo = numbered(4, 0)?;
    let part = slice(&vmo, 1, 2)?;
    let copy = snapshot(&part, 1, 3)?;
    shows(&copy, &[3, 0, 0])?;
    mark(&part, 1, 30)?;
    mark(&copy, 1, 7)?;
    shows(&copy, &[3, 7, 0])?;
    shows(&vmo, &[1, 2, 30, 4])?;
    equal(copy.info()?.parent_koid, part.koid()?)?;
    drop(part);
    equal(copy.info()?.parent_koid, vmo.koid()?)
}

/// A clone of a slice of a clone: it shows the first clone's page, and gets its own page when it is written.
fn clone_of_a_slice_of_a_clone() -> Outcome {
    let vmo = numbered(2, 0)?;
    let copy = snapshot(&vmo, 0, 2)?;
    let part = slice(&copy, 1, 1)?;
    let inner = snapshot(&part, 0, 1)?;
    shows(&inner, &[2])?;
    mark(&inner, 0, 9)?;
    for (vmo, expected) in [(&vmo, &[1, 2][..]), (&copy, &[1, 2][..]), (&part, &[2][..]), (&inner, &[9][..])] {
        shows(vmo, expected)?;
    }
    mark(&part, 0, 7)?;
    shows(&copy, &[1, 7])?;
    shows(&inner, &[9])?;
    shows(&vmo, &[1, 2])
}

fn mapped_shows_the_parent() -> Outcome {
    let prober = Prober::new()?;
    let (vmar, base) = prober.region(4)?;
    let vmo = numbered(4, 0)?;
    let part = slice(&vmo, 1, 2)?;
    vmar.map(READ_WRITE | abi::ZX_VM_SPECIFIC, 0, &part, 0, 2 * PAGE as usize)?;
    fails(vmar.map(READ, 0, &part, 0, 3 * PAGE as usize), Status::OUT_OF_RANGE)?;
    prober.finds(base + 4096, 3)?;
    prober.stores(base, 20)?;
    prober.stores(base + 4095, 20)?;
    shows(&vmo, &[1, 20, 3, 4])?;
    let counts = |vmo: &Vmo| -> zx::Result<_> {
        let info = vmo.info()?;
        Ok((info.num_mappings, info.share_count))
    };
    equal((counts(&part)?, counts(&vmo)?), ((1, 1), (0, 1)))
}

fn reference(of: &Vmo, options: u32) -> zx::Result<Vmo> {
    of.create_child(ZX_VMO_CHILD_REFERENCE | options, 0, 0)
}

fn reference_arguments() -> Outcome {
    let vmo = numbered(2, 0)?;
    for (offset, size) in [(0, PAGE), (PAGE, 0), (0, 2 * PAGE)] {
        fails(vmo.create_child(ZX_VMO_CHILD_REFERENCE, offset, size), Status::INVALID_ARGS)?;
    }
    fails(reference(&vmo, ZX_VMO_CHILD_RESIZABLE), Status::NOT_SUPPORTED)?;
    fails(reference(&slice(&vmo, 0, 1)?, 0), Status::NOT_SUPPORTED)?;
    let all = reference(&vmo, 0)?;
    shows(&all, &[1, 2])?;
    equal((all.info()?.parent_koid, vmo.info()?.num_children), (vmo.koid()?, 1))?;
    mark(&all, 1, 9)?;
    shows(&vmo, &[1, 9])?;
    shows(&slice(&all, 1, 1)?, &[9])
}

fn reference_size() -> Outcome {
    let vmo = numbered(2, ZX_VMO_RESIZABLE)?;
    let all = reference(&vmo, 0)?;
    vmo.set_size(3 * PAGE)?;
    shows(&all, &[1, 2, 0])?;
    equal(all.info()?.size_bytes, 3 * PAGE)?;
    vmo.set_size(PAGE)?;
    shows(&all, &[1])?;
    fails(all.set_size(2 * PAGE), Status::UNAVAILABLE)?;
    vmo.set_stream_size(7)?;
    equal(all.get_stream_size()?, 7)
}

fn reference_resizes() -> Outcome {
    let vmo = numbered(2, ZX_VMO_RESIZABLE)?;
    let all = reference(&vmo, ZX_VMO_CHILD_RESIZABLE)?;
    let second = reference(&all, ZX_VMO_CHILD_RESIZABLE)?;
    second.set_size(PAGE)?;
    shows(&vmo, &[1])?;
    all.set_size(2 * PAGE)?;
    shows(&vmo, &[1, 0])?;
    shows(&second, &[1, 0])
}

/// A handle without the right to resize cannot get it through a reference, nor through a reference of a reference.
fn reference_takes_the_right() -> Outcome {
    let vmo = numbered(2, ZX_VMO_RESIZABLE)?;
    let weak = Vmo::from(without(&vmo, Rights::RESIZE)?);
    fails(weak.set_size(PAGE), Status::ACCESS_DENIED)?;
    fails(reference(&weak, ZX_VMO_CHILD_RESIZABLE), Status::ACCESS_DENIED)?;
    let all = reference(&weak, 0)?;
    fails(all.set_size(PAGE), Status::UNAVAILABLE)?;
    fails(reference(&all, ZX_VMO_CHILD_RESIZABLE), Status::NOT_SUPPORTED)?;
    let strong = reference(&vmo, ZX_VMO_CHILD_RESIZABLE)?;
    let weak = Vmo::from(without(&strong, Rights::RESIZE)?);
    fails(reference(&weak, ZX_VMO_CHILD_RESIZABLE), Status::ACCESS_DENIED)?;
    shows(&vmo, &[1, 2])?;
    // A clone's size is its own.
    let copy = weak.create_child(ZX_VMO_CHILD_SNAPSHOT | ZX_VMO_CHILD_RESIZABLE, 0, PAGE)?;
    copy.set_size(0)?;
    shows(&vmo, &[1, 2])
}

fn reference_outlives() -> Outcome {
    let vmo = numbered(2, ZX_VMO_RESIZABLE)?;
    let all = reference(&vmo, ZX_VMO_CHILD_RESIZABLE)?;
    drop(vmo);
    shows(&all, &[1, 2])?;
    all.set_size(PAGE)?;
    shows(&all, &[1])?;
    let copy = snapshot(&all, 0, 2)?;
    mark(&all, 0, 9)?;
    shows(&copy, &[1, 0])
}

fn reference_shares() -> Outcome {
    let vmo = Vmo::create(PAGE, 0)?;
    let all = reference(&vmo, 0)?;
    mark(&vmo, 0, 0xaa)?;
    shows(&all, &[0xaa])?;
    mark(&all, 0, 0xbb)?;
    shows(&vmo, &[0xbb])
}

fn reference_children_signal() -> Outcome {
    let vmo = Vmo::create(PAGE, 0)?;
    equal(vmo.signals()? & Signals::VMO_ZERO_CHILDREN, Signals::VMO_ZERO_CHILDREN)?;
    let all = reference(&vmo, 0)?;
    equal(vmo.signals()? & Signals::VMO_ZERO_CHILDREN, Signals::NONE)?;
    drop(all);
    vmo.wait_one(Signals::VMO_ZERO_CHILDREN, late())?;
    Ok(())
}

/// A snapshot of a reference is one of the pages, and a child of the reference.
fn reference_snapshot() -> Outcome {
    let vmo = numbered(1, 0)?;
    let all = reference(&vmo, 0)?;
    let copy = snapshot(&all, 0, 1)?;
    equal(copy.info()?.parent_koid, all.koid()?)?;
    shows(&copy, &[1])?;
    mark(&vmo, 0, 2)?;
    shows(&copy, &[1])?;
    mark(&copy, 0, 3)?;
    shows(&vmo, &[2])?;
    shows(&all, &[2])?;
    shows(&copy, &[3])
}

fn reference_slice() -> Outcome {
    let vmo = numbered(1, 0)?;
    let all = reference(&vmo, 0)?;
    let part = slice(&all, 0, 1)?;
    equal(part.info()?.parent_koid, all.koid()?)?;
    shows(&part, &[1])?;
    mark(&vmo, 0, 2)?;
    shows(&part, &[2])?;
    mark(&part, 0, 3)?;
    [&vmo, &all, &part].into_iter().try_for_each(|vmo| shows(vmo, &[3]))
}

fn reference_nested() -> Outcome {
    let vmo = numbered(1, 0)?;
    let all = reference(&vmo, 0)?;
    let second = reference(&all, 0)?;
    let third = reference(&second, 0)?;
    equal(second.info()?.parent_koid, all.koid()?)?;
    equal(third.info()?.parent_koid, second.koid()?)?;
    for (value, writer) in (2..).zip([&vmo, &third, &second, &all]) {
        mark(writer, 0, value)?;
        [&vmo, &all, &second, &third].into_iter().try_for_each(|vmo| shows(vmo, &[value]))?;
    }
    Ok(())
}

/// Gives back the page of `through` while `mapped` are mapped and after `gone` has been closed: all of them then show
/// zeros.
fn zeros_after_decommit(mapped: &[&Vmo], through: &Vmo, gone: Option<Vmo>) -> Outcome {
    let prober = Prober::new()?;
    let (vmar, base) = prober.region(mapped.len())?;
    let places: Vec<usize> = (0..mapped.len()).map(|n| n * PAGE as usize).collect();
    for (vmo, at) in mapped.iter().zip(&places) {
        vmar.map(READ_WRITE | abi::ZX_VM_SPECIFIC, *at, vmo, 0, PAGE as usize)?;
        prober.finds(base + at, 7)?;
    }
    mark(through, 0, 8)?;
    places.iter().try_for_each(|at| prober.finds(base + at, 8))?;
    drop(gone);
    through.op_range(ZX_VMO_OP_DECOMMIT, 0, PAGE)?;
    equal(through.info()?.populated_bytes, 0)?;
    places.iter().try_for_each(|at| prober.finds(base + at, 0))
}

/// Mappings of a reference and of its parent follow writes and decommits, while the other one exists and after.
fn reference_mapped() -> Outcome {
    let vmo = Vmo::create(PAGE, 0)?;
    let all = reference(&vmo, 0)?;
    mark(&vmo, 0, 7)?;
    zeros_after_decommit(&[&all, &vmo], &all, None)?;
    equal(vmo.info()?.populated_bytes, 0)?;
    mark(&vmo, 0, 7)?;
    zeros_after_decommit(&[&vmo], &vmo, Some(all))
}

fn reference_mapped_without_parent() -> Outcome {
    let vmo = Vmo::create(PAGE, 0)?;
    let all = reference(&vmo, 0)?;
    mark(&vmo, 0, 7)?;
    zeros_after_decommit(&[&all], &all, Some(vmo))
}

/// The same for references of references, without the one between, and without the root.
fn reference_mapped_nested() -> Outcome {
    let vmo = Vmo::create(PAGE, 0)?;
    let (first, second) = (reference(&vmo, 0)?, reference(&vmo, 0)?);
    let nested = reference(&first, 0)?;
    mark(&vmo, 0, 7)?;
    zeros_after_decommit(&[&first, &second, &nested], &nested, None)?;
    mark(&vmo, 0, 7)?;
    zeros_after_decommit(&[&nested], &vmo, Some(first))?;
    mark(&vmo, 0, 7)?;
    zeros_after_decommit(&[&second, &nested], &nested, Some(vmo))
}

fn reference_streams() -> Outcome {
    let vmo = numbered(1, 0)?;
    let (first, second) = (reference(&vmo, 0)?, reference(&vmo, 0)?);
    let reader = Stream::create(ZX_STREAM_MODE_READ, &first, 0)?;
    let writer = Stream::create(ZX_STREAM_MODE_WRITE, &second, 0)?;
    let mut byte = [0];
    equal((reader.read(&mut byte)?, byte[0]), (1, 1))?;
    equal(writer.write(&[9])?, 1)?;
    for vmo in [&vmo, &first, &second] {
        vmo.read(&mut byte, 0)?;
        equal(byte[0], 9)?;
    }
    reader.seek(ZX_STREAM_SEEK_ORIGIN_START, 0)?;
    equal((reader.read(&mut byte)?, byte[0]), (1, 9))
}

fn reference_info() -> Outcome {
    let vmo = Vmo::create(PAGE, 0)?;
    let info = reference(&vmo, 0)?.info()?;
    equal((info.parent_koid, info.flags & ZX_INFO_VMO_IS_COW_CLONE), (vmo.koid()?, 0))
}

/// Pages count for the root, also when it has no handle any more.
fn reference_pages() -> Outcome {
    let vmo = Vmo::create(PAGE, 0)?;
    let all = reference(&vmo, 0)?;
    mark(&vmo, 0, 7)?;
    equal((all.info()?.populated_bytes, vmo.info()?.populated_bytes), (0, PAGE))?;
    shows(&all, &[7])?;
    drop(vmo);
    equal(all.info()?.populated_bytes, 0)?;
    shows(&all, &[7])
}
