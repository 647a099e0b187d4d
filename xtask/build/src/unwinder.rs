//! The unwinder that programs link with: the one of Rust's target, with changes in the two places at which it loses a
//! part of the unsafe stack (`runtime/crt/src/unwind.rs` explains how).
//!
//! Linkers search our folder before the toolchain's, so an archive with the same name replaces the toolchain's.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str;

use anyhow::{Context, Result, bail};

use crate::cargo::{PROGRAM_TARGET, rustc};
use xtask_common::paths::Paths;
use xtask_common::programs;

/// Object files of the archive, by suffix of their names, and the symbols in them that ours define, too.
const RENAMED: [(&str, &[&str]); 2] = [
    ("UnwindLevel1.o", &["_Unwind_RaiseException", "_Unwind_Resume", "_Unwind_ForcedUnwind"]),
    ("UnwindRegistersRestore.o", &["__libunwind_Registers_x86_64_jumpto"]),
];

/// Builds the archive; returns its path.
///
/// # Errors
/// The toolchain's unwinder is missing or has changed, or a tool fails.
pub fn build(paths: &Paths) -> Result<PathBuf> {
    let output = rustc().args(["--print", "target-libdir", "--target", PROGRAM_TARGET]).output();
    let output = output.context("cannot start rustc")?;
    let folder = str::from_utf8(&output.stdout).context("the toolchain's path is not UTF-8")?.trim();
    let theirs = Path::new(folder).join("libunwind.a");
    let work = paths.out.join("crt/unwind");
    if work.exists() {
        fs::remove_dir_all(&work).with_context(|| format!("cannot remove {}", work.display()))?;
    }
    fs::create_dir_all(&work).with_context(|| format!("cannot make {}", work.display()))?;
    programs::run(Command::new("ar").arg("x").arg(&theirs).current_dir(&work))?;
    let mut members: Vec<OsString> = Vec::new();
    for entry in fs::read_dir(&work).context("cannot read the unwinder's object files")? {
        members.push(entry.context("cannot read the unwinder's object files")?.file_name());
    }
    members.sort();
    for (end, names) in RENAMED {
        let Some(member) = members.iter().find(|member| member.to_string_lossy().ends_with(end)) else {
            bail!("{} has no object file {end}", theirs.display());
        };
        let mut objcopy = Command::new("objcopy");
        for name in names {
            objcopy.arg("--redefine-sym").arg(format!("{name}=__plain{name}"));
        }
        programs::run(objcopy.arg(member).current_dir(&work))?;
    }
    object(&paths.workspace.join("runtime/crt/src/unwind.rs"), "unwind", &work.join("ours.o"))?;
    programs::run(Command::new("ar").args(["crsD", "libunwind.a", "ours.o"]).args(&members).current_dir(&work))?;
    Ok(work.join("libunwind.a"))
}

/// Compiles a source without a package to an object file, which cargo does not do.
///
/// # Errors
/// The compiler's messages.
pub fn object(source: &Path, name: &str, to: &Path) -> Result<()> {
    let mut rustc = rustc();
    rustc.args(["--edition", "2024", "--crate-type", "lib", "--crate-name", name, "--emit", "obj"]);
    rustc.args(["--target", PROGRAM_TARGET, "-C", "opt-level=2", "-C", "panic=abort", "-o"]).arg(to).arg(source);
    programs::run(&mut rustc)
}
