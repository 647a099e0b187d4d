//! Turns: how jobs share the processor.
//!
//! The machine lets threads of one priority run one after the other, whoever's they are; so a job with a hundred threads
//! that never wait would leave others a hundredth. Therefore jobs *contend*: as long as threads of several are ready to
//! run, they take turns, and for its turn a job's threads are *preferred*, which puts them before all others of their
//! own priority, though not before those of a higher one. Where the holder of a turn has nothing to do, the others run
//! as they would without. What a job does at its turn includes what the kernel does for it, since who does not run does
//! not call.
//!
//! Turns are divided as the jobs are: all that is below a job has one share among the jobs beside it, and the processes of
//! the job itself have one among its jobs. So nobody gets more by making more jobs.
//!
//! 1. A thread that becomes ready is noted, once a turn ([`Kernel::turn_note`]); its job contends from then on. With the
//!    second job that does, turns begin.
//! 2. When a turn is over ([`Kernel::turn_over`]), its length, whatever it came to be, counts for its holder and all jobs
//!    above; its threads are preferred no longer.
//! 3. Jobs none of whose threads are ready contend no more. If two or more are left, the next turn begins; it goes to the
//!    job whose share is the least used, looked at from the top of the tree: the job that has had the least time of
//!    those below the root, of those below that one, and so on.
//! 4. Those of its threads that are ready, and those that are noted while it lasts, are preferred.
//!
//! Who has been away is not owed what others had meanwhile: a job counts as having had at least what had the one beside
//! it that was chosen last.
//!
//! All of it is bounded: [`CONTENDERS`] jobs are looked at, [`LOOKS`] threads of each, and [`PREFERRED`] are preferred. A
//! job with more ready threads than that has no need of it: with nobody preferred nearly all time is theirs.

use alloc::vec::Vec;

use crate::job::Job;
use crate::kernel::Kernel;
use crate::machine::Machine;
use crate::object::Id;
use crate::thread::Thread;

/// How long a turn is, in nanoseconds.
const TURN: i64 = 4_000_000;
/// Jobs that contend at a time.
const CONTENDERS: usize = 32;
/// Threads of a job that are looked at to see whether they are ready.
const LOOKS: usize = 256;
/// Threads that are preferred at a time.
const PREFERRED: usize = 32;

/// What a job has had, in nanoseconds of turns.
#[derive(Clone, Copy, Default)]
pub(crate) struct Share {
    /// It and all below it.
    all: i64,
    /// Its own processes.
    own: i64,
    /// What had the one of those that share in it that was chosen last.
    last: i64,
    /// It contends.
    contends: bool,
}

/// See the module's description.
pub(crate) struct Turns {
    /// The number of the turn. Threads remember in which they were noted.
    pub number: u32,
    contenders: Vec<Id<Job>>,
    holder: Option<Id<Job>>,
    preferred: Vec<Id<Thread>>,
    since: i64,
    /// When the turn is over, if there are turns.
    due: i64,
}

impl Default for Turns {
    fn default() -> Self {
        Turns { number: 1, contenders: Vec::new(), holder: None, preferred: Vec::new(), since: 0, due: i64::MAX }
    }
}

/// A job's threads that are ready.
enum Ready {
    None,
    /// These.
    Some(Vec<Id<Thread>>),
    /// Too many to be preferred, or to be counted.
    Many,
}

impl<M: Machine> Kernel<M> {
    /// Step 1, for a thread that has become ready to run, and was last noted in some turn.
    #[inline(always)]
    pub(crate) fn turn_ready(&mut self, id: Id<Thread>, noted: u32) {
        if noted != self.turns.number {
            self.turn_note(id);
        }
    }

