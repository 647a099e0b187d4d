//! Placement of regions and mappings: alignment, limits, free space, randomness.

use abi::{Rights, Status};
use zx::{AsHandleRef, Vmar, Vmo};

use super::vmar::{PAGE, READ, READ_WRITE, region, vmo};
use super::{cases, raw, without};
use crate::check::{Failure, Outcome, ensure, equal, fails, gives};
use crate::test_process::TestProcess;

cases! {
    "vmar.allocate.alignment" => allocate_alignment,
    "vmar.allocate.alignment_bad" => allocate_alignment_bad,
    "vmar.allocate.alignment_of_a_place" => allocate_alignment_of_a_place,
    "vmar.allocate.out_of_bounds" => allocate_out_of_bounds,
    "vmar.allocate.no_room" => allocate_no_room,
    "vmar.allocate.bad_options" => allocate_bad_options,
    "vmar.allocate.part_of_a_page" => allocate_part_of_a_page,
    "vmar.allocate.upper_limit" => allocate_upper_limit,
    "vmar.allocate.rights_of_the_handle" => allocate_rights_of_the_handle,
    "vmar.allocate.rights_of_the_child" => allocate_rights_of_the_child,
    "vmar.map.alignment" => map_alignment,
    "vmar.map.alignment_bad" => map_alignment_bad,
    "vmar.map.alignment_of_a_place" => map_alignment_of_a_place,
    "vmar.map.compact" => map_compact,
    "vmar.map.upper_limit" => map_upper_limit,
    "vmar.map.upper_limit_of_a_region_that_chooses" => map_upper_limit_denied,
    "vmar.map.anywhere_at_an_offset" => map_anywhere_at_an_offset,
    "vmar.map.random_address" => map_random_address,
    "vmar.map.fills_a_region" => map_fills_a_region,
    "vmar.root.address_limits" => root_address_limits,
    "vmar.arguments.edges" => arguments_edges,
}

const SPECIFIC: u32 = abi::ZX_VM_SPECIFIC;
const LIMIT: u32 = abi::ZX_VM_OFFSET_IS_UPPER_LIMIT;
const CAN: u32 = abi::ZX_VM_CAN_MAP_READ | abi::ZX_VM_CAN_MAP_WRITE | abi::ZX_VM_CAN_MAP_SPECIFIC;

fn alignments() -> impl Iterator<Item = u32> {
    10..=32
}

fn allocate_alignment() -> Outcome {
    let root = zx::startup::vmar_root_self();
    for bits in alignments() {
        let (child, address) = root.allocate(CAN | bits << abi::ZX_VM_ALIGN_BASE, 0, 16 * PAGE)?;
        ensure(address.is_multiple_of(1 << bits), &format!("{address:#x} is not aligned to 2^{bits}"))?;
        equal(child.info()?.base, address)?;
        child.destroy()?;
    }
    Ok(())
}

fn allocate_alignment_bad() -> Outcome {
    let root = zx::startup::vmar_root_self();
    for bits in (1..10).chain([33, 34, 63, 64, 255]) {
        fails(root.allocate(CAN | bits << abi::ZX_VM_ALIGN_BASE, 0, 16 * PAGE), Status::INVALID_ARGS)?;
    }
    Ok(())
}

/// A region that begins at a multiple of 64 KiB.
fn aligned_region() -> Result<(Vmar, usize), crate::check::Failure> {
    Ok(zx::startup::vmar_root_self().allocate(CAN | abi::ZX_VM_ALIGN_64KB, 0, 64 * PAGE)?)
}

fn allocate_alignment_of_a_place() -> Outcome {
    let (vmar, base) = aligned_region()?;
    let options = abi::ZX_VM_CAN_MAP_READ | SPECIFIC | abi::ZX_VM_ALIGN_64KB;
    equal(vmar.allocate(options, 16 * PAGE, PAGE)?.1, base + 16 * PAGE)?;
    fails(vmar.allocate(options, 17 * PAGE, PAGE), Status::INVALID_ARGS)
}

