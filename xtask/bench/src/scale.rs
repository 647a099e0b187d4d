//! `bench scale`: the cost of operations as a function of the number of objects.
//!
//! The program `scale` (tests/bench) runs in a machine whose counters count instructions, so the figures are the same
//! on every computer and in every run. An operation is flat if it costs at most [`LIMIT`] times as much with the most
//! objects as with the fewest.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::operations::number;
use super::{commit, program};
use xtask_build::devices::Devices;
use xtask_build::image::{Image, Mode};
use xtask_build::{BuildOptions, setup};
use xtask_common::paths::Paths;
use xtask_common::ui::Ui;
use xtask_run::args::Accel;
use xtask_run::qemu::Machine;
use xtask_run::session::{End, Session, Streams};

/// Maximum ratio of the costs with the most and with the fewest objects.
pub const LIMIT: f64 = 1.5;
/// Memory of the machine in bytes: room for a million objects.
const MEMORY: u64 = 2 << 30;

/// The result of one run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Report {
    /// `scale`.
    pub benchmark: String,
    /// The unit of the figures.
    pub unit: String,
    /// The commit of the measured sources.
    pub commit: String,
    /// The version of the kernel.
    pub kernel: String,
    /// QEMU's options.
    pub options: String,
    /// Ticks of the counter per instruction, as measured in the run itself.
    pub ticks_per_instruction: f64,
    /// The curves.
    pub costs: Vec<Cost>,
    /// Memory of the server per object.
    pub memory: Vec<Memory>,
}

/// A curve.
#[derive(Debug, Serialize, Deserialize)]
pub struct Cost {
    /// The kind of object whose number grows.
    pub series: String,
    /// The measured operation.
    pub operation: String,
    /// The number of objects, and the cost in instructions.
    pub points: Vec<(u64, f64)>,
}

impl Cost {
    /// The cost with the most objects divided by the cost with the fewest.
    pub fn ratio(&self) -> f64 {
        match (self.points.first(), self.points.last()) {
            (Some((_, first)), Some((_, last))) if *first > 0.0 => last / first,
            _ => 1.0,
        }
    }
}

/// The memory of an object.
#[derive(Debug, Serialize, Deserialize)]
pub struct Memory {
    /// The kind of object.
    pub object: String,
    /// Number of objects.
    pub count: u64,
    /// Bytes per object.
    pub bytes: u64,
}

/// A set of curves.
pub struct CurveSet {
    name: &'static str,
    /// The series of the program, in this order.
    series: &'static [&'static str],
    /// An operation that is not flat is a failure.
    flat: bool,
}

/// The cost of operations as a function of the number of objects.
pub const SCALE: CurveSet = CurveSet {
    name: "scale",
    series: &["queues", "handles", "waits", "channels", "mappings", "threads", "processes", "domains"],
    flat: true,
};

/// The cost of memory operations, by pages, mappings and bytes.
pub const MEMORY_COSTS: CurveSet =
    CurveSet { name: "memory", series: &["commit", "copies", "mappings", "faults", "transfer"], flat: false };

/// Measures a set, or some series of it; returns whether all results are good.
///
/// # Errors
/// Something does not build or boot, or the file cannot be written.
pub fn measure(paths: &Paths, set: &CurveSet, series: &[String], file: Option<&Path>) -> Result<bool> {
    let wanted = |name: &&&str| series.is_empty() || series.iter().any(|wanted| wanted == **name);
    let words: Vec<&str> = set.series.iter().filter(wanted).copied().collect();
    if words.is_empty() {
        bail!("there are the series {}", set.series.join(", "));
    }
    let ui = Ui::new(false);
    setup::for_booting(&ui)?;
    let built = xtask_build::build(paths, &ui, BuildOptions::default())?;
    let program = program(paths, &ui, "scale")?;
    // It runs as a test, so that it may query the server's memory use.
    let mut image = Image::new(&built, false, &Devices::default())?;
    image.add("run/scale", fs::read(program).context("cannot read the benchmark")?)?;
    let test = [&["scale", "3600000", "0", "/boot/run/scale"], words.as_slice()].concat().join("\t");
    image.add("config/tests", test + "\n")?;
    let bytes = image.finish(&Mode::Test, &[])?;
    let machine = Machine {
        kernel: &built.kernel,
        root: &built.root,
        image: &bytes,
        memory: MEMORY,
        accel: Accel::Counting,
        gdb: None,
        devices: Devices::default(),
        linux: None,
    };
    let session = Session {
        machine,
        timeout: Some(Duration::from_secs(3600)),
        quiet: None,
        verbose: false,
        streams: Streams::Overheard,
        until_first_output: false,
    };
    let step = ui.step("measuring");
    let outcome = session.run()?;
    drop(step);
    let stdout = outcome.stdout();
    let text = String::from_utf8_lossy(&stdout);
    let mut report = Report {
        benchmark: set.name.into(),
        unit: "guest instructions for one operation".into(),
        commit: commit(paths),
        kernel: "seL4 5.0.0".into(),
        options: format!("QEMU TCG, one processor, {} MiB, -icount shift=0,sleep=off", MEMORY >> 20),
        ticks_per_instruction: 1.0,
        costs: Vec::new(),
        memory: Vec::new(),
    };
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        take(&mut report, &words).with_context(|| format!("cannot understand the benchmark's line `{line}`"))?;
    }
    let flat = print(&report, set.flat) || !set.flat;
    match outcome.end {
        End::Exit(0) => {}
        End::Exit(code) => {
            bail!("the benchmark ended with {code}: {}", String::from_utf8_lossy(&outcome.stderr()).trim())
        }
        end => bail!("the benchmark did not end: {end:?}"),
    }
    // The file always contains the complete report.
    if let Some(file) = file {
        let text = serde_json::to_string_pretty(&report)?;
        fs::write(file, text + "\n").with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(flat)
}

