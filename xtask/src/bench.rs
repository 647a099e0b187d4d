//! `bench`: figures that are measured, never timed tests.

pub mod curves;
pub mod scale;

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::build::{self, What};
use crate::cli::Accel;
use crate::paths::Paths;
use crate::run::{Capture, example};
use crate::session::End;
use crate::setup;
use crate::ui::Ui;

/// Measures the wall clock from QEMU's start to the first output of the example `hello`.
///
/// # Errors
/// Something does not build or boot, or the file cannot be written.
pub fn boot(paths: &Paths, runs: u32, accel: Accel, file: Option<&Path>) -> Result<()> {
    let ui = Ui::new(false);
    setup::for_booting(&ui)?;
    let built = build::build(paths, &ui, What::default())?;
    let hello = example(paths, &ui, "hello")?;
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
    if let Some(file) = file {
        let all: Vec<f64> = times.into_iter().map(ms).collect();
        let report = json!({
            "benchmark": "boot", "unit": "ms", "runs": runs, "accel": format!("{accel:?}").to_lowercase(),
            "min": min, "median": median, "max": max, "all": all,
        });
        fs::write(file, format!("{report:#}\n")).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}
