//! `test mutations`: puts small faults into the objects and the system calls. A conformance case must fail for each.
//!
//! The result shows how much the suite detects. [`sites`] finds the places. [`plant`] builds one system that contains
//! all faults, each inactive until its number is written into the binary. [`trial`] boots it once for each. A fault
//! that survives shows either a missing case or a change without effect; the latter are listed with their reason in
//! `xtask/test/mutations.toml` and not tried again.

mod plant;
mod sites;
mod trial;

use std::collections::BTreeMap;
use std::fs;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

use crate::args::TestArgs;
use plant::{Mutant, Plant, Root};
use trial::{Trial, Verdict};
use xtask_build::{BuildOptions, build, setup};
use xtask_common::files::write_if_changed;
use xtask_common::paths::Paths;
use xtask_common::ui::Ui;
use xtask_conformance::record::commit;

/// Number of machines that run at the same time.
const MACHINES: usize = 2;
/// The percentage of faults that must be caught.
const ENOUGH: f64 = 90.0;

/// The results of a run: `target/hafnon/mutations.json`.
#[derive(Serialize, Deserialize)]
struct Report {
    commit: String,
    caught: usize,
    total: usize,
    /// Cases that failed without a fault and were excluded.
    without: Vec<String>,
    mutants: Vec<Verdict>,
}

impl Report {
    fn read(paths: &Paths) -> Result<Report> {
        let text = fs::read(paths.out.join("mutations.json")).context("there is no run of before")?;
        serde_json::from_slice(&text).context("the run of before cannot be read")
    }
}

/// Runs the test; returns whether enough faults were caught.
///
/// # Errors
/// The system does not build or boot, or there is nothing to do.
pub fn run(paths: &Paths, args: &TestArgs) -> Result<bool> {
    let ui = Ui::new(false);
    setup::for_booting(&ui)?;
    let built = build(paths, &ui, BuildOptions { tests: true, ..BuildOptions::default() })?;
    let mut plant = Plant::choose(paths, args.count, args.file.as_deref())?;
    if args.list {
        plant
            .mutants()
            .iter()
            .for_each(|m| println!("{:4} {}:{} {}: {}", m.number, m.file, m.line, m.function, m.change));
        return Ok(true);
    }
    let faulty = plant.build(&ui, &built)?;
    let mut mutants = plant.mutants();
    mutants.retain(|mutant| args.only.is_none_or(|only| mutant.number == only));
    let mut verdicts = Vec::new();
    if args.again {
        // The numbers of faults change with the source, but their text does not.
        verdicts = Report::read(paths)?.mutants;
        let survivors = |m: &Mutant| verdicts.iter().any(|v| v.caught_by.is_none() && v.mutant.same(m));
        mutants.retain(survivors);
        verdicts.retain(|v| !mutants.iter().any(|m| v.mutant.same(m)));
    }
    // A random order, not file by file, so that the results of an interrupted run are representative.
    mutants.sort_by_key(|mutant| mutant.number.wrapping_mul(0x9e37_79b1));
    if mutants.is_empty() {
        bail!("there is no such fault; `./hafnon test mutations --list` names them");
    }
    let root = Root::read(&faulty.root)?;
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let mut trial = Trial { built: &faulty, root: &root, groups: Vec::new(), without: Vec::new() };
    let begun = Instant::now();
    let cases = trial.baseline(&folder.path().join("baseline"))?;
    println!(
        "{} faults in {} files; {cases} cases without a fault: {} s",
        mutants.len(),
        mutants.iter().map(|m| &m.file).collect::<std::collections::BTreeSet<_>>().len(),
        begun.elapsed().as_secs()
    );
    trial.without.iter().for_each(|case| println!("{case} fails without a fault; it is left out"));

    judge_all(&trial, &mutants, folder.path(), |verdict| {
        verdicts.push(verdict);
        // Results are saved after each fault, so that an interrupted run loses nothing.
        keep(paths, &trial, &verdicts)
    })?;
    verdicts.sort_by_key(|verdict| verdict.mutant.number);
    keep(paths, &trial, &verdicts)?;
    let caught = verdicts.iter().filter(|verdict| verdict.caught_by.is_some()).count();
    summary(&verdicts);
    let share = caught as f64 * 100.0 / verdicts.len() as f64;
    let minutes = begun.elapsed().as_secs_f64() / 60.0;
    println!("caught {caught} of {} ({share:.1} %) in {minutes:.0} min", verdicts.len());
    Ok(share >= ENOUGH)
}

fn keep(paths: &Paths, trial: &Trial<'_>, verdicts: &[Verdict]) -> Result<()> {
    let caught = verdicts.iter().filter(|verdict| verdict.caught_by.is_some()).count();
    let report = Report {
        commit: commit(paths),
        caught,
        total: verdicts.len(),
        without: trial.without.clone(),
        mutants: verdicts.to_vec(),
    };
    let text = serde_json::to_vec_pretty(&report).context("cannot write the report")?;
    write_if_changed(&paths.out.join("mutations.json"), &text).map(drop)
}

fn judge_all(
    trial: &Trial<'_>,
    mutants: &[Mutant],
    folder: &std::path::Path,
    mut done: impl FnMut(Verdict) -> Result<()>,
) -> Result<()> {
    let queue = Mutex::new(mutants.iter());
    let (sender, results) = channel();
    thread::scope(|scope| {
        for machine in 0..MACHINES {
            let (sender, queue) = (sender.clone(), &queue);
            scope.spawn(move || {
                let scratch = folder.join(format!("root-{machine}"));
                loop {
                    let Some(mutant) = queue.lock().ok().and_then(|mut queue| queue.next()) else { return };
                    if sender.send(trial.judge(mutant, &scratch)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for verdict in results {
            let verdict: Verdict = verdict?;
            let m = &verdict.mutant;
            let (word, by) = match &verdict.caught_by {
                Some(by) => ("caught  ", format!(" [{by}]")),
                None => ("SURVIVES", String::new()),
            };
            println!("{word} {:4} {}:{} {} ({:.1} s){by}", m.number, m.file, m.line, m.change, verdict.seconds);
            done(verdict)?;
        }
        Ok(())
    })
}

/// Prints how many were caught, by file and by kind.
fn summary(verdicts: &[Verdict]) {
    let mut counts: [BTreeMap<String, (usize, usize)>; 2] = Default::default();
    for verdict in verdicts {
        let kind = format!("{:?}", verdict.mutant.kind).to_lowercase();
        for (counts, key) in counts.iter_mut().zip([kind, verdict.mutant.file.clone()]) {
            let count = counts.entry(key).or_default();
            count.0 += usize::from(verdict.caught_by.is_some());
            count.1 += 1;
        }
    }
    println!("\nsurvivors:");
    for Verdict { mutant: m, .. } in verdicts.iter().filter(|verdict| verdict.caught_by.is_none()) {
        println!("{:4} {}:{} {}: {}", m.number, m.file, m.line, m.function, m.change);
    }
    println!();
    for (key, (caught, total)) in counts.iter().flatten() {
        println!("{key:<44} {caught:>4} of {total:>4}");
    }
}
