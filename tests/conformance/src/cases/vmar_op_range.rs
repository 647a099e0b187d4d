//! Operations on the memory that is mapped in a range (`zx_vmar_op_range`).

use abi::{
    Rights, Status, ZX_VMAR_OP_ALWAYS_NEED as ALWAYS_NEED, ZX_VMAR_OP_COMMIT as COMMIT,
    ZX_VMAR_OP_DECOMMIT as DECOMMIT, ZX_VMAR_OP_DONT_NEED as DONT_NEED, ZX_VMAR_OP_MAP_RANGE as MAP_RANGE,
    ZX_VMAR_OP_PREFETCH as PREFETCH, ZX_VMAR_OP_ZERO as ZERO,
};
use zx::{AsHandleRef, Vmar, Vmo};

use super::vmar::{PAGE, READ, READ_WRITE, region, vmo};
use super::{cases, raw, without};
use crate::check::{Outcome, equal, fails, gives};
use crate::prober::Prober;

cases! {
    "vmar.op_range.commit" => commit,
    "vmar.op_range.commit_across_mappings" => commit_across_mappings,
    "vmar.op_range.decommit" => decommit,
    "vmar.op_range.zero" => zero,
    "vmar.op_range.map_range" => map_range,
    "vmar.op_range.map_range_of_a_part" => map_range_of_a_part,
    "vmar.op_range.hints" => hints,
    "vmar.op_range.regions" => regions,
    "vmar.op_range.gap" => gap,
    "vmar.op_range.bad_arguments" => bad_arguments,
    "vmar.op_range.rights" => rights,
    "vmar.op_range.rights_of_the_mapping" => rights_of_the_mapping,
    "vmar.op_range.part_of_a_page" => part_of_a_page,
    "vmar.op_range.huge" => huge,
}

const ALL: [u32; 7] = [COMMIT, DECOMMIT, MAP_RANGE, ZERO, DONT_NEED, ALWAYS_NEED, PREFETCH];
const SPECIFIC: u32 = abi::ZX_VM_SPECIFIC;

fn committed(vmo: &Vmo) -> zx::Result<u64> {
    Ok(vmo.info()?.committed_bytes / PAGE as u64)
}

fn commit() -> Outcome {
    let (vmar, base) = region(8)?;
    let vmo = vmo(8)?;
    vmar.map(READ_WRITE | SPECIFIC, 0, &vmo, 2 * PAGE as u64, 4 * PAGE)?;
    vmar.op_range(COMMIT, base + PAGE, 2 * PAGE)?;
    equal(committed(&vmo)?, 2)?;
    // The committed pages are those of the range.
    vmo.op_range(abi::ZX_VMO_OP_DECOMMIT, 3 * PAGE as u64, 2 * PAGE as u64)?;
    equal(committed(&vmo)?, 0)?;
    // Present pages are not changed.
    zx::probe::write(base, 7);
    vmar.op_range(COMMIT, base, 4 * PAGE)?;
    equal((committed(&vmo)?, zx::probe::read(base)), (4, 7))
}

fn commit_across_mappings() -> Outcome {
    let (vmar, base) = region(8)?;
    let (one, two) = (vmo(2)?, vmo(4)?);
    vmar.map(READ_WRITE | SPECIFIC, 0, &one, 0, 2 * PAGE)?;
    vmar.map(READ_WRITE | SPECIFIC, 2 * PAGE, &two, 0, 4 * PAGE)?;
    vmar.op_range(COMMIT, base + PAGE, 3 * PAGE)?;
    equal((committed(&one)?, committed(&two)?), (1, 2))?;
    vmar.op_range(DECOMMIT, base, 3 * PAGE)?;
    equal((committed(&one)?, committed(&two)?), (0, 1))
}

fn decommit() -> Outcome {
    let prober = Prober::new()?;
    let (vmar, base) = prober.region(4)?;
    let vmo = vmo(4)?;
    vmar.map(READ_WRITE | SPECIFIC, 0, &vmo, 0, 4 * PAGE)?;
    for page in 0..4 {
        prober.stores(base + page * PAGE, 5)?;
    }
    vmar.op_range(DECOMMIT, base + PAGE, 2 * PAGE)?;
    equal(committed(&vmo)?, 2)?;
    for (page, value) in [(0, 5), (1, 0), (2, 0), (3, 5)] {
        prober.finds(base + page * PAGE, value)?;
    }
    prober.stores(base + PAGE, 6)?;
    let mut byte = [0];
    vmo.read(&mut byte, PAGE as u64)?;
    equal(byte, [6])
}

