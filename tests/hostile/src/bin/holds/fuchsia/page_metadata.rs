//! Notes about pages without memory: zeroes that a pager supplied, pages that were zeroed. A VMO may have as many notes
//! as its job's memory limit allows.

use abi::{
    Status, ZX_IOB_ACCESS_EP0_CAN_MAP_READ, ZX_IOB_ACCESS_EP0_CAN_MEDIATED_WRITE, ZX_PAGER_OP_DIRTY, ZX_PAGER_OP_FAIL,
    ZX_PAGER_OP_WRITEBACK_BEGIN, ZX_PAGER_OP_WRITEBACK_END, ZX_PAGER_RESET_VMO_STATS, ZX_VM_PERM_READ,
    ZX_VMO_CHILD_SNAPSHOT_AT_LEAST_ON_WRITE, ZX_VMO_OP_ZERO, ZX_VMO_RESIZABLE,
};
use conformance::check::{Case, Failure, Outcome, ensure, fails};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use zx::{AsHandleRef, Iob, IobDiscipline, Pager, Port, Vmo};

use super::{LESS, ends, holds_shortly, memory};

const PAGE: u64 = 4096;
/// Notes of one VMO. The server's heap keeps the memory that it has grown by for them, so there are no more.
const NOTES: u64 = 16_000;
/// Bytes in a blob.
const BLOB: u64 = 64 << 20;

/// What a pager supplies.
struct Paged {
    pager: Pager,
    _port: Port,
    vmo: Vmo,
}

impl Paged {
    fn new(size: u64, options: u32) -> Result<Paged, Failure> {
        let (pager, port) = (Pager::create()?, Port::create()?);
        let vmo = pager.create_vmo(options, &port, 1, size)?;
        Ok(Paged { pager, _port: port, vmo })
    }

    /// One page in each run of the page table is known to be zero.
    fn zeroes(options: u32) -> Result<Paged, Failure> {
        let paged = Paged::new(NOTES * 64 * PAGE, options)?;
        let aux = Vmo::create(PAGE, 0)?;
        for n in 0..NOTES {
            paged.pager.supply_pages(&paged.vmo, n * 64 * PAGE, PAGE, &aux, 0)?;
        }
        Ok(paged)
    }

    /// Every second page is dirty, and zero.
    fn dirt(options: u32) -> Result<Paged, Failure> {
        let paged = Paged::new(NOTES * 2 * PAGE, options)?;
        for n in 0..NOTES {
            paged.vmo.op_range(ZX_VMO_OP_ZERO, n * 2 * PAGE, PAGE)?;
        }
        Ok(paged)
    }

    /// Committed memory in small pages.
    fn memory() -> Result<Paged, Failure> {
        let paged = Paged::new(LESS, ZX_VMO_RESIZABLE)?;
        paged.pager.supply_pages(&paged.vmo, 0, LESS, &memory(LESS, true)?, 0)?;
        Ok(paged)
    }

    fn size(&self) -> Result<u64, Failure> {
        Ok(self.vmo.get_size()?)
    }
}

type Make = fn(u32) -> Result<Paged, Failure>;

fn close(kind: &str, make: Make) -> Outcome {
    let Paged { pager, _port, vmo } = make(0)?;
    ends(&format!("{kind}-close"), vmo)?;
    ends(&format!("{kind}-close-nothing"), pager)
}

fn close_pager(kind: &str, make: Make) -> Outcome {
    let Paged { pager, _port, vmo } = make(0)?;
    ends(&format!("{kind}-close-pager"), pager)?;
    drop(vmo);
    Ok(())
}

fn on(kind: &str, make: Make, options: u32, act: impl FnOnce(&Paged) -> Outcome) -> Outcome {
    let paged = make(options)?;
    holds_shortly(kind, || act(&paged))
}

fn op(paged: &Paged, op: u32, data: u64) -> Outcome {
    Ok(paged.pager.op_range(op, &paged.vmo, 0, paged.size()?, data)?)
}

fn write_back(paged: &Paged) -> Outcome {
    op(paged, ZX_PAGER_OP_WRITEBACK_BEGIN, 0)?;
    op(paged, ZX_PAGER_OP_WRITEBACK_END, 0)
}

fn fail(paged: &Paged) -> Outcome {
    op(paged, ZX_PAGER_OP_FAIL, i64::from(Status::IO.0).cast_unsigned())
}

fn zero(paged: &Paged) -> Outcome {
    Ok(paged.vmo.op_range(ZX_VMO_OP_ZERO, 0, paged.size()?)?)
}

