//! Compares `std::fs` here and on Linux: the same random operations on the host's file system, on the one in memory and
//! on ext4. Each line must be the same, except for known differences.

use std::env;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use tempfile::TempDir;

use super::files::{here, run_with};
use super::volume::Volume;
use super::{Cases, Context, Test, expect};
use xtask_build::devices::Devices;
use xtask_run::session::End;

/// Default number of operations, unless `HAFNON_OPERATIONS` sets it.
const FEW: u64 = 2000;
/// The seed of the operations.
const SEED: &str = "7";
/// Differences from Linux, which docs/files.md describes: the beginning of the operation, its result there, and here.
const DIFFERENT: &[(&str, &str, &str)] = &[("write ", "IsADirectory", "NotADirectory")];

/// All of them.
pub fn tests() -> Vec<Test> {
    vec![Test::many("files.operations", operations)]
}

fn operations(context: &Context<'_>, cases: &mut Cases) -> Result<()> {
    let count = env::var("HAFNON_OPERATIONS").ok().and_then(|count| count.parse().ok()).unwrap_or(FEW);
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    let place = folder.path().join("operations");
    let count = count.to_string();
    let expected = here(context, &["operations", place.to_str().context("no text")?, SEED, &count])?;
    cases.case("memory", told(in_the_system(context, None, "/tmp", &count, &expected)));
    let disk = Volume::Ext4(4096).disk(context, &folder, 128, None)?;
    cases.case("ext4", told(in_the_system(context, Some(disk.path.clone()), "/disk", &count, &expected)));
    cases.case("e2fsck", told(disk.check()));
    Ok(())
}

fn told(result: Result<()>) -> Result<(), String> {
    result.map_err(|error| format!("{error:#}"))
}

fn in_the_system(context: &Context<'_>, disk: Option<PathBuf>, place: &str, count: &str, expected: &str) -> Result<()> {
    let devices = Devices { disk, ..Devices::default() };
    let place = format!("{place}/operations");
    let (end, stdout, stderr) = run_with(context, devices, &["operations", &place, SEED, count])?;
    expect("its end", &end, &End::Exit(0)).with_context(|| stderr)?;
    let mut different = Vec::new();
    for (there, here) in expected.lines().zip(stdout.lines()) {
        if there != here && !is_known(there, here) {
            different.push(format!("there {there}\nhere  {here}"));
        }
    }
    expect("how many lines differ", &different.len(), &0)
        .with_context(|| different.iter().take(8).cloned().collect::<Vec<_>>().join("\n"))?;
    expect("how many lines came", &stdout.lines().count(), &expected.lines().count())
}

fn is_known(there: &str, here: &str) -> bool {
    let parts = |line: &'_ str| {
        let (what, came) = line.split_once(": ")?;
        Some((what.split_once(' ')?.1.to_owned(), came.to_owned()))
    };
    let (Some((what, there)), Some((same, here))) = (parts(there), parts(here)) else { return false };
    what == same
        && DIFFERENT.iter().any(|(begin, one, other)| what.starts_with(begin) && there == *one && here == *other)
}
