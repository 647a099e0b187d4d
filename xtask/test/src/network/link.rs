//! The card's cable goes out and comes in again.

use std::io::{Read, Write};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::machine::{Back, Machine, digest_of};
use super::{LEN, driver_ended, line, transfer};
use crate::{Context, expect};
use xtask_build::devices::Model;

/// The cable goes out in the middle of a transfer, and comes in again. The connection lives, no byte is wrong, a program
/// sees that there was no link, and the machine asks for its addresses again.
pub fn cable(context: &Context<'_>, model: Model, back: Back) -> Result<()> {
    let (_, stderr) = Machine::run_with(context, model, back, |machine| {
        let mut control = machine.connect()?;
        writeln!(control, "links")?;
        expect("the first look", &line(&control)?.as_str(), &"0")?;
        // A busy host may leave the machine no time to look while the cable is out.
        for pause in [500, 2000, 8000].map(Duration::from_millis) {
            let before = machine.questions()?;
            without_cable(machine, pause)?;
            transfer(machine, LEN / 8)?;
            writeln!(control, "links")?;
            if line(&control)? == "0" {
                continue;
            }
            let after = machine.questions()?;
            if after[0] <= before[0] || after[1] <= before[1] {
                bail!("it asked for addresses and routers {before:?} times, and {after:?} times afterwards");
            }
            return Ok(());
        }
        bail!("no program has seen that there was no link")
    })?;
    driver_ended(0, &stderr)
}

/// Bytes come from the machine, and in the middle of them the cable is out for a while.
fn without_cable(machine: &Machine, pause: Duration) -> Result<()> {
    let mut stream = machine.connect()?;
    writeln!(stream, "source {LEN}")?;
    let mut first = vec![0; LEN / 4];
    stream.read_exact(&mut first).context("from the machine")?;
    machine.cable(false)?;
    thread::sleep(pause);
    machine.cable(true)?;
    let mut all = first.as_slice().chain(&mut stream);
    let got = network_tests::digest(&mut all, LEN).context("from the machine, after the cable came in again")?;
    expect("the bytes from the machine", &got, &digest_of(LEN)?)
}
