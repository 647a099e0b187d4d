//! C programs: what each header of the C library promises, case by case, and output that must be identical on every
//! system. `c_links` tests that everything in the headers is defined.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::{Cases, Context, Test};
use xtask_build::c::front;
use xtask_build::cargo;
use xtask_common::words::tail;
use xtask_conformance::missing_features;
use xtask_run::Capture;
use xtask_run::session::{End, Outcome};

/// All.
pub fn tests() -> Vec<Test> {
    let mut tests = vec![Test::many("c.headers", headers), Test::many("c.same-output", same_output)];
    tests.push(super::c_links::test());
    tests
}

fn folder(context: &Context<'_>, name: &str) -> PathBuf {
    context.paths.workspace.join("tests/ctests").join(name)
}

/// Compiles the program from all sources in a folder.
fn compile(context: &Context<'_>, compiler: &mut Command, name: &str, to: &Path) -> Result<()> {
    let sources = cargo::sources(&folder(context, name))?;
    compiler.args(sources.iter().filter(|file| file.extension().is_some_and(|end| end == "c")));
    let output = compiler.args(["-O1", "-g", "-w", "-fno-builtin", "-o"]).arg(to).arg("-lm").output();
    let output = output.context("cannot start the C compiler")?;
    if !output.status.success() {
        bail!("tests/ctests/{name} does not compile:\n{}", tail(&String::from_utf8_lossy(&output.stderr), 30));
    }
    Ok(())
}

fn run(context: &Context<'_>, name: &str) -> Result<Outcome> {
    Capture::new(context.built()?, &program(context, name)?).run()
}

/// The program of a folder, compiled.
pub fn program(context: &Context<'_>, name: &str) -> Result<PathBuf> {
    // It needs headers and libraries.
    context.built()?;
    let program = context.paths.out.join("ctests").join(name);
    std::fs::create_dir_all(context.paths.out.join("ctests")).context("cannot make a folder for C tests")?;
    let mut compiler = Command::new(front::program(context.paths, "clang"));
    compile(context, compiler.arg("-lzircon"), name, &program)?;
    Ok(program)
}

/// The names of the cases, `TEST(name)`, in the sources of a folder.
pub fn named_cases(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for file in cargo::sources(folder)? {
        let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        names.extend(text.lines().filter_map(|line| line.strip_prefix("TEST(")?.strip_suffix(')').map(str::to_string)));
    }
    Ok(names)
}

/// Reads what a program of such cases said. A wanted case that it did not reach has failed; those that are left out do not
/// count.
pub fn read_cases(cases: &mut Cases, mut wanted: Vec<String>, left_out: &BTreeSet<String>, outcome: &Outcome) {
    let stdout = String::from_utf8_lossy(&outcome.stdout()).into_owned();
    let mut said = Vec::new();
    for line in stdout.lines() {
        let Some((name, result)) = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... ")) else {
            said.push(line);
            continue;
        };
        wanted.retain(|other| other != name);
        if !left_out.contains(name) {
            cases.case(name, if result == "ok" { Ok(()) } else { Err(said.join("\n")) });
        }
        said.clear();
    }
    let stderr = String::from_utf8_lossy(&outcome.stderr()).into_owned();
    for name in wanted.iter().filter(|name| !left_out.contains(*name)) {
        cases.case(name, Err(format!("it did not come to an end: {:?}\n{}", outcome.end, tail(&stderr, 10))));
    }
}

/// Each `TEST(name)` of the sources is a case.
fn headers(context: &Context<'_>, cases: &mut Cases) -> Result<()> {
    let wanted = named_cases(&folder(context, "headers"))?;
    let mut left_out = BTreeSet::new();
    for feature in missing_features::here()? {
        for case in feature.headers {
            cases.note(&format!("left out {case}: {}", feature.why));
            left_out.insert(case);
        }
    }
    read_cases(cases, wanted, &left_out, &run(context, "headers")?);
    Ok(())
}

/// Each line is a case.
fn same_output(context: &Context<'_>, cases: &mut Cases) -> Result<()> {
    let outcome = run(context, "same")?;
    let host = context.paths.out.join("ctests/same-on-host");
    compile(context, &mut Command::new("gcc"), "same", &host)?;
    let there = Command::new(&host).env("TZ", "UTC").output().context("cannot start it on the host")?;
    if outcome.end != End::Exit(0) {
        bail!("it ended with {:?}\n{}", outcome.end, tail(&String::from_utf8_lossy(&outcome.stderr()), 10));
    }
    let (there, here) = (String::from_utf8_lossy(&there.stdout).into_owned(), outcome.stdout());
    let here = String::from_utf8_lossy(&here).into_owned();
    let (there, here): (Vec<&str>, Vec<&str>) = (there.lines().collect(), here.lines().collect());
    for (number, expected) in there.iter().enumerate() {
        let found = here.get(number).copied().unwrap_or("(nothing)");
        let result = if found == *expected { Ok(()) } else { Err(format!("{found}\nthe host: {expected}")) };
        cases.case(&format!("line {}", number + 1), result);
    }
    if here.len() > there.len() {
        bail!("{} lines more than on the host", here.len() - there.len());
    }
    Ok(())
}
