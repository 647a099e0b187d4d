//! Cases that an installed kernel cannot pass: `sel4/without.toml`.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use crate::kernel;

/// What a kernel lacks, and the cases that need it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lack {
    /// What it is.
    pub why: String,
    /// The cases.
    pub cases: Vec<String>,
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
    toml::from_str(include_str!("../../../sel4/without.toml")).context("in sel4/without.toml")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_case_has_one_reason() {
        let lacks = lacks().unwrap();
        let all: Vec<&String> = lacks.values().flat_map(|lack| &lack.cases).collect();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
        assert!(lacks.values().all(|lack| lack.why.len() > 20 && !lack.cases.is_empty()));
    }
}
