use alloc::collections::BTreeMap;
use std::vec::Vec;

use abi::Rights;

use super::*;
use crate::core::handle::Handle;
use crate::fake::FakeMachine;
use crate::machine::Aspace;
use crate::machine::{Memory, PAGE, Perm, Registers};
use crate::memory::tree_walk::{Node, Walk};
use crate::memory::vmar::{MapRequest, Place};
use crate::memory::vmo::Vmo;

const RW: Perm = Perm { read: true, write: true, execute: false };
const READ: Perm = Perm { write: false, ..RW };

/// A prototype and members, with their root VMARs, and a VMO mapped in the shared half.
struct World {
    kernel: Kernel<FakeMachine>,
    processes: Vec<Id<Process>>,
    roots: Vec<Id<Vmar>>,
    vmo: Id<Vmo>,
    /// The address of that mapping.
    common: u64,
}

fn request(vmo: Id<Vmo>, len: u64) -> MapRequest {
    MapRequest { vmo, offset: 0, len, perm: RW, max: RW, fixed: false }
}

fn world(members: usize) -> World {
    let mut kernel = Kernel::new(FakeMachine::new(1000)).unwrap();
    let job = kernel.root_job().unwrap();
    let (prototype, root) = kernel.process_create_prototype(job, Name::new(b"prototype")).unwrap();
    let (mut processes, mut roots) = (Vec::from([prototype]), Vec::from([root]));
    for i in 0..members {
        // Any of them will do.
        let (process, root) = kernel.process_create_shared(processes[i], Name::new(b"member")).unwrap();
        processes.push(process);
        roots.push(root);
    }
    for process in &processes {
        kernel.dup_handle(Handle { object: process.object(), rights: Rights::NONE });
    }
    let vmo = kernel.vmo_create(4 * PAGE, false).unwrap();
    let common = kernel.vmar_map(root, Place::At(0), request(vmo, 4 * PAGE)).unwrap();
    assert_eq!(common, USER_HALF);
    World { kernel, processes, roots, vmo, common }
}

impl World {
    fn aspace(&self, process: usize) -> Key {
        self.kernel.objects.get(self.processes[process]).unwrap().aspace.unwrap()
    }

    fn machine(&self, aspace: Key) -> Aspace {
        self.kernel.aspace(aspace).unwrap().machine
    }

    /// The mappings of an address space of the machine.
    fn mapped(&self, aspace: Key) -> BTreeMap<u64, Perm> {
        let mapped = self.kernel.machine.mapped.get(&self.machine(aspace).0).into_iter().flatten();
        mapped.map(|(&at, &(_, perm))| (at, perm)).collect()
    }

    fn kill(&mut self, process: usize) {
        self.kernel.process_kill(self.processes[process], 0);
        self.kernel.reap();
    }
}

#[test]
fn a_shared_page_is_mapped_on_touch_and_unmapped_everywhere() {
    let mut world = world(3);
    let all: Vec<Key> = (0..4).map(|process| world.aspace(process)).collect();
    for &aspace in &all[..3] {
        world.kernel.page_fault(aspace, world.common, true, false).unwrap();
    }
    assert_eq!(all.iter().map(|&aspace| world.mapped(aspace).len()).collect::<Vec<_>>(), [1, 1, 1, 0]);
    world.kernel.copy_out(all[3], world.common + 8, b"seen by all").unwrap();
    let mut seen = [0; 11];
    world.kernel.copy_in(all[1], world.common + 8, &mut seen).unwrap();
    assert_eq!(&seen, b"seen by all");
    let root = world.roots[0];
    world.kernel.vmar_protect(root, world.common, PAGE, READ, false).unwrap();
    assert!(all[..3].iter().all(|&aspace| world.mapped(aspace).values().all(|perm| !perm.write)));
    assert_eq!(world.kernel.page_fault(all[2], world.common, true, false), Err(Status::ACCESS_DENIED));
    assert_eq!(world.kernel.copy_out(all[2], world.common, b"x"), Err(Status::INVALID_ARGS));
    // Decommitted pages disappear like unmapped ones.
    world.kernel.page_fault(all[3], world.common + PAGE, true, false).unwrap();
    world.kernel.vmo_decommit(world.vmo, PAGE, PAGE).unwrap();
    assert_eq!(all.iter().map(|&aspace| world.mapped(aspace).len()).collect::<Vec<_>>(), [1, 1, 1, 0]);
    world.kernel.vmar_unmap(root, world.common, 4 * PAGE, false).unwrap();
    assert!(all.iter().all(|&aspace| world.mapped(aspace).is_empty()));
    assert_eq!(world.kernel.page_fault(all[1], world.common, false, false), Err(Status::NOT_FOUND));
}

