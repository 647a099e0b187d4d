//! VMOs.

use abi::{Rights, Status};
use zx::{AsHandleRef, Info, Signals, Vmo};

use super::{cases, raw, without};
use crate::check::{Outcome, ensure, equal, fails, gives};

cases! {
    "vmo.create.rounds_up" => create_rounds_up,
    "vmo.create.empty" => create_empty,
    "vmo.create.too_large" => create_too_large,
    "vmo.create.options" => create_options,
    "vmo.create.zeroed" => create_zeroed,
    "vmo.write.then_read" => write_then_read,
    "vmo.write.out_of_range" => write_out_of_range,
    "vmo.write.rights" => write_rights,
    "vmo.read.out_of_range" => read_out_of_range,
    "vmo.read.rights" => read_rights,
    "vmo.read.nothing" => read_nothing,
    "vmo.set_size.grows_with_zeros" => set_size_grows_with_zeros,
    "vmo.set_size.shrinks_for_good" => set_size_shrinks_for_good,
    "vmo.set_size.not_resizable" => set_size_not_resizable,
    "vmo.stream_size.set_and_get" => stream_size_set_and_get,
    "vmo.op_range.commit" => op_range_commit,
    "vmo.op_range.decommit_zeros" => op_range_decommit_zeros,
    "vmo.op_range.zero" => op_range_zero,
    "vmo.op_range.out_of_range" => op_range_out_of_range,
    "vmo.op_range.unknown" => op_range_unknown,
    "vmo.demand.commits_what_is_touched" => demand_commits,
    "vmo.demand.larger_than_memory" => demand_larger_than_memory,
    "vmo.slice.shares" => slice_shares,
    "vmo.slice.stays_inside" => slice_stays_inside,
    "vmo.slice.of_resizable" => slice_of_resizable,
    "vmo.slice.outlives_parent" => slice_outlives_parent,
    "vmo.children.signal" => children_signal,
    "vmo.info.fields" => info_fields,
}

const PAGE: u64 = 4096;

fn read(vmo: &Vmo, offset: u64, length: usize) -> zx::Result<Vec<u8>> {
    let mut bytes = vec![0xaa; length];
    vmo.read(&mut bytes, offset)?;
    Ok(bytes)
}

fn create_rounds_up() -> Outcome {
    for (asked, size) in [(1, PAGE), (PAGE, PAGE), (PAGE + 1, 2 * PAGE), (10 * PAGE - 1, 10 * PAGE)] {
        equal(Vmo::create(asked, 0)?.get_size()?, size)?;
    }
    Ok(())
}

fn create_empty() -> Outcome {
    let vmo = Vmo::create(0, 0)?;
    equal(vmo.get_size()?, 0)?;
    fails(vmo.read(&mut [0], 0), Status::OUT_OF_RANGE)
}

fn create_too_large() -> Outcome {
    fails(Vmo::create(u64::MAX, 0), Status::OUT_OF_RANGE)?;
    fails(Vmo::create(u64::MAX - PAGE, 0), Status::OUT_OF_RANGE)
}

fn create_options() -> Outcome {
    fails(Vmo::create(PAGE, 1 << 30), Status::INVALID_ARGS)
}

fn create_zeroed() -> Outcome {
    // Pages that others have used before are zeroed.
    for _ in 0..20 {
        let vmo = Vmo::create(16 * PAGE, 0)?;
        ensure(read(&vmo, 0, 16 * 4096)?.iter().all(|byte| *byte == 0), "there is something in new memory")?;
        vmo.write(&vec![0x55; 16 * 4096], 0)?;
    }
    Ok(())
}

fn write_then_read() -> Outcome {
    let vmo = Vmo::create(8 * PAGE, 0)?;
    for (offset, length) in [(0, 1), (4095, 2), (100, 10_000), (8 * PAGE - 5, 5), (3, 4096)] {
        let bytes: Vec<u8> = (0..length).map(|index| (index * 5 + 1) as u8).collect();
        vmo.write(&bytes, offset)?;
        ensure(read(&vmo, offset, length)? == bytes, &format!("{length} bytes at {offset} changed"))?;
    }
    Ok(())
}

fn write_out_of_range() -> Outcome {
    let vmo = Vmo::create(PAGE, 0)?;
    fails(vmo.write(&[1, 2], PAGE - 1), Status::OUT_OF_RANGE)?;
    fails(vmo.write(&[1], PAGE), Status::OUT_OF_RANGE)?;
    fails(vmo.write(&[1], u64::MAX), Status::OUT_OF_RANGE)?;
    equal(read(&vmo, PAGE - 1, 1)?, vec![0])
}

fn write_rights() -> Outcome {
    let vmo = Vmo::from(without(&Vmo::create(PAGE, 0)?, Rights::WRITE)?);
    fails(vmo.write(&[1], 0), Status::ACCESS_DENIED)
}

