//! Resources: ranges of the machine, and which programs can get them.

use abi::{
    Rights, Status, ZX_RSRC_FLAG_EXCLUSIVE, ZX_RSRC_KIND_COUNT, ZX_RSRC_KIND_IOPORT, ZX_RSRC_KIND_IRQ,
    ZX_RSRC_KIND_MMIO, ZX_RSRC_KIND_ROOT, ZX_RSRC_KIND_SYSTEM, ZX_RSRC_SYSTEM_INFO_BASE, ZX_RSRC_SYSTEM_VMEX_BASE,
    zx_info_resource_t,
};
use zx::{AsHandleRef, Info, Resource, Vmo};

use super::{cases, raw, root_resource, without};
use crate::check::{Failure, Outcome, equal, fails, gives};

cases! {
    "resource.create.whole_space" => whole_space,
    "resource.create.as_asked_for" => as_asked_for,
    "resource.create.arguments" => arguments,
    "resource.create.rights" => rights,
    "resource.create.names" => names,
    "resource.create.slice" => slice,
    "resource.create.exclusive_then_shared" => exclusive_then_shared,
    "resource.create.shared_then_exclusive" => shared_then_exclusive,
    "resource.create.other_kind" => other_kind,
    "resource.create.gone_is_free" => gone_is_free,
    "vmo.replace_as_executable.resource" => replace_as_executable,
}

/// Addresses at which a PC has no memory and, as far as the tests are concerned, no device that another program could
/// request.
const BASE: u64 = 0x80_0000_0000;
const SIZE: usize = 0x10_0000;
const EXCLUSIVE: u32 = ZX_RSRC_FLAG_EXCLUSIVE;

fn memory(parent: &Resource, flags: u32, base: u64, size: usize) -> zx::Result<Resource> {
    parent.create_child(ZX_RSRC_KIND_MMIO | flags, base, size, "test")
}

/// Kind, flags, base, size.
fn info(resource: &Resource) -> Result<(u32, u32, u64, usize), Failure> {
    let record = record(resource)?;
    Ok((record.kind, record.flags, record.base, record.size))
}

fn record(resource: &Resource) -> Result<zx_info_resource_t, Failure> {
    let mut bytes = [0; size_of::<zx_info_resource_t>()];
    resource.get_info(abi::ZX_INFO_RESOURCE, &mut bytes)?;
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
    let mut name = [0; 32];
    name.copy_from_slice(&bytes[24..56]);
    Ok(zx_info_resource_t { kind: word(0), flags: word(4), base: long(8), size: long(16) as usize, name })
}

fn whole_space() -> Outcome {
    // The case searches for a free megabyte that it can get exclusively.
    let root = root_resource()?;
    let found = (0..0x1000).map(|n| BASE + n * SIZE as u64).find(|&base| memory(&root, EXCLUSIVE, base, SIZE).is_ok());
    let base = found.ok_or("no part of the address space is to be had")?;
    equal(info(&memory(&root, EXCLUSIVE, base, SIZE)?)?, (ZX_RSRC_KIND_MMIO, EXCLUSIVE, base, SIZE))?;
    // Up to the last byte of the address space, but not beyond.
    memory(&root, 0, u64::MAX - 4095, 4095)?;
    fails(memory(&root, 0, u64::MAX - 4095, 4097), Status::INVALID_ARGS)
}

fn as_asked_for() -> Outcome {
    let root = root_resource()?;
    let resource = memory(&root, 0, BASE, SIZE)?;
    equal(info(&resource)?, (ZX_RSRC_KIND_MMIO, 0, BASE, SIZE))?;
    equal(&record(&resource)?.name[..5], b"test\0")?;
    let basic = resource.basic_info()?;
    equal((basic.type_, basic.rights), (abi::ZX_OBJ_TYPE_RESOURCE, abi::ZX_DEFAULT_RESOURCE_RIGHTS.bits()))?;
    let whole = root.create_child(ZX_RSRC_KIND_ROOT, 0, 0, "root too")?;
    equal(info(&whole)?, (ZX_RSRC_KIND_ROOT, 0, 0, 0))?;
    equal(&record(&whole)?.name[..9], b"root too\0")?;
    // An exclusive child with a name.
    let place = BASE + 16 * SIZE as u64;
    let exclusive = whole.create_child(ZX_RSRC_KIND_MMIO | EXCLUSIVE, place, SIZE, "alone")?;
    equal(info(&exclusive)?, (ZX_RSRC_KIND_MMIO, EXCLUSIVE, place, SIZE))?;
    equal(&record(&exclusive)?.name[..6], b"alone\0")?;
    for (kind, base, size) in [(ZX_RSRC_KIND_IRQ, 5, 1), (ZX_RSRC_KIND_IOPORT, 0x2f8, 8), (ZX_RSRC_KIND_SYSTEM, 3, 1)] {
        equal(info(&whole.create_child(kind, base, size, "")?)?, (kind, 0, base, size))?;
    }
    Ok(())
}

