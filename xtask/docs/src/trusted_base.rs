//! `trusted-base`: the amount of code that must be right for others to be safe, by part; docs/security.md contains the
//! table.
//!
//! A line counts if it contains anything except comments. Tests do not count: code after `#[cfg(test)]` at a file's
//! end, files of tests, and the machine that only tests use. Packages count in full, used or not.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use xtask_build::cargo::{self, BARE_TARGET};
use xtask_build::kernel;
use xtask_common::paths::Paths;

/// By how much a figure on the page may deviate before it must be updated, in percent.
const OFF: u64 = 20;

/// A part of the base.
struct Part {
    name: &'static str,
    /// Folders and files of the tree.
    places: &'static [&'static str],
    /// What depends on it for its safety.
    whose: &'static str,
}

const ALL: &str = "everything on the machine";
const INSTANCE: &str = "the programs of its instance";
const PARTS: [Part; 7] = [
    Part {
        name: "root task, with the reading of the system description",
        places: &["root/src", "description/src"],
        whose: ALL,
    },
    Part { name: "the binding to the kernel", places: &["sel4/src"], whose: ALL },
    Part {
        name: "server: the machine on seL4 (where its unsafe code is)",
        places: &["server/src/machine", "server/src/main.rs", "server/boot/src"],
        whose: INSTANCE,
    },
    Part { name: "server: calls and faults", places: &["server/src/syscalls", "server/src/*.rs"], whose: INSTANCE },
    Part { name: "objects", places: &["objects/src"], whose: INSTANCE },
    Part {
        name: "definitions, processargs, traces",
        places: &["abi/src", "runtime/processargs/src", "runtime/fxt/src"],
        whose: INSTANCE,
    },
    Part {
        name: "userboot and init, which start programs and hold all rights",
        places: &[
            "runtime/userboot/src",
            "runtime/bootfs/src",
            "runtime/process-builder/src",
            "services/service/src",
            "services/init/src",
        ],
        whose: INSTANCE,
    },
];

/// The number of lines of a part. `grep unsafe` shows how many of them are in unsafe blocks or functions.
struct Row {
    name: String,
    lines: u64,
    whose: String,
}

/// Prints the table.
///
/// # Errors
/// A file cannot be read, or the kernel's tree cannot be fetched.
pub fn trusted_base(paths: &Paths) -> Result<u8> {
    for Row { name, lines, whose } in rows(paths)? {
        println!("{lines:>7}  {name} ({whose})");
    }
    Ok(0)
}

/// The table; the old one, if no figure deviates by more than a fifth.
///
/// # Errors
/// As [`trusted_base`].
pub fn part(paths: &Paths, old: &str) -> Result<String> {
    let rows = rows(paths)?;
    if is_near(old, &rows) {
        return Ok(old.into());
    }
    let mut table = String::from("| part | lines | who relies on it |\n|---|---|---|\n");
    for Row { name, lines, whose } in &rows {
        let _ = writeln!(table, "| {name} | {lines} | {whose} |");
    }
    Ok(table)
}

/// Whether a table has these rows, with figures close to these.
fn is_near(table: &str, rows: &[Row]) -> bool {
    let found: Vec<(&str, u64, &str)> = table.lines().skip(2).filter_map(row).collect();
    found.len() == rows.len()
        && found.iter().zip(rows).all(|((name, lines, whose), row)| {
            *name == row.name && *whose == row.whose && lines.abs_diff(row.lines) * 100 <= row.lines * OFF
        })
}

fn row(line: &str) -> Option<(&str, u64, &str)> {
    let mut fields = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ");
    Some((fields.next()?, fields.next()?.parse().ok()?, fields.next()?))
}

fn rows(paths: &Paths) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let patches = files(&paths.workspace.join("kernel/patches"), &["patch"])?;
    let patched: u64 = patches.iter().map(|patch| added(patch)).sum::<Result<u64>>()?;
    let source = kernel::source(paths)?;
    let all = kernel_files(&source)?.iter().map(|file| lines(file)).sum::<Result<u64>>()?;
    rows.push(Row {
        name: "seL4 5.0.0 for x86-64, as released (C)".into(),
        lines: all.saturating_sub(patched),
        whose: ALL.into(),
    });
    rows.push(Row {
        name: format!("our {} patches to it: lines that they add", patches.len()),
        lines: patched,
        whose: ALL.into(),
    });
    for Part { name, places, whose } in PARTS {
        let mut count = 0;
        for place in places {
            let found = match place.strip_suffix("/*.rs") {
                Some(folder) => files_of(&paths.workspace.join(folder), &["rs"])?,
                None => files(&paths.workspace.join(place), &["rs"])?,
            };
            for file in found.iter().filter(|file| !is_test(file)) {
                count += lines(file)?;
            }
        }
        rows.push(Row { name: name.into(), lines: count, whose: whose.into() });
    }
    for (package, whose) in [("root", ALL), ("server", INSTANCE)] {
        let (names, count) = packages(paths, package)?;
        rows.push(Row { name: format!("packages in the {package}: {names}"), lines: count, whose: whose.into() });
    }
    Ok(rows)
}

