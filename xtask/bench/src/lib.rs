//! `bench`: measured figures, as opposed to tests with time limits.
#![forbid(unsafe_code)]

mod anchors;
pub mod args;
mod bars;
mod builds;
mod curves;
mod disks;
pub mod guest;
mod holds;
mod network;
pub mod operations;
pub mod page;
pub mod peers;
mod scale;
mod sizes;
mod steps;
mod switch;
mod switch_linux;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::args::{Bench, BenchArgs};
use xtask_build::cargo::{self, Build};
use xtask_build::{BuildOptions, program_flags, setup};
use xtask_common::paths::Paths;
use xtask_common::ui::Ui;
use xtask_run::accel;
use xtask_run::args::{Accel, AccelArg};
use xtask_run::session::End;
use xtask_run::{Capture, example};

/// Measures; returns this process' exit code.
///
/// # Errors
/// Something does not build or boot, or a file cannot be read or written.
pub fn bench(paths: &Paths, args: &BenchArgs) -> Result<u8> {
    match &args.other {
        None => operations::bench(paths, args).map(|()| 0),
        Some(Bench::Boot { runs, json, accel }) => boot(paths, *runs, *accel, json.as_deref()).map(|()| 0),
        Some(Bench::Disk { json, svg }) => disks::measure(paths, json.as_deref(), svg.as_deref()).map(|()| 0),
        Some(Bench::Build { json }) => builds::measure(paths, json.as_deref()).map(|()| 0),
        Some(Bench::Holds { accept }) => Ok(u8::from(!holds::measure(paths, *accept)?)),
        Some(Bench::Linux { json }) => guest::measure(paths, json.as_deref()).map(|()| 0),
        Some(Bench::Network(args)) if args.steps => steps::measure(paths, args).map(|()| 0),
        Some(Bench::Network(args)) => network::measure(paths, args).map(|()| 0),
        Some(Bench::Switch { json, linux: true }) => switch_linux::measure(paths, json.as_deref()).map(|()| 0),
        Some(Bench::Switch { json, .. }) => switch::measure(paths, json.as_deref()).map(|()| 0),
        Some(Bench::Memory { series, json, .. }) => {
            Ok(u8::from(!scale::measure(paths, &scale::MEMORY_COSTS, series, json.as_deref())?))
        }
        Some(Bench::Scale { series, json, .. }) => {
            Ok(u8::from(!scale::measure(paths, &scale::SCALE, series, json.as_deref())?))
        }
    }
}

/// The commit of the measured sources.
fn commit(paths: &Paths) -> String {
    let mut git = std::process::Command::new("git");
    git.args(["describe", "--always", "--dirty", "--abbrev=12"]).current_dir(&paths.workspace);
    match git.output() {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().into(),
        _ => "unknown".into(),
    }
}

/// Builds the program with this name in `tests/bench`.
fn program(paths: &Paths, ui: &Ui, name: &str) -> Result<PathBuf> {
    let args = format!("--release --locked --target {} -p bench", cargo::PROGRAM_TARGET);
    let made = Build::new("building the benchmark", &args)
        .env("CARGO_ENCODED_RUSTFLAGS", program_flags(paths))
        .run(paths, ui)?;
    Ok(cargo::program(&made, name)?.to_path_buf())
}

/// The messages of the root task and the server during the boot, and after how many thousand instructions they come.
fn stages(mut capture: Capture<'_>) -> Result<Vec<(String, u64)>> {
    capture.accel = Accel::Counting;
    capture.overheard = true;
    capture.until_first_output = false;
    let outcome = capture.run()?;
    let stage = |line: &String| {
        // `[  0.123456] I who: text`, where one nanosecond is one instruction.
        let (time, text) = line.strip_prefix('[')?.split_once("] ")?;
        let micros = time.trim().replace('.', "").parse().ok()?;
        Some((text.get(2..)?.to_string(), micros))
    };
    Ok(outcome.said.iter().filter_map(stage).collect())
}

/// Measures the wall-clock time from QEMU's start to the first output of the example `hello`, and the number of
/// instructions before each message of the root task and the server.
///
/// # Errors
/// Something does not build or boot, or the file cannot be written.
fn boot(paths: &Paths, runs: u32, accel: AccelArg, file: Option<&Path>) -> Result<()> {
    let ui = Ui::new(false);
    setup::for_booting(&ui)?;
    let mut built = xtask_build::build(paths, &ui, BuildOptions::default())?;
    let hello = example(paths, &ui, "hello")?;
    let accel = accel::choose(paths, &ui, Some(accel), &mut built)?;
    let mut capture = Capture::new(&built, &hello);
    capture.accel = accel;
    capture.until_first_output = true;
    let mut times = Vec::new();
    let mut step = ui.step("booting");
    for run in 1..=runs {
        step.activity(&format!("{run} of {runs}"));
        let outcome = capture.run()?;
        match (outcome.first_output, outcome.end) {
            (Some(time), _) => times.push(time),
            (None, End::Exit(code)) => bail!("hello ended with {code} and printed nothing"),
            (None, end) => bail!("hello printed nothing: {end:?}"),
        }
    }
    drop(step);
    times.sort();
    let ms = |time: Duration| (time.as_secs_f64() * 1e4).round() / 10.0;
    let (min, max) = (ms(times[0]), ms(times[times.len() - 1]));
    let median = ms(times[times.len() / 2]);
    println!("QEMU's start to the first line of hello, wall clock, {runs} boots:");
    println!("{:>10} {:>10} {:>10}", "min", "median", "max");
    println!("{min:>7} ms {median:>7} ms {max:>7} ms");
    let stages = stages(capture)?;
    println!("millions of guest instructions since the root task's start, one boot:");
    for (what, micros) in &stages {
        println!("{:>10.1}  {what}", *micros as f64 / 1e3);
    }
    if let Some(file) = file {
        let all: Vec<f64> = times.into_iter().map(ms).collect();
        let report = json!({
            "benchmark": "boot", "unit": "ms", "runs": runs, "accel": format!("{accel:?}").to_lowercase(),
            "min": min, "median": median, "max": max, "all": all, "stages": stages,
        });
        fs::write(file, format!("{report:#}\n")).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}
