//! All ways in which a program can make the server keep memory for it: each is charged, stops at a limit, and is
//! returned.

use super::*;
use crate::containers::name::Name;
use crate::core::handle::{Handle, HandleValue};
use crate::core::port::Port;
use crate::fake::FakeMachine;
use crate::ipc::iob::{Discipline, Iob, RegionSpec, Source};
use crate::ipc::socket::Socket;
use crate::machine::{Perm, USER_BASE};
use crate::memory::pager::Pager;
use crate::memory::vmar::{MapRequest, Place, Vmar};
use crate::memory::vmo::{CloneKind, Vmo};
use crate::task::job::Job;
use crate::task::process::Process;
use crate::time::clock::MAPPED_SIZE;
use abi::{Rights, ZX_CLOCK_OPT_MAPPABLE, ZX_PAGER_OP_DIRTY, ZX_PAGER_OP_WRITEBACK_BEGIN};
use std::vec;
use std::vec::Vec;

const RW: Perm = Perm { read: true, write: true, execute: false };
const READ: Perm = Perm { read: true, write: false, execute: false };

/// A process in a job, with the objects that the ways need.
struct World {
    kernel: Kernel<FakeMachine>,
    job: Id<Job>,
    process: Id<Process>,
    root: Id<Vmar>,
    space: Key,
    held: Vec<Handle>,
    pager: Id<Pager>,
    pager_handle: HandleValue,
    port: Id<Port>,
    paged: Id<Vmo>,
    trapping: Id<Vmo>,
    copy: Id<Vmo>,
    supply: Id<Vmo>,
    iob: Id<Iob>,
    datagrams: (Id<Socket>, Id<Socket>),
}

impl World {
    fn new() -> World {
        let mut kernel = Kernel::new(FakeMachine::new(20_000)).unwrap();
        let top = kernel.root_job().unwrap();
        let job = kernel.job_create(top).unwrap();
        let (process, root) = kernel.process_create(job, Name::default()).unwrap();
        let held: Vec<Handle> = [job.object(), process.object(), root.object()]
            .map(|object| kernel.dup_handle(Handle { object, rights: Rights::NONE }))
            .into();
        let space = kernel.objects.get(root).unwrap().aspace.unwrap();
        let give = |kernel: &mut Kernel<FakeMachine>, vmo: Id<Vmo>| {
            kernel.give_new(process, vmo, Rights::all()).unwrap();
        };
        let pager = kernel.pager_create().unwrap();
        let pager_handle = kernel.give_new(process, pager, Rights::all()).unwrap();
        let port = kernel.port_create(false).unwrap();
        kernel.give_new(process, port, Rights::all()).unwrap();
        let [paged, trapping] = [false, true].map(|traps| {
            let vmo = kernel.pager_create_vmo(pager, (port, 0), 1 << 50, false, traps).unwrap();
            give(&mut kernel, vmo);
            vmo
        });
        let copy = kernel.vmo_create_clone(paged, CloneKind::AtLeastOnWrite, 0, 1 << 50, false).unwrap();
        give(&mut kernel, copy);
        let supply = kernel.vmo_create(PAGE, false).unwrap();
        give(&mut kernel, supply);
        let spec = RegionSpec { source: Source::Private(PAGE), access: 0xff, discipline: Discipline::None };
        let (iob, other) = kernel.iob_create(process, &[spec]).unwrap();
        kernel.give_new_pair(process, [iob, other], Rights::all()).unwrap();
        let datagrams = kernel.socket_create(true).unwrap();
        kernel.give_new_pair(process, [datagrams.0, datagrams.1], Rights::all()).unwrap();
        // A page to write from, and read-only memory.
        let page = kernel.vmo_create(PAGE, false).unwrap();
        give(&mut kernel, page);
        let weak = kernel.vmo_create(10_000 * PAGE, false).unwrap();
        give(&mut kernel, weak);
        for (at, vmo, len, perm) in [(0, page, PAGE, RW), (1 << 30, weak, 10_000 * PAGE, READ)] {
            let request = MapRequest { vmo, offset: 0, len, perm, max: perm, fixed: false };
            kernel.vmar_map(root, Place::At(at), request).unwrap();
        }
        kernel.copy_out(space, USER_BASE, &[1]).unwrap();
        World {
            kernel,
            job,
            process,
            root,
            space,
            held,
            pager,
            pager_handle,
            port,
            paged,
            trapping,
            copy,
            supply,
            iob,
            datagrams,
        }
    }

