//! Parses one run of `cargo test` into cases.
//!
//! Cargo names each program that it runs (`Running tests/x.rs`, `Doc-tests x`), and the test harness in the program
//! prints a line for each case. Both are read from one pipe, which preserves their order. A program that ends in the
//! middle of a case has failed in it. A program without a harness is a case by itself.

use std::io::{ErrorKind, PipeReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

use super::Package;
use xtask_common::paths::Paths;
use xtask_common::words::{self, tail};
use xtask_run::batch::Keeper;

/// Default time limit of a program in seconds.
const LIMIT: u64 = 600;

/// The result of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It passed.
    Passed,
    /// It failed.
    Failed,
    /// The package itself marks it as ignored.
    Ignored,
    /// An example in the documentation that is only compiled, and not run anywhere.
    Compiled,
}

/// A case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// The test program: `lib`, `doc`, or the name of a file in `tests`.
    pub program: String,
    /// Its name there; empty if the program itself is the case.
    pub name: String,
    /// Its result.
    pub outcome: Outcome,
    /// The end of its output, if it failed.
    #[serde(default)]
    pub said: String,
}

impl Case {
    /// The program and the name.
    pub fn full_name(&self) -> String {
        if self.name.is_empty() { self.program.clone() } else { format!("{}: {}", self.program, self.name) }
    }
}

/// Runs the suite of a package whose copy is in `folder`; without a keeper, on the host. `chosen` names its programs;
/// empty means all.
///
/// # Errors
/// Nothing in it builds.
pub fn run(
    paths: &Paths,
    package: &Package,
    folder: &Path,
    keeper: Option<&Keeper>,
    chosen: &[String],
) -> Result<Vec<Case>> {
    let suite = Suite { paths, package, folder, keeper };
    if chosen.is_empty() && package.leave_out.is_empty() {
        let (cases, said) = suite.cargo_test(&[])?;
        if !cases.is_empty() {
            return Ok(cases);
        }
        // A program that does not build prevents all others from running.
        let cases = suite.each()?;
        if cases.iter().all(|case| case.name == NOT_BUILT) {
            bail!("the tests of {} do not build:\n{}", package.name, tail(&said, 40));
        }
        return Ok(cases);
    }
    let mut programs = if chosen.is_empty() { suite.programs()? } else { chosen.to_vec() };
    programs.retain(|program| !package.leave_out.contains_key(program));
    // Cargo runs documentation examples only in a separate call.
    let (docs, others): (Vec<String>, Vec<String>) = programs.into_iter().partition(|program| program == "doc");
    if others.iter().any(|program| program != "lib") {
        suite.build_examples()?;
    }
    let mut cases = Vec::new();
    for programs in [others, docs].iter().filter(|programs| !programs.is_empty()) {
        let (found, said) = suite.cargo_test(programs)?;
        if found.is_empty() {
            bail!("the tests of {} do not build:\n{}", package.name, tail(&said, 40));
        }
        cases.extend(found);
    }
    Ok(cases)
}

/// The name of the case that stands for a program that does not build.
const NOT_BUILT: &str = "(build)";

/// A running suite.
struct Suite<'a> {
    paths: &'a Paths,
    package: &'a Package,
    folder: &'a Path,
    /// Its machine; without one it runs on the host.
    keeper: Option<&'a Keeper>,
}

