//! Life cycle of virtual processors.

use super::*;
use crate::containers::name::Name;
use crate::core::handle::Handle;
use crate::fake::{FakeMachine, RUNNER_RAN};

struct World {
    kernel: Kernel<FakeMachine>,
    thread: Id<Thread>,
    vproc: Id<Vproc>,
    handle: Handle,
}

fn world() -> World {
    let mut kernel = Kernel::new(FakeMachine::new(128)).unwrap();
    let job = kernel.root_job().unwrap();
    let (process, _) = kernel.process_create(job, Name::new(b"p")).unwrap();
    let thread = kernel.thread_create(process, Name::new(b"t")).unwrap();
    kernel.process_begin(process, None).unwrap();
    kernel.thread_start(thread, &Registers::default()).unwrap();
    let (vproc, _) = kernel.vproc_create(thread, false).unwrap();
    let rights = abi::HAFNON_DEFAULT_VPROC_RIGHTS;
    let handle = kernel.dup_handle(Handle { object: vproc.object(), rights });
    World { kernel, thread, vproc, handle }
}

impl World {
    fn domain(&mut self) -> Id<Process> {
        let job = self.kernel.root_job().unwrap();
        let (process, _) = self.kernel.process_create(job, Name::new(b"d")).unwrap();
        self.kernel.dup_handle(Handle { object: process.object(), rights: abi::Rights::NONE });
        process
    }

    fn enter(&mut self, process: Id<Process>) -> Result<(), Status> {
        self.kernel.vproc_start(self.vproc, self.thread, process)
    }

    /// Number of runners, and of those that run.
    fn runners(&self) -> (usize, usize) {
        let all = &self.kernel.machine.runners;
        (all.len(), all.values().filter(|runs| **runs).count())
    }
}

#[test]
fn one_of_the_runners_runs() {
    let mut world = world();
    assert_eq!(world.kernel.vproc_create(world.thread, false).err(), Some(Status::ALREADY_BOUND));
    assert_eq!(world.kernel.vproc_stop(world.vproc, world.thread), Err(Status::BAD_STATE));
    let (a, b) = (world.domain(), world.domain());
    world.enter(a).unwrap();
    world.enter(a).unwrap();
    assert_eq!(world.runners(), (1, 1));
    world.enter(b).unwrap();
    assert_eq!(world.runners(), (2, 1));
    world.enter(a).unwrap();
    assert_eq!(world.runners(), (2, 1));
    world.kernel.vproc_stop(world.vproc, world.thread).unwrap();
    assert_eq!(world.runners(), (2, 0));
    world.kernel.vproc_event(world.vproc).unwrap();
    assert_eq!(world.kernel.machine.doorbells.values().collect::<alloc::vec::Vec<_>>(), [&1]);
    world.kernel.close(world.handle);
    world.kernel.reap();
    assert_eq!((world.runners(), world.kernel.machine.doorbells.len()), ((0, 0), 0));
    assert!(world.kernel.machine.endpoints.own.is_empty() && world.kernel.machine.endpoints.minted.is_empty());
    let (again, _) = world.kernel.vproc_create(world.thread, false).unwrap();
    assert_ne!(again, world.vproc);
}

#[test]
fn a_process_that_ends_leaves_the_runner_that_was_entered_last() {
    let mut world = world();
    let (a, b) = (world.domain(), world.domain());
    world.enter(a).unwrap();
    world.enter(b).unwrap();
    world.kernel.process_kill(a, 0);
    world.kernel.reap();
    assert_eq!(world.runners(), (1, 1));
    assert_eq!(world.enter(a), Err(Status::BAD_STATE));
    world.kernel.process_kill(b, 0);
    world.kernel.reap();
    assert_eq!(world.runners(), (1, 1));
    assert_eq!(world.enter(b), Err(Status::BAD_STATE));
    let c = world.domain();
    world.enter(c).unwrap();
    assert_eq!(world.runners(), (1, 1));
    world.kernel.thread_kill(world.thread);
    world.kernel.reap();
    assert_eq!(world.runners(), (0, 0));
    assert_eq!(world.kernel.vproc_event(world.vproc), Err(Status::BAD_STATE));
    assert!(world.kernel.machine.endpoints.own.len() == 1, "its object is there as long as the handle");
    world.kernel.close(world.handle);
    world.kernel.reap();
    assert!(world.kernel.machine.endpoints.own.is_empty());
}

