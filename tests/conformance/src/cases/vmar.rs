//! Address regions and mappings.

use abi::{Rights, Status};
use zx::{AsHandleRef, Vmar, Vmo};

use super::{cases, without};
use crate::check::{Failure, Outcome, ensure, equal, fails};
use crate::test_process;

cases! {
    "vmar.map.shares_the_object" => map_shares_the_object,
    "vmar.map.two_mappings" => map_two_mappings,
    "vmar.map.offset_into_the_object" => map_offset_into_the_object,
    "vmar.map.specific" => map_specific,
    "vmar.map.specific_taken" => map_specific_taken,
    "vmar.map.length" => map_length,
    "vmar.map.unaligned" => map_unaligned,
    "vmar.map.beyond_the_region" => map_beyond_the_region,
    "vmar.map.write_right" => map_write_right,
    "vmar.map.execute_right" => map_execute_right,
    "vmar.map.region_forbids" => map_region_forbids,
    "vmar.map.outlives_the_handle" => map_outlives_the_handle,
    "vmar.map.many" => map_many,
    "vmar.map.read_right" => map_read_right,
    "vmar.map.require_non_resizable" => map_require_non_resizable,
    "vmar.map.upper_limit_unaligned" => map_upper_limit_unaligned,
    "vmar.map.nothing" => map_nothing,
    "vmar.map.range_of_the_second_part" => map_range_of_the_second_part,
    "vmar.map.bad_result_keeps_old_mappings" => map_bad_result_keeps,
    "vmar.allocate.nothing" => allocate_nothing,
    "vmar.unmap.whole" => unmap_whole,
    "vmar.unmap.middle" => unmap_middle,
    "vmar.unmap.nothing_there" => unmap_nothing_there,
    "vmar.protect.takes_effect" => protect_takes_effect,
    "vmar.protect.not_mapped" => protect_not_mapped,
    "vmar.protect.more_than_mapped_with" => protect_more,
    "vmar.allocate.inside_the_parent" => allocate_inside_the_parent,
    "vmar.allocate.specific_taken" => allocate_specific_taken,
    "vmar.destroy.unmaps" => destroy_unmaps,
    "vmar.destroy.region_is_dead" => destroy_region_is_dead,
    "vmar.read_only.write_ends_the_process" => read_only_write_ends,
    "vmar.unmapped.read_ends_the_process" => unmapped_read_ends,
}

pub(super) const PAGE: usize = 4096;
pub(super) const READ: u32 = abi::ZX_VM_PERM_READ;
pub(super) const READ_WRITE: u32 = abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_WRITE;

/// A region for one case, apart from the rest of the process.
pub(super) fn region(pages: usize) -> Result<(Vmar, usize), Failure> {
    let can = abi::ZX_VM_CAN_MAP_READ | abi::ZX_VM_CAN_MAP_WRITE | abi::ZX_VM_CAN_MAP_SPECIFIC;
    Ok(zx::startup::vmar_root_self().allocate(can, 0, pages * PAGE)?)
}

pub(super) fn vmo(pages: usize) -> zx::Result<Vmo> {
    Vmo::create((pages * PAGE) as u64, 0)
}

fn map_shares_the_object() -> Outcome {
    let (vmar, _) = region(16)?;
    let vmo = vmo(2)?;
    let mapping = vmar.map_here(READ_WRITE, &vmo, 0, 2 * PAGE)?;
    mapping.write(PAGE - 2, b"across")?;
    let mut bytes = [0; 6];
    vmo.read(&mut bytes, PAGE as u64 - 2)?;
    equal(&bytes, b"across")?;
    vmo.write(b"backward", 10)?;
    let mut bytes = [0; 8];
    mapping.read(10, &mut bytes)?;
    equal(&bytes, b"backward")
}

fn map_two_mappings() -> Outcome {
    let (vmar, _) = region(16)?;
    let vmo = vmo(1)?;
    let (one, two) = (vmar.map_here(READ_WRITE, &vmo, 0, PAGE)?, vmar.map_here(READ, &vmo, 0, PAGE)?);
    ensure(one.address() != two.address(), "both are at one place")?;
    one.write(99, b"same")?;
    let mut bytes = [0; 4];
    two.read(99, &mut bytes)?;
    equal(&bytes, b"same")
}

fn map_offset_into_the_object() -> Outcome {
    let (vmar, _) = region(16)?;
    let vmo = vmo(4)?;
    vmo.write(b"third page", 2 * PAGE as u64)?;
    let mapping = vmar.map_here(READ, &vmo, 2 * PAGE as u64, PAGE)?;
    let mut bytes = [0; 10];
    mapping.read(0, &mut bytes)?;
    equal(&bytes, b"third page")
}

