//! Jobs: a tree whose leaves are processes.

use alloc::boxed::Box;
use alloc::vec::Vec;

use abi::{Signals, Status, ZX_TASK_RETCODE_CRITICAL_PROCESS_KILL, zx_policy_basic_v2_t};

use crate::containers::list::{Link, List};
use crate::containers::name::Name;
use crate::containers::slab::Key;
use crate::core::account::CountKind;
use crate::core::noun::{Noun, ObjectOps, chain};
use crate::core::object::{Id, ObjectId};
use crate::kernel::Kernel;
use crate::machine::Machine;
use crate::task::exception::ExceptionChannel;
use crate::task::fair_scheduling::Share;
use crate::task::policy::Policy;
use crate::task::process::Process;
use crate::task::process::Processes;

/// Maximum height of the tree below the root job.
pub(crate) const MAX_HEIGHT: u32 = 32;

/// A job.
pub struct Job {
    /// Its name.
    pub name: Name,
    /// Its parent; the root job has none.
    pub parent: Option<Id<Job>>,
    /// Maximum height of the tree below it.
    height: u32,
    pub(crate) share: Share,
    /// Policy for processes below it.
    pub policy: Policy,
    /// Child jobs, oldest first.
    pub jobs: List<SubJobs>,
    /// Live child processes, oldest first.
    pub processes: List<Processes>,
    /// Its link among its parent's child jobs.
    pub(crate) siblings: Link,
    /// `ZX_PROP_JOB_KILL_ON_OOM`.
    pub kill_on_oom: bool,
    /// The account for everything below it.
    pub(crate) account: Key,
    /// It was killed.
    pub dead: bool,
    /// It was killed, and everything in it is destroyed.
    over: bool,
    /// Its return code.
    pub return_code: i64,
    /// Total run time of ended threads below it, in nanoseconds.
    pub(crate) runtime_ended: i64,
    pub(crate) exceptions: Option<ExceptionChannel>,
    /// Channels of job debuggers by age, at most `ZX_EXCEPTION_CHANNEL_JOB_DEBUGGER_MAX_COUNT`.
    pub(crate) debuggers: Vec<ExceptionChannel>,
}

impl Noun for Job {
    const TYPE: u32 = abi::ZX_OBJ_TYPE_JOB;
    const BYTES: u64 = size_of::<Job>() as u64;
    const IS_TASK: bool = true;

    fn paying_account<M: Machine>(kernel: &Kernel<M>, id: Id<Self>, _: Key) -> Result<Key, Status> {
        let parent = kernel.objects.get(id)?.parent.ok_or(Status::BAD_STATE)?;
        Ok(kernel.objects.get(parent)?.account)
    }

    fn name(&self) -> Option<Name> {
        Some(self.name)
    }

    fn parent(&self) -> Option<ObjectId> {
        self.parent.map(Id::object)
    }

    fn is_child(&self) -> bool {
        self.siblings.is_linked()
    }
}

impl ObjectOps for Job {
    fn rename<M: Machine>(kernel: &mut Kernel<M>, id: Id<Self>, name: Name) -> Result<(), Status> {
        kernel.objects.get_mut(id)?.name = name;
        Ok(())
    }

    #[inline(always)]
    fn last_handle_closed<M: Machine>(kernel: &mut Kernel<M>, id: Id<Self>) {
        kernel.job_prune(id);
    }

    #[inline(always)]
    fn leave_lists<M: Machine>(kernel: &mut Kernel<M>, id: Id<Self>) {
        kernel.job_leave_parent(id);
    }

    #[inline(always)]
    fn destroyed<M: Machine>(self: Box<Self>, kernel: &mut Kernel<M>, _: Id<Self>) {
        kernel.job_end(*self);
    }
}

/// The job to which a process is critical.
#[derive(Clone, Copy, Debug)]
pub struct Critical {
    job: Id<Job>,
    /// Only if the process's return code is not 0.
    nonzero: bool,
}

chain! {
    /// Jobs of a job.
    SubJobs = Job.siblings
}

impl Critical {
    /// The job that ends with a process with this return code.
    pub(crate) fn job_for(self, return_code: i64) -> Option<Id<Job>> {
        (!self.nonzero || return_code != 0).then_some(self.job)
    }
}

