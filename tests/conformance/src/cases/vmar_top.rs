//! The end of the address space, and the region below it that the system reserves.

use abi::{
    Status, ZX_EXCP_SW_BREAKPOINT, ZX_VM_CAN_MAP_READ, ZX_VM_PERM_EXECUTE, ZX_VM_SPECIFIC, ZX_VM_SPECIFIC_OVERWRITE,
};
use zx::Vmo;

use super::cases;
use super::vmar::{PAGE, READ, READ_WRITE};
use crate::caught_exception::{OwnedTestProcess, catch_type};
use crate::check::{Outcome, ensure, equal, fails};
use crate::test_process::code;

cases! {
    "vmar.top.range" => range,
    "vmar.top.mapped" => mapped,
    "vmar.top.executed" => executed,
    "vmar.top.kept" => kept,
    "vmar.top.unmapped" => unmapped,
}

/// The last page below 2^47 is never usable; the user's part ends here.
const TOP: usize = (1 << 47) - PAGE;
/// The region in which the system keeps its own pages: 1 GiB.
const KEPT: usize = 0x7ff0_0000_0000;
const KEPT_LEN: usize = 1 << 30;

fn base() -> Result<usize, crate::check::Failure> {
    Ok(zx::startup::vmar_root_self().info()?.base)
}

fn range() -> Outcome {
    let info = zx::startup::vmar_root_self().info()?;
    equal((info.base, info.base + info.len), (0x20_0000, TOP))
}

/// The last usable pages can be mapped and accessed.
fn mapped() -> Outcome {
    let vmar = zx::startup::vmar_root_self();
    let vmo = Vmo::create(2 * PAGE as u64, 0)?;
    let offset = TOP - 2 * PAGE - base()?;
    let at = vmar.map(READ_WRITE | ZX_VM_SPECIFIC, offset, &vmo, 0, 2 * PAGE)?;
    equal(at, TOP - 2 * PAGE)?;
    zx::probe::write(TOP - 1, 77);
    zx::probe::write(at, 78);
    let mut last = [0];
    vmo.read(&mut last, 2 * PAGE as u64 - 1)?;
    equal((last[0], zx::probe::read(at)), (77, 78))?;
    let beyond = vmar.map(READ | ZX_VM_SPECIFIC, offset + PAGE, &vmo, 0, 2 * PAGE);
    fails(beyond, Status::INVALID_ARGS)?;
    vmar.unmap(at, 2 * PAGE)?;
    Ok(())
}

/// A thread can execute the last usable page.
fn executed() -> Outcome {
    let tiny = OwnedTestProcess::new(&[0xff, 0xe6])?;
    let channel = tiny.process.create_exception_channel(0)?;
    let offset = TOP - PAGE - tiny.vmar.info()?.base;
    let int3 = code(&[0xcc; PAGE])?;
    tiny.vmar.map(READ | ZX_VM_PERM_EXECUTE | ZX_VM_SPECIFIC, offset, &int3, 0, PAGE)?;
    tiny.start(None, TOP - PAGE)?;
    for place in [TOP - 2, TOP - 1] {
        let caught = catch_type(&channel, ZX_EXCP_SW_BREAKPOINT)?;
        let mut registers: abi::zx_thread_state_general_regs_t = tiny.thread.registers()?;
        registers.rip = place as u64;
        tiny.thread.set_registers(&registers)?;
        caught.handled()?;
    }
    let _caught = catch_type(&channel, ZX_EXCP_SW_BREAKPOINT)?;
    // Nothing is mapped behind the last usable address.
    let registers: abi::zx_thread_state_general_regs_t = tiny.thread.registers()?;
    equal(registers.rip, TOP as u64)
}

/// The reserved region is inaccessible: nothing can be mapped there, and nothing there can be unmapped or changed.
fn kept() -> Outcome {
    let vmar = zx::startup::vmar_root_self();
    let base = base()?;
    let vmo = Vmo::create(2 * PAGE as u64, 0)?;
    for at in [KEPT - PAGE, KEPT, KEPT + KEPT_LEN / 2, KEPT + KEPT_LEN - PAGE] {
        let placed = vmar.map(READ | ZX_VM_SPECIFIC, at - base, &vmo, 0, 2 * PAGE);
        fails(placed, Status::ALREADY_EXISTS)?;
        let over = vmar.map(READ | ZX_VM_SPECIFIC_OVERWRITE, at - base, &vmo, 0, 2 * PAGE);
        fails(over, Status::ACCESS_DENIED)?;
        let region = vmar.allocate(ZX_VM_CAN_MAP_READ | ZX_VM_SPECIFIC, at - base, 2 * PAGE);
        fails(region, Status::ALREADY_EXISTS)?;
        fails(vmar.protect(READ, at, 2 * PAGE), Status::NOT_FOUND)?;
        // The program has no mapping there, so the call unmaps nothing.
        vmar.unmap(at, 2 * PAGE)?;
    }
    fails(
        vmar.allocate(ZX_VM_CAN_MAP_READ | ZX_VM_SPECIFIC, KEPT - base - PAGE, KEPT_LEN + 2 * PAGE),
        Status::ALREADY_EXISTS,
    )?;
    vmar.unmap(KEPT - PAGE, KEPT_LEN + 2 * PAGE)?;
    // The pages on both sides can be mapped, and calls with many arguments still work.
    for at in [KEPT - PAGE, KEPT + KEPT_LEN] {
        equal(vmar.map(READ | ZX_VM_SPECIFIC, at - base, &vmo, PAGE as u64, PAGE)?, at)?;
        equal(zx::probe::read(at), 0)?;
        vmar.unmap(at, PAGE)?;
    }
    for _ in 0..64 {
        let at = vmar.map(READ, 0, &vmo, 0, 2 * PAGE)?;
        ensure(at + 2 * PAGE <= KEPT || at >= KEPT + KEPT_LEN, "a mapping lies among what the system keeps")?;
        vmar.unmap(at, 2 * PAGE)?;
    }
    Ok(())
}

/// A process unmaps everything on both sides of the reserved region in one call. The region stays: its thread
/// continues.
fn unmapped() -> Outcome {
    let tiny = OwnedTestProcess::new(&[0x0f, 0x0b, 0xcc])?;
    let channel = tiny.process.create_exception_channel(0)?;
    let info = tiny.vmar.info()?;
    let vmo = Vmo::create(PAGE as u64, 0)?;
    for at in [TOP - PAGE, KEPT - PAGE, KEPT + KEPT_LEN] {
        tiny.vmar.map(READ_WRITE | ZX_VM_SPECIFIC, at - info.base, &vmo, 0, PAGE)?;
        tiny.process.write_memory(at, &[1])?;
    }
    tiny.start(None, 0)?;
    let caught = catch_type(&channel, abi::ZX_EXCP_UNDEFINED_INSTRUCTION)?;
    tiny.vmar.unmap(info.base, info.len)?;
    for at in [TOP - PAGE, KEPT - PAGE, KEPT + KEPT_LEN] {
        fails(tiny.process.read_memory(at, &mut [0]), Status::NO_MEMORY)?;
    }
    let offset = tiny.entry - info.base;
    tiny.vmar.map(READ | ZX_VM_PERM_EXECUTE | ZX_VM_SPECIFIC, offset, &code(&[0xcc; 2])?, 0, PAGE)?;
    caught.handled()?;
    catch_type(&channel, ZX_EXCP_SW_BREAKPOINT)?;
    Ok(())
}