fn allocate_out_of_bounds() -> Outcome {
    let (vmar, _) = region(16)?;
    let options = abi::ZX_VM_CAN_MAP_READ | SPECIFIC;
    let no = |offset: usize, size: usize| fails(vmar.allocate(options, offset, size), Status::INVALID_ARGS);
    no(16 * PAGE, PAGE)?;
    no(15 * PAGE, 2 * PAGE)?;
    no(0, 17 * PAGE)?;
    no(PAGE, usize::MAX - PAGE + 1)?;
    no(usize::MAX - PAGE + 1, PAGE)?;
    no(usize::MAX - PAGE + 1, 2 * PAGE)?;
    fails(vmar.allocate(abi::ZX_VM_CAN_MAP_READ, 0, 17 * PAGE), Status::INVALID_ARGS)?;
    vmar.allocate(options, 15 * PAGE, PAGE)?;
    Ok(())
}

fn allocate_no_room() -> Outcome {
    let (vmar, _) = region(16)?;
    let options = abi::ZX_VM_CAN_MAP_READ | SPECIFIC;
    let _middle = vmar.allocate(options, 8 * PAGE, PAGE)?;
    // Seven pages are free behind the middle region, and eight before it.
    fails(vmar.allocate(abi::ZX_VM_CAN_MAP_READ, 0, 9 * PAGE), Status::NO_RESOURCES)?;
    fails(vmar.map(READ, 0, &vmo(9)?, 0, 9 * PAGE), Status::NO_RESOURCES)?;
    // The reason does not matter: a fixed range that overlaps the region is refused in any case.
    fails(vmar.allocate(options, 0, 9 * PAGE), Status::ALREADY_EXISTS)?;
    fails(vmar.allocate(options, 8 * PAGE, 8 * PAGE), Status::ALREADY_EXISTS)?;
    let (_, address) = vmar.allocate(abi::ZX_VM_CAN_MAP_READ, 0, 8 * PAGE)?;
    equal(address, vmar.info()?.base)
}

fn allocate_bad_options() -> Outcome {
    let (vmar, _) = region(16)?;
    let bad = [
        abi::ZX_VM_PERM_READ,
        abi::ZX_VM_PERM_WRITE,
        abi::ZX_VM_PERM_EXECUTE,
        abi::ZX_VM_SPECIFIC_OVERWRITE,
        abi::ZX_VM_MAP_RANGE,
        abi::ZX_VM_REQUIRE_NON_RESIZABLE,
        abi::ZX_VM_ALLOW_FAULTS,
        SPECIFIC | LIMIT,
        1 << 16,
        1 << 23,
    ];
    for options in bad {
        fails(vmar.allocate(abi::ZX_VM_CAN_MAP_READ | options, 0, PAGE), Status::INVALID_ARGS)?;
    }
    // An offset is valid only with an option that uses it.
    fails(vmar.allocate(abi::ZX_VM_CAN_MAP_READ, PAGE, PAGE), Status::INVALID_ARGS)
}

fn allocate_part_of_a_page() -> Outcome {
    let (vmar, _) = region(16)?;
    fails(vmar.allocate(CAN, 0, PAGE + 1), Status::INVALID_ARGS)?;
    fails(vmar.allocate(CAN, 0, 1), Status::INVALID_ARGS)?;
    fails(vmar.allocate(CAN | SPECIFIC, 1, PAGE), Status::INVALID_ARGS)
}

