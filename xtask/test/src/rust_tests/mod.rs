//! `test rust`: runs Rust's own library tests in the system.
//!
//! The toolchain's component `rust-src` contains them. They are copied next to manifests of ours ([`source`]), built
//! for the system or the host ([`programs`]) and run program by program ([`cases`]). `xtask/test/rust-tests/known.toml`
//! ([`known`]) lists what fails and why. A failure that is not listed fails the command, and so does a listed case that
//! passes.

mod cases;
mod known;
mod programs;
mod source;

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Result, bail};

use crate::args::TestArgs;
use crate::{Cases, Context};
use xtask_build::{BuildOptions, setup};
use xtask_common::paths::Paths;
use xtask_common::ui::Ui;

use cases::Verdict;
use known::Known;

/// Where the tests run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the system.
    System,
    /// On the host, for comparison.
    Host,
}

/// A part of Rust's library with its own tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suite {
    /// Its usual name, which is its folder in the component.
    pub name: &'static str,
    package: &'static str,
    /// Cargo's arguments that select the targets to build.
    targets: &'static [&'static str],
    /// Whether it is quick enough to run with all other tests.
    pub quick: bool,
}

/// All suites.
pub const SUITES: [Suite; 3] = [
    Suite { name: "coretests", package: "coretests", targets: &["--test", "coretests"], quick: false },
    Suite {
        name: "alloctests",
        package: "alloctests",
        targets: &["--lib", "--test", "alloctests", "--test", "vec_deque_alloc_error"],
        quick: false,
    },
    Suite { name: "std", package: "std-tests", targets: &["--tests"], quick: true },
];

/// The result of a suite.
#[derive(Debug, Default)]
struct Outcome {
    /// By the case's name, which begins with the program's name.
    verdicts: BTreeMap<String, Verdict>,
}

/// Runs suites and prints the results; returns whether they match the table.
///
/// # Errors
/// There is no such suite, something does not build, or a machine cannot be started.
pub fn run(paths: &Paths, args: &TestArgs) -> Result<bool> {
    let place = if args.host { Place::Host } else { Place::System };
    let mut wanted = Vec::new();
    for name in &args.cases {
        let Some(suite) = SUITES.iter().find(|suite| suite.name == name) else {
            let names: Vec<&str> = SUITES.iter().map(|suite| suite.name).collect();
            bail!("there is no suite `{name}`; there are {}", names.join(", "));
        };
        wanted.push(*suite);
    }
    if wanted.is_empty() {
        wanted.extend(SUITES);
    }
    let ui = Ui::new(false);
    setup::for_booting(&ui)?;
    // Tests of processes start `sh`, `env`, `echo` and `mkdir`.
    let built = xtask_build::build(paths, &ui, BuildOptions { shell: true, ..BuildOptions::default() })?;
    let known = Known::read(paths)?;
    let mut fine = true;
    let mut all = Counts::default();
    for suite in &wanted {
        let begun = Instant::now();
        let outcome = outcome(paths, &ui, &built, *suite, place, &known)?;
        let counts = Counts::of(&outcome);
        for (name, verdict) in &outcome.verdicts {
            let said = match (verdict, known.reason(suite, name).filter(|_| place == Place::System)) {
                (Verdict::Passed | Verdict::Ignored, None) => continue,
                (Verdict::Passed, Some(_)) => "PASSED  (take it out of xtask/test/rust-tests/known.toml)".to_string(),
                (Verdict::Ignored, Some(_)) => "IGNORED (take it out of xtask/test/rust-tests/known.toml)".to_string(),
                (Verdict::Failed(_) | Verdict::Left, Some(reason)) => {
                    println!("known   {name}: {reason}");
                    continue;
                }
                (Verdict::Failed(why), None) => format!("FAILED\n{}", indent(why)),
                (Verdict::Left, None) => "LEFT OUT".to_string(),
            };
            fine = false;
            println!("{name}: {said}");
        }
        if place == Place::System {
            for name in known.of(suite).filter(|name| !outcome.verdicts.contains_key(*name)) {
                fine = false;
                println!("{name}: NO SUCH CASE (take it out of xtask/test/rust-tests/known.toml)");
            }
        }
        println!("{:<12} {counts} ({:.0} s)", suite.name, begun.elapsed().as_secs_f64());
        all.add(&counts);
    }
    if wanted.len() > 1 {
        println!("{:<12} {all}", "all");
    }
    Ok(fine)
}

/// A suite as one of the tests: every case counts, except those in the table.
///
/// # Errors
/// As [`run`].
pub fn test(context: &Context<'_>, cases: &mut Cases, suite: Suite) -> Result<()> {
    let built = context.built_with_shell()?;
    let known = Known::read(context.paths)?;
    let outcome = outcome(context.paths, &context.ui, built, suite, Place::System, &known)?;
    for (name, verdict) in outcome.verdicts {
        let result = match (verdict, known.reason(&suite, &name)) {
            (Verdict::Passed, None) => Ok(()),
            (Verdict::Passed, Some(_)) => {
                Err("it passes, and xtask/test/rust-tests/known.toml says it does not".into())
            }
            (Verdict::Failed(why), None) => Err(why),
            _ => continue,
        };
        cases.case(&name, result);
    }
    Ok(())
}

fn outcome(
    paths: &Paths,
    ui: &Ui,
    built: &xtask_build::Built,
    suite: Suite,
    place: Place,
    known: &Known,
) -> Result<Outcome> {
    let folder = source::lay_out(paths)?;
    let mut outcome = Outcome::default();
    for (name, made) in programs::build(paths, ui, &folder, suite, place)? {
        let verdicts = match made {
            Ok(program) => {
                let left: Vec<&str> = if place == Place::System { known.left(&suite, &name) } else { Vec::new() };
                match place {
                    Place::System => cases::in_the_system(built, &program, &left)?,
                    Place::Host => cases::on_the_host(&program)?,
                }
            }
            Err(why) => [("(build)".to_string(), Verdict::Failed(why))].into(),
        };
        let full = |case: String| if case.is_empty() { name.clone() } else { format!("{name}::{case}") };
        outcome.verdicts.extend(verdicts.into_iter().map(|(case, verdict)| (full(case), verdict)));
    }
    Ok(outcome)
}

fn indent(text: &str) -> String {
    text.trim_end().lines().map(|line| format!("        | {line}\n")).collect()
}

#[derive(Debug, Default)]
struct Counts {
    passed: usize,
    failed: usize,
    left: usize,
    ignored: usize,
}

impl Counts {
    fn of(outcome: &Outcome) -> Counts {
        let mut counts = Counts::default();
        for verdict in outcome.verdicts.values() {
            match verdict {
                Verdict::Passed => counts.passed += 1,
                Verdict::Failed(_) => counts.failed += 1,
                Verdict::Left => counts.left += 1,
                Verdict::Ignored => counts.ignored += 1,
            }
        }
        counts
    }

    fn add(&mut self, other: &Counts) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.left += other.left;
        self.ignored += other.ignored;
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tried = self.passed + self.failed + self.left;
        let rate = 100.0 * self.passed as f64 / tried.max(1) as f64;
        let Counts { passed, failed, left, ignored } = self;
        write!(
            f,
            "{passed} of {tried} passed ({rate:.2} %), {failed} failed, {left} left out, {ignored} ignored by Rust"
        )
    }
}
