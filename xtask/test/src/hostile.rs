//! Hostile programs in the booted system: `./hafnon test hostile`.

use std::env;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::{Cases, Context, Test};
use crate::fuzz::{self, Fuzzed};
use xtask_build::Built;
use xtask_build::system::instances::Instances;
use xtask_conformance::missing_features;
use xtask_conformance::record::commit;
use xtask_run::Capture;
use xtask_run::args::Accel;
use xtask_run::session::Streams;

/// Number of calls of the fuzzer's run, and of the two runs that must be equal.
const CALLS: u64 = 50_000;
const REPLAYED: u64 = 10_000;
/// Number of requests of the fuzzer of services.
const REQUESTS: u64 = 40_000;
/// The seed of runs that are the same each time, and of trees without commits.
const SEED: u64 = 1;
/// Time limit of the attacks on a service: many times what they take.
const ATTACKS: Duration = Duration::from_secs(1200);

/// All of them.
pub fn tests() -> Vec<Test> {
    vec![
        Test::many("hostile.tamper", |context, cases| {
            let wanted = env::var("HAFNON_TAMPER").unwrap_or_else(|_| "tamper.".to_owned());
            program(context, cases, "tamper", &[&wanted], None).map(drop)
        }),
        Test::many("hostile.holds", |context, cases| program(context, cases, "holds", &["holds."], None).map(drop)),
        Test::many("hostile.idle", |context, cases| program(context, cases, "idle", &["idle."], None).map(drop)),
        Test::one("hostile.fuzz", |context| fuzzed(context, Fuzzed::Calls, CALLS)),
        Test::one("hostile.requests", |context| fuzzed(context, Fuzzed::Services, REQUESTS)),
        Test::one("hostile.replay", |context| {
            fuzz::replays(context.built_with_tests()?, Fuzzed::Calls, REPLAYED, SEED)
        }),
        Test::many("hostile.services.files", |context, cases| attacks(context, cases, "files")),
        Test::many("hostile.services.network", |context, cases| attacks(context, cases, "network")),
    ]
}

/// Runs one of the fuzzers, which must find nothing.
fn fuzzed(context: &Context<'_>, what: Fuzzed, count: u64) -> Result<()> {
    let seed = seed(context);
    let found = fuzz::run(context.built_with_tests()?, what, count, seed, Streams::Overheard)?;
    let repeat = format!("`./hafnon fuzz {} {count} --seed {seed}` repeats it", what.option());
    found.problem.map_or(Ok(()), |problem| Err(anyhow::anyhow!("{}\n{problem}\n{repeat}", found.said.join("\n"))))
}

/// The seed: another one for each commit, and the same for the same commit; a tree without commits always has the same.
fn seed(context: &Context<'_>) -> u64 {
    // The minimum number of digits that git prints; it prints more in larger clones.
    commit(context.paths).get(..7).and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or(SEED)
}

/// A hostile client attacks one service, in a system with services.
fn attacks(context: &Context<'_>, cases: &mut Cases, service: &str) -> Result<()> {
    let built = context.built_with_tests()?;
    let name = format!("{service}-attacks");
    let mut capture = Capture::new(built, test_program(built, &name)?);
    capture.args = vec![format!("{service}.")];
    // Waiting times of others are counted in instructions.
    (capture.accel, capture.timeout, capture.tests) = (Accel::Counting, ATTACKS, true);
    let outcome = capture.run()?;
    let (stdout, stderr) = (outcome.stdout(), outcome.stderr());
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    let mut whole = false;
    for line in stdout.lines() {
        match line.splitn(4, ' ').collect::<Vec<_>>().as_slice() {
            ["case", case, "ok", ..] => cases.case(case, Ok(())),
            ["case", case, "failed", rest @ ..] => cases.case(case, Err(rest.join(" "))),
            ["summary", ..] => whole = true,
            _ => {}
        }
    }
    if !whole {
        bail!("{name} ended with {:?}\n{stdout}\n{stderr}", outcome.end);
    }
    Ok(())
}

/// Runs cases of one of the programs of `tests/hostile`, optionally with other instances than those of `system.toml`.
/// Returns the root task's messages.
pub(super) fn program(
    context: &Context<'_>,
    cases: &mut Cases,
    name: &str,
    arguments: &[&str],
    instances: Option<&Instances>,
) -> Result<Vec<String>> {
    let file = format!("/boot/bin/{name}");
    // Waiting times of threads are counted in instructions, independent of the host's load.
    let program = xtask_conformance::Program { instances, ..xtask_conformance::Program::new(&file, Accel::Counting) };
    run(context, cases, program, name, arguments)
}

/// The file of a test program, which runs in a system with services.
///
/// # Errors
/// It was not built.
pub(super) fn test_program<'a>(built: &'a Built, name: &str) -> Result<&'a Path> {
    let program = built.test_programs.iter().find(|(there, _)| there == name);
    program.map(|(_, file)| file.as_path()).with_context(|| format!("there is no program {name}"))
}

/// The same for a program with a special machine.
pub(super) fn run(
    context: &Context<'_>,
    cases: &mut Cases,
    program: xtask_conformance::Program<'_>,
    name: &str,
    arguments: &[&str],
) -> Result<Vec<String>> {
    let built = context.built_with_tests()?;
    let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    for feature in missing_features::here()? {
        let here = |case: &&String| arguments.iter().any(|argument| case.starts_with(argument.as_str()));
        for case in feature.attacks.iter().filter(here) {
            cases.note(&format!("left out {case}: {}", feature.why));
        }
    }
    let group = xtask_conformance::run_group(built, program, name, &arguments)?;
    let tells = |line: &&str| {
        line.starts_with("random ") || cases.verbose && (line.starts_with("hold ") || line.starts_with("idle "))
    };
    let told: Vec<&str> = group.said.lines().filter(tells).collect();
    told.into_iter().for_each(|line| cases.note(line));
    group.cases.into_iter().for_each(|(case, detail)| cases.case(&case, detail.map_or(Ok(()), Err)));
    group.broken.map_or(Ok(group.root), |why| Err(anyhow::anyhow!(why)))
}
