//! Several instances on one machine: they run side by side, and when the server of one ends, it is restarted while the
//! others continue.

use std::path::Path;
use std::time::Duration;
use std::{env, fs};

use anyhow::{Context as _, Result, bail};

use super::hostile::test_program;
use super::{Context, Test, expect, expect_part};
use xtask_build::Built;
use xtask_build::system::instances::Instances;
use xtask_run::Capture;
use xtask_run::args::Accel;
use xtask_run::link::Frame;
use xtask_run::session::other_instances::InstanceOutput;
use xtask_run::session::{End, Outcome};

/// How often a server is ended, unless `HAFNON_RESTARTS` sets the number.
const RESTARTS: u32 = 10;
/// Time limit of a life on the host.
const LIFE: Duration = Duration::from_secs(10);

/// All of them.
pub fn tests() -> Vec<Test> {
    vec![
        Test::one("hostile.two-instances", side_by_side),
        Test::one("hostile.two-instances-state", state),
        Test::one("hostile.devices-of-instances", devices),
        Test::one("hostile.restart", restart),
        Test::one("hostile.no-restart", no_restart),
    ]
}

/// The description of the example, with additions to its second instance, which runs `program`.
fn instances(context: &Context<'_>, policy: &str, program: &[&str]) -> Result<Instances> {
    let file = context.paths.workspace.join("examples/neighbours/system.toml");
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let own = ["restart = { times", "program = "];
    let mut lines: Vec<&str> = text.lines().filter(|line| !own.iter().any(|own| line.starts_with(own))).collect();
    let program = format!("program = {program:?}");
    lines.extend([policy, &program]);
    Instances::parse(&lines.join("\n"))
}

/// Boots both instances; the second has this many lives.
fn boot(
    built: &Built,
    instances: Instances,
    lives: u32,
    program: &Path,
    args: &[&str],
) -> Result<(Outcome, InstanceOutput)> {
    let mut capture = Capture::new(built, program);
    capture.args = args.iter().map(ToString::to_string).collect();
    // Uses the machine's own time, which is independent of the host's load.
    capture.accel = Accel::Counting;
    capture.overheard = true;
    capture.instances = Some(instances);
    capture.timeout += LIFE * lives;
    let mut outcome = capture.run()?;
    let second = outcome.beside.pop().context("there is no second instance")?;
    expect("its name", &second.name.as_str(), &"second")?;
    Ok((outcome, second))
}

/// A program's standard output and error.
pub(super) fn said(frames: &[Frame]) -> (String, String) {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    for frame in frames {
        match frame {
            Frame::Stdout(bytes) => stdout.extend_from_slice(bytes),
            Frame::Stderr(bytes) => stderr.extend_from_slice(bytes),
            _ => {}
        }
    }
    (String::from_utf8_lossy(&stdout).into_owned(), String::from_utf8_lossy(&stderr).into_owned())
}

/// Checks the results of the steady program; returns its output.
fn steady(outcome: &Outcome) -> Result<String> {
    let stdout = String::from_utf8_lossy(&outcome.stdout()).into_owned();
    if outcome.end != End::Exit(0) || !stdout.contains(" rounds, 0 wrong;") {
        let last = outcome.root.iter().rev().take(40).rev().cloned().collect::<Vec<_>>().join("\n");
        bail!("the steady work ended with {:?} and said:\n{stdout}\nthe root task:\n{last}", outcome.end);
    }
    Ok(stdout)
}

/// Two servers, each with its memory, timer, console and link.
fn side_by_side(context: &Context<'_>) -> Result<()> {
    let program = context.example("neighbours")?;
    let path = program.to_string_lossy();
    let instances = instances(context, "", &[&path, "busy"])?;
    let (outcome, second) = boot(context.built()?, instances, 1, &program, &["steady", "2"])?;
    steady(&outcome)?;
    let (stdout, stderr) = said(&second.transcript);
    expect_part("what the second instance wrote", &stdout, "busy: round 3 is done")?;
    expect("its complaints", &stderr.as_str(), &"")?;
    let ready = |lines: Vec<&String>| lines.iter().any(|line| line.contains("ready: 96 MiB of memory"));
    expect("whether the second has its 96 MiB", &ready(second.console.last.iter().collect()), &true)?;
    expect("whether the first has as much", &ready(outcome.said.iter().collect()), &false)?;
    expect("what went wrong", &[outcome.warnings, second.console.warnings].concat(), &Vec::new())
}