#[test]
fn each_address_space_counts_as_a_process_until_destroyed() {
    let mut world = world(2);
    let job = world.kernel.root_job().unwrap();
    let count = |world: &World| world.kernel.job_count(job, CountKind::Processes).unwrap().used;
    assert_eq!(count(&world), 3);
    let restricted = world.kernel.restricted_aspace(world.processes[1]).unwrap();
    assert_eq!(world.kernel.restricted_aspace(world.processes[1]), Ok(restricted));
    assert_eq!(count(&world), 4);
    world.kernel.job_limit_count(job, CountKind::Processes, 4).unwrap();
    assert_eq!(world.kernel.restricted_aspace(world.processes[2]), Err(Status::NO_RESOURCES));
    // The shared parts last until the last process has ended.
    world.kill(0);
    assert_eq!(count(&world), 4);
    world.kill(1);
    assert_eq!(count(&world), 2);
    world.kill(2);
    assert_eq!(count(&world), 0);
}

#[test]
fn lower_halves_are_apart_and_all_that_restricted_mode_sees() {
    let mut world = world(2);
    assert_eq!(world.kernel.restricted_aspace(world.processes[0]), Ok(world.aspace(0)));
    let (first, second) = (world.aspace(1), world.aspace(2));
    let restricted = world.kernel.restricted_aspace(world.processes[1]).unwrap();
    assert_eq!(world.kernel.restricted_aspace(world.processes[1]), Ok(restricted));
    let own = world.kernel.vmo_create(PAGE, false).unwrap();
    let at = world.kernel.vmar_map(world.roots[1], Place::At(0), request(own, PAGE)).unwrap();
    assert_eq!(at, USER_BASE);
    for aspace in [first, restricted] {
        world.kernel.page_fault(aspace, at, true, false).unwrap();
        assert_eq!(world.mapped(aspace).len(), 1);
    }
    assert_eq!(world.kernel.page_fault(second, at, true, false), Err(Status::NOT_FOUND));
    assert_eq!(world.kernel.page_fault(restricted, world.common, true, false), Err(Status::NOT_FOUND));
    assert_eq!(
        world.kernel.vmar_map(world.roots[1], Place::At(USER_HALF - USER_BASE), request(own, PAGE)).err(),
        Some(Status::INVALID_ARGS)
    );
    let bases = |world: &World, process: usize| {
        let aspace = world.aspace(process);
        world.kernel.mappings(aspace).map(|mapping| mapping.base).collect::<Vec<_>>()
    };
    assert_eq!(bases(&world, 1), [at, world.common]);
    assert!([0, 2].iter().all(|&process| bases(&world, process) == [world.common]));
    // A walk that stops at each position visits the lower half first.
    let roots = world.kernel.roots(world.processes[1]).unwrap();
    let (mut place, mut told) = ([0, 0], Vec::new());
    loop {
        let mut walk = Walk::stopped(roots, place);
        match world.kernel.walk_next(&mut walk) {
            None => break,
            Some((depth, Node::Vmar(vmar))) => told.push((depth, vmar.base, vmar.end())),
            Some((depth, Node::Mapping(mapping))) => told.push((depth, mapping.base, mapping.end())),
            Some((_, Node::End)) => {}
        }
        place = walk.place();
    }
    let common = (1, world.common, world.common + 4 * PAGE);
    assert_eq!(told, [(0, USER_BASE, USER_HALF), (1, at, at + PAGE), (0, USER_HALF, USER_TOP), common]);
    world.kernel.vmar_unmap(world.roots[1], at, PAGE, false).unwrap();
    assert!(world.mapped(first).is_empty() && world.mapped(restricted).is_empty());
}