fn read_out_of_range() -> Outcome {
    let vmo = Vmo::create(PAGE, 0)?;
    fails(read(&vmo, PAGE - 1, 2), Status::OUT_OF_RANGE)?;
    fails(read(&vmo, u64::MAX - 1, 8), Status::OUT_OF_RANGE)
}

fn read_rights() -> Outcome {
    let vmo = Vmo::from(without(&Vmo::create(PAGE, 0)?, Rights::READ)?);
    fails(read(&vmo, 0, 1), Status::ACCESS_DENIED)
}

fn read_nothing() -> Outcome {
    let vmo = Vmo::create(PAGE, 0)?;
    for offset in [0, 1, PAGE] {
        vmo.read(&mut [], offset)?;
        vmo.write(&[], offset)?;
    }
    // An empty range is valid at the end, but not beyond it.
    for offset in [PAGE + 1, u64::MAX] {
        fails(vmo.read(&mut [], offset), Status::OUT_OF_RANGE)?;
        fails(vmo.write(&[], offset), Status::OUT_OF_RANGE)?;
    }
    // A range must not overflow either.
    for (offset, len) in [(u64::MAX - PAGE / 2, PAGE), (u64::MAX, 2), (1, PAGE)] {
        fails(vmo.read(&mut vec![0; len as usize], offset), Status::OUT_OF_RANGE)?;
        fails(vmo.write(&vec![0; len as usize], offset), Status::OUT_OF_RANGE)?;
    }
    Ok(())
}

fn set_size_grows_with_zeros() -> Outcome {
    let vmo = Vmo::create(PAGE, abi::ZX_VMO_RESIZABLE)?;
    vmo.write(b"here", 0)?;
    vmo.set_size(4 * PAGE)?;
    equal(vmo.get_size()?, 4 * PAGE)?;
    equal(read(&vmo, 0, 4)?, b"here".to_vec())?;
    ensure(read(&vmo, PAGE, 3 * 4096)?.iter().all(|byte| *byte == 0), "what grew is not zero")
}

fn set_size_shrinks_for_good() -> Outcome {
    let vmo = Vmo::create(4 * PAGE, abi::ZX_VMO_RESIZABLE)?;
    vmo.write(b"gone", 3 * PAGE)?;
    vmo.set_size(PAGE)?;
    fails(read(&vmo, 3 * PAGE, 4), Status::OUT_OF_RANGE)?;
    vmo.set_size(4 * PAGE)?;
    equal(read(&vmo, 3 * PAGE, 4)?, vec![0; 4])
}

fn set_size_not_resizable() -> Outcome {
    let vmo = Vmo::create(4 * PAGE, 0)?;
    for size in [0, 3 * PAGE, 4 * PAGE, 5 * PAGE] {
        fails(vmo.set_size(size), Status::UNAVAILABLE)?;
        equal(vmo.get_size()?, 4 * PAGE)?;
    }
    Ok(())
}

fn stream_size_set_and_get() -> Outcome {
    let vmo = Vmo::create(PAGE + 1, 0)?;
    equal(vmo.get_stream_size()?, PAGE + 1)?;
    vmo.set_stream_size(100)?;
    equal((vmo.get_stream_size()?, vmo.get_size()?), (100, 2 * PAGE))
}

fn op_range_commit() -> Outcome {
    let vmo = Vmo::create(8 * PAGE, 0)?;
    equal(vmo.info()?.committed_bytes, 0)?;
    vmo.op_range(abi::ZX_VMO_OP_COMMIT, PAGE, 3 * PAGE)?;
    equal(vmo.info()?.committed_bytes, 3 * PAGE)
}

fn op_range_decommit_zeros() -> Outcome {
    let vmo = Vmo::create(4 * PAGE, 0)?;
    vmo.write(&[7; 4 * 4096], 0)?;
    vmo.op_range(abi::ZX_VMO_OP_DECOMMIT, PAGE, 2 * PAGE)?;
    equal(vmo.info()?.committed_bytes, 2 * PAGE)?;
    equal((read(&vmo, 0, 1)?, read(&vmo, PAGE, 1)?, read(&vmo, 3 * PAGE, 1)?), (vec![7], vec![0], vec![7]))
}

fn op_range_zero() -> Outcome {
    let vmo = Vmo::create(4 * PAGE, 0)?;
    vmo.write(&[7; 4 * 4096], 0)?;
    vmo.op_range(abi::ZX_VMO_OP_ZERO, 100, 2 * PAGE)?;
    let bytes = read(&vmo, 0, 4 * 4096)?;
    let zero = 100..100 + 2 * 4096;
    let right = bytes.iter().enumerate().all(|(index, byte)| *byte == if zero.contains(&index) { 0 } else { 7 });
    ensure(right, "other bytes are zero, or these are not")
}

