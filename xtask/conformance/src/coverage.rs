//! `coverage`: the number of implemented calls, and of names of Zircon's own cases that have a passing case here.

use std::collections::BTreeSet;
use std::io::Write;

use anyhow::{Context as _, Result};
use clap::Args;
use serde::Serialize;

use super::table::{Entry, Table, memory_or_devices};
use super::{CaseReport, Record};
use xtask_build::{BuildOptions, build, setup};
use xtask_common::paths::Paths;
use xtask_common::ui::Ui;

/// Options of `coverage`.
#[derive(Clone, Debug, Args)]
pub struct CoverageArgs {
    /// Print the counts as JSON.
    #[arg(long)]
    pub json: bool,
    /// List the names that have no case yet.
    #[arg(long, conflicts_with = "json")]
    pub open: bool,
    /// List the names whose cases did not all pass.
    #[arg(long, conflicts_with = "json")]
    pub failing: bool,
    /// Run all cases first.
    #[arg(long)]
    pub run: bool,
    /// Count lines instead: those of the objects and of the server that the server's tests on the host execute.
    #[arg(long, conflicts_with_all = ["json", "open", "failing", "run"])]
    pub lines: bool,
}

/// Numbers of calls by state of implementation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Calls {
    supported: usize,
    partial: usize,
    unsupported: usize,
}

/// Numbers of names by the kind of their entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Names {
    total: usize,
    /// With a case.
    covered: usize,
    /// All their cases passed.
    passing: usize,
    /// Today's Zircon behaves differently.
    changed: usize,
    excused: usize,
}

impl Names {
    fn add(&mut self, entry: &Entry, record: &Record) {
        self.total += 1;
        self.covered += usize::from(matches!(entry, Entry::Cases(_)));
        self.changed += usize::from(matches!(entry, Entry::Changed { .. }));
        self.excused += usize::from(matches!(entry, Entry::Excused(_)));
        self.passing += usize::from(passes(entry, record));
    }

    fn line(&self, title: &str) -> String {
        let open = self.total - self.covered - self.changed - self.excused;
        format!(
            "{title:<28}{:>6}{:>9}{:>9}{:>9}{:>9}{:>6}{:>8.1} %",
            self.total,
            self.covered,
            self.passing,
            self.changed,
            self.excused,
            open,
            self.passing as f64 * 100.0 / self.total.max(1) as f64
        )
    }
}

#[derive(Serialize)]
struct Json {
    calls: Calls,
    names: Names,
}

fn passes(entry: &Entry, record: &Record) -> bool {
    matches!(entry, Entry::Cases(_)) && all_pass(entry, record)
}

fn all_pass(entry: &Entry, record: &Record) -> bool {
    entry.cases().iter().all(|case| matches!(record.cases.get(case), Some(None)))
}

/// Counts and prints; returns whether the table has no errors.
///
/// # Errors
/// Definitions or table cannot be read, or there is no recorded run and a new one fails.
pub fn coverage(paths: &Paths, args: &CoverageArgs) -> Result<bool> {
    let table = Table::read(paths)?;
    let calls = calls(paths)?;
    let record = match (args.run, Record::read(paths)) {
        (false, Some(record)) => record,
        _ => run(paths)?,
    };
    let mut out = String::new();
    if args.json {
        let names = count(&table, &record, |_| true);
        out = serde_json::to_string(&Json { calls, names }).context("cannot write JSON")? + "\n";
    } else if args.open || args.failing {
        for (suite, name, entry) in table.entries() {
            let failing = args.failing && !entry.cases().is_empty() && !all_pass(entry, &record);
            if (args.open && *entry == Entry::Open) || failing {
                out += &format!("{suite}.{name}\n");
            }
        }
    } else {
        text(&mut out, &table, &record, calls);
    }
    // The reader may have closed the pipe.
    let _ = std::io::stdout().write_all(out.as_bytes());
    let cases: BTreeSet<&str> = record.cases.keys().map(String::as_str).collect();
    let problems = table.problems(&cases);
    let ui = Ui::new(false);
    problems.iter().for_each(|problem| ui.note(&format!("core-tests.toml: {problem}")));
    record.broken.iter().for_each(|(group, why)| {
        ui.note(&format!("the group {group} did not get to its end: {}", why.lines().next().unwrap_or_default()));
    });
    if problems.iter().any(|problem| problem.contains("there is no case")) {
        ui.note(&format!(
            "the cases are those of the last run ({}); where some are newer, `./hafnon coverage --run`",
            record.when()
        ));
    }
    Ok(problems.is_empty())
}

fn text(out: &mut String, table: &Table, record: &Record, calls: Calls) {
    let Calls { supported, partial, unsupported } = calls;
    let all = supported + partial + unsupported;
    *out += &format!("calls: {all}, of them {supported} supported, {partial} in part, {unsupported} not supported\n");
    let failed = record.cases.values().filter(|detail| detail.is_some()).count();
    *out += &format!("cases: {}, of them {failed} failed in the last run ({})\n\n", record.cases.len(), record.when());
    *out += &format!("{:<28}  names  covered  passing  changed  excused  open\n", "suite");
    for suite in table.suites.keys() {
        *out += &count(table, record, |other| other == suite).line(suite);
        out.push('\n');
    }
    out.push('\n');
    *out += &count(table, record, |_| true).line("all");
    *out += "\n";
    *out += &count(table, record, |suite| !memory_or_devices(suite)).line("but for memory and devices");
    *out += "\n";
}

fn count(table: &Table, record: &Record, wanted: impl Fn(&str) -> bool) -> Names {
    let mut names = Names::default();
    table.entries().filter(|(suite, _, _)| wanted(suite)).for_each(|(_, _, entry)| names.add(entry, record));
    names
}

fn calls(paths: &Paths) -> Result<Calls> {
    let mut calls = Calls::default();
    for call in abi_gen::load(paths.workspace.join("abi/syscalls"))? {
        match call.support {
            abi_gen::Support::Supported => calls.supported += 1,
            abi_gen::Support::Partial(_) => calls.partial += 1,
            abi_gen::Support::Unsupported(_) => calls.unsupported += 1,
        }
    }
    Ok(calls)
}

/// Runs all cases; prints failures on standard error.
fn run(paths: &Paths) -> Result<Record> {
    let ui = Ui::new(false);
    setup::for_booting(&ui)?;
    let built = build(paths, &ui, BuildOptions { tests: true, ..BuildOptions::default() })?;
    let mut step = ui.step("running the conformance cases");
    step.activity("listing them");
    Record::run(paths, &built, &[], |news| match news {
        CaseReport::Case(case, None) => step.activity(case),
        CaseReport::Case(case, Some(detail)) => eprintln!("{case} failed: {detail}"),
        CaseReport::Broken(..) => {}
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_passes_if_all_of_its_cases_do() {
        let mut record = Record::default();
        record.cases.insert("a.b.good".into(), None);
        record.cases.insert("a.b.bad".into(), Some("why".into()));
        let cases = |names: &[&str]| Entry::Cases(names.iter().map(ToString::to_string).collect());
        let mut names = Names::default();
        let all = [
            cases(&["a.b.good"]),
            cases(&["a.b.good", "a.b.bad"]),
            cases(&["a.b.none"]),
            Entry::Open,
            Entry::Changed { how: "x".into(), cases: vec!["a.b.good".into()] },
            Entry::Excused("x".into()),
        ];
        all.iter().for_each(|entry| names.add(entry, &record));
        assert_eq!(names, Names { total: 6, covered: 3, passing: 1, changed: 1, excused: 1 });
    }
}
