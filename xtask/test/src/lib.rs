//! `test`: everything that shows that the project does what it promises.
//!
//! A [`Test`] has a name with dots (`boot.exit-code`) and may have many cases, each of which counts. The parts of the
//! system that a test needs are built when the first test needs them, so `./hafnon test unit.objects` builds no kernel.
//! A test prints one line; a failure prints its reason below; the last line counts the cases.
//!
//! A machine keeps one processor busy, but tests also wait: for a machine's clock, or for another test's build. So one
//! more test runs in parallel than there are processors, at most [`LANES`].
#![forbid(unsafe_code)]

mod allocations;
mod architecture;
pub mod args;
mod bench;
mod bombs;
mod boots;
mod c;
mod c_links;
mod checks;
mod conformance;
mod debugging;
mod disk;
mod drivers;
mod ecosystem;
mod failing;
mod files;
mod flood;
pub mod fuzz;
mod fuzzing;
pub mod host;
mod hostile;
mod instances;
mod kernel;
mod kernel_entry;
mod mutations;
mod native;
mod network;
mod new_call;
mod nouns;
mod operations;
mod packages;
mod programs;
mod rump;
mod rump_tool;
mod rust_tests;
mod shell;
mod switch;
mod units;
mod volume;
mod vproc;
mod wrong;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result};

use crate::args::TestArgs;
use xtask_build::cargo::{self, Build};
use xtask_build::{BuildOptions, Built, setup};
use xtask_common::paths::Paths;
use xtask_common::ui::Ui;
use xtask_common::words::{self, tail};
use xtask_conformance::missing_features;

