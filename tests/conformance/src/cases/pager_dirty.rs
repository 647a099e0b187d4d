//! Dirty pages: pages that were written and not yet written back, the requests before a write, and the writeback.

use abi::{
    Status, ZX_PAGER_OP_DIRTY, ZX_PAGER_OP_WRITEBACK_BEGIN, ZX_PAGER_OP_WRITEBACK_END, ZX_PAGER_RESET_VMO_STATS,
    ZX_PAGER_VMO_DIRTY, ZX_PAGER_VMO_STATS_MODIFIED, ZX_STREAM_MODE_WRITE, ZX_VM_PERM_READ, ZX_VM_PERM_WRITE,
    ZX_VMO_DIRTY_RANGE_IS_ZERO, ZX_VMO_OP_COMMIT, ZX_VMO_OP_ZERO, ZX_VMO_RESIZABLE, ZX_VMO_TRAP_DIRTY,
    zx_vmo_dirty_range_t,
};

use zx::{AsHandleRef, Stream};

use super::cases;
use crate::check::{Failure, Outcome, equal, fails};
use crate::pager_vmo::AccessKind::{self, Called, Mapped};
use crate::pager_vmo::{Access, PAGE, Paged, Supplier, content, words};

cases! {
    "pager.dirty.write_vmar" => || write(Mapped),
    "pager.dirty.write_vmo" => || write(Called),
    "pager.dirty.absent_page_vmar" => || absent_page(Mapped),
    "pager.dirty.absent_page_vmo" => || absent_page(Called),
    "pager.dirty.trapped_vmar" => || trapped(Mapped),
    "pager.dirty.trapped_vmo" => || trapped(Called),
    "pager.dirty.trapped_absent_page_vmar" => || trapped_absent_page(Mapped),
    "pager.dirty.trapped_absent_page_vmo" => || trapped_absent_page(Called),
    "pager.dirty.trapped_range" => trapped_range,
    "pager.dirty.trapped_once" => trapped_once,
    "pager.dirty.refused_vmar" => || refused(Mapped),
    "pager.dirty.refused_vmo" => || refused(Called),
    "pager.dirty.detached_meanwhile" => detached_meanwhile,
    "pager.dirty.pager_makes_dirty" => pager_makes_dirty,
    "pager.dirty.shrunk" => shrunk,
    "pager.dirty.kept_when_detached" => kept_when_detached,
    "pager.dirty.not_by_clones" => not_by_clones,
    "pager.dirty.not_by_reading" => not_by_reading,
    "pager.writeback.cleans" => writeback_cleans,
    "pager.writeback.written_meanwhile_vmar" => || written_meanwhile(Mapped),
    "pager.writeback.written_meanwhile_vmo" => || written_meanwhile(Called),
    "pager.writeback.trapped_meanwhile_vmar" => || trapped_meanwhile(Mapped),
    "pager.writeback.trapped_meanwhile_vmo" => || trapped_meanwhile(Called),
    "pager.writeback.in_parts" => writeback_in_parts,
    "pager.writeback.end_without_begin" => end_without_begin,
    "pager.zero.grown" => grown,
    "pager.zero.grown_trapped_vmar" => || grown_trapped(Mapped),
    "pager.zero.grown_trapped_vmo" => || grown_trapped(Called),
    "pager.zero.grown_by_a_stream" => grown_by_a_stream,
    "pager.zero.written_back" => zero_written_back,
    "pager.zero.written_before_writeback" => zero_written_before,
    "pager.zero.by_op" => zero_by_op,
    "pager.zero.by_op_trapped" => zero_by_op_trapped,
    "pager.zero.commit" => zero_commit,
    "pager.query.ranges" => query_ranges,
    "pager.query.small_buffer" => query_small_buffer,
    "pager.query.unaligned" => query_unaligned,
    "pager.query.stats" => query_stats,
}

const NONE: zx_vmo_dirty_range_t = zx_vmo_dirty_range_t { offset: 0, length: 0, options: 0 };

/// The dirty ranges of a VMO in pages: first page, number of pages, whether they are zero.
fn ranges(supplier: &Supplier, vmo: &Paged) -> Result<Vec<(u64, u64, bool)>, Failure> {
    let mut ranges = [NONE; 16];
    let found = supplier.pager.query_dirty_ranges(vmo, 0, vmo.get_size()?, &mut ranges)?;
    equal(found.actual, found.avail)?;
    let pages = |range: &zx_vmo_dirty_range_t| {
        (range.offset / PAGE, range.length / PAGE, range.options == ZX_VMO_DIRTY_RANGE_IS_ZERO)
    };
    Ok(ranges[..found.actual].iter().map(pages).collect())
}

