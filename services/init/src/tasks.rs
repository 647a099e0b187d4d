//! The processes of the system, and killing the ones in the foreground.
//!
//! Each program has its own job, for itself and its children. "The foreground" is every process except `init`,
//! `userboot`, the services, and native components. A shell keeps its programs in separate jobs, and an event notifies
//! it when the user wants its foreground programs to end.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use zx::{AsHandleRef, Event, HandleRef, Info, Job, Process, Rights, Signals, Status, Unowned};

/// The name of the job of native components that are clients. The server creates it when there is one
/// (`objects/src/component.rs`).
const COMPONENTS: &[u8] = b"components\0";

/// The processes of the system.
pub struct Tasks {
    root: Option<Unowned<'static, Job>>,
    kept: Mutex<BTreeSet<u64>>,
    /// The event of a shell, which itself knows which programs to end.
    shell: Mutex<Option<Event>>,
    /// The system is ending: nothing is started any more.
    ending: Mutex<bool>,
}

impl Tasks {
    /// Marks the processes that run now as processes to keep.
    pub fn new() -> Self {
        let root = zx::startup::job_default();
        let kept = root.as_ref().map(|root| koids(root, abi::ZX_INFO_JOB_PROCESSES)).unwrap_or_default();
        Self { root, kept: Mutex::new(kept.into_iter().collect()), shell: Mutex::new(None), ending: Mutex::new(false) }
    }

    /// Kills the foreground and prevents further starts. Threads that wait for these programs continue with the
    /// system's end.
    pub fn end(&self) {
        // A job whose creation has begun exists once this thread has the lock, so it is killed with the others.
        *self.ending.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.kill_foreground();
    }

    /// Whether the system is ending.
    pub fn ending(&self) -> bool {
        *self.ending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks one more process as to keep, or a job with all its processes.
    pub fn keep(&self, task: HandleRef<'_>) {
        if let Ok(koid) = task.koid() {
            self.kept.lock().unwrap_or_else(PoisonError::into_inner).insert(koid);
        }
    }

    /// Sets the event that reports interrupts to a shell, or removes it.
    pub fn set_shell(&self, event: Option<Event>) {
        *self.shell.lock().unwrap_or_else(PoisonError::into_inner) = event;
    }

    /// Handles an interrupt by the user; returns what was done.
    pub fn interrupt(&self) -> String {
        match &*self.shell.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(event) => match event.signal(Signals::NONE, Signals::USER_0) {
                Ok(()) => "shell".to_owned(),
                Err(status) => status.to_string(),
            },
            None => self.kill_foreground().to_string(),
        }
    }

    /// The job of all programs and services, for a program that may inspect and kill all of them.
    ///
    /// # Errors
    /// Errors of the server.
    pub fn all(&self) -> zx::Result<Job> {
        let rights = Rights::BASIC | Rights::READ | Rights::ENUMERATE | Rights::DESTROY | Rights::GET_PROPERTY;
        self.root.as_ref().ok_or(Status::NOT_FOUND)?.duplicate(rights)
    }

    /// A job for a program: a new one, or the root job for a test that needs everything.
    ///
    /// # Errors
    /// Errors of the server; `CANCELED`: the system is ending.
    pub fn job(&self, name: &str, root: bool) -> zx::Result<Job> {
        let ending = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        if *ending {
            return Err(Status::CANCELED);
        }
        let all = self.root.as_ref().ok_or(Status::NOT_FOUND)?;
        if root {
            return all.duplicate(Rights::SAME_RIGHTS);
        }
        let job = all.create_child()?;
        job.set_name(name)?;
        limit(&job)?;
        Ok(job)
    }

    /// Kills every process except those to keep and native components; returns the number of killed processes.
    pub fn kill_foreground(&self) -> usize {
        let Some(root) = &self.root else { return 0 };
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut killed = 0;
        // A process may start another one while it is being killed, so this repeats until no new one appears.
        let mut seen = BTreeSet::new();
        loop {
            let mut found = false;
            for koid in koids(root, abi::ZX_INFO_JOB_CHILDREN) {
                if !kept.contains(&koid)
                    && seen.insert(koid)
                    && let Ok(job) = root.get_child(koid, Rights::SAME_RIGHTS).map(Job::from)
                    && !job.get_name().is_ok_and(|name| name.starts_with(COMPONENTS))
                {
                    found = true;
                    killed += usize::from(job.kill().is_ok());
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

/// Sets the quotas of a program and its children, unless the program lowers them further: nearly all free memory, and a
/// part of each kind of object whose number is limited. So a program that allocates without end reaches its own limit
/// before the system's.
fn limit(job: &Job) -> zx::Result<()> {
    const COUNTS: [(u32, u64); 6] = [
        (abi::HAFNON_PROP_JOB_PROCESS_LIMIT, 256),
        (abi::HAFNON_PROP_JOB_THREAD_LIMIT, 4096),
        (abi::HAFNON_PROP_JOB_JOB_LIMIT, 4096),
        (abi::HAFNON_PROP_JOB_HANDLE_LIMIT, 256 * 1024),
        (abi::HAFNON_PROP_JOB_MESSAGE_LIMIT, 1024 * 1024),
        (abi::HAFNON_PROP_JOB_QUEUED_BYTES_LIMIT, 256 << 20),
    ];
    // A sixteenth of the total memory is reserved for others.
    const KEPT: u64 = 16;
    if let Some(memory) = zx::startup::resource()
        .and_then(|resource| resource.info_record::<abi::zx_info_kmem_stats_t>(abi::ZX_INFO_KMEM_STATS).ok())
    {
        let bytes = memory.free_bytes.saturating_sub(memory.total_bytes / KEPT);
        job.set_property(abi::HAFNON_PROP_JOB_MEMORY_LIMIT, &bytes.to_le_bytes())?;
    }
    COUNTS.into_iter().try_for_each(|(property, limit)| job.set_property(property, &limit.to_le_bytes()))
}

/// The complete list of koids, however long it is.
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
