//! `top`: shows the resource use of jobs and processes repeatedly.
//!
//! For each job: how much it and all jobs below it use of each limited resource. For each process: its share of the
//! processor since the last look, or, at the first look, since its start. Above them, if this shell may know it: for how
//! much of that time the processor was idle.

#[cfg(target_os = "fuchsia")]
pub use here::run;

#[cfg(not(target_os = "fuchsia"))]
pub use elsewhere::run;

#[cfg(not(target_os = "fuchsia"))]
mod elsewhere {
    use crate::state::{Run, Shell};

    /// The host has no jobs.
    pub fn run(shell: &mut Shell, _words: &[String]) -> Run {
        shell.fail("top", "only on Hafnon")
    }
}

#[cfg(target_os = "fuchsia")]
mod here {
    use std::collections::BTreeMap;
    use std::sync::OnceLock;
    use std::time::{Duration, Instant};

    use init::start_handles;
    use zx::{AsHandleRef, Info, Job, MonotonicInstant, Process, Resource, Rights, TaskInfo};

    use crate::ps::{all, koids, name_of, size};
    use crate::state::{Run, Shell};

    /// The options from the command line.
    struct Options {
        /// Number of looks.
        times: u64,
        /// Time between looks.
        pause: Duration,
    }

    fn options(words: &[String]) -> Option<Options> {
        let mut options = Options { times: u64::MAX, pause: Duration::from_secs(2) };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let value = words.next()?;
            match word.as_str() {
                "-n" => options.times = value.parse().ok().filter(|times| *times > 0)?,
                "-d" => options.pause = Duration::try_from_secs_f64(value.parse().ok()?).ok()?,
                _ => return None,
            }
        }
        Some(options)
    }

    /// Nanoseconds by koid: of processes (run time) or of jobs.
    type Times = BTreeMap<u64, i64>;

    struct Line {
        /// In tenths of a percent.
        cpu: Option<i64>,
        koid: u64,
        text: String,
    }

    /// Nanoseconds since the system started.
    #[derive(Clone, Copy, Default)]
    struct Processor {
        idle: i64,
        /// Idle or not.
        all: i64,
    }

    /// The resource for the system's statistics, if this shell was given it.
    fn statistics() -> Option<&'static Resource> {
        static STATISTICS: OnceLock<Option<Resource>> = OnceLock::new();
        let given = || zx::startup::take(start_handles::KIND, start_handles::STATISTICS).map(Resource::from);
        STATISTICS.get_or_init(given).as_ref()
    }

    fn processor() -> Option<Processor> {
        let stats = statistics()?.info_record::<abi::zx_info_cpu_stats_t>(abi::ZX_INFO_CPU_STATS).ok()?;
        let (idle, busy) = (stats.idle_time, stats.normalized_busy_time);
        Some(Processor { idle, all: idle.saturating_add(busy) })
    }

    /// The head line: the idle share of the processor since the last look, or since the system started. Empty if this
    /// shell may not know it.
    fn head(now: Option<Processor>, before: Option<Processor>) -> String {
        let before = before.unwrap_or_default();
        let share = now.map(|now| part(now.idle - before.idle, now.all - before.all));
        share.map_or_else(String::new, |share| format!("processor: {} idle\n\n", tenths(Some(share))))
    }

    /// A snapshot of everything.
    struct Look {
        processor: Option<Processor>,
        jobs: Vec<String>,
        /// Kernel time of jobs in nanoseconds, by koid.
        kernel: Times,
        processes: Vec<Line>,
        times: Times,
        now: MonotonicInstant,
    }

    /// Prints jobs and processes as often as requested, or until it is interrupted.
    pub fn run(shell: &mut Shell, words: &[String]) -> Run {
        let Some(options) = options(&words[1..]) else {
            return shell.fail("top", "takes -n TIMES and -d SECONDS: how often to look, and how long to wait between");
        };
        let Some(job) = all() else { return shell.fail("top", "this program was started without a job") };
        let mut before: Option<Look> = None;
        for time in 0..options.times {
            if time > 0 && !waits(shell, options.pause) {
                return Ok(crate::jobs::INTERRUPTED);
            }
            let look = look(job, before.as_ref());
            // Each of several looks overwrites the previous one.
            let clear = if options.times > 1 { "\x1b[H\x1b[2J" } else { "" };
            let head = head(look.processor, before.as_ref().and_then(|before| before.processor));
            let mut text = format!(
                "{clear}{head}{:>9} / LIMIT     PROCESSES    THREADS        JOBS         HANDLES          MESSAGES  QUEUED     KERNEL  JOB\n",
                "MEMORY"
            );
            look.jobs.iter().for_each(|line| text += line);
            text += &format!(
                "\n{:>8}{:>7}{:>11}{:>11}{:>9}{:>9}  PROCESS\n",
                "KOID", "CPU", "PRIVATE", "SHARED", "HANDLES", "THREADS"
            );
            look.processes.iter().for_each(|line| text += &line.text);
            if shell.say(text)? != 0 {
                return Ok(1);
            }
            before = Some(look);
        }
        Ok(0)
    }

    /// Waits; returns whether it was not interrupted.
    fn waits(shell: &Shell, pause: Duration) -> bool {
        const STEP: Duration = Duration::from_millis(100);
        let end = Instant::now() + pause;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if shell.group.ended() || left.is_zero() {
                return !shell.group.ended();
            }
            std::thread::sleep(left.min(STEP));
        }
    }

    fn look(job: &Job, before: Option<&Look>) -> Look {
        let mut look = Look {
            processor: processor(),
            jobs: Vec::new(),
            kernel: Times::new(),
            processes: Vec::new(),
            times: Times::new(),
            now: MonotonicInstant::now(),
        };
        job_lines(job, 0, before, &mut look);
        look.processes.sort_by_key(|line| (std::cmp::Reverse(line.cpu), line.koid));
        look
    }

    fn job_lines(job: &Job, depth: usize, before: Option<&Look>, look: &mut Look) {
        if let Ok(usage) = job.usage() {
            let count = |used: u64, limit: u64| match limit {
                u64::MAX => format!("{used}"),
                limit => format!("{used} / {limit}"),
            };
            let limit = match usage.memory_limit {
                u64::MAX => String::from("-"),
                bytes => size(bytes as usize),
            };
            let koid = job.koid().unwrap_or_default();
            let worked = i64::try_from(usage.kernel_time).ok();
            let since =
                before.map_or(Some((0, MonotonicInstant(0))), |before| Some((*before.kernel.get(&koid)?, before.now)));
            let kernel = worked.zip(since).map(|(worked, (then, at))| part(worked - then, look.now.0 - at.0));
            look.kernel.extend(worked.map(|worked| (koid, worked)));
            look.jobs.push(format!(
                "{:>9} / {limit:<10}{:<13}{:<15}{:<13}{:<17}{:<10}{:<11}{:<8}{:depth$}{}\n",
                size(usage.memory as usize),
                count(usage.processes, usage.process_limit),
                count(usage.threads, usage.thread_limit),
                count(usage.jobs, usage.job_limit),
                count(usage.handles, usage.handle_limit),
                usage.messages,
                size(usage.queued_bytes as usize),
                tenths(kernel),
                "",
                name_of(job),
                depth = depth * 2,
            ));
        }
        for koid in koids(job, abi::ZX_INFO_JOB_PROCESSES) {
            if let Ok(process) = job.get_child(koid, Rights::SAME_RIGHTS) {
                process_line(&Process::from(process), before, look);
            }
        }
        for koid in koids(job, abi::ZX_INFO_JOB_CHILDREN) {
            if let Ok(child) = job.get_child(koid, Rights::SAME_RIGHTS) {
                job_lines(&Job::from(child), depth + 1, before, look);
            }
        }
    }

    /// A fraction of a time, in tenths of a percent.
    fn part(of: i64, time: i64) -> i64 {
        of * 1000 / time.max(1)
    }

    fn tenths(part: Option<i64>) -> String {
        part.map(|part| format!("{}.{} %", part / 10, part % 10)).unwrap_or_default()
    }

    fn process_line(process: &Process, before: Option<&Look>, look: &mut Look) {
        let koid = process.koid().unwrap_or_default();
        let ran = process.runtime().map(|runtime| runtime.cpu_time).ok();
        let known = before.and_then(|before| Some((*before.times.get(&koid)?, before.now)));
        let start = || Some((0, MonotonicInstant(process.info().ok()?.start_time)));
        let since = known.or_else(start);
        let cpu = ran.zip(since).map(|(ran, (then, at))| part(ran - then, look.now.0 - at.0));
        if let Some(ran) = ran {
            look.times.insert(koid, ran);
        }
        let stats = process.task_stats().ok();
        let bytes = |bytes: Option<usize>| bytes.map(size).unwrap_or_default();
        let kinds = process.info_record::<abi::zx_info_process_handle_stats_t>(abi::ZX_INFO_PROCESS_HANDLE_STATS).ok();
        let handles = kinds.map(|kinds| kinds.handle_count.iter().sum::<u32>());
        let text = format!(
            "{koid:>8}{:>7}{:>11}{:>11}{:>9}{:>9}  {}\n",
            tenths(cpu),
            bytes(stats.as_ref().map(|stats| stats.mem_private_bytes)),
            bytes(stats.as_ref().map(|stats| stats.mem_shared_bytes)),
            handles.map(|handles| handles.to_string()).unwrap_or_default(),
            koids(process, abi::ZX_INFO_PROCESS_THREADS).len(),
            name_of(process),
        );
        look.processes.push(Line { cpu, koid, text });
    }
}
