//! Changes to mappings: unmapping, protecting and replacing, across mappings and regions, as the processor sees them.

use abi::{Rights, Status};
use zx::{AsHandleRef, Vmar, Vmo};

use super::vmar::{PAGE, READ, READ_WRITE, region, vmo};
use super::{cases, without};
use crate::check::{Failure, Outcome, ensure, equal, fails, gives};
use crate::prober::Prober;

cases! {
    "vmar.map.bad_options" => map_bad_options,
    "vmar.map.protection_without_read" => map_protection_without_read,
    "vmar.map.length_beyond_all" => map_length_beyond_all,
    "vmar.map.part_of_a_page" => map_part_of_a_page,
    "vmar.map.nothing_allowed" => map_nothing_allowed,
    "vmar.map.allow_faults" => map_allow_faults,
    "vmar.map.discardable" => map_discardable,
    "vmar.map.overwrite_mappings" => map_overwrite_mappings,
    "vmar.map.overwrite_a_region" => map_overwrite_a_region,
    "vmar.map.overwrite_destroyed" => map_overwrite_destroyed,
    "vmar.map.overlaps" => map_overlaps,
    "vmar.map.rights_dropped" => map_rights_dropped,
    "vmar.nested.permissions" => nested_permissions,
    "vmar.info.base_and_length" => info_base_and_length,
    "vmar.destroy.all_below" => destroy_all_below,
    "vmar.destroy.calls_fail" => destroy_calls_fail,
    "vmar.destroy.root" => destroy_root,
    "vmar.destroy.right" => destroy_right,
    "vmar.unmap.bad_range" => unmap_bad_range,
    "vmar.unmap.part_of_a_page" => unmap_part_of_a_page,
    "vmar.unmap.split" => unmap_split,
    "vmar.unmap.several" => unmap_several,
    "vmar.unmap.regions" => unmap_regions,
    "vmar.unmap.regions_right" => unmap_regions_right,
    "vmar.unmap.begins_in_a_gap" => unmap_begins_in_a_gap,
    "vmar.unmap.large_uncommitted" => unmap_large_uncommitted,
    "vmar.unmap.then_debugger" => unmap_then_debugger,
    "vmar.unmap.then_debugger_in_a_region" => unmap_then_debugger_in_a_region,
    "vmar.unmap.debugger_at_an_offset" => unmap_debugger_at_an_offset,
    "vmar.unmap.while_debugger_reads" => unmap_while_debugger_reads,
    "vmar.protect.all_ways" => protect_all_ways,
    "vmar.protect.split" => protect_split,
    "vmar.protect.several" => protect_several,
    "vmar.protect.regions" => protect_regions,
    "vmar.protect.regions_right" => protect_regions_right,
    "vmar.protect.gap" => protect_gap,
    "vmar.protect.bad_arguments" => protect_bad_arguments,
    "vmar.protect.right" => protect_right,
    "vmar.protect.large_uncommitted" => protect_large_uncommitted,
    "vmar.protect.back_and_forth_is_one_mapping" => protect_back_and_forth,
}

const SPECIFIC: u32 = abi::ZX_VM_SPECIFIC;
const OVER: u32 = abi::ZX_VM_SPECIFIC_OVERWRITE;
const WRITE: u32 = abi::ZX_VM_PERM_WRITE;
const EXECUTE: u32 = abi::ZX_VM_PERM_EXECUTE;
const CAN_READ: u32 = abi::ZX_VM_CAN_MAP_READ;
const CAN_WRITE: u32 = abi::ZX_VM_CAN_MAP_WRITE;
const CAN_EXECUTE: u32 = abi::ZX_VM_CAN_MAP_EXECUTE;
const CAN: u32 = CAN_READ | CAN_WRITE | abi::ZX_VM_CAN_MAP_SPECIFIC;

/// A VMO whose every page begins with its number, counted from 1.
fn numbered(pages: usize) -> Result<Vmo, Failure> {
    let vmo = vmo(pages)?;
    for page in 0..pages {
        vmo.write(&[page as u8 + 1], (page * PAGE) as u64)?;
    }
    Ok(vmo)
}

fn map_bad_options() -> Outcome {
    let (vmar, _) = region(4)?;
    let vmo = vmo(1)?;
    let bad = [
        CAN_READ,
        CAN_WRITE,
        CAN_EXECUTE,
        abi::ZX_VM_CAN_MAP_SPECIFIC,
        abi::ZX_VM_MAP_RANGE | OVER,
        abi::ZX_VM_FAULT_BEYOND_STREAM_SIZE,
        1 << 16,
        1 << 23,
    ];
    for options in bad {
        fails(vmar.map(READ | options, 0, &vmo, 0, PAGE), Status::INVALID_ARGS)?;
    }
    Ok(())
}

fn map_protection_without_read() -> Outcome {
    let (vmar, base) = zx::startup::vmar_root_self().allocate(CAN | CAN_EXECUTE, 0, 4 * PAGE)?;
    let code = vmo(1)?.replace_as_executable(None)?;
    fails(vmar.map(WRITE, 0, &code, 0, PAGE), Status::INVALID_ARGS)?;
    fails(vmar.map(EXECUTE, 0, &code, 0, PAGE), Status::INVALID_ARGS)?;
    // A caller that passes this option gets readable memory, because the system has no execute-only memory.
    let either = abi::ZX_VM_PERM_READ_IF_XOM_UNSUPPORTED;
    let at = vmar.map(EXECUTE | either | SPECIFIC, 0, &code, 0, PAGE)?;
    equal((at, zx::probe::read(at)), (base, 0))?;
    fails(vmar.protect(EXECUTE, at, PAGE), Status::INVALID_ARGS)?;
    fails(vmar.protect(WRITE, at, PAGE), Status::INVALID_ARGS)?;
    vmar.protect(EXECUTE | either, at, PAGE)?;
    equal(zx::probe::read(at), 0)
}