fn map_specific() -> Outcome {
    let (vmar, base) = region(16)?;
    equal(vmar.map(READ | abi::ZX_VM_SPECIFIC, 5 * PAGE, &vmo(1)?, 0, PAGE)?, base + 5 * PAGE)
}

fn map_specific_taken() -> Outcome {
    let (vmar, _) = region(16)?;
    vmar.map(READ | abi::ZX_VM_SPECIFIC, 5 * PAGE, &vmo(2)?, 0, 2 * PAGE)?;
    fails(vmar.map(READ | abi::ZX_VM_SPECIFIC, 6 * PAGE, &vmo(2)?, 0, 2 * PAGE), Status::ALREADY_EXISTS)
}

fn map_length() -> Outcome {
    let (vmar, _) = region(16)?;
    fails(vmar.map(READ, 0, &vmo(1)?, 0, 0), Status::INVALID_ARGS)?;
    ensure(vmar.map(READ, 0, &vmo(1)?, 0, 17 * PAGE).is_err(), "more fits than there is room")?;
    ensure(vmar.map(READ, 0, &vmo(1)?, 0, usize::MAX).is_err(), "everything fits")
}

fn map_unaligned() -> Outcome {
    let (vmar, _) = region(16)?;
    fails(vmar.map(READ | abi::ZX_VM_SPECIFIC, 100, &vmo(1)?, 0, PAGE), Status::INVALID_ARGS)?;
    fails(vmar.map(READ, 0, &vmo(1)?, 100, PAGE), Status::INVALID_ARGS)
}

fn map_beyond_the_region() -> Outcome {
    let (vmar, _) = region(16)?;
    let result = vmar.map(READ | abi::ZX_VM_SPECIFIC, 16 * PAGE, &vmo(1)?, 0, PAGE);
    ensure(result.is_err(), "it lies outside of its region")
}

fn map_write_right() -> Outcome {
    let (vmar, _) = region(16)?;
    let vmo = Vmo::from(without(&vmo(1)?, Rights::WRITE)?);
    fails(vmar.map(READ_WRITE, 0, &vmo, 0, PAGE), Status::ACCESS_DENIED)?;
    vmar.map(READ, 0, &vmo, 0, PAGE)?;
    Ok(())
}

fn map_execute_right() -> Outcome {
    // An ordinary VMO cannot be executed.
    let vmar = zx::startup::vmar_root_self();
    fails(vmar.map(READ | abi::ZX_VM_PERM_EXECUTE, 0, &vmo(1)?, 0, PAGE), Status::ACCESS_DENIED)
}

fn map_region_forbids() -> Outcome {
    let (vmar, _) = zx::startup::vmar_root_self().allocate(abi::ZX_VM_CAN_MAP_READ, 0, 16 * PAGE)?;
    fails(vmar.map(READ_WRITE, 0, &vmo(1)?, 0, PAGE), Status::ACCESS_DENIED)?;
    for place in [abi::ZX_VM_SPECIFIC, abi::ZX_VM_SPECIFIC_OVERWRITE] {
        for offset in [0, PAGE] {
            fails(vmar.map(READ | place, offset, &vmo(1)?, 0, PAGE), Status::ACCESS_DENIED)?;
        }
    }
    let option = abi::ZX_VM_CAN_MAP_READ | abi::ZX_VM_SPECIFIC;
    fails(vmar.allocate(option, PAGE, PAGE), Status::ACCESS_DENIED)?;
    vmar.map(READ, 0, &vmo(1)?, 0, PAGE)?;
    Ok(())
}

fn map_outlives_the_handle() -> Outcome {
    let (vmar, _) = region(16)?;
    let vmo = vmo(1)?;
    vmo.write(b"alive", 0)?;
    let mapping = vmar.map_here(READ, &vmo, 0, PAGE)?;
    drop(vmo);
    let mut bytes = [0; 5];
    mapping.read(0, &mut bytes)?;
    equal(&bytes, b"alive")
}

fn map_many() -> Outcome {
    let (vmar, _) = region(1024)?;
    let vmo = vmo(1)?;
    let mappings = (0..500).map(|_| vmar.map_here(READ_WRITE, &vmo, 0, PAGE)).collect::<zx::Result<Vec<_>>>()?;
    let mut addresses: Vec<usize> = mappings.iter().map(zx::Mapping::address).collect();
    addresses.sort_unstable();
    ensure(addresses.windows(2).all(|pair| pair[0] + PAGE <= pair[1]), "two mappings overlap")?;
    mappings[0].write(0, b"all")?;
    let mut bytes = [0; 3];
    mappings[499].read(0, &mut bytes)?;
    equal(&bytes, b"all")
}

fn unmap_whole() -> Outcome {
    let (vmar, base) = region(16)?;
    let place = READ | abi::ZX_VM_SPECIFIC;
    vmar.map(place, 0, &vmo(2)?, 0, 2 * PAGE)?;
    vmar.unmap(base, 2 * PAGE)?;
    vmar.map(place, 0, &vmo(2)?, 0, 2 * PAGE)?;
    Ok(())
}