fn zero() -> Outcome {
    let prober = Prober::new()?;
    let (vmar, base) = prober.region(4)?;
    let vmo = vmo(4)?;
    vmar.map(READ_WRITE | SPECIFIC, 0, &vmo, 0, 4 * PAGE)?;
    for page in 0..4 {
        prober.stores(base + page * PAGE + 9, 5)?;
    }
    vmar.op_range(ZERO, base + PAGE, 2 * PAGE)?;
    for (page, value) in [(0, 5), (1, 0), (2, 0), (3, 5)] {
        prober.finds(base + page * PAGE + 9, value)?;
    }
    // Memory that was writable and is now read-only can be zeroed.
    vmar.protect(READ, base, 4 * PAGE)?;
    vmar.op_range(ZERO, base, PAGE)?;
    prober.finds_read_only(base + 9, 0)
}

/// Maps the present pages, commits none, and can be repeated.
fn map_range() -> Outcome {
    let prober = Prober::new()?;
    let (vmar, base) = prober.region(8)?;
    let vmo = vmo(8)?;
    for page in [1_u8, 2, 6] {
        vmo.write(&[page], u64::from(page) * PAGE as u64)?;
    }
    vmar.map(READ_WRITE | SPECIFIC, 0, &vmo, 0, 8 * PAGE)?;
    for _ in 0..3 {
        vmar.op_range(MAP_RANGE, base, 8 * PAGE)?;
        equal(committed(&vmo)?, 3)?;
    }
    for page in 0..8 {
        let value = if [1, 2, 6].contains(&page) { page as u8 } else { 0 };
        prober.finds(base + page * PAGE, value)?;
    }
    prober.stores(base + PAGE, 9)?;
    // The pages are not mapped with more permissions than the mapping has.
    vmar.protect(READ, base, 8 * PAGE)?;
    vmar.op_range(MAP_RANGE, base, 8 * PAGE)?;
    prober.finds_read_only(base + PAGE, 9)?;
    vmar.protect(0, base, 8 * PAGE)?;
    vmar.op_range(MAP_RANGE, base, 8 * PAGE)?;
    equal(prober.load(base + PAGE)?, Err(Status::ACCESS_DENIED))
}

/// Neither the mapping nor the range begins at the start of the VMO.
fn map_range_of_a_part() -> Outcome {
    let prober = Prober::new()?;
    let (vmar, base) = prober.region(8)?;
    let vmo = vmo(8)?;
    for page in 0..8_u8 {
        vmo.write(&[page + 1], u64::from(page) * PAGE as u64)?;
    }
    let options = READ_WRITE | SPECIFIC | abi::ZX_VM_MAP_RANGE;
    vmar.map(options, PAGE, &vmo, 3 * PAGE as u64, 4 * PAGE)?;
    vmar.op_range(MAP_RANGE, base + 2 * PAGE, 2 * PAGE)?;
    for page in 0..4 {
        prober.finds(base + (page + 1) * PAGE, page as u8 + 4)?;
    }
    prober.finds_nothing(base + 5 * PAGE)
}

fn hints() -> Outcome {
    let (vmar, base) = region(4)?;
    let vmo = vmo(4)?;
    vmar.map(READ_WRITE | SPECIFIC, 0, &vmo, 0, 4 * PAGE)?;
    zx::probe::write(base + PAGE, 3);
    for op in [DONT_NEED, ALWAYS_NEED, PREFETCH] {
        vmar.op_range(op, base, 4 * PAGE)?;
        equal((committed(&vmo)?, zx::probe::read(base + PAGE)), (1, 3))?;
    }
    Ok(())
}

/// Operations that need more than the mapping's permissions do not reach into inner regions; the others do, with the
/// right for them.
fn regions() -> Outcome {
    let (vmar, base) = region(8)?;
    let (child, _) = vmar.allocate(abi::ZX_VM_CAN_MAP_READ | abi::ZX_VM_CAN_MAP_WRITE | SPECIFIC, 0, 4 * PAGE)?;
    let vmo = vmo(4)?;
    child.map(READ_WRITE, 0, &vmo, 0, 4 * PAGE)?;
    let weak = Vmar::from(without(&vmar, Rights::OP_CHILDREN)?);
    for op in ALL {
        let own = [COMMIT, DECOMMIT, PREFETCH].contains(&op);
        let through = vmar.op_range(op, base, 4 * PAGE);
        if own {
            fails(through, Status::INVALID_ARGS)?
        } else {
            through?
        };
        fails(weak.op_range(op, base, 4 * PAGE), Status::INVALID_ARGS)?;
        child.op_range(op, base, 4 * PAGE)?;
    }
    Ok(())
}

fn gap() -> Outcome {
    let (vmar, base) = region(8)?;
    vmar.map(READ_WRITE | SPECIFIC, PAGE, &vmo(2)?, 0, 2 * PAGE)?;
    vmar.map(READ_WRITE | SPECIFIC, 4 * PAGE, &vmo(2)?, 0, 2 * PAGE)?;
    for op in ALL {
        for (from, pages) in [(0, 2), (1, 3), (1, 5), (5, 2), (6, 1), (0, 1)] {
            fails(vmar.op_range(op, base + from * PAGE, pages * PAGE), Status::BAD_STATE)?;
        }
    }
    Ok(())
}

