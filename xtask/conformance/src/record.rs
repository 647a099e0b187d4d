//! The results of the last runs of the conformance cases: `target/hafnon/conformance.json`.
//!
//! A run of all cases starts a new record. A run of some cases updates their results and is noted as such.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use super::{CaseReport, Detail};
use xtask_build::Built;
use xtask_common::files::write_if_changed;
use xtask_common::paths::Paths;

/// A run: of which tree, and when.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Run {
    /// The commit of the tree, with a `+` if files differed from it.
    pub commit: String,
    /// Seconds since 1970.
    pub time: u64,
    /// The prefixes of the cases; empty for all of them.
    pub prefixes: Vec<String>,
}

/// The known results.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Record {
    /// The last run of all cases first, then runs of some since.
    pub runs: Vec<Run>,
    /// Each case, and its error.
    pub cases: BTreeMap<String, Detail>,
    /// Groups that did not run to their end in the last run, and why.
    pub broken: BTreeMap<String, String>,
}

impl Record {
    fn file(paths: &Paths) -> PathBuf {
        paths.out.join("conformance.json")
    }

    /// The record, if all cases have been run at least once.
    pub fn read(paths: &Paths) -> Option<Record> {
        let record: Record = serde_json::from_slice(&fs::read(Record::file(paths)).ok()?).ok()?;
        record.runs.first().is_some_and(|run| run.prefixes.is_empty()).then_some(record)
    }

    /// Runs cases and records their results.
    ///
    /// # Errors
    /// As [`super::run`], or the record cannot be written.
    pub fn run(
        paths: &Paths,
        built: &Built,
        prefixes: &[String],
        mut news: impl FnMut(&CaseReport<'_>),
    ) -> Result<Record> {
        let mut record = if prefixes.is_empty() { Record::default() } else { Record::read(paths).unwrap_or_default() };
        record.runs.push(Run { commit: commit(paths), time: now(), prefixes: prefixes.to_vec() });
        let begins = |case: &str| prefixes.iter().any(|prefix| case.starts_with(prefix.as_str()));
        record.cases.retain(|case, _| !begins(case));
        record.broken.retain(|group, _| !begins(&format!("{group}.")));
        super::run(built, prefixes, |event| {
            news(&event);
            match event {
                CaseReport::Case(case, detail) => drop(record.cases.insert(case.to_string(), detail.clone())),
                CaseReport::Broken(group, why) => drop(record.broken.insert(group.to_string(), why.to_string())),
            }
        })?;
        let text = serde_json::to_vec_pretty(&record).context("cannot write the record")?;
        write_if_changed(&Record::file(paths), &text)?;
        Ok(record)
    }

    /// A description of the last run.
    pub fn when(&self) -> String {
        let Some(run) = self.runs.first() else { return "never".into() };
        let minutes = now().saturating_sub(run.time) / 60;
        let ago = match minutes {
            0 => "just now".to_string(),
            1..120 => format!("{minutes} min ago"),
            _ => format!("{} h ago", minutes / 60),
        };
        let since = match self.runs.len() - 1 {
            0 => String::new(),
            count => format!(", {count} runs of some cases since"),
        };
        format!("of {}, {ago}{since}", run.commit)
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// The tree's commit, or `unknown` if it has none.
pub fn commit(paths: &Paths) -> String {
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).current_dir(&paths.workspace).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
    };
    match (git(&["rev-parse", "--short", "HEAD"]), git(&["status", "--porcelain", "--untracked-files=no"])) {
        (Some(commit), Some(changes)) if changes.is_empty() => commit,
        (Some(commit), _) => format!("{commit}+"),
        (None, _) => "unknown".into(),
    }
}
