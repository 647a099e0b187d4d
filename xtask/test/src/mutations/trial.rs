//! Boots the system with one fault and checks whether a case fails.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use super::plant::{Mutant, Root};
use xtask_build::Built;
use xtask_build::devices::Devices;
use xtask_build::image::{Image, Mode};
use xtask_conformance::{MEMORY, PROGRAM};
use xtask_run::args::Accel;
use xtask_run::link::Frame;
use xtask_run::qemu::Machine;
use xtask_run::session::{End, Session, Streams};

/// Time limit of a case; exceeding it is a failure.
const CASE_TIME: Duration = Duration::from_secs(10);
/// Maximum time without output; exceeding it is a failure.
const QUIET: Duration = Duration::from_secs(20);
/// Time limit of all cases.
const ALL_TIME: Duration = Duration::from_secs(900);

/// The result of a fault.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Verdict {
    /// The fault.
    #[serde(flatten)]
    pub mutant: Mutant,
    /// The case that failed, or another problem; `None` if the fault was not noticed.
    pub caught_by: Option<String>,
    /// Duration in seconds.
    pub seconds: f64,
}

/// The cases to try, and how.
pub struct Trial<'a> {
    /// The system with faults.
    pub built: &'a Built,
    /// Its root task.
    pub root: &'a Root,
    /// The groups, the quick ones first.
    pub groups: Vec<String>,
    /// Cases that also fail without a fault.
    pub without: Vec<String>,
}

/// The result of a boot.
struct Boot {
    /// Cases and whether they passed, in order.
    cases: Vec<(String, bool)>,
    /// A problem other than failed cases.
    wrong: Option<String>,
}

impl Trial<'_> {
    /// Runs the system without a fault: learns the groups, their durations and the cases that fail anyway.
    ///
    /// # Errors
    /// It does not boot or does not run to its end.
    pub fn baseline(&mut self, scratch: &Path) -> Result<usize> {
        let mut times = BTreeMap::new();
        let mut count = 0;
        let groups: Vec<String> =
            xtask_conformance::list(self.built)?.iter().map(|c| xtask_conformance::group(c).into()).collect();
        for group in groups {
            if times.contains_key(&group) {
                continue;
            }
            let start = Instant::now();
            let boot = self.boot(0, &[format!("{group}.")], false, scratch)?;
            if let Some(wrong) = boot.wrong {
                anyhow::bail!("without a fault, the group {group} does not get to its end: {wrong}");
            }
            times.insert(group, start.elapsed());
            count += boot.cases.len();
            self.without.extend(boot.cases.into_iter().filter(|(_, ok)| !ok).map(|(case, _)| case));
        }
        let mut groups: Vec<(Duration, String)> = times.into_iter().map(|(group, time)| (time, group)).collect();
        groups.sort();
        self.groups = groups.into_iter().map(|(_, group)| group).collect();
        Ok(count)
    }

    /// Tries a fault: first the cases of its noun, then all others, until one fails.
    ///
    /// # Errors
    /// The machine cannot be started.
    pub fn judge(&self, mutant: &Mutant, scratch: &Path) -> Result<Verdict> {
        let start = Instant::now();
        let near = near(&mutant.file);
        let mut order: Vec<&String> = self.groups.iter().filter(|group| near.contains(&group.as_str())).collect();
        order.extend(self.groups.iter().filter(|group| !near.contains(&group.as_str())));
        let prefixes: Vec<String> = order.into_iter().map(|group| format!("{group}.")).collect();
        let boot = self.boot(mutant.number, &prefixes, true, scratch)?;
        let failed = boot.cases.into_iter().find(|(_, ok)| !ok).map(|(case, _)| case);
        let caught_by = failed.or(boot.wrong);
        Ok(Verdict { mutant: mutant.clone(), caught_by, seconds: start.elapsed().as_secs_f64() })
    }

    fn boot(&self, number: u32, prefixes: &[String], stop: bool, scratch: &Path) -> Result<Boot> {
        self.root.write(number, scratch)?;
        let mut args: Vec<String> = vec!["--timeout".into(), CASE_TIME.as_millis().to_string()];
        args.extend(stop.then(|| "--stop".to_string()));
        self.without.iter().for_each(|case| args.extend(["--without".to_string(), case.clone()]));
        args.extend(prefixes.iter().cloned());
        let mut image = Image::new(self.built, true, &Devices::default())?;
        let time = ALL_TIME.as_millis();
        image.add("config/tests", format!("trial\t{time}\t0\t{PROGRAM}\t{}\n", args.join("\t")))?;
        let image = image.finish(&Mode::Test, &[])?;
        let machine = Machine {
            kernel: &self.built.kernel,
            root: scratch,
            image: &image,
            memory: MEMORY,
            accel: Accel::Tcg,
            gdb: None,
            devices: Devices { teaching: true, ..Devices::default() },
            linux: None,
        };
        let session = Session {
            machine,
            timeout: Some(ALL_TIME + Duration::from_secs(30)),
            quiet: Some(QUIET),
            verbose: false,
            streams: Streams::Captured(Vec::new()),
            until_first_output: false,
        };
        let outcome = session.run().context("cannot boot")?;
        let (mut cases, mut wrong, mut failed, mut ended) = (Vec::new(), None, false, false);
        for frame in &outcome.transcript {
            let Frame::Event(event) = frame else { continue };
            let fields: Vec<&str> = event.trim_end().split('\t').collect();
            match fields.as_slice() {
                ["case", "trial", result, detail @ ..] => {
                    ended = true;
                    failed = *result != "ok";
                    // A failed case has already reported itself.
                    wrong = (failed && detail != ["returned 1, expected 0"]).then(|| detail.join(" "));
                }
                ["case", name, result, ..] => {
                    cases.extend(name.split_once('/').map(|(_, case)| (case.to_string(), *result == "ok")));
                }
                _ => {}
            }
        }
        let silent = failed && cases.iter().all(|(_, ok)| *ok);
        let wrong = wrong.or(match outcome.end {
            End::Exit(_) if !ended || silent => Some("the results do not get through".into()),
            End::Exit(_) => None,
            End::TimedOut => Some("the system does not answer any more".into()),
            End::Stopped(why) => Some(format!("the system stopped: {}", why.lines().next().unwrap_or_default())),
            end => Some(format!("{end:?}")),
        });
        Ok(Boot { cases, wrong })
    }
}

/// The groups that most likely detect a fault in a file.
fn near(file: &str) -> Vec<&str> {
    let path = file.trim_end_matches(".rs");
    let name = path.rsplit('/').next().unwrap_or(path);
    let more: &[&str] = match name {
        "aspace" | "pages" | "usermem" => &["vmar", "vmo"],
        "deadline" => &["timer", "wait", "object", "futex"],
        "handle" | "slab" | "kernel" | "object" | "cx" => &["handle", "object"],
        "wait" | "pair" | "observer" => &["object", "wait", "port"],
        "property" => &["object", "property", "process", "job", "thread"],
        "debuglog" => &["system", "resource"],
        "suspend_token" | "suspend" => &["task", "thread", "suspend"],
        "task" | "policy" | "life" => &["job", "process", "thread", "task"],
        _ if path.contains("/info/") => &["info", "object", "job", "process", "thread", "handle"],
        _ => &[],
    };
    // A noun may have a folder, whose files belong to it.
    path.split('/').rev().take(2).chain(more.iter().copied()).collect()
}
