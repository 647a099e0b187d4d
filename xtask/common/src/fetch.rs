//! Retries downloads: one broken connection must not end a set-up that takes half an hour.
//!
//! cargo and rustup retry by themselves, as often as `./hafnon` configures. pip does, too, as long as no answer has
//! begun. If the connection breaks in the middle of a package, pip fails; [`patiently`] retries it.

use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// The pauses between attempts.
const PAUSES: [Duration; 3] = [Duration::from_secs(2), Duration::from_secs(10), Duration::from_secs(30)];

/// pip with a command, and the options of every call.
pub fn pip(command: &str) -> Command {
    let mut pip = Command::new("pip3");
    pip.args([command, "--quiet", "--disable-pip-version-check", "--no-deps"]).stdin(Stdio::null());
    pip
}

/// Runs a command that downloads something, up to four times.
///
/// # Errors
/// It cannot be started, or it failed each time; the error contains the output of the last attempt.
pub fn patiently(command: &mut Command, what: &str) -> Result<Output> {
    attempts(&PAUSES, command, what)
}

fn attempts(pauses: &[Duration], command: &mut Command, what: &str) -> Result<Output> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut pauses = pauses.iter();
    loop {
        let output = command.output().with_context(|| format!("cannot start {name}"))?;
        if output.status.success() {
            return Ok(output);
        }
        match pauses.next() {
            Some(pause) => thread::sleep(*pause),
            // The last lines of Python's output describe the exception.
            None => bail!("fetching {what} failed; {name} says:\n{}", String::from_utf8_lossy(&output.stderr).trim()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_PAUSES: [Duration; 2] = [Duration::ZERO; 2];

    /// A command that succeeds at its `n`th run.
    fn succeeds_at(n: u32, folder: &tempfile::TempDir) -> Command {
        let mut command = Command::new("sh");
        command.arg("-c").arg("echo >>runs; echo broken off >&2; test $(wc -l <runs) -ge $0").arg(n.to_string());
        command.current_dir(folder);
        command
    }

    #[test]
    fn a_fetch_that_fails_is_tried_again() {
        for n in 1..=3 {
            let folder = tempfile::tempdir().expect("a folder");
            assert!(attempts(&NO_PAUSES, &mut succeeds_at(n, &folder), "it").is_ok(), "{n}");
        }
    }

    #[test]
    fn a_repeated_failure_reports_its_output() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = attempts(&NO_PAUSES, &mut succeeds_at(4, &folder), "it").expect_err("three attempts");
        assert_eq!(error.to_string(), "fetching it failed; sh says:\nbroken off");
    }
}
