//! `coverage --lines`: which lines of the objects and of the server the server's tests on the host execute, as counted
//! by LLVM's tools, which are a component of the toolchain.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use super::said;
use xtask_build::cargo::TOOLCHAIN;
use xtask_build::setup;
use xtask_common::paths::Paths;
use xtask_common::ui::Ui;
use xtask_common::words::tail;

/// The folders that are counted.
const PARTS: [&str; 2] = ["objects/src", "server/src"];

#[derive(Deserialize)]
struct Export {
    data: Vec<Data>,
}

#[derive(Deserialize)]
struct Data {
    files: Vec<File>,
}

#[derive(Deserialize)]
struct File {
    filename: PathBuf,
    summary: Summary,
}

#[derive(Deserialize)]
struct Summary {
    lines: Lines,
}

#[derive(Clone, Copy, Default, Deserialize)]
struct Lines {
    count: u64,
    covered: u64,
}

impl Lines {
    fn line(self, name: &str) -> String {
        let percent = self.covered as f64 * 100.0 / self.count.max(1) as f64;
        format!("{percent:>5.1} %  {:>6} of {:>6}  {name}", self.covered, self.count)
    }
}

/// Runs the tests and prints the counts, beginning with the files that are covered least.
///
/// # Errors
/// A test failed, or a tool cannot be fetched.
pub fn lines(paths: &Paths) -> Result<()> {
    let ui = Ui::new(false);
    setup::for_building(&ui)?;
    let out = paths.out.join("lines");
    let counts = out.join("counts");
    // Counts of an earlier run belong to other programs.
    if counts.exists() {
        fs::remove_dir_all(&counts).with_context(|| format!("cannot remove {}", counts.display()))?;
    }
    fs::create_dir_all(&counts).with_context(|| format!("cannot make {}", counts.display()))?;
    let tests = {
        let _step = ui.step("running the server's tests with counters");
        run_tests(paths, &out, &counts)?
    };
    let files = export(&counts, &tests)?;
    for part in PARTS {
        let folder = paths.workspace.join(part);
        let mut known: Vec<(Lines, String)> = files.iter().filter_map(|file| of_part(file, &folder)).collect();
        known.sort_by(|a, b| share(a.0).total_cmp(&share(b.0)));
        let sum = known.iter().fold(Lines::default(), |sum, (lines, _)| Lines {
            count: sum.count + lines.count,
            covered: sum.covered + lines.covered,
        });
        known.iter().for_each(|(lines, name)| println!("{}", lines.line(name)));
        println!("{}", sum.line(part));
    }
    Ok(())
}

fn share(lines: Lines) -> f64 {
    lines.covered as f64 / lines.count.max(1) as f64
}

fn of_part(file: &File, folder: &Path) -> Option<(Lines, String)> {
    let name = file.filename.strip_prefix(folder).ok()?.to_string_lossy().into_owned();
    Some((file.summary.lines, name))
}

/// Runs the tests; returns their programs.
fn run_tests(paths: &Paths, out: &Path, counts: &Path) -> Result<Vec<PathBuf>> {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(&paths.workspace).env("RUSTFLAGS", "-Cinstrument-coverage");
    cargo.env("LLVM_PROFILE_FILE", counts.join("%p-%m.profraw")).env("CARGO_TERM_COLOR", "never");
    cargo.args(["test", "--locked", "--all-features", "-p", "server", "--target-dir"]).arg(out.join("build"));
    let output = said(&mut cargo)?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        bail!("{}\n{}", tail(&String::from_utf8_lossy(&output.stdout), 40), tail(&told, 40));
    }
    // `Running tests/hostile.rs (PATH)`
    let program = |line: &str| {
        let (_, path) = line.trim_start().strip_prefix("Running ")?.rsplit_once('(')?;
        Some(PathBuf::from(path.strip_suffix(')')?))
    };
    Ok(told.lines().filter_map(program).collect())
}

/// The counts by file.
fn export(counts: &Path, tests: &[PathBuf]) -> Result<Vec<File>> {
    let all = counts.join("all.profdata");
    let mut raw = Vec::new();
    for entry in fs::read_dir(counts).with_context(|| format!("cannot read {}", counts.display()))? {
        raw.push(entry?.path());
    }
    let mut merge = tool("llvm-profdata")?;
    merge.args(["merge", "-sparse", "-o"]).arg(&all).args(&raw);
    succeeds(&mut merge)?;
    let mut export = tool("llvm-cov")?;
    export.args(["export", "--summary-only"]).arg("--instr-profile").arg(&all);
    for (n, test) in tests.iter().enumerate() {
        if n > 0 {
            export.arg("--object");
        }
        export.arg(test);
    }
    let parsed: Export =
        serde_json::from_slice(&succeeds(&mut export)?).context("what llvm-cov says is not understood")?;
    Ok(parsed.data.into_iter().flat_map(|data| data.files).collect())
}

/// One of LLVM's tools from the toolchain.
fn tool(name: &str) -> Result<Command> {
    let mut rustc = Command::new("rustc");
    rustc.env("RUSTUP_TOOLCHAIN", TOOLCHAIN).args(["--print", "target-libdir"]);
    let folder = String::from_utf8_lossy(&succeeds(&mut rustc)?).trim().to_owned();
    let path = Path::new(&folder).with_file_name("bin").join(name);
    if !path.exists() {
        bail!("{name} is missing: `rustup component add llvm-tools --toolchain {TOOLCHAIN}` brings it");
    }
    Ok(Command::new(path))
}

fn succeeds(command: &mut Command) -> Result<Vec<u8>> {
    let output = said(command)?;
    if !output.status.success() {
        let name = command.get_program().to_string_lossy().into_owned();
        let name = Path::new(&name).file_name().map(OsStr::to_string_lossy).unwrap_or_default().into_owned();
        bail!("{name}: {}", tail(&String::from_utf8_lossy(&output.stderr), 20));
    }
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_llvm_says() {
        let text = r#"{"data":[{"files":[{"filename":"/w/objects/src/ipc/iob.rs","summary":{"lines":{"count":4,"covered":3,"percent":75}}}]}]}"#;
        let export: Export = serde_json::from_str(text).expect("an export");
        let (lines, name) = of_part(&export.data[0].files[0], Path::new("/w/objects/src")).expect("of the part");
        assert_eq!(lines.line(&name), " 75.0 %       3 of      4  ipc/iob.rs");
        assert!(of_part(&export.data[0].files[0], Path::new("/w/server/src")).is_none());
    }
}
