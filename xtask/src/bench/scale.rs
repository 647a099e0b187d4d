//! `bench scale`: what operations cost against the number of objects.
//!
//! The program `scale` (tests/bench) is run in a machine whose counters count instructions, so the figures are the same on
//! every computer and in every run. An operation is flat if it costs at most [`LIMIT`] times as much with the most
//! objects as with the fewest.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::operations::number;
use super::{commit, program};
use crate::build::{self, What};
use crate::cli::Accel;
use crate::image::{Image, Mode};
use crate::paths::Paths;
use crate::qemu::{Devices, Machine};
use crate::session::{End, Session, Streams};
use crate::setup;
use crate::ui::Ui;

/// How much more an operation may cost with the most objects than with the fewest.
pub const LIMIT: f64 = 1.5;
/// Memory of the machine in bytes: a million objects take some.
const MEMORY: u64 = 2 << 30;

/// What one run measured.
#[derive(Debug, Serialize, Deserialize)]
pub struct Report {
    /// `scale`.
    pub benchmark: String,
    /// What the figures are.
    pub unit: String,
    /// What was measured: the state of the sources.
    pub commit: String,
    /// The kernel beneath.
    pub kernel: String,
    /// How the machine was started.
    pub options: String,
    /// Ticks of the counter for one instruction, as found in the run itself.
    pub ticks_per_instruction: f64,
    /// Curves.
    pub costs: Vec<Cost>,
    /// Memory of the kernel's that an object takes.
    pub memory: Vec<Memory>,
}

/// A curve.
#[derive(Debug, Serialize, Deserialize)]
pub struct Cost {
    /// What there are many of.
    pub series: String,
    /// What is done.
    pub operation: String,
    /// How many there are, and the instructions that it takes then.
    pub points: Vec<(u64, f64)>,
}

impl Cost {
    /// The cost with the most by the cost with the fewest.
    pub fn ratio(&self) -> f64 {
        match (self.points.first(), self.points.last()) {
            (Some((_, first)), Some((_, last))) if *first > 0.0 => last / first,
            _ => 1.0,
        }
    }
}

/// What an object takes.
#[derive(Debug, Serialize, Deserialize)]
pub struct Memory {
    /// Which.
    pub object: String,
    /// How many there were.
    pub count: u64,
    /// Bytes of each.
    pub bytes: u64,
}

/// A set of curves.
pub struct Set {
    name: &'static str,
    /// The series of the program, in this order.
    series: &'static [&'static str],
    /// An operation that is not flat is a failure.
    flat: bool,
}

/// What operations cost against the number of objects.
pub const SCALE: Set = Set {
    name: "scale",
    series: &["queues", "handles", "waits", "channels", "mappings", "threads", "processes", "domains"],
    flat: true,
};

/// What memory costs, by pages, mappings and bytes.
pub const MEMORY_COSTS: Set =
    Set { name: "memory", series: &["commit", "copies", "mappings", "faults", "transfer"], flat: false };

/// Measures a set, or some series of it; says whether everything is as it should be.
///
/// # Errors
/// Something does not build or boot, or the file cannot be written.
pub fn measure(paths: &Paths, set: &Set, series: &[String], file: Option<&Path>) -> Result<bool> {
    let wanted = |name: &&&str| series.is_empty() || series.iter().any(|wanted| wanted == **name);
    let words: Vec<&str> = set.series.iter().filter(wanted).copied().collect();
    if words.is_empty() {
        bail!("there are the series {}", set.series.join(", "));
    }
    let ui = Ui::new(false);
    setup::for_booting(&ui)?;
    let built = build::build(paths, &ui, What::default())?;
    let program = program(paths, &ui, "scale")?;
    // As a test, so that it may ask how much memory the kernel uses.
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
    // What stands in the file is the whole of it.
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
            // What counts is what each takes when there are many.
            report.memory.retain(|earlier| earlier.object != memory.object);
            report.memory.push(memory);
        }
        _ => bail!("it is none of the kinds that there are"),
    }
    Ok(())
}

/// Prints a table, with a verdict on each line if they are to be judged; says whether everything is flat.
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

/// A report that was written before.
///
/// # Errors
/// It cannot be read or is none.
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
        /// A benchmark's lines with any numbers: refused, or a report that can be printed and drawn.
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
