//! Kills machines and drivers while disks are in use: `disk.kills.*`, `disk.terms.*` and `disk.driver-dies.*`.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use cuts::image::Image;
use cuts::{Random, saves};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::super::boots::machine_of;
use super::super::hostile::test_program;
use super::super::{Cases, Context, expect, wrong};
use super::Kind;
use xtask_run::Capture;
use xtask_run::session::End;

/// Maximum number of saves before the end of a machine.
const SAVES: usize = 25;
/// Maximum delay of the end after the last of them.
const LATER: usize = 40;
/// Time limit of an end.
const PATIENCE: Duration = Duration::from_secs(120);
/// Size of the writes while the driver is killed, and the amount between two kills.
const MIB: u64 = 64;

/// How a machine ends during saves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// QEMU is killed.
    Killed,
    /// The tool gets SIGTERM.
    Terminated,
}

/// A program saves files on one disk while one machine after the other ends beneath it. Everything that it reported as
/// saved is there each time.
pub fn saves(
    context: &Context<'_>,
    cases: &mut Cases,
    kind: Kind,
    ending: Ending,
    rounds: u64,
    seed: u64,
) -> Result<()> {
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    let disk = folder.path().join("disk.img");
    kind.disk(context, &disk, kind.mib)?;
    let program = test_program(context.built_with_tests()?, "churn")?;
    let (mut lot, mut last) = (Random::new(seed), 0);
    for round in 1..=rounds {
        last = one(context, &disk, program, ending, last, &mut lot).with_context(|| format!("round {round}"))?;
        if ending == Ending::Terminated {
            kind.check(&disk).with_context(|| format!("after round {round}"))?;
        }
        let image = Image::new(&fs::read(&disk).context("cannot read the disk")?);
        let found = kind.system().read(&image).and_then(|found| saves::check(&found, 1, last));
        found.map_err(|why| anyhow!("after round {round}, save {last}: {why}"))?;
    }
    cases.note(&format!("--seed {seed}: {rounds} ends ({ending:?}), {last} saves, none lost"));
    cases.pass_whole();
    Ok(())
}

/// Runs one machine, from the save after `last`. Returns the last reported save.
fn one(context: &Context<'_>, disk: &Path, program: &Path, ending: Ending, last: u64, lot: &mut Random) -> Result<u64> {
    let mut command = wrong::tool(context)?;
    command.arg("run").arg("--disk").arg(disk).arg(program).args(["save", "/disk"]).arg((last + 1).to_string());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("cannot start this tool")?;
    let mut output = BufReader::new(child.stdout.take().context("no output")?);
    let (mut told, mut before) = (last, 1 + lot.below(SAVES));
    let mut hear = |until: &mut dyn FnMut() -> bool| -> Result<bool> {
        let mut line = String::new();
        while output.read_line(&mut line).context("cannot read")? > 0 {
            let number = line.strip_prefix("saved ").and_then(|rest| rest.trim().parse().ok());
            told = number.with_context(|| format!("it says {line:?}"))?;
            line.clear();
            if until() {
                return Ok(true);
            }
        }
        Ok(false)
    };
    let goes_on = hear(&mut || {
        before -= 1;
        before == 0
    })?;
    if !goes_on {
        let said = child.wait_with_output().map(|output| wrong::said(&output)).unwrap_or_default();
        bail!("it ended by itself after save {told}\n{said}");
    }
    thread::sleep(Duration::from_millis(lot.below(LATER) as u64));
    let (who, signal, code) = match ending {
        Ending::Killed => (machine_of(child.id())?.context("there is no machine")?, Signal::KILL, 125),
        Ending::Terminated => {
            (i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("no process")?, Signal::TERM, 143)
        }
    };
    kill_process(who, signal).context("cannot send a signal")?;
    hear(&mut || false)?;
    expect("the exit code", &wrong::ends_within(&mut child, PATIENCE)?, &Some(code))?;
    Ok(told)
}

/// Writes a file while the disk's driver is killed repeatedly; all of it is there.
pub fn driver_dies(context: &Context<'_>, kind: Kind, kills: u64) -> Result<()> {
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    let disk = folder.path().join("disk.img");
    kind.disk(context, &disk, MIB + 24)?;
    let built = context.built_with_tests()?;
    let mut capture = Capture::new(built, Path::new("sh"));
    // Each line of its output is one kill. Killing a driver that is already dead would not count.
    let script = format!(
        "churn write /disk {MIB} {kills} /tmp/kills | while read -r line; do until kill virtio-blk; do :; done; \
         echo >>/tmp/kills; done; echo over"
    );
    (capture.args, capture.tests) = (vec!["-c".to_owned(), script], true);
    capture.devices.disk = Some(disk.clone());
    let outcome = capture.run()?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let (stdout, stderr) = (text(outcome.stdout()), text(outcome.stderr()));
    expect("the end", &(&outcome.end, stdout.as_str()), &(&End::Exit(0), "over\n")).context(stderr.clone())?;
    let ended = stderr.matches("the service disk ended (-1024)").count() as u64;
    expect("how often the driver's end was told", &ended, &kills).with_context(|| stderr.clone())?;
    kind.check(&disk)?;
    let image = Image::new(&fs::read(&disk).context("cannot read the disk")?);
    let mut found = kind.system().read(&image).map_err(|why| anyhow!(why))?;
    let written = found.remove("written").context("what was written is not there")?;
    expect("what is there besides", &found.len(), &0)?;
    expect("its length", &(written.len() as u64), &(MIB << 20))?;
    let piece = |number: usize| cuts::plan::content(number as u8, 1 << 20);
    let wrong = written.chunks(1 << 20).enumerate().find(|(number, bytes)| *bytes != piece(*number));
    wrong.map_or(Ok(()), |(number, _)| Err(anyhow!("MiB {number} is another")))
}
