//! Pagers: errors of their calls, information about them, and a pager in another process.

use abi::{
    Rights, Status, ZX_PAGER_OP_DIRTY, ZX_PAGER_OP_FAIL, ZX_PAGER_OP_WRITEBACK_BEGIN, ZX_PAGER_OP_WRITEBACK_END,
    ZX_VMO_RESIZABLE, ZX_VMO_TRAP_DIRTY, ZX_VMO_UNBOUNDED,
};
use zx::{AsHandleRef, Info, Pager, Port, Vmo};

use super::{cases, raw, without};
use crate::check::{Outcome, equal, fails, gives};
use crate::pager_vmo::AccessKind::{Called, Mapped};
use crate::pager_vmo::{Access, PAGE, Paged, Supplier, contents, words};
use crate::puppet::{Puppet, function};
use crate::test_process::OwnJob;

cases! {
    "pager.create.refuses" => create_refuses,
    "pager.create.rights" => create_rights,
    "pager.create_vmo.refuses" => create_vmo_refuses,
    "pager.create_vmo.rounds_up" => create_vmo_rounds_up,
    "pager.detach_vmo.refuses" => detach_vmo_refuses,
    "pager.supply_pages.refuses" => supply_pages_refuses,
    "pager.supply_pages.moves" => supply_pages_moves,
    "pager.supply_pages.uncommitted" => supply_pages_uncommitted,
    "pager.supply_pages.source_in_use" => supply_pages_source_in_use,
    "pager.op_range.refuses" => op_range_refuses,
    "pager.query.refuses" => query_refuses,
    "pager.resize.not_resizable" => not_resizable,
    "pager.process.other" => other_process,
}

fn create_refuses() -> Outcome {
    let mut out = 0_u32;
    gives(raw!(zx_pager_create, 1, &raw mut out), Status::INVALID_ARGS)?;
    gives(raw!(zx_pager_create, 0, 0), Status::INVALID_ARGS)?;
    equal(out, 0)
}

fn create_rights() -> Outcome {
    let rights = Pager::create()?.basic_info()?;
    equal(rights.type_, abi::ZX_OBJ_TYPE_PAGER)?;
    let expected = Rights::INSPECT | Rights::TRANSFER | Rights::ATTACH_VMO | Rights::MANAGE_VMO;
    equal(Rights::from_bits_retain(rights.rights), expected)
}

fn create_vmo_refuses() -> Outcome {
    let (pager, port) = (Pager::create()?, Port::create()?);
    let create = |options: u32, size: u64| pager.create_vmo(options, &port, 0, size);
    fails(create(1 << 20, PAGE), Status::INVALID_ARGS)?;
    fails(create(abi::ZX_VMO_DISCARDABLE, PAGE), Status::INVALID_ARGS)?;
    fails(create(ZX_VMO_RESIZABLE | ZX_VMO_UNBOUNDED, PAGE), Status::INVALID_ARGS)?;
    fails(create(0, u64::MAX), Status::OUT_OF_RANGE)?;
    fails(create(0, u64::MAX - PAGE), Status::OUT_OF_RANGE)?;
    let event = zx::Event::create()?;
    let mut out = 0_u32;
    let (pager_raw, port_raw, event_raw) = (pager.raw_handle(), port.raw_handle(), event.raw_handle());
    for (a, b, status) in [
        (0, port_raw, Status::BAD_HANDLE),
        (pager_raw, 0, Status::BAD_HANDLE),
        (event_raw, port_raw, Status::WRONG_TYPE),
        (pager_raw, event_raw, Status::WRONG_TYPE),
    ] {
        gives(raw!(zx_pager_create_vmo, a, 0, b, 0, PAGE, &raw mut out), status)?;
    }
    gives(raw!(zx_pager_create_vmo, pager_raw, 0, port_raw, 0, PAGE, 0), Status::INVALID_ARGS)?;
    let port = Port::from(without(&port, Rights::WRITE)?);
    fails(pager.create_vmo(0, &port, 0, PAGE), Status::ACCESS_DENIED)
}

