//! The table of results: printed, and written as a page of the documentation.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::verdict::{Failure, Verdict, percentage};
use xtask_common::words::{self, tail};

/// The required percentage of passes: of all cases, and of each package's cases.
const ALL: f64 = 95.0;
const EACH: f64 = 80.0;

/// The header of the table.
pub const HEAD: &str = "package             version    cases  passed  failed  ignored  host  compiled     pass    time";

/// One package's line.
pub fn line(verdict: &Verdict) -> String {
    let (passed, failed) = (verdict.passed, verdict.failed());
    let host: usize = verdict.host.iter().map(|failure| failure.count).sum();
    format!(
        "{:<18}  {:<8}  {:>6}  {passed:>6}  {failed:>6}  {:>7}  {host:>4}  {:>8}  {:>5.1} %  {:>4.0} s",
        verdict.record.name,
        verdict.record.version,
        passed + failed,
        verdict.ignored,
        verdict.compiled,
        verdict.percentage(),
        verdict.record.seconds,
    )
}

/// Prints the failures and the totals; returns whether the results are good enough.
pub fn finish(verdicts: &[Verdict], time: Duration) -> bool {
    println!();
    for verdict in verdicts {
        let name = &verdict.record.name;
        for failure in &verdict.failures {
            println!("FAILED  {name}: {}{}", words::visible(&failure.name), times(failure));
            match &failure.reason {
                Some(reason) => println!("        {reason}"),
                None => {
                    println!("        no reason is listed in xtask/test/packages/reasons.toml; it said:");
                    let said = tail(failure.said.trim(), 12);
                    said.lines().for_each(|line| println!("        | {}", words::visible(line)));
                }
            }
        }
        for failure in &verdict.host {
            println!("host    {name}: {}{}", failure.name, times(failure));
            println!("        {}", failure.reason.as_deref().unwrap_or_default());
        }
        for case in &verdict.surprises {
            println!("passes  {name}: {case}\n        although reasons.toml has a reason for it to fail");
        }
        if !verdict.compared {
            println!(
                "note    {name}: what the host runs of it is not known; `./hafnon test ecosystem --host {name}` records it"
            );
        }
    }
    let passed: usize = verdicts.iter().map(|verdict| verdict.passed).sum();
    let failed: usize = verdicts.iter().map(Verdict::failed).sum();
    let unexplained: usize = verdicts.iter().filter(|verdict| !verdict.explained()).count();
    let low: Vec<&str> =
        verdicts.iter().filter(|v| v.percentage() < EACH).map(|verdict| verdict.record.name.as_str()).collect();
    let fine = unexplained == 0 && low.is_empty() && percentage(passed, failed) >= ALL;
    println!(
        "{:.2} % of {} cases in {} packages ({} s); {ALL} % are wanted, and {EACH} % of each: {}",
        percentage(passed, failed),
        passed + failed,
        verdicts.len(),
        time.as_secs(),
        if fine { "reached" } else { "NOT reached" }
    );
    if !low.is_empty() {
        println!("below {EACH} %: {}", low.join(", "));
    }
    if unexplained > 0 {
        println!("{unexplained} packages have failures without a listed reason");
    }
    println!("{passed} passed, {failed} failed");
    fine
}

fn times(failure: &Failure) -> String {
    if failure.count == 1 { String::new() } else { format!(" ({} cases)", failure.count) }
}

const PAGE: &str = include_str!("page.md");

/// Writes the page: the text of `page.md`, then the table and the failures.
///
/// # Errors
/// It cannot be written.
pub fn write_page(file: &Path, verdicts: &[Verdict]) -> Result<()> {
    let mut page = PAGE.to_owned();
    page.push_str("\n| package | version | cases | passed | failed | ignored | host | compiled | pass | time |\n");
    page.push_str("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|\n");
    for verdict in verdicts {
        let (passed, failed) = (verdict.passed, verdict.failed());
        let host: usize = verdict.host.iter().map(|failure| failure.count).sum();
        writeln!(
            page,
            "| {} | {} | {} | {passed} | {failed} | {} | {host} | {} | {:.1} % | {:.0} s |",
            verdict.record.name,
            verdict.record.version,
            passed + failed,
            verdict.ignored,
            verdict.compiled,
            verdict.percentage(),
            verdict.record.seconds
        )?;
    }
    let passed: usize = verdicts.iter().map(|verdict| verdict.passed).sum();
    let failed: usize = verdicts.iter().map(Verdict::failed).sum();
    writeln!(
        page,
        "| all | | {} | {passed} | {failed} | | | | {:.2} % | |",
        passed + failed,
        percentage(passed, failed)
    )?;
    for (title, host) in [("## What fails, and why", false), ("## What needs the host", true)] {
        let list = |verdict: &Verdict| if host { verdict.host.clone() } else { verdict.failures.clone() };
        if verdicts.iter().all(|verdict| list(verdict).is_empty()) {
            continue;
        }
        writeln!(page, "\n{title}\n\n| package | case | reason |\n|---|---|---|")?;
        for verdict in verdicts {
            for failure in list(verdict) {
                let reason = failure.reason.as_deref().unwrap_or("unknown");
                writeln!(page, "| {} | `{}`{} | {reason} |", verdict.record.name, failure.name, times(&failure))?;
            }
        }
    }
    fs::write(file, page).with_context(|| format!("cannot write {}", file.display()))
}
