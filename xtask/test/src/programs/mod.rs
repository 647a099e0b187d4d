//! Third-party programs, unmodified, in the system: each also runs on the host, and both must print the same bytes.
//!
//! The work is a script in `xtask/test/programs`, which the host's shell and the system's shell run.
//!
//! 1. Both run in a folder with the same files; `$TMP` is an empty folder for the script's own files.
//! 2. A line `=== NAME` of the output begins a case. The output up to the next such line must be equal.
//! 3. If the name ends with `(in any order)`, the lines of the case are sorted first, because several threads wrote
//!    them. If it ends with `(the code alone)`, only lines `code N` count, because the others contain times and sizes.

mod c;
mod files;
mod guest;
mod killed;
mod linux;
mod rust;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use super::{Cases, Context, Test};
use crate::args::TestArgs;
use xtask_common::words::tail;
use xtask_run::session::End;
use xtask_run::{Capture, FILES};

/// All of them.
pub fn tests(args: &TestArgs) -> Vec<Test> {
    // The longest builds first, so that no test waits for one at the end.
    let first = linux::tests(args).into_iter().chain(rust::tests()).chain(c::tests());
    first.chain(killed::tests()).chain(guest::tests()).collect()
}

/// One script, on two systems.
struct Work<'a> {
    /// Its name in `xtask/test/programs`.
    script: &'a str,
    /// Name and file of each program for the system.
    programs: Vec<(String, PathBuf)>,
    /// The folder with the programs for the host.
    host: PathBuf,
    /// The folder in which both run.
    files: &'a Path,
    /// Environment variables for both.
    variables: Vec<(String, String)>,
}

impl Work<'_> {
    /// Runs the script on both systems; each section of the output is a case.
    fn compare(&self, context: &Context<'_>, cases: &mut Cases) -> Result<()> {
        let script = context.paths.workspace.join("xtask/test/programs").join(self.script);
        let script = fs::read_to_string(&script).with_context(|| format!("cannot read {}", script.display()))?;
        let here = self.on_host(&script)?;
        let there = self.in_system(context, &script)?;
        compare(&here, &there, cases)
    }

    fn on_host(&self, script: &str) -> Result<Vec<u8>> {
        let room = tempfile::tempdir().context("cannot make a folder")?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths([self.host.clone()].into_iter().chain(std::env::split_paths(&path)));
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(self.files).stdin(Stdio::null());
        command.env("PATH", path.context("the tree's path cannot stand in PATH")?);
        command
            .env("TMP", room.path())
            .env("HOME", room.path())
            .env("LC_ALL", "C")
            .env("TZ", "UTC0")
            .env_remove("RIPGREP_CONFIG_PATH");
        command.envs(self.variables.iter().cloned());
        let output = command.output().context("cannot start sh")?;
        if !output.status.success() {
            bail!("on the host the script ended with {}: {}", output.status, tail(&text(&output.stderr), 10));
        }
        Ok(output.stdout)
    }

    fn in_system(&self, context: &Context<'_>, script: &str) -> Result<InSystem> {
        let mut capture = Capture::new(context.built_with_shell()?, Path::new("sh"));
        capture.args = vec!["-c".into(), script.into()];
        capture.programs = self.programs.clone();
        capture.files = Some(self.files);
        let variables =
            [("PWD", format!("/boot/{FILES}")), ("TMP", "/tmp".into()), ("HOME", "/tmp".into()), ("TZ", "UTC0".into())];
        capture.variables = variables.map(|(name, value)| (name.to_owned(), value)).into();
        capture.variables.extend(self.variables.iter().cloned());
        capture.memory = 1 << 30;
        let outcome = capture.run()?;
        let errors = format!("{}\n{}", text(&outcome.stderr()), outcome.warnings.join("\n"));
        Ok(InSystem { end: outcome.end.clone(), output: outcome.stdout(), errors: tail(errors.trim_end(), 15) })
    }
}

/// Each section of the host's output is a case: the system's must be equal.
fn compare(here: &[u8], there: &InSystem, cases: &mut Cases) -> Result<()> {
    let found = sections(&there.output);
    for (name, expected) in sections(here) {
        let found = found.iter().find(|(found, _)| *found == name).map(|(_, bytes)| bytes.as_slice());
        cases.case(&name, same(found, &expected).map_err(|text| format!("{text}\n{}", there.errors)));
    }
    if there.end != End::Exit(0) {
        bail!("in the system the script ended with {:?}:\n{}", there.end, there.errors);
    }
    Ok(())
}

/// The result of a script in the system.
struct InSystem {
    end: End,
    output: Vec<u8>,
    errors: String,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The cases of a script's output.
fn sections(output: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut sections: Vec<(String, Vec<Vec<u8>>)> = Vec::new();
    for line in output.split_inclusive(|&byte| byte == b'\n') {
        match (line.strip_prefix(b"=== "), sections.last_mut()) {
            (Some(name), _) => sections.push((text(name).trim_end().to_owned(), Vec::new())),
            (None, Some((_, lines))) => lines.push(line.to_vec()),
            (None, None) => sections.push(("(before the first case)".into(), vec![line.to_vec()])),
        }
    }
    for (name, lines) in &mut sections {
        if name.ends_with("(in any order)") {
            lines.sort();
        }
        if name.ends_with("(the code alone)") {
            lines.retain(|line| line.starts_with(b"code "));
        }
    }
    sections.into_iter().map(|(name, lines)| (name, lines.concat())).collect()
}

/// Says where two outputs begin to differ.
fn same(found: Option<&[u8]>, expected: &[u8]) -> Result<(), String> {
    let found = found.ok_or("the system's output ends before it")?;
    if found == expected {
        return Ok(());
    }
    let equal = found.iter().zip(expected).take_while(|(a, b)| a == b).count();
    let from = expected[..equal.min(expected.len())].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let part = |bytes: &[u8]| text(&bytes[from.min(bytes.len())..]).lines().take(3).collect::<Vec<_>>().join("\n  ");
    Err(format!(
        "the system printed {} bytes, the host {}; from byte {equal} on they differ:\nsystem:\n  {}\nhost:\n  {}",
        found.len(),
        expected.len(),
        part(found),
        part(expected)
    ))
}

#[cfg(test)]
mod unit_tests {
    use super::*;

    #[test]
    fn sections_of_an_output() {
        let found = sections(b"=== one\na\n=== two (in any order)\nz\nb\n");
        let expected = [("one", "a\n"), ("two (in any order)", "b\nz\n")];
        assert_eq!(found, expected.map(|(name, bytes)| (name.to_owned(), bytes.as_bytes().to_vec())));
        assert!(same(Some(b"a"), b"a").is_ok());
        assert!(same(None, b"").is_err());
        assert!(same(Some(b"a\nb"), b"a\nc").unwrap_err().contains("from byte 2 on"));
    }
}
