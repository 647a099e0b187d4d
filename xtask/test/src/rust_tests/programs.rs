//! Builds a suite's programs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::{Place, Suite};
use xtask_build::cargo::{self, PROGRAM_TARGET};
use xtask_build::program_flags;
use xtask_common::paths::Paths;
use xtask_common::ui::Ui;

/// A line of cargo's messages.
#[derive(Deserialize)]
struct Message {
    reason: String,
    target: Option<Target>,
    executable: Option<PathBuf>,
    message: Option<Diagnostic>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Diagnostic {
    level: String,
    rendered: Option<String>,
}

/// The programs by name; for one that does not build, the compiler's messages.
pub type Programs = BTreeMap<String, Result<PathBuf, String>>;

/// Builds the programs. One that does not build does not prevent the others.
///
/// # Errors
/// Cargo cannot be started, or fails for another reason than a program's source.
pub fn build(paths: &Paths, ui: &Ui, folder: &Path, suite: Suite, place: Place) -> Result<Programs> {
    let title = format!("building Rust's {}", suite.name);
    let mut step = ui.step(&title);
    let mut command = cargo::command(folder);
    command.args([
        "test",
        "--no-run",
        "--no-fail-fast",
        "--locked",
        "--message-format=json",
        "--package",
        suite.package,
    ]);
    command.args(suite.targets).arg("--target-dir").arg(folder.join("target"));
    // The tests use unstable features, which only Rust's own library may use.
    command.env("RUSTC_BOOTSTRAP", "1");
    if place == Place::System {
        command.args(["--target", PROGRAM_TARGET]).env("CARGO_ENCODED_RUSTFLAGS", program_flags(paths));
    }
    step.activity("cargo");
    let output = command.stdin(Stdio::null()).output().context("cannot start cargo")?;
    let mut programs = Programs::new();
    for line in output.stdout.split(|byte| *byte == b'\n') {
        let Ok(message) = serde_json::from_slice::<Message>(line) else { continue };
        let Some(Target { name, kind }) = message.target else { continue };
        // A library has its own tests, and often an integration test with the same name.
        let name = if kind.iter().any(|kind| kind == "lib") { format!("{name}-lib") } else { name };
        match (message.reason.as_str(), message.executable, message.message) {
            ("compiler-artifact", Some(program), _) => {
                programs.insert(name, Ok(program));
            }
            ("compiler-message", _, Some(said)) if said.level == "error" => {
                programs.entry(name).or_insert_with(|| Err(said.rendered.unwrap_or_default()));
            }
            _ => {}
        }
    }
    if programs.is_empty() {
        bail!("{title} failed:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(programs)
}