fn allocate_upper_limit() -> Outcome {
    let (vmar, base) = region(64)?;
    for _ in 0..16 {
        let (_, address) = vmar.allocate(CAN | LIMIT, 16 * PAGE, PAGE)?;
        ensure(address >= base && address + PAGE <= base + 16 * PAGE, "it lies above the limit")?;
    }
    fails(vmar.allocate(CAN | LIMIT, 16 * PAGE, PAGE), Status::NO_RESOURCES)?;
    fails(vmar.allocate(CAN | LIMIT, 3 * PAGE, 4 * PAGE), Status::INVALID_ARGS)?;
    fails(vmar.allocate(CAN | LIMIT, 65 * PAGE, PAGE), Status::INVALID_ARGS)?;
    vmar.allocate(CAN | LIMIT, 64 * PAGE, PAGE)?;
    Ok(())
}

/// A handle without a right cannot create a region with the corresponding permission.
fn allocate_rights_of_the_handle() -> Outcome {
    let (vmar, _) = region(16)?;
    for (right, can) in [
        (Rights::READ, abi::ZX_VM_CAN_MAP_READ),
        (Rights::WRITE, abi::ZX_VM_CAN_MAP_WRITE),
        (Rights::NONE, abi::ZX_VM_CAN_MAP_EXECUTE),
    ] {
        let less = Vmar::from(without(&vmar, right)?);
        fails(less.allocate(can, 0, PAGE), Status::ACCESS_DENIED)?;
        fails(less.allocate(CAN | can, 0, PAGE), Status::ACCESS_DENIED)?;
        less.allocate(abi::ZX_VM_CAN_MAP_SPECIFIC, 0, PAGE)?;
    }
    Ok(())
}

/// The new handle has the rights that the region permits, and no others. `ZX_VM_CAN_MAP_SPECIFIC` can be requested
/// independently.
fn allocate_rights_of_the_child() -> Outcome {
    let (vmar, _) = zx::startup::vmar_root_self().allocate(abi::ZX_VM_CAN_MAP_READ, 0, 16 * PAGE)?;
    let (child, _) = vmar.allocate(abi::ZX_VM_CAN_MAP_READ | abi::ZX_VM_CAN_MAP_SPECIFIC, 0, 8 * PAGE)?;
    let rights = zx::AsHandleRef::as_handle_ref(&child);
    let rights = Rights::from_bits_retain(zx::Info::basic_info(&rights)?.rights);
    equal(rights & (Rights::READ | Rights::WRITE | Rights::EXECUTE), Rights::READ)?;
    ensure(rights.contains(Rights::OP_CHILDREN), "it cannot be destroyed")?;
    child.map(READ | SPECIFIC, PAGE, &vmo(1)?, 0, PAGE)?;
    fails(vmar.map(READ | SPECIFIC, 9 * PAGE, &vmo(1)?, 0, PAGE), Status::ACCESS_DENIED)
}

fn map_alignment() -> Outcome {
    let root = zx::startup::vmar_root_self();
    let vmo = vmo(4)?;
    for bits in alignments() {
        let address = root.map(READ | bits << abi::ZX_VM_ALIGN_BASE, 0, &vmo, 0, 4 * PAGE)?;
        ensure(address.is_multiple_of(1 << bits), &format!("{address:#x} is not aligned to 2^{bits}"))?;
        root.unmap(address, 4 * PAGE)?;
    }
    Ok(())
}

fn map_alignment_bad() -> Outcome {
    let root = zx::startup::vmar_root_self();
    let vmo = vmo(1)?;
    for bits in (1..10).chain([33, 34, 63, 64, 255]) {
        fails(root.map(READ | bits << abi::ZX_VM_ALIGN_BASE, 0, &vmo, 0, PAGE), Status::INVALID_ARGS)?;
    }
    Ok(())
}