    #[inline(never)]
    fn turn_note(&mut self, id: Id<Thread>) {
        let Ok(thread) = self.objects.get_mut(id) else { return };
        thread.noted = self.turns.number;
        let process = thread.process;
        let Ok(job) = self.objects.get(process).map(|process| process.job) else { return };
        if self.turns.holder == Some(job) {
            self.turn_prefer(id);
        }
        let Ok(job_of) = self.objects.get_mut(job) else { return };
        if job_of.share.contends
            || self.turns.contenders.len() >= CONTENDERS
            || self.turns.contenders.try_reserve(1).is_err()
        {
            return;
        }
        job_of.share.contends = true;
        self.turns.contenders.push(job);
        if self.turns.contenders.len() > 1 && self.turns.due == i64::MAX {
            self.turn_begins(None);
        }
    }

    /// The machine is to tell when the turn is over.
    fn turn_begins(&mut self, holder: Option<Id<Job>>) {
        let now = self.machine.now();
        self.turns.holder = holder;
        self.turns.since = now;
        self.turns.due = now.saturating_add(TURN);
        self.machine.set_deadline(self.turns.due);
    }

    /// Steps 2 to 4, if it is time. Says when the next turn is over.
    pub(crate) fn turn_over(&mut self, now: i64) -> Option<i64> {
        if now >= self.turns.due {
            self.turn_ends(now);
        }
        (self.turns.due != i64::MAX).then_some(self.turns.due)
    }

    fn turn_ends(&mut self, now: i64) {
        if let Some(holder) = self.turns.holder.take() {
            self.turn_count(holder, now.saturating_sub(self.turns.since).max(0));
        }
        while let Some(thread) = self.turns.preferred.pop() {
            if let Some(machine) = self.objects.get(thread).ok().and_then(|thread| thread.machine) {
                self.machine.thread_prefer(machine, false);
            }
        }
        self.turns.number = self.turns.number.wrapping_add(1);
        self.turns.due = i64::MAX;
        let mut place = 0;
        let mut next: Option<(Id<Job>, Ready)> = None;
        while let Some(&job) = self.turns.contenders.get(place) {
            let ready = self.turn_look(job);
            if let Ready::None = ready {
                self.turns.contenders.swap_remove(place);
                if let Ok(job) = self.objects.get_mut(job) {
                    job.share.contends = false;
                }
                continue;
            }
            place += 1;
            if next.as_ref().is_none_or(|(best, _)| self.turn_is_before(job, *best)) {
                next = Some((job, ready));
            }
        }
        let Some((job, ready)) = next.filter(|_| self.turns.contenders.len() > 1) else { return };
        self.turn_begins(Some(job));
        if let Ready::Some(threads) = ready {
            threads.into_iter().for_each(|thread| self.turn_prefer(thread));
        }
    }

    /// Threads of a job's own processes that are ready to run.
    fn turn_look(&self, job: Id<Job>) -> Ready {
        let Ok(processes) = self.objects.get(job).map(|job| job.processes) else { return Ready::None };
        let mut ready = Vec::new();
        let mut looks = 0;
        for process in self.objects.listed(processes) {
            let Ok(process) = self.objects.get::<crate::process::Process>(Id::new(process)) else { continue };
            looks += 1;
            for thread in self.objects.listed(process.threads) {
                let thread = Id::new(thread);
                looks += 1;
                if looks > LOOKS {
                    return Ready::Many;
                }
                if self.objects.get::<Thread>(thread).is_ok_and(Thread::is_ready) {
                    if ready.len() >= PREFERRED || ready.try_reserve(1).is_err() {
                        return Ready::Many;
                    }
                    ready.push(thread);
                }
            }
            if looks > LOOKS {
                return Ready::Many;
            }
        }
        if ready.is_empty() { Ready::None } else { Ready::Some(ready) }
    }

    fn turn_prefer(&mut self, thread: Id<Thread>) {
        let machine = self.objects.get(thread).ok().and_then(|thread| thread.machine);
        let place = self.turns.preferred.len() < PREFERRED && self.turns.preferred.try_reserve(1).is_ok();
        if let Some(machine) = machine.filter(|_| place) {
            self.turns.preferred.push(thread);
            self.machine.thread_prefer(machine, true);
        }
    }

