//! `test`: everything that shows that the project does what it says.
//!
//! A [`Test`] has a name with dots in it (`boot.exit-code`) and may have many cases, each of which counts. What it needs
//! of the system is built when the first test asks for it, so `./hafnon test unit.objects` builds no kernel. Every case
//! is a line; what failed says why, below its line; the last line counts.

mod boots;
mod c;
mod checks;
mod conformance;
mod debugging;
mod drivers;
mod files;
mod network;
mod packages;
mod programs;
mod shell;
mod units;
mod wrong;

pub use units::copy_folder;

use std::cell::OnceCell;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::build::{self, Built, What};
use crate::cli::TestArgs;
use crate::ecosystem;
use crate::mutations;
use crate::paths::Paths;
use crate::run;
use crate::rust_tests;
use crate::setup;
use crate::ui::Ui;

/// What a test does: reports its cases, or fails as a whole.
type Body = Box<dyn Fn(&Context<'_>, &mut Cases) -> Result<()>>;

/// Something that is tested.
pub struct Test {
    name: String,
    run: Body,
}

impl Test {
    /// A test whose cases report themselves.
    pub fn many(name: impl Into<String>, run: impl Fn(&Context<'_>, &mut Cases) -> Result<()> + 'static) -> Test {
        Test { name: name.into(), run: Box::new(run) }
    }

    /// A test that is one case.
    pub fn one(name: impl Into<String>, run: impl Fn(&Context<'_>) -> Result<()> + 'static) -> Test {
        Test::many(name, move |context, cases| {
            run(context)?;
            cases.pass_whole();
            Ok(())
        })
    }
}

/// What tests work with.
pub struct Context<'a> {
    /// The tree.
    pub paths: &'a Paths,
    /// How to speak.
    pub ui: Ui,
    built: OnceCell<Built>,
    built_with_shell: OnceCell<Built>,
    hello: OnceCell<PathBuf>,
}

impl Context<'_> {
    /// The system.
    ///
    /// # Errors
    /// It does not build.
    pub fn built(&self) -> Result<&Built> {
        if let Some(built) = self.built.get() {
            return Ok(built);
        }
        setup::for_booting(&self.ui)?;
        let built = build::build(self.paths, &self.ui, What::default())?;
        Ok(self.built.get_or_init(|| built))
    }

    /// The system with the shell.
    ///
    /// # Errors
    /// It does not build.
    pub fn built_with_shell(&self) -> Result<&Built> {
        if let Some(built) = self.built_with_shell.get() {
            return Ok(built);
        }
        setup::for_booting(&self.ui)?;
        let built = build::build(self.paths, &self.ui, What { shell: true, ..What::default() })?;
        Ok(self.built_with_shell.get_or_init(|| built))
    }

    /// The system with the conformance programs.
    ///
    /// # Errors
    /// It does not build.
    pub fn built_with_tests(&self) -> Result<Built> {
        setup::for_booting(&self.ui)?;
        build::build(self.paths, &self.ui, What { tests: true, ..What::default() })
    }

    /// The example `hello`, built for the system.
    ///
    /// # Errors
    /// It does not build.
    pub fn hello(&self) -> Result<&PathBuf> {
        if let Some(hello) = self.hello.get() {
            return Ok(hello);
        }
        self.built()?;
        let hello = run::example(self.paths, &self.ui, "hello")?;
        Ok(self.hello.get_or_init(|| hello))
    }
}

/// Counts cases and prints them.
#[derive(Debug, Default)]
pub struct Cases {
    /// Cases that did what they should.
    pub passed: usize,
    /// Cases that did not.
    pub failed: usize,
    group: String,
    group_failed: usize,
    group_passed: usize,
    verbose: bool,
}

impl Cases {
    /// A case of the test that runs.
    pub fn case(&mut self, name: &str, result: Result<(), String>) {
        match result {
            Ok(()) => {
                self.group_passed += 1;
                if self.verbose {
                    println!("ok      {}: {name}", self.group);
                }
            }
            Err(detail) => self.fail(name, &detail),
        }
    }

    fn pass_whole(&mut self) {
        self.group_passed += 1;
    }

    fn fail(&mut self, name: &str, detail: &str) {
        self.group_failed += 1;
        let colon = if name.is_empty() { "" } else { ": " };
        println!("FAILED  {}{colon}{name}", self.group);
        detail.trim_end().lines().for_each(|line| println!("        | {line}"));
    }

    fn run(&mut self, test: &Test, context: &Context<'_>) {
        self.group = test.name.clone();
        (self.group_passed, self.group_failed) = (0, 0);
        let start = Instant::now();
        if let Err(error) = (test.run)(context, self) {
            self.fail("", &format!("{error:#}"));
        }
        if self.group_failed == 0 {
            let cases = if self.group_passed == 1 { String::new() } else { format!(" {} cases,", self.group_passed) };
            println!("ok      {}{cases} ({:.1} s)", self.group, seconds(start.elapsed()));
        } else if self.group_passed > 0 {
            println!("        {} of {} cases passed", self.group_passed, self.group_passed + self.group_failed);
        }
        self.passed += self.group_passed;
        self.failed += self.group_failed;
    }
}

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}

