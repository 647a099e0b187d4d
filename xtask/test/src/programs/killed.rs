//! An SQLite database (`examples/database`, with `rusqlite`) on a disk whose machine is killed repeatedly while it
//! writes: everything that it reported as committed is there, and the database is intact.

use std::env;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};
use rustix::process::{Signal, kill_process};
use tempfile::TempDir;

use crate::boots::machine_of;
use crate::{Context, Test, expect, wrong};
use xtask_run::args::DiskCommand;
use xtask_run::session::End;
use xtask_run::{Capture, disk};

/// The path of the database.
const DATABASE: &str = "/disk/log.db";
/// Default number of kills, unless `HAFNON_KILLS` sets it.
const FEW: usize = 2;
/// Number of rows that are committed in a life before the machine may be killed, and the range of its variation.
const ROWS: usize = 60;
const MORE: usize = 97;

/// All of them.
pub fn tests() -> Vec<Test> {
    vec![Test::one("example.database-killed", killed)]
}

fn killed(context: &Context<'_>) -> Result<()> {
    let kills = env::var("HAFNON_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(FEW);
    let program = context.example("database")?;
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    let image = folder.path().join("disk.img");
    disk::disk(&DiskCommand::New { image: image.clone(), size: 64 << 20, fat: false })?;
    let mut rows = 0;
    for round in 0..kills {
        // Alternates between both journal modes.
        let mode = if round % 2 == 0 { "delete" } else { "wal" };
        let committed = life(context, &program, &image, mode, rows, ROWS + round * 31 % MORE)?;
        rows = check(context, &program, &image)?;
        if rows < committed {
            bail!("kill {round}, journal {mode}: {committed} rows were committed, and {rows} are there");
        }
    }
    println!("the machine was killed {kills} times, and the database has {rows} rows");
    Ok(())
}

/// Commits rows, one by one, until this many were reported, and kills the machine; returns the number of the last
/// reported row.
fn life(context: &Context<'_>, program: &Path, image: &Path, mode: &str, rows: usize, most: usize) -> Result<usize> {
    let mut command = wrong::tool(context)?;
    command.args(["run", "--disk"]).arg(image).arg(program).args([DATABASE, "add", "1000000", mode]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut tool = command.spawn().context("cannot start this tool")?;
    let output = tool.stdout.take().context("no output")?;
    let (mut last, mut killed) = (rows, false);
    for line in BufReader::new(output).lines() {
        let Ok(line) = line else { break };
        if let Some(n) = line.strip_prefix("committed ").and_then(|n| n.parse().ok()) {
            last = n;
        }
        if last >= rows + most && !killed {
            let machine = machine_of(tool.id())?.context("there is no machine")?;
            kill_process(machine, Signal::KILL).context("cannot kill the machine")?;
            killed = true;
        }
    }
    tool.wait().context("cannot wait for this tool")?;
    expect("whether it was killed", &killed, &true)?;
    Ok(last)
}

/// Lets SQLite check the database; returns the number of rows, of which none in between may be missing.
fn check(context: &Context<'_>, program: &Path, image: &Path) -> Result<usize> {
    let mut capture = Capture::new(context.built()?, program);
    capture.args = [DATABASE, "check"].map(Into::into).into();
    capture.devices.disk = Some(image.to_path_buf());
    let outcome = capture.run()?;
    let text = String::from_utf8_lossy(&outcome.stdout()).into_owned();
    expect("its end", &outcome.end, &End::Exit(0))
        .with_context(|| String::from_utf8_lossy(&outcome.stderr()).into_owned())?;
    let rows = text.strip_suffix(" rows, whole\n").and_then(|rows| rows.parse().ok());
    rows.with_context(|| format!("no rows: {text}"))
}
