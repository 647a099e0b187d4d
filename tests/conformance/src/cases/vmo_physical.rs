//! VMOs of device memory in the physical address space.
//!
//! They show two places that every supported machine has: the registers of the event timer (HPET), which anyone with
//! the resource can read, and the memory that shows the PCI configuration space.

use abi::{
    Rights, Status, ZX_BTI_CONTIGUOUS, ZX_BTI_PERM_READ, ZX_CACHE_POLICY_UNCACHED_DEVICE, ZX_RSRC_KIND_IRQ,
    ZX_RSRC_KIND_MMIO,
};
use zx::{AsHandleRef, Bti, Info, IoPorts, Iommu, Mapping, Resource, Vmar, Vmo};

use super::{cases, raw, root_resource};
use crate::check::{Failure, Outcome, ensure, equal, fails, gives};

cases! {
    "vmo.create_physical.whole_resource" => whole_resource,
    "vmo.create_physical.beyond_the_resource" => beyond_the_resource,
    "vmo.create_physical.unaligned" => unaligned,
    "vmo.create_physical.arguments" => arguments,
    "vmo.create_physical.memory" => memory,
    "vmo.create_physical.registers" => registers,
    "vmo.create_physical.configuration" => configuration,
    "vmo.create_physical.no_copies" => no_copies,
    "bti.pin.physical" => pin,
    "pci.cfg_pio_rw.reads" => pci_reads,
    "pci.cfg_pio_rw.writes" => pci_writes,
    "pci.cfg_pio_rw.arguments" => pci_arguments,
}

/// Physical address of the event timer.
const TIMER: usize = 0xfed0_0000;
const PAGE: usize = 4096;

fn resource(base: u64, size: usize) -> Result<Resource, Failure> {
    Ok(root_resource()?.create_child(ZX_RSRC_KIND_MMIO, base, size, "device")?)
}

fn timer() -> Result<Vmo, Failure> {
    Ok(Vmo::create_physical(&*root_resource()?, TIMER, PAGE)?)
}

/// Maps the first page of a VMO uncached, as drivers map devices.
fn registers_of<'v>(vmar: &'v Vmar, vmo: &Vmo) -> Result<Mapping<'v>, Failure> {
    gives(raw!(zx_vmo_set_cache_policy, vmo.raw_handle(), ZX_CACHE_POLICY_UNCACHED_DEVICE), Status::OK)?;
    Ok(vmar.map_here(abi::ZX_VM_PERM_READ, vmo, 0, PAGE)?)
}

fn word(mapping: &Mapping<'_>, offset: usize) -> Result<u32, Failure> {
    let word = mapping.word(offset).ok_or("not within the mapping")?;
    Ok(word.load(std::sync::atomic::Ordering::Relaxed))
}

fn whole_resource() -> Outcome {
    let vmo = Vmo::create_physical(&resource(TIMER as u64, PAGE)?, TIMER, PAGE)?;
    equal(vmo.get_size()?, PAGE as u64)?;
    let basic = vmo.basic_info()?;
    let rights = abi::ZX_DEFAULT_VMO_RIGHTS | Rights::EXECUTE;
    equal((basic.type_, basic.rights), (abi::ZX_OBJ_TYPE_VMO, rights.bits()))?;
    // Two VMOs from two resources show the same registers.
    let other = Vmo::create_physical(&resource(TIMER as u64 - 4096, 3 * PAGE)?, TIMER, PAGE)?;
    let vmar = zx::startup::vmar_root_self();
    let (one, other) = (registers_of(&vmar, &vmo)?, registers_of(&vmar, &other)?);
    equal(word(&one, 0)?, word(&other, 0)?)
}