    /// Step 2: a job has had so much.
    fn turn_count(&mut self, holder: Id<Job>, time: i64) {
        let Ok(job) = self.objects.get_mut(holder) else { return };
        let share = &mut job.share;
        share.last = share.last.max(share.own);
        share.own = share.last.saturating_add(time);
        let mut at = holder;
        while let Some(above) = self.objects.get(at).ok().and_then(|job| job.parent) {
            let Ok(last) = self.objects.get(above).map(|job| job.share.last) else { return };
            let Ok(job) = self.objects.get_mut(at) else { return };
            let had = last.max(job.share.all);
            job.share.all = had.saturating_add(time);
            if let Ok(parent) = self.objects.get_mut(above) {
                parent.share.last = had;
            }
            at = above;
        }
    }

    /// Step 3: whether one job has had less than another, where their ways to the root meet.
    fn turn_is_before(&self, a: Id<Job>, b: Id<Job>) -> bool {
        let height = |job: Id<Job>| self.objects.get(job).map_or(0, Job::height);
        let above = |job: Id<Job>| self.objects.get(job).ok().and_then(|job| job.parent);
        let had = |side: Option<Id<Job>>, at: Id<Job>| match side {
            Some(job) => self.objects.get(job).map_or(i64::MAX, |job| job.share.all),
            None => self.objects.get(at).map_or(i64::MAX, |job| job.share.own),
        };
        // Each where it stands, and the job below that which it came from.
        let ((mut a, mut from_a), (mut b, mut from_b)) = ((a, None), (b, None));
        while a != b {
            let (up_a, up_b) = (height(a) <= height(b), height(b) <= height(a));
            if up_a {
                let Some(next) = above(a) else { return false };
                (from_a, a) = (Some(a), next);
            }
            if up_b {
                let Some(next) = above(b) else { return false };
                (from_b, b) = (Some(b), next);
            }
        }
        let last = self.objects.get(a).map_or(0, |job| job.share.last);
        had(from_a, a).max(last) < had(from_b, b).max(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeMachine;
    use crate::handle::Handle;
    use crate::machine::Registers;
    use crate::name::Name;
    use abi::Rights;

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
            self.held.push(self.kernel.another(Handle { object: job.object(), rights: Rights::NONE }));
            job
        }

        fn threads(&mut self, job: Id<Job>, count: usize) -> Vec<Id<Thread>> {
            let (process, _) = self.kernel.process_create(job, Name::default()).unwrap();
            self.held.push(self.kernel.another(Handle { object: process.object(), rights: Rights::NONE }));
            let threads: Vec<_> =
                (0..count).map(|_| self.kernel.thread_create(process, Name::default()).unwrap()).collect();
            self.kernel.process_begin(process, None).unwrap();
            threads.iter().for_each(|&thread| self.kernel.thread_start(thread, &Registers::default()).unwrap());
            threads
        }

        /// Who holds each of so many turns.
        fn holders(&mut self, turns: usize) -> Vec<Id<Job>> {
            let turn = |_| {
                self.kernel.machine.time += TURN;
                self.kernel.expire();
                self.kernel.turns.holder.expect("there are turns")
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
        assert!(world.kernel.turns.holder.is_none() && !threads.iter().any(|&thread| world.is_preferred(thread)));
    }

    #[test]
    fn jobs_take_turns_however_many_threads_they_have() {
        let mut world = World::new();
        let root = world.kernel.root_job().unwrap();
        let (few, many) = (world.job(root), world.job(root));
        let (one, crowd) = (world.threads(few, 1), world.threads(many, PREFERRED + 1));
        let holders = world.holders(10);
        assert_eq!((count(&holders, few), count(&holders, many)), (5, 5));
        // The crowd needs no preference; the one is preferred at its own turn, and only then.
        assert!(!crowd.iter().any(|&thread| world.is_preferred(thread)));
        assert_eq!(world.is_preferred(one[0]), world.kernel.turns.holder == Some(few));
        let now = world.holders(1)[0];
        assert_eq!(world.is_preferred(one[0]), now == few);
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
        // And those below share alike, the job's own processes as one of them.
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
        world.kernel.machine.time += 900 * TURN;
        world.kernel.expire();
        assert!(world.kernel.turns.holder.is_none());
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
}