impl Suite<'_> {
    fn command(&self) -> Result<Command> {
        let limit = Duration::from_secs(self.package.limit.unwrap_or(LIMIT));
        let mut command = super::cargo(self.paths, self.keeper, limit)?;
        command.current_dir(self.folder);
        self.package.add_patch(&mut command, self.folder);
        Ok(command)
    }

    /// Cargo for a command that builds.
    fn building(&self, what: &str) -> Result<Command> {
        let mut command = self.command()?;
        let target = if self.keeper.is_none() { "packages/host" } else { "packages/target" };
        command.args([what, "--locked", "--target-dir"]).arg(self.paths.out.join(target));
        if !self.package.features.is_empty() {
            command.arg("--features").arg(self.package.features.join(","));
        }
        Ok(command)
    }

    /// Builds the examples, which tests may start. Cargo does this by itself only if no programs are named. If an
    /// example does not build, the tests that need it fail.
    fn build_examples(&self) -> Result<()> {
        let mut command = self.building("build")?;
        command.arg("--examples").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().context("cannot start cargo")?;
        Ok(())
    }

    /// One call of cargo for these programs, or for all; returns no cases if a program does not build, and cargo's
    /// output.
    fn cargo_test(&self, programs: &[String]) -> Result<(Vec<Case>, String)> {
        let mut command = self.building("test")?;
        command.arg("--no-fail-fast");
        for program in programs {
            match program.as_str() {
                "lib" => command.arg("--lib"),
                "doc" => command.arg("--doc"),
                name => command.args(["--test", name]),
            };
        }
        if self.keeper.is_some() && !self.package.skip.is_empty() {
            command.arg("--");
            for name in &self.package.skip {
                command.args(["--skip", name]);
            }
        }
        let (reader, writer) = std::io::pipe().context("cannot make a pipe")?;
        command.stdin(Stdio::null()).stdout(writer.try_clone().context("cannot share a pipe")?).stderr(writer);
        let mut child = command.spawn().context("cannot start cargo")?;
        // It holds the other end of the pipe.
        drop(command);
        let (cases, said) = read(reader)?;
        child.wait().context("cannot wait for cargo")?;
        Ok((cases, said))
    }

    /// Runs each program in a separate call.
    fn each(&self) -> Result<Vec<Case>> {
        self.build_examples()?;
        let mut cases = Vec::new();
        for program in self.programs()? {
            let (found, said) = self.cargo_test(std::slice::from_ref(&program))?;
            if found.is_empty() && said.contains("error: could not compile") {
                let said = tail(&said, 20);
                cases.push(Case { program, name: NOT_BUILT.into(), outcome: Outcome::Failed, said });
            }
            cases.extend(found);
        }
        Ok(cases)
    }

    /// The names of all its programs.
    fn programs(&self) -> Result<Vec<String>> {
        let mut command = self.command()?;
        command.args(["metadata", "--no-deps", "--format-version", "1"]).env_remove("CARGO_BUILD_TARGET");
        let output = command.output().context("cannot start cargo")?;
        let metadata: serde_json::Value =
            serde_json::from_slice(&output.stdout).context("cannot read cargo's metadata")?;
        let mut programs = Vec::new();
        for target in metadata["packages"][0]["targets"].as_array().into_iter().flatten() {
            let kind = target["kind"][0].as_str().unwrap_or_default();
            match (kind, target["test"] == true, target["doctest"] == true) {
                ("test", true, _) => programs.push(target["name"].as_str().unwrap_or_default().to_owned()),
                (kind, true, docs) if kind.ends_with("lib") || kind == "proc-macro" => {
                    programs.insert(0, "lib".into());
                    if docs {
                        programs.push("doc".into());
                    }
                }
                _ => {}
            }
        }
        programs.sort_by_key(|program| program == "doc");
        Ok(programs)
    }
}

fn read(mut pipe: PipeReader) -> Result<(Vec<Case>, String)> {
    let mut reader = Reader::default();
    let mut said = String::new();
    let mut take = |line: &str| {
        reader.line(line);
        said.push_str(line);
        said.push('\n');
        if said.len() > 1 << 20 {
            said.drain(..said.ceil_char_boundary(said.len() - (1 << 16)));
        }
    };
    let (mut lines, mut buffer) = (words::Lines::default(), vec![0; 1 << 16]);
    loop {
        match pipe.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => lines.push(&buffer[..count], &mut take),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error).context("cannot read what cargo prints"),
        }
    }
    lines.end(take);
    reader.end_of_program();
    Ok((reader.cases, said))
}

