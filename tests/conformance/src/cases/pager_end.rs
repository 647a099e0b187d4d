//! Waits for pages that end without the page, and the ends of pagers, ports and VMOs.

use abi::{Signals, Status, ZX_VM_PERM_READ, ZX_VM_SPECIFIC_OVERWRITE, ZX_VMO_RESIZABLE};
use zx::{AsHandleRef, Vmo};

use super::{cases, late};
use crate::check::{Outcome, ensure, equal, fails};
use crate::pager_vmo::AccessKind::{self, Called, Mapped};
use crate::pager_vmo::{Access, PAGE, Supplier, content, contents, words};
use crate::puppet::{Puppet, function};
use crate::test_process::{KILLED, OwnJob};

cases! {
    "pager.end.resized_vmar" => || resized(Mapped),
    "pager.end.resized_vmo" => || resized(Called),
    "pager.end.suspended_vmar" => || suspended(Mapped),
    "pager.end.suspended_vmo" => || suspended(Called),
    "pager.end.pager_closed_before_asked_vmar" => || pager_closed(Mapped, false),
    "pager.end.pager_closed_before_asked_vmo" => || pager_closed(Called, false),
    "pager.end.pager_closed_after_asked_vmar" => || pager_closed(Mapped, true),
    "pager.end.pager_closed_after_asked_vmo" => || pager_closed(Called, true),
    "pager.end.detached_before_asked_vmar" => || detached(Mapped, false),
    "pager.end.detached_before_asked_vmo" => || detached(Called, false),
    "pager.end.detached_after_asked_vmar" => || detached(Mapped, true),
    "pager.end.detached_after_asked_vmo" => || detached(Called, true),
    "pager.end.pager_closed" => closed_pager,
    "pager.end.detached_then_pager_closed" => detached_then_closed,
    "pager.end.detach_completes" => detach_completes,
    "pager.end.vmo_closed_completes" => close_completes,
    "pager.end.mapping_keeps_vmo" => mapping_keeps_vmo,
    "pager.end.vmo_closed_meanwhile" => vmo_closed_meanwhile,
    "pager.end.port_closed" => port_closed,
    "pager.end.thread_killed" => thread_killed,
    "pager.end.caller_killed" => caller_killed,
    "pager.end.killed_before_asked" => killed_before_asked,
    "pager.end.killed_among_others" => killed_among_others,
    "pager.end.unmapped" => unmapped,
    "pager.end.mapped_anew" => mapped_anew,
    "pager.end.sent_elsewhere" => sent_elsewhere,
    "pager.end.exception_of_a_call" => exception_of_a_call,
}

fn resized(how: AccessKind) -> Outcome {
    let (supplier, vmo) = Supplier::with_options(1, ZX_VMO_RESIZABLE)?;
    let access = Access::read(how, &vmo, 0, 1)?;
    supplier.asked_to_read(&vmo, 0, 1)?;
    access.waits()?;
    vmo.set_size(0)?;
    access.fails(Status::OUT_OF_RANGE)?;
    supplier.unasked()
}

fn suspended(how: AccessKind) -> Outcome {
    let (supplier, vmo) = Supplier::with(2)?;
    // In the first round the thread resumes before its page arrives; in the second one the page arrives first.
    for (page, supply_first) in [(0, false), (1, true)] {
        let access = Access::read(how, &vmo, page, 1)?;
        supplier.asked_to_read(&vmo, page, 1)?;
        access.waits()?;
        let token = access.with_thread(|thread| {
            let token = thread.suspend()?;
            thread.wait_one(Signals::THREAD_SUSPENDED, late())?;
            Ok::<_, Status>(token)
        })??;
        equal(access.with_thread(|thread| thread.info().map(|info| info.state))??, abi::ZX_THREAD_STATE_SUSPENDED)?;
        if supply_first {
            supplier.supply(&vmo, page, 1)?;
            ensure(!access.has_ended()?, "it went on while it was suspended")?;
            drop(token);
        } else {
            drop(token);
            access.with_thread(|thread| thread.wait_one(Signals::THREAD_RUNNING, late()))??;
            // It asks again, as in Zircon, whose pager may have forgotten what nobody waits for.
            supplier.asked_to_read(&vmo, page, 1)?;
            access.waits()?;
            supplier.supply(&vmo, page, 1)?;
        }
        access.finds(&[content(page)])?;
    }
    supplier.unasked()
}

