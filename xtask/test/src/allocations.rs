//! Makes every allocation fail once: the program `allocations` of `tests/hostile`.

use anyhow::Result;

use super::hostile::program;
use super::{Cases, Context, Test};

/// With `all`, each memory request fails once; otherwise, of frequent ones, only every n-th. Other values are prefixes
/// of the cases to run.
const VARIABLE: &str = "HAFNON_ALLOCATIONS";
/// The scenes that the program runs.
const SCENES: [&str; 12] = [
    "exceptions",
    "handles",
    "large",
    "mappings",
    "memory",
    "messages",
    "objects",
    "pagers",
    "processes",
    "programs",
    "threads",
    "waits",
];

/// All of them.
pub fn tests() -> Vec<Test> {
    vec![Test::many("hostile.allocations", allocations)]
}

fn allocations(context: &Context<'_>, cases: &mut Cases) -> Result<()> {
    let mut run = |names: &str| program(context, cases, "allocations", &["--timeout", "500000", names], None).map(drop);
    match std::env::var(VARIABLE).as_deref() {
        Ok("all") => SCENES.iter().try_for_each(|scene| run(&format!("every-allocation.{scene}."))),
        Ok(names) => run(names),
        Err(_) => run("allocations."),
    }
}
