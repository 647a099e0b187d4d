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
//! the job itself have one among its jobs. So nobody gets more by making more jobs. Each job has a heap of those that
//! share in it and contend, by what they have had (a [`Claim`] each).
//!
//! 1. A thread that becomes ready is noted, once a turn ([`Kernel::turn_note`]); its job contends from then on
//!    ([`Kernel::turn_enter`]). With the second job that does, turns begin.
//! 2. A turn ends when it has been [`TURN`] long. Each [`SHORT`] time is looked whether it ends sooner: because a thread
//!    of another job was noted meanwhile, or none of those that are preferred is ready any more ([`Kernel::turn_over`]).
//! 3. Its length, whatever it came to be, counts for its holder and all jobs above; its threads are preferred no longer.
//! 4. The next turn goes to the job whose share is the least used, looked at from the top of the tree down: the job that has
//!    had the least time of those below the root, of those below that one, and so on. If none of its threads is ready, it
//!    contends no more, and another is looked for. With one left, turns end.
//! 5. Those of its threads that are ready, and those that are noted while it lasts, are preferred: [`PREFERRED`] at most. First come
//!    those that were noted since the job's last turn began, as who wakes comes before who computes where there are no
//!    turns. The others are looked for behind the one of them that came first at that turn, so each gets its time, however many
//!    there are.
//!
//! Who has been away is not owed what others had meanwhile: a job counts as having had at least what had the one beside
//! it that was chosen last.
//!
//! All of it is bounded: [`LOOKS`] threads and processes are looked at for a turn. Where there are more, the job that was
//! looked at last holds the turn with what was found, and the look goes on from there at its next.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Ordering;

use crate::containers::list::List;
use crate::core::object::{Id, ObjectId};
use crate::kernel::Kernel;
use crate::machine::Machine;
use crate::task::job::{Job, MAX_HEIGHT};
use crate::task::process::Process;
use crate::task::process::Processes;
use crate::task::thread::Thread;

/// How long a turn is, in nanoseconds.
const TURN: i64 = 4_000_000;
/// How long one is that ends sooner; how often that is looked at.
const SHORT: i64 = 500_000;
/// Threads and processes that are looked at for a turn to see whether they are ready.
const LOOKS: usize = 4096;
/// Threads that are preferred at a time.
const PREFERRED: usize = 32;
/// Claims of jobs that have ended which may stay in a heap before it is looked through.
const ENDED: usize = 32;

/// What a job has had, in nanoseconds of turns.
#[derive(Default)]
pub(crate) struct Share {
    /// It and all below it.
    all: i64,
    /// Its own processes.
    own: i64,
    /// What had the one of those that share in it that was chosen last.
    last: i64,
    /// It has a claim above it, or the holder of the turn is below it.
    claims: bool,
    /// Its own processes contend: they have a claim in it, or it holds the turn.
    contends: bool,
    /// Those that share in it and contend, but for the one that leads to the holder of the turn.
    heap: BinaryHeap<Claim>,
    /// About as many of them have ended.
    ended: usize,
    /// Of the threads that had not woken, the one that came first at its last turn; or the one that was looked at last.
    first: Option<Id<Thread>>,
    /// The number of its last turn.
    turn: u32,
}

/// Of those that share in a job, one that contends: a job in it, or the job itself for its own processes.
struct Claim {
    had: i64,
    /// Those that have had the same come in the order in which they were put there.
    order: u64,
    job: Id<Job>,
}

impl Ord for Claim {
    /// Who has had the least is the greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.had, other.order).cmp(&(self.had, self.order))
    }
}

