//! `test ecosystem`: runs the test suites of third-party packages, unmodified, in the system.
//!
//! 1. `xtask/test/packages/Cargo.toml` names packages and versions; cargo fetches and verifies them ([`package`]).
//! 2. Each is copied to its own folder, with the lock file of its tests' dependencies (`locks/`).
//! 3. `cargo test` runs there, once for the host ([`baseline`]: the number of cases) and then for the system, all in
//!    one machine ([`xtask_run::batch`]). Its output is parsed into cases ([`suite`]).
//! 4. `reasons.toml` must have a reason for every case that fails ([`verdict`]); the results are printed as a table
//!    ([`table`]).
//!
//! The results of each package are kept as JSON in `target/hafnon/ecosystem`, so `--continue` can resume an interrupted
//! run.

mod baseline;
pub mod package;
mod suite;
mod table;
mod verdict;

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

use crate::args::TestArgs;
use xtask_build::{BuildOptions, setup};
use xtask_common::paths::Paths;
use xtask_common::ui::Ui;
use xtask_conformance::record;
use xtask_run::args::Accel;
use xtask_run::args::CargoArgs;
use xtask_run::batch::Keeper;
use xtask_run::cargo_command;

pub use baseline::Baseline;
pub use package::{List, Package};
pub use suite::{Case, Outcome};
pub use verdict::{Reasons, Verdict};

/// Where a suite runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestPlace {
    /// On the host.
    Host,
    /// In the system.
    System,
}

/// The results of one package's suite.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// The package.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The commit of this tree at the test, with a `+` if files differed from it.
    pub commit: String,
    /// Duration in seconds, including compilation.
    pub seconds: f64,
    /// Every case.
    pub cases: Vec<Case>,
}

/// Memory of the machine that runs the suites, in bytes.
const MACHINE: u64 = 2 << 30;

/// Runs the suites of the named packages, or of all; returns whether all results are good.
///
/// # Errors
/// There is no such package, or something does not build.
pub fn run(paths: &Paths, args: &TestArgs) -> Result<bool> {
    let list = List::read(paths)?;
    if let Some(wanted) = &args.any {
        let package = package::any(paths, wanted)?;
        return one_of_any(paths, &package);
    }
    let unknown = args.cases.iter().find(|name| !list.packages.iter().any(|package| package.name == **name));
    if let Some(name) = unknown {
        bail!("{name} is not in xtask/test/packages/packages.toml; `--any {name}` runs the suite of any package");
    }
    let chosen = |package: &&Package| args.cases.is_empty() || args.cases.contains(&package.name);
    let packages: Vec<&Package> = list.packages.iter().filter(chosen).collect();
    if args.list {
        packages.iter().for_each(|package| println!("{} {}", package.name, package.version));
        return Ok(true);
    }
    if args.lock {
        for package in &packages {
            package.lock(paths)?;
        }
        return Ok(true);
    }
    let session = Session::start(paths, if args.host { TestPlace::Host } else { TestPlace::System })?;
    if args.host {
        return baseline::record(paths, &session, &packages);
    }
    let mut verdicts = Vec::new();
    let start = Instant::now();
    println!("{}", table::HEAD);
    for package in &packages {
        let kept = if args.resume { session.kept(package) } else { None };
        let record = match kept {
            Some(record) => record,
            None => session.run(package, TestPlace::System, &[])?,
        };
        let verdict = session.judge(package, record, &[])?;
        println!("{}", table::line(&verdict));
        verdicts.push(verdict);
    }
    let fine = table::finish(&verdicts, start.elapsed());
    if args.cases.is_empty() {
        let page = paths.workspace.join("docs/ecosystem.md");
        table::write_page(&page, &verdicts)?;
    }
    session.check()?;
    Ok(fine)
}

/// Runs the suite of any package: first on the host, to learn which cases there are.
fn one_of_any(paths: &Paths, package: &Package) -> Result<bool> {
    let session = Session::start(paths, TestPlace::System)?;
    println!("{} {} on the host", package.name, package.version);
    let here = session.run(package, TestPlace::Host, &[])?;
    let baseline = Baseline::from_record(&here);
    println!("{} {} in the system", package.name, package.version);
    let there = session.run(package, TestPlace::System, &[])?;
    let failing_here = here.cases.iter().filter(|case| case.outcome == Outcome::Failed);
    let reasons = failing_here.map(|case| (case.full_name(), "it fails on the host, too".to_owned())).collect();
    let verdict = Verdict::new(there, baseline.of(package), reasons);
    println!("{}\n{}", table::HEAD, table::line(&verdict));
    session.check()?;
    Ok(table::finish(&[verdict], Duration::from_secs_f64(here.seconds)))
}