fn map_length_beyond_all() -> Outcome {
    let (vmar, _) = region(4)?;
    let vmo = vmo(1)?;
    fails(vmar.map(READ, 0, &vmo, 0, usize::MAX), Status::OUT_OF_RANGE)?;
    fails(vmar.map(READ, 0, &vmo, u64::MAX - PAGE as u64 + 1, PAGE), Status::OUT_OF_RANGE)?;
    fails(vmar.map(READ, 0, &vmo, 0, 1 << 60), Status::INVALID_ARGS)
}

/// The length is rounded up to pages, and the whole last page can be used.
fn map_part_of_a_page() -> Outcome {
    let (vmar, base) = region(4)?;
    let vmo = numbered(2)?;
    vmar.map(READ_WRITE | SPECIFIC, 0, &vmo, 0, PAGE + 1)?;
    zx::probe::write(base + 2 * PAGE - 1, 7);
    equal((zx::probe::read(base + PAGE), zx::probe::read(base + 2 * PAGE - 1)), (2, 7))?;
    fails(vmar.map(READ | SPECIFIC, PAGE, &vmo, 0, 1), Status::ALREADY_EXISTS)?;
    vmar.map(READ | SPECIFIC, 2 * PAGE, &vmo, 0, 1)?;
    equal(zx::probe::read(base + 2 * PAGE), 1)?;
    // Unmapping rounds up in the same way, also for pages that are mapped in advance.
    vmar.unmap(base, 2 * PAGE)?;
    let (process, mut byte) = (zx::startup::process_self(), [0]);
    for more in [0, abi::ZX_VM_MAP_RANGE] {
        vmar.map(READ | SPECIFIC | more, 0, &vmo, 0, 2 * PAGE - 1)?;
        equal((process.read_memory(base + PAGE, &mut byte)?, byte), (1, [2]))?;
        vmar.unmap(base, 2 * PAGE - 1)?;
        fails(process.read_memory(base + PAGE, &mut byte), Status::NO_MEMORY)?;
    }
    Ok(())
}

/// A mapping can have no permissions until they are changed.
fn map_nothing_allowed() -> Outcome {
    let prober = Prober::new()?;
    let (vmar, base) = prober.region(2)?;
    vmar.map(SPECIFIC, 0, &numbered(1)?, 0, PAGE)?;
    equal(prober.load(base)?, Err(Status::ACCESS_DENIED))?;
    fails(vmar.map(READ | SPECIFIC, 0, &vmo(1)?, 0, PAGE), Status::ALREADY_EXISTS)?;
    vmar.protect(READ, base, PAGE)?;
    prober.finds_read_only(base, 1)?;
    vmar.protect(0, base, PAGE)?;
    equal(prober.load(base)?, Err(Status::ACCESS_DENIED))
}

/// A VMO whose pages cannot disappear does not need the option, but accepts it; it can be mapped beyond its end.
fn map_allow_faults() -> Outcome {
    let (vmar, _) = region(16)?;
    let allow = READ_WRITE | abi::ZX_VM_ALLOW_FAULTS;
    for options in [0, abi::ZX_VMO_RESIZABLE] {
        let vmo = Vmo::create(PAGE as u64, options)?;
        vmar.map(READ_WRITE, 0, &vmo, 0, PAGE)?;
        vmar.map(allow, 0, &vmo, 0, PAGE)?;
        vmar.map(allow, 0, &vmo, 0, 2 * PAGE)?;
    }
    Ok(())
}

/// A VMO whose pages can disappear at any time needs the option.
fn map_discardable() -> Outcome {
    let (vmar, base) = region(4)?;
    let vmo = Vmo::create(PAGE as u64, abi::ZX_VMO_DISCARDABLE)?;
    fails(vmar.map(READ_WRITE, 0, &vmo, 0, PAGE), Status::NOT_SUPPORTED)?;
    equal(vmar.map(READ_WRITE | SPECIFIC | abi::ZX_VM_ALLOW_FAULTS, 0, &vmo, 0, PAGE)?, base)
}

fn map_overwrite_mappings() -> Outcome {
    let prober = Prober::new()?;
    let (vmar, base) = prober.region(8)?;
    let (one, two) = (numbered(8)?, numbered(8)?);
    two.write(&[100], 0)?;
    two.write(&[101], PAGE as u64)?;
    // Over the middle of a mapping, ...
    vmar.map(READ_WRITE | SPECIFIC, 0, &one, 0, 4 * PAGE)?;
    for page in 0..4 {
        prober.finds(base + page * PAGE, page as u8 + 1)?;
    }
    fails(vmar.map(READ | SPECIFIC, PAGE, &two, 0, 2 * PAGE), Status::ALREADY_EXISTS)?;
    equal(vmar.map(READ | OVER, PAGE, &two, 0, 2 * PAGE)?, base + PAGE)?;
    let expected = [1, 100, 101, 4];
    for (page, value) in expected.into_iter().enumerate() {
        prober.finds(base + page * PAGE, value)?;
    }
    equal(prober.store(base + PAGE, 0)?, Err(Status::ACCESS_DENIED))?;
    prober.stores(base, 1)?;
    // ... over the end of one and the gap behind it, ...
    vmar.map(READ | OVER, 3 * PAGE, &two, 0, 2 * PAGE)?;
    prober.finds(base + 3 * PAGE, 100)?;
    prober.finds(base + 4 * PAGE, 101)?;
    // ... over all of them, and over a gap.
    vmar.map(READ | OVER, 0, &one, 0, 8 * PAGE)?;
    for page in 0..8 {
        prober.finds_read_only(base + page * PAGE, page as u8 + 1)?;
    }
    vmar.unmap(base, 8 * PAGE)?;
    vmar.map(READ | OVER, 5 * PAGE, &two, 0, PAGE)?;
    prober.finds(base + 5 * PAGE, 100)?;
    prober.finds_nothing(base + 6 * PAGE)
}

