//! Resources that the server keeps for a process and that are no objects of their own: they are charged to the
//! process's job.

use abi::{HAFNON_PROP_JOB_MEMORY_USED as USED, ZX_IOB_ACCESS_EP0_CAN_MAP_READ, ZX_VM_PERM_READ};
use zx::{AsHandleRef, Clock, Iob, IobDiscipline, Rights, Socket, Vmo};

use super::{cases, raw};
use crate::check::{Failure, Outcome, ensure, equal};
use crate::pager_vmo::Supplier;

cases! {
    "job.memory.charged.reading_nothing" => reading_nothing,
    "job.memory.charged.showing_one_page" => showing_one_page,
    "job.memory.charged.filling_mappings" => filling_mappings,
    "job.memory.charged.clocks" => clocks,
    "job.memory.charged.windows" => windows,
    "job.memory.charged.written_by_force" => written_by_force,
    "job.memory.charged.zeroes_supplied" => zeroes_supplied,
    "job.memory.charged.zeroed" => zeroed,
    "job.memory.charged.small_datagrams" => small_datagrams,
}

const PAGE: usize = 4096;
/// Least charge for a mapped page that is mapped elsewhere as well, or that is the zero page.
const SLOT: u64 = 64;
/// Least charge for a record.
const RECORD: u64 = 32;

/// The bytes charged to this process's job. Unused charges for the address space are returned at the next mapping, so
/// this function maps a page first.
fn used() -> Result<u64, Failure> {
    drop(Mapped::new(&Vmo::create(PAGE as u64, 0)?, 1, ZX_VM_PERM_READ)?);
    let job = zx::startup::job_default().ok_or("there is no job")?;
    Ok(job.get_property_u64(USED)?)
}

/// Does something that must be charged with at least `least` bytes, and undoes it, which must return the charge. Both
/// may differ by 256 KiB, because the server charges in advance.
fn charged<T>(least: u64, take: impl FnOnce() -> Result<T, Failure>) -> Outcome {
    const ADVANCE: u64 = 256 << 10;
    assert!(least > 2 * ADVANCE);
    let before = used()?;
    let taken = take()?;
    let with = used()?;
    drop(taken);
    let after = used()?;
    ensure(
        with >= before + least - ADVANCE,
        &format!("{} bytes are charged, not {least}", with.saturating_sub(before)),
    )?;
    ensure(
        after <= before + ADVANCE,
        &format!("of {} bytes {} stay charged", with - before, after.saturating_sub(before)),
    )
}

/// Memory that is mapped until this value is dropped.
struct Mapped {
    address: usize,
    len: usize,
}

impl Mapped {
    fn new(vmo: &Vmo, pages: usize, options: u32) -> Result<Mapped, Failure> {
        let len = pages * PAGE;
        Ok(Mapped { address: zx::startup::vmar_root_self().map(options, 0, vmo, 0, len)?, len })
    }

    /// Makes the processor load a byte of each page.
    fn load(&self) -> Outcome {
        (0..self.len / PAGE).try_for_each(|page| equal(zx::probe::read(self.address + page * PAGE), 0))
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        let root = zx::startup::vmar_root_self();
        let _ = raw!(zx_vmar_unmap, root.raw_handle(), self.address, self.len);
    }
}

fn reading_nothing() -> Outcome {
    const PAGES: usize = 20_000;
    charged(PAGES as u64 * SLOT, || {
        let mapped = Mapped::new(&Vmo::create((PAGES * PAGE) as u64, 0)?, PAGES, ZX_VM_PERM_READ)?;
        mapped.load()?;
        Ok(mapped)
    })
}

