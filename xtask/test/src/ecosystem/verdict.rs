//! Evaluates a suite's cases: counts, and a reason for every failure.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use super::Record;
use super::baseline::OfPackage;
use super::suite::{Case, Outcome};
use xtask_common::paths::Paths;

const FILE: &str = "xtask/test/packages/reasons.toml";
/// Prefix of the reason of a case that needs a compiler, or another program of the host.
const HOST: &str = "host:";

/// `reasons.toml`: the reason of each failing case, by package and case.
#[derive(Debug, Default, Deserialize)]
pub struct Reasons(BTreeMap<String, BTreeMap<String, String>>);

impl Reasons {
    /// Reads the reasons.
    ///
    /// # Errors
    /// The file cannot be parsed.
    pub fn read(paths: &Paths) -> Result<Reasons> {
        let text = fs::read_to_string(paths.workspace.join(FILE)).with_context(|| format!("cannot read {FILE}"))?;
        toml::from_str(&text).with_context(|| format!("in {FILE}"))
    }

    /// The reasons of a package.
    pub fn of(&self, package: &str) -> BTreeMap<String, String> {
        self.0.get(package).cloned().unwrap_or_default()
    }
}

/// A case that did not pass, or that is missing.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Program and name.
    pub name: String,
    /// The reason, from `reasons.toml`.
    pub reason: Option<String>,
    /// Its output.
    pub said: String,
    /// Number of cases that this entry stands for.
    pub count: usize,
}

/// The evaluation of a package.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Every case.
    pub record: Record,
    /// Number of cases that passed.
    pub passed: usize,
    /// Cases that did not pass.
    pub failures: Vec<Failure>,
    /// Cases that cannot run here, because they start a program of the host.
    pub host: Vec<Failure>,
    /// Number of cases that the package ignores.
    pub ignored: usize,
    /// Number of examples that are only compiled.
    pub compiled: usize,
    /// Cases that pass although they have a reason to fail.
    pub surprises: Vec<String>,
    /// Whether the host's counts are known.
    pub compared: bool,
}

impl Verdict {
    /// Compares the cases with the host's counts and the reasons.
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

    /// Number of cases that did not pass.
    pub fn failed(&self) -> usize {
        self.failures.iter().map(|failure| failure.count).sum()
    }

    /// Percentage of the cases that could pass.
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

/// Percentage of passes.
pub fn percentage(passed: usize, failed: usize) -> f64 {
    if passed + failed == 0 { 100.0 } else { 100.0 * passed as f64 / (passed + failed) as f64 }
}
