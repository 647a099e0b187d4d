//! Long calls run in slices, and other events happen between two slices.

use abi::{Rights, Signals, ZX_VMO_OP_COMMIT, ZX_VMO_OP_DECOMMIT, nr};
use objects::containers::name::Name;
use objects::core::handle::Handle;
use objects::fake::FakeMachine;
use objects::ipc::channel::Message;
use objects::machine::{Fault, PAGE, Perm, Registers, ThreadKey, USER_BASE};
use objects::memory::vmar::{MapRequest, Place, VmarFlags};
use objects::memory::vmo::Vmo;
use objects::task::job::Job;
use objects::task::process::Process;
use objects::task::thread::Thread;
use objects::{Id, Kernel, ObjectId};
use server::{Answer, Server};

/// Pages for which one slice is not enough.
const PAGES: u64 = 2048;
const OK: Answer = Answer::Done(0);

/// A process with two threads, a page of memory, and a handle to a resizable VMO.
struct World {
    server: Server<FakeMachine>,
    job: Id<Job>,
    held: Handle,
    process: Id<Process>,
    threads: [Id<Thread>; 2],
    vmo: Id<Vmo>,
    handle: u64,
    empty: ((usize, usize, usize), usize),
}

impl World {
    fn new() -> World {
        let mut kernel = Kernel::new(FakeMachine::new(3 * PAGES as usize)).unwrap();
        let job = kernel.root_job().unwrap();
        kernel.reap();
        let empty = (kernel.census(), kernel.machine.frames_in_use());
        let (process, root) = kernel.process_create(job, Name::new(b"test")).unwrap();
        let held = kernel.dup_handle(Handle { object: process.object(), rights: Rights::NONE });
        let perm = Perm { read: true, write: true, execute: false };
        let vmo = kernel.vmo_create(PAGE, false).unwrap();
        let request = MapRequest { vmo, offset: 0, len: PAGE, perm, max: perm, fixed: false };
        kernel.vmar_map(root, Place::At(0), request).unwrap();
        let threads = [b"a", b"b"].map(|name| kernel.thread_create(process, Name::new(name)).unwrap());
        kernel.process_begin(process, None).unwrap();
        threads.iter().for_each(|&thread| kernel.thread_start(thread, &Registers::default()).unwrap());
        let vmo = kernel.vmo_create(PAGES * PAGE, true).unwrap();
        let handle = kernel.give(process, vmo.object(), Rights::all()).unwrap().into();
        let server = Server { kernel };
        World { server, job, held, process, threads, vmo, handle, empty }
    }

    /// One of the threads makes a call, or repeats it.
    fn call(&mut self, thread: usize, number: u32, words: [u64; 8]) -> Answer {
        let key = ThreadKey(self.threads[thread].object().index());
        let machine = self.server.kernel.objects.get(self.threads[thread]).unwrap().machine().unwrap();
        let [a, b, c, d, extra @ ..] = words;
        self.server.kernel.machine.threads.get_mut(&machine.0).unwrap().extra = extra;
        let answer = self.server.call(key, number, &[a, b, c, d]);
        self.server.settle_call(key, number, answer).0
    }

    /// A call with one word.
    fn one(&mut self, thread: usize, number: u32, word: u64) -> Answer {
        self.call(thread, number, [word, 0, 0, 0, 0, 0, 0, 0])
    }

    fn handle_to(&mut self, object: ObjectId) -> u64 {
        self.server.kernel.give(self.process, object, Rights::all()).unwrap().into()
    }

    /// Lets the timer fire until the reaper has no deferred work; returns how often.
    fn ring(&mut self) -> usize {
        let rings = (0..).find(|_| {
            let left = self.server.kernel.reaper_has_work();
            let kernel = &mut self.server.kernel;
            kernel.machine.time += 1_000_000_000;
            self.server.timer();
            !left
        });
        rings.unwrap()
    }

    fn op(&mut self, op: u32) -> Answer {
        let words = [self.handle, op.into(), 0, PAGES * PAGE, 0, 0, 0, 0];
        self.call(0, nr::VMO_OP_RANGE, words)
    }

    /// Repeats a call until it is over; returns how often, and the result.
    fn on(&mut self, op: u32) -> (u64, Answer) {
        let again = (0..).find_map(|times| match self.op(op) {
            Answer::Blocked => None,
            over => Some((times, over)),
        });
        again.unwrap()
    }

