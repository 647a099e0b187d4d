//! The services as tasks: this program may inspect and kill all.

use std::sync::atomic::{AtomicUsize, Ordering};

/// How often a service was killed.
static KILLED: AtomicUsize = AtomicUsize::new(0);

/// How often [`kill`] has killed a service.
pub fn killed() -> usize {
    KILLED.load(Ordering::Relaxed)
}

#[cfg(target_os = "fuchsia")]
mod here {
    use std::sync::OnceLock;
    use std::sync::atomic::Ordering;
    use std::thread;
    use std::time::Duration;

    use zx::{AsHandleRef, Handle, Job, Process, Rights};

    use super::KILLED;

    /// Type of the start handle (`PA_USER0`) for the job of all tasks.
    const TASKS: u32 = 0xf0;

    fn all() -> Option<&'static Job> {
        static ALL: OnceLock<Option<Job>> = OnceLock::new();
        ALL.get_or_init(|| zx::startup::take(TASKS, 0).map(|handle: Handle| Job::from(handle))).as_ref()
    }

    fn find(job: &Job, name: &str) -> Option<Process> {
        let mut koids = [0; 64];
        let processes = job.processes(&mut koids).ok()?.actual;
        let found = koids[..processes.min(64)].iter().find_map(|koid| {
            let process = Process::from(job.get_child(*koid, Rights::SAME_RIGHTS).ok()?);
            let its = process.get_name().ok()?;
            its.split(|byte| *byte == 0).next().is_some_and(|its| its == name.as_bytes()).then_some(process)
        });
        let jobs = job.children(&mut koids).ok()?.actual;
        let child = |koid: &u64| job.get_child(*koid, Rights::SAME_RIGHTS).map(Job::from);
        found.or_else(|| koids[..jobs.min(64)].iter().find_map(|koid| find(&child(koid).ok()?, name)))
    }

    /// Kills a service again and again.
    pub fn kill(name: &str, times: usize, pause: usize) {
        let Some(all) = all() else {
            println!("this program may not look at all tasks");
            return;
        };
        while KILLED.load(Ordering::Relaxed) < times {
            thread::sleep(Duration::from_millis(pause as u64));
            if let Some(process) = find(all, name)
                && process.kill().is_ok()
            {
                KILLED.fetch_add(1, Ordering::Relaxed);
            }
        }
        println!("killed {name} {times} times");
    }

    /// The bytes of memory that only a service uses.
    pub fn memory(name: &str) -> usize {
        let process = all().and_then(|all| find(all, name));
        process.and_then(|process| process.task_stats().ok()).map_or(0, |stats| stats.mem_private_bytes)
    }
}

#[cfg(target_os = "fuchsia")]
pub use here::{kill, memory};

#[cfg(not(target_os = "fuchsia"))]
pub fn kill(_name: &str, _times: usize, _pause: usize) {}

#[cfg(not(target_os = "fuchsia"))]
pub fn memory(_name: &str) -> usize {
    0
}