/// The body of a test: reports its cases, or fails as a whole.
type Body = Box<dyn Fn(&Context<'_>, &mut Cases) -> Result<()> + Send + Sync>;

/// Maximum number of tests that run in parallel: several of them may build at the same time, which takes gigabytes of
/// memory.
const LANES: usize = 4;

/// A test.
pub struct Test {
    name: String,
    run: Body,
}

impl Test {
    /// A test that reports its own cases.
    pub fn many(
        name: impl Into<String>,
        run: impl Fn(&Context<'_>, &mut Cases) -> Result<()> + Send + Sync + 'static,
    ) -> Test {
        Test { name: name.into(), run: Box::new(run) }
    }

    /// A test that is one case.
    pub fn one(name: impl Into<String>, run: impl Fn(&Context<'_>) -> Result<()> + Send + Sync + 'static) -> Test {
        Test::many(name, move |context, cases| {
            run(context)?;
            cases.pass_whole();
            Ok(())
        })
    }
}

/// The environment of tests.
pub struct Context<'a> {
    /// The tree.
    pub paths: &'a Paths,
    /// How to print.
    pub ui: Ui,
    built: Once<Built>,
    built_with_shell: Once<Built>,
    built_with_tests: Once<Built>,
    hello: Once<PathBuf>,
    attacker: Once<kernel::Attacker>,
}

/// A value that is made when the first test needs it, and again after a failure.
#[derive(Debug)]
struct Once<T> {
    made: OnceLock<T>,
    making: Mutex<()>,
}

impl<T> Once<T> {
    fn new() -> Once<T> {
        Once { made: OnceLock::new(), making: Mutex::new(()) }
    }

    fn get(&self, make: impl FnOnce() -> Result<T>) -> Result<&T> {
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        match self.made.get() {
            Some(made) => Ok(made),
            None => make().map(|made| self.made.get_or_init(|| made)),
        }
    }
}

impl Context<'_> {
    /// The system.
    ///
    /// # Errors
    /// It does not build.
    pub fn built(&self) -> Result<&Built> {
        self.built.get(|| self.build(BuildOptions::default()))
    }

    fn build(&self, what: BuildOptions) -> Result<Built> {
        setup::for_booting(&self.ui)?;
        xtask_build::build(self.paths, &self.ui, what)
    }

    /// The system with the shell.
    ///
    /// # Errors
    /// It does not build.
    pub fn built_with_shell(&self) -> Result<&Built> {
        self.built_with_shell.get(|| self.build(BuildOptions { shell: true, ..BuildOptions::default() }))
    }

    /// The system with the conformance programs.
    ///
    /// # Errors
    /// It does not build.
    pub fn built_with_tests(&self) -> Result<&Built> {
        self.built_with_tests.get(|| self.build(BuildOptions { tests: true, ..BuildOptions::default() }))
    }

    /// The example `hello`, built for the system.
    ///
    /// # Errors
    /// It does not build.
    pub fn hello(&self) -> Result<&PathBuf> {
        self.hello.get(|| self.example("hello"))
    }

    /// Any example, built for the system with its libraries.
    ///
    /// # Errors
    /// It does not build.
    pub fn example(&self, name: &str) -> Result<PathBuf> {
        self.built()?;
        xtask_run::example(self.paths, &self.ui, name)
    }

    /// A program of the workspace that no image has, built for the system with its libraries.
    ///
    /// # Errors
    /// It does not build.
    pub fn program(&self, package: &str, name: &str) -> Result<PathBuf> {
        self.built()?;
        let args = format!("--release --locked --target {} -p {package}", cargo::PROGRAM_TARGET);
        let made = Build::new("building the program of a test", &args)
            .env("CARGO_ENCODED_RUSTFLAGS", xtask_build::program_flags(self.paths))
            .run(self.paths, &self.ui)?;
        Ok(cargo::program(&made, name)?.to_path_buf())
    }
}

/// The cases of one test, and the output about them.
#[derive(Debug, Default)]
pub struct Cases {
    /// Number of cases that passed.
    passed: usize,
    /// Number of cases that failed.
    failed: usize,
    group: String,
    text: String,
    verbose: bool,
    /// The test could not be carried out; a note with the reason replaces the result.
    is_not_made: bool,
}

impl Cases {
    /// Reports a case of the running test.
    pub fn case(&mut self, name: &str, result: Result<(), String>) {
        match result {
            Ok(()) => {
                self.passed += 1;
                if self.verbose {
                    self.line(format_args!("ok      {}: {name}", self.group.clone()));
                }
            }
            Err(detail) => self.fail(name, &detail),
        }
    }

    /// Prints a note, whether cases passed or not.
    fn note(&mut self, text: &str) {
        self.line(format_args!("        {}: {text}", self.group.clone()));
    }

    /// The test could not be carried out: prints the reason, and does not count.
    fn not_made(&mut self, why: &str) {
        self.line(format_args!("note    {}: {why}", self.group.clone()));
        self.is_not_made = true;
    }

    fn pass_whole(&mut self) {
        self.passed += 1;
    }

    fn fail(&mut self, name: &str, detail: &str) {
        self.failed += 1;
        let colon = if name.is_empty() { "" } else { ": " };
        self.line(format_args!("FAILED  {}{colon}{name}", self.group.clone()));
        detail.trim_end().lines().for_each(|line| self.line(format_args!("        | {line}")));
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Much of the text comes from the system.
        let _ = writeln!(self.text, "{}", words::visible_lines(&line.to_string()));
    }

    /// Runs a test, unless the kernel that the system runs on lacks something that it needs.
    fn run(&mut self, test: &Test, context: &Context<'_>) -> Result<()> {
        match missing_features::here()?.into_iter().find(|feature| feature.tests.contains(&test.name)) {
            Some(feature) => {
                self.not_made(&format!("left out: {}", feature.why));
                Ok(())
            }
            None => (test.run)(context, self),
        }
    }

    /// Runs a test and reports its result.
    fn of(test: &Test, context: &Context<'_>, verbose: bool) -> Cases {
        let mut cases = Cases { group: test.name.clone(), verbose, ..Cases::default() };
        let start = Instant::now();
        if let Err(error) = cases.run(test, context) {
            cases.fail("", &format!("{error:#}"));
        }
        let (passed, seconds) = (cases.passed, start.elapsed().as_secs_f64());
        if cases.failed == 0 && !cases.is_not_made {
            let count = if passed == 1 { String::new() } else { format!(" {passed} cases,") };
            cases.line(format_args!("ok      {}{count} ({seconds:.1} s)", test.name));
        } else if passed > 0 {
            cases.line(format_args!("        {passed} of {} cases passed ({seconds:.1} s)", passed + cases.failed));
        }
        cases
    }
}

/// The results of all tests together.
#[derive(Default)]
struct Sums {
    passed: usize,
    failed: usize,
    /// Seconds of each test.
    times: Vec<(f64, String)>,
}

impl Sums {
    /// Prints the duration of each test, the longest first. Several run in parallel, so the sum exceeds the elapsed
    /// time.
    fn print_times(&mut self) {
        self.times.sort_by(|one, other| other.0.total_cmp(&one.0));
        let whole: f64 = self.times.iter().map(|(seconds, _)| seconds).sum();
        println!("{:>8}  {:>6}", "seconds", "of all");
        for (seconds, name) in &self.times {
            println!("{seconds:>8.1}  {:>5.1}%  {name}", seconds * 100.0 / whole);
        }
        println!("{whole:>8.1}  100.0%  all {} tests, {LANES} at once at most", self.times.len());
    }
}

/// Runs tests in parallel; prints each when it has ended.
fn run_all(tests: &[&Test], context: &Context<'_>, verbose: bool) -> Sums {
    let lanes = thread::available_parallelism().map_or(2, |processors| processors.get() + 1).min(LANES);
    let next = AtomicUsize::new(0);
    let sums = Mutex::new(Sums::default());
    thread::scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(|| {
                while let Some(test) = tests.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let start = Instant::now();
                    let cases = Cases::of(test, context, verbose);
                    let mut sums = sums.lock().unwrap_or_else(PoisonError::into_inner);
                    print!("{}", cases.text);
                    sums.passed += cases.passed;
                    sums.failed += cases.failed;
                    sums.times.push((start.elapsed().as_secs_f64(), test.name.clone()));
                }
            });
        }
    });
    sums.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the tests; returns whether all passed.
