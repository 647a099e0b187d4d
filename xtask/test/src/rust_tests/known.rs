//! The table of cases that do not pass: `xtask/test/rust-tests/known.toml`.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::{SUITES, Suite};
use xtask_common::paths::Paths;

const FILE: &str = "xtask/test/rust-tests/known.toml";

/// By suite: the cases with their reasons.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct Known {
    suites: BTreeMap<String, Lists>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Lists {
    /// Cases that fail.
    #[serde(default)]
    fails: BTreeMap<String, String>,
    /// Cases that are not run, because they would break other cases or the machine.
    #[serde(default)]
    left: BTreeMap<String, String>,
}

impl Known {
    /// Reads the table.
    ///
    /// # Errors
    /// It cannot be read or parsed.
    pub fn read(paths: &Paths) -> Result<Known> {
        let text = fs::read_to_string(paths.workspace.join(FILE)).with_context(|| format!("cannot read {FILE}"))?;
        let known: Known = toml::from_str(&text).with_context(|| format!("in {FILE}"))?;
        for name in known.suites.keys() {
            if !SUITES.iter().any(|suite| suite.name == name) {
                bail!("{FILE}: there is no suite `{name}`");
            }
        }
        Ok(known)
    }

    /// Why a case does not pass.
    pub fn reason(&self, suite: &Suite, case: &str) -> Option<&str> {
        let lists = self.suites.get(suite.name)?;
        lists.fails.get(case).or_else(|| lists.left.get(case)).map(String::as_str)
    }

    /// The names of a suite's cases in the table.
    pub fn of(&self, suite: &Suite) -> impl Iterator<Item = &str> {
        let lists = self.suites.get(suite.name);
        lists.into_iter().flat_map(|lists| lists.fails.keys().chain(lists.left.keys())).map(String::as_str)
    }

    /// Cases of a program that are not run, without the program's name.
    pub fn left(&self, suite: &Suite, program: &str) -> Vec<&str> {
        let names = self.suites.get(suite.name).into_iter().flat_map(|lists| lists.left.keys());
        names.filter_map(|name| name.strip_prefix(program)?.strip_prefix("::")).collect()
    }
}