fn map_alignment_of_a_place() -> Outcome {
    let (vmar, base) = aligned_region()?;
    let options = READ | abi::ZX_VM_ALIGN_64KB;
    equal(vmar.map(options | SPECIFIC, 16 * PAGE, &vmo(1)?, 0, PAGE)?, base + 16 * PAGE)?;
    fails(vmar.map(options | SPECIFIC, 17 * PAGE, &vmo(1)?, 0, PAGE), Status::INVALID_ARGS)?;
    fails(vmar.map(options | abi::ZX_VM_SPECIFIC_OVERWRITE, 17 * PAGE, &vmo(1)?, 0, PAGE), Status::INVALID_ARGS)?;
    // Also below a limit, if an aligned range is free there.
    let at = vmar.map(options | LIMIT, 33 * PAGE, &vmo(1)?, 0, PAGE)?;
    ensure(at == base || at == base + 32 * PAGE, "it is not aligned, not below the limit, or not free")?;
    vmar.map(options | LIMIT, 33 * PAGE, &vmo(1)?, 0, PAGE)?;
    fails(vmar.map(options | LIMIT, 33 * PAGE, &vmo(1)?, 0, PAGE), Status::NO_RESOURCES)
}

/// The option is valid for regions only; mappings in such a region lie close together.
fn map_compact() -> Outcome {
    let root = zx::startup::vmar_root_self();
    fails(root.map(READ | abi::ZX_VM_COMPACT, 0, &vmo(1)?, 0, PAGE), Status::INVALID_ARGS)?;
    // The places are chosen at random: one region in a hundred is wider.
    let mut widths = (0..5).map(|_| compact_width(&root)).collect::<Result<Vec<_>, Failure>>()?;
    widths.sort_unstable();
    ensure(widths[2] <= 4 << 20, &format!("they are far apart: {widths:?} bytes"))
}

/// Distance between the first and the last of 64 mappings in a region.
fn compact_width(root: &Vmar) -> Result<usize, Failure> {
    let (vmar, base) = root.allocate(CAN | abi::ZX_VM_COMPACT, 0, 1 << 30)?;
    let vmo = vmo(1)?;
    let mut addresses = (0..64).map(|_| vmar.map(READ, 0, &vmo, 0, PAGE)).collect::<zx::Result<Vec<_>>>()?;
    addresses.sort_unstable();
    ensure(addresses.windows(2).all(|pair| pair[0] + PAGE <= pair[1]), "two mappings overlap")?;
    let (first, last) = (addresses[0], addresses[63]);
    ensure(first >= base && last < base + (1 << 30), "it lies outside of its region")?;
    vmar.destroy()?;
    Ok(last - first)
}

fn map_upper_limit() -> Outcome {
    let (vmar, base) = region(64)?;
    let vmo = vmo(4)?;
    for _ in 0..16 {
        let at = vmar.map(READ | LIMIT, 16 * PAGE, &vmo, 0, PAGE)?;
        ensure(at >= base && at + PAGE <= base + 16 * PAGE, "it lies above the limit")?;
    }
    fails(vmar.map(READ | LIMIT, 16 * PAGE, &vmo, 0, PAGE), Status::NO_RESOURCES)?;
    fails(vmar.map(READ | LIMIT, 3 * PAGE, &vmo, 0, 4 * PAGE), Status::INVALID_ARGS)?;
    fails(vmar.map(READ | LIMIT, 65 * PAGE, &vmo, 0, PAGE), Status::INVALID_ARGS)?;
    for other in [SPECIFIC, abi::ZX_VM_SPECIFIC_OVERWRITE] {
        fails(vmar.map(READ | LIMIT | other, 32 * PAGE, &vmo, 0, PAGE), Status::INVALID_ARGS)?;
    }
    vmar.map(READ | LIMIT, 64 * PAGE, &vmo, 0, PAGE)?;
    // A limit at the region's end permits the whole region.
    let (whole, base) = region(64)?;
    equal(whole.map(READ | LIMIT, 64 * PAGE, &vmo, 0, 64 * PAGE)?, base)
}