///
/// # Errors
/// The filter matches no test.
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
        new_call::tests(args),
        kernel::tests(args),
        boots::tests(),
        bench::tests(),
        c::tests(),
        rump_tool::tests(),
        drivers::tests(),
        network::tests(args),
        switch::tests(args),
        instances::tests(),
        native::tests(),
        files::tests(),
        disk::tests(args),
        failing::tests(),
        operations::tests(),
        shell::tests(),
        debugging::tests(),
        wrong::tests(),
        conformance::tests(&args.cases),
        hostile::tests(),
        vproc::tests(args),
        allocations::tests(),
        bombs::tests(),
        flood::tests(),
        fuzzing::tests(),
        packages::tests(paths)?,
        programs::tests(args),
        rump::tests(args),
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
    if args.filter.is_none() {
        setup::room_for_tests(paths)?;
    }
    // Progress bars of parallel tests would overwrite each other.
    let ui = Ui::plain();
    let (built, built_with_shell, built_with_tests) = (Once::new(), Once::new(), Once::new());
    let context =
        Context { paths, ui, built, built_with_shell, built_with_tests, hello: Once::new(), attacker: Once::new() };
    let mut sums = run_all(&tests, &context, args.verbose);
    if args.times {
        sums.print_times();
    }
    println!("{} passed, {} failed", sums.passed, sums.failed);
    Ok(sums.failed == 0)
}

/// Fails with both values if they differ.
///
/// # Errors
/// They differ.
pub fn expect<T: PartialEq + std::fmt::Debug>(what: &str, found: &T, expected: &T) -> Result<()> {
    if found == expected { Ok(()) } else { Err(anyhow::anyhow!("{what}: {found:?}, expected {expected:?}")) }
}

/// Fails if `text` does not contain `part`.
///
/// # Errors
/// It does not.
pub fn expect_part(what: &str, text: &str, part: &str) -> Result<()> {
    text.contains(part).then_some(()).with_context(|| format!("{what} does not say `{part}`:\n{}", tail(text, 20)))
}