/// A region is never replaced, neither in part nor as a whole.
fn map_overwrite_a_region() -> Outcome {
    let (vmar, _) = region(8)?;
    let (_child, _) = vmar.allocate(CAN | SPECIFIC, 2 * PAGE, 2 * PAGE)?;
    vmar.map(READ | SPECIFIC, 0, &vmo(2)?, 0, 2 * PAGE)?;
    for (offset, pages) in [(2, 2), (1, 2), (3, 2), (0, 8)] {
        fails(vmar.map(READ | OVER, offset * PAGE, &vmo(8)?, 0, pages * PAGE), Status::INVALID_ARGS)?;
    }
    equal(zx::probe::read(vmar.info()?.base), 0)
}

/// The range of a destroyed region is free for its parent; the region itself can no longer use it.
fn map_overwrite_destroyed() -> Outcome {
    let (vmar, base) = region(8)?;
    let (outer, _) = vmar.allocate(CAN | SPECIFIC, 0, 4 * PAGE)?;
    let (inner, _) = outer.allocate(CAN | SPECIFIC, PAGE, 2 * PAGE)?;
    inner.map(READ | SPECIFIC, 0, &numbered(1)?, 0, PAGE)?;
    fails(vmar.map(READ | SPECIFIC, PAGE, &vmo(1)?, 0, PAGE), Status::ALREADY_EXISTS)?;
    inner.destroy()?;
    fails(inner.map(READ | SPECIFIC, 0, &vmo(1)?, 0, PAGE), Status::BAD_STATE)?;
    fails(vmar.map(READ | SPECIFIC, PAGE, &vmo(1)?, 0, PAGE), Status::ALREADY_EXISTS)?;
    equal(outer.map(READ | SPECIFIC, PAGE, &vmo(1)?, 0, PAGE)?, base + PAGE)?;
    equal(zx::probe::read(base + PAGE), 0)?;
    outer.destroy()?;
    fails(outer.map(READ | SPECIFIC, 0, &vmo(1)?, 0, PAGE), Status::BAD_STATE)?;
    equal(vmar.map(READ | SPECIFIC, PAGE, &numbered(2)?, 0, PAGE)?, base + PAGE)?;
    equal(zx::probe::read(base + PAGE), 1)
}

/// Mappings and regions never overlap, whichever comes first and wherever they would overlap.
fn map_overlaps() -> Outcome {
    let (vmar, _) = region(12)?;
    vmar.map(READ | SPECIFIC, 2 * PAGE, &vmo(2)?, 0, 2 * PAGE)?;
    let (_child, _) = vmar.allocate(CAN | SPECIFIC, 6 * PAGE, 2 * PAGE)?;
    for (offset, pages) in
        [(2, 1), (3, 1), (2, 2), (1, 2), (3, 2), (1, 4), (6, 1), (7, 1), (6, 2), (5, 2), (7, 2), (5, 4), (0, 12)]
    {
        fails(vmar.map(READ | SPECIFIC, offset * PAGE, &vmo(12)?, 0, pages * PAGE), Status::ALREADY_EXISTS)?;
        fails(vmar.allocate(CAN | SPECIFIC, offset * PAGE, pages * PAGE), Status::ALREADY_EXISTS)?;
    }
    for offset in [0, 4, 8, 10] {
        vmar.map(READ | SPECIFIC, offset * PAGE, &vmo(2)?, 0, 2 * PAGE)?;
    }
    fails(vmar.map(READ, 0, &vmo(1)?, 0, PAGE), Status::NO_RESOURCES)
}

/// The rights of the handles at the time of mapping limit the permissions that the mapping can ever have.
fn map_rights_dropped() -> Outcome {
    let root = zx::startup::vmar_root_self();
    let (vmar, base) = root.allocate(CAN | CAN_EXECUTE, 0, 8 * PAGE)?;
    let all = vmo(1)?.replace_as_executable(None)?;
    let rights = [(Rights::READ, READ), (Rights::WRITE, READ_WRITE), (Rights::EXECUTE, READ | EXECUTE)];
    for (right, needs) in rights {
        // The VMO's handle lacks the right, ...
        let less = Vmo::from(without(&all, right)?);
        fails(vmar.map(needs | OVER, 0, &less, 0, PAGE), Status::ACCESS_DENIED)?;
        // ... or the region's handle does. Such a mapping cannot get the permission later, even through a handle with
        // the right.
        let weak = Vmar::from(without(&vmar, right)?);
        fails(weak.map(needs | OVER, 0, &all, 0, PAGE), Status::ACCESS_DENIED)?;
        for (region, object) in [(&vmar, &less), (&weak, &all)] {
            region.map(OVER, 0, object, 0, PAGE)?;
            fails(vmar.protect(needs, base, PAGE), Status::ACCESS_DENIED)?;
            vmar.protect(0, base, PAGE)?;
        }
        // A mapping that can have the permission does not get it through a handle without the right.
        vmar.map(OVER, 0, &all, 0, PAGE)?;
        fails(weak.protect(needs, base, PAGE), Status::ACCESS_DENIED)?;
        vmar.protect(needs, base, PAGE)?;
    }
    // Mapping needs the right to map.
    let unmappable = Vmo::from(without(&all, Rights::MAP)?);
    fails(vmar.map(READ | OVER, 0, &unmappable, 0, PAGE), Status::ACCESS_DENIED)
}