/// Maximum number of cases of a suite. Further lines are ignored.
const MOST: usize = 1 << 18;

/// Assembles lines into cases.
#[derive(Debug, Default)]
struct Reader {
    cases: Vec<Case>,
    /// The program that runs.
    program: Option<String>,
    /// Its harness has begun; it has ended.
    begun: bool,
    ended: bool,
    /// Cargo reports that it failed.
    failed: bool,
    /// The case whose result is outstanding, and its output so far.
    open: Option<(String, String)>,
    /// The failed case whose output follows.
    shown: Option<usize>,
}

impl Reader {
    fn line(&mut self, line: &str) {
        if let Some(program) = program(line) {
            self.end_of_program();
            *self = Reader { cases: std::mem::take(&mut self.cases), program: Some(program), ..Reader::default() };
            return;
        }
        if self.program.is_none() {
            return;
        }
        if line.starts_with("error: test failed") || line.starts_with("error: doctest failed") {
            self.failed = true;
            return;
        }
        if line.starts_with("running ") && (line.ends_with(" tests") || line.ends_with(" test")) {
            self.begun = true;
            return;
        }
        if line.starts_with("test result: ") {
            self.ended = true;
            self.shown = None;
            return;
        }
        if let Some(name) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")) {
            self.shown = self.find(name);
            return;
        }
        if let Some(index) = self.shown {
            let said = &mut self.cases[index].said;
            // The addresses of a backtrace tell nothing.
            if said.len() < 2000 && !line.starts_with("note: run with") && !line.starts_with("{{{") {
                said.push_str(line);
                said.push('\n');
            }
            return;
        }
        if let Some((name, result)) = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... ")) {
            match outcome(result) {
                Some(outcome) => self.case(name, outcome, String::new()),
                None => self.open = Some((name.to_owned(), result.to_owned())),
            }
        } else if let Some((name, mut said)) = self.open.take() {
            match outcome(line) {
                Some(outcome) => self.case(&name, outcome, said),
                None => {
                    if said.len() < 2000 {
                        said.push('\n');
                        said.push_str(line);
                    }
                    self.open = Some((name, said));
                }
            }
        }
    }

    fn find(&self, name: &str) -> Option<usize> {
        let program = self.program.as_deref()?;
        self.cases.iter().rposition(|case| case.program == program && name.starts_with(&case.name))
    }

    fn case(&mut self, name: &str, outcome: Outcome, said: String) {
        let Some(program) = self.program.clone() else { return };
        if self.cases.len() >= MOST {
            return;
        }
        let said = if outcome == Outcome::Failed { said } else { String::new() };
        // Notes of the harness about panics and compilation are not part of the name.
        let name = name.strip_suffix(" - should panic").unwrap_or(name);
        let (name, outcome) = match name.strip_suffix(" - compile fail").or_else(|| name.strip_suffix(" - compile")) {
            Some(name) if outcome == Outcome::Passed => (name, Outcome::Compiled),
            Some(name) => (name, outcome),
            None => (name, outcome),
        };
        self.cases.push(Case { program, name: name.to_owned(), outcome, said });
    }

    fn end_of_program(&mut self) {
        if let Some((name, said)) = self.open.take() {
            self.case(&name, Outcome::Failed, format!("{said}\nthe program ended in this case"));
        } else if self.begun && !self.ended {
            self.case("", Outcome::Failed, "the program ended before its result".into());
        } else if !self.begun && self.program.is_some() {
            let outcome = if self.failed { Outcome::Failed } else { Outcome::Passed };
            self.case("", outcome, "it ended with an error".into());
        }
        self.program = None;
    }
}

fn outcome(text: &str) -> Option<Outcome> {
    match text {
        "ok" => Some(Outcome::Passed),
        "FAILED" => Some(Outcome::Failed),
        _ if text == "ignored" || text.starts_with("ignored, ") => Some(Outcome::Ignored),
        // Benchmarks, which run once.
        _ if text.starts_with("bench:") => Some(Outcome::Passed),
        _ => None,
    }
}

