//! Fair scheduling: jobs share the processor in turns.
//!
//! The machine runs threads of one priority round-robin, regardless of their jobs, so a job with a hundred busy threads
//! would leave other jobs a hundredth. Therefore jobs *contend*: while threads of several jobs are ready, the jobs take
//! turns, and during its turn a job's threads are *preferred*, which puts them before all others of their own priority,
//! but not before higher ones. If the holder of a turn is idle, the others run as usual. A job's turn includes the
//! kernel's work for it, since only running threads make calls.
//!
//! Shares follow the job tree: everything below a job has one share among its sibling jobs, and the processes directly
//! in a job together have one share among its child jobs. So a job gains nothing by creating more jobs. Each job has a
//! heap of its contending sharers, ordered by the time they have had (a [`Claim`] each).
//!
//! 1. A thread that becomes ready is noted, once per turn ([`Kernel::turn_note_ready`]); its job contends from then on
//!    ([`Kernel::turn_contend`]). Turns begin with the second contending job.
//! 2. A turn ends after [`TURN`]. Every [`MIN_TURN`] interval the scheduler checks whether it ends sooner: because a
//!    thread of another job was noted meanwhile, or no preferred thread is ready any more ([`Kernel::turn_check`]).
//! 3. The actual length of the turn is charged to its holder and all jobs above; its threads are no longer preferred.
//! 4. The next turn goes to the job with the least used share, searched from the top of the tree: the job that has had
//!    the least time of those below the root, of those below that one, and so on. If none of its threads is ready, it
//!    stops contending, and the search is repeated. With one contending job left, turns end.
//! 5. The job's ready threads, and those noted during the turn, are preferred: at most [`PREFERRED`]. Threads noted
//!    since the job's last turn began come first, as a waking thread comes before a computing one without turns. The
//!    search for others starts after the one that came first in the last turn, so each gets its time, however many
//!    there are.
//!
//! A job that did not contend gets no credit for that time: it counts as having had at least as much as the sibling
//! that was chosen last.
//!
//! All of it is bounded: per turn, [`LOOKS`] threads and processes are looked at. If there are more, the job looked at
//! last holds the turn with the threads found so far, and the search continues from there in its next turn.

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

/// Length of a turn, in nanoseconds.
const TURN: i64 = 4_000_000;
/// Minimum length of a turn, and interval of the checks, in nanoseconds.
const MIN_TURN: i64 = 500_000;
/// Maximum number of threads and processes checked for readiness per turn.
const LOOKS: usize = 4096;
/// Maximum number of preferred threads.
const PREFERRED: usize = 32;
/// Number of claims of ended jobs that may stay in a heap before it is cleaned.
const ENDED: usize = 32;

/// Time that a job has had, in nanoseconds of turns.
#[derive(Default)]
pub(crate) struct Share {
    /// The job and everything below it.
    all: i64,
    /// The processes directly in it.
    own: i64,
    /// The time of the sharer that was chosen last.
    last: i64,
    /// It has a claim in its parent's heap, or the turn's holder is below it.
    claims: bool,
    /// The processes directly in it contend: they have a claim in its heap, or it holds the turn.
    contends: bool,
    /// Contending sharers, except the one that leads to the turn's holder.
    heap: BinaryHeap<Claim>,
    /// Approximate number of those that have ended.
    ended: usize,
    /// The thread that came first at its last turn among those that had not woken; or the thread that was looked at
    /// last.
    first: Option<Id<Thread>>,
    /// The number of its last turn.
    turn: u32,
}

/// A contending sharer of a job: a child job, or the job itself for the processes directly in it.
struct Claim {
    had: i64,
    /// Sequence number: equal times come in the order of insertion.
    order: u64,
    job: Id<Job>,
}