/// An inner region allows only what it and its parent both allow.
fn nested_permissions() -> Outcome {
    let root = zx::startup::vmar_root_self();
    let all = vmo(1)?.replace_as_executable(None)?;
    let perms = [(CAN_READ, READ), (CAN_WRITE, WRITE), (CAN_EXECUTE, EXECUTE)];
    for outer in 0..8_u32 {
        let bits = |set: u32, of: fn(&(u32, u32)) -> u32| {
            perms.iter().enumerate().filter(|(i, _)| set >> i & 1 != 0).map(|(_, perm)| of(perm)).sum::<u32>()
        };
        let (vmar, _) = root.allocate(bits(outer, |perm| perm.0), 0, 8 * PAGE)?;
        for inner in 0..8_u32 {
            let result = vmar.allocate(bits(inner, |perm| perm.0), 0, 4 * PAGE);
            if inner & !outer != 0 {
                fails(result, Status::ACCESS_DENIED)?;
                continue;
            }
            let (child, _) = result?;
            for asked in 0..8_u32 {
                let mapped = child.map(bits(asked, |perm| perm.1), 0, &all, 0, PAGE);
                if asked & 1 == 0 && asked != 0 {
                    fails(mapped, Status::INVALID_ARGS)?;
                } else if asked & !inner != 0 {
                    fails(mapped, Status::ACCESS_DENIED)?;
                } else {
                    child.unmap(mapped?, PAGE)?;
                }
            }
            child.destroy()?;
        }
        vmar.destroy()?;
    }
    Ok(())
}

fn info_base_and_length() -> Outcome {
    let (vmar, base) = region(16)?;
    let info = vmar.info()?;
    equal((info.base, info.len), (base, 16 * PAGE))?;
    let (child, address) = vmar.allocate(CAN | SPECIFIC, 4 * PAGE, 3 * PAGE)?;
    let info = child.info()?;
    equal((info.base, info.len), (address, 3 * PAGE))?;
    equal(address, base + 4 * PAGE)
}

fn destroy_all_below() -> Outcome {
    let prober = Prober::new()?;
    let (vmar, base) = prober.region(16)?;
    let (outer, _) = vmar.allocate(CAN | SPECIFIC, 0, 8 * PAGE)?;
    let (inner, _) = outer.allocate(CAN | SPECIFIC, 0, 4 * PAGE)?;
    let vmo = numbered(1)?;
    for (region, offset) in [(&inner, 0), (&outer, 5), (&vmar, 9)] {
        region.map(READ_WRITE | SPECIFIC, offset * PAGE, &vmo, 0, PAGE)?;
        prober.finds(base + offset * PAGE, 1)?;
    }
    outer.destroy()?;
    prober.finds_nothing(base)?;
    prober.finds_nothing(base + 5 * PAGE)?;
    prober.finds(base + 9 * PAGE, 1)?;
    fails(inner.map(READ, 0, &vmo, 0, PAGE), Status::BAD_STATE)?;
    vmar.map(READ | SPECIFIC, 0, &vmo, 0, PAGE)?;
    prober.finds(base, 1)
}

fn destroy_calls_fail() -> Outcome {
    let (vmar, base) = region(16)?;
    let (child, at) = vmar.allocate(CAN | SPECIFIC, 0, 4 * PAGE)?;
    vmar.destroy()?;
    for (dead, base) in [(&vmar, base), (&child, at)] {
        fails(dead.map(READ, 0, &vmo(1)?, 0, PAGE), Status::BAD_STATE)?;
        fails(dead.allocate(CAN_READ, 0, PAGE), Status::BAD_STATE)?;
        fails(dead.unmap(base, PAGE), Status::BAD_STATE)?;
        fails(dead.protect(READ, base, PAGE), Status::BAD_STATE)?;
        fails(dead.op_range(abi::ZX_VMAR_OP_COMMIT, base, PAGE), Status::BAD_STATE)?;
        fails(dead.destroy(), Status::BAD_STATE)?;
    }
    Ok(())
}

fn destroy_root() -> Outcome {
    fails(Prober::new()?.tiny.vmar.destroy(), Status::NOT_SUPPORTED)
}

fn destroy_right() -> Outcome {
    let (vmar, _) = region(4)?;
    fails(Vmar::from(without(&vmar, Rights::OP_CHILDREN)?).destroy(), Status::ACCESS_DENIED)?;
    Ok(vmar.destroy()?)
}

fn unmap_bad_range() -> Outcome {
    let (vmar, base) = region(4)?;
    let no = |address: usize, len: usize| fails(vmar.unmap(address, len), Status::INVALID_ARGS);
    vmar.map(READ | SPECIFIC, 0, &vmo(4)?, 0, 4 * PAGE)?;
    no(base, 0)?;
    no(base + 1, PAGE)?;
    no(base - PAGE, 2 * PAGE)?;
    no(base, 5 * PAGE)?;
    no(base + 4 * PAGE, PAGE)?;
    no(base, usize::MAX)?;
    no(base, usize::MAX - base + 1)?;
    no(0, PAGE)?;
    equal(zx::probe::read(base + 3 * PAGE), 0)
}

