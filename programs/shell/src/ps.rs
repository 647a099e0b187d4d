//! `ps`: the tree of jobs, processes and threads that this process can inspect.

#[cfg(target_os = "fuchsia")]
pub use here::{all, handles, kill, koids, name_of, run, size};

#[cfg(not(target_os = "fuchsia"))]
pub use elsewhere::{handles, kill, run};

#[cfg(not(target_os = "fuchsia"))]
mod elsewhere {
    use crate::state::{Run, Shell};

    /// The host has no jobs.
    pub fn run(shell: &Shell) -> Run {
        shell.fail("ps", "only on Hafnon")
    }

    /// The host has no Zircon tasks.
    pub fn kill(shell: &Shell, _which: &str) -> Run {
        shell.fail("kill", "only on Hafnon")
    }

    /// The host has no handles.
    pub fn handles(shell: &Shell, _which: &str) -> Run {
        shell.fail("handles", "only on Hafnon")
    }
}

#[cfg(target_os = "fuchsia")]
mod here {
    use std::sync::OnceLock;

    use crate::state::{Run, Shell};
    use init::start_handles;
    use zx::{AsHandleRef, Info, Job, Process, Rights, TaskInfo, Thread};

    struct Row {
        koid: u64,
        depth: usize,
        kind: &'static str,
        state: String,
        memory: String,
        handles: String,
        cpu: String,
        name: String,
    }

