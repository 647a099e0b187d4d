//! Checks that everything that the cases used was returned.
//!
//! The server counts what is in use in the whole system: objects, observers, address spaces, pages, kernel memory,
//! capability slots. It does not count what it keeps for reuse. Neither a worker nor any process that a worker started
//! ([`Tasks`]) runs before and after the cases, so both counts must be the same.

use std::fmt;
use std::thread;
use std::time::Duration;

/// Longest time for ended tasks to disappear: threads end asynchronously.
const PATIENCE: Duration = Duration::from_secs(1);
/// Time between two looks at the counts.
const PAUSE: Duration = Duration::from_millis(5);

/// Counts and their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Census {
    counts: Counts,
    /// Objects by type (`ZX_OBJ_TYPE_*`), to report which types have grown.
    types: Counts,
}

type Counts = Vec<(String, u64)>;

impl Census {
    /// Parses the server's two answer lines.
    fn parse([counts, types]: [String; 2]) -> Option<Census> {
        let count = |text: &str| {
            let (name, count) = text.trim().split_once(' ')?;
            Some((name.to_owned(), count.trim().parse().ok()?))
        };
        let parts = |line: &str| line.split_once(':')?.1.split_terminator(',').map(count).collect::<Option<Counts>>();
        Some(Census { counts: parts(&counts)?, types: parts(&types)? })
    }

    /// The same counts with `more` added to the count `name`, for a caller that knows about this growth.
    #[must_use]
    pub fn allowing(mut self, name: &str, more: u64) -> Census {
        self.counts.iter_mut().filter(|(known, _)| known == name).for_each(|(_, count)| *count += more);
        self
    }

    /// The counts that are greater than before.
    pub fn since(&self, before: &Census) -> Growth {
        let pairs = self.counts.iter().zip(&before.counts);
        let mut grown: Vec<_> =
            pairs.filter(|(now, then)| now.1 > then.1).map(|(now, then)| (now.0.clone(), then.1, now.1)).collect();
        if !grown.is_empty() {
            for (name, now) in &self.types {
                let then = before.types.iter().find(|then| then.0 == *name).map_or(0, |then| then.1);
                if *now > then {
                    grown.push((format!("of type {name}"), then, *now));
                }
            }
        }
        Growth(grown)
    }
}

/// Counts that have grown: name, before, after.
#[derive(Debug, PartialEq, Eq)]
pub struct Growth(Vec<(String, u64, u64)>);

impl fmt::Display for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.0.iter().map(|(name, from, to)| format!("{name} {from} -> {to}")).collect();
        f.write_str(&texts.join(", "))
    }
}

/// Reads the server's counts.
pub struct Counter(source::Source);

impl Counter {
    /// `None` if this process has no right to ask.
    pub fn new() -> Option<Counter> {
        source::Source::new().map(Counter)
    }

    /// The counts now.
    pub fn take(&self) -> Option<Census> {
        Census::parse([self.0.line("census")?, self.0.line("types")?])
    }

    /// Waits until no count is greater than in `before`.
    ///
    /// # Errors
    /// The counts that are still greater.
    pub fn returned(&self, before: &Census) -> Result<(), String> {
        self.returned_within(before, PATIENCE)
    }

    /// The same with another patience, for a caller that knows how long ended tasks may take to disappear.
    ///
    /// # Errors
    /// The counts that are still greater.
    pub fn returned_within(&self, before: &Census, patience: Duration) -> Result<(), String> {
        // The loop counts looks, not time: on a busy host a second can pass in which nothing of this system runs.
        let mut looks = patience.as_millis() / PAUSE.as_millis();
        loop {
            let now = self.take().ok_or("the kernel does not tell its counts")?;
            let growth = now.since(before);
            if growth.0.is_empty() {
                return Ok(());
            }
            looks = looks.checked_sub(1).ok_or_else(|| growth.to_string())?;
            thread::sleep(PAUSE);
        }
    }
}

