//! `miri`: the objects' tests under Rust's interpreter, which detects undefined behaviour.
//!
//! `objects/` has no unsafe code, so a fault could only be in the packages and in the library below it. Miri is part of
//! nightly toolchains only, of which one is pinned here. It is some hundred times slower than the processor. So tests
//! with random sequences run few of them, and without a filter only the quick tests run ([`SOON`]); `--all` runs
//! everything.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::args::MiriArgs;
use xtask_build::setup;
use xtask_common::paths::Paths;
use xtask_common::ui::Ui;
use xtask_common::words::tail;

/// The toolchain that contains it.
pub const NIGHTLY: &str = "nightly-2026-05-20";
/// Parts of names of tests that end within two minutes altogether: none with random sequences.
pub const SOON: [&str; 7] = [
    "buffers::",
    "refusal::",
    "a_closed_value",
    "another_process_s_value",
    "values_look_as",
    "a_stale_key",
    "few::tests::counts",
];

/// Runs tests under Miri; returns this process' exit code.
///
/// # Errors
/// Miri cannot be installed.
pub fn miri(paths: &Paths, args: &MiriArgs) -> Result<u8> {
    let filters: Vec<&str> = match (&args.filter, args.all) {
        (Some(filter), _) => vec![filter],
        (None, true) => Vec::new(),
        (None, false) => SOON.to_vec(),
    };
    setup::for_miri(&Ui::new(false), NIGHTLY)?;
    let status = command(paths, &filters)?.status().context("cannot start cargo")?;
    Ok(u8::from(!status.success()))
}

/// Runs the quick tests; returns how many passed.
///
/// # Errors
/// A test failed, or Miri cannot be installed.
pub fn soon(paths: &Paths, ui: &Ui) -> Result<usize> {
    setup::for_miri(ui, NIGHTLY)?;
    let output = command(paths, &SOON)?.output().context("cannot start cargo")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        bail!("{}\n{}", tail(&text, 40), tail(&String::from_utf8_lossy(&output.stderr), 40));
    }
    let passed = text
        .lines()
        .filter_map(|line| line.strip_prefix("test result: ok. ")?.split(' ').next()?.parse::<usize>().ok());
    match passed.sum::<usize>() {
        0 => bail!("no test was run"),
        passed => Ok(passed),
    }
}

fn command(paths: &Paths, filters: &[&str]) -> Result<Command> {
    let out = paths.out.join("miri");
    // Miri builds the standard library in the folder for temporary files, which could be inside another cargo
    // workspace.
    let temporary = out.join("tmp");
    fs::create_dir_all(&temporary).with_context(|| format!("cannot make {}", temporary.display()))?;
    let mut command = Command::new("cargo");
    command.current_dir(&paths.workspace).env("RUSTUP_TOOLCHAIN", NIGHTLY);
    // Tests with random sequences read the number of sequences from the environment, and write failures to a file.
    command.env("MIRIFLAGS", "-Zmiri-disable-isolation").env("PROPTEST_CASES", "4").env("HAFNON_SEQUENCES", "4");
    command.args(["miri", "test", "--locked", "-p", "objects", "--lib", "--target-dir"]).arg(out);
    command.env("TMPDIR", temporary);
    command.arg("--").args(filters);
    Ok(command)
}
