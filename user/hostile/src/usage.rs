//! What is in use in the whole system, and by which jobs.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use abi::hafnon_info_job_usage_t;
use conformance::check::{Failure, Outcome};
use init::given;
use zx::{AsHandleRef, Info, Job, Rights};

/// How long what has ended may take until it is gone.
const SETTLING: Duration = Duration::from_secs(20);
/// What services may keep of memory for good, all together: their heaps do not shrink.
const KEPT: u64 = 8 << 20;
/// What channels may keep of places for messages: 32 each to spare.
const PLACES: u64 = 256;
/// Jobs in one job that are looked at.
const CHILDREN: usize = 256;

/// See the module's description.
pub struct Use {
    whole: hafnon_info_job_usage_t,
    /// By koid: the job's name and what it has.
    jobs: BTreeMap<u64, (String, hafnon_info_job_usage_t)>,
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
        note(root, &mut jobs)?;
        Ok(Use { whole: root.usage()?, jobs })
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
        let nothing = hafnon_info_job_usage_t::default();
        let line = |(koid, (name, now)): (&u64, &(String, hafnon_info_job_usage_t))| {
            let then = before.jobs.get(koid).map_or(&nothing, |(_, then)| then);
            let more = more(then, now, [0, 0]);
            (!more.is_empty()).then(|| format!("job {koid} ({name}): {}", more.join(", ")))
        };
        self.jobs.iter().filter_map(line).collect()
    }
}

/// What has become more, with some places for messages and bytes to spare.
fn more(then: &hafnon_info_job_usage_t, now: &hafnon_info_job_usage_t, [places, bytes]: [u64; 2]) -> Vec<String> {
    let pairs = [
        ("processes", then.processes, now.processes),
        ("threads", then.threads, now.threads),
        ("jobs", then.jobs, now.jobs),
        ("handles", then.handles, now.handles),
        ("messages", then.messages + places, now.messages),
        ("bytes", then.memory + bytes, now.memory),
    ];
    let more = pairs.into_iter().filter(|(_, then, now)| now > then);
    more.map(|(name, then, now)| format!("{name} {then} -> {now}")).collect()
}

/// Notes a job and what is below it.
fn note(job: &Job, jobs: &mut BTreeMap<u64, (String, hafnon_info_job_usage_t)>) -> Result<(), Failure> {
    let name = job.get_name()?;
    let name = String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned();
    jobs.insert(job.basic_info()?.koid, (name, job.usage()?));
    let mut koids = [0; CHILDREN];
    let count = job.children(&mut koids)?.actual.min(CHILDREN);
    for koid in &koids[..count] {
        // It may have ended meanwhile.
        if let Ok(child) = job.get_child(*koid, Rights::SAME_RIGHTS) {
            note(&Job::from(child), jobs)?;
        }
    }
    Ok(())
}