fn create_vmo_rounds_up() -> Outcome {
    let (pager, port) = (Pager::create()?, Port::create()?);
    let vmo = pager.create_vmo(ZX_VMO_RESIZABLE | ZX_VMO_TRAP_DIRTY, &port, 0, PAGE + 1)?;
    equal((vmo.get_size()?, vmo.get_stream_size()?), (2 * PAGE, PAGE + 1))?;
    let empty = pager.create_vmo(0, &port, 0, 0)?;
    equal(empty.get_size()?, 0)?;
    fails(words(&empty, 0, 1), Status::OUT_OF_RANGE)?;
    // The handle has the rights of a handle to a plain VMO.
    let plain = Vmo::create(PAGE, ZX_VMO_RESIZABLE)?;
    equal(vmo.basic_info()?.rights, plain.basic_info()?.rights)
}

fn detach_vmo_refuses() -> Outcome {
    let (supplier, vmo) = Supplier::with(1)?;
    fails(supplier.pager.detach_vmo(&Vmo::create(PAGE, 0)?), Status::INVALID_ARGS)?;
    fails(Pager::create()?.detach_vmo(&vmo), Status::INVALID_ARGS)?;
    let (raw_pager, raw_vmo) = (supplier.pager.raw_handle(), vmo.raw_handle());
    gives(raw!(zx_pager_detach_vmo, 0, raw_vmo), Status::BAD_HANDLE)?;
    gives(raw!(zx_pager_detach_vmo, raw_pager, 0), Status::BAD_HANDLE)?;
    gives(raw!(zx_pager_detach_vmo, raw_vmo, raw_vmo), Status::WRONG_TYPE)?;
    gives(raw!(zx_pager_detach_vmo, raw_pager, raw_pager), Status::WRONG_TYPE)?;
    let weak = Vmo::from(without(&vmo.vmo, Rights::WRITE)?);
    fails(supplier.pager.detach_vmo(&weak), Status::ACCESS_DENIED)?;
    supplier.unasked()
}

fn supply_pages_refuses() -> Outcome {
    let (supplier, vmo) = Supplier::with(4)?;
    let aux = Vmo::create(4 * PAGE, 0)?;
    let supply = |offset, length, aux_offset| supplier.pager.supply_pages(&vmo, offset, length, &aux, aux_offset);
    for (offset, length, aux_offset) in [(1, PAGE, 0), (0, PAGE - 1, 0), (0, PAGE, 1)] {
        fails(supply(offset, length, aux_offset), Status::INVALID_ARGS)?;
    }
    for (offset, length, aux_offset) in
        [(0, 5 * PAGE, 0), (4 * PAGE, PAGE, 0), (0, PAGE, 4 * PAGE), (PAGE, 3 * PAGE, 2 * PAGE)]
    {
        fails(supply(offset, length, aux_offset), Status::OUT_OF_RANGE)?;
    }
    // Neither range may overflow.
    let last = 0_u64.wrapping_sub(PAGE);
    fails(supply(last, 2 * PAGE, 0), Status::OUT_OF_RANGE)?;
    fails(supply(0, PAGE, last), Status::OUT_OF_RANGE)?;
    let other = Vmo::create(PAGE, 0)?;
    fails(supplier.pager.supply_pages(&other, 0, PAGE, &aux, 0), Status::INVALID_ARGS)?;
    fails(Pager::create()?.supply_pages(&vmo, 0, PAGE, &aux, 0), Status::INVALID_ARGS)?;
    fails(supplier.pager.supply_pages(&vmo, 0, PAGE, &vmo, 0), Status::NOT_SUPPORTED)?;
    for right in [Rights::READ, Rights::WRITE] {
        let weak = Vmo::from(without(&aux, right)?);
        fails(supplier.pager.supply_pages(&vmo, 0, PAGE, &weak, 0), Status::ACCESS_DENIED)?;
    }
    let weak = Vmo::from(without(&vmo.vmo, Rights::WRITE)?);
    fails(supplier.pager.supply_pages(&weak, 0, PAGE, &aux, 0), Status::ACCESS_DENIED)?;
    let event = zx::Event::create()?;
    let (pager, paged, from, event) =
        (supplier.pager.raw_handle(), vmo.raw_handle(), aux.raw_handle(), event.raw_handle());
    let stranger = Pager::create()?;
    for (one, two, three, status) in [
        (0, paged, from, Status::BAD_HANDLE),
        (pager, 0, from, Status::BAD_HANDLE),
        (pager, paged, 0, Status::BAD_HANDLE),
        (paged, paged, from, Status::WRONG_TYPE),
        (pager, pager, from, Status::WRONG_TYPE),
        (pager, paged, event, Status::WRONG_TYPE),
        // The server checks whether the VMO belongs to the pager before it checks the handle of the source.
        (stranger.raw_handle(), paged, 0, Status::INVALID_ARGS),
    ] {
        gives(raw!(zx_pager_supply_pages, one, two, 0, PAGE, three, 0), status)?;
    }
    let less = stranger.replace(Rights::INSPECT | Rights::TRANSFER | Rights::ATTACH_VMO)?;
    gives(raw!(zx_pager_supply_pages, less.raw_handle(), paged, 0, PAGE, from, 0), Status::ACCESS_DENIED)?;
    // Neither a device's memory nor pinned pages can be moved.
    let device = Vmo::create_physical(&*super::root_resource()?, 0xfed0_0000, PAGE as usize)?;
    fails(supplier.pager.supply_pages(&vmo, 0, PAGE, &device, 0), Status::NOT_SUPPORTED)?;
    let pmt = super::bti::bti()?.pin(abi::ZX_BTI_PERM_READ, &aux, 0, PAGE, &mut [0])?;
    fails(supply(0, PAGE, 0), Status::BAD_STATE)?;
    pmt.unpin()?;
    equal(vmo.info()?.committed_bytes, 0)?;
    supplier.pager.detach_vmo(&vmo)?;
    fails(supply(0, PAGE, 0), Status::BAD_STATE)
}