fn unmap_part_of_a_page() -> Outcome {
    let prober = Prober::new()?;
    let (vmar, base) = prober.region(4)?;
    let vmo = numbered(4)?;
    vmar.map(READ_WRITE | SPECIFIC, 0, &vmo, 0, 4 * PAGE)?;
    vmar.unmap(base, 1)?;
    prober.finds_nothing(base)?;
    prober.finds(base + PAGE, 2)?;
    vmar.unmap(base + PAGE, PAGE + 1)?;
    prober.finds_nothing(base + 2 * PAGE)?;
    vmar.protect(READ, base + 3 * PAGE, 1)?;
    prober.finds_read_only(base + 3 * PAGE, 4)
}

/// The front, the back or the middle of a mapping is unmapped, and the rest stays.
fn unmap_split() -> Outcome {
    let prober = Prober::new()?;
    for (from, to) in [(0, 2), (6, 8), (3, 5), (0, 8), (1, 2)] {
        let (vmar, base) = prober.region(8)?;
        vmar.map(READ_WRITE | SPECIFIC, 0, &numbered(8)?, 0, 8 * PAGE)?;
        for page in [0, 4, 7] {
            prober.stores(base + page * PAGE, page as u8 + 1)?;
        }
        vmar.unmap(base + from * PAGE, (to - from) * PAGE)?;
        for page in 0..8 {
            let at = base + page * PAGE;
            if (from..to).contains(&page) { prober.finds_nothing(at)? } else { prober.finds(at, page as u8 + 1)? }
        }
        // The unmapped part can be mapped again.
        vmar.map(READ | SPECIFIC, from * PAGE, &numbered(8)?, 0, (to - from) * PAGE)?;
        prober.finds(base + from * PAGE, 1)?;
    }
    Ok(())
}

fn unmap_several() -> Outcome {
    let prober = Prober::new()?;
    let (vmar, base) = prober.region(16)?;
    // Mappings of two pages each, with a gap after every second one.
    for place in [0, 2, 5, 7, 10, 12] {
        vmar.map(READ | SPECIFIC, place * PAGE, &numbered(2)?, 0, 2 * PAGE)?;
        prober.finds(base + place * PAGE, 1)?;
        prober.finds(base + (place + 1) * PAGE, 2)?;
    }
    vmar.unmap(base + PAGE, 12 * PAGE)?;
    prober.finds(base, 1)?;
    for page in 1..13 {
        prober.finds_nothing(base + page * PAGE)?;
    }
    prober.finds(base + 13 * PAGE, 2)
}

fn unmap_regions() -> Outcome {
    let prober = Prober::new()?;
    let (vmar, base) = prober.region(16)?;
    let (child, _) = vmar.allocate(CAN | SPECIFIC, 4 * PAGE, 4 * PAGE)?;
    let (grandchild, _) = child.allocate(CAN | SPECIFIC, 0, 2 * PAGE)?;
    grandchild.map(READ | SPECIFIC, 0, &numbered(1)?, 0, PAGE)?;
    vmar.map(READ | SPECIFIC, 2 * PAGE, &numbered(2)?, 0, 2 * PAGE)?;
    prober.finds(base + 4 * PAGE, 1)?;
    // A region cannot be unmapped in part; the call fails and unmaps nothing.
    for (from, pages) in [(2, 3), (5, 1), (7, 2), (4, 3)] {
        fails(vmar.unmap(base + from * PAGE, pages * PAGE), Status::INVALID_ARGS)?;
    }
    prober.finds(base + 2 * PAGE, 1)?;
    prober.finds(base + 4 * PAGE, 1)?;
    vmar.unmap(base + 3 * PAGE, 6 * PAGE)?;
    prober.finds(base + 2 * PAGE, 1)?;
    prober.finds_nothing(base + 3 * PAGE)?;
    prober.finds_nothing(base + 4 * PAGE)?;
    fails(child.unmap(base + 4 * PAGE, PAGE), Status::BAD_STATE)?;
    fails(grandchild.map(READ, 0, &vmo(1)?, 0, PAGE), Status::BAD_STATE)?;
    vmar.map(READ | SPECIFIC, 4 * PAGE, &vmo(4)?, 0, 4 * PAGE)?;
    Ok(())
}

fn unmap_regions_right() -> Outcome {
    let (vmar, base) = region(16)?;
    let (child, _) = vmar.allocate(CAN | SPECIFIC, 4 * PAGE, 4 * PAGE)?;
    vmar.map(READ | SPECIFIC, 0, &vmo(1)?, 0, PAGE)?;
    let weak = Vmar::from(without(&vmar, Rights::OP_CHILDREN)?);
    fails(weak.unmap(base, 16 * PAGE), Status::INVALID_ARGS)?;
    fails(weak.unmap(base + 4 * PAGE, 4 * PAGE), Status::INVALID_ARGS)?;
    equal(zx::probe::read(base), 0)?;
    weak.unmap(base, 4 * PAGE)?;
    child.map(READ, 0, &vmo(1)?, 0, PAGE)?;
    Ok(())
}

fn unmap_begins_in_a_gap() -> Outcome {
    let prober = Prober::new()?;
    let (vmar, base) = prober.region(8)?;
    vmar.map(READ | SPECIFIC, 2 * PAGE, &numbered(4)?, 0, 4 * PAGE)?;
    prober.finds(base + 2 * PAGE, 1)?;
    vmar.unmap(base, 3 * PAGE)?;
    prober.finds_nothing(base + 2 * PAGE)?;
    prober.finds(base + 3 * PAGE, 2)?;
    // A range that ends in a gap, and a range that is one gap.
    vmar.unmap(base + 5 * PAGE, 3 * PAGE)?;
    prober.finds_nothing(base + 5 * PAGE)?;
    prober.finds(base + 4 * PAGE, 3)?;
    Ok(vmar.unmap(base, 3 * PAGE)?)
}

