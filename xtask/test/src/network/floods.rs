//! Floods of requests in the name of machines that are not there.

use std::io::Write;
use std::net::Ipv6Addr;

use anyhow::{Context as _, Result, bail};

use super::machine::{Back, Machine};
use super::wire::Faults;
use super::{LEN, driver_ended, frames, ipv6, line, transfer};
use crate::{Context, Test, TestArgs, expect};

/// Memory that a flood and the transfer may cost the service, in bytes: 2 MiB for half-open connections, the rest for buffers
/// of frames and of the connections.
const MOST: u64 = 4 << 20;

/// The floods. A million requests take minutes: they come only with `--all` or by their exact name.
pub fn tests(args: &TestArgs) -> Vec<Test> {
    let mut tests = vec![
        Test::one("network.request-flood", |context| over_ipv4(context, LEN / 4)),
        Test::one("network.request-flood-ipv6", over_ipv6),
    ];
    const MILLION: &str = "network.request-flood-million";
    if args.all || args.filter.as_deref() == Some(MILLION) {
        tests.push(Test::one(MILLION, |context| over_ipv4(context, 5 * LEN / 2)));
    }
    tests
}

/// Before each frame of a transfer come 50 connection requests: over 100,000 in all with a transfer of 2 MiB. The transfer
/// goes on, others can still connect, and the service stays small.
fn over_ipv4(context: &Context<'_>, len: usize) -> Result<()> {
    let faults = Faults { requests: 50, ..Faults::default() };
    flood(context, faults, |machine| transfer(machine, len))
}

/// The same with requests over IPv6, and with as many questions of neighbours. Meanwhile the machine also connects to the
/// host over IPv6.
fn over_ipv6(context: &Context<'_>) -> Result<()> {
    let faults = Faults { requests_v6: 25, ..Faults::default() };
    flood(context, faults, |machine| {
        transfer(machine, LEN / 4)?;
        ipv6::from_machine(machine, LEN / 16)?;
        transfer(machine, LEN / 4)?;
        // They were answered: to a connection request of the same network, and to a question.
        for prefix in ["fec0", "fe80"] {
            let own: Ipv6Addr = format!("{prefix}::5054:ff:fe12:3456").parse()?;
            let answers =
                machine.frames_with(&[&own.octets()[..], &own.octets()[..8], &[0, frames::NOBODY]].concat())?;
            if answers < 1000 {
                bail!("{answers} answers from {own}");
            }
        }
        Ok(())
    })
}

fn flood(context: &Context<'_>, faults: Faults, act: impl FnOnce(&Machine) -> Result<()>) -> Result<()> {
    let (_, stderr) = Machine::run(context, Back::Wire(faults), |machine| {
        let mut control = machine.connect()?;
        let mut memory = || -> Result<u64> {
            writeln!(control, "memory network")?;
            line(&control)?.parse().context("no number")
        };
        let before = memory()?;
        act(machine)?;
        for _ in 0..5 {
            let mut stream = machine.connect()?;
            writeln!(stream, "killed")?;
            expect("an answer", &line(&stream)?.as_str(), &"0")?;
        }
        match memory()? {
            0 => bail!("the service's memory is not known"),
            after if after > before + MOST => {
                bail!("the service had {before} bytes before, and has {after} afterwards")
            }
            _ => Ok(()),
        }
    })?;
    driver_ended(0, &stderr)
}
