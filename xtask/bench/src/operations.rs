//! `bench`: the cost of single operations.
//!
//! The program `operations` (tests/bench) runs in a machine whose counters count instructions, so the figures are the
//! same on every computer and in every run. The costs on other systems are printed next to them ([`anchors`]).
//!
//! The tree contains the accepted figures ([`ACCEPTED`]). The page docs/performance.md and its drawing are made from
//! them, and [`guard`] compares with them, so a change that makes a path longer must also change them.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::anchors::{BESIDE, BULK, GROUPS, KERNEL, Operation, operations};
use super::{commit, peers, program};
use crate::args::BenchArgs;
use xtask_build::{BuildOptions, setup};
use xtask_common::paths::Paths;
use xtask_common::ui::Ui;
use xtask_run::Capture;
use xtask_run::args::Accel;
use xtask_run::session::End;

/// The accepted figures.
pub const ACCEPTED: &str = "docs/measurements/operations.json";
/// By which factor an operation may become longer before [`guard`] fails. This many instructions are always allowed.
const LONGER: f64 = 1.02;
const AT_LEAST: f64 = 2.0;
/// Number of boots after which [`guard`] accepts that an operation is longer. The median of these boots is accepted.
const BOOTS: u64 = 5;
/// Memory of the machine in bytes.
const MEMORY: u64 = 1 << 30;

/// Memory of the machine in a series of boots, in bytes. Another size changes the random choices of the system.
fn memory(boot: u64) -> u64 {
    MEMORY + boot * (64 << 20)
}

/// The figures of one operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The operation.
    pub name: String,
    /// The unit of the numbers.
    pub unit: String,
    /// The mean.
    pub mean: f64,
    /// The minimum.
    pub min: f64,
    /// The maximum.
    pub max: f64,
    /// Number of samples.
    pub samples: u64,
    /// The commit of the sources.
    pub commit: String,
    /// The version of the kernel.
    pub kernel: String,
    /// QEMU's options.
    pub options: String,
}

impl Figure {
    /// A figure for tests.
    #[cfg(test)]
    pub(crate) fn of(name: &str, mean: f64) -> Figure {
        Figure {
            name: name.into(),
            unit: "instructions".into(),
            mean,
            min: mean,
            max: mean,
            samples: 10,
            commit: String::new(),
            kernel: String::new(),
            options: String::new(),
        }
    }

    /// The mean of all samples except the greatest.
    fn steady(&self) -> f64 {
        if self.samples < 2 {
            return self.mean;
        }
        (self.mean * self.samples as f64 - self.max) / (self.samples - 1) as f64
    }
}

/// Measures operations, or lists them.
///
/// # Errors
/// No operation has such a name; something does not build or boot, or the file cannot be written.
pub fn bench(paths: &Paths, args: &BenchArgs) -> Result<()> {
    let wanted = |operation: &&Operation| {
        let beside = |name: &str| BESIDE.iter().any(|(of, also)| *of == name && also.contains(&operation.name));
        let named = |name: &String| operation.name.starts_with(name.as_str()) || beside(name);
        args.names.is_empty() || args.names.iter().any(named)
    };
    if let Some(name) = args.names.iter().find(|name| !operations().any(|op| op.name.starts_with(name.as_str()))) {
        bail!("no operation's name begins with `{name}`; `./hafnon bench --list` names them");
    }
    let operations: Vec<&Operation> = operations().filter(wanted).collect();
    if args.list {
        operations.iter().for_each(|operation| println!("{}", operation.name));
        return Ok(());
    }
    let ui = Ui::new(false);
    if args.clock {
        return by_the_clock(paths, &ui, args.json.as_deref());
    }
    let figures = if args.accept {
        typical(paths, &ui, &operations)?
    } else {
        measure(paths, &ui, &operations, Accel::Counting, MEMORY)?
    };
    let linux = args.peers.then(|| peers::measure(paths, &ui, MEMORY)).transpose()?;
    print(&operations, &figures, linux.as_deref());
    if let Some(file) = &args.json {
        write(file, &[figures.as_slice(), linux.as_deref().unwrap_or_default()].concat())?;
    }
    if args.accept {
        if let Some(linux) = &linux {
            write(&paths.workspace.join(peers::ACCEPTED), linux)?;
        }
        write(&paths.workspace.join(ACCEPTED), &figures)?;
    }
    Ok(())
}