#[track_caller]
fn dirty(supplier: &Supplier, vmo: &Paged, expected: &[(u64, u64, bool)]) -> Outcome {
    equal(ranges(supplier, vmo)?, expected.to_vec())
}

fn op(supplier: &Supplier, vmo: &Paged, op: u32, first: u64, count: u64) -> zx::Result<()> {
    supplier.pager.op_range(op, vmo, first * PAGE, count * PAGE, 0)
}

/// A VMO whose pages are all supplied.
fn supplied(pages: u64, options: u32) -> Result<(Supplier, Paged), Failure> {
    let (supplier, vmo) = Supplier::with_options(pages, options)?;
    supplier.supply(&vmo, 0, pages)?;
    Ok((supplier, vmo))
}

fn write(how: AccessKind) -> Outcome {
    let (supplier, vmo) = supplied(4, 0)?;
    dirty(&supplier, &vmo, &[])?;
    // The page is read before it is written, so it is mapped clean.
    Access::read(how, &vmo, 1, 1)?.ends()?;
    Access::write(how, &vmo, 1, 2, 55)?.ends()?;
    dirty(&supplier, &vmo, &[(1, 2, false)])?;
    equal(words(&vmo, 0, 4)?, vec![content(0), 55, 55, content(3)])?;
    supplier.unasked()
}

fn absent_page(how: AccessKind) -> Outcome {
    let (supplier, vmo) = Supplier::with(1)?;
    let access = Access::write(how, &vmo, 0, 1, 55)?;
    supplier.asked_to_read(&vmo, 0, 1)?;
    supplier.supply(&vmo, 0, 1)?;
    access.ends()?;
    dirty(&supplier, &vmo, &[(0, 1, false)])?;
    equal(words(&vmo, 0, 1)?, vec![55])?;
    supplier.unasked()
}

fn trapped(how: AccessKind) -> Outcome {
    let (supplier, vmo) = supplied(2, ZX_VMO_TRAP_DIRTY)?;
    let access = Access::write(how, &vmo, 1, 1, 55)?;
    supplier.asked(&vmo, ZX_PAGER_VMO_DIRTY, 1, 1)?;
    access.waits()?;
    dirty(&supplier, &vmo, &[])?;
    equal(words(&vmo, 1, 1)?, vec![content(1)])?;
    op(&supplier, &vmo, ZX_PAGER_OP_DIRTY, 1, 1)?;
    access.ends()?;
    dirty(&supplier, &vmo, &[(1, 1, false)])?;
    equal(words(&vmo, 1, 1)?, vec![55])?;
    supplier.unasked()
}

fn trapped_absent_page(how: AccessKind) -> Outcome {
    let (supplier, vmo) = Supplier::with_options(1, ZX_VMO_TRAP_DIRTY)?;
    let access = Access::write(how, &vmo, 0, 1, 55)?;
    supplier.asked_to_read(&vmo, 0, 1)?;
    supplier.supply(&vmo, 0, 1)?;
    supplier.asked(&vmo, ZX_PAGER_VMO_DIRTY, 0, 1)?;
    op(&supplier, &vmo, ZX_PAGER_OP_DIRTY, 0, 1)?;
    access.ends()?;
    equal(words(&vmo, 0, 1)?, vec![55])?;
    supplier.unasked()
}

/// A call that writes a range requests it at once, without the pages that are dirty already.
fn trapped_range() -> Outcome {
    let (supplier, vmo) = supplied(8, ZX_VMO_TRAP_DIRTY)?;
    op(&supplier, &vmo, ZX_PAGER_OP_DIRTY, 5, 1)?;
    let access = Access::write(Called, &vmo, 1, 6, 55)?;
    supplier.asked(&vmo, ZX_PAGER_VMO_DIRTY, 1, 4)?;
    op(&supplier, &vmo, ZX_PAGER_OP_DIRTY, 1, 2)?;
    access.still_waits()?;
    op(&supplier, &vmo, ZX_PAGER_OP_DIRTY, 3, 2)?;
    supplier.asked(&vmo, ZX_PAGER_VMO_DIRTY, 6, 1)?;
    op(&supplier, &vmo, ZX_PAGER_OP_DIRTY, 6, 1)?;
    access.ends()?;
    dirty(&supplier, &vmo, &[(1, 6, false)])?;
    supplier.unasked()
}

