//! What cannot pass on an installed kernel: `sel4/without.toml`.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use crate::kernel;

/// What a kernel lacks, and what needs it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lack {
    /// What it is.
    pub why: String,
    /// Conformance cases.
    #[serde(default)]
    pub cases: Vec<String>,
    /// Cases of the programs that attack.
    #[serde(default)]
    pub attacks: Vec<String>,
    /// Whole tests.
    #[serde(default)]
    pub tests: Vec<String>,
}

/// What the kernel lacks that the system runs on; nothing, if it is the one that is built here.
///
/// # Errors
/// The list cannot be read.
pub fn here() -> Result<Vec<Lack>> {
    match kernel::prefix() {
        Some(_) => Ok(lacks()?.into_values().collect()),
        None => Ok(Vec::new()),
    }
}

fn lacks() -> Result<BTreeMap<String, Lack>> {
    toml::from_str(include_str!("../../sel4/without.toml")).context("in sel4/without.toml")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_has_one_reason() {
        let lacks = lacks().unwrap();
        let names = |lack: &Lack| [&lack.cases, &lack.attacks, &lack.tests].map(Clone::clone).concat();
        let all: Vec<String> = lacks.values().flat_map(names).collect();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
        assert!(lacks.values().all(|lack| lack.why.len() > 20 && !names(lack).is_empty()));
    }
}