fn arguments() -> Outcome {
    let root = root_resource()?;
    let resource = memory(&root, 0, BASE, SIZE)?;
    // A range that the parent does not contain, or another kind, is refused before any other error.
    for (kind, base, size) in [
        (ZX_RSRC_KIND_ROOT, 0, 0),
        (ZX_RSRC_KIND_ROOT, BASE, 4096),
        (ZX_RSRC_KIND_IRQ, 0, 0),
        (ZX_RSRC_KIND_IRQ, BASE, SIZE),
        (ZX_RSRC_KIND_MMIO | EXCLUSIVE, BASE, SIZE + 1),
    ] {
        fails(resource.create_child(kind, base, size, ""), Status::ACCESS_DENIED)?;
    }
    for parent in [&*root, &resource] {
        for kind in [ZX_RSRC_KIND_COUNT, ZX_RSRC_KIND_COUNT + 1, 0xffff] {
            fails(parent.create_child(kind, BASE, SIZE, ""), Status::INVALID_ARGS)?;
        }
        fails(memory(parent, 0, u64::MAX, 1024), Status::INVALID_ARGS)?;
        fails(memory(parent, 0, 1024, usize::MAX), Status::INVALID_ARGS)?;
        for flags in [0x2_0000, 0xff_0000, 1 << 31] {
            fails(memory(parent, flags, BASE, SIZE), Status::INVALID_ARGS)?;
        }
    }
    // An empty range is invalid and does not mean everything.
    let first = memory(&root, 0, 0, 4096)?;
    fails(memory(&first, 0, 0, 0), Status::INVALID_ARGS)?;
    fails(memory(&root, 0, BASE, 0), Status::INVALID_ARGS)?;
    fails(root.create_child(ZX_RSRC_KIND_ROOT, 1, 0, ""), Status::INVALID_ARGS)?;
    fails(root.create_child(ZX_RSRC_KIND_ROOT, 0, 1, ""), Status::INVALID_ARGS)
}

fn rights() -> Outcome {
    let resource = memory(&*root_resource()?, 0, BASE, SIZE)?;
    let weak = Resource::from(without(&resource, Rights::WRITE)?);
    fails(memory(&weak, 0, BASE, SIZE), Status::ACCESS_DENIED)?;
    let event = zx::Event::create()?;
    let mut out = 0_u32;
    let create = |parent: u32| raw!(zx_resource_create, parent, ZX_RSRC_KIND_MMIO, BASE, SIZE, 0, 0, &raw mut out);
    let mut create = create;
    gives(create(event.raw_handle()), Status::WRONG_TYPE)?;
    gives(create(0), Status::BAD_HANDLE)?;
    equal(out, 0)
}

fn names() -> Outcome {
    let root = root_resource()?;
    let long = "x".repeat(100);
    let named = root.create_child(ZX_RSRC_KIND_MMIO, BASE, SIZE, &long)?;
    let name = record(&named)?.name;
    equal((name[30], name[31]), (b'x', 0))?;
    equal(record(&root.create_child(ZX_RSRC_KIND_MMIO, BASE, SIZE, "")?)?.name, [0; 32])
}

fn slice() -> Outcome {
    let parent = memory(&*root_resource()?, 0, BASE, SIZE)?;
    let half = SIZE / 2;
    let middle = BASE + SIZE as u64 / 4;
    let child = memory(&parent, 0, middle, half)?;
    equal(info(&child)?, (ZX_RSRC_KIND_MMIO, 0, middle, half))?;
    // A child can be as large as its parent, but not larger on either side.
    memory(&child, 0, middle, half)?;
    for (base, size) in
        [(middle, half + 1), (middle - 1, half), (middle - 1, 1), (middle + half as u64, 1), (BASE, SIZE)]
    {
        fails(memory(&child, 0, base, size), Status::ACCESS_DENIED)?;
    }
    // A part of a shared range cannot become exclusive.
    let only = memory(&parent, EXCLUSIVE, BASE + SIZE as u64 - 4096, 4096);
    fails(only, Status::INVALID_ARGS)?;
    let grandchild = memory(&child, 0, middle + 4096, 4096)?;
    // The parents can be closed.
    drop((child, parent));
    memory(&grandchild, 0, middle + 4096, 1)?;
    Ok(())
}