/// Several threads that write the same page cause one request; a dirty page causes none.
fn trapped_once() -> Outcome {
    let (supplier, vmo) = supplied(1, ZX_VMO_TRAP_DIRTY)?;
    let accesses = [Access::write(Mapped, &vmo, 0, 1, 55)?, Access::write(Called, &vmo, 0, 1, 55)?];
    accesses.iter().try_for_each(Access::waits)?;
    supplier.asked(&vmo, ZX_PAGER_VMO_DIRTY, 0, 1)?;
    supplier.unasked()?;
    op(&supplier, &vmo, ZX_PAGER_OP_DIRTY, 0, 1)?;
    accesses.into_iter().try_for_each(Access::ends)?;
    Access::write(Mapped, &vmo, 0, 1, 66)?.ends()?;
    Access::write(Called, &vmo, 0, 1, 77)?.ends()?;
    equal(words(&vmo, 0, 1)?, vec![77])?;
    supplier.unasked()
}

fn refused(how: AccessKind) -> Outcome {
    let (supplier, vmo) = supplied(1, ZX_VMO_TRAP_DIRTY)?;
    let access = Access::write(how, &vmo, 0, 1, 55)?;
    supplier.asked(&vmo, ZX_PAGER_VMO_DIRTY, 0, 1)?;
    supplier.fail(&vmo, 0, 1, Status::NO_SPACE)?;
    access.fails(Status::NO_SPACE)?;
    // The page can still be read.
    equal(words(&vmo, 0, 1)?, vec![content(0)])?;
    dirty(&supplier, &vmo, &[])?;
    supplier.unasked()
}

fn detached_meanwhile() -> Outcome {
    let (supplier, vmo) = supplied(1, ZX_VMO_TRAP_DIRTY)?;
    let access = Access::write(Mapped, &vmo, 0, 1, 55)?;
    supplier.asked(&vmo, ZX_PAGER_VMO_DIRTY, 0, 1)?;
    supplier.pager.detach_vmo(&vmo)?;
    access.fails(Status::BAD_STATE)?;
    supplier.completed(&vmo)
}

/// The pager can make pages dirty that were not written.
fn pager_makes_dirty() -> Outcome {
    for options in [0, ZX_VMO_TRAP_DIRTY] {
        let (supplier, vmo) = supplied(4, options)?;
        op(&supplier, &vmo, ZX_PAGER_OP_DIRTY, 1, 2)?;
        op(&supplier, &vmo, ZX_PAGER_OP_DIRTY, 2, 2)?;
        dirty(&supplier, &vmo, &[(1, 3, false)])?;
        supplier.unasked()?;
    }
    Ok(())
}

fn shrunk() -> Outcome {
    let (supplier, vmo) = supplied(4, ZX_VMO_RESIZABLE)?;
    vmo.write(&[1; 3 * 4096], PAGE)?;
    dirty(&supplier, &vmo, &[(1, 3, false)])?;
    vmo.set_size(2 * PAGE)?;
    dirty(&supplier, &vmo, &[(1, 1, false)])?;
    // The regrown pages are zero, and therefore dirty.
    vmo.set_size(4 * PAGE)?;
    dirty(&supplier, &vmo, &[(1, 1, false), (2, 2, true)])?;
    supplier.unasked()
}

/// A VMO that is detached from its pager keeps its dirty pages.
fn kept_when_detached() -> Outcome {
    let (supplier, vmo) = supplied(3, ZX_VMO_RESIZABLE)?;
    vmo.write(&55_u64.to_le_bytes(), PAGE)?;
    vmo.set_size(4 * PAGE)?;
    supplier.pager.detach_vmo(&vmo)?;
    supplier.completed(&vmo)?;
    dirty(&supplier, &vmo, &[(1, 1, false), (3, 1, true)])?;
    for how in [Mapped, Called] {
        Access::read(how, &vmo, 1, 1)?.finds(&[55])?;
        Access::read(how, &vmo, 3, 1)?.finds(&[0])?;
        Access::read(how, &vmo, 0, 1)?.fails(Status::BAD_STATE)?;
    }
    op(&supplier, &vmo, ZX_PAGER_OP_WRITEBACK_BEGIN, 0, 4)?;
    op(&supplier, &vmo, ZX_PAGER_OP_WRITEBACK_END, 0, 4)?;
    dirty(&supplier, &vmo, &[])
}

