//! Programs from Rust's registry, built as `hafnon install` builds them.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

use super::{Work, files};
use crate::{Context, Test};
use xtask_build::cargo;
use xtask_common::words::tail;
use xtask_run::install;

/// Test, package, program, script.
const PROGRAMS: [(&str, &str, &str, &str); 4] = [
    ("ripgrep", "ripgrep@15.2.0", "rg", "ripgrep.sh"),
    ("jaq", "jaq@1.6.0", "jaq", "jaq.sh"),
    ("brotli", "brotli@9.1.1", "brotli", "brotli.sh"),
    ("b3sum", "b3sum@1.8.7", "b3sum", "b3sum.sh"),
];

/// A test for each program.
pub fn tests() -> Vec<Test> {
    let test = |(name, package, program, script): (&'static str, &'static str, &'static str, &'static str)| {
        Test::many(format!("program.{name}"), move |context, cases| {
            let folder = files::folder(context.paths)?;
            let work = Work {
                script,
                programs: vec![(program.to_owned(), in_system(context, package, program)?)],
                host: on_host(context, package)?,
                files: &folder,
                variables: Vec::new(),
            };
            work.compare(context, cases)
        })
    };
    PROGRAMS.into_iter().map(test).collect()
}

/// Builds the package's programs for the system; returns the one with this name.
fn in_system(context: &Context<'_>, package: &str, program: &str) -> Result<PathBuf> {
    context.built()?;
    let root = context.paths.out.join("programs/system");
    let output = install::command(context.paths, &root, &[package.into()])?.output().context("cannot start cargo")?;
    if !output.status.success() {
        bail!("cargo install {package} failed: {}", tail(&String::from_utf8_lossy(&output.stderr), 20));
    }
    let programs = install::programs_in(&root)?;
    let found = programs.into_iter().find(|(name, _)| name == program);
    Ok(found.with_context(|| format!("{package} has no program `{program}`"))?.1)
}

/// Builds them for the host; returns their folder.
fn on_host(context: &Context<'_>, package: &str) -> Result<PathBuf> {
    let root = context.paths.out.join("programs/host");
    fs::create_dir_all(&root).context("cannot make a folder")?;
    let mut command = cargo::command(&root);
    // Only its output is compared, so a debug build will do, which compiles in half the time. Overflow wraps as in a
    // release build.
    command.env("CARGO_PROFILE_DEV_OVERFLOW_CHECKS", "false").env("CARGO_PROFILE_DEV_DEBUG_ASSERTIONS", "false");
    command.args(["install", "--locked", "--debug", package, "--root"]).arg(&root);
    command.arg("--target-dir").arg(context.paths.out.join("programs/target-host"));
    let output = command.output().context("cannot start cargo")?;
    if !output.status.success() {
        bail!("cargo install {package} failed: {}", tail(&String::from_utf8_lossy(&output.stderr), 20));
    }
    Ok(root.join("bin"))
}
