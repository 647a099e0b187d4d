//! The switch, with guests of the program `switch-check`: `./hafnon test switch`.
//!
//! The ports are those of [`PORTS`], in place of those of `system.toml`.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use description::services::{Access, ProgramRule, Service};
use description::switch::{Grant, Port, PortKind};
use xtask_build::Built;
use xtask_build::devices::Model;
use xtask_run::Capture;
use xtask_run::args::Accel;

use super::network::user_network;
use super::{Context, Test, TestArgs, drivers, expect_part};

/// The program with the guests.
const PROGRAM: &str = "switch-check";
/// Ports, and to whom each may send. The last one is nobody's here.
const PORTS: [(&str, &[&str]); 6] = [
    ("a", &["b", "c", "d"]),
    ("b", &["a", "c"]),
    ("c", &["a", "b"]),
    ("d", &["a"]),
    ("e", &["card", "system"]),
    ("not-mine", &[]),
];

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
        test("offload", &["offload"], "16 frames and segments"),
        test("rules", &["rules"], "one destination each or none"),
        test("refusals", &["refusals"], "refusals"),
        test("memory", &["memory"], "memory went four times"),
        test("pages", &["pages"], "100000 pages"),
        test("kill", &["kill", "5"], "a guest was killed 5 times"),
        test("soak", &["soak", "1", "20000"], "dropped for want of buffers"),
        test("hostile", &["hostile", "1", "10000"], "mutations"),
    ];
    for (name, model) in [("switch.outside", Model::VirtioNetPci), ("switch.outside-e1000e", Model::E1000e)] {
        tests.push(Test::one(name, move |context| {
            run_with(context, (&["outside"], None), "the service and the gateway answer", |capture| {
                // The network on the host takes its time.
                capture.accel = Accel::CountingPaced;
                capture.devices.network = Some(user_network(model));
            })
        }));
    }
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
        kind: PortKind::Guest,
        mac: [2, 0, 0, 0, 1, at as u8 + 1],
        sends_to: Some(to.iter().map(ToString::to_string).collect()),
    };
    let to = |names: &[&str]| Some(names.iter().map(ToString::to_string).collect());
    let service = [2, 0, 0, 0, 1, 0x20];
    let mut ports: Vec<Port> = PORTS.iter().enumerate().map(port).collect();
    ports.extend([
        Port { name: "card".into(), kind: PortKind::Card, mac: [0; 6], sends_to: to(&["e", "system"]) },
        Port { name: "system".into(), kind: PortKind::Service, mac: service, sends_to: to(&["e", "card"]) },
    ]);
    description::switch::check(&ports).map_err(anyhow::Error::msg)?;
    let names = PORTS[..5].iter().map(|(name, _)| (*name).to_owned()).collect();
    let rule = |program: &str, access| ProgramRule { program: program.to_owned(), access };
    Ok(Service {
        name: "switch".into(),
        program: "net-switch".into(),
        arguments: ports.iter().map(Port::to_argument).collect(),
        public: true,
        memory: Some(MEMORY),
        uses: vec!["net0".into()],
        rules: vec![rule(PROGRAM, Access::Part(Grant { ports: names }.encode()?)), rule("*", Access::Nothing)],
        ..Service::default()
    })
}

/// A build with this switch.
fn built(context: &Context<'_>) -> Result<Built> {
    let mut built = context.built()?.clone();
    let own = built.services.iter_mut().find(|entry| entry.service.name == "switch");
    own.context("there is no switch")?.service = service()?;
    Ok(built)
}

/// Runs a case.
fn run(context: &Context<'_>, (arguments, time): (&[&str], Option<Duration>), said: &str) -> Result<()> {
    run_with(context, (arguments, time), said, |_| {})
}

/// The same in another machine.
fn run_with(
    context: &Context<'_>,
    (arguments, time): (&[&str], Option<Duration>),
    said: &str,
    change: impl FnOnce(&mut Capture<'_>),
) -> Result<()> {
    let built = built(context)?;
    let program = context.program("switch-tests", PROGRAM)?;
    let mut capture = Capture::new(&built, Path::new(PROGRAM));
    capture.programs = vec![(PROGRAM.into(), program)];
    capture.accel = Accel::Counting;
    capture.devices.switch = true;
    capture.timeout = time.unwrap_or(capture.timeout);
    capture.args = arguments.iter().map(ToString::to_string).collect();
    change(&mut capture);
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
