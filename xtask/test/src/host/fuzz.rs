//! `fuzz-host`: runs parsers of untrusted bytes under libFuzzer (`fuzz/`).
//!
//! The targets are built with the same compiler as everything else, without a sanitizer. Their code has no unsafe code,
//! so the fuzzer looks for panics, overflows and failed assertions. `fuzz/examples/seeds.rs` creates the initial
//! inputs. Inputs that once found a fault are in `fuzz/regressions` and are tried first.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::{said, tool};
use crate::args::FuzzHostArgs;
use xtask_build::cargo::TOOLCHAIN;
use xtask_build::setup;
use xtask_common::paths::Paths;
use xtask_common::ui::Ui;

/// The targets, by their names in `fuzz/Cargo.toml`.
pub const TARGETS: [&str; 6] = ["bootfs", "calls", "description", "elf", "network", "processargs"];

/// Runs one target or all, this many seconds each; returns this process' exit code.
///
/// # Errors
/// There is no such target, or something does not build.
pub fn fuzz(paths: &Paths, args: &FuzzHostArgs) -> Result<u8> {
    let ui = Ui::new(false);
    let targets: Vec<&str> = match &args.target {
        Some(target) => match TARGETS.iter().find(|known| *known == target) {
            Some(known) => vec![known],
            None => bail!("there is no target {target}; there are {}", TARGETS.join(", ")),
        },
        None => TARGETS.to_vec(),
    };
    let mut found = false;
    for target in targets {
        match run(paths, &ui, target, args.seconds)? {
            Ok(what) => println!("{target}: {what}"),
            Err(what) => {
                println!("{target}: FAILED\n{what}");
                found = true;
            }
        }
    }
    Ok(u8::from(found))
}

/// Runs a target for this long; returns libFuzzer's summary, or the fault that it found.
///
/// # Errors
/// It does not build.
pub fn run(paths: &Paths, ui: &Ui, target: &str, seconds: u32) -> Result<Result<String, String>> {
    setup::for_fuzzing(ui)?;
    let (fuzz, out) = (paths.workspace.join("fuzz"), paths.out.join("fuzz"));
    let (corpus, regressions) = (out.join("corpus"), fuzz.join("regressions").join(target));
    let artifacts = out.join("found").join(target);
    for folder in [&corpus.join(target), &artifacts] {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let mut seeds = Command::new("cargo");
    seeds.env("RUSTUP_TOOLCHAIN", TOOLCHAIN).args(["run", "--quiet", "--locked", "--example", "seeds"]);
    seeds.arg("--manifest-path").arg(fuzz.join("Cargo.toml")).arg("--target-dir").arg(&out).arg("--").arg(&corpus);
    let made = said(&mut seeds)?;
    if !made.status.success() {
        bail!("the inputs to begin with cannot be made: {}", last(&made.stderr, 20));
    }
    let cargo_fuzz = |what: &str| -> Result<Command> {
        let mut command = Command::new(tool(paths, ui, "cargo-fuzz")?);
        command.env("RUSTUP_TOOLCHAIN", TOOLCHAIN).arg(what).arg("--fuzz-dir").arg(&fuzz);
        command.args(["--sanitizer", "none", "--target-dir"]).arg(&out).arg(target);
        Ok(command)
    };
    let built = said(&mut cargo_fuzz("build")?)?;
    if !built.status.success() {
        bail!("{target} does not build: {}", last(&built.stderr, 20));
    }
    let mut command = cargo_fuzz("run")?;
    command.arg(corpus.join(target));
    if has_files(&regressions) {
        command.arg(&regressions);
    }
    command.arg("--").arg(format!("-max_total_time={seconds}")).arg("-timeout=30");
    let ran = said(command.arg(format!("-artifact_prefix={}/", artifacts.display())))?;
    let text = String::from_utf8_lossy(&ran.stderr).into_owned();
    let done = text.lines().rev().find(|line| line.starts_with("Done "));
    Ok(match done {
        Some(done) if ran.status.success() => Ok(done.to_string()),
        _ => Err(format!("{}\nthe input is in {}", last(&ran.stderr, 40), artifacts.display())),
    })
}

fn has_files(folder: &Path) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    !files.is_empty()
}

/// The last lines of a command's output.
fn last(bytes: &[u8], count: usize) -> String {
    xtask_common::words::tail(&String::from_utf8_lossy(bytes), count)
}