fn showing_one_page() -> Outcome {
    // Each mapping is charged as well.
    const TIMES: usize = 4000;
    let vmo = Vmo::create(PAGE as u64, 0)?;
    vmo.write(&[0; 8], 0)?;
    charged(TIMES as u64 * (256 + SLOT), || {
        (0..TIMES)
            .map(|_| {
                let mapped = Mapped::new(&vmo, 1, ZX_VM_PERM_READ)?;
                mapped.load()?;
                Ok(mapped)
            })
            .collect::<Result<Vec<_>, Failure>>()
    })
}

fn filling_mappings() -> Outcome {
    const PAGES: usize = 1000;
    const TIMES: usize = 16;
    let vmo = Vmo::create((PAGES * PAGE) as u64, 0)?;
    // Only every second page is written, so that neither large pages nor long runs can be mapped.
    (0..PAGES).step_by(2).try_for_each(|page| vmo.write(&[0], (page * PAGE) as u64))?;
    charged((TIMES * PAGES / 2) as u64 * SLOT * 3 / 2, || {
        let fill = ZX_VM_PERM_READ | abi::ZX_VM_MAP_RANGE;
        (0..TIMES).map(|_| Mapped::new(&vmo, PAGES, fill)).collect::<Result<Vec<_>, Failure>>()
    })
}

fn clocks() -> Outcome {
    charged(300 * PAGE as u64, || {
        Ok((0..300).map(|_| Clock::create(abi::ZX_CLOCK_OPT_MAPPABLE)).collect::<Result<Vec<_>, _>>()?)
    })
}

fn windows() -> Outcome {
    const TIMES: usize = 2000;
    let region = Iob::private_region(ZX_IOB_ACCESS_EP0_CAN_MAP_READ, PAGE as u64, IobDiscipline::None);
    let (one, _two) = Iob::create(&[region])?;
    charged(TIMES as u64 * 512, || {
        let root = zx::startup::vmar_root_self();
        let map = |_| root.map_iob(ZX_VM_PERM_READ, 0, &one, 0, (0, PAGE)).map(|address| Mapped { address, len: PAGE });
        Ok((0..TIMES).map(map).collect::<Result<Vec<_>, _>>()?)
    })
}

fn written_by_force() -> Outcome {
    const PAGES: usize = 512;
    let all = Vmo::create((PAGES * PAGE) as u64, 0)?;
    let weak = Vmo::from(all.duplicate_handle(Rights::BASIC | Rights::READ | Rights::MAP)?);
    charged((PAGES * PAGE) as u64, || {
        let mapped = Mapped::new(&weak, PAGES, ZX_VM_PERM_READ)?;
        let bytes = vec![1; PAGE];
        for page in 0..PAGES {
            zx::startup::process_self().write_memory(mapped.address + page * PAGE, &bytes)?;
        }
        Ok(mapped)
    })
}

fn zeroes_supplied() -> Outcome {
    const TIMES: u64 = 3000;
    let supplier = Supplier::new()?;
    charged(TIMES * 256, || {
        let vmo = supplier.vmo(1, TIMES * 64, 0)?;
        let aux = Vmo::create(PAGE as u64, 0)?;
        for n in 0..TIMES {
            supplier.pager.supply_pages(&vmo, n * 64 * PAGE as u64, PAGE as u64, &aux, 0)?;
        }
        Ok(vmo)
    })
}

fn zeroed() -> Outcome {
    const TIMES: u64 = 18_000;
    let supplier = Supplier::new()?;
    charged(TIMES * RECORD, || {
        let vmo = supplier.vmo(1, TIMES * 2, 0)?;
        for n in 0..TIMES {
            vmo.op_range(abi::ZX_VMO_OP_ZERO, n * 2 * PAGE as u64, PAGE as u64)?;
        }
        Ok(vmo)
    })
}

fn small_datagrams() -> Outcome {
    const TIMES: u64 = 18_000;
    charged(TIMES * RECORD, || {
        let pair = Socket::create(abi::ZX_SOCKET_DATAGRAM)?;
        (0..TIMES).try_for_each(|_| pair.0.write(b"x").map(drop))?;
        Ok(pair)
    })
}
