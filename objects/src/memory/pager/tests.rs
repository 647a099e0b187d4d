//! A pager-backed VMO against a model of its pages, under random accesses, supplies, failures, resizes and destruction.

use core::ops::Range;
use std::collections::BTreeMap;
use std::vec::Vec;

use abi::{
    Status, ZX_PAGER_OP_DIRTY, ZX_PAGER_OP_FAIL, ZX_PAGER_OP_WRITEBACK_BEGIN, ZX_PAGER_OP_WRITEBACK_END,
    ZX_PAGER_VMO_COMPLETE, ZX_PAGER_VMO_DIRTY, ZX_PAGER_VMO_READ,
};
use proptest::prelude::*;

use super::*;
use crate::containers::name::Name;
use crate::core::continuation::PAGE_WAIT;
use crate::core::handle::Handle;
use crate::core::object::ObjectId;
use crate::core::wait::Waiting;
use crate::fake::FakeMachine;
use crate::machine::Access;
use crate::machine::Registers;
use crate::task::page_wait::AfterPageWait;
use crate::task::process::Process;
use crate::task::suspend_token::{SuspendToken, SuspendedTask};
use crate::task::thread::{Thread, ThreadState};

const PAGES: u64 = 16;
const THREADS: usize = 5;

/// The model's state of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Page {
    content: u8,
    /// Dirty, and whether it is being cleaned; none if clean.
    dirty: Option<bool>,
    /// The pager has consented to writes.
    told: bool,
}

struct World {
    kernel: Kernel<FakeMachine>,
    process: Id<Process>,
    threads: Vec<Id<Thread>>,
    port: Id<Port>,
    pager: Id<Pager>,
    vmo: Id<Vmo>,
    clone: Id<Vmo>,
    traps: bool,
    size: u64,
    pages: BTreeMap<u64, Page>,
    /// The content on the pager's disk.
    disk: [u8; 2 * PAGES as usize],
    /// Requested pages that neither arrived nor failed, by kind, with the number of their request.
    asked: BTreeMap<(u16, u64), u64>,
    detached: bool,
    completed: bool,
    /// Suspended threads.
    tokens: BTreeMap<ObjectId, Id<SuspendToken>>,
}

const NUMBER: u32 = 7;

impl World {
    fn new(traps: bool) -> World {
        let mut kernel = Kernel::new(FakeMachine::new(500)).unwrap();
        let job = kernel.root_job().unwrap();
        let (process, _root) = kernel.process_create(job, Name::new(b"model")).unwrap();
        kernel.add_handle(process.object());
        kernel.process_begin(process, None).unwrap();
        let port = kernel.port_create(false).unwrap();
        kernel.add_handle(port.object());
        let pager = kernel.pager_create().unwrap();
        kernel.add_handle(pager.object());
        let vmo = kernel.pager_create_vmo(pager, (port, 5), PAGES / 2 * PAGE, true, traps).unwrap();
        kernel.add_handle(vmo.object());
        let kind = crate::memory::vmo::CloneKind::AtLeastOnWrite;
        let clone = kernel.vmo_create_clone(vmo, kind, 0, PAGES / 2 * PAGE, false).unwrap();
        kernel.add_handle(clone.object());
        let mut world = World {
            kernel,
            process,
            threads: Vec::new(),
            port,
            pager,
            vmo,
            clone,
            traps,
            size: PAGES / 2,
            pages: BTreeMap::new(),
            disk: core::array::from_fn(|page| page as u8 + 100),
            asked: BTreeMap::new(),
            detached: false,
            completed: false,
            tokens: BTreeMap::new(),
        };
        (0..=THREADS).for_each(|_| world.thread());
        world
    }

    fn thread(&mut self) {
        let thread = self.kernel.thread_create(self.process, Name::new(b"one")).unwrap();
        self.kernel.thread_start(thread, &Registers::default()).unwrap();
        self.threads.push(thread);
    }

    fn waits(&self, thread: Id<Thread>) -> bool {
        self.kernel.objects.get(thread).unwrap().is_waiting()
    }

