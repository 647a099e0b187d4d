//! The switch, with guests of the program `switch-check`: `./hafnon test switch`.
//!
//! The ports are those of [`PORTS`], in place of those of `system.toml`.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use description::services::{Access, ProgramRule, Service};
use description::switch::{Grant, Port};
use xtask_build::Built;
use xtask_build::system::{DeviceNeed, ServiceEntry};
use xtask_run::Capture;
use xtask_run::args::Accel;

use super::{Context, Test, TestArgs, drivers, expect_part};

/// The program with the guests.
const PROGRAM: &str = "switch-check";
/// Ports, and to whom each may send. The last one is nobody's here.
const PORTS: [(&str, &[&str]); 5] =
    [("a", &["b", "c", "d"]), ("b", &["a", "c"]), ("c", &["a", "b"]), ("d", &["a"]), ("not-mine", &[])];

/// What the switch may use. One guest's memory, all of it mapped, would take more.
const MEMORY: u64 = 24 << 20;
/// Time limit of the machine for the long cases.
const LONG: Duration = Duration::from_secs(4 * 3600);

/// All of them.
pub fn tests(args: &TestArgs) -> Vec<Test> {
    let test = |name: &str, arguments: &'static [&'static str], said: &'static str| {
        let time = name.ends_with("-long").then_some(LONG);
        Test::one(format!("switch.{name}"), move |context| run(context, (arguments, time), said))
    };
    let mut tests = vec![
        test("function", &["function"], "1201 frames came as they were sent"),
        test("offload", &["offload"], "14 segments"),
        test("rules", &["rules"], "one destination each or none"),
        test("refusals", &["refusals"], "refusals"),
        test("memory", &["memory"], "memory went four times"),
        test("pages", &["pages"], "100000 pages"),
        test("kill", &["kill", "5"], "a guest was killed 5 times"),
        test("soak", &["soak", "1", "20000"], "dropped for want of buffers"),
        test("hostile", &["hostile", "1", "10000"], "mutations"),
    ];
    if args.all {
        tests.push(test("soak-long", &["soak", "2", "10000000"], "dropped for want of buffers"));
        tests.push(test("hostile-long", &["hostile", "2", "1000000"], "mutations"));
    }
    tests
}

/// The description of a switch with these ports.
fn service() -> Result<Service> {
    let port = |(at, (name, to)): (usize, &(&str, &[&str]))| Port {
        name: (*name).to_owned(),
        mac: [2, 0, 0, 0, 1, at as u8 + 1],
        sends_to: Some(to.iter().map(ToString::to_string).collect()),
    };
    let ports: Vec<Port> = PORTS.iter().enumerate().map(port).collect();
    description::switch::check(&ports).map_err(anyhow::Error::msg)?;
    let names = PORTS[..4].iter().map(|(name, _)| (*name).to_owned()).collect();
    let rule = |program: &str, access| ProgramRule { program: program.to_owned(), access };
    Ok(Service {
        name: "switch".into(),
        program: "net-switch".into(),
        arguments: ports.iter().map(Port::to_argument).collect(),
        public: true,
        memory: Some(MEMORY),
        rules: vec![rule(PROGRAM, Access::Part(Grant { ports: names }.encode()?)), rule("*", Access::Nothing)],
        ..Service::default()
    })
}

/// A build with this switch.
fn built(context: &Context<'_>) -> Result<Built> {
    let mut built = context.built()?.clone();
    built.services.retain(|entry| entry.service.name != "switch");
    built.services.push(ServiceEntry { needs: vec![DeviceNeed::Switch], service: service()? });
    Ok(built)
}

/// Runs a case.
fn run(context: &Context<'_>, (arguments, time): (&[&str], Option<Duration>), said: &str) -> Result<()> {
    let built = built(context)?;
    let program = context.program("switch-tests", PROGRAM)?;
    let mut capture = Capture::new(&built, Path::new(PROGRAM));
    capture.programs = vec![(PROGRAM.into(), program)];
    capture.accel = Accel::Counting;
    capture.devices.switch = true;
    capture.timeout = time.unwrap_or(capture.timeout);
    capture.args = arguments.iter().map(ToString::to_string).collect();
    let (stdout, stderr) = drivers::output(&capture, 0)?;
    expect_part("standard output", &stdout, said)?;
    if !stdout.ends_with("ok\n") {
        bail!("it did not come to its end:\n{stdout}{stderr}");
    }
    // Each end of a service is told there.
    if let Some(line) = stderr.lines().find(|line| line.starts_with("init: ")) {
        bail!("{line}\n{stdout}");
    }
    Ok(())
}