/// Pages change their owner: afterwards the source has none of them, whether they were needed or not.
fn supply_pages_moves() -> Outcome {
    let (supplier, vmo) = Supplier::with(4)?;
    supplier.supply(&vmo, 1, 1)?;
    let aux = Vmo::create(6 * PAGE, 0)?;
    for page in 0..6 {
        aux.write(&(page + 10_u64).to_le_bytes(), page * PAGE)?;
    }
    supplier.pager.supply_pages(&vmo, 0, 3 * PAGE, &aux, 2 * PAGE)?;
    equal(words(&vmo, 0, 3)?, vec![12, contents(1, 1)[0], 14])?;
    equal(words(&aux, 0, 6)?, vec![10, 11, 0, 0, 0, 15])?;
    equal((vmo.info()?.committed_bytes, aux.info()?.committed_bytes), (3 * PAGE, 3 * PAGE))?;
    // An empty range is valid and supplies no pages.
    supplier.pager.supply_pages(&vmo, 3 * PAGE, 0, &aux, 0)?;
    equal(vmo.info()?.committed_bytes, 3 * PAGE)
}

/// Where the source has no pages, the server supplies zeroes. They count as present: no further request is sent for
/// them.
fn supply_pages_uncommitted() -> Outcome {
    let (supplier, vmo) = Supplier::with(4)?;
    let access = Access::read(Called, &vmo, 0, 4)?;
    supplier.asked_to_read(&vmo, 0, 4)?;
    let aux = Vmo::create(4 * PAGE, 0)?;
    aux.write(&7_u64.to_le_bytes(), 2 * PAGE)?;
    supplier.pager.supply_pages(&vmo, 0, 4 * PAGE, &aux, 0)?;
    access.finds(&[0, 0, 7, 0])?;
    Access::write(Mapped, &vmo, 1, 1, 8)?.ends()?;
    Access::read(Mapped, &vmo, 0, 4)?.finds(&[0, 8, 7, 0])?;
    equal(aux.info()?.committed_bytes, 0)?;
    supplier.unasked()
}

