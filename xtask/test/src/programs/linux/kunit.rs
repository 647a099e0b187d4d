//! KUnit: the kernel's own unit tests, in a kernel that is built with them.
//!
//! It runs with `--all`, or when it is named: it builds a second kernel.

use anyhow::{Context as _, Result, bail};
use xtask_run::PATIENCE;
use xtask_run::linux::{self, Guest};

use super::super::{Cases, text};
use crate::args::TestArgs;
use crate::{Context, Test};
use xtask_common::words::tail;
use xtask_run::session::End;

/// All of them.
pub fn tests(args: &TestArgs) -> Vec<Test> {
    if !args.all && !args.filter.as_deref().is_some_and(|filter| filter.starts_with("linux.k")) {
        return Vec::new();
    }
    vec![Test::many("linux.kunit", kunit)]
}

/// The kernel runs its tests before its first program, and reports them in its log.
fn kunit(context: &Context<'_>, cases: &mut Cases) -> Result<()> {
    let linux = linux::made_with(context.paths, &context.ui, Some("kunit"))?;
    let mut guest = Guest::new(&["true"]);
    guest.timeout = Some(PATIENCE);
    guest.append = vec!["loglevel=7".into()];
    let outcome = guest.capture(context.paths, context.built()?, &linux)?;
    let log = text(&outcome.stderr());
    let suites = report(&log).with_context(|| format!("the log ends with\n{}", tail(&log, 20)))?;
    for (name, result) in suites {
        cases.case(&name, result);
    }
    if outcome.end != End::Exit(0) {
        bail!("it ended with {:?}:\n{}", outcome.end, tail(&log, 40));
    }
    Ok(())
}

/// The result of each test: `suite.test`, and the lines of the log before it if it failed. Tests that were skipped are
/// not in it.
fn report(log: &str) -> Result<Vec<(String, Result<(), String>)>> {
    let lines = log.lines().map(|line| line.split_once("] ").map_or(line, |(_, said)| said));
    let (mut suite, mut before, mut found, mut planned) = (String::new(), Vec::new(), Vec::new(), None);
    let mut ended = 0;
    for line in lines {
        let inner = line.trim_start();
        let level = line.len() - inner.len();
        if let (0, Some(plan)) = (level, inner.strip_prefix("1..")) {
            planned = plan.parse::<usize>().ok();
        }
        if let Some(name) = inner.strip_prefix("# Subtest: ") {
            if level == 4 {
                suite = name.to_owned();
            }
            before.clear();
            continue;
        }
        let said = inner.strip_prefix("not ok ").map(|said| (false, said));
        let Some((good, said)) = said.or(inner.strip_prefix("ok ").map(|said| (true, said))) else {
            before.push(inner);
            continue;
        };
        let name = said.split_once(' ').map_or(said, |(_, name)| name);
        match level {
            0 => ended += 1,
            4 if !name.contains("# SKIP") => {
                let result = if good { Ok(()) } else { Err(before.join("\n")) };
                found.push((format!("{suite}.{name}"), result));
            }
            _ => {}
        }
        if level <= 4 {
            before.clear();
        }
    }
    if planned != Some(ended) || found.is_empty() {
        bail!("{ended} suites ended, of {planned:?}");
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
[    0.1] KTAP version 1
[    0.1] 1..2
[    0.1]     KTAP version 1
[    0.1]     # Subtest: list
[    0.1]     # module: list_test
[    0.1]     1..3
[    0.1]     ok 1 add
[    0.1]     # move: EXPECTATION FAILED at list.c:3
[    0.1]     not ok 2 move
[    0.1]     ok 3 rare # SKIP no such machine
[    0.1] # list: pass:1 fail:1 skip:1 total:3
[    0.1] not ok 1 list
[    0.1]     KTAP version 1
[    0.1]     # Subtest: params
[    0.1]     1..1
[    0.1]         KTAP version 1
[    0.1]         # Subtest: each
[    0.1]         ok 1 one
[    0.1]     ok 1 each
[    0.1] ok 2 params
";

    #[test]
    fn the_report_has_each_test_once() {
        let found = report(LOG).unwrap();
        let names: Vec<(&str, bool)> = found.iter().map(|(name, result)| (&**name, result.is_ok())).collect();
        assert_eq!(names, [("list.add", true), ("list.move", false), ("params.each", true)]);
        assert_eq!(found[1].1, Err("# move: EXPECTATION FAILED at list.c:3".into()));
    }

    #[test]
    fn a_report_without_its_end_is_none() {
        assert!(report(LOG.rsplit_once("[    0.1] ok 2").unwrap().0).is_err());
        assert!(report("").is_err());
    }
}