impl PartialOrd for Claim {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Claim {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Claim {}

/// See the module's description.
pub(crate) struct Turns {
    /// The number of the turn. Threads remember in which they were noted.
    pub number: u32,
    /// Jobs whose own processes contend.
    contending: usize,
    /// Claims that were ever made.
    order: u64,
    /// The holder's job, and those on the way to it from the root; there is room for as many as there can be.
    way: Vec<Id<Job>>,
    holder: Option<Id<Job>>,
    preferred: Vec<Id<Thread>>,
    since: i64,
    /// A thread of another job than the holder was noted.
    others: bool,
    /// When the turn is over or looked at, if there are turns.
    due: i64,
}

#[cfg(any(test, feature = "fake"))]
impl Turns {
    /// Those that are preferred at the present turn.
    pub fn preferred(&self) -> &[Id<Thread>] {
        &self.preferred
    }
}

impl Default for Turns {
    fn default() -> Self {
        Turns {
            number: 1,
            contending: 0,
            order: 0,
            way: Vec::with_capacity(MAX_HEIGHT as usize + 1),
            holder: None,
            preferred: Vec::new(),
            since: 0,
            others: false,
            due: i64::MAX,
        }
    }
}

/// A job's threads that are ready, as far as they were looked for.
#[derive(Default)]
struct Ready {
    /// Those that were noted since its last turn began.
    woken: Vec<Id<Thread>>,
    others: Vec<Id<Thread>>,
    /// The thread that was looked at last.
    last: Option<Id<Thread>>,
}

impl Ready {
    fn is_empty(&self) -> bool {
        self.woken.is_empty() && self.others.is_empty()
    }

    /// One more, where there is room; says whether there was memory.
    fn add(&mut self, thread: Id<Thread>, woken: bool) -> bool {
        let list = if woken { &mut self.woken } else { &mut self.others };
        let memory = list.len() == PREFERRED || list.try_reserve(1).is_ok();
        if memory && list.len() < PREFERRED {
            list.push(thread);
        }
        memory
    }
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
        if thread.vproc.is_some() {
            self.vproc_owner_ready(id);
        }
        let Ok(job) = self.objects.get(process).map(|process| process.job) else { return };
        if self.turns.holder == Some(job) {
            self.turn_prefer(id);
            return;
        }
        self.turns.others = true;
        if self.objects.get(job).is_ok_and(|job| !job.share.contends) {
            self.turn_enter(job);
            if self.turns.contending > 1 && self.turns.due == i64::MAX {
                let now = self.machine.now();
                self.turn_begins(now, None);
            }
        }
    }

    /// Step 1: a job's own processes contend from now on, and so do the jobs above it. Without memory for that it is as it was.
    fn turn_enter(&mut self, job: Id<Job>) {
        let mut next = Some(job);
        while let Some(id) = next {
            let Ok(job) = self.objects.get_mut(id) else { return };
            // For this claim, and for that of the holder.
            if job.share.heap.try_reserve(2).is_err() {
                return;
            }
            next = if job.share.claims { None } else { job.parent };
        }
        self.turns.contending += 1;
        let Ok(own) = self.objects.get_mut(job) else { return };
        own.share.contends = true;
        own.share.own = own.share.own.max(own.share.last);
        self.turn_claim_own(job);
        let mut at = job;
        while let Some((false, Some(above))) = self.objects.get(at).ok().map(|job| (job.share.claims, job.parent)) {
            let last = self.objects.get(above).map_or(0, |above| above.share.last);
            if let Ok(job) = self.objects.get_mut(at) {
                job.share.all = job.share.all.max(last);
            }
            self.turn_claim(at, above);
            at = above;
        }
    }

    /// Puts a job's claim for its own processes into its heap, where there is room.
    fn turn_claim_own(&mut self, id: Id<Job>) {
        self.turns.order += 1;
        if let Ok(job) = self.objects.get_mut(id) {
            job.share.heap.push(Claim { had: job.share.own, order: self.turns.order, job: id });
        }
    }

    /// Puts a job's claim into the heap of the one above it, where there is room.
    fn turn_claim(&mut self, id: Id<Job>, above: Id<Job>) {
        self.turns.order += 1;
        let Ok(job) = self.objects.get_mut(id) else { return };
        job.share.claims = true;
        let claim = Claim { had: job.share.all, order: self.turns.order, job: id };
        if let Ok(above) = self.objects.get_mut(above) {
            above.share.heap.push(claim);
        }
    }

