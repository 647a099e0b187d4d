//! Turns on the fake machine: the holder of each, and its preferred threads.

use super::*;
use crate::containers::name::Name;
use crate::core::handle::Handle;
use crate::fake::FakeMachine;
use crate::machine::Registers;
use abi::{Rights, Status};

/// Jobs with threads that are always ready.
struct World {
    kernel: Kernel<FakeMachine>,
    held: Vec<Handle>,
}

impl World {
    fn new() -> World {
        World { kernel: Kernel::new(FakeMachine::new(4096)).unwrap(), held: Vec::new() }
    }

    fn job(&mut self, parent: Id<Job>) -> Id<Job> {
        let job = self.kernel.job_create(parent).unwrap();
        self.held.push(self.kernel.dup_handle(Handle { object: job.object(), rights: Rights::NONE }));
        job
    }

    fn threads(&mut self, job: Id<Job>, count: usize) -> Vec<Id<Thread>> {
        let (process, _) = self.kernel.process_create(job, Name::default()).unwrap();
        self.held.push(self.kernel.dup_handle(Handle { object: process.object(), rights: Rights::NONE }));
        let threads: Vec<_> =
            (0..count).map(|_| self.kernel.thread_create(process, Name::default()).unwrap()).collect();
        self.kernel.process_begin(process, None).unwrap();
        threads.iter().for_each(|&thread| self.kernel.thread_start(thread, &Registers::default()).unwrap());
        threads
    }

    /// The holder of each of the next turns.
    fn holders(&mut self, turns: usize) -> Vec<Id<Job>> {
        let turn = |_| {
            self.kernel.machine.time += TURN;
            self.kernel.expire();
            self.kernel.scheduler.holder.expect("there are turns")
        };
        (0..turns).map(turn).collect()
    }

    fn is_preferred(&self, thread: Id<Thread>) -> bool {
        let machine = self.kernel.objects.get(thread).unwrap().machine().unwrap();
        self.kernel.machine.threads[&machine.0].preferred
    }
}

fn count(holders: &[Id<Job>], job: Id<Job>) -> usize {
    holders.iter().filter(|&&holder| holder == job).count()
}

#[test]
fn one_job_alone_takes_no_turns() {
    let mut world = World::new();
    let root = world.kernel.root_job().unwrap();
    let job = world.job(root);
    let threads = world.threads(job, 3);
    world.kernel.machine.time += TURN;
    world.kernel.expire();
    assert!(world.kernel.scheduler.holder.is_none() && !threads.iter().any(|&thread| world.is_preferred(thread)));
}

#[test]
fn jobs_take_turns_however_many_threads_they_have() {
    let mut world = World::new();
    let root = world.kernel.root_job().unwrap();
    let (few, many) = (world.job(root), world.job(root));
    let (one, crowd) = (world.threads(few, 1), world.threads(many, PREFERRED + 1));
    let holders = world.holders(10);
    assert_eq!((count(&holders, few), count(&holders, many)), (5, 5));
    // Each thread is preferred in its own job's turn only, and of the crowd as many as possible.
    for _ in 0..2 {
        let now = world.holders(1)[0];
        assert_eq!(world.is_preferred(one[0]), now == few);
        let preferred = crowd.iter().filter(|&&thread| world.is_preferred(thread)).count();
        assert_eq!(preferred, if now == many { PREFERRED } else { 0 });
    }
}

#[test]
fn each_thread_of_a_crowd_comes_first_in_its_time() {
    let mut world = World::new();
    let root = world.kernel.root_job().unwrap();
    let (few, many) = (world.job(root), world.job(root));
    world.threads(few, 1);
    let crowd = [world.threads(many, 3), world.threads(many, PREFERRED)].concat();
    let first = |world: &World| world.kernel.objects.get(many).unwrap().share.first.unwrap();
    let mut seen = Vec::new();
    // In its first turn all threads have just been noted.
    while world.holders(1)[0] != many {}
    while seen.len() < 2 * crowd.len() {
        if world.holders(1)[0] == many {
            assert!(world.is_preferred(first(&world)));
            seen.push(first(&world));
        }
    }
    assert_eq!(seen, [crowd.clone(), crowd].concat());
}

#[test]
fn a_woken_thread_runs_before_computing_ones() {
    let mut world = World::new();
    let root = world.kernel.root_job().unwrap();
    let (few, many) = (world.job(root), world.job(root));
    world.threads(few, 1);
    let crowd = world.threads(many, 2 * PREFERRED);
    let wakes = crowd[PREFERRED / 2];
    world.holders(8);
    for _ in 0..4 {
        world.kernel.sleep(wakes, i64::MAX - 1).unwrap();
        while world.holders(1)[0] != few {}
        world.kernel.finish_wait(wakes, Status::OK);
        while world.holders(1)[0] != many {}
        assert_eq!(world.kernel.scheduler.preferred.last(), Some(&wakes));
        assert_eq!(world.kernel.scheduler.preferred.len(), PREFERRED);
    }
}

#[test]
fn many_sleeping_threads_do_not_hide_a_ready_one() {
    let mut world = World::new();
    let root = world.kernel.root_job().unwrap();
    let few = world.job(root);
    world.threads(few, 1);
    // As many threads as can be searched in one turn, and more, which takes several turns.
    for (threads, least) in [(LOOKS - 2, 50), (2 * LOOKS, 15)] {
        let many = world.job(root);
        let crowd = world.threads(many, threads);
        for &thread in &crowd[..threads - 1] {
            world.kernel.sleep(thread, i64::MAX - 1).unwrap();
        }
        let ready = crowd[threads - 1];
        let preferred = (0..100).filter(|_| world.holders(1)[0] == many && world.is_preferred(ready)).count();
        assert!(preferred >= least, "{preferred}");
        world.kernel.job_kill(many, 0);
        world.kernel.reap();
    }
}

