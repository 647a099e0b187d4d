//! `bench network --steps`: how busy the processor is while frames come in at 180 to 900 Mb/s, as in the figures of works
//! that put a network service on seL4.
//!
//! An instruction takes a nanosecond, so the processor executes 10^9 of them in a second. The program itself asks for the
//! frames, by its clock. Idle time passes as on the wall, because a clock that jumps over it would also jump over the time
//! in which the wire answers.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use xtask_common::paths::Paths;
use xtask_common::ui::Ui;
use xtask_run::args::Accel;

use super::commit;
use super::curves::{self, Line, Panel};
use super::network::{KERNEL, Work, linux, options, ours};
use super::operations::number;
use crate::args::NetworkArgs;

/// The rates in Mb/s.
const RATES: [u64; 5] = [180, 360, 540, 720, 900];

/// What sDDF 0.7 published of UDP echoes on an Arm Cortex-A53 with 1.8 GHz and a card of 1 Gb/s: CPU use in per cent at
/// these rates. The processor and the work are others, so only the shape can be compared.
const SDDF: [(&str, [(u64, f64); 3]); 2] = [
    ("sDDF, 2 components", [(100, 12.0), (500, 39.0), (957, 60.0)]),
    ("sDDF, 5 components", [(100, 19.0), (500, 53.0), (957, 77.0)]),
];

/// One step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The rate in Mb/s.
    pub rate: u64,
    /// What the program received, in Mb/s.
    pub received: f64,
    /// How busy the processor was, in per cent.
    pub busy: f64,
    /// Instructions for each frame that was received.
    pub each: f64,
}

/// The steps of one system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    kernel: String,
    commit: String,
    options: String,
    steps: Vec<Step>,
}

/// Measures; prints a table.
///
/// # Errors
/// Something does not build or boot, the program fails, or a file cannot be written.
pub fn measure(paths: &Paths, args: &NetworkArgs) -> Result<()> {
    let ui = Ui::new(false);
    let words = ["steps".to_string()].into_iter().chain(RATES.map(|rate| rate.to_string())).collect();
    let work = Work { words, accel: Accel::CountingPaced };
    let record = |text: &str, kernel: String| -> Result<Record> {
        Ok(Record { kernel, commit: commit(paths), options: options(work.accel), steps: steps(text)? })
    };
    let mut records = vec![record(&ours(paths, &ui, &work, None)?, KERNEL.into())?];
    if args.peers {
        let (text, kernel) = linux(paths, &ui, &work)?;
        records.push(record(&text, kernel)?);
    }
    println!("frames of 1,514 bytes, received in bursts; the processor executes 10^9 instructions a second");
    println!("{:>6} {:>10} {:>7} {:>12}  kernel", "Mb/s", "received", "busy", "each");
    for record in &records {
        for Step { rate, received, busy, each } in &record.steps {
            println!("{rate:>6} {received:>10.1} {busy:>5.1} % {each:>12.0}  {}", record.kernel);
        }
    }
    if let Some(file) = &args.json {
        let text = serde_json::to_string_pretty(&records)? + "\n";
        fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

/// The table of the records in the tree.
pub fn table(records: &[Record]) -> String {
    let mut out = String::new();
    if let Some(first) = records.first() {
        out.push_str(&format!("Measured at {}; {}.\n\n", first.commit, first.options));
    }
    out.push_str("| Mb/s | kernel | received, Mb/s | CPU use | instructions for each frame |\n|--:|---|--:|--:|--:|\n");
    for rate in RATES {
        for record in records {
            for Step { received, busy, each, .. } in record.steps.iter().filter(|step| step.rate == rate) {
                let kernel = &record.kernel;
                out.push_str(&format!("| {rate} | {kernel} | {received:.0} | {busy:.0} % | {each:.0} |\n"));
            }
        }
    }
    out
}

/// Reads the records from a file.
///
/// # Errors
/// It cannot be read.
pub fn read(file: &Path) -> Result<Vec<Record>> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} has no steps", file.display()))
}

/// The steps in the program's output.
fn steps(text: &str) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["step", rate, received, busy, each] = words.as_slice() {
            let (received, busy, each) = (number(received)?, number(busy)?, number(each)?);
            steps.push(Step { rate: rate.parse()?, received, busy, each });
        }
    }
    Ok(steps)
}

/// A drawing of the steps of each system.
pub fn drawing(records: &[Record]) -> String {
    let line = |record: &Record, value: fn(&Step) -> f64| Line {
        name: record.kernel.split(',').next().unwrap_or_default().into(),
        points: record.steps.iter().map(|step| (step.rate, value(step))).collect(),
    };
    let published = SDDF.map(|(name, points)| Line { name: name.into(), points: points.to_vec() });
    let busy = records.iter().map(|record| line(record, |step| step.busy)).chain(published).collect();
    let each = records.iter().map(|record| line(record, |step| step.each)).collect();
    let panels = [
        Panel { name: "CPU use in per cent", across: "Mb/s", lines: busy },
        Panel { name: "instructions for each frame", across: "Mb/s", lines: each },
    ];
    let notes: Vec<String> =
        records.iter().map(|record| format!("{}; {}; {}", record.kernel, record.commit, record.options)).collect();
    curves::svg(&panels, &notes.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_an_output() {
        let text = "calibration\nstep 180 179.5 20.1 13000\r\nended with 0\n";
        assert_eq!(steps(text).unwrap(), [Step { rate: 180, received: 179.5, busy: 20.1, each: 13000.0 }]);
        assert!(steps("step 180 nan 1 1").is_err());
        let record =
            Record { kernel: "k".into(), commit: "c".into(), options: "o".into(), steps: steps(text).unwrap() };
        assert!(drawing(&[record]).contains("</svg>"));
    }
}
