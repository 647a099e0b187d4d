//! I/O ports, accessed by the processor's own instructions.
//!
//! The ports are those of the real-time clock, which every PC has: a number written to the first port selects the byte
//! that the second port shows.

use abi::{Status, ZX_RSRC_KIND_IOPORT, ZX_RSRC_KIND_MMIO};
use zx::{AsHandleRef, IoPorts, Resource};

use super::{cases, raw, root_resource};
use crate::check::{Failure, Outcome, ensure, equal, fails};
use crate::puppet::{Puppet, function};
use crate::test_process::{self, OwnJob};

cases! {
    "ioports.request.arguments" => arguments,
    "ioports.request.resource" => resource,
    "ioports.request.the_systems" => the_systems,
    "ioports.use.bytes" => bytes,
    "ioports.use.words" => words,
    "ioports.use.strings" => strings,
    "ioports.use.not_granted" => not_granted,
    "ioports.use.released" => released,
    "ioports.use.other_process" => other_process,
}

const CLOCK: u16 = 0x70;
/// The clock's byte that says whether its battery is good: only bit 7 is used.
const VALID: u8 = 0x0d;
/// The seconds of the clock's alarm, which is off.
const ALARM: u8 = 0x01;
/// The ports that select and show PCI configuration space.
const PCI: u16 = 0xcf8;

fn clock() -> Result<IoPorts, Failure> {
    Ok(IoPorts::request(&*root_resource()?, CLOCK, 2)?)
}

fn ports(first: u16, count: u64) -> Result<Resource, Failure> {
    Ok(root_resource()?.create_child(ZX_RSRC_KIND_IOPORT, first.into(), count as usize, "ports")?)
}

fn arguments() -> Outcome {
    let root = root_resource()?;
    for (first, count) in [(0x70_u16, 0_u32), (0xffff, 2), (0, 0x1_0001), (1, u32::MAX)] {
        for call in [zx::sys::zx_ioports_request, zx::sys::zx_ioports_release] {
            let words = [u64::from(root.raw_handle()), first.into(), count.into()];
            let status = Status(zx::probe::call(call as *const () as usize, &words) as i32);
            equal(status, Status::INVALID_ARGS)?;
        }
    }
    Ok(())
}

fn resource() -> Outcome {
    let memory = root_resource()?.create_child(ZX_RSRC_KIND_MMIO, 0x70, 2, "")?;
    fails(IoPorts::request(&memory, CLOCK, 2), Status::WRONG_TYPE)?;
    let narrow = ports(CLOCK, 2)?;
    for (first, count) in [(CLOCK - 1, 2), (CLOCK, 3), (CLOCK + 2, 1)] {
        fails(IoPorts::request(&narrow, first, count), Status::OUT_OF_RANGE)?;
    }
    equal(IoPorts::of(&narrow)?.count(), 2)?;
    // Releasing the ports needs the resource as well.
    let other = ports(0x80, 1)?;
    equal(raw!(zx_ioports_release, other.raw_handle(), CLOCK, 2), Status::OUT_OF_RANGE)
}

fn the_systems() -> Outcome {
    // An interrupt controller, the serial line for this program's results, and the console.
    for port in [0x20_u16, 0x2f8, 0x3f8] {
        fails(IoPorts::request(&*root_resource()?, port, 1), Status::ACCESS_DENIED)?;
    }
    Ok(())
}

fn bytes() -> Outcome {
    let clock = clock()?;
    clock.write8(0, VALID);
    equal(clock.read8(1), 0x80)?;
    // The written value is read back.
    clock.write8(0, ALARM);
    for value in [0x12, 0x34, 0x59] {
        clock.write8(1, value);
        equal(clock.read8(1), value)?;
    }
    Ok(())
}

fn words() -> Outcome {
    let pci = IoPorts::request(&*root_resource()?, PCI, 8)?;
    // The host bridge: vendor and device.
    pci.write32(0, 0x8000_0000);
    equal(pci.read32(0), 0x8000_0000)?;
    let whole = pci.read32(4);
    equal(whole & 0xffff, 0x8086)?;
    equal((u32::from(pci.read16(4)), u32::from(pci.read16(6))), (whole & 0xffff, whole >> 16))?;
    equal((0..4).rev().fold(0, |value, i| value << 8 | u32::from(pci.read8(4 + i))), whole)?;
    // A missing device reads as ones.
    pci.write32(0, 0x80ff_f800);
    equal(pci.read32(4), u32::MAX)
}

fn strings() -> Outcome {
    let clock = clock()?;
    clock.write8(0, VALID);
    let mut seen = [0; 1500];
    clock.read8_all(1, &mut seen);
    ensure(seen.iter().all(|&byte| byte == 0x80), "a byte of the string is another one")?;
    clock.write8(0, ALARM);
    clock.write8_all(1, &[0x11, 0x22, 0x33]);
    equal(clock.read8(1), 0x33)?;
    clock.write8_all(1, &[]);
    let mut seen = [0; 3];
    clock.read8_all(1, &mut seen);
    equal(seen, [0x33; 3])?;
    let pci = IoPorts::request(&*root_resource()?, PCI, 8)?;
    pci.write32_all(0, &[0x80ff_f800, 0x8000_0000]);
    let mut seen = [0; 2];
    pci.read32_all(4, &mut seen);
    ensure(seen[0] & 0xffff == 0x8086 && seen[0] == seen[1], "not the host bridge")
}

fn not_granted() -> Outcome {
    // mov dx, 0x71; in al, dx; the form with an immediate port; out; with rep.
    test_process::dies(&[0x66, 0xba, 0x71, 0x00, 0xec])?;
    test_process::dies(&[0xe4, 0x71])?;
    test_process::dies(&[0xe6, 0x80])?;
    test_process::dies(&[0xf3, 0x6e])
}

fn released() -> Outcome {
    let root = root_resource()?;
    let puppet = Puppet::of(OwnJob::new()?)?;
    let resource = puppet.give(root.duplicate_handle(zx::Rights::SAME_RIGHTS)?)?;
    let request = |what| puppet.call(what, &[resource, CLOCK.into(), 2]);
    // mov dx, di; in al, dx; ret
    let code = test_process::code(&[0x66, 0x89, 0xfa, 0xec, 0xc3])?;
    let options = abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_EXECUTE;
    let read = puppet.code_at(puppet.tiny.vmar.map(options, 0, &code, 0, 4096)?);
    equal(request(function!(zx_ioports_request))?, Status::OK)?;
    puppet.post(read, &[CLOCK.into()])?;
    ensure(puppet.result()?.is_some(), "a port that was granted cannot be used")?;
    equal(request(function!(zx_ioports_release))?, Status::OK)?;
    equal(request(function!(zx_ioports_release))?, Status::OK)?;
    puppet.post(read, &[CLOCK.into()])?;
    equal(puppet.result()?, None)?;
    equal(puppet.tiny.end()?, test_process::EXCEPTION)
}

fn other_process() -> Outcome {
    // A permission of this process does not apply to others.
    let clock = clock()?;
    test_process::dies(&[0x66, 0xba, 0x71, 0x00, 0xec])?;
    clock.write8(0, VALID);
    equal(clock.read8(1), 0x80)
}