/// Pages of a clone are zeroed where the pager's pages would show.
fn copy() -> Outcome {
    let paged = Paged::new(NOTES * 2 * PAGE, 0)?;
    let copy = paged.vmo.create_child(ZX_VMO_CHILD_SNAPSHOT_AT_LEAST_ON_WRITE, 0, paged.size()?)?;
    for n in 0..NOTES {
        copy.op_range(ZX_VMO_OP_ZERO, n * 2 * PAGE, PAGE)?;
    }
    holds_shortly("copy-zeroed-zero", || Ok(copy.op_range(ZX_VMO_OP_ZERO, 0, (2 * NOTES - 1) * PAGE)?))?;
    ends("copy-zeroed-close", copy)
}

/// A pager's memory, all of it mapped and dirty.
fn stats() -> Outcome {
    let paged = Paged::memory()?;
    let root = zx::startup::vmar_root_self();
    let mapping = root.map_here(ZX_VM_PERM_READ | abi::ZX_VM_PERM_WRITE, &paged.vmo, 0, LESS as usize)?;
    (0..LESS / PAGE).try_for_each(|page| mapping.write((page * PAGE) as usize, &[2]))?;
    holds_shortly("stats", || {
        let stats = paged.pager.query_vmo_stats(&paged.vmo, ZX_PAGER_RESET_VMO_STATS)?;
        ensure(stats.modified != 0, "it was modified")
    })?;
    holds_shortly("write-back-mapped", || write_back(&paged))?;
    holds_shortly("paged-resize", || Ok(paged.vmo.set_size(0)?))
}

/// A blob whose end is not committed is refused at once; a whole blob is copied.
fn blob() -> Outcome {
    let access = ZX_IOB_ACCESS_EP0_CAN_MAP_READ | ZX_IOB_ACCESS_EP0_CAN_MEDIATED_WRITE;
    let region = Iob::private_region(access, BLOB + (1 << 20), IobDiscipline::IdAllocator);
    let (one, _two) = Iob::create(&[region])?;
    let nothing = Vmo::create(BLOB, 0)?;
    let root = zx::startup::vmar_root_self();
    let address = root.map(ZX_VM_PERM_READ, 0, &nothing, 0, BLOB as usize)?;
    let allocate = |len: u64| {
        static NUMBER: AtomicU32 = AtomicU32::new(7);
        let function = zx::sys::zx_iob_allocate_id as *const () as usize;
        let place = NUMBER.as_ptr().expose_provenance() as u64;
        let status = zx::probe::call(function, &[one.raw_handle().into(), 0, 0, address as u64, len, place]);
        (Status(status as i32), NUMBER.load(SeqCst))
    };
    holds_shortly("blob-bad", || ensure(allocate(BLOB + PAGE).0 == Status::INVALID_ARGS, "it was taken"))?;
    holds_shortly("blob", || ensure(allocate(BLOB) == (Status::OK, 0), "it was not taken"))?;
    Ok(root.unmap(address, BLOB as usize)?)
}

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("holds.blob", blob),
        Case::new("holds.copy_zeroed", copy),
        Case::new("holds.dirt.close", || close("dirt", Paged::dirt)),
        Case::new("holds.dirt.close_pager", || close_pager("dirt", Paged::dirt)),
        Case::new("holds.dirt.detach", || on("dirt-detach", Paged::dirt, 0, |p| Ok(p.pager.detach_vmo(&p.vmo)?))),
        Case::new("holds.dirt.resize", || {
            on("dirt-resize", Paged::dirt, ZX_VMO_RESIZABLE, |p| Ok(p.vmo.set_size(0)?))
        }),
        Case::new("holds.dirt.write_back", || on("dirt-write-back", Paged::dirt, 0, write_back)),
        Case::new("holds.dirt.zero", || on("dirt-zero", Paged::dirt, 0, zero)),
        Case::new("holds.stats", stats),
        Case::new("holds.zeroes.close", || close("zeroes", Paged::zeroes)),
        Case::new("holds.zeroes.close_pager", || close_pager("zeroes", Paged::zeroes)),
        Case::new("holds.zeroes.detach", || {
            on("zeroes-detach", Paged::zeroes, 0, |p| Ok(p.pager.detach_vmo(&p.vmo)?))
        }),
        Case::new("holds.zeroes.dirty", || {
            on("zeroes-dirty", Paged::zeroes, abi::ZX_VMO_TRAP_DIRTY, |p| {
                fails(p.pager.op_range(ZX_PAGER_OP_DIRTY, &p.vmo, 0, p.size()?, 0), Status::NOT_FOUND)
            })
        }),
        Case::new("holds.zeroes.fail", || on("zeroes-fail", Paged::zeroes, 0, fail)),
        Case::new("holds.zeroes.resize", || {
            on("zeroes-resize", Paged::zeroes, ZX_VMO_RESIZABLE, |p| Ok(p.vmo.set_size(0)?))
        }),
        Case::new("holds.zeroes.zero", || on("zeroes-zero", Paged::zeroes, 0, zero)),
    ]
}
