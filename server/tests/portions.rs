//! Long calls are made in portions, and what else happens between two of them.

use abi::{Rights, ZX_VMO_OP_COMMIT, ZX_VMO_OP_DECOMMIT, nr};
use objects::fake::FakeMachine;
use objects::handle::Handle;
use objects::job::Job;
use objects::machine::{Fault, PAGE, Perm, Registers, ThreadKey, USER_BASE};
use objects::name::Name;
use objects::process::Process;
use objects::thread::Thread;
use objects::vmar::{MapRequest, Place};
use objects::vmo::Vmo;
use objects::{Id, Kernel};
use server::{Answer, Server};

/// Pages that no portion is enough for.
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
        let (process, root) = kernel.process_create(job, Name::new(b"portions")).unwrap();
        let held = kernel.another(Handle { object: process.object(), rights: Rights::NONE });
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

    /// One of the threads makes a call, or makes it again.
    fn call(&mut self, thread: usize, number: u32, words: [u64; 8]) -> Answer {
        let key = ThreadKey(self.threads[thread].object().index());
        let machine = self.server.kernel.objects.get(self.threads[thread]).unwrap().machine().unwrap();
        let [a, b, c, d, extra @ ..] = words;
        self.server.kernel.machine.threads.get_mut(&machine.0).unwrap().extra = extra;
        let answer = self.server.call(key, number, &[a, b, c, d]);
        self.server.settle();
        answer
    }

    fn op(&mut self, op: u32) -> Answer {
        let words = [self.handle, op.into(), 0, PAGES * PAGE, 0, 0, 0, 0];
        self.call(0, nr::VMO_OP_RANGE, words)
    }

    /// Makes a call again until it is over: how often, and its result.
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

    /// All ends, and nothing is left.
    fn end(mut self) {
        let kernel = &mut self.server.kernel;
        kernel.job_kill(self.job, 0);
        kernel.close(self.held);
        kernel.reap();
        assert_eq!((kernel.census(), kernel.machine.frames_in_use()), self.empty);
        kernel.check_memory();
    }
}

#[test]
fn a_long_call_goes_on_from_where_it_was() {
    let mut world = World::new();
    assert_eq!(world.op(ZX_VMO_OP_COMMIT), Answer::Blocked);
    let (first, before) = (world.committed(), world.server.kernel.machine.frames_in_use());
    assert!((1..PAGES).contains(&first));
    // The thread computes, as far as anybody can tell; others are served.
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
    // What the thread has in its registers by now is of no interest.
    assert_eq!(world.call(0, nr::VMO_OP_RANGE, [0; 8]), Answer::Blocked);
    assert!(world.committed() > before);
    assert_eq!(world.on(ZX_VMO_OP_COMMIT).1, OK);
    // With the call the VMO ended.
    assert_eq!(world.committed(), 0);
    world.end();
}

#[test]
fn what_is_cut_off_meanwhile_is_left_out() {
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

#[test]
fn what_would_fail_fails_before_anything_is_done() {
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
