//! Bombs without objects of their own, or with objects that hold more than they seem to: what the server records, maps,
//! or keeps for later.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use abi::{
    ZX_IOB_ACCESS_EP0_CAN_MAP_READ, ZX_VM_CAN_MAP_READ, ZX_VM_CAN_MAP_SPECIFIC, ZX_VM_PERM_READ, ZX_VM_PERM_WRITE,
    ZX_VMO_OP_ZERO,
};
use zx::{
    AsHandleRef, Clock, Counter, Event, EventPair, Fifo, Iob, IobDiscipline, Pager, Port, Rights, Socket, Stream, Vmo,
};

use super::{Take, keep, thread};

const PAGE: u64 = 4096;
/// The largest size of a pager's VMO here.
const VAST: u64 = 1 << 50;

/// The objects that a bomb uses.
pub struct BombObjects {
    pub event: Event,
    pub vmo: Vmo,
    /// Memory that is never written: two pages in each 2 MiB that are mapped.
    pager: Pager,
    port: Port,
    paged: Vmo,
    copy: Vmo,
    iob: Iob,
    _other: Iob,
    datagrams: (Socket, Socket),
    count: AtomicU64,
}

impl BombObjects {
    pub fn new() -> zx::Result<BombObjects> {
        let (pager, port) = (Pager::create()?, Port::create()?);
        let paged = pager.create_vmo(0, &port, 1, VAST)?;
        let copy = paged.create_child(abi::ZX_VMO_CHILD_SNAPSHOT_AT_LEAST_ON_WRITE, 0, VAST)?;
        let region = Iob::private_region(ZX_IOB_ACCESS_EP0_CAN_MAP_READ, PAGE, IobDiscipline::None);
        let (iob, other) = Iob::create(&[region])?;
        let vmo = Vmo::create(PAGE, 0)?;
        vmo.write(&[1; 8], 0)?;
        Ok(BombObjects {
            event: Event::create()?,
            vmo,
            pager,
            port,
            paged,
            copy,
            iob,
            _other: other,
            datagrams: Socket::create(abi::ZX_SOCKET_DATAGRAM)?,
            count: AtomicU64::new(0),
        })
    }

    /// A new number each time.
    fn next(&self) -> u64 {
        self.count.fetch_add(1, Relaxed)
    }
}

/// Maps a page of a VMO at an address of its own, and loads a byte there.
fn show(vmo: &Vmo, pages: usize) -> zx::Result<()> {
    let len = pages * PAGE as usize;
    let at = zx::startup::vmar_root_self().map(ZX_VM_PERM_READ, 0, vmo, 0, len)?;
    // If no more memory is available, a load would end the program: it is left out then.
    let loaded = (0..pages).try_for_each(|page| {
        room()?;
        zx::probe::read(at + page * PAGE as usize);
        Ok(())
    });
    keep(())?;
    loaded
}

/// Whether some more pages are available.
fn room() -> zx::Result<()> {
    const LEFT: u64 = 1 << 20;
    let job = zx::startup::job_default().ok_or(zx::Status::NOT_FOUND)?;
    let [used, limit] =
        [abi::HAFNON_PROP_JOB_MEMORY_USED, abi::HAFNON_PROP_JOB_MEMORY_LIMIT].map(|which| job.get_property_u64(which));
    if used? + LEFT < limit? { Ok(()) } else { Err(zx::Status::NO_MEMORY) }
}