fn beyond_the_resource() -> Outcome {
    // A VMO consists of whole pages; a smaller resource gives the page that it lies in, and no other.
    let half = resource(TIMER as u64, PAGE / 2)?;
    for size in [PAGE / 2, PAGE, 1] {
        equal(Vmo::create_physical(&half, TIMER, size)?.get_size()?, PAGE as u64)?;
    }
    let one = resource(TIMER as u64, PAGE)?;
    for small in [&half, &one] {
        for (address, size) in [(TIMER, 2 * PAGE), (TIMER - PAGE, PAGE), (TIMER + PAGE, PAGE), (0, PAGE)] {
            fails(Vmo::create_physical(small, address, size), Status::OUT_OF_RANGE)?;
        }
    }
    Vmo::create_physical(&one, TIMER, PAGE / 2)?;
    // A child resource gives only the pages of its own part.
    let slice = resource(TIMER as u64 - 4096, 2 * PAGE)?.create_child(ZX_RSRC_KIND_MMIO, TIMER as u64, PAGE, "")?;
    Vmo::create_physical(&slice, TIMER, PAGE)?;
    fails(Vmo::create_physical(&slice, TIMER - PAGE, 2 * PAGE), Status::OUT_OF_RANGE)
}

fn unaligned() -> Outcome {
    // The resource reaches from the middle of one page to the middle of the last one: at most three pages.
    let wide = resource(TIMER as u64 - 2048, 2 * PAGE)?;
    for (address, size) in [(TIMER - PAGE, 2 * PAGE), (TIMER - PAGE, 3 * PAGE), (TIMER + PAGE, PAGE)] {
        equal(Vmo::create_physical(&wide, address, size)?.get_size()?, size as u64)?;
    }
    for (address, size) in [(TIMER - PAGE, 4 * PAGE), (TIMER - 2 * PAGE, PAGE), (TIMER + 2 * PAGE, PAGE)] {
        fails(Vmo::create_physical(&wide, address, size), Status::OUT_OF_RANGE)?;
    }
    // The VMO's address must be a multiple of the page size.
    let root = root_resource()?;
    for resource in [&wide, &*root] {
        for offset in [1, 2048, 4095] {
            fails(Vmo::create_physical(resource, TIMER + offset, PAGE), Status::INVALID_ARGS)?;
        }
    }
    Ok(())
}

fn arguments() -> Outcome {
    let root = root_resource()?;
    let interrupts = root.create_child(ZX_RSRC_KIND_IRQ, TIMER as u64, PAGE, "")?;
    fails(Vmo::create_physical(&interrupts, TIMER, PAGE), Status::WRONG_TYPE)?;
    fails(Vmo::create_physical(&root, TIMER, 0), Status::INVALID_ARGS)?;
    fails(Vmo::create_physical(&root, TIMER, usize::MAX), Status::OUT_OF_RANGE)?;
    fails(Vmo::create_physical(&root, usize::MAX - PAGE + 1, PAGE), Status::INVALID_ARGS)
}

fn memory() -> Outcome {
    // Memory is never device memory, whatever the resource permits; neither are the kernel's own devices.
    let root = root_resource()?;
    for address in [0x10_0000, 0x100_0000, 0xfee0_0000, 0xfec0_0000] {
        fails(Vmo::create_physical(&root, address, PAGE), Status::INVALID_ARGS)?;
    }
    Ok(())
}

fn registers() -> Outcome {
    let vmar = zx::startup::vmar_root_self();
    let registers = registers_of(&vmar, &timer()?)?;
    // The vendor, the period of a count in femtoseconds, and a counter that runs.
    equal(word(&registers, 0)? >> 16, 0x8086)?;
    ensure((1..=100_000_000).contains(&word(&registers, 4)?), "no clock counts like that")?;
    let before = word(&registers, 0xf0)?;
    let limit = super::late();
    while word(&registers, 0xf0)? == before {
        ensure(zx::MonotonicInstant::now() < limit, "it does not count")?;
    }
    Ok(())
}

fn configuration() -> Outcome {
    let pci = IoPorts::request(&*root_resource()?, 0xcf8, 8)?;
    let by_ports = |offset: u32| {
        pci.write32(0, 1 << 31 | offset);
        pci.read32(4)
    };
    // The host bridge says where the memory is.
    let place = by_ports(0x60);
    ensure(place & 1 != 0, "PCI configuration is not shown in memory")?;
    let base = u64::from(place & 0xf000_0000);
    let vmo = Vmo::create_physical(&resource(base, 1 << 20)?, base as usize, 1 << 20)?;
    let vmar = zx::startup::vmar_root_self();
    let registers = registers_of(&vmar, &vmo)?;
    for offset in [0, 8, 0x2c] {
        equal(word(&registers, offset)?, by_ports(offset as u32))?;
    }
    Ok(())
}

