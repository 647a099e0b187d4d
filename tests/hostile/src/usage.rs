//! What is in use in the whole system, and by which jobs.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use abi::hafnon_info_job_usage_t;
use conformance::check::{Failure, Outcome};
use init::start_handles;
use zx::{AsHandleRef, Handle, Info, Job, Rights, Status};

/// How long the destruction of ended objects may take.
const SETTLING: Duration = Duration::from_secs(20);
/// Bytes that all services together may keep for good: their heaps do not shrink.
const KEPT: u64 = 8 << 20;
/// Message places that channels may keep: 32 spare ones each.
const PLACES: u64 = 256;
/// Most jobs and processes in one job that are visited.
const CHILDREN: usize = 512;

/// See the module's description.
pub struct Usage {
    whole: Counts,
    /// By koid: the job's name and its counts.
    jobs: BTreeMap<u64, (String, Counts)>,
}

/// The counts of a job and all jobs below it.
#[derive(Clone, Copy, Default)]
struct Counts {
    usage: hafnon_info_job_usage_t,
    /// Existing handles. The job's own count is of places for handles; handle tables keep places that they once had.
    handles: u64,
}

/// The root job, for a program that may access it.
///
/// # Errors The program may not.
pub fn root() -> Result<Job, Failure> {
    let root = zx::startup::take(start_handles::KIND, start_handles::TASKS).map(Job::from);
    root.ok_or_else(|| "this program may not look at all tasks".to_owned().into())
}

impl Usage {
    /// The current use.
    ///
    /// # Errors A status of the server.
    pub fn now(root: &Job) -> Result<Usage, Failure> {
        let mut jobs = BTreeMap::new();
        let whole = note(root, &mut jobs)?;
        Ok(Usage { whole, jobs })
    }

    /// Waits until no more is in use than at that time.
    ///
    /// # Errors What has increased, in the whole system and by job.
    pub fn comes_back(&self, root: &Job) -> Outcome {
        let start = Instant::now();
        loop {
            let now = Usage::now(root)?;
            let more = more(&self.whole, &now.whole, [PLACES, KEPT]);
            if more.is_empty() {
                return Ok(());
            }
            if start.elapsed() > SETTLING {
                let by_job = now.by_job(self).join("; ");
                return Err(format!("not everything has come back: {}; {by_job}", more.join(", ")).into());
            }
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// What has increased since, for each job.
    fn by_job(&self, before: &Usage) -> Vec<String> {
        let line = |(koid, (name, now)): (&u64, &(String, Counts))| {
            let then = before.jobs.get(koid).map(|(_, then)| *then).unwrap_or_default();
            let more = more(&then, now, [0, 0]);
            (!more.is_empty()).then(|| format!("job {koid} ({name}): {}", more.join(", ")))
        };
        self.jobs.iter().filter_map(line).collect()
    }
}

/// What has increased, beyond some places for messages and some bytes.
fn more(then: &Counts, now: &Counts, [places, bytes]: [u64; 2]) -> Vec<String> {
    let (usage, used) = (&now.usage, &then.usage);
    let pairs = [
        ("processes", used.processes, usage.processes),
        ("threads", used.threads, usage.threads),
        ("jobs", used.jobs, usage.jobs),
        ("handles", then.handles, now.handles),
        ("messages", used.messages + places, usage.messages),
        ("bytes", used.memory + bytes, usage.memory),
    ];
    let more = pairs.into_iter().filter(|(_, then, now)| now > then);
    more.map(|(name, then, now)| format!("{name} {then} -> {now}")).collect()
}

/// Records a job and the jobs below it.
fn note(job: &Job, jobs: &mut BTreeMap<u64, (String, Counts)>) -> Result<Counts, Failure> {
    let (name, mut counts) = (job.get_name()?, Counts { usage: job.usage()?, handles: 0 });
    let mut koids = [0; CHILDREN];
    let count = job.processes(&mut koids)?.actual.min(CHILDREN);
    for koid in &koids[..count] {
        // The process may have ended meanwhile, and so may jobs.
        if let Ok(process) = job.get_child(*koid, Rights::SAME_RIGHTS) {
            counts.handles += handles(&process)?;
        }
    }
    let count = job.children(&mut koids)?.actual.min(CHILDREN);
    for koid in &koids[..count] {
        if let Ok(child) = job.get_child(*koid, Rights::SAME_RIGHTS) {
            counts.handles += note(&Job::from(child), jobs)?.handles;
        }
    }
    let name = String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned();
    jobs.insert(job.basic_info()?.koid, (name, counts));
    Ok(counts)
}

/// The number of handles of a process; 0 if it has ended.
fn handles(process: &Handle) -> Result<u64, Failure> {
    let stats = process.info_record::<abi::zx_info_process_handle_stats_t>(abi::ZX_INFO_PROCESS_HANDLE_STATS);
    match stats {
        Ok(stats) => Ok(stats.handle_count.iter().map(|count| u64::from(*count)).sum()),
        Err(Status::BAD_STATE) => Ok(0),
        Err(status) => Err(status.into()),
    }
}