#[test]
fn handles_are_common_and_go_with_the_last() {
    let mut world = world(2);
    let before = world.kernel.objects.len();
    let thread = world.kernel.thread_create(world.processes[1], Name::new(b"t")).unwrap();
    world.kernel.dup_handle(Handle { object: thread.object(), rights: Rights::NONE });
    // Starting its thread starts a member.
    world.kernel.thread_start(thread, &Registers::default()).unwrap();
    assert_eq!(world.kernel.objects.get(world.processes[1]).unwrap().state, ProcessState::Running);
    let caller = world.kernel.caller(thread.object().index()).unwrap();
    assert_eq!((caller.process, caller.aspace), (world.processes[0], world.aspace(1)));
    let kept = world.kernel.vmo_create(PAGE, false).unwrap();
    let value = world.kernel.give_new(caller.process, kept, Rights::all()).unwrap();
    world.kernel.restricted_aspace(world.processes[1]).unwrap();
    world.kernel.page_fault(world.aspace(1), world.common, true, false).unwrap();
    world.kernel.page_fault(world.aspace(0), world.common, true, false).unwrap();

    // The prototype ends first; the shared half stays.
    world.kill(0);
    assert_eq!(world.kernel.objects.get(world.processes[0]).unwrap().state, ProcessState::Dead);
    assert!(world.kernel.handle(caller.process, value).is_ok());
    world.kernel.page_fault(world.aspace(1), world.common + PAGE, true, false).unwrap();
    let (third, root) = world.kernel.process_create_shared(world.processes[0], Name::default()).unwrap();
    world
        .kernel
        .page_fault(world.kernel.objects.get(third).unwrap().aspace.unwrap(), world.common, true, false)
        .unwrap();
    world.kernel.vmar_map(root, Place::At(0), request(kept, PAGE)).unwrap();
    world.kernel.process_kill(third, 0);
    world.kill(1);
    assert!(world.kernel.objects.get(kept).is_ok());
    world.kill(2);
    assert!(world.kernel.objects.get(kept).is_err());
    let again = world.kernel.process_create_shared(world.processes[2], Name::default());
    assert_eq!(again.err(), Some(Status::BAD_STATE));
    assert!(world.kernel.machine.mapped.values().all(BTreeMap::is_empty));
    assert!(world.kernel.aspaces.is_empty());
    for process in world.processes {
        world.kernel.close(Handle { object: process.object(), rights: Rights::NONE });
    }
    world.kernel.close(Handle { object: thread.object(), rights: Rights::NONE });
    world.kernel.reap();
    assert!(world.kernel.objects.len() < before);
}

/// All end at once, with threads that run and threads in restricted mode.
#[test]
fn all_at_once() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
        let mut world = world(2);
        for &process in &world.processes {
            if world.kernel.objects.get(process).unwrap().state == ProcessState::Created {
                world.kernel.process_begin(process, None).unwrap();
            }
            let thread = world.kernel.thread_create(process, Name::new(b"t")).unwrap();
            world.kernel.thread_start(thread, &Registers::default()).unwrap();
            let state = world.kernel.vmo_create(PAGE, false).unwrap();
            let handle = world.kernel.dup_handle(Handle { object: state.object(), rights: Rights::NONE });
            world.kernel.restricted_bind(thread, state).unwrap();
            world.kernel.close(handle);
            let aspace = world.kernel.objects.get(process).unwrap().aspace.unwrap();
            world.kernel.page_fault(aspace, world.common, true, false).unwrap();
        }
        assert_eq!(world.kernel.machine.runners.len(), 3);
        for process in order {
            world.kernel.process_kill(world.processes[process], 0);
        }
        world.kernel.reap();
        assert!(world.kernel.aspaces.is_empty() && world.kernel.machine.runners.is_empty());
        assert!(
            world
                .processes
                .iter()
                .all(|&id| world.kernel.signals(id.object()).contains(abi::Signals::PROCESS_TERMINATED))
        );
    }
}

#[test]
fn who_cannot_share() {
    let mut world = world(0);
    let job = world.kernel.root_job().unwrap();
    let (alone, _) = world.kernel.process_create(job, Name::default()).unwrap();
    assert_eq!(world.kernel.process_create_shared(alone, Name::default()).err(), Some(Status::INVALID_ARGS));
    let mut made = Vec::new();
    loop {
        match world.kernel.process_create_shared(world.processes[0], Name::default()) {
            Ok((process, _)) => made.push(process),
            Err(status) => break assert_eq!(status, Status::NO_RESOURCES),
        }
    }
    assert_eq!(made.len(), MEMBERS);
    world
        .kernel
        .page_fault(world.kernel.objects.get(made[7]).unwrap().aspace.unwrap(), world.common, true, false)
        .unwrap();
    assert_eq!(world.kernel.space_stretch(world.aspace(0), world.common, 4), 1);
    world.kernel.process_kill(made[0], 0);
    world.kernel.reap();
    world.kernel.process_create_shared(made[1], Name::default()).unwrap();
}

#[test]
fn without_memory_nothing_is_left_behind() {
    for left in 0..6 {
        let mut world = world(1);
        let (spaces, objects) = (world.kernel.aspaces.len(), world.kernel.objects.len());
        world.kernel.machine.limit = world.kernel.machine.memory().0 as usize / PAGE as usize + left;
        if world.kernel.process_create_shared(world.processes[0], Name::default()).is_err() {
            assert_eq!((world.kernel.aspaces.len(), world.kernel.objects.len()), (spaces, objects));
            assert_eq!(world.kernel.aspace(world.aspace(0)).unwrap().shown_in.len(), 1);
        }
    }
}