    fn committed(&self) -> u64 {
        self.server.kernel.vmo_committed(self.vmo).map_or(0, |bytes| bytes / PAGE)
    }

    /// Ends everything and checks that nothing is left.
    fn end(mut self) {
        self.server.kernel.machine.pace = 0;
        self.ring();
        let kernel = &mut self.server.kernel;
        kernel.job_kill(self.job, 0);
        kernel.close(self.held);
        kernel.reap();
        assert_eq!((kernel.census(), kernel.machine.frames_in_use()), self.empty);
        kernel.check_memory();
    }
}

#[test]
fn a_long_call_resumes_at_its_progress() {
    let mut world = World::new();
    assert_eq!(world.op(ZX_VMO_OP_COMMIT), Answer::Blocked);
    let (first, before) = (world.committed(), world.server.kernel.machine.frames_in_use());
    assert!((1..PAGES).contains(&first));
    // Other threads see the caller as a running thread; the server serves them.
    let info = world.server.kernel.objects.get(world.threads[0]).unwrap().info_state();
    assert_eq!(info, abi::ZX_THREAD_STATE_RUNNING);
    assert_eq!(world.call(1, nr::HANDLE_CHECK_VALID, [world.handle, 0, 0, 0, 0, 0, 0, 0]), OK);
    let (times, answer) = world.on(ZX_VMO_OP_COMMIT);
    assert_eq!((world.committed(), answer), (PAGES, OK));
    assert_eq!(world.server.kernel.machine.frames_in_use() - before, (PAGES - first) as usize);
    let machine = world.server.kernel.objects.get(world.threads[0]).unwrap().machine().unwrap();
    assert_eq!(u64::from(world.server.kernel.machine.threads[&machine.0].again), times + 1);
    assert_eq!(world.on(ZX_VMO_OP_DECOMMIT).1, OK);
    assert_eq!(world.committed(), 0);
    world.end();
}

#[test]
fn its_handle_may_be_closed_and_its_words_changed() {
    let mut world = World::new();
    assert_eq!(world.op(ZX_VMO_OP_COMMIT), Answer::Blocked);
    assert_eq!(world.call(1, nr::HANDLE_CLOSE, [world.handle, 0, 0, 0, 0, 0, 0, 0]), OK);
    let before = world.committed();
    // The words in the thread's registers do not matter any more.
    assert_eq!(world.call(0, nr::VMO_OP_RANGE, [0; 8]), Answer::Blocked);
    assert!(world.committed() > before);
    assert_eq!(world.on(ZX_VMO_OP_COMMIT).1, OK);
    // The VMO ended with the call.
    assert_eq!(world.committed(), 0);
    world.end();
}

#[test]
fn pages_cut_off_meanwhile_are_left_out() {
    for op in [ZX_VMO_OP_COMMIT, ZX_VMO_OP_DECOMMIT] {
        let mut world = World::new();
        if op == ZX_VMO_OP_DECOMMIT {
            world.on(ZX_VMO_OP_COMMIT);
        }
        assert_eq!(world.op(op), Answer::Blocked);
        let size = PAGES / 2 * PAGE;
        assert_eq!(world.call(1, nr::VMO_SET_SIZE, [world.handle, size, 0, 0, 0, 0, 0, 0]), OK);
        assert_eq!(world.on(op).1, OK);
        assert_eq!(world.committed(), if op == ZX_VMO_OP_COMMIT { PAGES / 2 } else { 0 });
        world.end();
    }
}

#[test]
fn a_thread_that_comes_with_something_else_has_given_up() {
    let mut world = World::new();
    assert_eq!(world.op(ZX_VMO_OP_COMMIT), Answer::Blocked);
    assert_eq!(world.call(0, nr::HANDLE_CHECK_VALID, [world.handle, 0, 0, 0, 0, 0, 0, 0]), OK);
    let before = world.committed();
    assert_eq!(world.call(0, nr::HANDLE_CLOSE, [world.handle, 0, 0, 0, 0, 0, 0, 0]), OK);
    assert!(before < PAGES && world.committed() == 0, "the call that was given up keeps the VMO");
    world.end();
    let mut world = World::new();
    assert_eq!(world.op(ZX_VMO_OP_COMMIT), Answer::Blocked);
    let key = ThreadKey(world.threads[0].object().index());
    let fault = Fault::Page { address: USER_BASE, ip: USER_BASE, write: true, execute: false };
    assert_eq!(world.server.fault(key, fault), Answer::Resume);
    assert!(!world.server.kernel.objects.get(world.threads[0]).unwrap().is_waiting());
    world.end();
}