impl Ord for Claim {
    /// The claim with the least time is the greatest.
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
pub(crate) struct FairScheduler {
    /// The number of the current turn. Threads store the turn in which they were noted.
    pub number: u32,
    /// Number of jobs whose own processes contend.
    contending: usize,
    /// Number of claims made so far.
    order: u64,
    /// The holder's job and its ancestors, from the root down; the capacity is the maximum height.
    path: Vec<Id<Job>>,
    holder: Option<Id<Job>>,
    preferred: Vec<Id<Thread>>,
    since: i64,
    /// A thread of a job other than the holder was noted.
    others: bool,
    /// When the turn ends or is checked, if there are turns.
    due: i64,
}

#[cfg(any(test, feature = "fake"))]
impl FairScheduler {
    /// The threads preferred in the current turn.
    pub fn preferred(&self) -> &[Id<Thread>] {
        &self.preferred
    }
}

impl Default for FairScheduler {
    fn default() -> Self {
        FairScheduler {
            number: 1,
            contending: 0,
            order: 0,
            path: Vec::with_capacity(MAX_HEIGHT as usize + 1),
            holder: None,
            preferred: Vec::new(),
            since: 0,
            others: false,
            due: i64::MAX,
        }
    }
}

/// A job's ready threads, as far as they were searched.
#[derive(Default)]
struct Ready {
    /// Those noted since its last turn began.
    woken: Vec<Id<Thread>>,
    others: Vec<Id<Thread>>,
    /// The thread that was looked at last.
    last: Option<Id<Thread>>,
}

impl Ready {
    fn is_empty(&self) -> bool {
        self.woken.is_empty() && self.others.is_empty()
    }

    /// Adds a thread, if there is room; says whether there was memory.
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
    /// Step 1 for a thread that has become ready; `noted` is the turn in which it was last noted.
    #[inline(always)]
    pub(crate) fn turn_thread_ready(&mut self, id: Id<Thread>, noted: u32) {
        if noted != self.scheduler.number {
            self.turn_note_ready(id);
        }
    }

    #[inline(never)]
    fn turn_note_ready(&mut self, id: Id<Thread>) {
        let Ok(thread) = self.objects.get_mut(id) else { return };
        thread.noted = self.scheduler.number;
        let process = thread.process;
        if thread.vproc.is_some() {
            self.vproc_owner_ready(id);
        }
        let Ok(job) = self.objects.get(process).map(|process| process.job) else { return };
        if self.scheduler.holder == Some(job) {
            self.turn_prefer_thread(id);
            return;
        }
        self.scheduler.others = true;
        if self.objects.get(job).is_ok_and(|job| !job.share.contends) {
            self.turn_contend(job);
            if self.scheduler.contending > 1 && self.scheduler.due == i64::MAX {
                let now = self.machine.now();
                self.turn_start(now, None);
            }
        }
    }

    /// Step 1: a job's own processes and the jobs above it contend from now on. Without memory nothing changes.
    fn turn_contend(&mut self, job: Id<Job>) {
        let mut next = Some(job);
        while let Some(id) = next {
            let Ok(job) = self.objects.get_mut(id) else { return };
            // One for this claim, and one for the holder's.
            if job.share.heap.try_reserve(2).is_err() {
                return;
            }
            next = if job.share.claims { None } else { job.parent };
        }
        self.scheduler.contending += 1;
        let Ok(own) = self.objects.get_mut(job) else { return };
        own.share.contends = true;
        own.share.own = own.share.own.max(own.share.last);
        self.turn_insert_own_claim(job);
        let mut at = job;
        while let Some((false, Some(above))) = self.objects.get(at).ok().map(|job| (job.share.claims, job.parent)) {
            let last = self.objects.get(above).map_or(0, |above| above.share.last);
            if let Ok(job) = self.objects.get_mut(at) {
                job.share.all = job.share.all.max(last);
            }
            self.turn_insert_claim(at, above);
            at = above;
        }
    }

    /// Inserts a job's claim for its own processes into its heap, which has room.
    fn turn_insert_own_claim(&mut self, id: Id<Job>) {
        self.scheduler.order += 1;
        if let Ok(job) = self.objects.get_mut(id) {
            job.share.heap.push(Claim { had: job.share.own, order: self.scheduler.order, job: id });
        }
    }

