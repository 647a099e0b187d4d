//! Access to the machine itself: physical memory by address, and I/O ports.

use abi::{Status, ZX_BTI_PERM_READ, ZX_VM_PERM_READ};
use conformance::check::{Case, Failure, Outcome, ensure, fails};
use zx::{Bti, IoPorts, Iommu, Resource, Vmo};

use crate::needle::Needle;
use crate::store::{Store, root};

pub fn cases() -> Vec<Case> {
    vec![
        crate::case("key.machine.physical_pages", physical_pages),
        crate::case("key.machine.physical_ranges", physical_ranges),
        crate::case("key.machine.pages_of_ones_own", pages_of_ones_own),
        crate::case("key.machine.ports", ports),
    ]
}

const PAGE: usize = 4096;
/// The machine's memory, from address 0 on: `MEMORY` in `xtask/conformance/src`.
const RAM: usize = 512 << 20;
/// The range below 1 MiB where a PC shows its firmware: the only memory that can be read.
const FIRMWARE: std::ops::Range<usize> = 0xf_0000..0x10_0000;
/// The ports of a QEMU device that copies from any physical address.
const COPIES: std::ops::Range<u32> = 0x510..0x51c;

/// Reads a physical VMO as a whole.
fn read(vmo: &Vmo, size: usize) -> Result<Vec<u8>, Failure> {
    let mut bytes = vec![0; size];
    zx::startup::vmar_root_self().map_here(ZX_VM_PERM_READ, vmo, 0, size)?.read(0, &mut bytes)?;
    Ok(bytes)
}

/// Searches a physical range if the server hands it out; returns its content.
fn look(root: &Resource, needle: &Needle, address: usize, size: usize) -> Result<Option<Vec<u8>>, Failure> {
    match Vmo::create_physical(root, address, size) {
        Ok(vmo) => {
            let bytes = read(&vmo, size)?;
            needle.is_absent(&bytes, || format!("physical memory at {address:#x}"))?;
            Ok(Some(bytes))
        }
        Err(Status::INVALID_ARGS) => Ok(None),
        Err(other) => Err(format!("physical memory at {address:#x}: {other}").into()),
    }
}

/// Each page of memory alone.
fn physical_pages(_: &Store, needle: &Needle) -> Outcome {
    let root = root()?;
    let (mut there, mut filled) = (0, false);
    for address in (0..RAM).step_by(PAGE) {
        let Some(bytes) = look(&root, needle, address, PAGE)? else { continue };
        there += 1;
        filled |= FIRMWARE.contains(&address) && bytes.iter().any(|byte| *byte != 0 && *byte != 0xff);
    }
    // The firmware's own range belongs to no owner: it is readable, and nothing else is.
    ensure(filled, "not even firmware was read")?;
    ensure(there < RAM / PAGE / 16, &format!("{there} pages of memory can be had by address"))
}

/// Ranges that begin in a device's memory and extend beyond it; large ones; ones that wrap around.
fn physical_ranges(_: &Store, needle: &Needle) -> Outcome {
    let root = root()?;
    for size in [2 << 20, 16 << 20, 256 << 20, RAM] {
        for address in (0..RAM).step_by(size) {
            look(&root, needle, address, size)?;
        }
    }
    for start in [0xa_0000, FIRMWARE.start, FIRMWARE.end - PAGE] {
        let ends = [FIRMWARE.end + PAGE, 16 << 20, RAM];
        for end in ends {
            fails(Vmo::create_physical(&root, start, end - start), Status::INVALID_ARGS)?;
        }
    }
    for (address, size) in [(0, 1 << 46), (PAGE, usize::MAX - PAGE + 1), (usize::MAX - PAGE + 1, 2 * PAGE)] {
        ensure(Vmo::create_physical(&root, address, size).is_err(), "all of memory can be had at once")?;
    }
    Ok(())
}

/// A BTI tells the physical addresses of a program's own pages. Memory at these addresses must not be available by
/// address.
fn pages_of_ones_own(_: &Store, _: &Needle) -> Outcome {
    let root = root()?;
    let bti = Bti::create(&Iommu::create_stub(&root)?, 1)?;
    let vmo = Vmo::create(64 * PAGE as u64, 0)?;
    let mut addresses = [0; 64];
    let pinned = bti.pin(ZX_BTI_PERM_READ, &vmo, 0, 64 * PAGE as u64, &mut addresses)?;
    for address in addresses {
        ensure(address < RAM as u64, "memory lies where none was looked for")?;
        fails(Vmo::create_physical(&root, address as usize, PAGE), Status::INVALID_ARGS)?;
    }
    Ok(pinned.unpin()?)
}

/// All ports that are available are read.
fn ports(_: &Store, needle: &Needle) -> Outcome {
    let root = root()?;
    let mut granted = 0;
    for port in 0..=u16::MAX {
        let ports = match IoPorts::request(&root, port, 1) {
            Ok(ports) => ports,
            Err(Status::ACCESS_DENIED) => continue,
            Err(other) => return Err(format!("port {port:#x}: {other}").into()),
        };
        ensure(!COPIES.contains(&u32::from(port)), "the device that copies memory is to be had")?;
        granted += 1;
        // Beyond these ports there are only the bus's devices, which are the same as in memory.
        if port < 0x1000 {
            let mut bytes = [0; 32];
            ports.read8_all(0, &mut bytes);
            needle.is_absent(&bytes, || format!("what port {port:#x} says"))?;
        }
    }
    ensure(granted > 0, "no port is to be had")?;
    for (first, count) in [(COPIES.start as u16, 12), (0x500, 0x100), (0, 0x1000), (0, 1 << 16)] {
        fails(IoPorts::request(&root, first, count), Status::ACCESS_DENIED)?;
    }
    Ok(())
}