#[test]
fn the_end_of_its_process_ends_it() {
    let mut world = World::new();
    assert_eq!(world.op(ZX_VMO_OP_COMMIT), Answer::Blocked);
    world.server.kernel.process_kill(world.process, 0);
    world.end();
}

/// Eventpairs in a channel's messages: the ends of the channel, and the peers of the eventpairs.
fn full_channel(world: &mut World) -> ([u64; 2], Vec<u64>) {
    let kernel = &mut world.server.kernel;
    let (near, far) = kernel.channel_create().unwrap();
    let (mut handles, mut others) = (Vec::new(), Vec::new());
    for _ in 0..60 {
        let (sent, kept) = kernel.eventpair_create().unwrap();
        handles.push(kernel.dup_handle(Handle { object: sent.object(), rights: Rights::NONE }));
        others.push(kept.object());
    }
    let ends = [near.object(), far.object()].map(|end| world.handle_to(end));
    world.server.kernel.channel_write(near, Message { data: Vec::new(), handles }).unwrap();
    (ends, others.into_iter().map(|other| world.handle_to(other)).collect())
}

#[test]
fn a_call_that_ends_much_is_answered_when_it_has_ended() {
    let mut world = World::new();
    let ((ends, others), (other_ends, _)) = (full_channel(&mut world), full_channel(&mut world));
    let gone = |world: &World, of: &[u64]| {
        let object = |value: &u64| world.server.kernel.handle(world.process, *value as u32).unwrap().object;
        let parted = |value: &&u64| world.server.kernel.signals(object(value)).contains(Signals::PEER_CLOSED);
        of.iter().filter(parted).count()
    };
    world.server.kernel.machine.pace = 200_000;
    assert_eq!(world.one(0, nr::HANDLE_CLOSE, ends[1]), Answer::Blocked);
    let first = gone(&world, &others);
    assert!(0 < first && first < others.len());
    // The server serves other threads, and destroys at once the objects that they release.
    let [near, far] = {
        let kernel = &mut world.server.kernel;
        let (near, far) = kernel.eventpair_create().unwrap();
        [near.object(), far.object()].map(|end| world.handle_to(end))
    };
    assert_eq!(world.one(1, nr::HANDLE_CLOSE, near), OK);
    assert_eq!(gone(&world, &[far]), 1);
    assert_eq!(gone(&world, &others), first);
    // Whatever its arguments, the thread's repeated call runs the next slice of the reaper.
    let times = (1..).find(|_| world.one(0, nr::HANDLE_CLOSE, ends[1]) == OK).unwrap();
    assert_eq!(gone(&world, &others), others.len());
    assert!((1..60).contains(&times));
    // If the thread ends, the reaper continues on its timer.
    assert_eq!(world.one(0, nr::HANDLE_CLOSE, other_ends[1]), Answer::Blocked);
    world.server.kernel.process_kill(world.process, 3);
    world.server.settle();
    let terminated =
        |world: &World| world.server.kernel.signals(world.process.object()).contains(Signals::PROCESS_TERMINATED);
    assert!(world.server.kernel.process_is_dead(world.process) && !terminated(&world));
    assert!(world.ring() > 1 && terminated(&world));
    world.end();
}

#[test]
fn memory_of_ended_objects_is_freed_on_demand_or_when_idle() {
    let mut world = World::new();
    assert_eq!(world.on(ZX_VMO_OP_COMMIT).1, OK);
    let full = world.server.kernel.machine.frames_in_use();
    world.server.kernel.machine.pace = 300_000;
    assert_eq!(world.one(0, nr::HANDLE_CLOSE, world.handle), OK);
    let left = world.server.kernel.machine.frames_in_use();
    assert!(left < full && world.server.kernel.reaper_has_work());
    assert!(world.ring() > 1);
    assert_eq!(full - world.server.kernel.machine.frames_in_use(), PAGES as usize);
    // No request fails for lack of memory that the reaper's deferred work will free.
    let mut last = None;
    for _ in 0..3 {
        let vmo = world.server.kernel.vmo_create(2 * PAGES * PAGE, false).unwrap();
        let value = world.handle_to(vmo.object());
        let words = [value, ZX_VMO_OP_COMMIT.into(), 0, 2 * PAGES * PAGE, 0, 0, 0, 0];
        let over = (0..).find_map(|_| Some(world.call(0, nr::VMO_OP_RANGE, words)).filter(|&a| a != Answer::Blocked));
        assert_eq!(over, Some(OK));
        last = Some(value);
        assert_eq!(world.one(0, nr::HANDLE_CLOSE, value), OK);
    }
    assert!(last.is_some() && world.server.kernel.reaper_has_work());
    world.end();
}