impl Growth {
    /// Whether the growth includes the server's memory or its capability slots.
    pub fn of_memory(&self) -> bool {
        self.0.iter().any(|(name, _, _)| ["frames", "units", "slots"].contains(&name.as_str()))
    }
}

pub use source::Tasks;

#[cfg(target_os = "fuchsia")]
mod source {
    use zx::{AsHandleRef, Debuglog, Job, Process, Resource, Rights, Unowned};

    /// The koids of the processes and jobs below the default job at one moment.
    pub struct Tasks([Vec<u64>; 2]);

    impl Tasks {
        /// The current ones, at most 512 of each kind.
        pub fn now() -> Tasks {
            let Some(job) = zx::startup::job_default() else { return Tasks(Default::default()) };
            let mut room = [[0; 512]; 2];
            let [processes, jobs] = &mut room;
            let counts = [job.processes(processes), job.children(jobs)].map(|size| size.map_or(0, |size| size.actual));
            Tasks([0, 1].map(|kind| room[kind].iter().take(counts[kind]).copied().collect()))
        }

        /// Kills the tasks that have appeared since: a case may leave a process running, and the process keeps its
        /// objects.
        pub fn end_others(&self) {
            let Some(job) = zx::startup::job_default() else { return };
            for (kind, (now, then)) in Tasks::now().0.iter().zip(&self.0).enumerate() {
                for koid in now.iter().filter(|koid| !then.contains(koid)) {
                    if let Ok(task) = job.get_child(*koid, Rights::SAME_RIGHTS) {
                        let _ = if kind == 0 { Process::from(task).kill() } else { Job::from(task).kill() };
                    }
                }
            }
        }
    }

    pub struct Source {
        resource: Unowned<'static, Resource>,
        log: Debuglog,
    }

    impl Source {
        pub fn new() -> Option<Source> {
            let resource = zx::startup::resource()?;
            let log = Debuglog::create(&resource, abi::ZX_LOG_FLAG_READABLE).ok()?;
            Some(Source { resource, log })
        }

        /// Sends a debug command. The server's answer is the last line of its log that begins with the command's name.
        pub fn line(&self, command: &str) -> Option<String> {
            zx::debug_send_command(&self.resource, command).ok()?;
            let mut record = [0; abi::ZX_LOG_RECORD_MAX];
            let mut found = None;
            while let Ok(length) = self.log.read(&mut record) {
                let head = size_of::<abi::zx_log_record_t>() - abi::ZX_LOG_RECORD_DATA_MAX;
                let text = String::from_utf8_lossy(record.get(head..length)?).into_owned();
                if text.strip_prefix(command).is_some_and(|rest| rest.starts_with(':')) {
                    found = Some(text);
                }
            }
            found
        }
    }
}

#[cfg(not(target_os = "fuchsia"))]
mod source {
    /// On the host there are no tasks to count.
    pub struct Tasks;

    impl Tasks {
        /// No tasks.
        pub fn now() -> Tasks {
            Tasks
        }

        /// Does nothing.
        pub fn end_others(&self) {}
    }

    pub struct Source;

    impl Source {
        pub fn new() -> Option<Source> {
            None
        }

        pub fn line(&self, _command: &str) -> Option<String> {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth() {
        let census = |counts: &str, types: &str| Census::parse([counts.to_owned(), types.to_owned()]).unwrap();
        let before = census("census: objects 10, frames 200", "types: 4 3, 5 7,");
        // A type alone does not count as growth while the totals stay the same.
        assert_eq!(census("census: objects 10, frames 200", "types: 4 4, 5 6,").since(&before).to_string(), "");
        let after = census("census: objects 11, frames 203", "types: 4 3, 5 7, 6 1,");
        assert_eq!(after.since(&before).to_string(), "objects 10 -> 11, frames 200 -> 203, of type 6 0 -> 1");
        assert_eq!(after.since(&before.allowing("frames", 3)).to_string(), "objects 10 -> 11, of type 6 0 -> 1");
        assert_eq!(Census::parse(["something else".to_owned(), String::new()]), None);
    }
}