/// The cost of unmapping depends on what is there, not on the length of the range.
fn unmap_large_uncommitted() -> Outcome {
    let prober = Prober::new()?;
    let huge = 1 << 45;
    let (vmar, base) = prober.tiny.vmar.allocate(CAN, 0, huge)?;
    let vmo = Vmo::create(huge as u64, 0)?;
    for _ in 0..100 {
        vmar.map(READ_WRITE | SPECIFIC, 0, &vmo, 0, huge)?;
        vmar.unmap(base, huge)?;
    }
    vmar.map(READ_WRITE | SPECIFIC, 0, &vmo, 0, huge)?;
    for place in [0, huge / 2, huge - PAGE] {
        prober.stores(base + place, 9)?;
    }
    vmar.unmap(base + PAGE, huge - 2 * PAGE)?;
    prober.finds(base, 9)?;
    prober.finds_nothing(base + huge / 2)?;
    prober.finds(base + huge - PAGE, 9)?;
    equal(vmo.info()?.committed_bytes, 3 * PAGE as u64)
}

/// A debugger reads and writes up to the mapping's current end, and fails where nothing is mapped.
fn debugger(prober: &Prober, vmar: &Vmar, base: usize, from: usize) -> Outcome {
    let process = &prober.tiny.process;
    vmar.map(READ_WRITE | SPECIFIC, from * PAGE, &numbered(4)?, 0, 4 * PAGE)?;
    vmar.unmap(base + (from + 2) * PAGE, PAGE)?;
    let start = base + from * PAGE;
    let mut bytes = vec![0; 4 * PAGE];
    equal(process.read_memory(start, &mut bytes)?, 2 * PAGE)?;
    equal((bytes[0], bytes[PAGE], bytes[2 * PAGE]), (1, 2, 0))?;
    equal(process.read_memory(start + 3 * PAGE, &mut bytes)?, PAGE)?;
    equal(bytes[0], 4)?;
    fails(process.read_memory(start + 2 * PAGE, &mut bytes), Status::NO_MEMORY)?;
    let data = vec![42; 4 * PAGE];
    equal(process.write_memory(start, &data)?, 2 * PAGE)?;
    fails(process.write_memory(start + 2 * PAGE, &data), Status::NO_MEMORY)?;
    equal(process.write_memory(start + 3 * PAGE, &data)?, PAGE)?;
    prober.finds(start + 2 * PAGE - 1, 42)?;
    prober.finds_nothing(start + 2 * PAGE)?;
    prober.finds(start + 3 * PAGE, 42)
}

fn unmap_then_debugger() -> Outcome {
    let prober = Prober::new()?;
    let (vmar, base) = prober.region(8)?;
    debugger(&prober, &vmar, base, 0)
}

fn unmap_then_debugger_in_a_region() -> Outcome {
    let prober = Prober::new()?;
    let (outer, base) = prober.region(16)?;
    let (vmar, _) = outer.allocate(CAN | SPECIFIC, 5 * PAGE, 8 * PAGE)?;
    debugger(&prober, &vmar, base + 5 * PAGE, 2)
}

/// A debugger accesses the right pages of a mapping that begins inside its VMO.
fn unmap_debugger_at_an_offset() -> Outcome {
    let prober = Prober::new()?;
    let (vmar, base) = prober.region(16)?;
    let process = &prober.tiny.process;
    let size = 9 * PAGE;
    vmar.map(READ_WRITE | SPECIFIC, 0, &numbered(10)?, PAGE as u64, size)?;
    let mut bytes = vec![0; size];
    equal(process.read_memory(base, &mut bytes)?, size)?;
    ensure((0..9).all(|page| bytes[page * PAGE] == page as u8 + 2), "it has read another part")?;
    let data: Vec<u8> = (0..size).map(|at| (at / PAGE + at % 7) as u8).collect();
    equal(process.write_memory(base, &data)?, size)?;
    equal(process.read_memory(base, &mut bytes)?, size)?;
    ensure(bytes == data, "what was written is not what is read")?;
    // Up to the last byte, and beyond it.
    let (end, mut two) = (base + size, [0; 2]);
    equal((process.read_memory(end - 1, &mut two[..1])?, process.write_memory(end - 1, &[5])?), (1, 1))?;
    equal((process.read_memory(end - 1, &mut two)?, process.write_memory(end - 1, &[6, 6])?), (1, 1))?;
    fails(process.read_memory(end, &mut two[..1]), Status::NO_MEMORY)?;
    fails(process.write_memory(end, &[7]), Status::NO_MEMORY)?;
    prober.finds(end - 1, 6)?;
    prober.finds_nothing(end)
}

/// While a debugger reads memory, it is unmapped and mapped again: the debugger gets all of it, a part, or an error.
fn unmap_while_debugger_reads() -> Outcome {
    let prober = Prober::new()?;
    let (vmar, base) = prober.region(64)?;
    let process = prober.tiny.process.duplicate_handle(Rights::SAME_RIGHTS)?;
    let reader = std::thread::spawn(move || {
        let process = zx::Process::from(process);
        let mut bytes = vec![0; 64 * PAGE];
        let mut met = 0;
        for _ in 0..300 {
            match process.read_memory(base, &mut bytes) {
                Ok(len) => {
                    ensure(bytes[..len].iter().all(|byte| *byte == 7), "it read what was not there")?;
                    met += 1;
                }
                Err(status) => gives(status, Status::NO_MEMORY)?,
            }
            zx::thread_legacy_yield()?;
        }
        Ok::<_, Failure>(met)
    });
    let mut turns = 0;
    while !reader.is_finished() {
        // The memory is freed with its last mapping.
        let memory = vmo(64)?;
        memory.write(&vec![7; 64 * PAGE], 0)?;
        vmar.map(READ | SPECIFIC, 0, &memory, 0, 64 * PAGE)?;
        drop(memory);
        zx::thread_legacy_yield()?;
        vmar.unmap(base + turns % 64 * PAGE, PAGE)?;
        zx::thread_legacy_yield()?;
        vmar.unmap(base, 64 * PAGE)?;
        turns += 1;
    }
    let met = reader.join().map_err(|_| "the reader panicked")??;
    ensure(met > 0, "it never met the mapping")
}

