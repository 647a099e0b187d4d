//! The options of `test`, `fuzz`, `fuzz-host` and `miri`.

use clap::Args;

/// Options of `test`.
#[derive(Clone, Debug, Args)]
pub struct TestArgs {
    /// Only tests whose name contains this.
    pub filter: Option<String>,
    /// For the test `conformance`: only cases whose name begins with one of these, such as `channel.call.`. For `rust`:
    /// only these suites: coretests, alloctests, std. For `ecosystem`: only these packages.
    pub cases: Vec<String>,
    /// List the tests and run none.
    #[arg(long)]
    pub list: bool,
    /// For `ecosystem`: keep the results of an earlier run with the same tree, and run only the rest.
    #[arg(long = "continue")]
    pub resume: bool,
    /// For `ecosystem`: run the suites on the host, and record the number of cases. For `rust`: run on the host, for
    /// comparison.
    #[arg(long)]
    pub host: bool,
    /// For `ecosystem`: resolve the dependencies of the packages' tests anew, and record them.
    #[arg(long)]
    pub lock: bool,
    /// For `ecosystem`: run the suite of any package of the registry.
    #[arg(long, value_name = "NAME[@VERSION]")]
    pub any: Option<String>,
    /// For `mutations`: how many faults to try.
    #[arg(long, value_name = "N", default_value_t = 300)]
    pub count: usize,
    /// For `mutations`: only faults in files whose path contains this.
    #[arg(long, value_name = "PART")]
    pub file: Option<String>,
    /// For `mutations`: only the faults that survived the last run.
    #[arg(long)]
    pub again: bool,
    /// For `mutations`: only the fault of this number.
    #[arg(long, value_name = "N")]
    pub only: Option<u32>,
    /// For `vproc.random` and `kernel.random`: how many steps.
    #[arg(long, value_name = "N", default_value_t = 30_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub steps: u64,
    /// For `disk.cuts`: how many operations are replayed with a power cut at each of their writes.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub cuts: Option<u64>,
    /// Run for hours to be sure, and also the tests that take too long otherwise (docs/testing.md lists them).
    #[arg(long)]
    pub all: bool,
    /// For `vproc.random`, `kernel.random` and `disk.`: the seed of all random numbers.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Finally print how long each test took, the longest first.
    #[arg(long)]
    pub times: bool,
    /// Also show the output of tests that pass.
    #[arg(short, long)]
    pub verbose: bool,
}

/// Options of `fuzz`.
#[derive(Clone, Debug, Args)]
pub struct FuzzArgs {
    /// How many calls.
    #[arg(long, value_name = "N", default_value_t = 500_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub calls: u64,
    /// Make this many requests of hostile clients to all services instead.
    #[arg(long, value_name = "N", conflicts_with = "calls", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub requests: Option<u64>,
    /// The seed of all random numbers; a new one each time unless it is given.
    #[arg(long, value_name = "S")]
    pub seed: Option<u64>,
}

/// Options of `fuzz-host`.
#[derive(Clone, Debug, Args)]
pub struct FuzzHostArgs {
    /// bootfs, calls, description, elf, network or processargs; all of them unless one is given.
    pub target: Option<String>,
    /// How long each target runs.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub seconds: u32,
}

/// Options of `miri`.
#[derive(Clone, Debug, Args)]
pub struct MiriArgs {
    /// Only tests with this in their names.
    pub filter: Option<String>,
    /// Run all tests, which takes hours, not only the quick ones.
    #[arg(long)]
    pub all: bool,
}
