//! Checks the packages that cargo fetches: licences, sources, and known vulnerabilities (`deny.toml`).
//!
//! The list of known vulnerabilities comes from a git host that is not reachable from everywhere. If it is unreachable,
//! a message says so, and nothing counts as checked: [`advisories`] returns whether it was.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};

use super::{said, tool};
use xtask_build::cargo::TOOLCHAIN;
use xtask_common::paths::Paths;
use xtask_common::ui::Ui;

/// The workspaces whose packages are checked. Rust's own tests (`xtask/test/rust-tests`) need another compiler.
const MANIFESTS: [&str; 15] = [
    "Cargo.toml",
    "fuzz/Cargo.toml",
    "kernel/Cargo.toml",
    "examples/database/Cargo.toml",
    "examples/descriptors/Cargo.toml",
    "examples/files/Cargo.toml",
    "examples/hello/Cargo.toml",
    "examples/key-store/client/Cargo.toml",
    "examples/key-store/component/Cargo.toml",
    "examples/neighbours/Cargo.toml",
    "examples/network/Cargo.toml",
    "examples/same-source/Cargo.toml",
    "examples/std/Cargo.toml",
    "xtask/test/packages/Cargo.toml",
    "xtask/test/programs/Cargo.toml",
];

fn deny(paths: &Paths, ui: &Ui, manifest: &str) -> Result<Command> {
    let mut command = Command::new(tool(paths, ui, "cargo-deny")?);
    command.current_dir(&paths.workspace).env("RUSTUP_TOOLCHAIN", TOOLCHAIN);
    command.args(["--color", "never", "--locked", "--workspace", "--config", "deny.toml", "--manifest-path", manifest]);
    Ok(command)
}

/// Checks licences, bans and sources.
///
/// # Errors
/// A package is not allowed, or the tool cannot be fetched.
pub fn licences(paths: &Paths, ui: &Ui) -> Result<()> {
    for manifest in MANIFESTS {
        let output = said(deny(paths, ui, manifest)?.args(["check", "licenses", "bans", "sources"]))?;
        if !output.status.success() {
            bail!("{manifest}: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
    }
    Ok(())
}

/// Checks for known vulnerabilities; returns whether the list was available.
///
/// # Errors
/// There is a vulnerability, or the tool cannot be fetched.
pub fn advisories(paths: &Paths, ui: &Ui) -> Result<bool> {
    if !said(deny(paths, ui, MANIFESTS[0])?.args(["fetch", "db"]))?.status.success() || !has_database() {
        return Ok(false);
    }
    for manifest in MANIFESTS {
        let output = said(deny(paths, ui, manifest)?.args(["check", "--disable-fetch", "advisories"]))?;
        if !output.status.success() {
            bail!("{manifest}: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
    }
    Ok(true)
}

/// Whether the tool has fetched its list. Its exit code does not tell.
fn has_database() -> bool {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let folders = home.and_then(|home| std::fs::read_dir(home.join("advisory-dbs")).ok());
    folders.into_iter().flatten().flatten().any(|folder| folder.path().join("crates").is_dir())
}