fn not_by_clones() -> Outcome {
    let (supplier, vmo) = supplied(2, ZX_VMO_TRAP_DIRTY)?;
    let clone = vmo.create_child(abi::ZX_VMO_CHILD_SNAPSHOT_AT_LEAST_ON_WRITE, 0, 2 * PAGE)?;
    Access::write(Mapped, &clone, 0, 1, 55)?.ends()?;
    Access::write(Called, &clone, 1, 1, 55)?.ends()?;
    dirty(&supplier, &vmo, &[])?;
    equal(supplier.pager.query_vmo_stats(&vmo, 0)?.modified, 0)?;
    supplier.unasked()
}

/// A writable mapping that is only read does not make pages dirty.
fn not_by_reading() -> Outcome {
    for options in [0, ZX_VMO_TRAP_DIRTY] {
        let (supplier, vmo) = supplied(2, options)?;
        let permissions = ZX_VM_PERM_READ | ZX_VM_PERM_WRITE;
        let region = zx::startup::vmar_root_self();
        let mapping = region.map_here(permissions, &vmo, 0, 2 * PAGE as usize)?;
        let mut word = [0; 8];
        mapping.read(0, &mut word)?;
        mapping.read(PAGE as usize, &mut word)?;
        vmo.op_range(ZX_VMO_OP_COMMIT, 0, 2 * PAGE)?;
        dirty(&supplier, &vmo, &[])?;
        supplier.unasked()?;
    }
    Ok(())
}

fn writeback_cleans() -> Outcome {
    let (supplier, vmo) = supplied(4, 0)?;
    vmo.write(&[1; 2 * 4096], PAGE)?;
    op(&supplier, &vmo, ZX_PAGER_OP_WRITEBACK_BEGIN, 0, 4)?;
    // The pages are not clean before the end of the writeback.
    dirty(&supplier, &vmo, &[(1, 2, false)])?;
    op(&supplier, &vmo, ZX_PAGER_OP_WRITEBACK_END, 0, 4)?;
    dirty(&supplier, &vmo, &[])?;
    vmo.write(&[2], 2 * PAGE)?;
    dirty(&supplier, &vmo, &[(2, 1, false)])?;
    supplier.unasked()
}

/// A page that is written during its writeback is dirty afterwards.
fn written_meanwhile(how: AccessKind) -> Outcome {
    let (supplier, vmo) = supplied(2, 0)?;
    let permissions = ZX_VM_PERM_READ | ZX_VM_PERM_WRITE;
    let region = zx::startup::vmar_root_self();
    let mapping = region.map_here(permissions, &vmo, 0, 2 * PAGE as usize)?;
    mapping.write(0, &[1])?;
    mapping.write(PAGE as usize, &[1])?;
    op(&supplier, &vmo, ZX_PAGER_OP_WRITEBACK_BEGIN, 0, 2)?;
    match how {
        Mapped => mapping.write(PAGE as usize, &[2])?,
        Called => vmo.write(&[2], PAGE)?,
    }
    op(&supplier, &vmo, ZX_PAGER_OP_WRITEBACK_END, 0, 2)?;
    dirty(&supplier, &vmo, &[(1, 1, false)])?;
    // The mapping also notices that the first page is clean again.
    mapping.write(0, &[3])?;
    dirty(&supplier, &vmo, &[(0, 2, false)])?;
    supplier.unasked()
}

fn trapped_meanwhile(how: AccessKind) -> Outcome {
    let (supplier, vmo) = supplied(1, ZX_VMO_TRAP_DIRTY)?;
    op(&supplier, &vmo, ZX_PAGER_OP_DIRTY, 0, 1)?;
    Access::write(how, &vmo, 0, 1, 55)?.ends()?;
    op(&supplier, &vmo, ZX_PAGER_OP_WRITEBACK_BEGIN, 0, 1)?;
    let access = Access::write(how, &vmo, 0, 1, 66)?;
    supplier.asked(&vmo, ZX_PAGER_VMO_DIRTY, 0, 1)?;
    access.waits()?;
    op(&supplier, &vmo, ZX_PAGER_OP_DIRTY, 0, 1)?;
    access.ends()?;
    op(&supplier, &vmo, ZX_PAGER_OP_WRITEBACK_END, 0, 1)?;
    dirty(&supplier, &vmo, &[(0, 1, false)])?;
    equal(words(&vmo, 0, 1)?, vec![66])?;
    supplier.unasked()
}