fn pager_closed(how: AccessKind, asked: bool) -> Outcome {
    let (supplier, vmo) = Supplier::with(1)?;
    let access = Access::read(how, &vmo, 0, 1)?;
    access.waits()?;
    if asked {
        supplier.asked_to_read(&vmo, 0, 1)?;
    }
    let Supplier { pager, port } = supplier;
    drop(pager);
    access.fails(Status::BAD_STATE)?;
    // No further packet arrives, not even `COMPLETE`.
    fails(port.wait(zx::MonotonicInstant::INFINITE_PAST), Status::TIMED_OUT)
}

fn detached(how: AccessKind, asked: bool) -> Outcome {
    let (supplier, vmo) = Supplier::with(1)?;
    let access = Access::read(how, &vmo, 0, 1)?;
    access.waits()?;
    if asked {
        supplier.asked_to_read(&vmo, 0, 1)?;
    }
    supplier.pager.detach_vmo(&vmo)?;
    access.fails(Status::BAD_STATE)?;
    supplier.completed(&vmo)?;
    Access::read(how, &vmo, 0, 1)?.fails(Status::BAD_STATE)?;
    supplier.unasked()
}

/// A VMO permanently loses its pager when the pager is closed. The supplied pages stay.
fn closed_pager() -> Outcome {
    let (supplier, vmo) = Supplier::with(2)?;
    supplier.supply(&vmo, 1, 1)?;
    let access = Access::read(Mapped, &vmo, 0, 1)?;
    supplier.asked_to_read(&vmo, 0, 1)?;
    let Supplier { pager, port } = supplier;
    drop(pager);
    access.fails(Status::BAD_STATE)?;
    for how in [Mapped, Called] {
        Access::read(how, &vmo, 0, 1)?.fails(Status::BAD_STATE)?;
        Access::read(how, &vmo, 1, 1)?.finds(&[content(1)])?;
    }
    equal(vmo.info()?.committed_bytes, PAGE)?;
    let clone = vmo.create_child(abi::ZX_VMO_CHILD_SNAPSHOT_AT_LEAST_ON_WRITE, 0, 2 * PAGE)?;
    Access::write(Mapped, &clone, 1, 1, 9)?.ends()?;
    Access::read(Mapped, &clone, 0, 1)?.fails(Status::BAD_STATE)?;
    equal((words(&clone, 1, 1)?, words(&vmo, 1, 1)?), (vec![9], contents(1, 1)))?;
    drop((vmo, clone));
    fails(port.wait(zx::MonotonicInstant::INFINITE_PAST), Status::TIMED_OUT)
}

fn detached_then_closed() -> Outcome {
    let (supplier, vmo) = Supplier::with(1)?;
    supplier.pager.detach_vmo(&vmo)?;
    supplier.pager.detach_vmo(&vmo)?;
    let Supplier { pager, port } = supplier;
    drop(pager);
    // A packet that was not dequeued is removed with the pager.
    fails(port.wait(zx::MonotonicInstant::INFINITE_PAST), Status::TIMED_OUT)?;
    Access::read(Called, &vmo, 0, 1)?.fails(Status::BAD_STATE)
}

fn detach_completes() -> Outcome {
    let (supplier, vmo) = Supplier::with(1)?;
    supplier.pager.detach_vmo(&vmo)?;
    supplier.completed(&vmo)?;
    // The packet comes only once.
    supplier.pager.detach_vmo(&vmo)?;
    drop(vmo);
    supplier.unasked()
}

fn close_completes() -> Outcome {
    let (supplier, vmo) = Supplier::with(1)?;
    let copy = crate::pager_vmo::another(&vmo)?;
    let key = vmo.key;
    drop(vmo);
    supplier.unasked()?;
    drop(copy);
    supplier.completed(&crate::pager_vmo::Paged { vmo: Vmo::create(0, 0)?, key })
}

fn mapping_keeps_vmo() -> Outcome {
    let (supplier, vmo) = Supplier::with(1)?;
    supplier.supply(&vmo, 0, 1)?;
    let region = zx::startup::vmar_root_self();
    let mapping = region.map_here(ZX_VM_PERM_READ, &vmo, 0, PAGE as usize)?;
    let key = vmo.key;
    drop(vmo);
    supplier.unasked()?;
    let mut word = [0; 8];
    mapping.read(0, &mut word)?;
    equal(u64::from_le_bytes(word), content(0))?;
    drop(mapping);
    supplier.completed(&crate::pager_vmo::Paged { vmo: Vmo::create(0, 0)?, key })
}