fn take(report: &mut Report, words: &[&str]) -> Result<()> {
    match words {
        ["calibration", ticks] => report.ticks_per_instruction = number(ticks)?,
        ["cost", series, operation, count, instructions] => {
            let point = (count.parse()?, number(instructions)?);
            match report.costs.iter_mut().find(|cost| cost.series == *series && cost.operation == *operation) {
                Some(cost) => cost.points.push(point),
                None => {
                    let (series, operation) = ((*series).into(), (*operation).into());
                    report.costs.push(Cost { series, operation, points: vec![point] });
                }
            }
        }
        ["memory", object, count, bytes] => {
            let memory = Memory { object: (*object).into(), count: count.parse()?, bytes: bytes.parse()? };
            // The last measurement has the most objects and counts.
            report.memory.retain(|earlier| earlier.object != memory.object);
            report.memory.push(memory);
        }
        _ => bail!("it is none of the kinds that there are"),
    }
    Ok(())
}

/// Prints a table, with a verdict on each line if requested; returns whether everything is flat.
fn print(report: &Report, judge: bool) -> bool {
    println!("guest instructions for one operation; ratio: with the most objects to with the fewest");
    let mut flat = true;
    for cost in &report.costs {
        let points: Vec<String> =
            cost.points.iter().map(|(count, instructions)| format!("{count}: {instructions:.0}")).collect();
        let verdict = match judge {
            true if cost.ratio() <= LIMIT => " PASS",
            true => " over",
            false => "",
        };
        flat &= cost.ratio() <= LIMIT;
        let name = format!("{} {}", cost.series, cost.operation);
        println!("{name:<32} {:>6.2}{verdict}  {}", cost.ratio(), points.join("  "));
    }
    println!("bytes of the kernel's memory for one object");
    for memory in &report.memory {
        println!("{:<32} {:>7}  (of {})", memory.object, memory.bytes, memory.count);
    }
    flat
}

/// Reads a report from a file.
///
/// # Errors
/// It cannot be read or is not a report.
pub fn read(report: &Path) -> Result<Report> {
    let text = fs::read_to_string(report).with_context(|| format!("cannot read {}", report.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is no report of this kind", report.display()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::curves;
    use super::*;

    fn extreme() -> impl Strategy<Value = String> {
        let all = ["0", "1e308", "-1e308", "4.9e-324", "inf", "-inf", "NaN", "18446744073709551615", "-1", "x"];
        prop_oneof![any::<u64>().prop_map(|n| n.to_string()), (0..all.len()).prop_map(move |n| all[n].to_string())]
    }

    proptest! {
        /// A benchmark's lines with any numbers are refused, or give a report that can be printed and drawn.
        #[test]
        fn no_numbers_make_it_panic(lines in proptest::collection::vec((0..3, extreme(), extreme()), 0..10)) {
            let mut report = Report {
                benchmark: String::new(),
                unit: String::new(),
                commit: String::new(),
                kernel: String::new(),
                options: String::new(),
                ticks_per_instruction: 1.0,
                costs: Vec::new(),
                memory: Vec::new(),
            };
            for (kind, a, b) in lines {
                let line = match kind {
                    0 => format!("calibration {a}"),
                    1 => format!("cost series operation {a} {b}"),
                    _ => format!("memory object {a} {b}"),
                };
                let _ = take(&mut report, &line.split(' ').collect::<Vec<_>>());
            }
            print(&report, true);
            prop_assert!(curves::of_report(&report).len() < 1 << 20);
        }
    }
}