/// Each operation's median figure of [`BOOTS`] machines, so that one lucky or unlucky random choice is not accepted.
fn typical(paths: &Paths, ui: &Ui, operations: &[&Operation]) -> Result<Vec<Figure>> {
    let boots = (0..BOOTS).map(|boot| measure(paths, ui, operations, Accel::Counting, memory(boot)));
    Ok(median(&boots.collect::<Result<Vec<_>>>()?))
}

/// Each operation's median figure of several boots, which measured the same operations in the same order.
pub(crate) fn median(boots: &[Vec<Figure>]) -> Vec<Figure> {
    let middle = |place: usize| {
        let mut figures: Vec<&Figure> = boots.iter().filter_map(|figures| figures.get(place)).collect();
        figures.sort_by(|a, b| a.steady().total_cmp(&b.steady()));
        figures.get(figures.len() / 2).map(|figure| (*figure).clone())
    };
    (0..boots.first().map_or(0, Vec::len)).filter_map(middle).collect()
}

/// Bulk transfers by the wall clock: the cost of each byte, compared with a plain copy in the same run, and the fixed
/// cost of a call. It uses the minimum of the samples, because other load on the computer only adds time.
fn by_the_clock(paths: &Paths, ui: &Ui, file: Option<&Path>) -> Result<()> {
    let bulk: Vec<&Operation> = GROUPS.iter().filter(|(name, _)| *name == BULK).flat_map(|(_, all)| *all).collect();
    let figures = measure(paths, ui, &bulk, Accel::Tcg, MEMORY)?;
    print!("{}", clock_table(&figures));
    if let Some(file) = file {
        write(file, &figures)?;
    }
    Ok(())
}

/// The table of [`by_the_clock`]. The cost of a byte is the difference between 16 KiB and 64 KiB, which are one call
/// each.
pub fn clock_table(figures: &[Figure]) -> String {
    let least = |name: String| figures.iter().find(|figure| figure.name == name).map_or(0.0, |figure| figure.min);
    let per_kib = |name: &str| (least(format!("{name}_65536")) - least(format!("{name}_16384"))) / 48.0;
    let copy = per_kib("copy").max(f64::MIN_POSITIVE);
    let mut out = String::from(
        "| | ns for a KiB | in plain copies | ns for 1 KiB in all | for 64 KiB | for 1 MiB |\n|---|--:|--:|--:|--:|--:|\n",
    );
    for name in ["copy", "channel_bulk", "socket_bulk", "vmo_write", "vmo_read"] {
        let [small, large, most] = [1024, 65536, 1 << 20].map(|len: u32| least(format!("{name}_{len}")));
        let byte = per_kib(name);
        out.push_str(&format!("| `{name}` | {byte:.0} | {:.2} | {small:.0} | {large:.0} | {most:.0} |\n", byte / copy));
    }
    out
}