/// The source may be mapped or have clones. Afterwards its mapping shows zeroes, and its clones keep their content.
fn supply_pages_source_in_use() -> Outcome {
    let (supplier, vmo) = Supplier::with(2)?;
    let aux = Vmo::create(2 * PAGE, 0)?;
    let permissions = abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_WRITE;
    let region = zx::startup::vmar_root_self();
    let mapping = region.map_here(permissions, &aux, 0, 2 * PAGE as usize)?;
    mapping.write(0, &7_u64.to_le_bytes())?;
    mapping.write(PAGE as usize, &8_u64.to_le_bytes())?;
    let clone = aux.create_child(abi::ZX_VMO_CHILD_SNAPSHOT, PAGE, PAGE)?;
    supplier.pager.supply_pages(&vmo, 0, 2 * PAGE, &aux, 0)?;
    let mut word = [1; 8];
    mapping.read(0, &mut word)?;
    equal(u64::from_le_bytes(word), 0)?;
    mapping.write(0, &9_u64.to_le_bytes())?;
    mapping.write(PAGE as usize, &9_u64.to_le_bytes())?;
    equal((words(&vmo, 0, 2)?, words(&clone, 0, 1)?, words(&aux, 0, 2)?), (vec![7, 8], vec![8], vec![9, 9]))
}

fn op_range_refuses() -> Outcome {
    let (supplier, vmo) = Supplier::with_options(4, ZX_VMO_TRAP_DIRTY)?;
    let io = i64::from(Status::IO.0) as u64;
    let op = |op, offset, length, data| supplier.pager.op_range(op, &vmo, offset, length, data);
    fails(op(0, 0, PAGE, 0), Status::NOT_SUPPORTED)?;
    fails(op(99, 0, PAGE, 0), Status::NOT_SUPPORTED)?;
    let (pager, paged) = (supplier.pager.raw_handle(), vmo.raw_handle());
    for (one, two, status) in [
        (0, paged, Status::BAD_HANDLE),
        (pager, 0, Status::BAD_HANDLE),
        (paged, paged, Status::WRONG_TYPE),
        (pager, pager, Status::WRONG_TYPE),
    ] {
        gives(raw!(zx_pager_op_range, one, ZX_PAGER_OP_FAIL, two, 0, PAGE, io), status)?;
    }
    for (number, data) in [
        (ZX_PAGER_OP_FAIL, io),
        (ZX_PAGER_OP_DIRTY, 0),
        (ZX_PAGER_OP_WRITEBACK_BEGIN, 0),
        (ZX_PAGER_OP_WRITEBACK_END, 0),
    ] {
        fails(op(number, 1, PAGE, data), Status::INVALID_ARGS)?;
        fails(op(number, 0, PAGE + 1, data), Status::INVALID_ARGS)?;
        fails(op(number, 0, 5 * PAGE, data), Status::OUT_OF_RANGE)?;
        fails(op(number, 4 * PAGE, PAGE, data), Status::OUT_OF_RANGE)?;
        fails(op(number, 0_u64.wrapping_sub(PAGE), 2 * PAGE, data), Status::OUT_OF_RANGE)?;
        let other = Vmo::create(4 * PAGE, 0)?;
        fails(supplier.pager.op_range(number, &other, 0, PAGE, data), Status::INVALID_ARGS)?;
        fails(Pager::create()?.op_range(number, &vmo, 0, PAGE, data), Status::INVALID_ARGS)?;
        let weak = Vmo::from(without(&vmo.vmo, Rights::WRITE)?);
        fails(supplier.pager.op_range(number, &weak, 0, PAGE, data), Status::ACCESS_DENIED)?;
    }
    fails(op(ZX_PAGER_OP_WRITEBACK_BEGIN, 0, PAGE, 2), Status::INVALID_ARGS)?;
    // Absent pages cannot become dirty.
    fails(op(ZX_PAGER_OP_DIRTY, 0, PAGE, 0), Status::NOT_FOUND)?;
    supplier.supply(&vmo, 0, 1)?;
    fails(op(ZX_PAGER_OP_DIRTY, 0, 2 * PAGE, 0), Status::NOT_FOUND)?;
    op(ZX_PAGER_OP_DIRTY, 0, PAGE, 0)?;
    supplier.pager.detach_vmo(&vmo)?;
    fails(op(ZX_PAGER_OP_DIRTY, 0, PAGE, 0), Status::BAD_STATE)?;
    fails(op(ZX_PAGER_OP_FAIL, 0, PAGE, io), Status::BAD_STATE)?;
    op(ZX_PAGER_OP_WRITEBACK_BEGIN, 0, PAGE, 0)?;
    Ok(op(ZX_PAGER_OP_WRITEBACK_END, 0, PAGE, 0)?)
}