fn writeback_in_parts() -> Outcome {
    let (supplier, vmo) = supplied(6, 0)?;
    vmo.write(&[1; 6 * 4096], 0)?;
    op(&supplier, &vmo, ZX_PAGER_OP_WRITEBACK_BEGIN, 1, 3)?;
    op(&supplier, &vmo, ZX_PAGER_OP_WRITEBACK_END, 0, 2)?;
    dirty(&supplier, &vmo, &[(0, 1, false), (2, 4, false)])?;
    op(&supplier, &vmo, ZX_PAGER_OP_WRITEBACK_END, 0, 6)?;
    dirty(&supplier, &vmo, &[(0, 1, false), (4, 2, false)])?;
    supplier.unasked()
}

fn end_without_begin() -> Outcome {
    let (supplier, vmo) = supplied(2, 0)?;
    vmo.write(&[1], 0)?;
    op(&supplier, &vmo, ZX_PAGER_OP_WRITEBACK_END, 0, 2)?;
    dirty(&supplier, &vmo, &[(0, 1, false)])
}

/// The pages by which a VMO grows are known to be zero: they cause no request, and are to be written back.
fn grown() -> Outcome {
    let (supplier, vmo) = supplied(1, ZX_VMO_RESIZABLE)?;
    vmo.set_size(6 * PAGE)?;
    dirty(&supplier, &vmo, &[(1, 5, true)])?;
    for how in [Mapped, Called] {
        Access::read(how, &vmo, 0, 6)?.finds(&[content(0), 0, 0, 0, 0, 0])?;
    }
    equal(vmo.info()?.committed_bytes, PAGE)?;
    Access::write(Mapped, &vmo, 2, 1, 55)?.ends()?;
    Access::write(Called, &vmo, 4, 1, 66)?.ends()?;
    dirty(&supplier, &vmo, &[(1, 1, true), (2, 1, false), (3, 1, true), (4, 1, false), (5, 1, true)])?;
    equal(words(&vmo, 0, 6)?, vec![content(0), 0, 55, 0, 66, 0])?;
    supplier.unasked()
}

/// A page that is only known to be zero needs memory when it is written; the pager gets a request for that.
fn grown_trapped(how: AccessKind) -> Outcome {
    let (supplier, vmo) = supplied(1, ZX_VMO_RESIZABLE | ZX_VMO_TRAP_DIRTY)?;
    vmo.set_size(4 * PAGE)?;
    let access = Access::write(how, &vmo, 2, 1, 55)?;
    supplier.asked(&vmo, ZX_PAGER_VMO_DIRTY, 2, 1)?;
    access.waits()?;
    op(&supplier, &vmo, ZX_PAGER_OP_DIRTY, 2, 1)?;
    access.ends()?;
    dirty(&supplier, &vmo, &[(1, 1, true), (2, 1, false), (3, 1, true)])?;
    equal(words(&vmo, 0, 4)?, vec![content(0), 0, 55, 0])?;
    supplier.unasked()
}

/// A write through a stream makes the VMO grow, and then waits until the pager permits the write.
fn grown_by_a_stream() -> Outcome {
    let (supplier, vmo) = supplied(1, ZX_VMO_RESIZABLE | ZX_VMO_TRAP_DIRTY)?;
    let stream = Stream::create(ZX_STREAM_MODE_WRITE, &vmo, PAGE)?;
    let access = Access::call(move || stream.write(&[7; 8]).map(|count| vec![count as u64]));
    supplier.asked(&vmo, ZX_PAGER_VMO_DIRTY, 1, 1)?;
    access.waits()?;
    op(&supplier, &vmo, ZX_PAGER_OP_DIRTY, 1, 1)?;
    access.ends()?;
    equal(words(&vmo, 0, 2)?, vec![content(0), u64::from_le_bytes([7; 8])])?;
    supplier.unasked()
}