/// The VMO's last handle is closed while a call waits. The page can no longer be supplied, so the call fails.
fn vmo_closed_meanwhile() -> Outcome {
    let (supplier, vmo) = Supplier::with(1)?;
    let key = vmo.key;
    let raw = zx::Handle::from(vmo.vmo).into_raw();
    let access = Access::call(move || {
        let mut word = [0_u8; 8];
        match super::raw!(zx_vmo_read, raw, word.as_mut_ptr(), 0, 8) {
            Status::OK => Ok(vec![u64::from_le_bytes(word)]),
            status => Err(status),
        }
    });
    access.waits()?;
    drop(zx::Handle::from_raw(raw));
    access.fails(Status::BAD_HANDLE)?;
    supplier.completed(&crate::pager_vmo::Paged { vmo: Vmo::create(0, 0)?, key })
}

/// Without its port a pager sends no requests; supplied pages are still accepted.
fn port_closed() -> Outcome {
    let (supplier, vmo) = Supplier::with(3)?;
    let first = Access::read(Called, &vmo, 0, 1)?;
    first.waits()?;
    let Supplier { pager, port } = supplier;
    drop(port);
    let second = Access::read(Mapped, &vmo, 1, 1)?;
    second.waits()?;
    first.still_waits()?;
    let supplier = Supplier { pager, port: zx::Port::create()? };
    supplier.supply(&vmo, 0, 2)?;
    first.finds(&[content(0)])?;
    second.finds(&[content(1)])?;
    let third = Access::read(Called, &vmo, 2, 1)?;
    third.waits()?;
    supplier.pager.detach_vmo(&vmo)?;
    third.fails(Status::BAD_STATE)?;
    supplier.unasked()
}

fn thread_killed() -> Outcome {
    let (supplier, vmo) = Supplier::with(1)?;
    let access = Access::read(Mapped, &vmo, 0, 1)?;
    supplier.asked_to_read(&vmo, 0, 1)?;
    access.waits()?;
    let Access::Mapped(mapped) = access else { return Err("not mapped".into()) };
    mapped.process().process.kill()?;
    equal(mapped.process().end()?, KILLED)?;
    supplier.supply(&vmo, 0, 1)?;
    equal(words(&vmo, 0, 1)?, contents(0, 1))?;
    supplier.unasked()
}

/// A process is killed while it waits in a call; the call is not executed any more.
fn caller_killed() -> Outcome {
    let (supplier, vmo) = Supplier::with(1)?;
    let puppet = Puppet::of(OwnJob::new()?)?;
    let theirs = puppet.give(vmo.duplicate_handle(abi::Rights::SAME_RIGHTS)?)?;
    puppet.post(function!(zx_vmo_write), &[theirs, puppet.room(0)?, 0, 8])?;
    supplier.asked_to_read(&vmo, 0, 1)?;
    puppet.tiny.process.kill()?;
    equal(puppet.tiny.end()?, KILLED)?;
    supplier.supply(&vmo, 0, 1)?;
    equal(words(&vmo, 0, 1)?, contents(0, 1))?;
    supplier.unasked()
}

fn killed_before_asked() -> Outcome {
    let (supplier, vmo) = Supplier::with(2)?;
    let accesses = [Access::read(Mapped, &vmo, 0, 1)?, Access::read(Mapped, &vmo, 1, 1)?];
    accesses.iter().try_for_each(Access::waits)?;
    // The first packet is in the port, and the other request waits behind it.
    for access in accesses {
        let Access::Mapped(mapped) = access else { return Err("not mapped".into()) };
        mapped.process().process.kill()?;
        mapped.process().end()?;
    }
    supplier.unasked()
}

fn killed_among_others() -> Outcome {
    let (supplier, vmo) = Supplier::with(1)?;
    let accesses = [Access::read(Mapped, &vmo, 0, 1)?, Access::read(Called, &vmo, 0, 1)?];
    accesses.iter().try_for_each(Access::waits)?;
    let [Access::Mapped(first), second] = accesses else { return Err("not mapped".into()) };
    first.process().process.kill()?;
    first.process().end()?;
    second.still_waits()?;
    supplier.asked_to_read(&vmo, 0, 1)?;
    supplier.supply(&vmo, 0, 1)?;
    second.finds(&[content(0)])?;
    supplier.unasked()
}

