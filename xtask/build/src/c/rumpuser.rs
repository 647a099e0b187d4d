//! `librumpuser.a`: the hypercalls for rump kernels (`guests/rump`), an archive of Rust code and of one function in C.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::front;
use xtask_common::paths::Paths;
use xtask_common::programs;

/// Flags for the function in C. The kernel calls it on stacks of its own choice, so it is as plain as kernel code.
const FLAGS: &str =
    "-std=c11 -O2 -g1 -fPIC -fno-sanitize=safe-stack -fno-stack-protector -Wall -Wextra -Werror -ffunction-sections";

/// Adds the function in C to the archive that cargo made; returns the whole archive.
///
/// # Errors
/// A tool fails; the error has its messages.
pub fn build(paths: &Paths, rust: &Path) -> Result<PathBuf> {
    let folder = paths.out.join("rumpuser");
    fs::create_dir_all(&folder).context("cannot make a folder for librumpuser.a")?;
    let object = folder.join("dprintf.o");
    let source = paths.workspace.join("guests/rump/rumpuser/c/dprintf.c");
    let mut clang = Command::new(front::program(paths, "clang"));
    clang.args(FLAGS.split_whitespace()).arg(format!("-ffile-prefix-map={}=", paths.workspace.display()));
    programs::run(clang.arg("-c").arg(&source).arg("-o").arg(&object))?;
    let archive = folder.join("librumpuser.a");
    // Two archives of Rust code define some functions twice, so only the interface is visible.
    let visible = ["-w", "--keep-global-symbol=rumpuser_*", "--keep-global-symbol=rumpcomp_*"];
    programs::run(Command::new("objcopy").args(visible).arg(rust).arg(&archive))?;
    programs::run(Command::new("ar").arg("rsD").arg(&archive).arg(&object))?;
    Ok(archive)
}