/// The environment of the suites: a machine, and folders.
pub struct Session<'a> {
    paths: &'a Paths,
    /// Without one, everything runs on the host.
    keeper: Option<Keeper>,
    commit: String,
}

impl<'a> Session<'a> {
    /// Builds the system, if suites run in it.
    ///
    /// # Errors
    /// It does not build.
    pub fn start(paths: &'a Paths, place: TestPlace) -> Result<Session<'a>> {
        let mut keeper = None;
        if place == TestPlace::System {
            let ui = Ui::new(false);
            setup::for_booting(&ui)?;
            let built = xtask_build::build(paths, &ui, BuildOptions::default())?;
            keeper = Some(Keeper::start(&built, MACHINE, |_| Ok(Accel::Tcg))?);
        }
        Ok(Session { paths, keeper, commit: record::commit(paths) })
    }

    /// Whether machines were stable enough.
    ///
    /// # Errors
    /// As [`Keeper::check`].
    pub fn check(&self) -> Result<()> {
        self.keeper.as_ref().map_or(Ok(()), Keeper::check)
    }

    fn file(&self, package: &Package) -> PathBuf {
        self.paths.out.join("ecosystem").join(format!("{}.json", package.name))
    }

    /// The result of an earlier run with the same tree and package.
    fn kept(&self, package: &Package) -> Option<Record> {
        let record: Record = serde_json::from_slice(&fs::read(self.file(package)).ok()?).ok()?;
        (record.version == package.version && record.commit == self.commit).then_some(record)
    }

    /// Compares the results of these programs of a package (all if there are none) with the known ones.
    ///
    /// # Errors
    /// The reasons, or the host's counts, cannot be read.
    pub fn judge(&self, package: &Package, record: Record, programs: &[String]) -> Result<Verdict> {
        let mut baseline = Baseline::read(self.paths)?.of(package);
        if let (Some(baseline), false) = (&mut baseline, programs.is_empty()) {
            baseline.cases.retain(|program, _| programs.contains(program));
        }
        Ok(Verdict::new(record, baseline, Reasons::read(self.paths)?.of(&package.name)))
    }

    /// Runs a suite, or these programs of it, and keeps the results of a whole suite.
    ///
    /// # Errors
    /// It does not build.
    pub fn run(&self, package: &Package, place: TestPlace, programs: &[String]) -> Result<Record> {
        let start = Instant::now();
        let folder = package.checkout(self.paths)?;
        let keeper = self.keeper.as_ref().filter(|_| place == TestPlace::System);
        let cases = suite::run(self.paths, package, &folder, keeper, programs)?;
        let seconds = start.elapsed().as_secs_f64();
        let (name, version) = (package.name.clone(), package.version.clone());
        let record = Record { name, version, commit: self.commit.clone(), seconds, cases };
        if place == TestPlace::System && programs.is_empty() {
            let file = self.file(package);
            fs::create_dir_all(file.parent().unwrap_or(&file)).context("cannot make a folder for results")?;
            fs::write(&file, serde_json::to_vec(&record).context("cannot write a result")?)
                .with_context(|| format!("cannot write {}", file.display()))?;
        }
        Ok(record)
    }
}

/// Cargo, for the system or the host (without a keeper), with the settings that all suites share.
fn cargo(paths: &Paths, keeper: Option<&Keeper>, limit: Duration) -> Result<std::process::Command> {
    let mut command = match keeper {
        None => xtask_build::cargo::command(&paths.workspace),
        Some(keeper) => {
            let args =
                CargoArgs { mem: None, timeout: Some(limit.as_secs_f64()), raw_backtraces: true, args: Vec::new() };
            let mut command = cargo_command::command(paths, &args)?;
            command.env(xtask_run::batch::SOCKET, keeper.socket());
            command
        }
    };
    // The processor is emulated, and some suites compute a lot. Checks (`debug_assertions`) stay on.
    command.env("CARGO_PROFILE_DEV_OPT_LEVEL", "1").env("CARGO_PROFILE_TEST_OPT_LEVEL", "1");
    // These programs are not debugged, and none is built twice.
    command.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_PROFILE_TEST_DEBUG", "0").env("CARGO_INCREMENTAL", "0");
    command.env("CARGO_TERM_COLOR", "never").env_remove("RUST_BACKTRACE");
    Ok(command)
}