    fn used(&self) -> u64 {
        self.kernel.job_memory(self.job).unwrap().0
    }

    fn end(mut self) {
        self.kernel.process_kill(self.process, 0);
        self.held.into_iter().for_each(|handle| self.kernel.close(handle));
        self.kernel.reap();
        let root = self.kernel.root_job().unwrap();
        assert_eq!(self.kernel.job_memory(root).unwrap().0, 0, "something is charged after all has ended");
        self.kernel.check_memory();
    }
}

/// Creates one more, the n-th.
type Take = fn(&mut World, u64) -> Result<(), Status>;

/// Each way, with the minimum charge of one more in bytes.
fn ways() -> Vec<(&'static str, u64, Take)> {
    vec![
        ("zeroes that a pager supplies", 256, |w, n| {
            w.kernel.pager_supply_pages(w.pager, w.paged, (n * 64 * PAGE, PAGE), (w.supply, 0))
        }),
        ("pages of a pager's that are zeroed", 32, |w, n| w.kernel.vmo_zero(w.paged, n * 2 * PAGE, PAGE)),
        ("pages of a copy of them that are zeroed", 32, |w, n| w.kernel.vmo_zero(w.copy, n * 2 * PAGE, PAGE)),
        ("zeroes that a pager has be dirty", 256, |w, n| {
            let range = (n * 128 * PAGE, PAGE);
            w.kernel.pager_supply_pages(w.pager, w.trapping, range, (w.supply, 0))?;
            w.kernel.pager_op_range(w.pager, ZX_PAGER_OP_DIRTY, w.trapping, range, 0)
        }),
        ("zeroes that are written back one by one", 32, |w, n| {
            if n == 0 {
                w.kernel.vmo_zero(w.paged, 0, 1 << 40)?;
            }
            w.kernel.pager_op_range(w.pager, ZX_PAGER_OP_WRITEBACK_BEGIN, w.paged, ((2 * n + 1) * PAGE, PAGE), 0)
        }),
        ("VMOs that have ended, whose pager has not taken the packet that says so", 256, |w, n| {
            let vmo = w.kernel.pager_create_vmo(w.pager, (w.port, n), PAGE, false, false)?;
            let handle = w.kernel.dup_handle(Handle { object: vmo.object(), rights: Rights::NONE });
            w.kernel.close(handle);
            Ok(())
        }),
        ("clocks that can be mapped", MAPPED_SIZE, |w, _| {
            let clock = w.kernel.clock_create(Some(w.process), ZX_CLOCK_OPT_MAPPABLE, 0, None)?;
            w.kernel.give_new(w.process, clock, Rights::all()).map(drop)
        }),
        ("windows of a buffer", 512, |w, n| {
            let (window, len, perm) = w.kernel.iob_window(w.process, w.iob, 0)?;
            let request = MapRequest { vmo: window, offset: 0, len, perm, max: perm, fixed: false };
            let mapped = w.kernel.vmar_map(w.root, Place::At((1 << 32) + n * PAGE), request);
            w.kernel.iob_window_made(window);
            mapped.map(drop)
        }),
        ("memory that is written though it may only be read", PAGE, |w, n| {
            w.kernel.copy_out_forced(w.process, w.space, USER_BASE + (1 << 30) + n * PAGE, &[1])
        }),
        ("datagrams of a byte", 32, |w, _| w.kernel.socket_write(w.datagrams.0, w.space, USER_BASE, 1)),
    ]
}

#[test]
fn each_way_is_charged_and_given_back() {
    const COUNT: u64 = 500;
    for (name, least, take) in ways() {
        let mut w = World::new();
        let before = w.used();
        for n in 0..COUNT {
            assert_eq!(take(&mut w, n), Ok(()), "{name}");
            w.kernel.reap();
        }
        let more = w.used() - before;
        assert!(more >= COUNT * least, "{name}: {COUNT} are charged {more} bytes");
        w.end();
    }
}

#[test]
fn each_way_stops_at_the_limit() {
    for (name, _, take) in ways() {
        let mut w = World::new();
        w.kernel.job_limit_memory(w.job, w.used() + 64 * PAGE).unwrap();
        let stopped = (0..10_000).find_map(|n| {
            let taken = take(&mut w, n);
            w.kernel.reap();
            taken.err()
        });
        assert_eq!(stopped, Some(Status::NO_MEMORY), "{name}");
        assert!(w.used() <= w.kernel.job_memory(w.job).unwrap().1, "{name}: more is charged than may be");
        w.end();
    }
}

