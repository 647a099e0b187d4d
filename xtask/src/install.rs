//! `hafnon install`: programs of packages from the registry, for the system.
//!
//! `cargo install` does it all, with a folder of this tree as its root. What lies in that folder's `bin` comes into every
//! image that `hafnon run` boots, as `/boot/bin/NAME`, without debug information: that stays here, for backtraces.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::build::{self, What, without_debug_information};
use crate::cargo_command::{self, code};
use crate::cli::CargoArgs;
use crate::paths::Paths;
use crate::ui::Ui;

/// Installs; gives cargo's exit code.
///
/// # Errors
/// The system does not build, or cargo cannot be started.
pub fn install(paths: &Paths, args: &[OsString]) -> Result<u8> {
    build::build(paths, &Ui::new(false), What::default())?;
    let mut all = vec!["install".into(), "--root".into(), root(paths).into()];
    if !args.iter().any(|arg| arg == "--list" || arg == "--locked") {
        all.push("--locked".into());
    }
    if !args.iter().any(|arg| arg == "--list" || arg.to_string_lossy().starts_with("--target-dir")) {
        all.extend(["--target-dir".into(), paths.out.join("packages/target").into()]);
    }
    all.extend(args.iter().cloned());
    cargo(paths, all)
}

/// Removes; gives cargo's exit code.
///
/// # Errors
/// Cargo cannot be started.
pub fn uninstall(paths: &Paths, args: &[OsString]) -> Result<u8> {
    let all = ["uninstall".into(), "--root".into(), root(paths).into()].into_iter().chain(args.iter().cloned());
    cargo(paths, all.collect())
}

fn cargo(paths: &Paths, args: Vec<OsString>) -> Result<u8> {
    let args = CargoArgs { mem: None, timeout: None, raw_backtraces: false, args };
    let mut command = cargo_command::command(paths, &args)?;
    Ok(code(command.status().context("cannot start cargo")?))
}

fn root(paths: &Paths) -> PathBuf {
    paths.out.join("installed")
}

/// An installed program with its debug information.
pub fn original(paths: &Paths, name: &str) -> PathBuf {
    root(paths).join("bin").join(name)
}

/// Name and file of every installed program, as it comes into the image.
///
/// # Errors
/// One cannot be read.
pub fn programs(paths: &Paths) -> Result<Vec<(String, PathBuf)>> {
    let folder = root(paths).join("bin");
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut programs = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let entry = entry.with_context(|| format!("cannot read {}", folder.display()))?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let small = root(paths).join("boot").join(&name);
        let modified = |file: &PathBuf| fs::metadata(file).and_then(|data| data.modified()).ok();
        if modified(&small).is_none_or(|small| modified(&entry.path()).is_none_or(|original| original > small)) {
            without_debug_information(&entry.path(), &small)?;
        }
        programs.push((name, small));
    }
    programs.sort();
    Ok(programs)
}