impl<M: Machine> Kernel<M> {
    pub(crate) fn make_root_job(&mut self) -> Result<(), Status> {
        let job = self.job_new(Name::new(b"root"), None, MAX_HEIGHT, Policy::default())?;
        self.add_ref(job.object());
        self.root_job = Some(job);
        Ok(())
    }

    fn job_new(&mut self, name: Name, parent: Option<Id<Job>>, height: u32, policy: Policy) -> Result<Id<Job>, Status> {
        let above = parent.map(|parent| self.objects.get(parent).map(|job| job.account)).transpose()?;
        let account = self.account_new(parent)?;
        if let Some(above) = above {
            self.accounts.count(above, CountKind::Jobs, 1).inspect_err(|_| self.account_leave(account))?;
        }
        let job = Job {
            name,
            parent,
            height,
            share: Share::default(),
            policy,
            jobs: List::default(),
            processes: List::default(),
            siblings: Link::default(),
            kill_on_oom: false,
            account,
            dead: false,
            over: false,
            return_code: 0,
            runtime_ended: 0,
            exceptions: None,
            debuggers: Vec::new(),
        };
        let empty = Signals::JOB_NO_JOBS | Signals::JOB_NO_PROCESSES | Signals::JOB_NO_CHILDREN;
        self.create(empty, Box::new(job)).inspect_err(|_| {
            self.account_leave(account);
            above.into_iter().for_each(|above| self.accounts.uncount(above, CountKind::Jobs, 1));
        })
    }

    /// `job_create`.
    ///
    /// # Errors
    /// `OUT_OF_RANGE`: the tree would be too high. `BAD_STATE`: the parent is dead. `NO_RESOURCES`: a job's quota is
    /// used up. `NO_MEMORY`.
    pub fn job_create(&mut self, parent: Id<Job>) -> Result<Id<Job>, Status> {
        let p = self.objects.get_mut(parent)?;
        let height = p.height.checked_sub(1).ok_or(Status::OUT_OF_RANGE)?;
        if p.dead {
            return Err(Status::BAD_STATE);
        }
        let policy = p.policy;
        let job = self.job_new(Name::default(), Some(parent), height, policy)?;
        self.objects.enlist(parent, |p| &mut p.jobs, job.object());
        self.add_ref(parent.object());
        self.job_update_signals(parent);
        Ok(job)
    }

    /// A job whose policy may change, because no child has inherited it yet.
    fn job_without_children(&mut self, job: Id<Job>) -> Result<&mut Job, Status> {
        let j = self.objects.get_mut(job)?;
        if j.jobs.is_empty() && j.processes.is_empty() { Ok(j) } else { Err(Status::BAD_STATE) }
    }

    /// `job_set_policy` for the actions of its processes.
    ///
    /// # Errors
    /// `BAD_STATE`: it has children. Those of [`Policy::with`]; the policy then stays unchanged.
    pub fn job_set_policy(
        &mut self,
        job: Id<Job>,
        options: u32,
        entries: &[zx_policy_basic_v2_t],
    ) -> Result<(), Status> {
        let j = self.job_without_children(job)?;
        j.policy = j.policy.with(options, entries)?;
        Ok(())
    }

    /// `job_set_policy` for the timer slack of its processes.
    ///
    /// # Errors
    /// `BAD_STATE`: it has children. Those of [`Policy::with_slack`].
    pub fn job_set_timer_slack(&mut self, job: Id<Job>, min_slack: i64, mode: u32) -> Result<(), Status> {
        let policy = self.objects.get(job)?.policy.with_slack(min_slack, mode)?;
        self.job_without_children(job)?.policy = policy;
        Ok(())
    }

