//! SQLite on a disk whose machine is killed again and again, while it writes: what it said that it has committed is there, and the database is
//! whole.

use std::env;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::thread;

use anyhow::{Context as _, Result, bail};
use rustix::process::{Signal, kill_process};
use tempfile::TempDir;

use super::c;
use crate::cli::DiskCommand;
use crate::disk;
use crate::run::Capture;
use crate::session::End;
use crate::test::boots::machine_of;
use crate::test::{Context, Test, expect, expect_part, wrong};

/// How often, where `HAFNON_KILLS` does not say it.
const FEW: usize = 2;
/// Rows that are committed in a life before the machine may be killed, and by how much that varies.
const ROWS: usize = 60;
const MORE: usize = 97;

/// All of them.
pub fn tests() -> Vec<Test> {
    vec![Test::one("c-program.sqlite-killed", killed)]
}

fn killed(context: &Context<'_>) -> Result<()> {
    let kills = env::var("HAFNON_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(FEW);
    let program = c::sqlite_here(context)?;
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    let image = folder.path().join("disk.img");
    disk::disk(&DiskCommand::New { image: image.clone(), size: 64 << 20, fat: false })?;
    let mut rows = 0;
    for round in 0..kills {
        // Both ways of keeping transactions whole, by turns.
        let mode = if round % 2 == 0 { "DELETE" } else { "WAL" };
        let committed = life(context, &program, &image, mode, rows, ROWS + round * 31 % MORE)?;
        rows = check(context, &program, &image)?;
        if rows < committed {
            bail!("kill {round}, journal {mode}: {committed} rows were committed, and {rows} are there");
        }
    }
    println!("SQLite was killed {kills} times, and has {rows} rows");
    Ok(())
}

/// Commits rows, one by one, until so many have come, and kills the machine; gives the number of the last one that was told of.
fn life(context: &Context<'_>, program: &Path, image: &Path, mode: &str, rows: usize, most: usize) -> Result<usize> {
    let mut command = wrong::tool(context)?;
    command.args(["run", "--disk"]).arg(image).arg(program).args(["-batch", "/disk/log.db"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut tool = command.spawn().context("cannot start this tool")?;
    let (mut input, output) = (tool.stdin.take().context("no input")?, tool.stdout.take().context("no output")?);
    let begin = format!(
        "PRAGMA locking_mode=EXCLUSIVE;\nPRAGMA journal_mode={mode};\nPRAGMA synchronous=FULL;\n\
         CREATE TABLE IF NOT EXISTS log(n INTEGER PRIMARY KEY, text TEXT);\n"
    );
    let write = move || {
        let _ = input.write_all(begin.as_bytes());
        for n in rows + 1.. {
            let line = format!("INSERT INTO log VALUES({n}, hex(randomblob(300)));\nSELECT 'committed', {n};\n");
            if input.write_all(line.as_bytes()).is_err() {
                break;
            }
        }
    };
    let (mut last, mut killed) = (rows, false);
    thread::scope(|scope| -> Result<()> {
        scope.spawn(write);
        for line in BufReader::new(output).lines() {
            let Ok(line) = line else { break };
            if let Some(n) = line.strip_prefix("committed|").and_then(|n| n.parse().ok()) {
                last = n;
            }
            if last >= rows + most && !killed {
                let machine = machine_of(tool.id())?.context("there is no machine")?;
                kill_process(machine, Signal::KILL).context("cannot kill the machine")?;
                killed = true;
            }
        }
        tool.wait().map(drop).context("cannot wait for this tool")
    })?;
    expect("whether it was killed", &killed, &true)?;
    Ok(last)
}

/// Has SQLite look at the database; gives the number of its rows, of which none may be missing in between.
fn check(context: &Context<'_>, program: &Path, image: &Path) -> Result<usize> {
    let mut capture = Capture::new(context.built()?, program);
    let look = "PRAGMA integrity_check; SELECT 'rows', count(*), max(n) FROM log;";
    capture.args = ["-batch", "-cmd", "PRAGMA locking_mode=EXCLUSIVE", "/disk/log.db", look].map(Into::into).into();
    capture.devices.disk = Some(image.to_path_buf());
    let outcome = capture.run()?;
    let text = String::from_utf8_lossy(&outcome.stdout()).into_owned();
    expect("its end", &outcome.end, &End::Exit(0)).with_context(|| text.clone())?;
    expect_part("what SQLite says", &text, "ok\n")?;
    let rows = text.lines().find_map(|line| line.strip_prefix("rows|")?.split_once('|'));
    let (count, last) = rows.with_context(|| format!("no rows: {text}"))?;
    expect("the last row", &last, &count)?;
    count.parse().context("no number")
}