#[test]
fn mappings_go_in_slices() {
    for destroy in [false, true] {
        let mut world = World::new();
        assert_eq!(world.on(ZX_VMO_OP_COMMIT).1, OK);
        let root = world.server.kernel.objects.get(world.process).unwrap().root_vmar.unwrap();
        let kernel = &mut world.server.kernel;
        let flags = VmarFlags { specific: true, read: true, write: true, execute: false };
        let (region, base) = kernel.vmar_allocate(root, Place::At(512 * PAGE), 2 * PAGES * PAGE, flags).unwrap();
        let perm = Perm { read: true, write: true, execute: false };
        let request = MapRequest { vmo: world.vmo, offset: 0, len: PAGES * PAGE, perm, max: perm, fixed: false };
        kernel.vmar_map(region, Place::At(PAGE), request).unwrap();
        let fill = |kernel: &mut Kernel<FakeMachine>| {
            let mut at = base + PAGE;
            while let Some(next) = kernel.vmar_prefault(region, at) {
                at = next;
            }
        };
        fill(kernel);
        let mapped =
            |world: &World| world.server.kernel.machine.mapped.values().map(|space| space.len()).sum::<usize>();
        let all = mapped(&world);
        assert!(all >= PAGES as usize);
        let value = world.handle_to(region.object());
        world.server.kernel.machine.pace = 200_000;
        // Half of it becomes read-only, then all but the first page is removed.
        let protect = [value, abi::ZX_VM_PERM_READ.into(), base + PAGE, PAGES / 2 * PAGE, 0, 0, 0, 0];
        let (number, words) = match destroy {
            false => (nr::VMAR_UNMAP, [value, base + 2 * PAGE, (2 * PAGES - 2) * PAGE, 0, 0, 0, 0, 0]),
            true => (nr::VMAR_DESTROY, [value, 0, 0, 0, 0, 0, 0, 0]),
        };
        assert_eq!(world.call(0, nr::VMAR_PROTECT, protect), Answer::Blocked);
        assert!((0..99).any(|_| world.call(0, nr::VMAR_PROTECT, protect) == OK));
        let aspace = world.server.kernel.objects.get(world.process).unwrap().aspace.unwrap();
        let perms = |world: &World| {
            let all = world.server.kernel.mappings(aspace).filter(|mapping| mapping.vmar == region);
            all.map(|mapping| (mapping.len / PAGE, mapping.perm.write)).collect::<Vec<_>>()
        };
        assert_eq!(perms(&world), [(PAGES / 2, false), (PAGES / 2, true)]);
        assert_eq!(world.call(0, number, words), Answer::Blocked);
        let between = mapped(&world);
        assert!(all - PAGES as usize + 1 < between && between < all);
        assert!((0..99).any(|_| world.call(0, number, words) == OK));
        assert_eq!(mapped(&world), all - PAGES as usize + usize::from(!destroy));
        assert_eq!(perms(&world), if destroy { Vec::new() } else { Vec::from([(1, false)]) });
        world.end();
    }
}

#[test]
fn errors_are_found_before_any_change() {
    let mut world = World::new();
    let words = |vmo, op: u32, len| [vmo, u64::from(op), 0, len, 0, 0, 0, 0];
    let beyond = words(world.handle, ZX_VMO_OP_COMMIT, (PAGES + 1) * PAGE);
    assert_eq!(world.call(0, nr::VMO_OP_RANGE, beyond), Answer::Done(abi::Status::OUT_OF_RANGE.0.into()));
    assert_eq!(world.committed(), 0);
    assert_eq!(world.on(ZX_VMO_OP_COMMIT).1, OK);
    for op in [ZX_VMO_OP_DECOMMIT, abi::ZX_VMO_OP_ZERO] {
        let beyond = words(world.handle, op, (PAGES + 1) * PAGE);
        assert_eq!(world.call(0, nr::VMO_OP_RANGE, beyond), Answer::Done(abi::Status::OUT_OF_RANGE.0.into()));
        assert_eq!(world.committed(), PAGES);
    }
    world.end();
}

