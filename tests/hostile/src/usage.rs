//! What is in use in the whole system, and by which jobs.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use abi::hafnon_info_job_usage_t;
use conformance::check::{Failure, Outcome};
use init::given;
use zx::{AsHandleRef, Handle, Info, Job, Rights, Status};

/// How long what has ended may take until it is gone.
const SETTLING: Duration = Duration::from_secs(20);
/// What services may keep of memory for good, all together: their heaps do not shrink.
const KEPT: u64 = 8 << 20;
/// What channels may keep of places for messages: 32 each to spare.
const PLACES: u64 = 256;
/// Jobs and processes in one job that are looked at.
const CHILDREN: usize = 512;

/// See the module's description.
pub struct Use {
    whole: Counts,
    /// By koid: the job's name and what it has.
    jobs: BTreeMap<u64, (String, Counts)>,
}

/// What a job and all below it have.
#[derive(Clone, Copy, Default)]
struct Counts {
    usage: hafnon_info_job_usage_t,
    /// Handles that there are. What is counted for the job are places for handles, of which tables keep what they once had.
    handles: u64,
}

/// The job of all, for a program that may look at it.
///
/// # Errors
/// It may not.
pub fn root() -> Result<Job, Failure> {
    let root = zx::startup::take(given::KIND, given::TASKS).map(Job::from);
    root.ok_or_else(|| "this program may not look at all tasks".to_owned().into())
}

impl Use {
    /// Now.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn now(root: &Job) -> Result<Use, Failure> {
        let mut jobs = BTreeMap::new();
        let whole = note(root, &mut jobs)?;
        Ok(Use { whole, jobs })
    }

    /// Waits until no more is in use than was then.
    ///
    /// # Errors
    /// What has become more, in the whole system and by job.
    pub fn comes_back(&self, root: &Job) -> Outcome {
        let start = Instant::now();
        loop {
            let now = Use::now(root)?;
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

    /// What has become more since for each job.
    fn by_job(&self, before: &Use) -> Vec<String> {
        let line = |(koid, (name, now)): (&u64, &(String, Counts))| {
            let then = before.jobs.get(koid).map(|(_, then)| *then).unwrap_or_default();
            let more = more(&then, now, [0, 0]);
            (!more.is_empty()).then(|| format!("job {koid} ({name}): {}", more.join(", ")))
        };
        self.jobs.iter().filter_map(line).collect()
    }
}

/// What has become more, with some places for messages and bytes to spare.
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

/// Notes a job and what is below it.
fn note(job: &Job, jobs: &mut BTreeMap<u64, (String, Counts)>) -> Result<Counts, Failure> {
    let (name, mut counts) = (job.get_name()?, Counts { usage: job.usage()?, handles: 0 });
    let mut koids = [0; CHILDREN];
    let count = job.processes(&mut koids)?.actual.min(CHILDREN);
    for koid in &koids[..count] {
        // It may have ended meanwhile, as may jobs.
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

/// Handles that a process has; none where it has ended.
fn handles(process: &Handle) -> Result<u64, Failure> {
    let stats = process.info_record::<abi::zx_info_process_handle_stats_t>(abi::ZX_INFO_PROCESS_HANDLE_STATS);
    match stats {
        Ok(stats) => Ok(stats.handle_count.iter().map(|count| u64::from(*count)).sum()),
        Err(Status::BAD_STATE) => Ok(0),
        Err(status) => Err(status.into()),
    }
}
