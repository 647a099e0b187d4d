//! One VMO that others refer to: many mappings, many clones, its pager.

use abi::{
    ZX_PAGER_OP_DIRTY, ZX_PAGER_OP_FAIL, ZX_PAGER_OP_WRITEBACK_BEGIN, ZX_PAGER_OP_WRITEBACK_END, ZX_VM_MAP_RANGE,
    ZX_VM_PERM_READ, ZX_VM_PERM_WRITE, ZX_VM_SPECIFIC, ZX_VMO_CHILD_SLICE, ZX_VMO_CHILD_SNAPSHOT, ZX_VMO_OP_DECOMMIT,
    ZX_VMO_OP_ZERO, ZX_VMO_RESIZABLE, ZX_VMO_TRAP_DIRTY,
};
use conformance::check::{Case, Failure, Outcome, ensure};
use zx::{Pager, Port, Vmo};

use super::{CAN, LESS, ends, holds_shortly, memory};

/// Children of one VMO.
const CHILDREN: u64 = 5000;
/// Pages that are mapped at many addresses.
const PAGES: u64 = 64;
/// The number of addresses.
const PLACES: usize = 500;

fn children(kind: &str, options: u32) -> Outcome {
    let vmo = memory(PAGES * 4096, true)?;
    let make = |_| vmo.create_child(options, 0, PAGES * 4096);
    let children = (0..CHILDREN).map(make).collect::<zx::Result<Vec<_>>>()?;
    holds_shortly(&format!("{kind}-write"), || Ok(vmo.write(&[1; PAGES as usize * 4096], 0)?))?;
    ends(&format!("{kind}-parent"), vmo)?;
    ends(&format!("{kind}-children"), children)
}

/// One VMO that is mapped many times, all pages present in each mapping.
fn places(kind: &str, act: impl Fn(&Vmo) -> Outcome) -> Outcome {
    let size = PAGES as usize * 4096;
    let vmo = Vmo::create(size as u64, ZX_VMO_RESIZABLE)?;
    vmo.write(&vec![1; size], 0)?;
    let (vmar, _) = zx::startup::vmar_root_self().allocate(CAN, 0, PLACES * size)?;
    let options = ZX_VM_PERM_READ | ZX_VM_PERM_WRITE | ZX_VM_MAP_RANGE | ZX_VM_SPECIFIC;
    (0..PLACES).try_for_each(|place| vmar.map(options, place * size, &vmo, 0, size).map(drop))?;
    holds_shortly(kind, || act(&vmo))?;
    Ok(vmar.destroy()?)
}

fn paged() -> Result<(Pager, Port, Vmo), Failure> {
    let (from, port, pager) = (memory(LESS, true)?, Port::create()?, Pager::create()?);
    let vmo = pager.create_vmo(ZX_VMO_TRAP_DIRTY, &port, 1, LESS)?;
    pager.supply_pages(&vmo, 0, LESS, &from, 0)?;
    Ok((pager, port, vmo))
}

fn pager() -> Outcome {
    let (pager, port, vmo) = paged()?;
    let op = |kind: &str, op: u32| holds_shortly(kind, || Ok(pager.op_range(op, &vmo, 0, LESS, 0)?));
    op("pager-dirty", ZX_PAGER_OP_DIRTY)?;
    op("pager-writeback-begin", ZX_PAGER_OP_WRITEBACK_BEGIN)?;
    op("pager-writeback-end", ZX_PAGER_OP_WRITEBACK_END)?;
    holds_shortly("pager-detach", || Ok(pager.detach_vmo(&vmo)?))?;
    ends("close-paged", vmo)?;
    let vmo = pager.create_vmo(0, &port, 2, LESS)?;
    let failure = i64::from(abi::Status::IO.0).cast_unsigned();
    holds_shortly("pager-fail", || Ok(pager.op_range(ZX_PAGER_OP_FAIL, &vmo, 0, LESS, failure)?))
}

/// Every other page is dirty, which gives the most ranges.
fn dirty_ranges() -> Outcome {
    let (pager, _port, vmo) = paged()?;
    let dirty = (0..LESS).step_by(2 * 4096);
    let count = dirty.clone().count();
    dirty.clone().try_for_each(|at| pager.op_range(ZX_PAGER_OP_DIRTY, &vmo, at, 4096, 0))?;
    let mut ranges = vec![abi::zx_vmo_dirty_range_t::default(); count];
    let mut size = zx::InfoSize::default();
    holds_shortly("dirty-ranges", || {
        size = pager.query_dirty_ranges(&vmo, 0, LESS, &mut ranges)?;
        Ok(())
    })?;
    ensure((size.actual, size.avail) == (count, count), &format!("{size:?}"))?;
    let right = |(range, at): (&abi::zx_vmo_dirty_range_t, u64)| (range.offset, range.length) == (at, 4096);
    ensure(ranges.iter().zip(dirty).all(right), "other ranges")?;
    size = pager.query_dirty_ranges(&vmo, 0, LESS, &mut ranges[..10])?;
    ensure((size.actual, size.avail) == (10, count), &format!("{size:?}"))
}

pub fn cases() -> Vec<Case> {
    let size = PAGES * 4096;
    let op = move |kind: &str, op: u32| places(kind, |vmo| Ok(vmo.op_range(op, 0, size)?));
    vec![
        Case::new("holds.children.slices", || children("slices", ZX_VMO_CHILD_SLICE)),
        Case::new("holds.children.snapshots", || children("snapshots", ZX_VMO_CHILD_SNAPSHOT)),
        Case::new("holds.pager", pager),
        Case::new("holds.pager.dirty_ranges", dirty_ranges),
        Case::new("holds.places.decommit", move || op("places-decommit", ZX_VMO_OP_DECOMMIT)),
        Case::new("holds.places.resize", || places("places-resize", |vmo| Ok(vmo.set_size(0)?))),
        Case::new("holds.places.transfer", move || {
            let from = memory(size, true)?;
            places("places-transfer", |vmo| Ok(vmo.transfer_data(0, size, &from, 0)?))
        }),
        Case::new("holds.places.zero", move || op("places-zero", ZX_VMO_OP_ZERO)),
    ]
}