fn protect_all_ways() -> Outcome {
    let prober = Prober::new()?;
    let (vmar, base) = prober.region(2)?;
    vmar.map(READ_WRITE | SPECIFIC, 0, &vmo(1)?, 0, PAGE)?;
    prober.stores(base, 5)?;
    let mut value = 5;
    // From each permission to each other one, and twice the same.
    for options in [READ, READ, READ_WRITE, READ_WRITE, 0, 0, READ, 0, READ_WRITE, READ, READ_WRITE, 0, READ_WRITE] {
        vmar.protect(options, base, PAGE)?;
        match options {
            READ => prober.finds_read_only(base, value)?,
            READ_WRITE => {
                prober.finds(base, value)?;
                value += 1;
                prober.stores(base, value)?;
            }
            _ => {
                equal(prober.load(base)?, Err(Status::ACCESS_DENIED))?;
                equal(prober.store(base, 0)?, Err(Status::ACCESS_DENIED))?;
            }
        }
    }
    prober.finds(base, value)
}

fn protect_split() -> Outcome {
    let prober = Prober::new()?;
    for (from, to) in [(0, 2), (4, 6), (2, 4), (0, 6)] {
        let (vmar, base) = prober.region(6)?;
        vmar.map(READ_WRITE | SPECIFIC, 0, &numbered(6)?, 0, 6 * PAGE)?;
        for page in 0..6 {
            prober.stores(base + page * PAGE, page as u8 + 1)?;
        }
        vmar.protect(READ, base + from * PAGE, (to - from) * PAGE)?;
        for page in 0..6 {
            let (at, value) = (base + page * PAGE, page as u8 + 1);
            if (from..to).contains(&page) { prober.finds_read_only(at, value)? } else { prober.stores(at, value)? }
        }
        // The rest stays when the part is unmapped.
        vmar.unmap(base + from * PAGE, (to - from) * PAGE)?;
        for page in (0..6).filter(|page| !(from..to).contains(page)) {
            prober.stores(base + page * PAGE, 0)?;
        }
    }
    Ok(())
}

fn protect_several() -> Outcome {
    let prober = Prober::new()?;
    let (vmar, base) = prober.region(8)?;
    let (one, two, three) = (numbered(2)?, numbered(2)?, numbered(2)?);
    for (i, vmo) in [&one, &two, &three].into_iter().enumerate() {
        vmar.map(READ_WRITE | SPECIFIC, 2 * i * PAGE, vmo, 0, 2 * PAGE)?;
        prober.stores(base + 2 * i * PAGE, 1)?;
    }
    vmar.protect(READ, base + PAGE, 4 * PAGE)?;
    prober.stores(base, 1)?;
    for page in 1..5 {
        prober.finds_read_only(base + page * PAGE, page as u8 % 2 + 1)?;
    }
    prober.stores(base + 5 * PAGE, 1)?;
    // A mapping in the middle cannot become writable: nothing changes.
    let weak = Vmo::from(without(&two, Rights::WRITE)?);
    vmar.map(READ | OVER, 2 * PAGE, &weak, 0, 2 * PAGE)?;
    fails(vmar.protect(READ_WRITE, base, 6 * PAGE), Status::ACCESS_DENIED)?;
    prober.finds_read_only(base + PAGE, 2)?;
    prober.finds_read_only(base + 4 * PAGE, 1)
}

/// Through a region, permissions of mappings in inner regions can be removed but not added.
fn protect_regions() -> Outcome {
    let prober = Prober::new()?;
    let (vmar, base) = prober.region(8)?;
    let (child, _) = vmar.allocate(CAN | SPECIFIC, 2 * PAGE, 2 * PAGE)?;
    vmar.map(READ_WRITE | SPECIFIC, 0, &numbered(2)?, 0, 2 * PAGE)?;
    child.map(READ_WRITE | SPECIFIC, 0, &numbered(2)?, 0, 2 * PAGE)?;
    prober.stores(base + 2 * PAGE, 1)?;
    vmar.protect(READ_WRITE, base, 4 * PAGE)?;
    prober.stores(base + 3 * PAGE, 2)?;
    vmar.protect(READ, base, 4 * PAGE)?;
    for (page, value) in [(0, 1), (1, 2), (2, 1), (3, 2)] {
        prober.finds_read_only(base + page * PAGE, value)?;
    }
    fails(vmar.protect(READ_WRITE, base, 4 * PAGE), Status::ACCESS_DENIED)?;
    prober.finds_read_only(base, 1)?;
    vmar.protect(READ_WRITE, base, 2 * PAGE)?;
    prober.stores(base, 1)?;
    child.protect(READ_WRITE, base + 2 * PAGE, 2 * PAGE)?;
    prober.stores(base + 2 * PAGE, 1)
}

