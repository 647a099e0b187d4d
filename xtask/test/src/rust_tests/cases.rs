//! Runs one test program and parses the output of its harness, a JSON object per line.
//!
//! A case that ends the program or the machine, or never ends, would prevent the later cases from running. It counts as
//! failed, and the program is run again without it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Deserialize;

use xtask_build::Built;
use xtask_common::words::tail;
use xtask_run::Capture;
use xtask_run::session::End;

/// Time limit of a program.
const TIME: Duration = Duration::from_secs(900);
/// Memory of the machine in bytes.
const MEMORY: u64 = 1 << 30;
/// Number of cases that may end their program before the program is given up.
const ENDINGS: usize = 10;
/// The harness' output format for tools is unstable.
const HARNESS: [&str; 4] = ["-Zunstable-options", "--format=json", "--test-threads=1", "--exact"];

/// The result of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It passed.
    Passed,
    /// It failed, with this output.
    Failed(String),
    /// Rust's own sources mark it as ignored here.
    Ignored,
    /// Our table excludes it.
    Left,
}

/// Results by name, without the program's name; the empty name is the program itself, if it has no harness.
pub type Verdicts = BTreeMap<String, Verdict>;

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    event: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    stdout: String,
    #[serde(default)]
    message: String,
}

/// The result of one run of a program.
struct Run {
    said: String,
    /// Its exit code, or how else it ended.
    end: Result<i64, String>,
    /// Its other output.
    errors: String,
}

/// Runs a program in the system, without the cases in `left`.
///
/// # Errors
/// The machine cannot be started.
pub fn in_the_system(built: &Built, program: &Path, left: &[&str]) -> Result<Verdicts> {
    all(left, |args| {
        let mut capture = Capture::new(built, program);
        capture.args = args;
        capture.variables =
            [("RUSTC_BOOTSTRAP", "1"), ("RUST_BACKTRACE", "0")].map(|(k, v)| (k.into(), v.into())).into();
        capture.timeout = TIME;
        capture.memory = MEMORY;
        let outcome = capture.run()?;
        let mut errors = String::from_utf8_lossy(&outcome.stderr()).into_owned();
        errors.extend(outcome.warnings.iter().map(|line| format!("{line}\n")));
        let end = match outcome.end {
            End::Exit(code) => Ok(code),
            End::TimedOut => Err(format!("it did not end within {} s", TIME.as_secs())),
            ref end => Err(format!("{end:?}")),
        };
        Ok(Run { said: String::from_utf8_lossy(&outcome.stdout()).into_owned(), end, errors })
    })
}

/// Runs a program on the host.
///
/// # Errors
/// It cannot be started.
pub fn on_the_host(program: &Path) -> Result<Verdicts> {
    all(&[], |args| {
        let mut command = Command::new(program);
        command.args(args).env("RUSTC_BOOTSTRAP", "1").env("RUST_BACKTRACE", "0");
        let output = command.output().with_context(|| format!("cannot start {}", program.display()))?;
        let end = output.status.code().map(i64::from).ok_or_else(|| output.status.to_string());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(Run { said: text(&output.stdout), end, errors: text(&output.stderr) })
    })
}

fn all(left: &[&str], run: impl Fn(Vec<String>) -> Result<Run>) -> Result<Verdicts> {
    let mut verdicts: Verdicts = left.iter().map(|name| (name.to_string(), Verdict::Left)).collect();
    let mut without: Vec<String> = left.iter().map(ToString::to_string).collect();
    for _ in 0..ENDINGS {
        let mut args: Vec<String> = HARNESS.map(String::from).into();
        args.extend(without.iter().flat_map(|name| ["--skip".to_string(), name.clone()]));
        let run = run(args)?;
        let Some(culprit) = read(&run, &mut verdicts) else { return Ok(verdicts) };
        without.push(culprit);
    }
    Ok(verdicts)
}

/// Parses the output of a run; returns the case that ended the run early.
fn read(run: &Run, verdicts: &mut Verdicts) -> Option<String> {
    let mut begun: Option<String> = None;
    let mut whole = false;
    let mut harness = false;
    for line in run.said.lines() {
        // The output of a case's child processes may precede it in the line.
        let Some(at) = line.find("{ \"type\":") else { continue };
        let Ok(event) = serde_json::from_str::<Event>(&line[at..]) else { continue };
        harness = true;
        let verdict = match (event.kind.as_str(), event.event.as_str()) {
            ("test", "started") => {
                begun = Some(event.name);
                continue;
            }
            ("suite", "ok" | "failed") => {
                whole = true;
                continue;
            }
            ("test", "ok") => Verdict::Passed,
            ("test", "ignored") => Verdict::Ignored,
            ("test", "failed") => Verdict::Failed(tail(&format!("{}\n{}", event.message, event.stdout), 12)),
            _ => continue,
        };
        begun.take_if(|name| *name == event.name);
        verdicts.insert(event.name, verdict);
    }
    let ended = match &run.end {
        Ok(0) if !harness => {
            verdicts.insert(String::new(), Verdict::Passed);
            return None;
        }
        Ok(0 | 101) if whole => return None,
        Ok(code) => format!("the program ended with {code}"),
        Err(how) => how.clone(),
    };
    let why = Verdict::Failed(format!("{ended}\n{}", tail(&run.errors, 12)));
    match begun {
        Some(name) => {
            verdicts.insert(name.clone(), why);
            Some(name)
        }
        None => {
            // No case was running, but the program failed.
            verdicts.insert(if harness { "(end)".to_string() } else { String::new() }, why);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(said: &str, end: Result<i64, String>) -> (Verdicts, Option<String>) {
        let mut verdicts = Verdicts::new();
        let culprit = read(&Run { said: said.to_string(), end, errors: String::new() }, &mut verdicts);
        (verdicts, culprit)
    }

    #[test]
    fn verdicts_of_a_whole_run() {
        let said = r#"{ "type": "suite", "event": "started", "test_count": 3 }
{ "type": "test", "event": "started", "name": "a" }
noise{ "type": "test", "name": "a", "event": "ok" }
{ "type": "test", "event": "started", "name": "b" }
{ "type": "test", "name": "b", "event": "failed", "stdout": "it broke\n" }
{ "type": "test", "name": "c", "event": "ignored" }
{ "type": "suite", "event": "failed", "passed": 1, "failed": 1, "ignored": 1 }"#;
        let (verdicts, culprit) = run(said, Ok(101));
        assert_eq!(culprit, None);
        assert_eq!(verdicts["a"], Verdict::Passed);
        assert!(matches!(&verdicts["b"], Verdict::Failed(why) if why.contains("it broke")));
        assert_eq!(verdicts["c"], Verdict::Ignored);
        assert_eq!(verdicts.len(), 3);
    }

    #[test]
    fn a_case_that_ends_the_program_is_named() {
        let said = "{ \"type\": \"test\", \"event\": \"started\", \"name\": \"a\" }\n";
        for end in [Ok(134), Ok(101), Ok(0), Err("a timeout".to_string())] {
            let (verdicts, culprit) = run(said, end);
            assert_eq!(culprit.as_deref(), Some("a"));
            assert!(matches!(verdicts["a"], Verdict::Failed(_)));
        }
    }

    #[test]
    fn a_program_without_a_harness_is_its_own_case() {
        assert_eq!(run("success\n", Ok(0)).0[""], Verdict::Passed);
        assert!(matches!(run("", Ok(1)).0[""], Verdict::Failed(_)));
    }
}