#[test]
fn runners_time_is_their_owners() {
    let mut world = world();
    let process = world.kernel.objects.get(world.thread).unwrap().process;
    let job = world.kernel.root_job().unwrap();
    for object in [world.thread.object(), process.object()] {
        world.kernel.dup_handle(Handle { object, rights: abi::Rights::NONE });
    }
    let ran = |world: &mut World, runners| {
        let kernel = &mut world.kernel;
        let told = [kernel.thread_runtime(world.thread), kernel.process_runtime(process), kernel.job_runtime(job)];
        assert_eq!(told, [Ok(runners * RUNNER_RAN); 3]);
    };
    let (a, b) = (world.domain(), world.domain());
    world.enter(a).unwrap();
    world.enter(b).unwrap();
    ran(&mut world, 2);
    // One process ends; the runner entered last stays without its process, and is destroyed when another one is
    // entered.
    world.kernel.process_kill(a, 0);
    ran(&mut world, 2);
    world.kernel.process_kill(b, 0);
    ran(&mut world, 2);
    let (c, d) = (world.domain(), world.domain());
    world.enter(c).unwrap();
    world.enter(d).unwrap();
    ran(&mut world, 4);
    // All runners are destroyed, and then the owner.
    world.kernel.close(world.handle);
    world.kernel.reap();
    ran(&mut world, 4);
    let (again, _) = world.kernel.vproc_create(world.thread, false).unwrap();
    world.kernel.vproc_start(again, world.thread, c).unwrap();
    ran(&mut world, 5);
    world.kernel.thread_kill(world.thread);
    world.kernel.reap();
    ran(&mut world, 5);
}

#[test]
fn a_held_owner_holds_its_runner() {
    let mut world = world();
    let (a, b) = (world.domain(), world.domain());
    let suspend = |world: &mut World, tokens| {
        world.kernel.objects.get_mut(world.thread).unwrap().suspends = tokens;
        world.kernel.thread_settle(world.thread);
    };
    // There is no runner yet.
    suspend(&mut world, 1);
    suspend(&mut world, 0);
    world.enter(b).unwrap();
    world.enter(a).unwrap();
    suspend(&mut world, 2);
    assert_eq!(world.runners(), (2, 0));
    world.kernel.vproc_event(world.vproc).unwrap();
    suspend(&mut world, 1);
    assert_eq!(world.runners(), (2, 0));
    suspend(&mut world, 0);
    assert_eq!(world.runners(), (2, 1));
    // A runner that does not run is not started.
    world.kernel.vproc_stop(world.vproc, world.thread).unwrap();
    suspend(&mut world, 1);
    suspend(&mut world, 0);
    assert_eq!(world.runners(), (2, 0));
    // Its process ends meanwhile, and then the owner.
    world.enter(a).unwrap();
    suspend(&mut world, 1);
    world.kernel.process_kill(a, 0);
    world.kernel.reap();
    assert_eq!(world.runners(), (2, 0));
    suspend(&mut world, 0);
    assert_eq!(world.runners(), (2, 1));
    suspend(&mut world, 1);
    world.kernel.thread_kill(world.thread);
    world.kernel.reap();
    assert_eq!(world.runners(), (0, 0));
}

#[test]
fn so_many_in_a_process() {
    let mut world = world();
    let domain = world.domain();
    let process = world.kernel.objects.get(world.thread).unwrap().process;
    for n in 0..=IN_PROCESS {
        let thread = world.kernel.thread_create(process, Name::new(b"t")).unwrap();
        world.kernel.thread_start(thread, &Registers::default()).unwrap();
        let (vproc, _) = world.kernel.vproc_create(thread, false).unwrap();
        let refused = (n == IN_PROCESS).then_some(Status::NO_RESOURCES);
        assert_eq!(world.kernel.vproc_start(vproc, thread, domain).err(), refused);
        assert_eq!(world.kernel.vproc_start(vproc, world.thread, domain), Err(Status::BAD_STATE));
    }
    world.kernel.process_kill(domain, 0);
    world.kernel.process_kill(process, 0);
    world.kernel.reap();
    assert_eq!(world.runners(), (0, 0));
}

#[test]
fn the_runner_that_runs_shares_the_owner_s_vectors() {
    let (mut world, owner) = (world(), |world: &World| {
        world.kernel.objects.get(world.thread).ok().and_then(Thread::machine).map_or(0, |thread| thread.0)
    });
    world.kernel.close(world.handle);
    world.kernel.reap();
    let (own, _) = world.kernel.vproc_create(world.thread, false).unwrap();
    world.vproc = own;
    let (a, b) = (world.domain(), world.domain());
    world.enter(a).unwrap();
    assert!(world.kernel.machine.shares.is_empty());
    world.kernel.vproc_unreachable(own);
    world.kernel.reap();
    let (shared, _) = world.kernel.vproc_create(world.thread, true).unwrap();
    world.vproc = shared;
    let mut seen = alloc::vec::Vec::new();
    for process in [a, b, a, a] {
        world.enter(process).unwrap();
        let runner = world.kernel.objects.get(shared).unwrap().runners[&process].0;
        assert_eq!(world.kernel.machine.shares.get(&owner(&world)), Some(&runner));
        assert!(world.kernel.machine.runners[&runner] && world.runners().1 == 1);
        seen.push(runner);
    }
    assert_eq!((seen[0], seen[0] != seen[1]), (seen[2], true));
}