#[test]
fn more_jobs_than_one_can_count_leave_others_their_share() {
    let mut world = World::new();
    let root = world.kernel.root_job().unwrap();
    let bomb = world.job(root);
    for _ in 0..100 {
        let job = world.job(bomb);
        world.threads(job, 1);
    }
    let plain = world.job(root);
    world.threads(plain, 1);
    let holders = world.holders(400);
    assert_eq!(count(&holders, plain), 200);
}

#[test]
fn who_has_nothing_to_do_gives_the_turn_up() {
    let mut world = World::new();
    let root = world.kernel.root_job().unwrap();
    let (a, b) = (world.job(root), world.job(root));
    world.threads(a, 1);
    let other = world.threads(b, 1)[0];
    while world.holders(1)[0] != b {}
    world.kernel.sleep(other, i64::MAX - 1).unwrap();
    world.kernel.machine.time += MIN_TURN;
    world.kernel.expire();
    // There is no other job to take turns with.
    assert!(world.kernel.scheduler.holder.is_none());
    assert_eq!(world.kernel.scheduler.contending, 1);
}

#[test]
fn who_wakes_need_not_wait_for_a_whole_turn() {
    let mut world = World::new();
    let root = world.kernel.root_job().unwrap();
    let (a, b) = (world.job(root), world.job(root));
    world.threads(a, 1);
    let other = world.threads(b, 2)[1];
    world.kernel.sleep(other, i64::MAX - 1).unwrap();
    while world.holders(1)[0] != a {}
    for wakes in [false, true] {
        if wakes {
            world.kernel.finish_wait(other, Status::OK);
        }
        world.kernel.machine.time += MIN_TURN;
        world.kernel.expire();
        assert_eq!(world.kernel.scheduler.holder, Some(if wakes { b } else { a }));
    }
}

#[test]
fn jobs_that_have_ended_contend_no_more() {
    let mut world = World::new();
    let root = world.kernel.root_job().unwrap();
    let (plain, top) = (world.job(root), world.job(root));
    world.threads(plain, 1);
    for turn in 0..4 * ENDED {
        let job = world.kernel.job_create(top).unwrap();
        let held = world.kernel.dup_handle(Handle { object: job.object(), rights: Rights::NONE });
        let (process, _) = world.kernel.process_create(job, Name::default()).unwrap();
        let thread = world.kernel.thread_create(process, Name::default()).unwrap();
        world.kernel.process_begin(process, None).unwrap();
        world.kernel.thread_start(thread, &Registers::default()).unwrap();
        // Some have had the turn, others have not.
        world.holders(turn % 3 + 1);
        world.kernel.job_kill(job, 0);
        world.kernel.close(held);
        world.kernel.reap();
        let top = world.kernel.objects.get(top).unwrap();
        assert!(top.share.heap.len() <= ENDED + 2);
    }
    assert_eq!(world.kernel.scheduler.contending, 1);
    world.kernel.machine.time += TURN;
    world.kernel.expire();
    assert!(world.kernel.scheduler.holder.is_none());
}

#[test]
fn more_jobs_below_one_get_no_more() {
    let mut world = World::new();
    let root = world.kernel.root_job().unwrap();
    let (plain, split) = (world.job(root), world.job(root));
    world.threads(plain, 1);
    let mut below: Vec<_> = (0..4).map(|_| world.job(split)).collect();
    below.push(split);
    below.iter().for_each(|&job| drop(world.threads(job, 2)));
    let holders = world.holders(40);
    assert_eq!(count(&holders, plain), 20);
    // The sharers below get equal shares, with the job's own processes as one of them.
    below.iter().for_each(|&job| assert_eq!(count(&holders, job), 4));
}

#[test]
fn a_long_turn_counts_as_long_as_it_was() {
    let mut world = World::new();
    let root = world.kernel.root_job().unwrap();
    let (a, b) = (world.job(root), world.job(root));
    world.threads(a, 1);
    world.threads(b, 1);
    let first = world.holders(1)[0];
    world.kernel.machine.time += 3 * TURN;
    let holders = world.holders(4);
    assert_eq!(count(&holders, first), 0, "{holders:?}");
}

#[test]
fn who_was_away_is_owed_nothing() {
    let mut world = World::new();
    let root = world.kernel.root_job().unwrap();
    let (a, b) = (world.job(root), world.job(root));
    world.threads(a, 1);
    let other = world.threads(b, 1)[0];
    world.kernel.sleep(other, world.kernel.machine.time + 1000 * TURN).unwrap();
    // A long turn without a holder, and one turn of each job; the second job is idle.
    for turns in [900, 1, 1] {
        world.kernel.machine.time += turns * TURN;
        world.kernel.expire();
    }
    assert!(world.kernel.scheduler.holder.is_none());
    world.kernel.machine.time += 100 * TURN;
    world.kernel.expire();
    let holders = world.holders(10);
    assert!((4..=6).contains(&count(&holders, a)), "{holders:?}");
}

#[test]
fn a_thread_that_wakes_at_its_jobs_turn_is_preferred() {
    let mut world = World::new();
    let root = world.kernel.root_job().unwrap();
    let (a, b) = (world.job(root), world.job(root));
    world.threads(a, 1);
    let both = world.threads(b, 2);
    world.kernel.sleep(both[1], world.kernel.machine.time + 2 * TURN + TURN / 2).unwrap();
    let holders = world.holders(2);
    assert!(!world.is_preferred(both[1]));
    world.kernel.machine.time += TURN / 2;
    world.kernel.expire();
    assert_eq!(world.is_preferred(both[1]), holders[1] == b);
}