/// The program that a line of cargo's output announces.
fn program(line: &str) -> Option<String> {
    let line = line.trim_start();
    if line.strip_prefix("Doc-tests ").is_some_and(|rest| !rest.contains(' ')) {
        return Some("doc".into());
    }
    let what = line.strip_prefix("Running ")?;
    let (source, file) = what.rsplit_once(" (")?;
    file.ends_with(')').then_some(())?;
    Some(match source.strip_prefix("unittests ") {
        Some("src/lib.rs") => "lib".into(),
        Some(source) => source.to_owned(),
        None => {
            let name = source.strip_prefix("tests/").unwrap_or(source);
            name.strip_suffix("/main.rs").or_else(|| name.strip_suffix(".rs")).unwrap_or(name).to_owned()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cases(text: &str) -> Vec<(String, Outcome)> {
        let mut reader = Reader::default();
        text.lines().for_each(|line| reader.line(line));
        reader.end_of_program();
        reader.cases.iter().map(|case| (case.full_name(), case.outcome)).collect()
    }

    proptest::proptest! {
        /// Lines with valid syntax, in any order.
        #[test]
        fn no_lines_make_it_panic(lines in proptest::collection::vec(0..12usize, 0..40)) {
            let all = [
                "     Running unittests src/lib.rs (target/deps/x-1)", "   Doc-tests x", "     Running  ()",
                "running 18446744073709551616 tests", "test a ... ok", "test a ... said", "test  ...  - compile fail ... FAILED",
                "---- a stdout ----", "----  stdout ----", "test result: ok. 99999999999999999999 passed", "FAILED",
                "error: test failed, to rerun pass `--lib`",
            ];
            cases(&lines.iter().map(|n| all[*n]).collect::<Vec<_>>().join("\n"));
        }
    }

    #[test]
    fn cases_without_end_are_not_kept() {
        let mut reader = Reader::default();
        reader.line("     Running unittests src/lib.rs (target/deps/x-1)");
        (0..2 * MOST).for_each(|n| reader.line(&format!("test {n} ... ok")));
        assert_eq!(reader.cases.len(), MOST);
    }

    #[test]
    fn a_whole_run() {
        let found = cases(
            "   Compiling x v1.0.0\n     Running unittests src/lib.rs (target/deps/x-1)\n\nrunning 3 tests\n\
             test a::b ... ok\ntest c ... said by it\nmore\nFAILED\ntest d - should panic ... ignored, why\n\nfailures:\n\n\
             ---- c stdout ----\nthread 'c' panicked\ntest nothing ... ok\n\nfailures:\n    c\n\n\
             test result: FAILED. 1 passed; 1 failed;\n\nerror: test failed, to rerun pass `--lib`\n\
                  Running tests/own.rs (target/deps/own-2)\nhello\n     Running tests/dies/main.rs (target/deps/dies-3)\n\
             \nrunning 2 tests\ntest e ... ok\ntest f ... error: test failed, to rerun\n   Doc-tests x\n\nrunning 2 tests\n\
             test src/lib.rs - g (line 3) ... ok\ntest src/lib.rs - h (line 9) - compile fail ... ok\n\n\
             test result: ok. 2 passed;\n",
        );
        let expected = [
            ("lib: a::b", Outcome::Passed),
            ("lib: c", Outcome::Failed),
            ("lib: d", Outcome::Ignored),
            ("own", Outcome::Passed),
            ("dies: e", Outcome::Passed),
            ("dies: f", Outcome::Failed),
            ("doc: src/lib.rs - g (line 3)", Outcome::Passed),
            ("doc: src/lib.rs - h (line 9)", Outcome::Compiled),
        ];
        assert_eq!(found, expected.map(|(name, outcome)| (name.to_owned(), outcome)));
    }
}
