//! Rules of the description: which programs get the network, and how much of it.

use anyhow::{Context as _, Result, anyhow};

use super::machine;
use crate::{Context, expect, expect_part, wrong};
use xtask_build::devices::Model;
use xtask_build::system::rules;
use xtask_run::Capture;

/// Runs the program with these rules; returns its output.
fn run(context: &Context<'_>, rules: &[(&str, &str)], args: &[&str]) -> Result<String> {
    let mut built = context.built_with_tests()?.clone();
    for (program, rule) in rules {
        rules::set(&mut built.services, program, rules::parse(rule).map_err(|why| anyhow!(why))?)?;
    }
    let mut capture = Capture::new(&built, std::path::Path::new("network-peer"));
    capture.tests = true;
    capture.args = args.iter().map(ToString::to_string).collect();
    capture.devices.network = Some(machine::user_network(Model::default()));
    Ok(crate::drivers::output(&capture, 0)?.0)
}

/// A program with a rule, which tries each forbidden way.
pub fn parts(context: &Context<'_>) -> Result<()> {
    let server = format!("10.0.2.2:{}", super::echo_one()?);
    let rule = format!("connect={server},listen=7000");
    let stdout = run(context, &[("network-peer", &rule), ("*", "all")], &["rules", &server])?;
    let denied = |what: &[&str]| what.iter().map(|what| format!("{what}: denied\n")).collect::<String>();
    let mut says = "a connection: ok\n".to_owned();
    says += &denied(&["a connection elsewhere", "one that does not block", "one to the loopback", "one by IPv6"]);
    says += &denied(&["one by a mapped address"]);
    says += "a listener: ok\n";
    says += &denied(&["a listener elsewhere", "a listener by IPv6", "a listener at any port"]);
    says += &denied(&["datagrams at another port"]);
    says += "a datagram: ok\n";
    says += &denied(&["a datagram elsewhere", "connected datagrams", "a broadcast", "a group"]);
    says += &denied(&["a datagram to a group", "a name"]);
    says += "a child's echo request: ping: Permission denied: a broadcast address, or a rule of the system forbids it\na child's connection: denied\n";
    expect("standard output", &stdout.as_str(), &says.as_str())
}

/// Programs with and without the network.
pub fn all_or_none(context: &Context<'_>) -> Result<()> {
    let none = "a stream: NetworkDown\ndatagrams: NetworkDown\na name: Uncategorized\n";
    let all = "a stream: ok\ndatagrams: ok\na name: Uncategorized\n";
    for (rules, says) in [
        (&[("network-peer", "none")][..], none),
        (&[("*", "none")], none),
        (&[("*", "none"), ("network-peer", "all")], all),
        (&[("*", "none"), ("run/network-peer", "all")], none),
        (&[("other", "none")], all),
    ] {
        let stdout = run(context, rules, &["sockets"])?;
        expect(&format!("with {rules:?}"), &stdout.as_str(), &says)?;
    }
    let mut built = context.built()?.clone();
    rules::set(&mut built.services, "ping", rules::parse("none").map_err(|why| anyhow!(why))?)?;
    let mut capture = Capture::new(&built, std::path::Path::new("ping"));
    capture.args = vec!["127.0.0.1".to_owned()];
    let says = "ping: Network is down: a rule of the system forbids it, or its service has ended\n";
    expect_part("ping", &crate::drivers::output(&capture, 2)?.1, says)?;
    // By the tool's option, for a program that is a file.
    let programs = &context.built_with_tests()?.test_programs;
    let (_, file) = programs.iter().find(|(name, _)| name == "network-peer").context("there is no such program")?;
    for (rule, says) in [("none", none), ("all", all)] {
        let mut tool = wrong::tool(context)?;
        let done = tool.args(["run", "--net", "user", "--net-rule", rule]).arg(file).arg("sockets").output();
        let done = done.context("cannot start this tool")?;
        let stdout = String::from_utf8_lossy(&done.stdout).into_owned();
        expect(&format!("--net-rule {rule}: {}", wrong::said(&done)), &stdout.as_str(), &says)?;
    }
    Ok(())
}