fn no_copies() -> Outcome {
    let vmo = timer()?;
    fails(vmo.read(&mut [0; 8], 0), Status::NOT_SUPPORTED)?;
    fails(vmo.write(&[0; 8], 0), Status::NOT_SUPPORTED)?;
    fails(vmo.create_child(abi::ZX_VMO_CHILD_SNAPSHOT, 0, PAGE as u64), Status::NOT_SUPPORTED)?;
    // A system call does not accept a buffer in a device.
    let vmar = zx::startup::vmar_root_self();
    let registers = registers_of(&vmar, &vmo)?;
    let event = zx::Event::create()?;
    let status = raw!(zx_object_set_property, event.raw_handle(), abi::ZX_PROP_NAME, registers.address(), 8);
    ensure(status != Status::OK, "a device was read for a call")
}

fn pin() -> Outcome {
    let bti = Bti::create(&Iommu::create_stub(&*root_resource()?)?, 0)?;
    let base = 0xb000_0000_usize;
    let vmo = Vmo::create_physical(&*root_resource()?, base, 4 * PAGE)?;
    let mut addresses = [0; 4];
    bti.pin(ZX_BTI_PERM_READ, &vmo, 0, 4 * PAGE as u64, &mut addresses)?.unpin()?;
    equal(addresses, [0, 1, 2, 3].map(|page| (base + page * PAGE) as u64))?;
    let mut one = [0];
    bti.pin(ZX_BTI_PERM_READ | ZX_BTI_CONTIGUOUS, &vmo, PAGE as u64, PAGE as u64, &mut one)?.unpin()?;
    equal(one[0], addresses[1])
}

// --- pci ---

/// Bus, device, function and offset of a register.
type Register = (u8, u8, u8, u8);

fn pci(register: Register, width: usize, value: &mut u32, write: bool) -> Result<Status, Failure> {
    let root = root_resource()?.raw_handle();
    let (bus, device, function, offset) = register;
    let write = u32::from(write);
    Ok(raw!(zx_pci_cfg_pio_rw, root, bus, device, function, offset, std::ptr::from_mut(value).addr(), width, write))
}

fn read(register: Register, width: usize) -> Result<u32, Failure> {
    let mut value = 0;
    gives(pci(register, width, &mut value, false)?, Status::OK)?;
    Ok(value)
}

/// A register of the disk controller.
fn disk(offset: u8) -> Register {
    (0, 0x1f, 2, offset)
}

fn pci_reads() -> Outcome {
    let whole = read((0, 0, 0, 0), 32)?;
    equal(whole & 0xffff, 0x8086)?;
    equal((read((0, 0, 0, 0), 16)?, read((0, 0, 0, 2), 16)?), (whole & 0xffff, whole >> 16))?;
    for (n, byte) in whole.to_le_bytes().into_iter().enumerate() {
        equal(read((0, 0, 0, n as u8), 8)?, u32::from(byte))?;
    }
    // The class of the disk controller, and a device that does not exist.
    equal(read(disk(8), 32)? >> 16, 0x0106)?;
    equal(read((0xff, 31, 7, 0), 32)?, u32::MAX)
}

fn pci_writes() -> Outcome {
    // The byte in which software stores an interrupt number.
    let before = read(disk(0x3c), 8)?;
    let after = read(disk(0x3d), 8)?;
    for value in [0x12, 0x34, before] {
        let mut new = value | 0xabcd_ef00;
        gives(pci(disk(0x3c), 8, &mut new, true)?, Status::OK)?;
        equal(new, value | 0xabcd_ef00)?;
        equal((read(disk(0x3c), 8)?, read(disk(0x3d), 8)?), (value, after))?;
    }
    Ok(())
}

fn pci_arguments() -> Outcome {
    let mut value = 0;
    for width in [0, 1, 4, 7, 24, 64, usize::MAX] {
        gives(pci((0, 0, 0, 0), width, &mut value, false)?, Status::INVALID_ARGS)?;
    }
    for (register, width) in [((0, 32, 0, 0), 32), ((0, 0, 8, 0), 32), ((0, 0, 0, 3), 16), ((0, 0, 0, 1), 32)] {
        gives(pci(register, width, &mut value, false)?, Status::INVALID_ARGS)?;
    }
    equal(value, 0)
}