fn unmap_middle() -> Outcome {
    let (vmar, base) = region(16)?;
    let vmo = vmo(3)?;
    vmo.write(b"1", 0)?;
    vmo.write(b"3", 2 * PAGE as u64)?;
    vmar.map(READ | abi::ZX_VM_SPECIFIC, 0, &vmo, 0, 3 * PAGE)?;
    vmar.unmap(base + PAGE, PAGE)?;
    equal((zx::probe::read(base), zx::probe::read(base + 2 * PAGE)), (b'1', b'3'))?;
    // The gap can be mapped again.
    vmar.map(READ | abi::ZX_VM_SPECIFIC, PAGE, &vmo, 0, PAGE)?;
    equal(zx::probe::read(base + PAGE), b'1')
}

fn unmap_nothing_there() -> Outcome {
    let (vmar, base) = region(16)?;
    // Unmapped parts are skipped, even if the whole range is unmapped.
    Ok(vmar.unmap(base, PAGE)?)
}

fn protect_takes_effect() -> Outcome {
    let (vmar, base) = region(16)?;
    vmar.map(READ_WRITE | abi::ZX_VM_SPECIFIC, 0, &vmo(1)?, 0, PAGE)?;
    zx::probe::write(base, 1);
    vmar.protect(READ, base, PAGE)?;
    equal(zx::probe::read(base), 1)?;
    // The server itself must not write there for a program either.
    let mut koid = zx::Event::create()?;
    let status = super::raw!(zx_event_create, 0, base);
    equal(status, Status::INVALID_ARGS)?;
    vmar.protect(READ_WRITE, base, PAGE)?;
    zx::probe::write(base, 2);
    koid = koid.replace(Rights::SAME_RIGHTS)?;
    drop(koid);
    equal(zx::probe::read(base), 2)
}

fn protect_not_mapped() -> Outcome {
    let (vmar, base) = region(16)?;
    fails(vmar.protect(READ, base, PAGE), Status::NOT_FOUND)
}

fn protect_more() -> Outcome {
    let (vmar, base) = region(16)?;
    let vmo = Vmo::from(without(&vmo(1)?, Rights::WRITE)?);
    vmar.map(READ | abi::ZX_VM_SPECIFIC, 0, &vmo, 0, PAGE)?;
    fails(vmar.protect(READ_WRITE, base, PAGE), Status::ACCESS_DENIED)
}

fn allocate_inside_the_parent() -> Outcome {
    let (vmar, base) = region(64)?;
    let (child, address) = vmar.allocate(abi::ZX_VM_CAN_MAP_READ, 0, 8 * PAGE)?;
    ensure(address >= base && address + 8 * PAGE <= base + 64 * PAGE, "it lies outside of its parent")?;
    let info = child.info()?;
    equal((info.base, info.len), (address, 8 * PAGE))
}

fn allocate_specific_taken() -> Outcome {
    let (vmar, base) = region(64)?;
    let options = abi::ZX_VM_CAN_MAP_READ | abi::ZX_VM_SPECIFIC;
    let (_child, address) = vmar.allocate(options, 8 * PAGE, 8 * PAGE)?;
    equal(address, base + 8 * PAGE)?;
    fails(vmar.allocate(options, 12 * PAGE, 8 * PAGE), Status::ALREADY_EXISTS)?;
    fails(vmar.map(READ | abi::ZX_VM_SPECIFIC, 12 * PAGE, &vmo(1)?, 0, PAGE), Status::ALREADY_EXISTS)
}

fn destroy_unmaps() -> Outcome {
    let (vmar, base) = region(64)?;
    let can = abi::ZX_VM_CAN_MAP_READ | abi::ZX_VM_SPECIFIC;
    let (child, _) = vmar.allocate(can, 0, 8 * PAGE)?;
    child.map(READ, 0, &vmo(1)?, 0, PAGE)?;
    child.destroy()?;
    // The region's range is free.
    equal(vmar.map(READ | abi::ZX_VM_SPECIFIC, 0, &vmo(8)?, 0, 8 * PAGE)?, base)
}

fn destroy_region_is_dead() -> Outcome {
    let (vmar, base) = region(16)?;
    vmar.destroy()?;
    fails(vmar.map(READ, 0, &vmo(1)?, 0, PAGE), Status::BAD_STATE)?;
    fails(vmar.unmap(base, PAGE), Status::BAD_STATE)?;
    fails(vmar.allocate(abi::ZX_VM_CAN_MAP_READ, 0, PAGE), Status::BAD_STATE)?;
    fails(vmar.destroy(), Status::BAD_STATE)
}