    /// The job of all tasks, if this shell was given it; otherwise its own job.
    pub fn all() -> Option<&'static Job> {
        static ALL: OnceLock<Option<Job>> = OnceLock::new();
        ALL.get_or_init(|| {
            let given = zx::startup::take(start_handles::KIND, start_handles::TASKS).map(Job::from);
            let own = || zx::startup::job_default()?.duplicate(Rights::SAME_RIGHTS).ok();
            given.or_else(own)
        })
        .as_ref()
    }

    /// Prints the tree below that job.
    pub fn run(shell: &Shell) -> Run {
        let Some(job) = all() else { return shell.fail("ps", "this program was started without a job") };
        let mut rows = Vec::new();
        job_rows(job, 0, &mut rows);
        let mut text =
            format!("{:>8}  {:<16}{:<22}{:>10}{:>9}{:>9}  NAME\n", "KOID", "KIND", "STATE", "MEMORY", "HANDLES", "CPU");
        for row in rows {
            let kind = format!("{:1$}{2}", "", row.depth * 2, row.kind);
            let Row { koid, state, memory, handles, cpu, name, .. } = row;
            text += &format!("{koid:>8}  {kind:<16}{state:<22}{memory:>10}{handles:>9}{cpu:>9}  {name}\n");
        }
        shell.say(text)
    }

    /// A process or a job.
    enum Task {
        Process(Process),
        Job(Job),
    }

    /// Kills the process or job with this koid, or the first process with this name.
    pub fn kill(shell: &Shell, which: &str) -> Run {
        let killed = match all().and_then(|job| find(job, which)) {
            Some(Task::Process(process)) => process.kill().is_ok(),
            Some(Task::Job(job)) => job.kill().is_ok(),
            None => false,
        };
        if killed {
            return Ok(0);
        }
        shell.fail(
            "kill",
            &format!("{which}: there is no such process or job that can be ended; `ps` shows which there are"),
        )
    }

    /// Prints the handles of a process, one type per line.
    pub fn handles(shell: &Shell, which: &str) -> Run {
        let Some(Task::Process(process)) = all().and_then(|job| find(job, which)) else {
            return shell.fail("handles", &format!("{which}: there is no such process; `ps` shows which there are"));
        };
        let stats = process.info_record::<abi::zx_info_process_handle_stats_t>(abi::ZX_INFO_PROCESS_HANDLE_STATS);
        let Ok(stats) = stats else {
            return shell.fail("handles", &format!("{which}: its handles cannot be seen"));
        };
        let mut text = String::new();
        for (kind, count) in (0..).zip(stats.handle_count).filter(|(_, count)| *count > 0) {
            text += &format!("{count:>8}  {}\n", kind_name(kind));
        }
        shell.say(text)
    }

    fn kind_name(kind: u32) -> String {
        let name = match kind {
            abi::ZX_OBJ_TYPE_PROCESS => "process",
            abi::ZX_OBJ_TYPE_THREAD => "thread",
            abi::ZX_OBJ_TYPE_VMO => "vmo",
            abi::ZX_OBJ_TYPE_CHANNEL => "channel",
            abi::ZX_OBJ_TYPE_EVENT => "event",
            abi::ZX_OBJ_TYPE_PORT => "port",
            abi::ZX_OBJ_TYPE_INTERRUPT => "interrupt",
            abi::ZX_OBJ_TYPE_SOCKET => "socket",
            abi::ZX_OBJ_TYPE_RESOURCE => "resource",
            abi::ZX_OBJ_TYPE_JOB => "job",
            abi::ZX_OBJ_TYPE_VMAR => "vmar",
            abi::ZX_OBJ_TYPE_FIFO => "fifo",
            abi::ZX_OBJ_TYPE_IOMMU => "iommu",
            abi::ZX_OBJ_TYPE_BTI => "bti",
            abi::ZX_OBJ_TYPE_PMT => "pmt",
            abi::ZX_OBJ_TYPE_CLOCK => "clock",
            abi::ZX_OBJ_TYPE_MSI => "msi",
            other => return format!("kind {other}"),
        };
        name.to_owned()
    }

    /// Finds the process or job with this koid, or the first process with this name.
    fn find(job: &Job, which: &str) -> Option<Task> {
        let number: Option<u64> = which.parse().ok();
        let name = format!("{which}\0");
        let named = |process: &Process| process.get_name().is_ok_and(|text| text.starts_with(name.as_bytes()));
        for koid in koids(job, abi::ZX_INFO_JOB_PROCESSES) {
            let Ok(process) = job.get_child(koid, Rights::SAME_RIGHTS).map(Process::from) else { continue };
            if number == Some(koid) || number.is_none() && named(&process) {
                return Some(Task::Process(process));
            }
        }
        // The server limits the depth of jobs.
        koids(job, abi::ZX_INFO_JOB_CHILDREN).into_iter().find_map(|koid| {
            let child = Job::from(job.get_child(koid, Rights::SAME_RIGHTS).ok()?);
            if number == Some(koid) { Some(Task::Job(child)) } else { find(&child, which) }
        })
    }

    fn job_rows(job: &Job, depth: usize, rows: &mut Vec<Row>) {
        let usage = job.usage().map(|usage| (size(usage.memory as usize), usage.handles.to_string()));
        let (memory, handles) = usage.unwrap_or_default();
        rows.push(Row { memory, handles, cpu: cpu(job), ..row(job, depth, "job", String::new()) });
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
        let stats = process.info_record::<abi::zx_info_process_handle_stats_t>(abi::ZX_INFO_PROCESS_HANDLE_STATS);
        let handles = stats.map(|stats| stats.handle_count.iter().sum::<u32>().to_string()).unwrap_or_default();
        rows.push(Row { memory, handles, cpu: cpu(process), ..row(process, depth, "process", process_state(process)) });
        for koid in koids(process, abi::ZX_INFO_PROCESS_THREADS) {
            if let Ok(thread) = process.get_child(koid, Rights::SAME_RIGHTS) {
                let thread = Thread::from(thread);
                let state = thread.info().map(|info| thread_state(info.state).to_owned()).unwrap_or_default();
                rows.push(Row { cpu: cpu(&thread), ..row(&thread, depth + 1, "thread", state) });
            }
        }
    }

    fn row(object: &impl Info, depth: usize, kind: &'static str, state: String) -> Row {
        let (koid, name) = (object.koid().unwrap_or_default(), name_of(object));
        Row { koid, depth, kind, state, memory: String::new(), handles: String::new(), cpu: String::new(), name }
    }

    /// An object's name, made printable.
    pub fn name_of(object: &impl Info) -> String {
        let name = object.get_name().unwrap_or_default();
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(name).escape_default().to_string()
    }

    /// How long a task has run, if the server reports it.
    fn cpu(task: &impl TaskInfo) -> String {
        let Ok(time) = task.runtime().map(|runtime| runtime.cpu_time.max(0)) else { return String::new() };
        format!("{}.{:02} s", time / 1_000_000_000, time / 10_000_000 % 100)
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

    /// A number of bytes in readable form.
    pub fn size(bytes: usize) -> String {
        match bytes {
            0..0x10_0000 => format!("{} KiB", bytes.div_ceil(1 << 10)),
            _ => format!("{}.{} MiB", bytes >> 20, ((bytes % (1 << 20)) * 10) >> 20),
        }
    }

    /// The complete list of koids, however long it is.
    pub fn koids(object: &impl Info, topic: u32) -> Vec<u64> {
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
