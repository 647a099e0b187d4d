//! The test suites of packages that nobody here wrote, unmodified, in the system; and one program on two systems.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::units::{copy_folder, read};
use super::{Cases, Context, Test, tail};
use crate::cargo;
use crate::cargo_command;
use crate::cli::CargoArgs;
use crate::run::{Capture, example};
use crate::rust_tests::{self, SUITES};
use crate::session::End;

/// The packages that `xtask/packages/Cargo.toml` names.
const PACKAGES: [&str; 2] = ["smallvec", "crossbeam-channel"];

/// One test a package, the tests of the examples `descriptors` and `network`, and the example `same-source`.
pub fn tests() -> Vec<Test> {
    let mut tests = vec![
        Test::one("same-source.same-bytes", same_source),
        Test::many("example.descriptors", |context, cases| {
            context.built()?;
            cargo_test(context, cases, &context.paths.workspace.join("examples/descriptors"))
        }),
        Test::many("example.network", |context, cases| {
            context.built()?;
            cargo_test(context, cases, &context.paths.workspace.join("examples/network"))
        }),
    ];
    tests.extend(SUITES.iter().filter(|suite| suite.quick).map(|suite| {
        Test::many(format!("rust.{}", suite.name), |context, cases| rust_tests::test(context, cases, *suite))
    }));
    tests.extend(PACKAGES.map(|name| {
        Test::many(format!("package.{name}"), move |context, cases| {
            context.built()?;
            cargo_test(context, cases, &checkout(context, name)?)
        })
    }));
    tests
}

/// `hafnon cargo test` in a package's folder.
fn cargo_test(context: &Context<'_>, cases: &mut Cases, folder: &Path) -> Result<()> {
    let mut args: Vec<OsString> = ["test", "--no-fail-fast", "--target-dir"].map(Into::into).into();
    args.push(context.paths.out.join("packages/target").into());
    let args = CargoArgs { mem: None, timeout: Some(600.0), raw_backtraces: false, args };
    let mut command = cargo_command::command(context.paths, &args)?;
    read(cases, command.current_dir(folder))
}

/// A copy of the package as the registry has it; cargo verifies its checksum.
fn checkout(context: &Context<'_>, name: &str) -> Result<PathBuf> {
    let manifest = context.paths.workspace.join("xtask/packages/Cargo.toml");
    let cargo = |args: &[&str]| -> Result<Vec<u8>> {
        let mut command: Command = cargo::command(&context.paths.workspace);
        let output = command.args(args).arg("--manifest-path").arg(&manifest).output().context("cannot start cargo")?;
        if !output.status.success() {
            bail!("cargo {} failed: {}", args[0], tail(&String::from_utf8_lossy(&output.stderr), 10));
        }
        Ok(output.stdout)
    };
    cargo(&["fetch", "--locked"])?;
    let metadata = cargo(&["metadata", "--locked", "--format-version", "1"])?;
    let metadata: serde_json::Value = serde_json::from_slice(&metadata).context("cannot read cargo's metadata")?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let mut found = packages.filter(|package| package["name"] == name).filter_map(|p| p["manifest_path"].as_str());
    let manifest = PathBuf::from(found.next().with_context(|| format!("cargo does not know {name}"))?);
    let source = manifest.parent().context("a package without a folder")?;
    let folder = context.paths.out.join("packages").join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    copy_folder(source, &folder)?;
    Ok(folder)
}

/// Builds `same-source` for the host and for the system; both must print the same bytes.
fn same_source(context: &Context<'_>) -> Result<()> {
    let built = context.built()?;
    let there = example(context.paths, &context.ui, "same-source")?;
    let mut command = cargo::command(&context.paths.workspace.join("examples/same-source"));
    command.args(["run", "--release", "--locked", "--quiet", "--target-dir"]).arg(context.paths.out.join("examples"));
    let here = command.output().context("cannot start cargo")?;
    if !here.status.success() || here.stdout.is_empty() {
        bail!("on the host it ended with {}: {}", here.status, tail(&String::from_utf8_lossy(&here.stderr), 10));
    }
    let mut capture = Capture::new(built, &there);
    capture.timeout = Duration::from_secs(120);
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