    /// A thread's call: reads or writes a range of the VMO, or reads the clone.
    fn call(&mut self, thread: Id<Thread>, [what, first, count, value]: [u64; 4]) -> Result<(), Status> {
        let (vmo, access) = match what {
            0 => (self.vmo, Access::Read),
            1 => (self.vmo, Access::Write),
            _ => (self.clone, Access::Read),
        };
        let limit = self.kernel.vmo_size(vmo).unwrap() / PAGE;
        if first + count > limit {
            return Err(Status::OUT_OF_RANGE);
        }
        let done = self.kernel.vmo_require(vmo, first * PAGE, count * PAGE, access);
        if done == Err(PAGE_WAIT) {
            let then = AfterPageWait::Call { number: NUMBER, args: [what, first, count, value, 0, 0, 0, 0] };
            assert_eq!(self.kernel.page_wait(thread, then), Ok(Waiting::Blocked));
            return done;
        }
        done?;
        for page in first..first + count {
            match what {
                1 => {
                    self.kernel.vmo_write(vmo, page * PAGE, &[value as u8]).unwrap();
                    let known =
                        self.pages.insert(page, Page { content: value as u8, dirty: Some(false), told: self.traps });
                    let known = known.expect("written, and was not there");
                    assert!(!self.traps || known.told, "written, and nobody was asked");
                }
                0 => {
                    let mut byte = [0];
                    self.kernel.vmo_read(vmo, page * PAGE, &mut byte).unwrap();
                    assert_eq!(Some(byte[0]), self.pages.get(&page).map(|page| page.content), "page {page}");
                }
                _ => self.kernel.vmo_read(vmo, page * PAGE, &mut [0]).unwrap(),
            }
        }
        Ok(())
    }

    /// What the server does after each event.
    fn settle(&mut self) {
        self.kernel.reap();
        while let Some((thread, then, result)) = self.kernel.page_wait_next() {
            let AfterPageWait::Call { number: NUMBER, args } = then else { panic!("it was at a call") };
            let result = result.and_then(|()| self.call(thread, [args[0], args[1], args[2], args[3]]));
            if result != Err(PAGE_WAIT) {
                assert!(!self.waits(thread));
                let failed = [Status::IO, Status::BAD_STATE, Status::OUT_OF_RANGE];
                assert!(result.is_ok() || failed.contains(&result.unwrap_err()), "{result:?}");
                self.kernel.thread_return(thread, 0);
            }
        }
        // Requests without waiters are withdrawn.
        let mut asked = core::mem::take(&mut self.asked);
        asked.retain(|&(command, page), number| self.request(command, page) == Some(*number));
        self.asked = asked;
    }

    /// The number of the request that covers a page.
    fn request(&self, command: u16, page: u64) -> Option<u64> {
        let kind = if command == ZX_PAGER_VMO_READ { Kind::Read } else { Kind::Dirty };
        self.kernel.sources.iter().find_map(|(_, source)| source.requests.number(kind, page))
    }

    /// Takes a packet, if there is one.
    fn packet(&mut self) -> Option<(u16, Range<u64>)> {
        let bytes = self.kernel.port_wait(self.port, self.threads[THREADS], 0, 0).ok()??;
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        assert_eq!((word(0), word(8)), (5, u64::from(ZX_PKT_TYPE_PAGE_REQUEST)));
        let (command, first, count) = (word(16) as u16, word(24) / PAGE, word(32) / PAGE);
        assert!(!self.completed, "asked for something after the last packet");
        if command == ZX_PAGER_VMO_COMPLETE {
            self.completed = true;
            return Some((command, 0..0));
        }
        assert!(count > 0 && first + count <= PAGES && !self.detached);
        // The packet still names pages that arrived since the request was made.
        let missing = |page: &u64| match self.pages.get(page) {
            known if command == ZX_PAGER_VMO_READ => known.is_none(),
            known => self.traps && !known.unwrap().told,
        };
        let missing: Vec<_> = (first..first + count).filter(missing).collect();
        assert!(!missing.is_empty(), "asked for what is there");
        for page in missing {
            let number = self.request(command, page).expect("told of a request that is over");
            assert!(self.asked.insert((command, page), number).is_none(), "page {page} was asked for twice");
        }
        Some((command, first..first + count))
    }

