//! The options of `bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use xtask_run::args::AccelArg;

/// Options of `bench`.
#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BenchArgs {
    /// Something else to measure.
    #[command(subcommand)]
    pub other: Option<Bench>,
    /// Only operations whose name begins with one of these.
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// List the operations and measure none.
    #[arg(long)]
    pub list: bool,
    /// Also write the figures to this file as JSON: a list of records.
    #[arg(long, value_name = "FILE", conflicts_with = "list")]
    pub json: Option<PathBuf>,
    /// Measure bulk transfers, by the wall clock, against a plain copy.
    #[arg(long, conflicts_with_all = ["list", "names", "accept"])]
    pub clock: bool,
    /// Also boot Debian's Linux kernel in the same machine, with the same work in C, and add its column. The kernel is
    /// fetched by apt, not installed.
    #[arg(long, conflicts_with_all = ["list", "clock"])]
    pub peers: bool,
    /// Measure all of them, write the figures to the tree, where the test `bench.guard` finds them, and regenerate the
    /// page and the drawings.
    #[arg(long, conflicts_with_all = ["list", "names"])]
    pub accept: bool,
}

/// What else to measure.
#[derive(Clone, Debug, Subcommand)]
pub enum Bench {
    /// Wall clock from QEMU's start to the first line of `hello`.
    Boot {
        /// How often to boot.
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
        runs: u32,
        /// Also write the figures to this file as JSON.
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
        /// How the guest's instructions are executed.
        #[arg(long, value_enum, default_value_t = AccelArg::Tcg)]
        accel: AccelArg,
    },
    /// How long file operations take, by the wall clock: on the disk with ext4 and with FAT, and in memory, compared
    /// with the raw disk and with the host's own file system.
    Disk {
        /// Also write the figures to this file as JSON.
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
        /// Draw them into this file.
        #[arg(long, value_name = "FILE")]
        svg: Option<PathBuf>,
    },
    /// What operations cost on Linux as a program, in instructions, beside Debian's own kernel in the same machine.
    Linux {
        /// Also write the figures to this file as JSON.
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
    /// What the network costs, in instructions, over the loop and over the card.
    Network(NetworkArgs),
    /// What a frame from guest to guest costs in the switch, in instructions, in each of its modes.
    Switch {
        /// Instead, what a bulk transfer over TCP from a Linux to another costs the whole machine, in each of the modes.
        #[arg(long)]
        linux: bool,
        /// Also write the figures to this file as JSON.
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
    /// How long builds take, by the wall clock: everything from scratch, and after a change of one line.
    Build {
        /// Also write the figures to this file as JSON.
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
    /// How long each call with maximal arguments keeps others from being served, in instructions.
    ///
    /// The exit code is 1 if a call takes longer than allowed.
    Holds {
        /// Write the table to the tree (docs/measurements/holds.txt).
        #[arg(long)]
        accept: bool,
    },
    /// What operations cost, in instructions, as a function of the number of objects.
    ///
    /// The exit code is 1 if an operation costs more than 1.5 times as much with many as with few.
    Scale {
        /// Only these series: handles, waits, channels, queues, threads, processes.
        series: Vec<String>,
        /// Also write the figures to this file as JSON.
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
    /// What memory costs, in instructions: committing, copying, mapping, faults, reads and writes.
    Memory {
        /// Only these series: commit, copies, mappings, faults, transfer.
        series: Vec<String>,
        /// Also write the figures to this file as JSON.
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
}

/// Options of `bench network`.
#[derive(Clone, Debug, Args)]
pub struct NetworkArgs {
    /// Only operations whose name begins with one of these.
    pub names: Vec<String>,
    /// Also measure Debian's kernel in the same machine, with the same program.
    #[arg(long)]
    pub peers: bool,
    /// How busy the processor is while frames come in at 180 to 900 Mb/s.
    #[arg(long, conflicts_with_all = ["names", "pcap"])]
    pub steps: bool,
    /// Also write the figures to this file as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the frames of the card to this file.
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
}
