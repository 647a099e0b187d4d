//! The table of the names of Zircon's own cases: `tests/conformance/core-tests.toml`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use xtask_common::paths::Paths;

/// Maximum number of excused names.
pub const MOST_EXCUSED: usize = 60;
/// Number of names in the table: those of the first count, the newer ones about restricted mode, and those of 2025.
pub const NAMES: usize = 859 + 13 + 62;

/// How one of Zircon's cases is covered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Not yet.
    Open,
    /// By these cases of ours, all of which must pass.
    Cases(Vec<String>),
    /// Today's Zircon behaves differently: how, and the cases of ours that check that, if there are any.
    Changed {
        /// How.
        how: String,
        /// The cases of ours.
        cases: Vec<String>,
    },
    /// Not possible here, for this reason.
    Excused(String),
}

impl Entry {
    /// The cases of ours that the entry names.
    pub fn cases(&self) -> &[String] {
        match self {
            Entry::Cases(cases) | Entry::Changed { cases, .. } => cases,
            Entry::Open | Entry::Excused(_) => &[],
        }
    }
}

/// A value in the file.
#[derive(Deserialize)]
#[serde(untagged)]
enum Value {
    One(String),
    All(Vec<String>),
    Changed(Changed),
    Excused(Excused),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Changed {
    changed: String,
    #[serde(default)]
    today: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Excused {
    excused: String,
}

/// The suites and their names.
#[derive(Clone, Debug)]
pub struct Table {
    /// By suite, then by name.
    pub suites: BTreeMap<String, BTreeMap<String, Entry>>,
}

impl Table {
    /// Reads the table.
    ///
    /// # Errors
    /// It cannot be read, has a name twice, or has an invalid value.
    pub fn read(paths: &Paths) -> Result<Table> {
        let file = paths.workspace.join("tests/conformance/core-tests.toml");
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        Table::parse(&text).with_context(|| format!("in {}", paths.short(&file).display()))
    }

    fn parse(text: &str) -> Result<Table> {
        let suites: BTreeMap<String, BTreeMap<String, Value>> = toml::from_str(text)?;
        let entry = |value| match value {
            Value::One(case) if case.is_empty() => Entry::Open,
            Value::One(case) => Entry::Cases(vec![case]),
            Value::All(cases) if cases.is_empty() => Entry::Open,
            Value::All(cases) => Entry::Cases(cases),
            Value::Changed(Changed { changed: how, today: cases }) => Entry::Changed { how, cases },
            Value::Excused(Excused { excused }) => Entry::Excused(excused),
        };
        let names = |names: BTreeMap<String, Value>| names.into_iter().map(|(name, value)| (name, entry(value)));
        Ok(Table { suites: suites.into_iter().map(|(suite, all)| (suite, names(all).collect())).collect() })
    }

    /// Every name: suite, name, entry.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &str, &Entry)> {
        let suites = self.suites.iter();
        suites.flat_map(|(suite, names)| names.iter().map(|(name, entry)| (suite.as_str(), name.as_str(), entry)))
    }

    /// The errors of the table, given the existing cases.
    pub fn problems(&self, cases: &BTreeSet<&str>) -> Vec<String> {
        let mut problems = Vec::new();
        let mut excused = 0;
        for (suite, name, entry) in self.entries() {
            let missing = entry.cases().iter().filter(|case| !cases.contains(case.as_str()));
            problems.extend(missing.map(|case| format!("{suite}.{name}: there is no case `{case}`")));
            match entry {
                Entry::Changed { how, .. } if how.trim().is_empty() => {
                    problems.push(format!("{suite}.{name}: changed, and not said how"));
                }
                Entry::Excused(why) if why.trim().is_empty() => {
                    problems.push(format!("{suite}.{name}: excused without a reason"));
                }
                Entry::Excused(_) => excused += 1,
                Entry::Open | Entry::Cases(_) | Entry::Changed { .. } => {}
            }
        }
        let total = self.entries().count();
        if total != NAMES {
            problems.push(format!("it has {total} names, expected {NAMES}"));
        }
        if excused > MOST_EXCUSED {
            problems.push(format!("{excused} names are excused, at most {MOST_EXCUSED} may be"));
        }
        problems
    }
}

/// Whether a suite is about memory or devices, which are counted separately.
pub fn memory_or_devices(suite: &str) -> bool {
    ["Bti", "Interrupt", "MemoryMapping", "Msi", "Pager", "ProgressiveClone", "SchedulerProfile", "Stream"]
        .iter()
        .chain(&["SystemEvent", "Vmar", "Vmo"])
        .any(|begin| suite.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        let text = "[A]\na = \"\"\nb = \"x.y.z\"\nc = [\"x.y.z\", \"x.y.w\"]\nd = { excused = \"no such device\" }\n\
                    e = { changed = \"no such call\" }\nf = { changed = \"other answer\", today = [\"x.y.v\"] }\n";
        let table = Table::parse(text).unwrap();
        let entries: Vec<_> = table.entries().map(|(_, name, entry)| (name, entry.clone())).collect();
        assert_eq!(entries[0], ("a", Entry::Open));
        assert_eq!(entries[1], ("b", Entry::Cases(vec!["x.y.z".into()])));
        assert_eq!(entries[2], ("c", Entry::Cases(vec!["x.y.z".into(), "x.y.w".into()])));
        assert_eq!(entries[3], ("d", Entry::Excused("no such device".into())));
        assert_eq!(entries[4], ("e", Entry::Changed { how: "no such call".into(), cases: vec![] }));
        assert_eq!(entries[5], ("f", Entry::Changed { how: "other answer".into(), cases: vec!["x.y.v".into()] }));
        let problems = table.problems(&["x.y.z"].into());
        let of_names = format!("it has 6 names, expected {NAMES}");
        assert_eq!(problems, ["A.c: there is no case `x.y.w`", "A.f: there is no case `x.y.v`", &of_names]);
    }

    #[test]
    fn what_is_not_said_why() {
        let table = Table::parse("[A]\na = { excused = \" \" }\nb = { changed = \"\" }\n").unwrap();
        let problems = table.problems(&BTreeSet::new());
        assert_eq!(problems[..2], ["A.a: excused without a reason", "A.b: changed, and not said how"]);
    }

    const BOTH: &str = "a = { changed = \"x\", excused = \"y\" }";

    #[test]
    fn what_is_no_value() {
        for wrong in ["a = 1", "a = { excuse = \"\" }", "a = \"\"\na = \"\"", "a = { today = [] }", BOTH] {
            assert!(Table::parse(&format!("[A]\n{wrong}\n")).is_err(), "{wrong} was taken");
        }
    }
}