/// Zero pages that were written back belong to the pager, which gets requests for them from then on.
fn zero_written_back() -> Outcome {
    let (supplier, vmo) = supplied(1, ZX_VMO_RESIZABLE)?;
    vmo.set_size(3 * PAGE)?;
    let zero = ZX_VMO_DIRTY_RANGE_IS_ZERO;
    supplier.pager.op_range(ZX_PAGER_OP_WRITEBACK_BEGIN, &vmo, PAGE, 2 * PAGE, zero)?;
    dirty(&supplier, &vmo, &[(1, 2, true)])?;
    op(&supplier, &vmo, ZX_PAGER_OP_WRITEBACK_END, 1, 2)?;
    dirty(&supplier, &vmo, &[])?;
    let access = Access::read(Called, &vmo, 1, 1)?;
    supplier.asked_to_read(&vmo, 1, 1)?;
    supplier.supply(&vmo, 1, 1)?;
    access.finds(&[content(1)])?;
    supplier.unasked()
}

/// A pager that writes back zeroes says so: pages that were written meanwhile do not count as written back.
fn zero_written_before() -> Outcome {
    let (supplier, vmo) = supplied(1, ZX_VMO_RESIZABLE)?;
    vmo.set_size(4 * PAGE)?;
    vmo.write(&55_u64.to_le_bytes(), 2 * PAGE)?;
    let zero = ZX_VMO_DIRTY_RANGE_IS_ZERO;
    supplier.pager.op_range(ZX_PAGER_OP_WRITEBACK_BEGIN, &vmo, PAGE, 3 * PAGE, zero)?;
    // The same for a page that is written from now on.
    vmo.write(&66_u64.to_le_bytes(), 3 * PAGE)?;
    op(&supplier, &vmo, ZX_PAGER_OP_WRITEBACK_END, 1, 3)?;
    dirty(&supplier, &vmo, &[(2, 2, false)])?;
    equal(words(&vmo, 2, 2)?, vec![55, 66])?;
    supplier.unasked()
}

/// Zeroing requests only pages of which a part remains.
fn zero_by_op() -> Outcome {
    let (supplier, vmo) = Supplier::with(5)?;
    vmo.op_range(ZX_VMO_OP_ZERO, PAGE, 2 * PAGE)?;
    supplier.unasked()?;
    equal(words(&vmo, 1, 2)?, vec![0, 0])?;
    dirty(&supplier, &vmo, &[(1, 2, true)])?;
    supplier.supply(&vmo, 3, 1)?;
    vmo.op_range(ZX_VMO_OP_ZERO, 3 * PAGE, PAGE)?;
    equal(words(&vmo, 3, 1)?, vec![0])?;
    equal(ranges(&supplier, &vmo)?.iter().map(|range| range.1).sum::<u64>(), 3)?;
    let other = crate::pager_vmo::another(&vmo)?;
    let access = Access::call(move || other.op_range(ZX_VMO_OP_ZERO, 4 * PAGE, 4).map(|()| Vec::new()));
    supplier.asked_to_read(&vmo, 4, 1)?;
    supplier.supply(&vmo, 4, 1)?;
    access.ends()?;
    equal(words(&vmo, 4, 1)?, vec![content(4) >> 32 << 32])?;
    supplier.unasked()
}

fn zero_by_op_trapped() -> Outcome {
    let (supplier, vmo) = supplied(4, ZX_VMO_TRAP_DIRTY)?;
    let access = Access::op(&vmo, ZX_VMO_OP_ZERO, 1, 2)?;
    supplier.asked(&vmo, ZX_PAGER_VMO_DIRTY, 1, 2)?;
    access.waits()?;
    op(&supplier, &vmo, ZX_PAGER_OP_DIRTY, 1, 2)?;
    access.ends()?;
    equal(words(&vmo, 0, 4)?, vec![content(0), 0, 0, content(3)])?;
    equal(ranges(&supplier, &vmo)?.iter().map(|range| range.1).sum::<u64>(), 2)?;
    supplier.unasked()
}

/// Committing makes no page dirty, and requests no zero pages.
fn zero_commit() -> Outcome {
    let (supplier, vmo) = supplied(1, ZX_VMO_RESIZABLE | ZX_VMO_TRAP_DIRTY)?;
    vmo.set_size(4 * PAGE)?;
    vmo.op_range(ZX_VMO_OP_COMMIT, 0, 4 * PAGE)?;
    equal(words(&vmo, 0, 4)?, vec![content(0), 0, 0, 0])?;
    equal(ranges(&supplier, &vmo)?.iter().map(|range| range.1).sum::<u64>(), 3)?;
    supplier.unasked()
}

