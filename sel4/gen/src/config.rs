//! The kernel's configuration: the `CONFIG_…` macros of `autoconf.h` (5.0.0) or `gen_config.h` (13 and later).

use std::collections::BTreeMap;
use std::path::Path;

use crate::error::{Error, read};

/// The defined macros, without their prefix `CONFIG_`; a macro without a number counts as 1.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Config(BTreeMap<String, i64>);

impl Config {
    /// Reads the `#define CONFIG_…` lines of a header.
    pub fn from_file(path: &Path) -> Result<Self, Error> {
        Self::parse(&read(path)?).map_err(|text| Error::Syntax {
            path: path.into(),
            text,
            what: "unreadable definition",
        })
    }

    /// As [`Config::from_file`], from the text itself; the error is the offending line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut values = BTreeMap::new();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            if words.next() != Some("#define") {
                continue;
            }
            let Some(name) = words.next().and_then(|name| name.strip_prefix("CONFIG_")) else { continue };
            if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
                return Err(line.into());
            }
            // A string or another macro is no number; for those only the definition matters.
            let value = words.next().map_or(Some(1), number).unwrap_or(1);
            values.insert(name.to_owned(), value);
        }
        Ok(Self(values))
    }

    /// Whether the macro is defined.
    pub fn is_set(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The macro's number.
    pub fn number(&self, name: &str) -> Option<i64> {
        self.0.get(name).copied()
    }

    /// All macros in alphabetical order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }

    /// Adds macros that another header defines. On conflict the new one wins.
    pub fn extend(&mut self, other: Config) {
        self.0.extend(other.0);
    }
}

/// A C integer literal.
pub(crate) fn number(text: &str) -> Option<i64> {
    let digits = text.trim_end_matches(['u', 'U', 'l', 'L']);
    match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => i64::from_str_radix(hex, 16).ok(),
        None => digits.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_definitions() {
        let config = Config::parse("#pragma once\n#define CONFIG_A 1\n#define CONFIG_N  0x40\n/* disabled: CONFIG_B */\n#define CONFIG_S \"x y\"\n#define CONFIG_F\n#define OTHER 3\n").unwrap();
        assert_eq!(config.number("A"), Some(1));
        assert_eq!(config.number("N"), Some(64));
        assert!(config.is_set("S") && config.is_set("F"));
        assert!(!config.is_set("B") && !config.is_set("OTHER"));
    }

    #[test]
    fn names_the_bad_line() {
        assert!(Config::parse("#define CONFIG_A(x) 1").is_err());
    }
}