/// Attackers in one instance change processor state that programs can change, beside the instance's services. The other
/// instance continues unaffected.
fn state(context: &Context<'_>) -> Result<()> {
    let program = context.example("neighbours")?;
    let instances = instances(context, "", &[&program.to_string_lossy(), "busy"])?;
    let attacks = ["--child", "services", "40"];
    let built = context.built_with_tests()?;
    let (outcome, second) = boot(built, instances, 1, test_program(built, "tamper")?, &attacks)?;
    expect_part("the attacked services", &String::from_utf8_lossy(&outcome.stdout()), "services: all is well after ")?;
    expect("how that ended", &outcome.end, &End::Exit(0))?;
    let (stdout, stderr) = said(&second.transcript);
    expect_part("what the second instance wrote", &stdout, "busy: round 3 is done")?;
    expect("its complaints", &stderr.as_str(), &"")?;
    let ended = outcome.root.iter().find(|line| line.contains("\"second\" has ended"));
    expect("whether it has ended", &ended, &None)
}

/// The clock's driver runs only in the instance that has the clock in the description.
fn devices(context: &Context<'_>) -> Result<()> {
    let instances = instances(context, "", &["sh", "-c", "date && echo I have a clock"])?;
    let lines = ["-c", "date || echo I have no clock; sleep 2"];
    let (outcome, second) = boot(context.built_with_shell()?, instances, 1, Path::new("sh"), &lines)?;
    expect_part("the first instance", &String::from_utf8_lossy(&outcome.stdout()), "I have no clock\n")?;
    expect_part("the second instance", &said(&second.transcript).0, "I have a clock\n")
}

fn restarts() -> u32 {
    env::var("HAFNON_RESTARTS").ok().and_then(|count| count.parse().ok()).unwrap_or(RESTARTS)
}

/// A server is ended at random times, repeatedly, while another instance works.
fn restart(context: &Context<'_>) -> Result<()> {
    let restarts = restarts();
    let program = context.example("neighbours")?;
    let path = program.to_string_lossy();
    let policy = format!(
        "restart = {{ times = {restarts}, within = '60m' }}\n\
         trial = {{ times = {restarts}, from = '10ms', to = '250ms', seed = 1 }}"
    );
    let instances = instances(context, &policy, &[&path, "busy"])?;
    let seconds = (2 + restarts * 3 / 10).to_string();
    let (outcome, second) = boot(context.built()?, instances, 1 + restarts, &program, &["steady", &seconds])?;
    let stdout = steady(&outcome)?;

    let lines = |part: &str| outcome.root.iter().filter(|line| line.contains(part)).count();
    let restarts = restarts as usize;
    expect("servers that were ended", &lines("was ended on trial"), &restarts)?;
    expect("reports of their ends", &lines("end of the report"), &restarts)?;
    // Each life had begun when it was ended, in some cases before its first program ran. The last life is not ended.
    let last = format!("runs again (life {})", restarts + 1);
    expect("whether it came back each time", &lines(&last), &1)?;
    let taken = outcome.root.iter().filter_map(|line| line.split_once("take back; ")).map(|(_, taken)| taken);
    let taken: Vec<&str> = taken.collect();
    expect("whether all lives take the same", &taken.iter().all(|one| Some(one) == taken.first()), &true)?;
    // The last life is not ended, and works.
    let (stdout_of_second, stderr_of_second) = said(&second.transcript);
    let last_life = stdout_of_second.rsplit("busy: round 1 is done").next().unwrap_or_default();
    expect_part("what the last life wrote", last_life, "busy: round 2 is done")?;
    expect("complaints of the second instance", &stderr_of_second.as_str(), &"")?;
    // Every tenth of a second has many rounds.
    let rounds =
        stdout.lines().filter_map(|line| line.strip_prefix("steady: ")?.split_once(" rounds in ")?.0.parse().ok());
    let least = rounds.min().unwrap_or(0);
    if least < 50 {
        bail!("in one tenth of a second the steady work did {least} rounds only:\n{stdout}");
    }
    Ok(())
}

/// The policy allows one restart, and no further one: the other instance continues.
fn no_restart(context: &Context<'_>) -> Result<()> {
    let program = context.example("neighbours")?;
    let path = program.to_string_lossy();
    let policy = "restart = { times = 1, within = '60m', after = '300ms' }\n\
                  trial = { times = 2, from = '100ms', to = '200ms' }";
    let instances = instances(context, policy, &[&path, "busy"])?;
    let (outcome, _) = boot(context.built()?, instances, 2, &program, &["steady", "3"])?;
    steady(&outcome)?;
    let lines = |part: &str| outcome.root.iter().filter(|line| line.contains(part)).count();
    expect("lives", &lines("runs again (life 2)"), &1)?;
    expect("last words", &lines("\"second\" is not started again"), &1)?;
    let away =
        outcome.root.iter().find_map(|line| line.split_once("(life 2), ")?.1.split_once(" us")?.0.parse::<u64>().ok());
    expect("whether it waited", &away.is_some_and(|micros| micros >= 300_000), &true)
}
