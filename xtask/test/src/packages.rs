//! The test suites of third-party packages, unmodified, in the system; and one program on two systems.

use std::ffi::OsString;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use super::units::read;
use super::{Cases, Context, Test};
use crate::ecosystem::{self, List, Outcome, Package, TestPlace};
use crate::rust_tests::{self, SUITES};
use xtask_build::cargo;
use xtask_common::paths::Paths;
use xtask_common::words::tail;
use xtask_run::args::{Accel, CargoArgs};
use xtask_run::session::End;
use xtask_run::{Capture, batch, cargo_command};

/// A test for each package with test programs for the plain run, the tests of the examples that have some, and the
/// example `same-source`.
///
/// # Errors
/// The list of packages cannot be read.
pub fn tests(paths: &Paths) -> Result<Vec<Test>> {
    let mut tests = vec![Test::one("same-source.same-bytes", same_source)];
    tests.extend(["descriptors", "files", "network", "std"].map(|name| {
        Test::many(format!("example.{name}"), move |context, cases| {
            cargo_test(context, cases, &context.paths.workspace.join("examples").join(name))
        })
    }));
    tests.extend(SUITES.iter().filter(|suite| suite.quick).map(|suite| {
        Test::many(format!("rust.{}", suite.name), |context, cases| rust_tests::test(context, cases, *suite))
    }));
    for one in List::read(paths)?.packages.into_iter().filter(|package| !package.ci.is_empty()) {
        tests.push(Test::many(format!("package.{}", one.name), move |context, cases| package(context, cases, &one)));
    }
    Ok(tests)
}

/// `hafnon cargo test` in a folder.
fn cargo_test(context: &Context<'_>, cases: &mut Cases, folder: &Path) -> Result<()> {
    let built = context.built()?;
    let mut args: Vec<OsString> = ["test", "--no-fail-fast", "--target-dir"].map(Into::into).into();
    args.push(context.paths.out.join("packages/target").into());
    let args = CargoArgs { mem: None, timeout: Some(600.0), raw_backtraces: false, args };
    let keeper = cargo_command::keeper(built, &args, |_| Ok(Accel::Tcg))?;
    let mut command = cargo_command::command(context.paths, &args)?;
    command.env(batch::SOCKET, keeper.socket());
    read(cases, command.current_dir(folder))?;
    keeper.check()
}

/// Runs the part of a package's suite that always runs. Failures with a listed reason are not counted.
fn package(context: &Context<'_>, cases: &mut Cases, package: &Package) -> Result<()> {
    let session = ecosystem::Session::start(context.paths, TestPlace::System)?;
    let record = session.run(package, TestPlace::System, &package.ci)?;
    for case in record.cases.iter().filter(|case| case.outcome == Outcome::Passed) {
        cases.case(&case.full_name(), Ok(()));
    }
    session.check()?;
    let verdict = session.judge(package, record, &package.ci)?;
    for failure in verdict.failures.into_iter().filter(|failure| failure.reason.is_none()) {
        cases.case(&failure.name, Err(failure.said));
    }
    Ok(())
}

/// Builds `same-source` for the host and for the system; both must print the same bytes.
fn same_source(context: &Context<'_>) -> Result<()> {
    let built = context.built()?;
    let there = context.example("same-source")?;
    let mut command = cargo::command(&context.paths.workspace.join("examples/same-source"));
    command.args(["run", "--release", "--locked", "--quiet", "--target-dir"]).arg(context.paths.out.join("examples"));
    let here = command.output().context("cannot start cargo")?;
    if !here.status.success() || here.stdout.is_empty() {
        bail!("on the host it ended with {}: {}", here.status, tail(&String::from_utf8_lossy(&here.stderr), 10));
    }
    let capture = Capture::new(built, &there);
    let outcome = capture.run()?;
    if outcome.end != End::Exit(0) {
        bail!("in the system it ended with {:?}: {}", outcome.end, String::from_utf8_lossy(&outcome.stderr()));
    }
    let there = outcome.stdout();
    if there != here.stdout {
        let same = there.iter().zip(&here.stdout).take_while(|(a, b)| a == b).count();
        bail!(
            "the system printed {} bytes, the host {}; they differ from byte {same} on",
            there.len(),
            here.stdout.len()
        );
    }
    Ok(())
}
