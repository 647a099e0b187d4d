//! Virtual processors: `./hafnon test vproc`.

use std::time::Duration;

use anyhow::{Result, bail};

use super::{Cases, Context, Test, hostile};
use crate::args::TestArgs;
use xtask_conformance::{CaseReport, GROUP_TIME};
use xtask_run::args::Accel;

/// Time limit of a thousand random steps: many times what they take.
const TIME_PER_THOUSAND: Duration = Duration::from_secs(3);

/// The program of `tests/vproc`, and its conformance cases, which a run of everything includes among all others.
pub fn tests(args: &TestArgs) -> Vec<Test> {
    let (steps, seed) = (args.steps, args.seed);
    let mut tests =
        vec![events(), Test::many("vproc.random", move |context, cases| random(context, cases, steps, seed))];
    if args.filter.is_some() {
        tests.insert(0, cases());
    }
    tests
}

fn cases() -> Test {
    Test::many("vproc.cases", |context, cases| {
        let mut broken = None;
        xtask_conformance::run(context.built_with_tests()?, &["vproc.".into()], |news| match news {
            CaseReport::Case(case, detail) => cases.case(case, detail.clone().map_or(Ok(()), Err)),
            CaseReport::Broken(_, why) => broken = Some(why.to_string()),
        })?;
        broken.map_or(Ok(()), |why| bail!(why))
    })
}

fn events() -> Test {
    let arguments = &["vproc.steps."];
    Test::many("vproc.events", |context, cases| hostile::program(context, cases, "vproc", arguments, None).map(drop))
}

/// The machine counts instructions and gets no input from the host, so a run depends only on its seed.
fn random(context: &Context<'_>, cases: &mut Cases, steps: u64, seed: u64) -> Result<()> {
    let time = GROUP_TIME + TIME_PER_THOUSAND * u32::try_from(steps / 1000)?;
    let config = format!("{steps} {seed}");
    let program = xtask_conformance::Program {
        time,
        repeats: true,
        config: Some(("config/random", &config)),
        ..xtask_conformance::Program::new("/boot/bin/vproc", Accel::Counting)
    };
    cases.note(&format!("--steps {steps} --seed {seed}"));
    let arguments = ["--timeout", &time.as_millis().to_string(), "vproc.random."];
    hostile::run(context, cases, program, "vproc", &arguments).map(drop)
}