fn query_refuses() -> Outcome {
    let (supplier, vmo) = Supplier::with(4)?;
    let other = Vmo::create(4 * PAGE, 0)?;
    let pager = &supplier.pager;
    fails(pager.query_dirty_ranges(&other, 0, PAGE, &mut []), Status::INVALID_ARGS)?;
    fails(pager.query_dirty_ranges(&vmo, 0, 5 * PAGE, &mut []), Status::OUT_OF_RANGE)?;
    fails(pager.query_dirty_ranges(&vmo, u64::MAX, 2, &mut []), Status::OUT_OF_RANGE)?;
    fails(pager.query_vmo_stats(&other, 0), Status::INVALID_ARGS)?;
    fails(pager.query_vmo_stats(&vmo, 2), Status::INVALID_ARGS)?;
    let weak = Vmo::from(without(&vmo.vmo, Rights::READ)?);
    fails(pager.query_vmo_stats(&weak, 0), Status::ACCESS_DENIED)?;
    fails(pager.query_dirty_ranges(&weak, 0, PAGE, &mut []), Status::ACCESS_DENIED)?;
    let mut stats = 0_u32;
    let (pager, vmo) = (pager.raw_handle(), vmo.raw_handle());
    gives(raw!(zx_pager_query_vmo_stats, pager, vmo, 0, &raw mut stats, 3), Status::BUFFER_TOO_SMALL)?;
    gives(raw!(zx_pager_query_vmo_stats, pager, vmo, 0, 0, 4), Status::INVALID_ARGS)
}

fn not_resizable() -> Outcome {
    let (supplier, vmo) = Supplier::with(1)?;
    let status = raw!(zx_vmo_set_size, vmo.raw_handle(), 2 * PAGE);
    gives(status, Status::UNAVAILABLE)?;
    supplier.unasked()
}

/// A pager in another process receives the requests, and supplies pages with its own calls.
fn other_process() -> Outcome {
    const COUNT: u64 = 8;
    let (supplier, vmo) = Supplier::with(COUNT)?;
    let Supplier { pager, port } = supplier;
    let puppet = Puppet::of(OwnJob::new()?)?;
    let their_vmo = puppet.give(vmo.duplicate_handle(Rights::SAME_RIGHTS)?)?;
    let their_pager = puppet.give(pager.into())?;
    let their_port = puppet.give(port.into())?;
    for (how, page) in [(Mapped, 0), (Called, 1)] {
        let access = Access::read(how, &vmo, page, 1)?;
        let packet = puppet.room(0)?;
        gives(puppet.call(function!(zx_port_wait), &[their_port, i64::MAX as u64, packet])?, Status::OK)?;
        equal(puppet.word(8)?, abi::ZX_PKT_TYPE_PAGE_REQUEST)?;
        let aux = Vmo::create(PAGE, 0)?;
        aux.write(&crate::pager_vmo::content(page).to_le_bytes(), 0)?;
        let aux = puppet.give(aux.into())?;
        let offset = u64::from(puppet.word(24)?);
        equal(offset, page * PAGE)?;
        let arguments = [their_pager, their_vmo, offset, PAGE, aux, 0];
        gives(puppet.call(function!(zx_pager_supply_pages), &arguments)?, Status::OK)?;
        access.finds(&contents(page, 1))?;
    }
    // The pager ends with its process: threads that wait for pages continue.
    let accesses = [Access::read(Mapped, &vmo, 2, 1)?, Access::read(Called, &vmo, 3, 1)?];
    accesses.iter().try_for_each(Access::waits)?;
    puppet.tiny.process.kill()?;
    for access in accesses {
        access.fails(Status::BAD_STATE)?;
    }
    let paged: &Paged = &vmo;
    Access::read(Called, paged, 2, 1)?.fails(Status::BAD_STATE)?;
    // Supplied pages stay.
    Access::read(Called, paged, 0, 1)?.finds(&contents(0, 1))
}