fn query_ranges() -> Outcome {
    let (supplier, vmo) = supplied(8, 0)?;
    for page in [1, 2, 5, 7] {
        vmo.write(&[1], page * PAGE)?;
    }
    // A page in writeback is part of the same range as its neighbours.
    op(&supplier, &vmo, ZX_PAGER_OP_WRITEBACK_BEGIN, 2, 1)?;
    dirty(&supplier, &vmo, &[(1, 2, false), (5, 1, false), (7, 1, false)])?;
    let mut found = [NONE; 8];
    let size = supplier.pager.query_dirty_ranges(&vmo, 2 * PAGE, 4 * PAGE, &mut found)?;
    equal((size.actual, size.avail), (2, 2))?;
    equal((found[0].offset, found[0].length, found[1].offset, found[1].length), (2 * PAGE, PAGE, 5 * PAGE, PAGE))
}

fn query_small_buffer() -> Outcome {
    let (supplier, vmo) = supplied(8, 0)?;
    for page in [0, 2, 4, 6] {
        vmo.write(&[1], page * PAGE)?;
    }
    let mut found = [NONE; 3];
    let size = supplier.pager.query_dirty_ranges(&vmo, 0, 8 * PAGE, &mut found)?;
    equal((size.actual, size.avail), (3, 4))?;
    equal(found.map(|range| range.offset), [0, 2 * PAGE, 4 * PAGE])?;
    let size = supplier.pager.query_dirty_ranges(&vmo, 0, 8 * PAGE, &mut [])?;
    equal((size.actual, size.avail), (0, 4))?;
    // Both counts and the buffer can be null.
    let (pager, vmo) = (supplier.pager.raw_handle(), vmo.raw_handle());
    let buffer = found.as_mut_ptr();
    let status = super::raw!(zx_pager_query_dirty_ranges, pager, vmo, 0, 8 * PAGE, buffer, 24, 0, 0);
    equal(status, Status::OK)?;
    let status = super::raw!(zx_pager_query_dirty_ranges, pager, vmo, 0, 8 * PAGE, 0, 0, 0, 0);
    equal(status, Status::OK)
}

fn query_unaligned() -> Outcome {
    let (supplier, vmo) = supplied(4, 0)?;
    vmo.write(&[1; 4 * 4096], 0)?;
    let mut found = [NONE; 2];
    let size = supplier.pager.query_dirty_ranges(&vmo, PAGE + 5, PAGE, &mut found)?;
    equal((size.actual, found[0].offset, found[0].length), (1, PAGE, 2 * PAGE))?;
    fails(supplier.pager.query_dirty_ranges(&vmo, 5, 4 * PAGE, &mut found), Status::OUT_OF_RANGE)
}

fn query_stats() -> Outcome {
    let (supplier, vmo) = supplied(3, ZX_VMO_RESIZABLE)?;
    let modified = |options| supplier.pager.query_vmo_stats(&vmo, options).map(|stats| stats.modified);
    words(&vmo, 0, 3)?;
    equal(modified(0)?, 0)?;
    vmo.write(&[1], 0)?;
    equal(modified(0)?, ZX_PAGER_VMO_STATS_MODIFIED)?;
    equal(modified(ZX_PAGER_RESET_VMO_STATS)?, ZX_PAGER_VMO_STATS_MODIFIED)?;
    equal(modified(0)?, 0)?;
    // Another write to the same page, which is dirty already: by a call, and through a mapping.
    vmo.write(&[2], 0)?;
    equal(modified(ZX_PAGER_RESET_VMO_STATS)?, ZX_PAGER_VMO_STATS_MODIFIED)?;
    Access::write(Mapped, &vmo, 0, 1, 55)?.ends()?;
    equal(modified(ZX_PAGER_RESET_VMO_STATS)?, ZX_PAGER_VMO_STATS_MODIFIED)?;
    vmo.set_size(PAGE)?;
    equal(modified(ZX_PAGER_RESET_VMO_STATS)?, ZX_PAGER_VMO_STATS_MODIFIED)?;
    op(&supplier, &vmo, ZX_PAGER_OP_WRITEBACK_BEGIN, 0, 1)?;
    op(&supplier, &vmo, ZX_PAGER_OP_WRITEBACK_END, 0, 1)?;
    equal(modified(0)?, 0)
}
