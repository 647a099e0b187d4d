//! Bombs in the booted system: programs that create objects of one kind without end, each next to a neighbour:
//! `tests/hostile`.
//!
//! Each test prints which percentage of its speed the neighbour keeps, whether that is enough or not.

use anyhow::Result;

use super::{Cases, Context, Test};
use xtask_run::args::Accel;

/// The kinds of objects: the names of the program's cases.
const KINDS: [&str; 39] = [
    "channel",
    "clock",
    "copy",
    "counter",
    "datagram",
    "eventpair",
    "exception",
    "fifo",
    "forced",
    "fork",
    "futex",
    "handle",
    "iob",
    "job",
    "jobs_computing",
    "log",
    "mapping",
    "message",
    "packet",
    "page_table",
    "pager_ended",
    "pager_vmo",
    "region",
    "shown",
    "socket",
    "split",
    "stream",
    "supplied",
    "thread",
    "threads_calling",
    "threads_computing",
    "timer",
    "vmo",
    "wait_async",
    "wait_many",
    "window",
    "zeroed",
    "zeroed_copy",
    "zeroes",
];

/// A test for each of them, in a separate machine that counts instructions, so that other work of the host does not
/// affect the neighbour's speed.
pub fn tests() -> Vec<Test> {
    let test = |kind| Test::many(format!("hostile.bombs.{kind}"), move |context, cases| run(context, cases, kind));
    KINDS.into_iter().map(test).collect()
}

fn run(context: &Context<'_>, cases: &mut Cases, kind: &str) -> Result<()> {
    let built = context.built_with_tests()?;
    let case = format!("bombs.{kind}.");
    let program = xtask_conformance::Program::new("/boot/bin/bombs", Accel::Counting);
    let group = xtask_conformance::run_group(built, program, "bombs", &[case])?;
    group.said.lines().filter(|line| line.starts_with("rate ")).for_each(|line| cases.note(line));
    group.cases.into_iter().for_each(|(case, detail)| cases.case(&case, detail.map_or(Ok(()), Err)));
    group.broken.map_or(Ok(()), |why| Err(anyhow::anyhow!(why)))
}