fn protect_regions_right() -> Outcome {
    let (vmar, base) = region(4)?;
    let (child, _) = vmar.allocate(CAN | SPECIFIC, 0, 2 * PAGE)?;
    child.map(READ_WRITE | SPECIFIC, 0, &vmo(2)?, 0, 2 * PAGE)?;
    let weak = Vmar::from(without(&vmar, Rights::OP_CHILDREN)?);
    fails(weak.protect(READ, base, 2 * PAGE), Status::INVALID_ARGS)?;
    zx::probe::write(base, 1);
    vmar.protect(READ, base, 2 * PAGE)?;
    equal(zx::probe::read(base), 1)
}

fn protect_gap() -> Outcome {
    let prober = Prober::new()?;
    let (vmar, base) = prober.region(8)?;
    vmar.map(READ_WRITE | SPECIFIC, PAGE, &numbered(2)?, 0, 2 * PAGE)?;
    vmar.map(READ_WRITE | SPECIFIC, 4 * PAGE, &numbered(2)?, 0, 2 * PAGE)?;
    let unchanged = || -> Outcome {
        for (from, pages) in [(0, 2), (2, 2), (1, 5), (5, 2), (3, 1)] {
            fails(vmar.protect(READ, base + from * PAGE, pages * PAGE), Status::NOT_FOUND)?;
        }
        for page in [1, 2, 4, 5] {
            prober.stores(base + page * PAGE, 1)?;
        }
        Ok(())
    };
    unchanged()?;
    // An empty region counts as a gap, too.
    let (child, _) = vmar.allocate(CAN | SPECIFIC, 3 * PAGE, PAGE)?;
    unchanged()?;
    child.map(READ_WRITE | SPECIFIC, 0, &numbered(1)?, 0, PAGE)?;
    vmar.protect(READ, base + PAGE, 5 * PAGE)?;
    for page in 1..6 {
        prober.finds_read_only(base + page * PAGE, 1)?;
    }
    Ok(())
}

fn protect_bad_arguments() -> Outcome {
    let (vmar, base) = region(4)?;
    vmar.map(READ_WRITE | SPECIFIC, 0, &vmo(4)?, 0, 4 * PAGE)?;
    let no = |options: u32, at: usize, len: usize| fails(vmar.protect(options, at, len), Status::INVALID_ARGS);
    no(READ, base, 0)?;
    no(READ, base + 1, PAGE)?;
    no(READ, base, 5 * PAGE)?;
    no(READ, base - PAGE, PAGE)?;
    no(READ, base, usize::MAX)?;
    for options in [SPECIFIC, OVER, CAN_READ, abi::ZX_VM_MAP_RANGE, abi::ZX_VM_ALIGN_1KB, 1 << 20] {
        no(READ | options, base, PAGE)?;
    }
    zx::probe::write(base, 1);
    Ok(())
}

fn protect_right() -> Outcome {
    let (vmar, base) = region(4)?;
    vmar.map(READ_WRITE | SPECIFIC, 0, &vmo(1)?, 0, PAGE)?;
    let no_write = Vmar::from(without(&vmar, Rights::WRITE)?);
    fails(no_write.protect(READ_WRITE, base, PAGE), Status::ACCESS_DENIED)?;
    fails(Vmar::from(without(&vmar, Rights::READ)?).protect(READ, base, PAGE), Status::ACCESS_DENIED)?;
    no_write.protect(READ, base, PAGE)?;
    fails(no_write.protect(READ_WRITE, base, PAGE), Status::ACCESS_DENIED)?;
    Ok(vmar.protect(READ_WRITE, base, PAGE)?)
}

fn protect_large_uncommitted() -> Outcome {
    let prober = Prober::new()?;
    let huge = 1 << 45;
    let (vmar, base) = prober.tiny.vmar.allocate(CAN, 0, huge)?;
    let vmo = Vmo::create(huge as u64, 0)?;
    vmar.map(READ_WRITE | SPECIFIC, 0, &vmo, 0, huge)?;
    let places = [0, huge / 4, huge - PAGE];
    for place in places {
        prober.stores(base + place, 3)?;
    }
    for _ in 0..50 {
        vmar.protect(READ, base, huge)?;
        vmar.protect(READ_WRITE, base, huge)?;
    }
    vmar.protect(READ, base + huge / 4, huge / 4)?;
    prober.stores(base, 4)?;
    prober.finds_read_only(base + huge / 4, 3)?;
    prober.finds_read_only(base + huge / 4 + PAGE, 0)?;
    prober.stores(base + huge - PAGE, 4)?;
    let committed = vmo.info()?.committed_bytes;
    ensure(committed <= 4 * PAGE as u64, "protecting has committed pages")
}

/// Parts with different permissions are merged into one mapping again when their permissions are equal.
fn protect_back_and_forth() -> Outcome {
    let (vmar, base) = region(64)?;
    let vmo = vmo(64)?;
    vmar.map(READ_WRITE | SPECIFIC, 0, &vmo, 0, 64 * PAGE)?;
    equal(vmo.info()?.num_mappings, 1)?;
    for page in (0..64).step_by(2) {
        vmar.protect(READ, base + page * PAGE, PAGE)?;
    }
    for page in (0..64).step_by(2) {
        vmar.protect(READ_WRITE, base + page * PAGE, PAGE)?;
    }
    equal(vmo.info()?.num_mappings, 1)?;
    vmar.protect(READ, base + 3 * PAGE, PAGE)?;
    vmar.protect(READ, base, 64 * PAGE)?;
    equal(vmo.info()?.num_mappings, 1)?;
    vmar.unmap(base, 64 * PAGE)?;
    equal(vmo.info()?.num_mappings, 0)
}