fn bad_arguments() -> Outcome {
    let (vmar, base) = region(4)?;
    vmar.map(READ_WRITE | SPECIFIC, 0, &vmo(4)?, 0, 4 * PAGE)?;
    for op in [0, 4, 5, 6, 7, 8, 9, 11, 15, 16, u32::MAX] {
        fails(vmar.op_range(op, base, PAGE), Status::INVALID_ARGS)?;
    }
    for op in ALL {
        fails(vmar.op_range(op, base, 0), Status::INVALID_ARGS)?;
        fails(vmar.op_range(op, base + 1, PAGE), Status::INVALID_ARGS)?;
        fails(vmar.op_range(op, base, usize::MAX), Status::INVALID_ARGS)?;
        for (from, len) in [(base, 5 * PAGE), (base - PAGE, 2 * PAGE), (base + 4 * PAGE, PAGE), (base, 1 << 60)] {
            fails(vmar.op_range(op, from, len), Status::OUT_OF_RANGE)?;
        }
        let handle = vmar.raw_handle();
        gives(raw!(zx_vmar_op_range, handle, op, base, PAGE, base, 0), Status::INVALID_ARGS)?;
        gives(raw!(zx_vmar_op_range, handle, op, base, PAGE, 0, 1), Status::INVALID_ARGS)?;
    }
    Ok(())
}

fn rights() -> Outcome {
    let (vmar, base) = region(4)?;
    vmar.map(READ_WRITE | SPECIFIC, 0, &vmo(4)?, 0, 4 * PAGE)?;
    let no_write = Vmar::from(without(&vmar, Rights::WRITE)?);
    let no_read = Vmar::from(without(&vmar, Rights::READ)?);
    for op in ALL {
        let [write, read] = [[COMMIT, DECOMMIT, ZERO].contains(&op), [MAP_RANGE, PREFETCH].contains(&op)];
        for (handle, denied) in [(&no_write, write), (&no_read, read)] {
            let result = handle.op_range(op, base, 4 * PAGE);
            if denied {
                fails(result, Status::ACCESS_DENIED)?
            } else {
                result?
            };
        }
    }
    Ok(())
}

/// The permissions that the mapping could get count, as limited by the handles at the time of mapping.
fn rights_of_the_mapping() -> Outcome {
    let (vmar, base) = region(4)?;
    let vmo = vmo(4)?;
    let weak = Vmo::from(without(&vmo, Rights::WRITE)?);
    vmar.map(READ | SPECIFIC, 0, &weak, 0, 2 * PAGE)?;
    vmar.map(READ | SPECIFIC, 2 * PAGE, &vmo, 0, 2 * PAGE)?;
    for op in [COMMIT, DECOMMIT, ZERO] {
        fails(vmar.op_range(op, base, 4 * PAGE), Status::ACCESS_DENIED)?;
        vmar.op_range(op, base + 2 * PAGE, 2 * PAGE)?;
    }
    let unreadable = Vmo::from(without(&vmo, Rights::READ)?);
    vmar.map(abi::ZX_VM_SPECIFIC_OVERWRITE, 0, &unreadable, 0, PAGE)?;
    fails(vmar.op_range(PREFETCH, base, PAGE), Status::ACCESS_DENIED)
}

fn part_of_a_page() -> Outcome {
    let (vmar, base) = region(4)?;
    let vmo = vmo(4)?;
    vmar.map(READ_WRITE | SPECIFIC, 0, &vmo, 0, 4 * PAGE)?;
    vmar.op_range(COMMIT, base, PAGE + 1)?;
    equal(committed(&vmo)?, 2)?;
    vmar.op_range(DECOMMIT, base, 1)?;
    equal(committed(&vmo)?, 1)
}

/// The cost depends on what is mapped, not on the length of the range.
fn huge() -> Outcome {
    let prober = Prober::new()?;
    let len = 1 << 44;
    let can = abi::ZX_VM_CAN_MAP_READ | abi::ZX_VM_CAN_MAP_WRITE | abi::ZX_VM_CAN_MAP_SPECIFIC;
    let (vmar, base) = prober.tiny.vmar.allocate(can, 0, len)?;
    let vmo = Vmo::create(len as u64, 0)?;
    vmar.map(READ_WRITE | SPECIFIC, 0, &vmo, 0, len)?;
    prober.stores(base, 1)?;
    prober.stores(base + len - PAGE, 2)?;
    for op in [MAP_RANGE, ALWAYS_NEED, DONT_NEED, PREFETCH] {
        vmar.op_range(op, base, len)?;
    }
    equal(committed(&vmo)?, 2)?;
    vmar.op_range(ZERO, base, len)?;
    prober.finds(base + len - PAGE, 0)?;
    vmar.op_range(DECOMMIT, base, len)?;
    equal(committed(&vmo)?, 0)
}
