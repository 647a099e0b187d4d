//! The unit and property tests of everything that also runs on the host, and of whole packages in the system. Both run
//! `cargo test` and parse its output.

use std::fs;
use std::process::{Command, Output};

use anyhow::{Context as _, Result, bail};

use super::{Cases, Test};
use xtask_build::cargo;
use xtask_common::paths::Paths;
use xtask_common::words::tail;

/// Folders whose packages are built only for the system; the tests of all other packages run on the host.
const NOT_ON_THE_HOST: [&str; 10] = [
    "component",
    "component/boot",
    "runtime/crt",
    "runtime/userboot",
    "runtime/fdio",
    "guests/rump/rumpuser",
    "root",
    "sel4",
    "server/boot",
    "programs/tools",
];

/// A test for each package of the workspace.
pub fn tests(paths: &Paths) -> Result<Vec<Test>> {
    let manifest = fs::read_to_string(paths.workspace.join("Cargo.toml")).context("cannot read Cargo.toml")?;
    let manifest: toml::Table = manifest.parse().context("in Cargo.toml")?;
    let members = manifest["workspace"]["members"].as_array().cloned().unwrap_or_default();
    let mut tests = Vec::new();
    for member in members.iter().filter_map(toml::Value::as_str) {
        if NOT_ON_THE_HOST.contains(&member) {
            continue;
        }
        let package = fs::read_to_string(paths.workspace.join(member).join("Cargo.toml"))
            .with_context(|| format!("cannot read {member}/Cargo.toml"))?;
        let package: toml::Table = package.parse().with_context(|| format!("in {member}/Cargo.toml"))?;
        let name = package["package"]["name"].as_str().unwrap_or_default().to_string();
        tests.push(Test::many(format!("unit.{name}"), move |context, cases| {
            let mut command = cargo::command(&context.paths.workspace);
            command.args(["test", "--no-fail-fast", "--all-features", "-p", &name]);
            command.arg("--target-dir").arg(context.paths.cargo_target());
            read(cases, &mut command)
        }));
    }
    Ok(tests)
}

/// Runs a `cargo test` and reports each of its cases as one of ours.
///
/// # Errors
/// It cannot be started, does not build, or ends in a way that its cases do not explain.
pub fn read(cases: &mut Cases, command: &mut Command) -> Result<()> {
    let output = command.env("CARGO_TERM_COLOR", "never").output().context("cannot start cargo")?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    let mut failures = 0;
    for line in stdout.lines() {
        let Some((name, result)) = line.strip_prefix("test ").and_then(|rest| rest.rsplit_once(" ... ")) else {
            continue;
        };
        // A test's own output may precede it.
        match result {
            "ok" => cases.case(name, Ok(())),
            "FAILED" => {
                failures += 1;
                cases.case(name, Err(said_by(&stdout, name)));
            }
            _ => {}
        }
    }
    if !output.status.success() && failures == 0 {
        bail!("{}", explain(&output));
    }
    Ok(())
}

/// The output that libtest prints for a failed case.
fn said_by(stdout: &str, name: &str) -> String {
    let head = format!("---- {name} stdout ----");
    let after = stdout.split_once(&head).map_or("", |(_, after)| after);
    let end = after.find("\n---- ").or_else(|| after.find("\nfailures:")).unwrap_or(after.len());
    tail(&after[..end], 15)
}

fn explain(output: &Output) -> String {
    let both = [&output.stdout, &output.stderr].map(|bytes| tail(&String::from_utf8_lossy(bytes), 25)).join("\n");
    format!("cargo test ended with {}:\n{both}", output.status)
}