/// Runs the tests; gives whether all passed.
///
/// # Errors
/// The filter fits no test.
pub fn test(paths: &Paths, args: &TestArgs) -> Result<bool> {
    if args.filter.as_deref() == Some("mutations") {
        return mutations::run(paths, args);
    }
    if args.filter.as_deref() == Some("rust") {
        return rust_tests::run(paths, args);
    }
    if args.filter.as_deref() == Some("ecosystem") {
        return ecosystem::run(paths, args);
    }
    let tests = [
        units::tests(paths)?,
        checks::tests(),
        boots::tests(),
        c::tests(),
        drivers::tests(),
        network::tests(),
        files::tests(),
        shell::tests(),
        debugging::tests(),
        wrong::tests(),
        conformance::tests(&args.cases),
        packages::tests(paths)?,
        programs::tests(),
    ];
    if !args.cases.is_empty() && args.filter.as_deref() != Some("conformance") {
        return Err(anyhow::anyhow!("cases can be chosen of `conformance` only: `./hafnon test conformance channel.`"));
    }
    let wanted = |test: &&Test| match &args.filter {
        Some(filter) if args.cases.is_empty() => test.name.contains(filter.as_str()),
        Some(filter) => test.name == *filter,
        None => true,
    };
    let tests: Vec<&Test> = tests.iter().flatten().filter(wanted).collect();
    if tests.is_empty() {
        let filter = args.filter.as_deref().unwrap_or_default();
        return Err(anyhow::anyhow!("no test has `{filter}` in its name; --list shows the names"));
    }
    if args.list {
        tests.iter().for_each(|test| println!("{}", test.name));
        return Ok(true);
    }
    let ui = Ui::new(false);
    let context =
        Context { paths, ui, built: OnceCell::new(), built_with_shell: OnceCell::new(), hello: OnceCell::new() };
    let mut cases = Cases { verbose: args.verbose, ..Cases::default() };
    tests.iter().for_each(|test| cases.run(test, &context));
    println!("{} passed, {} failed", cases.passed, cases.failed);
    Ok(cases.failed == 0)
}

/// Fails with both values where they differ.
///
/// # Errors
/// They differ.
pub fn expect<T: PartialEq + std::fmt::Debug>(what: &str, found: &T, expected: &T) -> Result<()> {
    if found == expected { Ok(()) } else { Err(anyhow::anyhow!("{what}: {found:?}, expected {expected:?}")) }
}

/// Fails where `text` does not contain `part`.
///
/// # Errors
/// It does not.
pub fn expect_part(what: &str, text: &str, part: &str) -> Result<()> {
    text.contains(part).then_some(()).with_context(|| format!("{what} does not say `{part}`:\n{}", tail(text, 20)))
}

/// The last lines of a text.
pub fn tail(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}