#[test]
fn a_source_without_a_pager_is_charged_to_its_vmo() {
    let mut w = World::new();
    let before = w.used();
    let handles: Vec<_> = (0..100)
        .map(|_| {
            let vmo = w.kernel.pager_create_vmo(w.pager, (w.port, 0), PAGE, false, false).unwrap();
            w.kernel.give_new(w.process, vmo, Rights::all()).unwrap()
        })
        .collect();
    let with_pager = w.used() - before;
    let pager = w.kernel.take(w.process, w.pager_handle).unwrap();
    w.kernel.close(pager);
    w.kernel.reap();
    while w.kernel.reaper_has_work() {
        w.kernel.reaper_slice();
    }
    let without = w.used() - before;
    assert!(without + 1024 >= with_pager, "{with_pager} bytes were charged, {without} are");
    for handle in handles {
        let handle = w.kernel.take(w.process, handle).unwrap();
        w.kernel.close(handle);
        w.kernel.reap();
    }
    w.end();
}

/// A buffer that a long message has left must not be that of a short one, which is charged for its length.
#[test]
fn queued_data_takes_no_more_than_its_charge() {
    const LONG: usize = 64 << 10;
    const ENDS: u64 = 100;
    let mut w = World::new();
    let long = w.kernel.vmo_create(LONG as u64, false).unwrap();
    w.kernel.give_new(w.process, long, Rights::all()).unwrap();
    let at = USER_BASE + (1 << 40);
    let request = MapRequest { vmo: long, offset: 0, len: LONG as u64, perm: RW, max: RW, fixed: false };
    w.kernel.vmar_map(w.root, Place::At(1 << 40), request).unwrap();
    w.kernel.copy_out(w.space, at, &[1; LONG]).unwrap();
    // A stream of which one byte is left keeps its buffer.
    let before = w.used();
    for _ in 0..ENDS {
        let (one, two) = w.kernel.socket_create(false).unwrap();
        w.kernel.give_new_pair(w.process, [one, two], Rights::all()).unwrap();
        w.kernel.socket_write(one, w.space, at, LONG).unwrap();
        w.kernel.socket_read(two, w.space, at, LONG - 1, false).unwrap();
        assert_eq!(w.kernel.objects.get(two).unwrap().readable(), 1);
    }
    assert!(w.used() - before >= ENDS * LONG as u64, "streams are charged {} bytes", w.used() - before);
    // Without that byte it does not, and is not charged for it.
    let (one, two) = w.kernel.socket_create(false).unwrap();
    w.kernel.give_new_pair(w.process, [one, two], Rights::all()).unwrap();
    let before = w.used();
    w.kernel.socket_write(one, w.space, at, LONG).unwrap();
    w.kernel.socket_read(two, w.space, at, LONG, false).unwrap();
    assert!(w.used() <= before + 2 * STEP, "an empty stream is charged {} bytes", w.used() - before);
    w.end();
}

/// Near a limit, a stream grows by what is written and not by powers of two.
#[test]
fn a_stream_takes_all_that_its_job_may_have() {
    const ROOM: u64 = 60 * 1024;
    let mut w = World::new();
    let (one, two) = w.kernel.socket_create(false).unwrap();
    w.kernel.give_new_pair(w.process, [one, two], Rights::all()).unwrap();
    let before = w.used();
    w.kernel.job_limit_memory(w.job, before + ROOM).unwrap();
    let refused = (0..100).find_map(|n| Some((n, w.kernel.socket_write(one, w.space, USER_BASE, 2048).err()?)));
    assert_eq!((refused, w.used()), (Some((30, Status::NO_MEMORY)), before + ROOM));
    for _ in 0..30 {
        w.kernel.socket_read(two, w.space, USER_BASE, 2048, false).unwrap();
    }
    assert_eq!(w.used(), before);
    w.end();
}

#[test]
fn datagrams_that_are_read_cost_nothing_any_more() {
    let mut w = World::new();
    let before = w.used();
    let (one, two) = w.datagrams;
    for left in [0, 1, 700] {
        for _ in 0..3000 {
            w.kernel.socket_write(one, w.space, USER_BASE, 1).unwrap();
        }
        while w.kernel.objects.get(two).unwrap().readable() > left {
            w.kernel.socket_read(two, w.space, USER_BASE, 1, false).unwrap();
        }
        let most = before + 200 * left as u64 + 8 * STEP;
        assert!(w.used() <= most, "{left} datagrams are charged {} bytes", w.used() - before);
    }
    w.end();
}
