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
use crate::{cargo_command, check_installed};
use xtask_build::{BuildOptions, without_debug_information};
use xtask_common::paths::Paths;
use xtask_common::programs::code;
use xtask_common::ui::Ui;

/// Installs; returns cargo's exit code.
///
/// # Errors
/// The system does not build, cargo cannot be started, or a program has a name that gives rights.
pub fn install(paths: &Paths, args: &[OsString]) -> Result<u8> {
    let built = xtask_build::build(paths, &Ui::new(false), BuildOptions::default())?;
    let code = code(command(paths, &root(paths), args)?.status().context("cannot start cargo")?);
    let is_built_in = |name: &str| built.programs.iter().any(|(known, _)| known == name);
    check_installed(&built, is_built_in, names(paths)?.iter())?;
    Ok(code)
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

#[cfg(test)]
mod tests {
    use super::*;
    use xtask_build::Built;
    use xtask_build::system::System;

    /// What the system description says of rights.
    fn described() -> Built {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let system = System::read(&Paths { out: workspace.join("target"), workspace }).expect("a system description");
        Built {
            kernel: PathBuf::new(),
            root: PathBuf::new(),
            server: PathBuf::new(),
            libraries: Vec::new(),
            programs: Vec::new(),
            test_programs: Vec::new(),
            services: system.services().expect("services"),
            names: Default::default(),
            trusted: system.image.trusted,
        }
    }

    #[test]
    fn names_that_give_rights_are_refused() {
        let built = described();
        for name in ["disk", "linux", "watch", "sh"] {
            let (installed, none) = ([String::from("jq"), name.into()], |_: &str| false);
            let error = check_installed(&built, none, installed.iter()).expect_err(name).to_string();
            assert!(error.contains(&format!("`{name}`")), "{error}");
            // The image has the system's own program instead.
            assert!(check_installed(&built, |built_in| built_in == name, installed.iter()).is_ok());
        }
        assert!(check_installed(&built, |_| false, ["jq".into(), "disks".into()].iter()).is_ok());
    }
}
