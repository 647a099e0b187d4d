//! The number of cases of each test program on the host. It shows when a case is silently missing in the system.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use super::suite::Outcome;
use super::{Package, Record, Session, TestPlace};
use xtask_common::paths::Paths;

const FILE: &str = "xtask/test/packages/baseline.toml";
const HEAD: &str = "# How many cases of each test program the host runs, and which of them fail there. Written by\n\
    # `./hafnon test ecosystem --host`.\n\n";

/// By package.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Baseline(BTreeMap<String, OfPackage>);

/// The results of one package on the host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OfPackage {
    /// The version of the package.
    pub version: String,
    /// Number of cases that run, by program, without ignored ones and those that are only compiled.
    pub cases: BTreeMap<String, usize>,
    /// Cases that fail on the host.
    #[serde(default)]
    pub failed: Vec<String>,
}

impl Baseline {
    /// Reads the file.
    ///
    /// # Errors
    /// It cannot be parsed.
    pub fn read(paths: &Paths) -> Result<Baseline> {
        match fs::read_to_string(paths.workspace.join(FILE)) {
            Ok(text) => toml::from_str(&text).with_context(|| format!("in {FILE}")),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Baseline::default()),
            Err(error) => Err(error).with_context(|| format!("cannot read {FILE}")),
        }
    }

    /// Creates it from a run on the host.
    pub fn from_record(record: &Record) -> Baseline {
        Baseline([(record.name.clone(), OfPackage::new(record))].into())
    }

    /// The results of this package in this version.
    pub fn of(&self, package: &Package) -> Option<OfPackage> {
        self.0.get(&package.name).filter(|known| known.version == package.version).cloned()
    }
}

impl OfPackage {
    fn new(record: &Record) -> OfPackage {
        let mut new = OfPackage { version: record.version.clone(), ..OfPackage::default() };
        for case in &record.cases {
            match case.outcome {
                Outcome::Passed => *new.cases.entry(case.program.clone()).or_default() += 1,
                Outcome::Failed => {
                    *new.cases.entry(case.program.clone()).or_default() += 1;
                    new.failed.push(case.full_name());
                }
                Outcome::Ignored | Outcome::Compiled => {}
            }
        }
        new
    }
}

/// Runs suites on the host and records the results; returns whether all cases passed there.
///
/// # Errors
/// A suite does not build.
pub fn record(paths: &Paths, session: &Session<'_>, packages: &[&Package]) -> Result<bool> {
    let mut fine = true;
    for package in packages {
        let record = session.run(package, TestPlace::Host, &[])?;
        let seconds = record.seconds;
        let new = OfPackage::new(&record);
        let count: usize = new.cases.values().sum();
        println!("{} {}: {count} cases, {} failed ({seconds:.0} s)", package.name, package.version, new.failed.len());
        new.failed.iter().for_each(|name| println!("    {name}"));
        fine &= new.failed.is_empty();
        let mut all = Baseline::read(paths)?;
        all.0.insert(package.name.clone(), new);
        let text = format!("{HEAD}{}", toml::to_string(&all).context("cannot write the host's counts")?);
        fs::write(paths.workspace.join(FILE), text).with_context(|| format!("cannot write {FILE}"))?;
    }
    Ok(fine)
}
