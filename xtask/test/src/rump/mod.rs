//! The hypercalls for rump kernels: `./hafnon test rump`.
//!
//! The kernel is our own (`guests/rump/kernel`): it checks each call, and needs nothing of NetBSD.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::{Cases, Context, Test, c, expect, expect_part};
use crate::args::TestArgs;
use xtask_build::c::front;
use xtask_build::cargo;
use xtask_common::programs;
use xtask_run::Capture;
use xtask_run::session::{End, Outcome};

/// Rounds of the cases with contention, and those of `--all`.
const ROUNDS: u32 = 100;
const ALL_ROUNDS: u32 = 20_000;
/// Time limit with `--all`.
const ALL: Duration = Duration::from_secs(3 * 3600);

/// All of them.
pub fn tests(args: &TestArgs) -> Vec<Test> {
    let all = args.all;
    vec![
        Test::many("rump.hypercalls", move |context, cases| hypercalls(context, cases, all)),
        Test::many("rump.ends", ends),
        Test::one("rump.memory-of-the-job", memory_of_the_job),
        Test::one("rump.links", links),
    ]
}

fn folder(context: &Context<'_>) -> PathBuf {
    context.paths.workspace.join("guests/rump/kernel")
}

/// Compiles the kernel, as its users link theirs: with the library and nothing else.
fn kernel(context: &Context<'_>) -> Result<PathBuf> {
    context.built()?;
    let folder_of_programs = context.paths.out.join("rump");
    std::fs::create_dir_all(&folder_of_programs).context("cannot make a folder for the rump kernel")?;
    let program = folder_of_programs.join("kernel");
    let sources = cargo::sources(&folder(context))?;
    let mut clang = Command::new(front::program(context.paths, "clang"));
    // The header of the cases.
    clang.arg("-isystem").arg(context.paths.workspace.join("tests/ctests/headers"));
    clang.args(["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-lrumpuser", "-o"]).arg(&program);
    programs::run(clang.args(sources.iter().filter(|file| file.extension().is_some_and(|end| end == "c"))))?;
    Ok(program)
}

fn run(context: &Context<'_>, program: &Path, args: &[&str], time: Option<Duration>) -> Result<Outcome> {
    let mut capture = Capture::new(context.built()?, program);
    capture.args = args.iter().map(|arg| (*arg).to_owned()).collect();
    capture.timeout = time.unwrap_or(capture.timeout);
    capture.run()
}

/// Each `TEST(name)` of the kernel's sources is a case. A case that the kernel did not reach has failed.
fn hypercalls(context: &Context<'_>, cases: &mut Cases, all: bool) -> Result<()> {
    let mut wanted = c::named_cases(&folder(context))?;
    wanted.push("refusals".to_owned());
    let rounds = if all { ALL_ROUNDS } else { ROUNDS }.to_string();
    let outcome = run(context, &kernel(context)?, &[&rounds], all.then_some(ALL))?;
    c::read_cases(cases, wanted, &BTreeSet::new(), &outcome);
    let stderr = String::from_utf8_lossy(&outcome.stderr()).into_owned();
    let cut = format!("{}\n", "x".repeat(511));
    for part in [
        "the kernel has revision 16 of the hypercalls",
        "the kernel has revision -17 of the hypercalls",
        "RUMP_MEMLIMIT is a number of bytes",
        "the kernel has less than 1 MiB of memory",
        "a process starts one rump kernel, once",
        "rump console: one line\nrump console: the rest\n",
        &format!("rump console: number 17!\n{cut}rump console: after a text that was cut\n"),
        "rumpuser: signal 15 is not delivered\n",
    ] {
        cases.case(&format!("says `{}`", part.lines().next().unwrap_or(part)), said_on(&stderr, part));
    }
    cases.case(
        "a closed pipe is no signal",
        match stderr.contains("signal 13") {
            true => Err(stderr),
            false => Ok(()),
        },
    );
    Ok(())
}

fn said_on(stderr: &str, part: &str) -> Result<(), String> {
    expect_part("the console", stderr, part).map_err(|error| format!("{error:#}"))
}

/// The kernel's end is the process's, and a kernel that breaks the interface ends with a message.
fn ends(context: &Context<'_>, cases: &mut Cases) -> Result<()> {
    let kernel = kernel(context)?;
    for (how, message) in [
        ("exit", "the last words"),
        ("panic", "the last words"),
        ("free", "the last wordsrumpuser: the kernel frees memory that is not in use\n"),
        ("flags", "the last wordsrumpuser: a mutex with unknown flags\n"),
    ] {
        let outcome = run(context, &kernel, &[how], None)?;
        let is_right = match outcome.end {
            End::Exit(7) => how == "exit",
            End::Exit(0) => false,
            _ => how != "exit",
        };
        let stderr = String::from_utf8_lossy(&outcome.stderr()).into_owned();
        let end = if is_right { said_on(&stderr, message) } else { Err(format!("{:?}\n{stderr}", outcome.end)) };
        cases.case(how, end);
    }
    Ok(())
}

/// Without RUMP_MEMLIMIT, a kernel takes a part of what its job may use, and no page more.
fn memory_of_the_job(context: &Context<'_>) -> Result<()> {
    let outcome = run(context, &kernel(context)?, &["job"], None)?;
    let stdout = String::from_utf8_lossy(&outcome.stdout()).into_owned();
    expect("the end", &outcome.end, &End::Exit(0))?;
    let limit = stdout.split("limit ").nth(1).and_then(|rest| rest.split(',').next()).unwrap_or_default();
    let bytes: u64 = limit.parse().with_context(|| format!("the kernel says `{stdout}`"))?;
    if bytes < 1 << 20 || bytes > Capture::new(context.built()?, Path::new("")).memory {
        bail!("{bytes} bytes in a machine of {}", Capture::new(context.built()?, Path::new("")).memory);
    }
    expect("what it got", &stdout, &format!("error 0, limit {bytes}, all 0, more 12\n"))
}

/// The library links beside the other archive of Rust code, and all 63 functions are in it.
fn links(context: &Context<'_>) -> Result<()> {
    let folder_of_programs = context.paths.out.join("rump");
    let source = folder_of_programs.join("links.c");
    let header = std::fs::read_to_string(folder(context).join("rumpuser.h")).context("cannot read rumpuser.h")?;
    let functions = header.lines().filter_map(|line| line.split_once('(')?.0.split([' ', '*']).next_back());
    let names: Vec<&str> = functions.filter(|name| name.starts_with("rump") && name.contains('_')).collect();
    expect("functions of the interface", &names.len(), &63)?;
    context.built()?;
    std::fs::create_dir_all(&folder_of_programs).context("cannot make a folder for the rump kernel")?;
    let list: String = names.iter().map(|name| format!("void {name}(void);\n")).collect();
    let uses: String = names.iter().map(|name| format!("(void *){name}, ")).collect();
    let text = format!(
        "{list}void sync_mutex_lock(void *);\nvoid *all[] = {{ {uses}(void *)sync_mutex_lock }};\nint main(void) {{ return 0; }}\n"
    );
    std::fs::write(&source, text).context("cannot write links.c")?;
    let mut clang = Command::new(front::program(context.paths, "clang"));
    programs::run(
        clang.arg(&source).args(["-lrumpuser", "-lsync", "-lzircon", "-o"]).arg(folder_of_programs.join("links")),
    )
}