    fn supply(&mut self, first: u64, count: u64) {
        let aux = self.kernel.vmo_create(count * PAGE, false).unwrap();
        self.kernel.add_handle(aux.object());
        for page in first..first + count {
            // Every fourth page is a page of zeroes that was never written.
            if page % 4 != 3 {
                let byte = self.disk[page as usize % self.disk.len()];
                self.kernel.vmo_write(aux, (page - first) * PAGE, &[byte]).unwrap();
            }
        }
        let (pager, vmo) = (self.pager, self.vmo);
        let result = self.kernel.pager_supply_pages(pager, vmo, (first * PAGE, count * PAGE), (aux, 0));
        match result {
            Ok(()) => {
                for page in first..first + count {
                    let content = if page % 4 == 3 { 0 } else { self.disk[page as usize] };
                    self.pages.entry(page).or_insert(Page { content, dirty: None, told: false });
                }
            }
            Err(status) => {
                let expected = if first + count > self.size { Status::OUT_OF_RANGE } else { Status::BAD_STATE };
                assert_eq!(status, expected);
            }
        }
        self.kernel.drop_handle(Handle { object: aux.object(), rights: abi::Rights::NONE });
    }

    fn op(&mut self, op: u32, first: u64, count: u64) {
        let data = if op == ZX_PAGER_OP_FAIL { i64::from(Status::IO.0) as u64 } else { 0 };
        let range = (first * PAGE, count * PAGE);
        let result = self.kernel.pager_op_range(self.pager, op, self.vmo, range, data);
        if first + count > self.size {
            return assert_eq!(result, Err(Status::OUT_OF_RANGE));
        }
        let all_there = (first..first + count).all(|page| self.pages.contains_key(&page));
        match op {
            ZX_PAGER_OP_FAIL | ZX_PAGER_OP_DIRTY if self.detached => assert_eq!(result, Err(Status::BAD_STATE)),
            ZX_PAGER_OP_DIRTY if !all_there => assert_eq!(result, Err(Status::NOT_FOUND)),
            _ => assert_eq!(result, Ok(())),
        }
        if result.is_err() {
            return;
        }
        for page in first..first + count {
            let Some(known) = self.pages.get_mut(&page) else { continue };
            match op {
                ZX_PAGER_OP_DIRTY => (known.dirty, known.told) = (Some(false), true),
                ZX_PAGER_OP_WRITEBACK_BEGIN => (known.dirty, known.told) = (known.dirty.map(|_| true), false),
                ZX_PAGER_OP_WRITEBACK_END if known.dirty == Some(true) => {
                    known.dirty = None;
                    self.disk[page as usize] = known.content;
                    let frame = self.kernel.vmo_page_if_there(self.vmo, page);
                    if self.kernel.vmo_require(self.vmo, page * PAGE, PAGE, Access::Read).is_err() {
                        // Zeroes that never had a frame become absent: the pager must supply them again.
                        assert_eq!((frame.is_none(), known.content), (true, 0));
                        self.pages.remove(&page);
                    }
                    self.kernel.wanted = None;
                }
                _ => {}
            }
        }
    }

    fn resize(&mut self, size: u64) {
        self.kernel.vmo_set_size(self.vmo, size * PAGE).unwrap();
        self.pages.retain(|&page, _| page < size);
        for page in self.size..size {
            // With a pager that traps writes, zeroes need its consent like clean pages.
            self.pages.insert(page, Page { content: 0, dirty: Some(false), told: false });
        }
        self.size = size;
    }

    fn check_dirty(&self) {
        let mut found = Vec::new();
        let range = (0, self.size * PAGE);
        let each = |range: abi::zx_vmo_dirty_range_t| {
            found.extend(range.offset / PAGE..(range.offset + range.length) / PAGE);
            Ok(())
        };
        let mut query = DirtyQuery::default();
        assert_eq!(self.kernel.pager_query_dirty_ranges(self.pager, self.vmo, range, &mut query, each), Ok(false));
        let dirty = self.pages.iter().filter(|(_, page)| page.dirty.is_some()).map(|(&page, _)| page);
        assert_eq!(found, dirty.collect::<Vec<_>>());
    }