/// Lists the child jobs of a job while some end and others are created: those that exist all the time are listed once,
/// in order. The job after which the list stopped may end, too.
#[test]
fn a_list_continues_after_its_objects_have_changed() {
    for room in [400, 100] {
        let mut world = World::new();
        let kernel = &mut world.server.kernel;
        let top = kernel.job_create(world.job).unwrap();
        let make = |kernel: &mut Kernel<FakeMachine>| {
            let job = kernel.job_create(top).unwrap();
            (kernel.dup_handle(Handle { object: job.object(), rights: Rights::NONE }), kernel.koid(job.object()))
        };
        let mut jobs: Vec<_> = (0..400).map(|_| make(kernel)).collect();
        let at_first: Vec<_> = jobs.iter().map(|&(_, koid)| koid).collect();
        let value = world.handle_to(top.object());
        world.server.kernel.machine.pace = 200_000;
        let (records, counts) = (USER_BASE, USER_BASE + 8 * 400);
        let words = [value, abi::ZX_INFO_JOB_CHILDREN.into(), records, room * 8, counts, counts + 8, 0, 0];
        let read = |world: &mut World, from: u64, count: usize| {
            let aspace = world.server.kernel.objects.get(world.process).unwrap().aspace.unwrap();
            let mut bytes = vec![0; 8 * count];
            world.server.kernel.copy_in(aspace, from, &mut bytes).unwrap();
            bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect::<Vec<_>>()
        };
        let (mut gone, mut new, mut times) = (Vec::new(), 0, 0);
        loop {
            match world.call(0, nr::OBJECT_GET_INFO, words) {
                Answer::Blocked => times += 1,
                answer => break assert_eq!(answer, OK),
            }
            // The last listed job, one before it and one after it end, and a new one is created.
            let told = read(&mut world, records, room as usize);
            let last = told.iter().rposition(|&koid| koid != 0).unwrap_or(0);
            for koid in [told[last], at_first[last / 2], at_first[(last + 9).min(399)]] {
                if let Some(at) = jobs.iter().position(|&(_, of)| of == koid) {
                    world.server.kernel.close(jobs.remove(at).0);
                    gone.push(koid);
                }
            }
            jobs.push(make(&mut world.server.kernel));
            new += 1;
            world.server.kernel.reap();
        }
        assert!(times > 3 && gone.len() > 6);
        let [actual, avail] = read(&mut world, counts, 2)[..] else { panic!() };
        assert!(actual == avail.min(room) && (400 - gone.len() as u64..=400 + new).contains(&avail));
        let told = read(&mut world, records, actual as usize);
        assert!(told.is_sorted_by(|a, b| a < b));
        let stayed = at_first.iter().filter(|koid| !gone.contains(koid));
        assert!(stayed.take_while(|&&koid| koid <= told[told.len() - 1]).all(|koid| told.contains(koid)));
        jobs.into_iter().for_each(|(job, _)| world.server.kernel.close(job));
        world.end();
    }
}

