//! What a suite's cases come to: counts, and a reason for everything that fails.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use super::Record;
use super::baseline::OfPackage;
use super::suite::{Case, Outcome};
use crate::paths::Paths;

const FILE: &str = "xtask/packages/reasons.toml";
/// How a reason begins for a case that needs a compiler, or another program of the host.
const HOST: &str = "host:";

/// `reasons.toml`: by package, by case, why it fails.
#[derive(Debug, Default, Deserialize)]
pub struct Reasons(BTreeMap<String, BTreeMap<String, String>>);

impl Reasons {
    /// Reads them.
    ///
    /// # Errors
    /// They are not in order.
    pub fn read(paths: &Paths) -> Result<Reasons> {
        let text = fs::read_to_string(paths.workspace.join(FILE)).with_context(|| format!("cannot read {FILE}"))?;
        toml::from_str(&text).with_context(|| format!("in {FILE}"))
    }

    /// Those of a package.
    pub fn of(&self, package: &str) -> BTreeMap<String, String> {
        self.0.get(package).cloned().unwrap_or_default()
    }
}

/// A case that did not pass, or was not there.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Program and name.
    pub name: String,
    /// Why, from the table of reasons.
    pub reason: Option<String>,
    /// What it said.
    pub said: String,
    /// How many cases this stands for.
    pub count: usize,
}

/// What came of a package.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Every case.
    pub record: Record,
    /// How many passed.
    pub passed: usize,
    /// What did not.
    pub failures: Vec<Failure>,
    /// What cannot be run here, because it starts a program of the host.
    pub host: Vec<Failure>,
    /// How many the package has ignored.
    pub ignored: usize,
    /// How many examples are only compiled.
    pub compiled: usize,
    /// Cases that pass, but have a reason to fail.
    pub surprises: Vec<String>,
    /// Whether the host's counts are known.
    pub compared: bool,
}

impl Verdict {
    /// Holds the cases against the host's counts and the reasons.
    pub fn new(record: Record, baseline: Option<OfPackage>, reasons: BTreeMap<String, String>) -> Verdict {
        let count = |outcome| record.cases.iter().filter(|case| case.outcome == outcome).count();
        let (passed, ignored, compiled) = (count(Outcome::Passed), count(Outcome::Ignored), count(Outcome::Compiled));
        let reason = |name: &str| reasons.get(name).cloned();
        let mut all: Vec<Failure> = Vec::new();
        for case in record.cases.iter().filter(|case| case.outcome == Outcome::Failed) {
            let name = case.full_name();
            all.push(Failure { reason: reason(&name), name, said: case.said.clone(), count: 1 });
        }
        let compared = baseline.is_some();
        for (program, expected) in baseline.map(|known| known.cases).unwrap_or_default() {
            let found = record.cases.iter().filter(|case| case.program == program && runs(case)).count();
            if let Some(count @ 1..) = expected.checked_sub(found) {
                let name = format!("{program}: (missing)");
                let said = format!(
                    "the host runs {expected} cases, the system {found}; a case may be compiled for the host's system only"
                );
                all.push(Failure { reason: reason(&name), name, said, count });
            }
        }
        let passes =
            |name: &String| record.cases.iter().any(|c| c.outcome == Outcome::Passed && c.full_name() == *name);
        let surprises = reasons.keys().filter(|name| passes(name)).cloned().collect();
        let of_host = |failure: &Failure| failure.reason.as_ref().is_some_and(|reason| reason.starts_with(HOST));
        let (host, failures) = all.into_iter().partition(of_host);
        Verdict { record, passed, failures, host, ignored, compiled, surprises, compared }
    }

    /// How many did not pass.
    pub fn failed(&self) -> usize {
        self.failures.iter().map(|failure| failure.count).sum()
    }

    /// Of a hundred that could.
    pub fn percentage(&self) -> f64 {
        percentage(self.passed, self.failed())
    }

    /// Whether each failure has a reason.
    pub fn explained(&self) -> bool {
        self.failures.iter().all(|failure| failure.reason.is_some())
    }
}

fn runs(case: &Case) -> bool {
    matches!(case.outcome, Outcome::Passed | Outcome::Failed)
}

/// Passed ones of a hundred.
pub fn percentage(passed: usize, failed: usize) -> f64 {
    if passed + failed == 0 { 100.0 } else { 100.0 * passed as f64 / (passed + failed) as f64 }
}