    fn step(&mut self, (what, thread, first, count): (u8, usize, u64, u64)) {
        let thread = self.threads[thread % THREADS];
        let suspended = self.tokens.contains_key(&thread.object());
        match what {
            0..=5 if !self.waits(thread) && !suspended => {
                let what = u64::from(what) / 2;
                let _ = self.call(thread, [what, first, count, first ^ 0x55]);
            }
            6 | 7 => self.supply(first, count),
            8 => self.op(ZX_PAGER_OP_DIRTY, first, count),
            9 => self.op(ZX_PAGER_OP_FAIL, first, count),
            10 => self.op(ZX_PAGER_OP_WRITEBACK_BEGIN, first, count),
            11 => self.op(ZX_PAGER_OP_WRITEBACK_END, first, count),
            12 | 13 => drop(self.packet()),
            14 => {
                let place = self.threads.iter().position(|&one| one == thread).unwrap();
                // Another process's handle keeps it alive, so that the process does not end with its last thread.
                self.kernel.thread_kill(thread);
                self.resume(thread);
                self.threads.remove(place);
                self.thread();
                let last = self.threads.len() - 1;
                self.threads.swap(place, last);
            }
            17 if suspended => self.resume(thread),
            17 => {
                let token = self.kernel.task_suspend(SuspendedTask::Thread(thread)).unwrap();
                self.kernel.add_handle(token.object());
                self.tokens.insert(thread.object(), token);
            }
            15 => self.resize(first),
            16 if count == 1 && first < 2 => {
                let _ = self.kernel.pager_detach_vmo(self.pager, self.vmo);
                self.detached = true;
                self.pages.retain(|_, page| page.dirty.is_some());
            }
            _ => {}
        }
        self.settle();
        self.check_dirty();
    }

    fn resume(&mut self, thread: Id<Thread>) {
        if let Some(token) = self.tokens.remove(&thread.object()) {
            self.kernel.drop_handle(Handle { object: token.object(), rights: abi::Rights::NONE });
            self.kernel.reap();
        }
    }

    /// Serves or fails everything, then destroys all objects and checks that nothing is left.
    fn end(mut self) {
        for thread in self.threads.clone() {
            self.resume(thread);
            self.settle();
        }
        while let Some((command, pages)) = self.packet() {
            match command {
                ZX_PAGER_VMO_READ => self.supply(pages.start, pages.end - pages.start),
                ZX_PAGER_VMO_DIRTY => self.op(ZX_PAGER_OP_DIRTY, pages.start, pages.end - pages.start),
                _ => {}
            }
            self.settle();
        }
        // Remaining waiters wait for pages that the pager was asked for before.
        for page in 0..self.size {
            self.supply(page, 1);
            self.settle();
            self.op(ZX_PAGER_OP_DIRTY, page, 1);
            self.settle();
            while self.packet().is_some() {}
        }
        for page in (0..self.size).rev() {
            self.op(ZX_PAGER_OP_DIRTY, page, 1);
            self.settle();
        }
        let waiting = self.threads[..THREADS].iter().filter(|&&thread| self.waits(thread)).count();
        assert_eq!(waiting, 0, "threads wait for pages that are there");
        for object in [self.clone.object(), self.vmo.object()] {
            self.kernel.drop_handle(Handle { object, rights: abi::Rights::NONE });
        }
        self.kernel.reap();
        assert!(self.completed || self.packet() == Some((ZX_PAGER_VMO_COMPLETE, 0..0)));
        assert_eq!(self.kernel.sources.len(), 0);
        assert_eq!(self.kernel.packets.len(), 0);
        let states = self.threads.iter().map(|&thread| self.kernel.objects.get(thread).unwrap().state);
        assert!(states.into_iter().all(|state| state == ThreadState::Running));
        for object in [self.port.object(), self.pager.object()] {
            self.kernel.drop_handle(Handle { object, rights: abi::Rights::NONE });
        }
        self.kernel.process_kill(self.process, 0);
        self.kernel.drop_handle(Handle { object: self.process.object(), rights: abi::Rights::NONE });
        self.kernel.reap();
        assert_eq!(self.kernel.machine.frames_in_use(), self.kernel.frames_kept());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]
    #[test]
    fn behaves_as_its_pages(
        traps: bool,
        steps in proptest::collection::vec((0u8..18, 0..THREADS, 0..PAGES, 1u64..7), 0..60),
    ) {
        let mut world = World::new(traps);
        for step in steps {
            world.step(step);
        }
        world.end();
    }
}