fn unmapped() -> Outcome {
    let (supplier, vmo) = Supplier::with(1)?;
    let access = Access::read(Mapped, &vmo, 0, 1)?;
    supplier.asked_to_read(&vmo, 0, 1)?;
    access.waits()?;
    let Access::Mapped(mapped) = &access else { return Err("not mapped".into()) };
    mapped.process().vmar.unmap(mapped.base as usize, PAGE as usize)?;
    supplier.supply(&vmo, 0, 1)?;
    access.fails(Status::NOT_FOUND)
}

fn mapped_anew() -> Outcome {
    let (supplier, vmo) = Supplier::with(8)?;
    let access = Access::read(Mapped, &vmo, 3, 2)?;
    supplier.asked_to_read(&vmo, 3, 1)?;
    access.waits()?;
    let Access::Mapped(mapped) = &access else { return Err("not mapped".into()) };
    let (vmar, base) = (&mapped.process().vmar, vmar_offset(mapped)?);
    let other = Vmo::create(8 * PAGE, 0)?;
    other.write(&77_u64.to_le_bytes(), 3 * PAGE)?;
    other.write(&78_u64.to_le_bytes(), 4 * PAGE)?;
    vmar.map(ZX_VM_PERM_READ | ZX_VM_SPECIFIC_OVERWRITE, base, &other, 0, 8 * PAGE as usize)?;
    supplier.supply(&vmo, 3, 1)?;
    access.finds(&[77, 78])?;
    supplier.unasked()?;
    // The new mapping at the same address can have a pager as well, which then gets a request.
    let (old, new) = (supplier.vmo(2, 1, 0)?, supplier.vmo(3, 1, 0)?);
    let access = Access::read(Mapped, &old, 0, 1)?;
    supplier.asked_to_read(&old, 0, 1)?;
    access.waits()?;
    let Access::Mapped(mapped) = &access else { return Err("not mapped".into()) };
    let (vmar, base) = (&mapped.process().vmar, vmar_offset(mapped)?);
    vmar.map(ZX_VM_PERM_READ | ZX_VM_SPECIFIC_OVERWRITE, base, &new, 0, PAGE as usize)?;
    supplier.supply_as(&old, 0, &[66])?;
    supplier.asked_to_read(&new, 0, 1)?;
    supplier.supply_as(&new, 0, &[67])?;
    access.finds(&[67])?;
    supplier.unasked()
}

/// Offset of an access's mapping in its process's root VMAR.
fn vmar_offset(access: &crate::pager_vmo::MappedAccess) -> Result<usize, crate::check::Failure> {
    Ok(access.base as usize - access.process().vmar.info()?.base)
}

/// A debugger redirects a thread that waits for a page: no thread waits for that page any more.
fn sent_elsewhere() -> Outcome {
    let (supplier, vmo) = Supplier::with(2)?;
    let access = Access::read(Mapped, &vmo, 0, 1)?;
    access.waits()?;
    access.with_thread(|thread| {
        let token = thread.suspend()?;
        thread.wait_one(Signals::THREAD_SUSPENDED, late())?;
        let mut registers = thread.registers::<abi::zx_thread_state_general_regs_t>()?;
        // The load is three bytes long; the case sets its result itself.
        registers.rip += 3;
        registers.rax = 4711;
        thread.set_registers(&registers)?;
        drop(token);
        Ok::<_, Status>(())
    })??;
    access.finds(&[4711])?;
    supplier.unasked()
}

/// A page that cannot be supplied is a page fault for a thread that has it mapped, and a status for a caller, even if
/// the call would only write its result there.
fn exception_of_a_call() -> Outcome {
    let (supplier, vmo) = Supplier::with(2)?;
    let other = crate::pager_vmo::another(&vmo)?;
    let access = Access::call(move || {
        let permissions = ZX_VM_PERM_READ | abi::ZX_VM_PERM_WRITE;
        let region = zx::startup::vmar_root_self();
        let mapping = region.map_here(permissions, &other, 0, PAGE as usize)?;
        match super::raw!(zx_clock_read, zx::Clock::create(0)?.raw_handle(), mapping.address()) {
            Status::OK => Ok(Vec::new()),
            status => Err(status),
        }
    });
    supplier.asked_to_read(&vmo, 0, 1)?;
    supplier.fail(&vmo, 0, 1, Status::IO_DATA_INTEGRITY)?;
    access.fails(Status::IO_DATA_INTEGRITY)
}
