//! The components by short names: `components.toml`, which is part of this tool.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use serde::Deserialize;

/// A part of a rump kernel that can be chosen.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Component {
    /// Its library, without `lib` and `.a`.
    pub library: String,
    /// The components that it needs.
    pub needs: Vec<String>,
    /// What it is.
    pub what: String,
}

/// All, by short name.
pub fn all() -> &'static BTreeMap<String, Component> {
    static ALL: OnceLock<BTreeMap<String, Component>> = OnceLock::new();
    // A unit test reads the same text.
    ALL.get_or_init(|| toml::from_str(include_str!("components.toml")).unwrap_or_default())
}

/// The short name of a library; none for a library that the table does not know.
pub fn of_library(library: &str) -> Option<&'static str> {
    all().iter().find(|(_, component)| component.library == library).map(|(name, _)| name.as_str())
}

/// The name by which a user asks for a library: its short name, or else its own.
pub fn name(library: &str) -> &str {
    of_library(library).unwrap_or(library)
}

/// The libraries of the components in `wanted`, which are short names or libraries of their own, with those that they
/// need, and the base library. `known` are the libraries of the prefix.
///
/// # Errors
/// A name is neither.
pub fn closure(wanted: &[String], known: &BTreeSet<&str>) -> Result<BTreeSet<String>, String> {
    let mut libraries = BTreeSet::from([super::prefix::BASE.to_string()]);
    let mut open: Vec<&str> = wanted.iter().map(String::as_str).collect();
    let mut seen = BTreeSet::new();
    while let Some(name) = open.pop() {
        if !seen.insert(name) {
            continue;
        }
        // `librumpfs_tmpfs.a` and `-lrumpfs_tmpfs` are what other tools call it.
        let bare = name.trim_start_matches("-l").trim_start_matches("lib").trim_end_matches(".a");
        let component = all().get(name).or_else(|| all().get(of_library(bare)?));
        match component {
            Some(component) => {
                libraries.insert(component.library.clone());
                open.extend(component.needs.iter().map(String::as_str));
            }
            None if known.contains(bare) => {
                libraries.insert(bare.to_string());
            }
            None => return Err(unknown(name)),
        }
    }
    Ok(libraries)
}

fn is_close(one: &str, other: &str) -> bool {
    const LETTERS: usize = 3;
    one.len().min(other.len()) >= LETTERS && (one.starts_with(other) || other.starts_with(one))
}

fn unknown(name: &str) -> String {
    let close: Vec<&str> = all().keys().map(String::as_str).filter(|known| is_close(known, name)).collect();
    let hint = if close.is_empty() { String::new() } else { format!(" (is it {}?)", close.join(" or ")) };
    format!("there is no component `{name}`{hint}; `./hafnon rump check PREFIX` lists those of a prefix")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed(wanted: &[&str]) -> Result<BTreeSet<String>, String> {
        let wanted: Vec<String> = wanted.iter().map(ToString::to_string).collect();
        closure(&wanted, &BTreeSet::from(["rump", "rumpfs_new"]))
    }

    #[test]
    fn the_table_is_whole() {
        let all: BTreeMap<String, Component> = toml::from_str(include_str!("components.toml")).expect("a table");
        assert!(all.len() > 70);
        let mut libraries = BTreeSet::new();
        for (name, component) in &all {
            assert!(libraries.insert(&component.library), "{name}: another component has its library");
            assert!(!component.what.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric()), "{name}");
            for needed in &component.needs {
                assert!(all.contains_key(needed), "{name} needs {needed}, which is not there");
            }
            assert!(closed(&[name]).expect("known").contains(&component.library), "{name}");
        }
    }

    #[test]
    fn components_bring_what_they_need() {
        let libraries = closed(&["ext2fs"]).expect("known");
        assert_eq!(
            libraries.iter().map(String::as_str).collect::<Vec<_>>(),
            ["rump", "rumpdev", "rumpdev_disk", "rumpfs_ext2fs", "rumpfs_ffs", "rumpvfs"]
        );
        assert_eq!(closed(&["-lrumpfs_ext2fs"]), Ok(libraries.clone()));
        assert_eq!(closed(&["librumpfs_ext2fs.a"]), Ok(libraries));
        assert_eq!(closed(&[]), Ok(BTreeSet::from(["rump".to_string()])));
    }

    #[test]
    fn a_library_without_a_short_name_is_found_by_its_own() {
        assert_eq!(closed(&["rumpfs_new"]), Ok(BTreeSet::from(["rump".to_string(), "rumpfs_new".to_string()])));
        let why = closed(&["rumpfs_newer"]).expect_err("unknown");
        assert!(why.contains("no component `rumpfs_newer`"), "{why}");
        let why = closed(&["ext2"]).expect_err("unknown");
        assert!(why.contains("is it ext2fs?"), "{why}");
    }
}
