//! `bench holds`: how long each call with maximal arguments keeps other threads from being served.
//!
//! For each of its cases, the program `holds` (tests/hostile) reports the longest wait of a thread that has priority
//! over all others, and which cases make which call long. The machine counts instructions: a microsecond is a thousand
//! of them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result, bail};

use super::commit;
use xtask_build::{BuildOptions, setup};
use xtask_common::paths::Paths;
use xtask_common::ui::Ui;
use xtask_conformance::Program;
use xtask_run::args::Accel;

/// The table in the tree.
const FILE: &str = "docs/measurements/holds.txt";

/// One piece of work of a case: its name, the longest wait next to it, and its duration, in microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hold {
    kind: String,
    wait: u64,
    lasted: u64,
}

/// What makes a call long: these cases, or nothing, for this reason.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Length {
    Cases(Vec<String>),
    None(String),
}

/// The output of the program.
#[derive(Debug, Default)]
struct HoldsReport {
    /// By case.
    holds: BTreeMap<String, Vec<Hold>>,
    /// By call.
    calls: BTreeMap<String, Length>,
    /// Cases that are known to take too long. They run only when they are named.
    known: Vec<String>,
}

impl HoldsReport {
    fn read(&mut self, text: &str) {
        let said = self;
        for line in text.lines() {
            match line.split_whitespace().collect::<Vec<_>>().as_slice() {
                ["hold", case, kind, wait, "of", lasted, "us"] => {
                    let (Ok(wait), Ok(lasted)) = (wait.parse(), lasted.parse()) else { continue };
                    let kind = kind.trim_end_matches(':').to_owned();
                    let holds = said.holds.entry((*case).to_owned()).or_default();
                    // Each case runs twice, to check for leaks.
                    match holds.iter_mut().find(|hold| hold.kind == kind) {
                        Some(hold) if hold.wait < wait => (hold.wait, hold.lasted) = (wait, lasted),
                        Some(_) => {}
                        None => holds.push(Hold { kind, wait, lasted }),
                    }
                }
                ["call", call, "-", why @ ..] => {
                    said.calls.insert((*call).to_owned(), Length::None(why.join(" ")));
                }
                ["call", call, cases @ ..] => {
                    let cases = cases.iter().map(ToString::to_string).collect();
                    said.calls.insert((*call).to_owned(), Length::Cases(cases));
                }
                ["known", case] => said.known.push((*case).to_owned()),
                _ => {}
            }
        }
    }

    /// The longest wait of a case.
    fn longest(&self, case: &str) -> Option<&Hold> {
        self.holds.get(case)?.iter().max_by_key(|hold| hold.wait)
    }

    /// The longest wait of some cases, and its case.
    fn longest_of<'a>(&'a self, cases: &'a [String]) -> Option<(&'a str, &'a Hold)> {
        let all = cases.iter().filter_map(|case| Some((case.as_str(), self.longest(case)?)));
        all.max_by_key(|(_, hold)| hold.wait)
    }

    /// The tables.
    fn tables(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        let mut rows: Vec<_> = Vec::new();
        let mut without: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (call, length) in &self.calls {
            match length {
                Length::Cases(cases) => rows.push((call, self.longest_of(cases))),
                Length::None(why) => without.entry(why).or_default().push(call),
            }
        }
        rows.sort_by_key(|(call, longest)| (std::cmp::Reverse(longest.map(|(_, hold)| hold.wait)), *call));
        writeln!(text, "Calls: the longest wait beside one, how long that one took, its case\n")?;
        for (call, longest) in rows {
            match longest {
                Some((case, Hold { wait, lasted, .. })) => writeln!(text, "{wait:>8} {lasted:>10}  {call:<28} {case}")?,
                None => writeln!(text, "{:>8} {:>10}  {call:<28} not measured", "-", "-")?,
            }
        }
        writeln!(text, "\nCalls that have no length, and why\n")?;
        for (why, calls) in without {
            writeln!(text, "{why}: {}", calls.join(", "))?;
        }
        writeln!(text, "\nCases: the longest wait beside each piece of work, how long that took\n")?;
        for (case, holds) in &self.holds {
            for Hold { kind, wait, lasted } in holds {
                writeln!(text, "{wait:>8} {lasted:>10}  {case:<28} {kind}")?;
            }
        }
        Ok(())
    }
}

/// Measures, prints the tables, and writes them to the tree if requested; returns whether all cases passed.
///
/// # Errors
/// Something does not build or boot, or the file cannot be written.
pub fn measure(paths: &Paths, accept: bool) -> Result<bool> {
    let ui = Ui::new(false);
    setup::for_booting(&ui)?;
    let built = xtask_build::build(paths, &ui, BuildOptions { tests: true, ..BuildOptions::default() })?;
    let run = |cases: &[String]| -> Result<xtask_conformance::Results> {
        let program = Program::new("/boot/bin/holds", Accel::Counting);
        let results = xtask_conformance::run_group(&built, program, "holds", cases)?;
        results.broken.as_ref().map_or(Ok(()), |why| bail!("the program did not come to its end: {why}"))?;
        Ok(results)
    };
    let step = ui.step("measuring");
    let mut said = HoldsReport::default();
    let results = run(&["holds.".to_owned()])?;
    said.read(&results.said);
    let known = std::mem::take(&mut said.known);
    if !known.is_empty() {
        said.read(&run(&known)?.said);
    }
    drop(step);
    let tables = said.tables();
    print!("{tables}");
    let mut passed = true;
    for (case, detail) in results.cases {
        if let Some(detail) = detail {
            println!("failed: {case}: {detail}");
            passed = false;
        }
    }
    if accept {
        let memory = xtask_conformance::MEMORY >> 20;
        let head = format!(
            "# ./hafnon bench holds --accept\n\
             # of {}, seL4 5.0.0 with the patches there, QEMU TCG, one processor, {memory} MiB, -icount shift=0,sleep=off\n\
             # Microseconds, each of a thousand instructions. A thread that comes before all others sleeps for 50 at a time: how much\n\
             # too late it wakes at most while a call does the most that it can be given, and how long all of that took.\n\n",
            commit(paths)
        );
        let file = paths.workspace.join(FILE);
        fs::write(&file, head + &tables).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_from_the_programs_output() {
        let mut said = HoldsReport::default();
        said.read(
            "hold read read: 110 of 4000 us\nhold read read: 120 of 4000 us\nhold map map: 30 of 90 us\nhold map map-over: 300 of 900 us\n\
             call vmar_map map read\ncall vmo_read read\ncall nanosleep - it waits\ncall vmo_write nothing\nknown holds.x\nanything else\n",
        );
        assert_eq!(said.longest("map").map(|hold| hold.wait), Some(300));
        assert_eq!(said.known, ["holds.x"]);
        let tables = said.tables();
        let rows: Vec<Vec<&str>> = tables.lines().map(|line| line.split_whitespace().collect()).collect();
        assert!(rows.contains(&vec!["300", "900", "vmar_map", "map"]));
        assert!(rows.contains(&vec!["120", "4000", "vmo_read", "read"]));
        assert_eq!(rows.iter().filter(|row| row.ends_with(&["read", "read"])).count(), 1, "each once");
        assert!(rows.contains(&vec!["-", "-", "vmo_write", "not", "measured"]));
        assert!(tables.contains("it waits: nanosleep\n"));
        assert!(tables.find("vmar_map") < tables.find("vmo_read"));
    }
}
