//! Jobs: a tree of which processes are the leaves.

use alloc::boxed::Box;
use alloc::vec::Vec;

use abi::{Signals, Status, ZX_TASK_RETCODE_SYSCALL_KILL};

use crate::kernel::Kernel;
use crate::machine::Machine;
use crate::name::Name;
use crate::object::{Body, Id};
use crate::process::Process;

/// How deep the tree may be, below the root job.
const MAX_HEIGHT: u32 = 32;

/// A job.
pub struct Job {
    /// Its name.
    pub name: Name,
    /// Its parent; the root job has none.
    pub parent: Option<Id<Job>>,
    height: u32,
    /// Jobs in it, oldest first.
    pub jobs: Vec<Id<Job>>,
    /// Processes in it that have not ended, oldest first.
    pub processes: Vec<Id<Process>>,
    /// It was killed.
    pub dead: bool,
    /// What it was ended with.
    pub return_code: i64,
}

impl<M: Machine> Kernel<M> {
    pub(crate) fn make_root_job(&mut self) -> Result<(), Status> {
        let job = self.job_new(Name::new(b"root"), None, MAX_HEIGHT)?;
        self.add_ref(job.object());
        self.root_job = Some(job);
        Ok(())
    }

    fn job_new(&mut self, name: Name, parent: Option<Id<Job>>, height: u32) -> Result<Id<Job>, Status> {
        let job = Job { name, parent, height, jobs: Vec::new(), processes: Vec::new(), dead: false, return_code: 0 };
        let empty = Signals::JOB_NO_JOBS | Signals::JOB_NO_PROCESSES | Signals::JOB_NO_CHILDREN;
        self.create(empty, Body::Job(Box::new(job)))
    }

    /// `job_create`.
    ///
    /// # Errors
    /// `OUT_OF_RANGE`: the tree would be too deep. `BAD_STATE`: the parent is dead. `NO_MEMORY`.
    pub fn job_create(&mut self, parent: Id<Job>) -> Result<Id<Job>, Status> {
        let p = self.objects.get_mut(parent)?;
        if p.dead {
            return Err(Status::BAD_STATE);
        }
        let height = p.height.checked_sub(1).ok_or(Status::OUT_OF_RANGE)?;
        if height == 0 {
            return Err(Status::OUT_OF_RANGE);
        }
        p.jobs.try_reserve(1).map_err(|_| Status::NO_MEMORY)?;
        let job = self.job_new(Name::default(), Some(parent), height)?;
        self.objects.get_mut(parent)?.jobs.push(job);
        self.add_ref(parent.object());
        self.job_update_signals(parent);
        Ok(job)
    }

    pub(crate) fn job_add_process(&mut self, job: Id<Job>, process: Id<Process>) {
        if let Ok(j) = self.objects.get_mut(job) {
            j.processes.push(process);
        }
        self.job_update_signals(job);
    }

    pub(crate) fn job_remove_process(&mut self, job: Id<Job>, process: Id<Process>) {
        if let Ok(j) = self.objects.get_mut(job) {
            j.processes.retain(|&p| p != process);
        }
        self.job_update_signals(job);
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

    /// Ends a job with all that is in it.
    pub fn job_kill(&mut self, job: Id<Job>, return_code: i64) {
        // A list instead of recursion: the tree's depth is bounded, its width is not.
        let mut todo = Vec::new();
        let mut next = Some(job);
        while let Some(job) = next {
            let Ok(j) = self.objects.get_mut(job) else { break };
            if !j.dead {
                j.dead = true;
                j.return_code = return_code;
                if todo.try_reserve(j.jobs.len()).is_ok() {
                    todo.extend_from_slice(&j.jobs);
                }
                while let Some(&process) = self.objects.get(job).ok().and_then(|j| j.processes.last()) {
                    self.process_kill(process, ZX_TASK_RETCODE_SYSCALL_KILL);
                    self.job_remove_process(job, process);
                }
                self.signal(job.object(), Signals::NONE, Signals::JOB_TERMINATED);
            }
            next = todo.pop();
        }
    }

    pub(crate) fn job_end(&mut self, id: Id<Job>, job: Job) {
        if let Some(parent) = job.parent {
            if let Ok(p) = self.objects.get_mut(parent) {
                p.jobs.retain(|&j| j != id);
            }
            self.job_update_signals(parent);
            self.drop_ref(parent.object());
        }
    }
}