fn op_range_out_of_range() -> Outcome {
    let vmo = Vmo::create(4 * PAGE, 0)?;
    fails(vmo.op_range(abi::ZX_VMO_OP_COMMIT, 0, 5 * PAGE), Status::OUT_OF_RANGE)?;
    fails(vmo.op_range(abi::ZX_VMO_OP_COMMIT, u64::MAX - PAGE + 1, PAGE), Status::OUT_OF_RANGE)
}

fn op_range_unknown() -> Outcome {
    fails(Vmo::create(PAGE, 0)?.op_range(999, 0, PAGE), Status::INVALID_ARGS)
}

fn demand_commits() -> Outcome {
    let vmo = Vmo::create(1 << 30, 0)?;
    for index in 0..16 {
        vmo.write(&[1], index * (32 << 20))?;
    }
    equal(vmo.info()?.committed_bytes, 16 * PAGE)
}

fn demand_larger_than_memory() -> Outcome {
    let size = (zx::system_get_physmem() * 4).next_multiple_of(PAGE);
    let vmo = Vmo::create(size, 0)?;
    vmo.write(b"end", size - 3)?;
    equal(read(&vmo, size - 3, 3)?, b"end".to_vec())?;
    // More memory than there is cannot be committed; the attempt fails and the system continues to work.
    fails(vmo.op_range(abi::ZX_VMO_OP_COMMIT, 0, size), Status::NO_MEMORY)?;
    drop(vmo);
    let vmo = Vmo::create(1 << 20, 0)?;
    vmo.op_range(abi::ZX_VMO_OP_COMMIT, 0, 1 << 20).map_err(Into::into)
}

fn slice_shares() -> Outcome {
    let parent = Vmo::create(4 * PAGE, 0)?;
    let slice = parent.create_child(abi::ZX_VMO_CHILD_SLICE, PAGE, 2 * PAGE)?;
    equal(slice.get_size()?, 2 * PAGE)?;
    slice.write(b"from the slice", 0)?;
    equal(read(&parent, PAGE, 14)?, b"from the slice".to_vec())?;
    parent.write(b"from the parent", 2 * PAGE)?;
    equal(read(&slice, PAGE, 15)?, b"from the parent".to_vec())
}

fn slice_stays_inside() -> Outcome {
    let parent = Vmo::create(4 * PAGE, 0)?;
    let slice = parent.create_child(abi::ZX_VMO_CHILD_SLICE, PAGE, PAGE)?;
    fails(read(&slice, PAGE, 1), Status::OUT_OF_RANGE)?;
    ensure(parent.create_child(abi::ZX_VMO_CHILD_SLICE, PAGE, 4 * PAGE).is_err(), "a slice is larger than its parent")?;
    ensure(parent.create_child(abi::ZX_VMO_CHILD_SLICE, 1, PAGE).is_err(), "a slice begins within a page")
}

fn slice_of_resizable() -> Outcome {
    let parent = Vmo::create(4 * PAGE, abi::ZX_VMO_RESIZABLE)?;
    fails(parent.create_child(abi::ZX_VMO_CHILD_SLICE, 0, PAGE), Status::NOT_SUPPORTED)
}

fn slice_outlives_parent() -> Outcome {
    let parent = Vmo::create(4 * PAGE, 0)?;
    parent.write(b"kept", PAGE)?;
    let slice = parent.create_child(abi::ZX_VMO_CHILD_SLICE, PAGE, PAGE)?;
    drop(parent);
    equal(read(&slice, 0, 4)?, b"kept".to_vec())
}

fn children_signal() -> Outcome {
    let parent = Vmo::create(4 * PAGE, 0)?;
    ensure(parent.signals()?.contains(Signals::VMO_ZERO_CHILDREN), "it has children at the start")?;
    let slice = parent.create_child(abi::ZX_VMO_CHILD_SLICE, 0, PAGE)?;
    ensure(!parent.signals()?.contains(Signals::VMO_ZERO_CHILDREN), "the child is not seen")?;
    equal(parent.info()?.num_children, 1)?;
    drop(slice);
    ensure(parent.signals()?.contains(Signals::VMO_ZERO_CHILDREN), "the child's end is not seen")
}

fn info_fields() -> Outcome {
    let vmo = Vmo::create(3 * PAGE, 0)?;
    vmo.set_name("told")?;
    let info = vmo.info()?;
    equal((info.koid, info.size_bytes), (vmo.koid()?, 3 * PAGE))?;
    ensure(info.name.starts_with(b"told\0"), "the name is another")?;
    let blind = without(&vmo, Rights::INSPECT)?;
    // Information about the object needs the right to inspect; information about the handle does not.
    gives(raw!(zx_handle_check_valid, blind.raw_handle()), Status::OK)
}