/// Runs `code` in a test process with a page at a known address, mapped with these options.
fn with_page(options: Option<u32>, code: &[u8]) -> Outcome {
    let tiny = test_process::TestProcess::new(code)?;
    if let Some(options) = options {
        tiny.vmar.map(options | abi::ZX_VM_SPECIFIC, 0x300_0000, &vmo(1)?, 0, PAGE)?;
    }
    let base = tiny.vmar.info()?.base;
    tiny.start(None, base + 0x300_0000)?;
    equal(tiny.end()?, test_process::EXCEPTION)
}

fn read_only_write_ends() -> Outcome {
    // mov al, [rsi]; mov [rsi], al
    with_page(Some(READ), &[0x8a, 0x06, 0x88, 0x06, 0xeb, 0xfe])
}

fn unmapped_read_ends() -> Outcome {
    // mov al, [rsi]
    with_page(None, &[0x8a, 0x06, 0xeb, 0xfe])
}

/// Every mapping needs the right to read from the VMO's handle.
fn map_read_right() -> Outcome {
    let (vmar, _) = region(4)?;
    let vmo = Vmo::from(without(&vmo(1)?, Rights::READ)?);
    fails(vmar.map(READ, 0, &vmo, 0, PAGE), Status::ACCESS_DENIED)?;
    fails(vmar.map(READ_WRITE, 0, &vmo, 0, PAGE), Status::ACCESS_DENIED)
}

fn map_require_non_resizable() -> Outcome {
    let (vmar, _) = region(4)?;
    let resizable = Vmo::create(PAGE as u64, abi::ZX_VMO_RESIZABLE)?;
    let option = READ | abi::ZX_VM_REQUIRE_NON_RESIZABLE;
    fails(vmar.map(option, 0, &resizable, 0, PAGE), Status::NOT_SUPPORTED)?;
    vmar.map(option, 0, &vmo(1)?, 0, PAGE)?;
    Ok(())
}

fn map_upper_limit_unaligned() -> Outcome {
    let (vmar, base) = region(8)?;
    let option = READ | abi::ZX_VM_OFFSET_IS_UPPER_LIMIT;
    fails(vmar.map(option, 4 * PAGE + 1, &vmo(1)?, 0, PAGE), Status::INVALID_ARGS)?;
    let at = vmar.map(option, 4 * PAGE, &vmo(1)?, 0, PAGE)?;
    ensure(at >= base && at + PAGE <= base + 4 * PAGE, "it lies above the limit")
}

fn map_nothing() -> Outcome {
    let (vmar, _) = region(4)?;
    fails(vmar.map(READ, 0, &vmo(1)?, 0, 0), Status::INVALID_ARGS)
}

fn allocate_nothing() -> Outcome {
    let (vmar, _) = region(4)?;
    fails(vmar.allocate(abi::ZX_VM_CAN_MAP_READ, 0, 0), Status::INVALID_ARGS)
}

/// Mapping in advance shows the same pages as faults would, also where the mapping begins inside the VMO.
fn map_range_of_the_second_part() -> Outcome {
    let (vmar, _) = region(8)?;
    let vmo = vmo(4)?;
    for page in 0..4_u8 {
        vmo.write(&[b'a' + page], u64::from(page) * PAGE as u64)?;
    }
    let mapping = vmar.map_here(READ_WRITE | abi::ZX_VM_MAP_RANGE, &vmo, PAGE as u64, 3 * PAGE)?;
    for page in 0..3_u8 {
        let mut byte = [0];
        mapping.read(usize::from(page) * PAGE, &mut byte)?;
        equal(byte, [b'b' + page])?;
    }
    // Without permissions no page is mapped in advance.
    let at = vmar.map(abi::ZX_VM_MAP_RANGE, 0, &vmo, 2 * PAGE as u64, PAGE)?;
    let status = super::raw!(zx_event_create, 0, at);
    equal(status, Status::INVALID_ARGS)?;
    vmar.protect(READ, at, PAGE)?;
    equal(zx::probe::read(at), b'c')
}

/// If the address cannot be returned, the old mapping stays.
fn map_bad_result_keeps() -> Outcome {
    let (vmar, _) = region(4)?;
    let (old, new) = (vmo(1)?, vmo(1)?);
    old.write(b"old", 0)?;
    new.write(b"new", 0)?;
    let mapping = vmar.map_here(READ_WRITE | abi::ZX_VM_SPECIFIC, &old, 0, PAGE)?;
    let options = READ_WRITE | abi::ZX_VM_SPECIFIC_OVERWRITE;
    let status = super::raw!(zx_vmar_map, vmar.raw_handle(), options, 0, new.raw_handle(), 0, PAGE, 0x1000);
    crate::check::gives(status, Status::INVALID_ARGS)?;
    let mut bytes = [0; 3];
    mapping.read(0, &mut bytes)?;
    equal(&bytes, b"old")
}