    /// Sets `ZX_PROP_JOB_KILL_ON_OOM`.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn job_set_kill_on_oom(&mut self, job: Id<Job>, kill: bool) -> Result<(), Status> {
        self.objects.get_mut(job)?.kill_on_oom = kill;
        Ok(())
    }

    /// `job_set_critical`: the job ends with the process; with `nonzero` only if its return code is not 0.
    ///
    /// # Errors
    /// `ALREADY_BOUND`: the process is critical to a job already. `INVALID_ARGS`: it is not below this one.
    pub fn job_set_critical(&mut self, job: Id<Job>, process: Id<Process>, nonzero: bool) -> Result<(), Status> {
        let p = self.objects.get(process)?;
        if p.critical.is_some() {
            return Err(Status::ALREADY_BOUND);
        }
        if !self.job_is_within(p.job, job) {
            return Err(Status::INVALID_ARGS);
        }
        self.objects.get_mut(process)?.critical = Some(Critical { job, nonzero });
        Ok(())
    }

    /// Whether `job` is `top` or below it.
    fn job_is_within(&self, job: Id<Job>, top: Id<Job>) -> bool {
        let parent = |&job: &Id<Job>| self.objects.get(job).ok().and_then(|j| j.parent);
        core::iter::successors(Some(job), parent).any(|job| job == top)
    }

    pub(crate) fn job_add_process(&mut self, job: Id<Job>, process: Id<Process>) {
        self.objects.enlist(job, |j| &mut j.processes, process.object());
        self.job_update_signals(job);
    }

    pub(crate) fn job_remove_process(&mut self, job: Id<Job>, process: Id<Process>) {
        self.objects.delist(job, |j| &mut j.processes, process.object());
        self.job_update_signals(job);
        self.job_over(job);
        self.job_prune(job);
    }

    fn job_update_signals(&mut self, job: Id<Job>) {
        let Ok(j) = self.objects.get(job) else { return };
        let all = Signals::JOB_NO_JOBS | Signals::JOB_NO_PROCESSES | Signals::JOB_NO_CHILDREN;
        let mut set = Signals::NONE;
        set.set(Signals::JOB_NO_JOBS, j.jobs.is_empty());
        set.set(Signals::JOB_NO_PROCESSES, j.processes.is_empty());
        set.set(Signals::JOB_NO_CHILDREN, j.jobs.is_empty() && j.processes.is_empty());
        self.signal(job.object(), all & !set, set);
    }

    /// Kills a job and everything in it, with the same return code. No effect on a dead one.
    ///
    /// Its threads run no more. At the end of the call the reaper ([`crate::kernel::reaper`]) destroys what the
    /// processes had; when the last of them is destroyed, the job signals its termination. A process killed on the way
    /// may be critical to a job further up; then that whole job is killed.
    pub fn job_kill(&mut self, job: Id<Job>, return_code: i64) {
        if !self.job_mark(job, return_code) {
            return;
        }
        let (mut top, mut at) = (job, job);
        loop {
            let above = self.job_stop_processes(at, top);
            // Next job: the first child, or the next sibling, or that of an ancestor. It is determined before anything
            // is destroyed.
            let mut next = self.objects.get(at).ok().and_then(|j| self.objects.after(j.jobs, None));
            let mut up = at;
            while next.is_none() && up != top {
                let Some(parent) = self.objects.get(up).ok().and_then(|j| j.parent) else { break };
                let jobs = self.objects.get(parent).map(|j| j.jobs).unwrap_or_default();
                next = self.objects.after(jobs, Some(up.object()));
                up = parent;
            }
            self.job_over(at);
            match (above, next) {
                (Some(above), _) => (top, at) = (above, above),
                (None, Some(next)) => {
                    at = Id::new(next);
                    let code = self.objects.get(at).ok().and_then(|j| self.objects.get(j.parent?).ok());
                    let code = code.map_or(0, |parent| parent.return_code);
                    self.job_mark(at, code);
                }
                (None, None) => return,
            }
        }
    }

    /// Ends the processes of a killed job. Returns a job above `top` to which one of them is critical.
    fn job_stop_processes(&mut self, id: Id<Job>, top: Id<Job>) -> Option<Id<Job>> {
        let Job { processes, return_code, .. } = *self.objects.get(id).ok()?;
        let (mut process, mut highest) = (None, top);
        while let Some(next) = self.objects.after(processes, process) {
            if let Some(job) = self.process_stop(Id::new(next), return_code)
                && self.job_mark(job, ZX_TASK_RETCODE_CRITICAL_PROCESS_KILL)
                && self.job_is_within(highest, job)
            {
                highest = job;
            }
            process = Some(next);
        }
        Some(highest).filter(|&highest| highest != top)
    }

    /// If a killed job is empty, signals its termination; does the same for the jobs above.
    fn job_over(&mut self, id: Id<Job>) {
        let mut next = Some(id);
        while let Some(id) = next {
            let Ok(j) = self.objects.get_mut(id) else { return };
            if !j.dead || j.over || !j.jobs.is_empty() || !j.processes.is_empty() {
                return;
            }
            j.over = true;
            self.job_close_exceptions(id);
            self.signal(id.object(), Signals::NONE, Signals::JOB_TERMINATED);
            next = self.job_leave_parent(id);
        }
    }

    /// Total run time of all threads below a job, including ended ones, in nanoseconds.
    ///
    /// # Errors
    /// `NOT_SUPPORTED`: the machine does not know.
    pub fn job_runtime(&mut self, top: Id<Job>) -> Result<i64, Status> {
        let mut sum = self.objects.get(top)?.runtime_ended;
        let mut at = top;
        loop {
            let Job { processes, jobs, .. } = *self.objects.get(at)?;
            let mut process = None;
            while let Some(next) = self.objects.after(processes, process) {
                // The job's total includes the process's ended threads already.
                let (all, ended) = (self.process_runtime(Id::new(next))?, self.objects.get::<Process>(Id::new(next))?);
                sum = sum.saturating_add(all.saturating_sub(ended.runtime_ended));
                process = Some(next);
            }
            // Next job: the first child, or the next sibling, or that of an ancestor.
            let mut next = self.objects.after(jobs, None);
            while next.is_none() && at != top {
                let Some(parent) = self.objects.get(at)?.parent else { break };
                next = self.objects.after(self.objects.get(parent)?.jobs, Some(at.object()));
                at = parent;
            }
            match next {
                Some(job) => at = Id::new(job),
                None => return Ok(sum),
            }
        }
    }

    /// Marks a job as dead; says whether it was not before.
    fn job_mark(&mut self, job: Id<Job>, return_code: i64) -> bool {
        let Ok(j) = self.objects.get_mut(job) else { return false };
        if j.dead {
            return false;
        }
        j.dead = true;
        j.return_code = return_code;
        true
    }

    /// Removes a job from its parent's list; returns the parent.
    fn job_leave_parent(&mut self, id: Id<Job>) -> Option<Id<Job>> {
        let parent = self.objects.get(id).ok()?.parent?;
        self.objects.delist(parent, |p| &mut p.jobs, id.object());
        self.job_update_signals(parent);
        Some(parent)
    }

    /// Removes a job that has neither handles nor children from the tree, because it can get none any more; does the
    /// same for the jobs above.
    pub(crate) fn job_prune(&mut self, id: Id<Job>) {
        let mut next = Some(id);
        while let Some(id) = next {
            let unreachable = self.objects.any(id.object()).is_ok_and(|o| o.handles == 0);
            let empty = self.objects.get(id).is_ok_and(|j| j.jobs.is_empty() && j.processes.is_empty());
            next = if unreachable && empty { self.job_leave_parent(id) } else { None };
            next.into_iter().for_each(|parent| self.job_over(parent));
        }
    }

    fn job_close_exceptions(&mut self, id: Id<Job>) {
        let Ok(j) = self.objects.get_mut(id) else { return };
        let (exceptions, debuggers) = (j.exceptions.take(), core::mem::take(&mut j.debuggers));
        exceptions.into_iter().chain(debuggers).for_each(|channel| self.exception_channel_close(channel));
    }

    /// The newest live job that allows being killed when memory runs out (`ZX_PROP_JOB_KILL_ON_OOM`).
    #[inline]
    pub(crate) fn job_out_of_memory(&self) -> Option<Id<Job>> {
        let ends = |&job: &Id<Job>| self.objects.get(job).is_ok_and(|job| job.kill_on_oom && !job.dead);
        self.objects.newest_tasks().filter_map(|task| self.objects.typed::<Job>(task).ok()).find(ends)
    }

    pub(crate) fn job_end(&mut self, job: Job) {
        self.turn_job_ended(&job);
        self.account_leave(job.account);
        job.exceptions.into_iter().chain(job.debuggers).for_each(|channel| self.exception_channel_close(channel));
        if let Some(parent) = job.parent {
            if let Ok(above) = self.objects.get(parent).map(|parent| parent.account) {
                self.accounts.uncount(above, CountKind::Jobs, 1);
            }
            self.drop_ref(parent.object());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::handle::Handle;
    use crate::core::object::ObjectId;
    use crate::fake::FakeMachine;
    use abi::{Rights, ZX_TASK_RETCODE_SYSCALL_KILL};
    use proptest::prelude::*;

    const CRITICAL: i64 = ZX_TASK_RETCODE_CRITICAL_PROCESS_KILL;
    const KILLED: i64 = ZX_TASK_RETCODE_SYSCALL_KILL;

    /// A tree of jobs and processes, with a handle to each.
    struct Tree {
        kernel: Kernel<FakeMachine>,
        jobs: Vec<Id<Job>>,
        processes: Vec<Id<Process>>,
        held: Vec<Handle>,
    }

    impl Tree {
        /// The root job is job 0.
        fn new() -> Tree {
            let kernel = Kernel::new(FakeMachine::new(10)).unwrap();
            let root = kernel.root_job().unwrap();
            Tree { kernel, jobs: Vec::from([root]), processes: Vec::new(), held: Vec::new() }
        }

        fn hold(&mut self, object: ObjectId) {
            let handle = self.kernel.dup_handle(Handle { object, rights: Rights::NONE });
            self.held.push(handle);
        }

        fn job(&mut self, parent: usize) -> usize {
            let job = self.kernel.job_create(self.jobs[parent]).unwrap();
            self.hold(job.object());
            self.jobs.push(job);
            self.jobs.len() - 1
        }

        fn process(&mut self, job: usize) -> usize {
            let (process, _) = self.kernel.process_create(self.jobs[job], Name::default()).unwrap();
            self.hold(process.object());
            self.processes.push(process);
            self.processes.len() - 1
        }

        fn jobs_below(&self, job: usize) -> Vec<Id<Job>> {
            let list = self.kernel.objects.get(self.jobs[job]).unwrap().jobs;
            self.kernel.objects.listed(list).map(Id::new).collect()
        }

        fn job_code(&self, job: usize) -> Option<i64> {
            let job = self.kernel.objects.get(self.jobs[job]).unwrap();
            job.dead.then_some(job.return_code)
        }

        fn process_code(&self, process: usize) -> Option<i64> {
            let process = self.kernel.objects.get(self.processes[process]).unwrap();
            (process.state == crate::task::process::ProcessState::Dead).then_some(process.return_code)
        }

        fn set_critical(&mut self, job: usize, process: usize, nonzero: bool) -> Result<(), Status> {
            self.kernel.job_set_critical(self.jobs[job], self.processes[process], nonzero)
        }

        fn kill_process(&mut self, process: usize, code: i64) {
            self.kernel.process_kill(self.processes[process], code);
            self.kernel.reap();
        }

        fn kill_job(&mut self, job: usize) {
            self.kernel.job_kill(self.jobs[job], KILLED);
            self.kernel.reap();
        }

        /// Closes all handles and checks that only the root job is left.
        fn end(mut self) {
            for handle in core::mem::take(&mut self.held) {
                self.kernel.close(handle);
                self.kernel.reap();
            }
            assert_eq!(self.kernel.census(), (1, 0, 0));
        }
    }

    #[test]
    fn a_critical_process_takes_its_job_along() {
        let mut tree = Tree::new();
        let top = tree.job(0);
        let below = tree.job(top);
        let beside = tree.job(0);
        let (critical, in_top, in_beside) = (tree.process(below), tree.process(top), tree.process(beside));
        assert_eq!(tree.set_critical(beside, critical, false), Err(Status::INVALID_ARGS));
        assert_eq!(tree.set_critical(top, critical, false), Ok(()));
        assert_eq!(tree.set_critical(below, critical, false), Err(Status::ALREADY_BOUND));
        tree.kill_process(critical, 0);
        assert_eq!((tree.job_code(top), tree.job_code(below)), (Some(CRITICAL), Some(CRITICAL)));
        assert_eq!((tree.process_code(critical), tree.process_code(in_top)), (Some(0), Some(CRITICAL)));
        assert_eq!((tree.job_code(0), tree.job_code(beside), tree.process_code(in_beside)), (None, None, None));
        let signals = tree.kernel.signals(tree.jobs[top].object());
        assert!(signals.contains(Signals::JOB_TERMINATED | Signals::JOB_NO_CHILDREN));
        assert_eq!(tree.jobs_below(0), [tree.jobs[beside]]);
        tree.end();
    }

    #[test]
    fn a_chain_of_critical_processes_ends_at_its_top() {
        let mut tree = Tree::new();
        let mut job = tree.job(0);
        let first = job;
        for _ in 0..20 {
            let below = tree.job(job);
            let process = tree.process(below);
            tree.set_critical(job, process, true).unwrap();
            job = below;
        }
        let last = tree.processes.len() - 1;
        tree.kill_process(last, 0);
        assert_eq!(tree.job_code(job), None);
        tree.kill_process(last - 1, 1);
        assert_eq!((0..last).rev().find(|&p| tree.process_code(p).is_none()), None);
        assert_eq!(tree.job_code(first), Some(CRITICAL));
        tree.end();
    }

    #[test]
    fn an_empty_job_without_handles_leaves_the_tree() {
        let mut tree = Tree::new();
        let outer = tree.job(0);
        let inner = tree.job(outer);
        let process = tree.process(inner);
        let mut handles = core::mem::take(&mut tree.held).into_iter();
        let of_process = handles.next_back().unwrap();
        for handle in handles {
            tree.kernel.close(handle);
        }
        tree.kernel.reap();
        assert_eq!(tree.jobs_below(0), [tree.jobs[outer]]);
        // The process object stays, and with it the jobs, but they are not part of the tree any more.
        tree.kill_process(process, 0);
        assert!(tree.kernel.objects.get(tree.jobs[0]).unwrap().jobs.is_empty());
        assert!(tree.kernel.objects.get(tree.jobs[inner]).is_ok());
        tree.held.push(of_process);
        tree.end();
    }

    proptest! {
        /// Against a simple model: which jobs and processes are dead, and that exactly those that a kill reaches are.
        #[test]
        fn kills_reach_what_they_should(
            shape in proptest::collection::vec((any::<usize>(), 0..3usize), 1..20),
            critical in proptest::collection::vec((any::<usize>(), any::<usize>(), any::<bool>()), 0..20),
            kills in proptest::collection::vec((any::<bool>(), any::<usize>(), 0..2i64), 1..6),
        ) {
            let mut tree = Tree::new();
            let (mut parents, mut homes, mut ties) = (Vec::from([0]), Vec::new(), Vec::new());
            for (parent, processes) in shape {
                let parent = parent % parents.len();
                let job = tree.job(parent);
                parents.push(parent);
                for _ in 0..processes {
                    tree.process(job);
                    homes.push(job);
                    ties.push(None);
                }
            }
            let within = |mut job: usize, top: usize| loop {
                if job == top {
                    return true;
                }
                if job == 0 {
                    return false;
                }
                job = parents[job];
            };
            for (job, process, nonzero) in critical {
                if homes.is_empty() {
                    break;
                }
                let (job, process) = (1 + job % (parents.len() - 1), process % homes.len());
                let expected = match ties[process] {
                    Some(_) => Err(Status::ALREADY_BOUND),
                    None if within(homes[process], job) => Ok(()),
                    None => Err(Status::INVALID_ARGS),
                };
                prop_assert_eq!(tree.set_critical(job, process, nonzero), expected);
                if expected.is_ok() {
                    ties[process] = Some((job, nonzero));
                }
            }
            let mut dead_jobs = std::collections::BTreeSet::new();
            let mut codes = std::collections::BTreeMap::new();
            for (of_job, n, code) in kills {
                // The model: a list of jobs to kill, to which each kill adds.
                let mut todo = Vec::new();
                if of_job {
                    let job = 1 + n % (parents.len() - 1);
                    tree.kill_job(job);
                    todo.push((job, KILLED));
                } else if !homes.is_empty() {
                    let process = n % homes.len();
                    tree.kill_process(process, code);
                    if let std::collections::btree_map::Entry::Vacant(entry) = codes.entry(process) {
                        entry.insert(code);
                        todo.extend(ties[process].filter(|t| !t.1 || code != 0).map(|t| (t.0, CRITICAL)));
                    }
                }
                while let Some((job, code)) = todo.pop() {
                    dead_jobs.extend((0..parents.len()).filter(|&j| within(j, job)));
                    for process in (0..homes.len()).filter(|&p| within(homes[p], job)) {
                        if let std::collections::btree_map::Entry::Vacant(entry) = codes.entry(process) {
                            entry.insert(code);
                            todo.extend(ties[process].map(|t| (t.0, CRITICAL)));
                        }
                    }
                }
            }
            for job in 0..parents.len() {
                prop_assert_eq!(tree.job_code(job).is_some(), dead_jobs.contains(&job));
            }
            for process in 0..homes.len() {
                prop_assert_eq!(tree.process_code(process).is_some(), codes.contains_key(&process));
            }
            tree.end();
        }
    }
}