    /// Inserts a job's claim into its parent's heap, which has room.
    fn turn_insert_claim(&mut self, id: Id<Job>, above: Id<Job>) {
        self.scheduler.order += 1;
        let Ok(job) = self.objects.get_mut(id) else { return };
        job.share.claims = true;
        let claim = Claim { had: job.share.all, order: self.scheduler.order, job: id };
        if let Ok(above) = self.objects.get_mut(above) {
            above.share.heap.push(claim);
        }
    }

    /// Starts a turn: requests a timer event for its check.
    fn turn_start(&mut self, now: i64, holder: Option<Id<Job>>) {
        self.scheduler.holder = holder;
        self.scheduler.since = now;
        self.scheduler.others = false;
        self.turn_schedule_check(now);
    }

    fn turn_schedule_check(&mut self, now: i64) {
        self.scheduler.due = now.saturating_add(MIN_TURN);
        self.machine.set_deadline(self.scheduler.due);
    }

    /// Step 2, if it is due. Returns when it is due again.
    pub(crate) fn turn_check(&mut self, now: i64) -> Option<i64> {
        if now >= self.scheduler.due {
            let is_ready = |&thread: &Id<Thread>| self.objects.get(thread).is_ok_and(Thread::is_ready);
            let too_long = now.saturating_sub(self.scheduler.since) >= TURN;
            if too_long || self.scheduler.others || !self.scheduler.preferred.iter().any(is_ready) {
                self.turn_switch(now);
            } else {
                self.turn_schedule_check(now);
            }
        }
        (self.scheduler.due != i64::MAX).then_some(self.scheduler.due)
    }

    /// Steps 3 to 5.
    fn turn_switch(&mut self, now: i64) {
        while let Some(thread) = self.scheduler.preferred.pop() {
            if let Some(machine) = self.objects.get(thread).ok().and_then(|thread| thread.machine) {
                self.machine.thread_prefer(machine, false);
            }
        }
        if self.scheduler.holder.take().is_some() {
            self.turn_return_claims(now.saturating_sub(self.scheduler.since).max(0));
        }
        self.scheduler.number = self.scheduler.number.wrapping_add(1);
        self.scheduler.due = i64::MAX;
        let Some((job, ready)) = self.turn_pick_next() else { return };
        if self.scheduler.contending < 2 {
            self.turn_return_claims(0);
            return;
        }
        self.turn_start(now, Some(job));
        if let Ok(job) = self.objects.get_mut(job) {
            job.share.first = ready.others.first().copied().or(ready.last);
            job.share.turn = self.scheduler.number;
        }
        // The thread preferred last runs first.
        let others = PREFERRED - ready.woken.len();
        let others = ready.others.into_iter().take(others).rev();
        others.chain(ready.woken.into_iter().rev()).for_each(|thread| self.turn_prefer_thread(thread));
    }

    /// Step 4: finds the next holder, takes its claim and those of the jobs above out of the heaps, and returns it with
    /// its threads.
    fn turn_pick_next(&mut self) -> Option<(Id<Job>, Ready)> {
        let mut looks = LOOKS;
        loop {
            let job = self.turn_pick_job()?;
            let ready = self.turn_find_ready(job, &mut looks);
            if !ready.is_empty() || looks == 0 {
                return Some((job, ready));
            }
            if let Ok(job) = self.objects.get_mut(job) {
                job.share.contends = false;
                self.scheduler.contending = self.scheduler.contending.saturating_sub(1);
            }
            self.turn_return_claims(0);
        }
    }