/// One VMO is mapped over another: between two slices each address shows one of them.
#[test]
fn overwriting_a_mapping_never_shows_a_gap() {
    for disturbed in [false, true] {
        let mut world = World::new();
        assert_eq!(world.on(ZX_VMO_OP_COMMIT).1, OK);
        let root = world.server.kernel.objects.get(world.process).unwrap().root_vmar.unwrap();
        let kernel = &mut world.server.kernel;
        let flags = VmarFlags { specific: true, read: true, write: true, execute: false };
        let len = PAGES * PAGE;
        let (region, base) = kernel.vmar_allocate(root, Place::At(512 * PAGE), 2 * len, flags).unwrap();
        let perm = Perm { read: true, write: true, execute: false };
        // Single-page mappings, and then the rest as one mapping, which is split.
        for (page, pages) in (0..PAGES / 2).map(|page| (page, 1)).chain([(PAGES / 2, PAGES)]) {
            let request = MapRequest { vmo: world.vmo, offset: 0, len: pages * PAGE, perm, max: perm, fixed: false };
            kernel.vmar_map(region, Place::At(page * PAGE), request).unwrap();
        }
        let new = kernel.vmo_create(len, false).unwrap();
        let aspace = kernel.objects.get(world.process).unwrap().aspace.unwrap();
        let value = world.handle_to(region.object());
        let vmo = world.handle_to(new.object());
        world.server.kernel.machine.pace = 100_000;
        let options = abi::ZX_VM_PERM_READ | abi::ZX_VM_SPECIFIC_OVERWRITE;
        let words = [value, options.into(), 0, vmo, 0, len, USER_BASE, 0];
        let mut shows_new = Vec::new();
        while world.call(0, nr::VMAR_MAP, words) == Answer::Blocked {
            if shows_new.is_empty() {
                assert_eq!(world.one(1, nr::HANDLE_CLOSE, vmo), OK);
            }
            let kernel = &mut world.server.kernel;
            let at = |page: u64| kernel.mapping_at(aspace, base + page * PAGE).unwrap();
            let news = (0..PAGES).filter(|&page| at(page).vmo == new).count();
            assert!((0..PAGES).all(|page| at(page).vmo != new || (page as usize) < news));
            shows_new.push(news);
            if disturbed && shows_new.len() == 3 {
                kernel.vmar_unmap(region, base, PAGE, true).unwrap();
                break;
            }
        }
        if disturbed {
            assert!((0..999).any(|_| world.call(0, nr::VMAR_MAP, words) == OK));
        }
        assert!(shows_new.len() > 2 && shows_new.is_sorted() && shows_new[1] > shows_new[0]);
        let all: Vec<_> =
            world.server.kernel.mappings(aspace).filter(|mapping| mapping.vmar == region).copied().collect();
        assert!(all.iter().take(all.len() - 1).all(|mapping| mapping.vmo == new));
        assert!(all.iter().all(|mapping| mapping.vmo != new || mapping.offset == mapping.base - base));
        assert_eq!(all[all.len() - 1].base, base + len);
        assert!(disturbed || all.len() == 2);
        world.end();
    }
}

/// A process with many threads is killed: none of them can make a call any more, and they stop one after the other.
#[test]
fn a_crowd_is_stopped_in_slices() {
    let mut world = World::new();
    let kernel = &mut world.server.kernel;
    let (process, _) = kernel.process_create(world.job, Name::new(b"crowd")).unwrap();
    let threads: Vec<_> = (0..300).map(|_| kernel.thread_create(process, Name::new(b"one")).unwrap()).collect();
    kernel.process_begin(process, None).unwrap();
    threads.iter().for_each(|&thread| kernel.thread_start(thread, &Registers::default()).unwrap());
    let value = world.handle_to(process.object());
    let kept: Vec<_> = threads.iter().map(|thread| world.handle_to(thread.object())).collect();
    world.server.kernel.machine.pace = 100_000;
    let stopped = |world: &World| {
        let dead =
            |&&thread: &&Id<Thread>| world.server.kernel.signals(thread.object()).contains(Signals::TASK_TERMINATED);
        threads.iter().filter(dead).count()
    };
    let last = threads[threads.len() - 1];
    let key = ThreadKey(last.object().index());
    let mut slices = 0;
    while world.one(0, nr::TASK_KILL, value) == Answer::Blocked {
        slices += 1;
        let ended = world.server.kernel.signals(process.object()).contains(Signals::TASK_TERMINATED);
        assert!(!ended && world.server.kernel.process_is_dead(process));
        if stopped(&world) < threads.len() {
            assert!(world.server.kernel.objects.get(last).unwrap().machine().is_some());
            assert_eq!(world.server.call(key, nr::HANDLE_CHECK_VALID, &[0; 4]), Answer::Nothing);
            let fault = Fault::Page { address: USER_BASE, ip: USER_BASE, write: false, execute: false };
            assert_eq!(world.server.fault(key, fault), Answer::Nothing);
        }
    }
    assert!(slices > 3 && stopped(&world) == threads.len());
    assert!(world.server.kernel.signals(process.object()).contains(Signals::TASK_TERMINATED));
    kept.into_iter().for_each(|thread| assert_eq!(world.one(1, nr::HANDLE_CLOSE, thread), OK));
    world.end();
}
