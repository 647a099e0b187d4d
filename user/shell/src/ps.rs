//! `ps`: the tree of jobs, processes and threads, as far as this process may see it.

#[cfg(target_os = "fuchsia")]
pub use here::{kill, run};

/// There are no jobs elsewhere.
#[cfg(not(target_os = "fuchsia"))]
pub fn run() -> i64 {
    eprintln!("sh: ps: only on Hafnon");
    1
}

/// There is nothing to end elsewhere.
#[cfg(not(target_os = "fuchsia"))]
pub fn kill(_which: &str) -> i64 {
    eprintln!("sh: kill: only on Hafnon");
    1
}

#[cfg(target_os = "fuchsia")]
mod here {
    use zx::{AsHandleRef, Info, Job, Process, Rights, Thread};

    struct Row {
        koid: u64,
        depth: usize,
        kind: &'static str,
        state: String,
        memory: String,
        name: String,
    }

    /// Shows the tree below the default job.
    pub fn run() -> i64 {
        let Some(job) = zx::startup::job_default() else {
            eprintln!("sh: ps: this program was started without a job");
            return 1;
        };
        let mut rows = Vec::new();
        job_rows(&job, 0, &mut rows);
        println!("{:>8}  {:<16}{:<22}{:>10}  NAME", "KOID", "KIND", "STATE", "MEMORY");
        for row in rows {
            let kind = format!("{:1$}{2}", "", row.depth * 2, row.kind);
            println!("{:>8}  {kind:<16}{:<22}{:>10}  {}", row.koid, row.state, row.memory, row.name);
        }
        0
    }

    /// Ends the process or job of this koid, or the first process of this name.
    pub fn kill(which: &str) -> i64 {
        let found = zx::startup::job_default().is_some_and(|job| kill_in(&job, which));
        if !found {
            eprintln!(
                "sh: kill: {which}: there is no such process or job that can be ended; `ps` shows which there are"
            );
        }
        i64::from(!found)
    }

    /// Says whether it was there.
    fn kill_in(job: &Job, which: &str) -> bool {
        let number: Option<u64> = which.parse().ok();
        let named =
            |process: &Process| process.get_name().is_ok_and(|name| name.starts_with(format!("{which}\0").as_bytes()));
        for koid in koids(job, abi::ZX_INFO_JOB_PROCESSES) {
            let Ok(process) = job.get_child(koid, Rights::SAME_RIGHTS).map(Process::from) else { continue };
            if number == Some(koid) || number.is_none() && named(&process) {
                return process.kill().is_ok();
            }
        }
        for koid in koids(job, abi::ZX_INFO_JOB_CHILDREN) {
            let Ok(child) = job.get_child(koid, Rights::SAME_RIGHTS).map(Job::from) else { continue };
            if number == Some(koid) {
                return child.kill().is_ok();
            }
            if kill_in(&child, which) {
                return true;
            }
        }
        false
    }

    fn job_rows(job: &Job, depth: usize, rows: &mut Vec<Row>) {
        rows.push(row(job, depth, "job", String::new(), String::new()));
        for koid in koids(job, abi::ZX_INFO_JOB_PROCESSES) {
            if let Ok(process) = job.get_child(koid, Rights::SAME_RIGHTS) {
                process_rows(&Process::from(process), depth + 1, rows);
            }
        }
        for koid in koids(job, abi::ZX_INFO_JOB_CHILDREN) {
            if let Ok(child) = job.get_child(koid, Rights::SAME_RIGHTS) {
                job_rows(&Job::from(child), depth + 1, rows);
            }
        }
    }

    fn process_rows(process: &Process, depth: usize, rows: &mut Vec<Row>) {
        let memory = process.task_stats().map(|stats| size(stats.mem_private_bytes)).unwrap_or_default();
        rows.push(row(process, depth, "process", process_state(process), memory));
        for koid in koids(process, abi::ZX_INFO_PROCESS_THREADS) {
            if let Ok(thread) = process.get_child(koid, Rights::SAME_RIGHTS) {
                let thread = Thread::from(thread);
                let state = thread.info().map(|info| thread_state(info.state).to_owned()).unwrap_or_default();
                rows.push(row(&thread, depth + 1, "thread", state, String::new()));
            }
        }
    }

    fn row(object: &impl Info, depth: usize, kind: &'static str, state: String, memory: String) -> Row {
        let name = object.get_name().unwrap_or_default();
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let name = String::from_utf8_lossy(name).escape_default().to_string();
        Row { koid: object.koid().unwrap_or_default(), depth, kind, state, memory, name }
    }

    fn process_state(process: &Process) -> String {
        let Ok(info) = process.info() else { return String::new() };
        if info.flags & abi::ZX_INFO_PROCESS_FLAG_EXITED != 0 {
            return format!("ended with {}", info.return_code);
        }
        if info.flags & abi::ZX_INFO_PROCESS_FLAG_STARTED == 0 {
            return "not started".to_owned();
        }
        if info.start_time == 0 {
            return "running".to_owned();
        }
        let start = std::time::Duration::from_nanos((zx::MonotonicInstant::now().0 - info.start_time).max(0) as u64);
        format!("up {}.{:01} s", start.as_secs(), start.subsec_millis() / 100)
    }

    fn thread_state(state: u32) -> &'static str {
        match state {
            abi::ZX_THREAD_STATE_NEW => "new",
            abi::ZX_THREAD_STATE_RUNNING => "running",
            abi::ZX_THREAD_STATE_SUSPENDED => "suspended",
            abi::ZX_THREAD_STATE_DYING => "dying",
            abi::ZX_THREAD_STATE_DEAD => "dead",
            abi::ZX_THREAD_STATE_BLOCKED_EXCEPTION => "in an exception",
            abi::ZX_THREAD_STATE_BLOCKED_SLEEPING => "sleeping",
            abi::ZX_THREAD_STATE_BLOCKED_FUTEX => "waiting: futex",
            abi::ZX_THREAD_STATE_BLOCKED_PORT => "waiting: port",
            abi::ZX_THREAD_STATE_BLOCKED_CHANNEL => "waiting: channel",
            abi::ZX_THREAD_STATE_BLOCKED_WAIT_ONE => "waiting: one object",
            abi::ZX_THREAD_STATE_BLOCKED_WAIT_MANY => "waiting: objects",
            abi::ZX_THREAD_STATE_BLOCKED_INTERRUPT => "waiting: interrupt",
            abi::ZX_THREAD_STATE_BLOCKED_PAGER => "waiting: pager",
            _ => "blocked",
        }
    }

    fn size(bytes: usize) -> String {
        match bytes {
            0..0x10_0000 => format!("{} KiB", bytes.div_ceil(1 << 10)),
            _ => format!("{}.{} MiB", bytes >> 20, ((bytes % (1 << 20)) * 10) >> 20),
        }
    }

    /// A whole list of koids, however long it is.
    fn koids(object: &impl Info, topic: u32) -> Vec<u64> {
        let mut list = vec![0; 64];
        loop {
            match object.get_info_koids(topic, &mut list) {
                Ok(size) if size.avail > list.len() => list.resize(size.avail * 2, 0),
                Ok(size) => {
                    list.truncate(size.actual);
                    return list;
                }
                Err(_) => return Vec::new(),
            }
        }
    }
}