    /// The machine is to tell when the turn is to be looked at.
    fn turn_begins(&mut self, now: i64, holder: Option<Id<Job>>) {
        self.turns.holder = holder;
        self.turns.since = now;
        self.turns.others = false;
        self.turn_look_again(now);
    }

    fn turn_look_again(&mut self, now: i64) {
        self.turns.due = now.saturating_add(SHORT);
        self.machine.set_deadline(self.turns.due);
    }

    /// Step 2, if it is time. Says when it is time again.
    pub(crate) fn turn_over(&mut self, now: i64) -> Option<i64> {
        if now >= self.turns.due {
            let is_ready = |&thread: &Id<Thread>| self.objects.get(thread).is_ok_and(Thread::is_ready);
            let too_long = now.saturating_sub(self.turns.since) >= TURN;
            if too_long || self.turns.others || !self.turns.preferred.iter().any(is_ready) {
                self.turn_ends(now);
            } else {
                self.turn_look_again(now);
            }
        }
        (self.turns.due != i64::MAX).then_some(self.turns.due)
    }

    /// Steps 3 to 5.
    fn turn_ends(&mut self, now: i64) {
        while let Some(thread) = self.turns.preferred.pop() {
            if let Some(machine) = self.objects.get(thread).ok().and_then(|thread| thread.machine) {
                self.machine.thread_prefer(machine, false);
            }
        }
        if self.turns.holder.take().is_some() {
            self.turn_claims_back(now.saturating_sub(self.turns.since).max(0));
        }
        self.turns.number = self.turns.number.wrapping_add(1);
        self.turns.due = i64::MAX;
        let Some((job, ready)) = self.turn_next() else { return };
        if self.turns.contending < 2 {
            self.turn_claims_back(0);
            return;
        }
        self.turn_begins(now, Some(job));
        if let Ok(job) = self.objects.get_mut(job) {
            job.share.first = ready.others.first().copied().or(ready.last);
            job.share.turn = self.turns.number;
        }
        // The one that is preferred last comes first.
        let others = PREFERRED - ready.woken.len();
        let others = ready.others.into_iter().take(others).rev();
        others.chain(ready.woken.into_iter().rev()).for_each(|thread| self.turn_prefer(thread));
    }

    /// Step 4: the job that is next, whose claim and those of the jobs above it are taken out, and its threads.
    fn turn_next(&mut self) -> Option<(Id<Job>, Ready)> {
        let mut looks = LOOKS;
        loop {
            let job = self.turn_way()?;
            let ready = self.turn_look(job, &mut looks);
            if !ready.is_empty() || looks == 0 {
                return Some((job, ready));
            }
            if let Ok(job) = self.objects.get_mut(job) {
                job.share.contends = false;
                self.turns.contending = self.turns.contending.saturating_sub(1);
            }
            self.turn_claims_back(0);
        }
    }

    /// Step 4: takes out the claims on the way from the root to the job whose share is the least used.
    fn turn_way(&mut self) -> Option<Id<Job>> {
        let mut at = self.root_job?;
        self.turns.way.clear();
        self.turns.way.push(at);
        loop {
            let share = &mut self.objects.get_mut(at).ok()?.share;
            let Some(claim) = share.heap.pop() else {
                // All that contended below it have ended.
                share.claims = false;
                self.turns.way.pop();
                at = *self.turns.way.last()?;
                continue;
            };
            share.last = share.last.max(claim.had);
            if claim.job == at {
                return Some(at);
            }
            if self.objects.get(claim.job).is_ok() {
                at = claim.job;
                self.turns.way.push(at);
            } else if let Ok(job) = self.objects.get_mut(at) {
                job.share.ended = job.share.ended.saturating_sub(1);
            }
        }
    }

