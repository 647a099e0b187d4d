//! The tests that cannot pass on an installed kernel: `sel4/missing-features.toml`.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use sel4_gen::{Config, Kernel, Location};
use serde::Deserialize;

use xtask_build::kernel;

/// A feature that a kernel lacks, and the tests that need it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MissingFeature {
    /// What the kernel lacks, as a sentence for messages.
    pub why: String,
    /// Settings of the kernel: it lacks the feature only if it was configured with one of them, or with all of those that
    /// `&` joins. Without settings, all kernels lack it.
    #[serde(default)]
    pub with: Vec<String>,
    /// Conformance cases.
    #[serde(default)]
    pub cases: Vec<String>,
    /// Cases of the hostile programs.
    #[serde(default)]
    pub attacks: Vec<String>,
    /// Cases of the program that tests all C headers.
    #[serde(default)]
    pub headers: Vec<String>,
    /// Whole tests.
    #[serde(default)]
    pub tests: Vec<String>,
}

/// The features that the kernel of the system lacks; none, if it is the one that is built here.
///
/// # Errors
/// The list or the kernel's configuration cannot be read, or the system cannot run on the kernel.
pub fn here() -> Result<Vec<MissingFeature>> {
    let Some(prefix) = kernel::prefix() else { return Ok(Vec::new()) };
    let config = Kernel::load(&Location::Prefix(prefix))?.config;
    Ok(all()?.into_values().filter(|feature| feature.is_with(&config)).collect())
}

impl MissingFeature {
    fn is_with(&self, config: &Config) -> bool {
        let is_set = |settings: &String| settings.split('&').all(|setting| config.is_set(setting.trim()));
        self.with.is_empty() || self.with.iter().any(is_set)
    }
}

fn all() -> Result<BTreeMap<String, MissingFeature>> {
    toml::from_str(include_str!("../../../sel4/missing-features.toml")).context("in sel4/missing-features.toml")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_has_one_reason() {
        let features = all().unwrap();
        let names = |feature: &MissingFeature| {
            [&feature.cases, &feature.attacks, &feature.headers, &feature.tests].map(Clone::clone).concat()
        };
        let all: Vec<String> = features.values().flat_map(names).collect();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
        assert!(features.values().all(|feature| feature.why.len() > 20 && !names(feature).is_empty()));
    }

    #[test]
    fn some_are_only_there_with_settings() {
        let all = all().unwrap();
        let left_out = |settings: &str, attack: &str| {
            let config = Config::parse(settings).unwrap();
            let here = all.values().filter(|feature| feature.is_with(&config));
            here.flat_map(|feature| &feature.attacks).any(|one| one == attack)
        };
        let (release, debug) =
            ("#define CONFIG_FASTPATH 1\n", "#define CONFIG_FASTPATH 1\n#define CONFIG_DEBUG_BUILD 1\n");
        assert!(
            left_out(debug, "tamper.kernel.unknown_numbers") && !left_out(release, "tamper.kernel.unknown_numbers")
        );
        assert!([release, debug].iter().all(|settings| left_out(settings, "tamper.instructions.nested_task")));
        let lazy = |also: &str| {
            left_out(
                &format!("{release}#define CONFIG_FPU_MAX_RESTORES_SINCE_SWITCH 64\n{also}"),
                "tamper.vectors.saved",
            )
        };
        assert!(lazy("#define CONFIG_XSAVE 1\n") && !lazy("") && !left_out(release, "tamper.vectors.saved"));
    }
}
