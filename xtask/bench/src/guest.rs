//! `bench linux`: what operations cost on Linux as a program (`guests/linux`), beside the same programs on Debian's
//! kernel in the same machine ([`super::peers`]). Both count instructions.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::json;

use super::commit;
use super::operations::{Figure, median};
use super::peers::{self, figures, static_program};
use xtask_build::{BuildOptions, Built, build, setup};
use xtask_common::paths::Paths;
use xtask_common::ui::Ui;
use xtask_run::args::Accel;
use xtask_run::linux::{self, Guest, Linux};
use xtask_run::session::End;

/// Memory of either Linux, in bytes.
const MEMORY: u64 = 256 << 20;

/// The measuring program, in the guest.
const PROGRAM: &str = "operations";

/// How many instructions operations may take at most, in the median of [`typical`].
pub const LIMITS: [(&str, f64); 6] = [
    ("linux_getpid", 2_200.0),
    ("linux_fault_write_single", 7_000.0),
    ("linux_pipe_pingpong", 20_000.0),
    ("linux_signal", 18_000.0),
    ("linux_fork_exit_wait", 450_000.0),
    ("linux_fork_exec_wait", 1_200_000.0),
];

/// Each operation's median of three boots: the random places of memory change figures by up to 3 %.
///
/// # Errors
/// Linux does not boot, or an operation fails.
pub fn typical(paths: &Paths, built: &Built, linux: &Linux) -> Result<Vec<Figure>> {
    let boots = (0..3).map(|_| operations(paths, built, linux));
    Ok(median(&boots.collect::<Result<Vec<_>>>()?))
}

/// Measures operations on Linux as a program.
fn operations(paths: &Paths, built: &Built, linux: &Linux) -> Result<Vec<Figure>> {
    let mut guest = Guest::new(&[&format!("/bin/{PROGRAM}")]);
    guest.memory = MEMORY;
    guest.accel = Accel::Counting;
    guest.programs = vec![(PROGRAM.into(), static_program(paths, &paths.out.join("peers"))?)];
    let outcome = guest.capture(paths, built, linux)?;
    let (output, errors) = (outcome.stdout(), outcome.stderr());
    let (output, errors) = (String::from_utf8_lossy(&output), String::from_utf8_lossy(&errors));
    if outcome.end != End::Exit(0) {
        bail!("Linux ended with {:?}:\n{output}\n{errors}", outcome.end);
    }
    let options = format!("QEMU TCG, one processor, {} MiB, -icount shift=0,sleep=off", MEMORY >> 20);
    figures(&output, &(commit(paths), "Linux as a program".into(), options))
}

/// Measures; prints a table.
///
/// # Errors
/// Linux cannot be fetched or built, does not boot, or a file cannot be written.
pub fn measure(paths: &Paths, json: Option<&Path>) -> Result<()> {
    let ui = Ui::new(false);
    setup::for_booting(&ui)?;
    let linux = linux::made(paths, &ui)?;
    let built = build(paths, &ui, BuildOptions::default())?;
    let step = ui.step("measuring Linux as a program");
    let ours = typical(paths, &built, &linux)?;
    drop(step);
    let native = peers::measure(paths, &ui, MEMORY)?;
    println!("instructions; Linux as a program, and Debian's kernel without mitigations");
    println!("{:<28} {:>10} {:>10} {:>10} {:>6}", "operation", "program", "at most", "native", "times");
    let mut records = Vec::new();
    for figure in &ours {
        let beside = native.iter().find(|native| native.name == figure.name).map(|native| native.mean);
        let times = beside.map_or(String::new(), |native| format!("{:.1}", figure.mean / native));
        let shown = beside.map_or("-".into(), |native| format!("{native:.0}"));
        let limit = LIMITS.iter().find(|(name, _)| *name == figure.name);
        let limit = limit.map_or(String::new(), |(_, limit)| format!("{limit:.0}"));
        println!("{:<28} {:>10.0} {limit:>10} {shown:>10} {times:>6}", figure.name, figure.mean);
        let mut record = serde_json::to_value(figure).context("a figure is no JSON")?;
        record["native"] = json!(beside);
        records.push(record);
    }
    if let Some(file) = json {
        let text = format!("{:#}\n", json!(records));
        fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}