/// Writes figures to a file.
///
/// # Errors
/// It cannot be written.
pub fn write(file: &Path, figures: &[Figure]) -> Result<()> {
    let text = serde_json::to_string_pretty(figures)? + "\n";
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// The accepted figures.
///
/// # Errors
/// They cannot be read.
pub fn accepted(paths: &Paths) -> Result<Vec<Figure>> {
    read(paths, ACCEPTED)
}

/// Reads figures from a file of the tree.
///
/// # Errors
/// They cannot be read.
pub fn read(paths: &Paths, file: &str) -> Result<Vec<Figure>> {
    let text = fs::read_to_string(paths.workspace.join(file)).with_context(|| format!("cannot read {file}"))?;
    serde_json::from_str(&text).with_context(|| format!("{file} is no list of figures"))
}

/// Measures everything; reports for each operation whether it is no longer than accepted.
///
/// The parts of an address space have random addresses in each boot, and the cost of some paths depends on them by a
/// few per cent, because a search takes more or fewer steps. As long as nothing changes, the choices are the same. So
/// an operation that is too long is measured again in machines with another memory size, where the choices differ. It
/// must be too long in all of them. The comparison uses the mean without the greatest sample ([`Figure::steady`]): in
/// one of many hundred the server may have fetched memory for itself.
///
/// # Errors
/// Something does not build or boot.
pub fn guard(paths: &Paths, ui: &Ui, mut report: impl FnMut(&str, Result<(), String>)) -> Result<()> {
    let before = accepted(paths)?;
    let before = |name: &str| before.iter().find(|before| before.name == name).map(Figure::steady);
    let all: Vec<&Operation> = operations().collect();
    let mut best: Vec<f64> = vec![f64::INFINITY; all.len()];
    for boot in 0..BOOTS {
        let figures = measure(paths, ui, &all, Accel::Counting, memory(boot))?;
        for (best, figure) in best.iter_mut().zip(figures) {
            *best = best.min(figure.steady());
        }
        if all.iter().zip(&best).all(|(operation, best)| verdict(before(operation.name), *best).is_ok()) {
            break;
        }
    }
    for (operation, best) in all.iter().zip(best) {
        report(operation.name, verdict(before(operation.name), best));
    }
    Ok(())
}

/// Compares an operation with its accepted figure.
fn verdict(before: Option<f64>, after: f64) -> Result<(), String> {
    let accept = "if it has to be so, `./hafnon bench --accept` writes the new figures down";
    match before {
        None => Err(format!("it takes {after:.1} instructions, and none were accepted; {accept}")),
        Some(before) if after > (before * LONGER).max(before + AT_LEAST) => {
            let percent = (after / before - 1.0) * 100.0;
            Err(format!("it took {before:.1} instructions and takes {after:.1} now ({percent:+.1} %); {accept}"))
        }
        Some(_) => Ok(()),
    }
}

/// Boots a machine with this much memory, and returns a figure for each of the operations, in order.
///
/// # Errors
/// Something does not build or boot, or an operation was not measured.
fn measure(paths: &Paths, ui: &Ui, operations: &[&Operation], accel: Accel, memory: u64) -> Result<Vec<Figure>> {
    setup::for_booting(ui)?;
    let kernel = operations.iter().any(|operation| operation.name.starts_with(KERNEL));
    let built = xtask_build::build(paths, ui, BuildOptions { measure: kernel, ..BuildOptions::default() })?;
    let program = program(paths, ui, "operations")?;
    let mut capture = Capture::new(&built, &program);
    capture.accel = accel;
    capture.memory = memory;
    capture.overheard = true;
    capture.timeout = Duration::from_secs(1800);
    if accel != Accel::Counting {
        capture.args.push("--clock".into());
    }
    capture.args.extend(operations.iter().map(|operation| operation.name.to_string()));
    let step = ui.step("measuring");
    let outcome = capture.run()?;
    drop(step);
    match outcome.end {
        End::Exit(0) => {}
        End::Exit(code) => {
            bail!("the benchmark ended with {code}: {}", String::from_utf8_lossy(&outcome.stderr()).trim())
        }
        end => bail!("the benchmark did not end: {end:?}"),
    }
    let common = (
        commit(paths),
        "seL4 5.0.0, release".to_string(),
        match accel {
            Accel::Counting => format!("QEMU TCG, one processor, {} MiB, -icount shift=0,sleep=off", memory >> 20),
            other => format!("QEMU {}, one processor, {} MiB", format!("{other:?}").to_uppercase(), memory >> 20),
        },
    );
    let stdout = outcome.stdout();
    let text = String::from_utf8_lossy(&stdout);
    let root = outcome.said.iter().filter_map(|line| Some(line.split_once("I root: ")?.1));
    let mut figures = Vec::new();
    for line in root.chain(text.lines()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.first() == Some(&"figure") {
            let figure = figure(&words, &common);
            figures.push(figure.with_context(|| format!("cannot understand the benchmark's line `{line}`"))?);
        }
    }
    operations
        .iter()
        .map(|operation| {
            let figure = figures.iter().find(|figure| figure.name == operation.name);
            figure.cloned().with_context(|| format!("the benchmark did not measure {}", operation.name))
        })
        .collect()
}

/// Parses one figure from a benchmark's line.
///
/// # Errors
/// The line is not valid.
pub fn figure(words: &[&str], (commit, kernel, options): &(String, String, String)) -> Result<Figure> {
    let ["figure", name, unit, mean, min, max, samples] = words else { bail!("it has not seven words") };
    Ok(Figure {
        name: (*name).into(),
        unit: (*unit).into(),
        mean: number(mean)?,
        min: number(min)?,
        max: number(max)?,
        samples: samples.parse()?,
        commit: commit.clone(),
        kernel: kernel.clone(),
        options: options.clone(),
    })
}

/// Parses a number. NaN and infinity are refused, because they cannot be drawn.
///
/// # Errors
/// It is not a finite number.
pub fn number(text: &str) -> Result<f64> {
    let number: f64 = text.parse()?;
    if number.is_finite() { Ok(number) } else { bail!("`{text}` is no number") }
}

/// Prints a table, with the costs on other systems.
fn print(operations: &[&Operation], figures: &[Figure], linux: Option<&[Figure]>) {
    println!("guest instructions for one operation; elsewhere: native Zircon of 2018, the thesis' server; our goal");
    let column = |linux: Option<String>| linux.map_or(String::new(), |text| format!(" {text:>8}"));
    let title = ["operation", "mean", "min", "max", "native", "thesis", "goal"];
    let [name, mean, min, max, native, thesis, goal] = title;
    let of_linux = column(linux.map(|_| "linux".into()));
    println!("{name:<24} {mean:>10} {min:>8} {max:>8} {native:>8} {thesis:>8} {goal:>8}{of_linux}");
    for (operation, figure) in operations.iter().zip(figures) {
        let other = |value: Option<f64>| value.map_or("-".to_string(), |value| format!("{value:.0}"));
        println!(
            "{:<24} {:>10.1} {:>8.0} {:>8.0} {:>8} {:>8} {:>8}{} {:<5} {}",
            figure.name,
            figure.mean,
            figure.min,
            figure.max,
            other(operation.native),
            other(operation.thesis),
            other(operation.goal),
            column(linux.map(|linux| other(peers::beside(linux, operation.name)))),
            if operation.goal.is_some_and(|goal| figure.mean > goal) { "over" } else { "" },
            operation.what,
        );
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn extreme() -> impl Strategy<Value = String> {
        let all = ["0", "-0", "1e308", "-1e308", "4.9e-324", "inf", "NaN", "18446744073709551615", "-1", "x", ""];
        prop_oneof![any::<f64>().prop_map(|n| n.to_string()), (0..all.len()).prop_map(move |n| all[n].to_string())]
    }

    proptest! {
        /// A benchmark's line with any numbers is refused, or gives a figure that can be printed, drawn and judged.
        #[test]
        fn no_numbers_make_it_panic(numbers in proptest::collection::vec(extreme(), 4)) {
            let line = format!("figure null0 instructions {}", numbers.join(" "));
            let common = (String::new(), String::new(), String::new());
            if let Ok(figure) = figure(&line.split(' ').collect::<Vec<_>>(), &common) {
                prop_assert!([figure.mean, figure.min, figure.max].iter().all(|number| number.is_finite()));
                let _ = verdict(Some(figure.steady()), figure.mean);
                let _ = clock_table(std::slice::from_ref(&figure));
                print(&operations().collect::<Vec<_>>(), std::slice::from_ref(&figure), None);
            }
        }
    }

    #[test]
    fn what_is_too_long() {
        for (before, after, fine) in [
            (Some(1000.0), 900.0, true),
            (Some(1000.0), 1020.0, true),
            (Some(1000.0), 1020.1, false),
            (Some(10.0), 12.0, true),
            (Some(10.0), 12.1, false),
            (None, 1.0, false),
        ] {
            assert_eq!(verdict(before, after).is_ok(), fine, "{before:?} {after}");
        }
        let text = verdict(Some(1000.0), 1100.0).unwrap_err();
        assert!(text.contains("1000.0") && text.contains("1100.0") && text.contains("--accept"), "{text}");
    }
}
