//! Programs of the host: where they are, and how they ended.

use std::env;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};

use anyhow::{Context, Result, bail};

use crate::words::tail;

/// A program on `PATH`.
pub fn find_program(name: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// A child's exit code as a shell reports it.
pub fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(255)
}

/// Runs a tool to its end, and shows what it says only if it fails.
///
/// # Errors
/// It cannot be started. It fails: the end of its messages.
pub fn run(command: &mut Command) -> Result<()> {
    let name = command.get_program().display().to_string();
    let output = command.output().with_context(|| format!("cannot start {name}"))?;
    if !output.status.success() {
        bail!("{name} failed:\n{}", tail(&String::from_utf8_lossy(&output.stderr), 30));
    }
    Ok(())
}
