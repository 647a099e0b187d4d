//! `hafnon install`: builds programs from the registry for the system.
//!
//! `cargo install` does the work, with a folder of this tree as its root. Programs in that folder's `bin` become part
//! of every image that `hafnon run` boots, as `/boot/bin/NAME`, without debug information. The originals with debug
//! information stay here, for backtraces.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::args::CargoArgs;
use crate::cargo_command;
use xtask_build::{BuildOptions, without_debug_information};
use xtask_common::paths::Paths;
use xtask_common::programs::code;
use xtask_common::ui::Ui;

/// Installs; returns cargo's exit code.
///
/// # Errors
/// The system does not build, or cargo cannot be started.
pub fn install(paths: &Paths, args: &[OsString]) -> Result<u8> {
    xtask_build::build(paths, &Ui::new(false), BuildOptions::default())?;
    Ok(code(command(paths, &root(paths), args)?.status().context("cannot start cargo")?))
}

/// `cargo install` for the system, into this folder.
///
/// # Errors
/// This tool's own path is unknown.
pub fn command(paths: &Paths, root: &Path, args: &[OsString]) -> Result<Command> {
    let mut all = vec!["install".into(), "--root".into(), root.into()];
    let has = |name: &str| args.iter().any(|arg| arg.to_string_lossy().split('=').next() == Some(name));
    if !has("--list") && !has("--locked") {
        all.push("--locked".into());
    }
    if !has("--list") && !has("--target-dir") {
        all.extend(["--target-dir".into(), paths.out.join("packages/target").into()]);
    }
    all.extend(args.iter().cloned());
    cargo(paths, all)
}

/// Removes; returns cargo's exit code.
///
/// # Errors
/// Cargo cannot be started.
pub fn uninstall(paths: &Paths, args: &[OsString]) -> Result<u8> {
    let all = ["uninstall".into(), "--root".into(), root(paths).into()].into_iter().chain(args.iter().cloned());
    Ok(code(cargo(paths, all.collect())?.status().context("cannot start cargo")?))
}

fn cargo(paths: &Paths, args: Vec<OsString>) -> Result<Command> {
    cargo_command::command(paths, &CargoArgs { mem: None, timeout: None, raw_backtraces: false, args })
}

fn root(paths: &Paths) -> PathBuf {
    paths.out.join("installed")
}

/// An installed program with its debug information.
pub fn original(paths: &Paths, name: &str) -> PathBuf {
    root(paths).join("bin").join(name)
}

/// The names of the installed programs.
///
/// # Errors
/// Their folder cannot be read.
pub fn names(paths: &Paths) -> Result<Vec<String>> {
    let folder = root(paths).join("bin");
    match fs::read_dir(&folder) {
        Ok(entries) => {
            let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
            names.collect::<std::io::Result<_>>().with_context(|| format!("cannot read {}", folder.display()))
        }
        Err(_) => Ok(Vec::new()),
    }
}

/// Name and file of every installed program, as it is put into the image.
///
/// # Errors
/// A program cannot be read.
pub fn programs(paths: &Paths) -> Result<Vec<(String, PathBuf)>> {
    programs_in(&root(paths))
}

/// The same for programs that [`command`] installed into another folder.
///
/// # Errors
/// A program cannot be read.
pub fn programs_in(root: &Path) -> Result<Vec<(String, PathBuf)>> {
    let folder = root.join("bin");
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut programs = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let entry = entry.with_context(|| format!("cannot read {}", folder.display()))?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let small = root.join("boot").join(&name);
        let modified = |file: &Path| fs::metadata(file).and_then(|data| data.modified()).ok();
        if modified(&small).is_none_or(|small| modified(&entry.path()).is_none_or(|original| original > small)) {
            without_debug_information(&entry.path(), &small)?;
        }
        programs.push((name, small));
    }
    programs.sort();
    Ok(programs)
}