fn map_upper_limit_denied() -> Outcome {
    let (vmar, _) = zx::startup::vmar_root_self().allocate(abi::ZX_VM_CAN_MAP_READ, 0, 16 * PAGE)?;
    fails(vmar.map(READ | LIMIT, 8 * PAGE, &vmo(1)?, 0, PAGE), Status::ACCESS_DENIED)?;
    fails(vmar.allocate(abi::ZX_VM_CAN_MAP_READ | LIMIT, 8 * PAGE, PAGE), Status::ACCESS_DENIED)
}

fn map_anywhere_at_an_offset() -> Outcome {
    let (vmar, _) = region(16)?;
    fails(vmar.map(READ, PAGE, &vmo(1)?, 0, PAGE), Status::INVALID_ARGS)
}

/// Addresses are random: they differ between address spaces and between mappings of one address space.
fn map_random_address() -> Outcome {
    let vmo = vmo(1)?;
    let job = zx::startup::job_default().ok_or("there is no default job")?;
    let (mut firsts, mut steps) = (Vec::new(), Vec::new());
    for _ in 0..8 {
        let (_process, vmar) = job.create_process("lots")?;
        let addresses = (0..8).map(|_| vmar.map(READ, 0, &vmo, 0, PAGE)).collect::<zx::Result<Vec<_>>>()?;
        firsts.push(addresses[0]);
        steps.extend(addresses.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])));
    }
    for list in [&mut firsts, &mut steps] {
        let all = list.len();
        list.sort_unstable();
        list.dedup();
        // Among 56 distances out of some hundreds some repeat; 8 addresses out of billions do not.
        ensure(list.len() * 2 > all, "addresses repeat")?;
    }
    equal(firsts.len(), 8)
}

/// Although places are random, the server finds a free page as long as there is one.
fn map_fills_a_region() -> Outcome {
    let (vmar, base) = region(300)?;
    let vmo = vmo(1)?;
    let mut addresses = (0..300).map(|_| vmar.map(READ, 0, &vmo, 0, PAGE)).collect::<zx::Result<Vec<_>>>()?;
    fails(vmar.map(READ, 0, &vmo, 0, PAGE), Status::NO_RESOURCES)?;
    addresses.sort_unstable();
    equal(addresses, (0..300).map(|page| base + page * PAGE).collect())?;
    vmar.unmap(base + 77 * PAGE, PAGE)?;
    equal(vmar.map(READ, 0, &vmo, 0, PAGE)?, base + 77 * PAGE)
}

/// The first and the last page of an address space can be mapped, those beyond cannot.
fn root_address_limits() -> Outcome {
    let tiny = TestProcess::new(crate::test_process::SPIN)?;
    let (vmar, vmo) = (&tiny.vmar, Vmo::create(PAGE as u64, 0)?);
    let info = vmar.info()?;
    equal(vmar.map(READ_WRITE | SPECIFIC, 0, &vmo, 0, PAGE)?, info.base)?;
    equal(vmar.map(READ_WRITE | SPECIFIC, info.len - PAGE, &vmo, 0, PAGE)?, info.base + info.len - PAGE)?;
    for (offset, len) in
        [(info.len, PAGE), (info.len - 2 * PAGE, 3 * PAGE), (1 << 47, PAGE), (usize::MAX - PAGE + 1, PAGE)]
    {
        fails(vmar.map(READ | abi::ZX_VM_SPECIFIC_OVERWRITE, offset, &vmo, 0, len), Status::INVALID_ARGS)?;
    }
    // Both pages are one memory: bytes written at one end are read at the other.
    equal(tiny.process.write_memory(info.base, b"ends")?, 4)?;
    let mut bytes = [0; 4];
    equal(tiny.process.read_memory(info.base + info.len - PAGE, &mut bytes)?, 4)?;
    equal(&bytes, b"ends")
}