    /// Steps 3 and 4: the claims on the way are put back, as far as there is somebody who contends, with so much time more.
    fn turn_claims_back(&mut self, time: i64) {
        let holder = self.turns.way.last().copied();
        if let Some(holder) = holder
            && let Ok(job) = self.objects.get_mut(holder)
        {
            job.share.own = job.share.own.saturating_add(time);
            if job.share.contends {
                self.turn_claim_own(holder);
            }
        }
        while let (Some(id), Some(&above)) = (self.turns.way.pop(), self.turns.way.last()) {
            let Ok(job) = self.objects.get_mut(id) else { continue };
            job.share.all = job.share.all.saturating_add(time);
            job.share.claims = false;
            if !job.share.heap.is_empty() {
                self.turn_claim(id, above);
            }
        }
    }

    /// A job has ended, and with it its claim.
    pub(crate) fn turn_job_ended(&mut self, job: &Job) {
        if job.share.contends {
            self.turns.contending = self.turns.contending.saturating_sub(1);
        }
        let Some(above) = job.parent.filter(|_| job.share.claims) else { return };
        let Ok(parent) = self.objects.get_mut(above) else { return };
        parent.share.ended += 1;
        if parent.share.ended > ENDED && parent.share.ended > parent.share.heap.len() / 2 {
            parent.share.ended = 0;
            let mut heap = core::mem::take(&mut parent.share.heap);
            heap.retain(|claim| self.objects.get(claim.job).is_ok());
            if let Ok(parent) = self.objects.get_mut(above) {
                parent.share.heap = heap;
            }
        }
    }

    /// Step 5: threads of a job's own processes that are ready to run.
    fn turn_look(&self, id: Id<Job>, looks: &mut usize) -> Ready {
        let mut ready = Ready::default();
        let Ok(job) = self.objects.get(id) else { return ready };
        let first = job.share.first.filter(|&first| self.turn_is_of(first, id));
        let mut process = first.and_then(|first| Some(self.objects.get(first).ok()?.process));
        let mut thread = first.map(Id::object);
        // Whether the end of the list has been come to, or nothing is before the beginning.
        let mut around = first.is_none();
        while *looks > 0 {
            *looks -= 1;
            let Some(next) = process.and_then(|process| self.turn_thread_after(process, thread)) else {
                process = self.turn_process_after(job.processes, process);
                thread = None;
                if process.is_none() && core::mem::replace(&mut around, true) {
                    return ready;
                }
                continue;
            };
            thread = Some(next);
            let next = Id::new(next);
            ready.last = Some(next);
            if let Some(thread) = self.objects.get::<Thread>(next).ok().filter(|thread| thread.is_ready()) {
                // Numbers go round.
                let woken = thread.noted.wrapping_sub(job.share.turn) as i32 >= 0;
                if !ready.add(next, woken) {
                    // As if there had been no more looks.
                    *looks = 0;
                }
            }
            if around && Some(next) == first {
                return ready;
            }
        }
        ready
    }

    /// Whether a thread is one that can be looked for in a job.
    fn turn_is_of(&self, thread: Id<Thread>, job: Id<Job>) -> bool {
        let process = self.objects.get(thread).ok().filter(|thread| thread.siblings.is_linked());
        let process = process.and_then(|thread| self.objects.get(thread.process).ok());
        process.is_some_and(|process| process.job == job && process.siblings.is_linked())
    }

    fn turn_thread_after(&self, process: Id<Process>, thread: Option<ObjectId>) -> Option<ObjectId> {
        self.objects.after(self.objects.get(process).ok()?.threads, thread)
    }

    fn turn_process_after(&self, list: List<Processes>, process: Option<Id<Process>>) -> Option<Id<Process>> {
        self.objects.after(list, process.map(Id::object)).map(Id::new)
    }

    fn turn_prefer(&mut self, thread: Id<Thread>) {
        let machine = self.objects.get(thread).ok().and_then(|thread| thread.machine);
        let place = self.turns.preferred.len() < PREFERRED && self.turns.preferred.try_reserve(1).is_ok();
        if let Some(machine) = machine.filter(|_| place) {
            self.turns.preferred.push(thread);
            self.machine.thread_prefer(machine, true);
        }
    }
}

#[cfg(test)]
mod tests;