/// The bombs, by name.
pub const BOMBS: &[(&str, Take)] = &[
    ("clock", |_| keep(Clock::create(abi::ZX_CLOCK_OPT_MAPPABLE)?)),
    ("copy", |with| keep(with.vmo.create_child(abi::ZX_VMO_CHILD_SNAPSHOT, 0, PAGE)?)),
    ("counter", |_| keep(Counter::create()?)),
    ("datagram", |with| match with.datagrams.0.write(b"x") {
        Ok(_) => Ok(()),
        Err(_) => {
            let pair = Socket::create(abi::ZX_SOCKET_DATAGRAM)?;
            while pair.0.write(b"x").is_ok() {}
            keep(pair)
        }
    }),
    ("eventpair", |_| keep(EventPair::create()?)),
    ("fifo", |_| keep(Fifo::create(512, 8)?)),
    ("forced", |with| {
        // A forced write to read-only memory makes a copy of it.
        let weak = Vmo::from(with.vmo.duplicate_handle(Rights::BASIC | Rights::READ | Rights::MAP)?);
        let at = zx::startup::vmar_root_self().map(ZX_VM_PERM_READ, 0, &weak, 0, PAGE as usize)?;
        zx::startup::process_self().write_memory(at, &[1]).map(drop)
    }),
    ("iob", |_| keep(Iob::create(&[Iob::private_region(ZX_IOB_ACCESS_EP0_CAN_MAP_READ, PAGE, IobDiscipline::None)])?)),
    ("page_table", |_| {
        // One page in each page table.
        const STRIDE: u64 = 2 << 20;
        let vmo = Vmo::create(64 * STRIDE, 0)?;
        let at = zx::startup::vmar_root_self().map(ZX_VM_PERM_READ, 0, &vmo, 0, (64 * STRIDE) as usize)?;
        (0..64).try_for_each(|table| {
            room()?;
            zx::probe::read(at + table * STRIDE as usize);
            Ok(())
        })
    }),
    // Nothing takes the packets that report the end of these VMOs.
    ("pager_ended", |with| with.pager.create_vmo(0, &with.port, 1, PAGE).map(drop)),
    ("pager_vmo", |with| keep(with.pager.create_vmo(0, &with.port, 1, PAGE)?)),
    ("region", |_| {
        let can = ZX_VM_CAN_MAP_READ | ZX_VM_CAN_MAP_SPECIFIC;
        keep(zx::startup::vmar_root_self().allocate(can, 0, PAGE as usize)?)
    }),
    ("shown", |with| show(&with.vmo, 1)),
    ("split", |with| {
        // Splits one mapping into one mapping for each page.
        const PAGES: usize = 512;
        let root = zx::startup::vmar_root_self();
        let at = root.map(ZX_VM_PERM_READ | ZX_VM_PERM_WRITE, 0, &with.copy, 0, PAGES * PAGE as usize)?;
        (0..PAGES)
            .step_by(2)
            .try_for_each(|page| root.protect(ZX_VM_PERM_READ, at + page * PAGE as usize, PAGE as usize))
    }),
    ("stream", |with| keep(Stream::create(abi::ZX_STREAM_MODE_READ, &with.vmo, 0)?)),
    ("supplied", |with| with.pager.supply_pages(&with.paged, with.next() * 64 * PAGE, PAGE, &Vmo::create(PAGE, 0)?, 0)),
    ("wait_many", |with| {
        static WAITING: std::sync::OnceLock<Event> = std::sync::OnceLock::new();
        if WAITING.get().is_none() {
            let _ = WAITING.set(with.event.duplicate(Rights::SAME_RIGHTS)?);
        }
        thread(|| {
            let Some(event) = WAITING.get() else { return };
            let item = abi::zx_wait_item_t {
                handle: event.raw_handle(),
                waitfor: abi::Signals::USER_0.bits(),
                ..Default::default()
            };
            let mut items = [item; 64];
            let _ = zx::wait_many(&mut items, zx::MonotonicInstant::INFINITE);
        })
    }),
    ("window", |with| {
        zx::startup::vmar_root_self().map_iob(ZX_VM_PERM_READ, 0, &with.iob, 0, (0, PAGE as usize)).map(drop)
    }),
    ("zeroed", |with| with.paged.op_range(ZX_VMO_OP_ZERO, with.next() * 2 * PAGE, PAGE)),
    ("zeroed_copy", |with| with.copy.op_range(ZX_VMO_OP_ZERO, with.next() * 2 * PAGE, PAGE)),
    ("zeroes", |_| show(&Vmo::create(256 * PAGE, 0)?, 256)),
];