/// Lengths that overflow, parts of pages, and invalid addresses for results: the calls fail and create nothing.
fn arguments_edges() -> Outcome {
    const RANGE: u32 = abi::ZX_VM_MAP_RANGE;
    const OVER: u32 = abi::ZX_VM_SPECIFIC_OVERWRITE;
    let (vmar, base) = region(16)?;
    let vmo = vmo(4)?;
    // Rounded up to pages, the length is 0.
    let round = usize::MAX - PAGE + 2;
    fails(vmar.allocate(CAN, 0, round), Status::INVALID_ARGS)?;
    fails(vmar.map(READ_WRITE, 0, &vmo, 0, round), Status::OUT_OF_RANGE)?;
    fails(vmar.map(READ | RANGE, 0, &vmo, 0, round), Status::OUT_OF_RANGE)?;
    let at = vmar.map(READ_WRITE | SPECIFIC, 2 * PAGE, &vmo, 0, 4 * PAGE)?;
    for from in [at - PAGE, at, at + PAGE] {
        fails(vmar.protect(READ, from, round), Status::INVALID_ARGS)?;
        fails(vmar.unmap(from, round), Status::INVALID_ARGS)?;
    }
    fails(vmar.protect(READ | abi::ZX_VM_CAN_MAP_WRITE, at, 4 * PAGE), Status::INVALID_ARGS)?;
    fails(vmar.protect(READ | 1 << 31, at, 4 * PAGE), Status::INVALID_ARGS)?;
    vmar.unmap(at, 4 * PAGE)?;
    // The end of the last possible page of a VMO cannot be represented; that of the page before it can.
    let last = u64::MAX - PAGE as u64 + 1;
    fails(vmar.map(READ_WRITE, 0, &vmo, last, PAGE), Status::OUT_OF_RANGE)?;
    let far = vmar.map(READ_WRITE | abi::ZX_VM_ALLOW_FAULTS, 0, &vmo, last - PAGE as u64, PAGE)?;
    vmar.unmap(far, PAGE)?;
    for more in [0, RANGE] {
        fails(vmar.map(READ_WRITE | SPECIFIC | more, PAGE - 1, &vmo, 0, 4 * PAGE), Status::INVALID_ARGS)?;
        fails(vmar.map(READ_WRITE | SPECIFIC | more, PAGE, &vmo, PAGE as u64 - 1, 3 * PAGE), Status::INVALID_ARGS)?;
        fails(vmar.map(READ_WRITE | more, 0, &vmo, PAGE as u64 - 1, 3 * PAGE), Status::INVALID_ARGS)?;
    }
    for options in [SPECIFIC | LIMIT, OVER | LIMIT, abi::ZX_VM_PERM_READ, 1 << 31] {
        fails(vmar.allocate(abi::ZX_VM_CAN_MAP_READ | options, PAGE, 4 * PAGE), Status::INVALID_ARGS)?;
    }
    fails(vmar.allocate(CAN, 0, PAGE - 1), Status::INVALID_ARGS)?;
    fails(vmar.allocate(CAN | SPECIFIC, PAGE - 1, PAGE), Status::INVALID_ARGS)?;
    for options in [abi::ZX_VM_CAN_MAP_EXECUTE, 1 << 31] {
        fails(vmar.map(READ_WRITE | options, 0, &vmo, 0, 4 * PAGE), Status::INVALID_ARGS)?;
    }
    let (handle, object) = (vmar.raw_handle(), vmo.raw_handle());
    let (mut child, mut place) = (0_u32, 0_usize);
    gives(raw!(zx_vmar_allocate, handle, CAN, 0, 4 * PAGE, &raw mut child, 1), Status::INVALID_ARGS)?;
    gives(raw!(zx_vmar_allocate, handle, CAN, 0, 4 * PAGE, 1, &raw mut place), Status::INVALID_ARGS)?;
    gives(raw!(zx_vmar_map, handle, READ_WRITE, 0, object, 0, 4 * PAGE, 1), Status::INVALID_ARGS)?;
    equal(vmo.info()?.num_mappings, 0)?;
    equal(vmar.allocate(CAN | SPECIFIC, 0, 16 * PAGE)?.1, base)
}