fn exclusive_then_shared() -> Outcome {
    let root = root_resource()?;
    let exclusive = memory(&root, EXCLUSIVE, BASE, SIZE)?;
    for (flags, base, size) in [(0, BASE, SIZE), (0, BASE + 1, 1), (0, BASE - 1, 2), (EXCLUSIVE, BASE, SIZE)] {
        fails(memory(&root, flags, base, size), Status::NOT_FOUND)?;
    }
    memory(&root, 0, BASE - 1, 1)?;
    memory(&root, 0, BASE + SIZE as u64, 1)?;
    // The owner of an exclusive range cannot divide it.
    for (flags, size) in [(0, 1), (0, SIZE), (EXCLUSIVE, SIZE)] {
        fails(memory(&exclusive, flags, BASE, size), Status::INVALID_ARGS)?;
    }
    fails(memory(&exclusive, 0, BASE, SIZE + 1), Status::ACCESS_DENIED)
}

fn shared_then_exclusive() -> Outcome {
    let root = root_resource()?;
    let shared = [memory(&root, 0, BASE, SIZE)?, memory(&root, 0, BASE, SIZE)?];
    fails(memory(&root, EXCLUSIVE, BASE, SIZE), Status::NOT_FOUND)?;
    fails(memory(&root, EXCLUSIVE, BASE + SIZE as u64 - 1, 4096), Status::NOT_FOUND)?;
    let [one, other] = shared;
    drop(one);
    fails(memory(&root, EXCLUSIVE, BASE, SIZE), Status::NOT_FOUND)?;
    drop(other);
    memory(&root, EXCLUSIVE, BASE, SIZE)?;
    Ok(())
}

fn other_kind() -> Outcome {
    let root = root_resource()?;
    let memory = memory(&root, EXCLUSIVE, BASE, SIZE)?;
    // The same numbers of another kind are a different range.
    let interrupts = root.create_child(ZX_RSRC_KIND_IRQ | EXCLUSIVE, BASE, SIZE, "")?;
    fails(interrupts.create_child(ZX_RSRC_KIND_MMIO, BASE, 1, ""), Status::ACCESS_DENIED)?;
    fails(memory.create_child(ZX_RSRC_KIND_IRQ, BASE, 1, ""), Status::ACCESS_DENIED)
}

fn gone_is_free() -> Outcome {
    let root = root_resource()?;
    for _ in 0..100 {
        memory(&root, EXCLUSIVE, BASE, SIZE)?;
    }
    Ok(())
}

fn replace_as_executable() -> Outcome {
    let root = root_resource()?;
    let vmo = || -> Result<Vmo, Failure> { Ok(Vmo::create(4096, 0)?) };
    let system = |base| root.create_child(ZX_RSRC_KIND_SYSTEM, base, 1, "");
    for resource in [root.duplicate(Rights::SAME_RIGHTS)?, system(ZX_RSRC_SYSTEM_VMEX_BASE)?] {
        let executable = vmo()?.replace_as_executable(Some(&resource))?;
        let held = executable.basic_info()?.rights;
        equal(held, (abi::ZX_DEFAULT_VMO_RIGHTS | Rights::EXECUTE).bits())?;
        // A handle with few rights keeps them, and gets the right to execute.
        let little = vmo()?.replace(Rights::READ)?.replace_as_executable(Some(&resource))?;
        equal(little.basic_info()?.rights, (Rights::READ | Rights::EXECUTE).bits())?;
    }
    let little = vmo()?.replace(Rights::READ)?.replace_as_executable(None)?;
    equal(little.basic_info()?.rights, (Rights::READ | Rights::EXECUTE).bits())?;
    let other = vmo()?;
    let (lost, mut out) = (vmo()?.into_handle().into_raw(), 0_u32);
    gives(raw!(zx_vmo_replace_as_executable, lost, other.raw_handle(), &raw mut out), Status::WRONG_TYPE)?;
    let wrong = system(ZX_RSRC_SYSTEM_INFO_BASE)?;
    fails(vmo()?.replace_as_executable(Some(&wrong)), Status::OUT_OF_RANGE)?;
    fails(vmo()?.replace_as_executable(Some(&memory(&root, 0, BASE, SIZE)?)), Status::WRONG_TYPE)?;
    // The handle is consumed even then, whatever it refers to.
    let lost = vmo()?.into_handle().into_raw();
    let mut out = 0_u32;
    gives(raw!(zx_vmo_replace_as_executable, lost, wrong.raw_handle(), &raw mut out), Status::OUT_OF_RANGE)?;
    fails(zx::HandleRef::from_raw(lost).check_valid(), Status::BAD_HANDLE)?;
    let event = zx::Event::create()?.into_handle().into_raw();
    gives(raw!(zx_vmo_replace_as_executable, event, 0, &raw mut out), Status::WRONG_TYPE)?;
    fails(zx::HandleRef::from_raw(event).check_valid(), Status::BAD_HANDLE)?;
    equal(out, 0)
}
