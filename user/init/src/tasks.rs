//! Which processes there are, and the end of those that should not be there any more.
//!
//! A program may start others, which outlive it if they like. All of them are in the root job or in jobs below it, so
//! "the foreground" is everything there but the processes that were running before: init and what started it, and the
//! shell when there is one.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use zx::{AsHandleRef, HandleRef, Info, Job, Process, Rights, Unowned};

/// The processes of the system.
pub struct Tasks {
    root: Option<Unowned<'static, Job>>,
    kept: Mutex<BTreeSet<u64>>,
}

impl Tasks {
    /// Remembers the processes that run now as those to keep.
    pub fn new() -> Self {
        let root = zx::startup::job_default();
        let kept = root.as_ref().map(|root| koids(root, abi::ZX_INFO_JOB_PROCESSES)).unwrap_or_default();
        Self { root, kept: Mutex::new(kept.into_iter().collect()) }
    }

    /// Keeps one more process, or a job with all in it, by a handle to it; returns what identifies it.
    pub fn keep(&self, task: HandleRef<'_>) -> Option<u64> {
        let koid = task.koid().ok()?;
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).insert(koid);
        Some(koid)
    }

    /// Keeps a process no longer.
    pub fn forget(&self, koid: u64) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).remove(&koid);
    }

    /// Kills every process but those to keep; returns how many that were.
    pub fn kill_foreground(&self) -> usize {
        let Some(root) = &self.root else { return 0 };
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut killed = 0;
        // One that is being killed may be starting another, so look until there is nothing new.
        let mut seen = BTreeSet::new();
        loop {
            let mut found = false;
            for koid in koids(root, abi::ZX_INFO_JOB_CHILDREN) {
                if !kept.contains(&koid)
                    && seen.insert(koid)
                    && let Ok(job) = root.get_child(koid, Rights::SAME_RIGHTS)
                {
                    found = true;
                    killed += usize::from(Job::from(job).kill().is_ok());
                }
            }
            for koid in koids(root, abi::ZX_INFO_JOB_PROCESSES) {
                if !kept.contains(&koid)
                    && seen.insert(koid)
                    && let Ok(process) = root.get_child(koid, Rights::SAME_RIGHTS)
                {
                    found = true;
                    killed += usize::from(Process::from(process).kill().is_ok());
                }
            }
            if !found {
                return killed;
            }
        }
    }
}

/// A whole list of koids, however long it is.
fn koids(job: &Job, topic: u32) -> Vec<u64> {
    let mut list = vec![0; 64];
    loop {
        match job.get_info_koids(topic, &mut list) {
            Ok(size) if size.avail > list.len() => list.resize(size.avail * 2, 0),
            Ok(size) => {
                list.truncate(size.actual);
                return list;
            }
            Err(_) => return Vec::new(),
        }
    }
}