    /// Step 4: takes out the claims on the path from the root to the job with the least used share.
    fn turn_pick_job(&mut self) -> Option<Id<Job>> {
        let mut at = self.root_job?;
        self.scheduler.path.clear();
        self.scheduler.path.push(at);
        loop {
            let share = &mut self.objects.get_mut(at).ok()?.share;
            let Some(claim) = share.heap.pop() else {
                // All contending jobs below it have ended.
                share.claims = false;
                self.scheduler.path.pop();
                at = *self.scheduler.path.last()?;
                continue;
            };
            share.last = share.last.max(claim.had);
            if claim.job == at {
                return Some(at);
            }
            if self.objects.get(claim.job).is_ok() {
                at = claim.job;
                self.scheduler.path.push(at);
            } else if let Ok(job) = self.objects.get_mut(at) {
                job.share.ended = job.share.ended.saturating_sub(1);
            }
        }
    }

    /// Steps 3 and 4: puts the claims on the path back, with the additional time, for sharers that still contend.
    fn turn_return_claims(&mut self, time: i64) {
        let holder = self.scheduler.path.last().copied();
        if let Some(holder) = holder
            && let Ok(job) = self.objects.get_mut(holder)
        {
            job.share.own = job.share.own.saturating_add(time);
            if job.share.contends {
                self.turn_insert_own_claim(holder);
            }
        }
        while let (Some(id), Some(&above)) = (self.scheduler.path.pop(), self.scheduler.path.last()) {
            let Ok(job) = self.objects.get_mut(id) else { continue };
            job.share.all = job.share.all.saturating_add(time);
            job.share.claims = false;
            if !job.share.heap.is_empty() {
                self.turn_insert_claim(id, above);
            }
        }
    }

    /// A job has ended, and its claim with it.
    pub(crate) fn turn_job_ended(&mut self, job: &Job) {
        if job.share.contends {
            self.scheduler.contending = self.scheduler.contending.saturating_sub(1);
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

    /// Step 5: ready threads of the processes directly in a job.
    fn turn_find_ready(&self, id: Id<Job>, looks: &mut usize) -> Ready {
        let mut ready = Ready::default();
        let Ok(job) = self.objects.get(id) else { return ready };
        let first = job.share.first.filter(|&first| self.turn_thread_is_in(first, id));
        let mut process = first.and_then(|first| Some(self.objects.get(first).ok()?.process));
        let mut thread = first.map(Id::object);
        // Whether the search has wrapped around, or starts at the beginning.
        let mut around = first.is_none();
        while *looks > 0 {
            *looks -= 1;
            let Some(next) = process.and_then(|process| self.turn_next_thread(process, thread)) else {
                process = self.turn_next_process(job.processes, process);
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
                // Turn numbers wrap around.
                let woken = thread.noted.wrapping_sub(job.share.turn) as i32 >= 0;
                if !ready.add(next, woken) {
                    // Acts as if the limit of the search were reached.
                    *looks = 0;
                }
            }
            if around && Some(next) == first {
                return ready;
            }
        }
        ready
    }

    /// Whether a thread is live and its process is directly in a job.
    fn turn_thread_is_in(&self, thread: Id<Thread>, job: Id<Job>) -> bool {
        let process = self.objects.get(thread).ok().filter(|thread| thread.siblings.is_linked());
        let process = process.and_then(|thread| self.objects.get(thread.process).ok());
        process.is_some_and(|process| process.job == job && process.siblings.is_linked())
    }

    fn turn_next_thread(&self, process: Id<Process>, thread: Option<ObjectId>) -> Option<ObjectId> {
        self.objects.after(self.objects.get(process).ok()?.threads, thread)
    }

    fn turn_next_process(&self, list: List<Processes>, process: Option<Id<Process>>) -> Option<Id<Process>> {
        self.objects.after(list, process.map(Id::object)).map(Id::new)
    }

    fn turn_prefer_thread(&mut self, thread: Id<Thread>) {
        let machine = self.objects.get(thread).ok().and_then(|thread| thread.machine);
        let place = self.scheduler.preferred.len() < PREFERRED && self.scheduler.preferred.try_reserve(1).is_ok();
        if let Some(machine) = machine.filter(|_| place) {
            self.scheduler.preferred.push(thread);
            self.machine.thread_prefer(machine, true);
        }
    }
}

#[cfg(test)]
mod tests;
