//! What is in use in the whole system, and by which jobs.

use std::collections::BTreeMap;

use abi::hafnon_info_job_usage_t;
use conformance::check::Failure;
use zx::{AsHandleRef, Info, Job, Rights};

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

impl Use {
    /// Now.
    pub fn now(root: &Job) -> Result<Use, Failure> {
        let mut jobs = BTreeMap::new();
        note(root, &mut jobs)?;
        Ok(Use { whole: root.usage()?, jobs })
    }

    /// What has become more since.
    pub fn since(&self, before: &Use) -> Vec<String> {
        more(&before.whole, &self.whole, [PLACES, KEPT])
    }

    /// The same for each job.
    pub fn by_job(&self, before: &Use) -> Vec<String> {
        let nothing = hafnon_info_job_usage_t::default();
        let line = |(koid, (name, now)): (&u64, &(String, hafnon_info_job_usage_t))| {
            let then = before.jobs.get(koid).map_or(&nothing, |(_, then)| then);
            let more = more(then, now, [0, 0]);
            (!more.is_empty()).then(|| format!("fuzz: job {koid} ({name}): {}", more.join(", ")))
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
