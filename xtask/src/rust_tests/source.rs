//! The folder that the tests are built in: our manifests, and beside them what the component `rust-src` has.

use std::path::{Path, PathBuf};
use std::{fs, str};

use anyhow::{Context, Result, bail};

use crate::cargo::rustc;
use crate::files::copy_if_changed;
use crate::paths::Paths;

/// What is copied of the component. `alloc` is no package here: its tests compile parts of its source into themselves.
const PARTS: [&str; 4] = ["coretests", "alloctests", "alloc/src", "std/tests"];

/// Makes the folder anew where something differs; gives its place.
///
/// # Errors
/// The component is missing, or something cannot be read or written.
pub fn lay_out(paths: &Paths) -> Result<PathBuf> {
    let output = rustc().args(["--print", "sysroot"]).output().context("cannot start rustc")?;
    let sysroot = str::from_utf8(&output.stdout).context("the toolchain's path is not UTF-8")?.trim();
    let library = Path::new(sysroot).join("lib/rustlib/src/rust/library");
    if !library.is_dir() {
        bail!("the toolchain lacks the component rust-src; `rustup component add rust-src` brings it");
    }
    let folder = paths.out.join("rust-tests");
    for part in PARTS {
        copy(&library.join(part), &folder.join(part))?;
    }
    copy(&paths.workspace.join("xtask/rust-tests"), &folder)?;
    Ok(folder)
}

/// Copies what differs of a folder and all below it, so that cargo builds no more than it must.
fn copy(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry.with_context(|| format!("cannot read {}", from.display()))?;
        let to = to.join(entry.file_name());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            copy(&entry.path(), &to)?;
        } else {
            copy_if_changed(&entry.path(), &to)?;
        }
    }
    Ok(())
}