/// Whether it is a file of tests, or the machine that only tests use.
fn is_test(file: &Path) -> bool {
    let part = |name: &str| file.components().any(|part| part.as_os_str() == name);
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    stem.ends_with("tests") || stem == "fake" || part("fake") || part("model") || part("tests")
}

/// Number of lines of a file that count.
fn lines(file: &Path) -> Result<u64> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(count(&text))
}

fn count(text: &str) -> u64 {
    let text = text.split_once("#[cfg(test)]\nmod tests {").map_or(text, |(before, _)| before);
    let (mut count, mut comment) = (0, false);
    for line in text.lines().map(str::trim) {
        if comment || line.starts_with("/*") {
            comment = !line.contains("*/");
        } else if !line.is_empty() && !line.starts_with("//") {
            count += 1;
        }
    }
    count
}

/// Number of lines that a patch adds.
fn added(patch: &Path) -> Result<u64> {
    let text = fs::read_to_string(patch).with_context(|| format!("cannot read {}", patch.display()))?;
    let added = text.lines().filter_map(|line| line.strip_prefix('+')).filter(|line| !line.starts_with("++"));
    Ok(count(&added.collect::<Vec<_>>().join("\n")))
}

/// The files of the kernel that are compiled, without those for other processors and boards.
fn kernel_files(source: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for folder in ["src", "include"] {
        found.extend(files(&source.join(folder), &["c", "h", "S", "bf"])?);
    }
    let others = ["arm", "riscv", "32", "benchmark"];
    let boards = |path: &Path| {
        let mut parts = path.components().filter_map(|part| part.as_os_str().to_str());
        parts.find(|part| *part == "plat").and_then(|_| parts.next()).is_some_and(|board| board != "pc99")
    };
    let of_others = |path: &PathBuf| {
        let below = path.strip_prefix(source).unwrap_or(path);
        below.components().any(|part| others.iter().any(|other| part.as_os_str() == *other)) || boards(below)
    };
    found.retain(|path| !of_others(path));
    Ok(found)
}

/// Files below a folder, or the one file.
fn files(place: &Path, kinds: &[&str]) -> Result<Vec<PathBuf>> {
    if place.is_file() {
        return Ok(vec![place.to_path_buf()]);
    }
    let mut found = files_of(place, kinds)?;
    for folder in entries(place)?.into_iter().filter(|path| path.is_dir()) {
        found.extend(files(&folder, kinds)?);
    }
    Ok(found)
}

/// Files in a folder.
fn files_of(folder: &Path, kinds: &[&str]) -> Result<Vec<PathBuf>> {
    let wanted =
        |path: &PathBuf| path.is_file() && kinds.iter().any(|kind| path.extension().is_some_and(|e| e == *kind));
    Ok(entries(folder)?.into_iter().filter(wanted).collect())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let read = fs::read_dir(folder).with_context(|| format!("cannot read the folder {}", folder.display()))?;
    read.map(|entry| Ok(entry?.path())).collect()
}

/// The third-party packages in one of ours, and their lines.
fn packages(paths: &Paths, package: &str) -> Result<(String, u64)> {
    let mut command = cargo::command(&paths.workspace);
    command.args(["tree", "--locked", "-p", package, "--target", BARE_TARGET, "-e", "normal,no-proc-macro"]);
    let output = command.args(["--prefix", "none", "--format", "{p}"]).output().context("cannot start cargo")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // Our own packages are printed with their folder.
    let named = text.lines().filter(|line| !line.contains('/')).filter_map(|line| line.split_once(" v"));
    let named: BTreeSet<(String, String)> = named
        .map(|(name, version)| (name.to_string(), version.split_whitespace().next().unwrap_or_default().to_string()))
        .collect();
    let mut metadata = cargo::command(&paths.workspace);
    metadata.args(["metadata", "--locked", "--format-version", "1"]);
    let metadata = metadata.output().context("cannot start cargo")?.stdout;
    let metadata: serde_json::Value = serde_json::from_slice(&metadata).context("cargo metadata")?;
    let mut count = 0;
    for (name, version) in &named {
        let all = metadata["packages"].as_array().into_iter().flatten();
        let manifest = all
            .filter(|package| package["name"] == name.as_str() && package["version"] == version.as_str())
            .find_map(|package| package["manifest_path"].as_str());
        let folder = manifest.and_then(|manifest| Path::new(manifest).parent());
        let folder = folder.with_context(|| format!("cargo does not say where {name} {version} is"))?;
        for file in files(&folder.join("src"), &["rs"])?.iter().filter(|file| !is_test(file)) {
            count += lines(file)?;
        }
    }
    let names: Vec<&str> = named.iter().map(|(name, _)| name.as_str()).collect();
    Ok((names.join(", "), count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_count() {
        assert_eq!(count("//! Text\n\nfn a() {} // b\n/* c\nd */\n}\n#[cfg(test)]\nmod tests {\n x\n}\n"), 2);
    }

    #[test]
    fn a_table_is_good_until_a_figure_is_far_off() {
        let row = |lines| Row { name: "part".into(), lines, whose: "all".into() };
        let table = "| part | lines | who relies on it |\n|---|---|---|\n| part | 100 | all |\n";
        assert!(is_near(table, &[row(85)]) && is_near(table, &[row(120)]));
        assert!(!is_near(table, &[row(130)]) && !is_near(table, &[row(100), row(1)]));
    }
}
