//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Runs ordinary programs on the seL4 microkernel.
#[derive(Debug, Parser)]
#[command(name = "hafnon", bin_name = "./hafnon", version, disable_help_subcommand = false)]
pub struct Cli {
    /// Set up what is missing without asking.
    #[arg(long, global = true)]
    pub yes: bool,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Boots the system: a short tour, or the program named.
    ///
    /// Without PROGRAM a few demonstration programs run, each saying what it shows; on a terminal, a shell inside the
    /// system follows. With PROGRAM, its output, input and exit code are this command's.
    ///
    /// Exit codes of our own: 124 the time limit of --timeout expired, 125 the system or this tool failed, 126 the file
    /// is not a program for the system, 127 there is no such program. A program that dies of an exception gives 134,
    /// one that was killed 137.
    ///
    /// Ctrl-C (SIGINT) kills the program: 137. A second one within two seconds ends the machine: 130. SIGTERM ends the
    /// machine: 143, SIGHUP: 129; so does standard output that is closed: 141. A machine that ends in one of these
    /// ways, or by --timeout, has 10 seconds to write its data to its disk; another signal ends it at once.
    Run(RunArgs),
    /// Builds everything that `run` boots.
    Build {
        /// Build the debug kernel too.
        #[arg(long)]
        debug: bool,
        /// Show the compilers' output.
        #[arg(short, long)]
        verbose: bool,
    },
    /// Boots the system and, as a program in it, a current Linux, built from Debian's source package.
    ///
    /// Without COMMAND a shell (Debian's busybox) has the terminal. With COMMAND, its input, output and exit code are
    /// this command's. The first run fetches and builds Linux: some six minutes of
    /// processor time. A kernel panic gives 1; the other exit codes are those of `run`.
    Linux(LinuxArgs),
    /// Creates disks for `run --disk`, and writes and reads them on the host: no superuser, nothing mounted.
    Disk {
        /// What to do.
        #[command(subcommand)]
        what: DiskCommand,
    },
    /// Runs cargo for the system, in any crate's folder.
    ///
    /// Target, libraries and runner are set, so that `cargo run` and `cargo test` run inside the system.
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Cargo(CargoArgs),
    /// Builds programs of packages from the registry; `run` and the shell find them by name, in /boot/bin.
    ///
    /// Takes the arguments of `cargo install`: CRATE@VERSION, --features, --path, --list and so on. The package's own
    /// lock file is used (--locked).
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Install {
        /// The arguments of `cargo install`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
        args: Vec<std::ffi::OsString>,
    },
    /// Removes programs that `install` built; takes the arguments of `cargo uninstall`.
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Uninstall {
        /// The arguments of `cargo uninstall`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
        args: Vec<std::ffi::OsString>,
    },
    /// Compiles and links C programs for the system: clang, with target, headers and libraries set.
    ///
    /// Takes clang's arguments. For configure, make and other builds that want a compiler of one word there is
    /// target/hafnon/sysroot/bin/x86_64-unknown-fuchsia-clang, with -ar, -ranlib and so on next to it.
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Cc {
        /// Clang's arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<std::ffi::OsString>,
    },
    /// Runs a program that cargo built; for `cargo` to call.
    #[command(hide = true, disable_help_flag = true, disable_version_flag = true)]
    Runner {
        /// The program.
        program: std::ffi::OsString,
        /// Its arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Runs the project's tests; the last line is `N passed, M failed`.
    ///
    /// `test conformance PREFIX...` runs the conformance cases with these prefixes. Three tests run only when named:
    /// `test mutations` puts small faults into the system and reports how many of them a conformance case catches;
    /// `test rust [SUITE...]` runs the tests of Rust's own library and prints how many pass;
    /// `test ecosystem [PACKAGE...]` runs the test suites of packages from the registry.
    Test(TestArgs),
    /// Runs hostile programs in the system that make random calls, while others check their own results.
    ///
    /// The exit code is 0 only if the system survives, every call was made, enough of them succeeded, the other
    /// programs noticed nothing, and all resources were freed. A run with the same seed is repeated exactly.
    Fuzz(FuzzArgs),
    /// Runs the parsers of untrusted bytes (ELF, BOOTFS, start messages, descriptions, calls) under libFuzzer on the
    /// host.
    FuzzHost(FuzzHostArgs),
    /// Runs the objects' tests under Miri, which detects undefined behaviour.
    Miri(MiriArgs),
    /// Counts the lines of code that must be right for programs to be safe from each other, by part.
    TrustedBase,
    /// Counts the implemented system calls, and the names of Zircon's own cases that have a passing case here.
    ///
    /// Counts the results of the last conformance run; if there was none, all cases are run. The exit code is 1 if the
    /// table of names (tests/conformance/core-tests.toml) has errors.
    Coverage(CoverageArgs),
    /// Writes the generated pages: docs/compatibility.md and a reference page for each system call from their
    /// definitions, docs/std.md from the table of the example `std`, the table of docs/performance.md and the drawings
    /// from the figures in docs/measurements.
    Docs {
        /// The folder of the reference pages [default: target/hafnon/reference].
        folder: Option<PathBuf>,
    },
    /// Measures what operations cost, in instructions of the guest.
    ///
    /// NAME is the beginning of an operation's name, such as `channel_`; without one all are measured. `bench boot`,
    /// `bench memory` and `bench scale` measure other things.
    Bench(BenchArgs),
    /// Reports what is there and what is missing for building and booting; installs nothing.
    Doctor,
}

/// What to do with a disk.
#[derive(Clone, Debug, Subcommand)]
pub enum DiskCommand {
    /// Creates an image with an empty file system.
    New {
        /// The image's file, which must not exist.
        image: PathBuf,
        /// Its size, in MiB or with K, M or G.
        #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = parse_size)]
        size: u64,
        /// Use FAT, which every other system can read, instead of ext4, which stores links and permissions.
        #[arg(long)]
        fat: bool,
    },
    /// Lists a folder, with sizes in bytes.
    Ls {
        /// The image's file.
        image: PathBuf,
        /// The folder.
        #[arg(default_value = "/")]
        path: String,
    },
    /// Copies a file or a folder onto the disk.
    Put {
        /// The image's file.
        image: PathBuf,
        /// The source.
        from: PathBuf,
        /// The destination: a folder, or a new name.
        #[arg(default_value = "/")]
        to: String,
    },
    /// Copies a file or a folder from the disk.
    Get {
        /// The image's file.
        image: PathBuf,
        /// The source.
        from: String,
        /// The destination: a folder, or a new name.
        #[arg(default_value = ".")]
        to: PathBuf,
    },
    /// Checks the file system: with e2fsck or fsck.vfat if they are installed, and by reading all of it. The exit code
    /// is 1 if it has errors.
    Check {
        /// The image's file.
        image: PathBuf,
    },
}

/// Options of `run`.
#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// Show the boot messages (on standard error).
    #[arg(short, long)]
    pub verbose: bool,
    /// Memory of the machine, in MiB or with K, M or G.
    #[arg(long, value_name = "SIZE", default_value = "512M", value_parser = parse_size)]
    pub mem: u64,
    /// End the machine after this many seconds; the exit code is then 124.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub timeout: Option<f64>,
    /// Boot the debug kernel, which checks assertions and prints messages.
    #[arg(long)]
    pub debug: bool,
    /// Wait for gdb on a TCP port before the first instruction; the port is 1234 unless another is given
    /// (`--gdb=4321`).
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true, default_missing_value = "1234")]
    pub gdb: Option<u16>,
    /// Leave backtraces as programs print them, as markup without names.
    #[arg(long)]
    pub raw_backtraces: bool,
    /// Show the system calls of the program and of its children, on standard error; with
    /// `--trace=channel,port,zx_vmo_create`, only those of these nouns or names.
    #[arg(long, value_name = "CALLS", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub trace: Option<String>,
    /// Write the system calls to this file instead.
    #[arg(long, value_name = "FILE")]
    pub trace_output: Option<PathBuf>,
    /// Write the system calls to a file that Perfetto opens (ui.perfetto.dev).
    #[arg(long, value_name = "FILE")]
    pub trace_file: Option<PathBuf>,
    /// How the guest's instructions are executed.
    #[arg(long, value_enum, default_value_t = Accel::Tcg)]
    pub accel: Accel,
    /// Give the machine a disk: a file of whole blocks of 512 bytes, which programs inside reach as the service `disk`.
    #[arg(long, value_name = "FILE")]
    pub disk: Option<PathBuf>,
    /// Include the files of this folder: they are in /boot/files, read-only. Links to files become files, links to
    /// folders are left out.
    #[arg(long, value_name = "FOLDER")]
    pub files: Option<PathBuf>,
    /// Boot the instances of this file instead of those of system.toml; its instance `main` runs the program.
    #[arg(long, value_name = "FILE")]
    pub system: Option<PathBuf>,
    /// Set a variable in the program's environment; may be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_variable)]
    pub env: Vec<(String, String)>,
    /// The program and its arguments: path of an ELF file for x86_64-unknown-fuchsia, or the name of a built-in
    /// program.
    #[arg(trailing_var_arg = true, value_names = ["PROGRAM", "ARGS"], num_args = 0..)]
    pub program: Vec<String>,
}

impl RunArgs {
    /// Only defaults, and this much memory in bytes.
    pub fn with_memory(memory: Option<u64>) -> RunArgs {
        RunArgs {
            verbose: false,
            mem: memory.unwrap_or(512 << 20),
            timeout: None,
            debug: false,
            gdb: None,
            raw_backtraces: false,
            trace: None,
            trace_output: None,
            trace_file: None,
            accel: Accel::Tcg,
            disk: None,
            files: None,
            system: None,
            env: Vec::new(),
            program: Vec::new(),
        }
    }
}

/// Options of `linux`.
#[derive(Clone, Debug, Args)]
pub struct LinuxArgs {
    /// Show the boot messages of the system and of Linux (on standard error).
    #[arg(short, long)]
    pub verbose: bool,
    /// Linux' memory, in MiB or with K, M or G.
    #[arg(long, value_name = "SIZE", default_value = "128M", value_parser = parse_size)]
    pub memory: u64,
    /// The initial file system, in the format that Linux takes (cpio), instead of Debian's busybox. COMMAND must be
    /// absent then: the archive's own /init runs.
    #[arg(long, value_name = "FILE", conflicts_with = "command")]
    pub initrd: Option<PathBuf>,
    /// Put a copy of a folder of the host's into the initial file system, at /host. It takes of Linux' memory.
    #[arg(long, value_name = "FOLDER", conflicts_with = "initrd")]
    pub files: Option<PathBuf>,
    /// Options for Linux in addition to ours, separated by blanks.
    #[arg(long, value_name = "ARGS")]
    pub append: Option<String>,
    /// End the machine after this many seconds; the exit code is then 124.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub timeout: Option<f64>,
    /// A program of Linux' and its arguments.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Options of `cargo`.
#[derive(Clone, Debug, Args)]
pub struct CargoArgs {
    /// Memory of the machines that it starts.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub mem: Option<u64>,
    /// End each machine that it starts after this many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub timeout: Option<f64>,
    /// Leave backtraces as programs print them, as markup without names.
    #[arg(long)]
    pub raw_backtraces: bool,
    /// The arguments of cargo.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    pub args: Vec<std::ffi::OsString>,
}

/// How the guest's instructions are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Accel {
    /// QEMU translates them (TCG): works everywhere.
    Tcg,
    /// The processor executes them, through Linux' /dev/kvm.
    Kvm,
    /// QEMU translates them, and each instruction takes a nanosecond of the guest's time: its counters count
    /// instructions.
    Counting,
}

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
    /// For `disk.`: run for hours to be sure: 3000 operations, and the machine killed 100 times.
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
    /// bootfs, calls, description, elf or processargs; all of them unless one is given.
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
        #[arg(long, value_enum, default_value_t = Accel::Tcg)]
        accel: Accel,
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

/// Parses bytes from `512`, `512M`, `2G`, `65536K`; a plain number is in MiB, as for QEMU.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "K" | "KB" | "KIB" => 10,
        "" | "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        unit => return Err(format!("`{unit}` is no unit: K, M or G")),
    };
    let number: u64 = digits.parse().map_err(|_| format!("`{digits}` is no whole number"))?;
    number
        .checked_mul(1 << shift)
        .filter(|&size| size > 0)
        .ok_or_else(|| "the size must be over 0 and below 2^64".into())
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 1e9 => Ok(seconds),
        _ => Err("a number of seconds over 0 is needed".into()),
    }
}

fn parse_variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some(("", _)) => Err("the name before `=` is empty".into()),
        Some((key, value)) if !text.contains('\0') => Ok((key.into(), value.into())),
        _ => Err("KEY=VALUE is needed".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn sizes() {
        assert_eq!(parse_size("512"), Ok(512 << 20));
        assert_eq!(parse_size("64K"), Ok(64 << 10));
        assert_eq!(parse_size("2GiB"), Ok(2 << 30));
        for wrong in ["", "M", "0", "-1", "1.5G", "5T", "99999999999999G"] {
            assert!(parse_size(wrong).is_err(), "{wrong} was taken for a size");
        }
    }

    #[test]
    fn a_programs_options_are_its_own() {
        let cli = Cli::try_parse_from(["hafnon", "run", "--mem", "1G", "hello", "-v", "--timeout", "x"]).unwrap();
        let Command::Run(run) = cli.command else { panic!("not `run`") };
        assert_eq!((run.mem, run.verbose, run.timeout), (1 << 30, false, None));
        assert_eq!(run.program, ["hello", "-v", "--timeout", "x"]);
        assert!(Cli::try_parse_from(["hafnon", "run", "--colour", "hello"]).is_err());
    }

    #[test]
    fn cargos_options_are_its_own() {
        let cli = Cli::try_parse_from(["hafnon", "cargo", "test", "--release", "--", "--help"]).unwrap();
        let Command::Cargo(cargo) = cli.command else { panic!("not `cargo`") };
        assert_eq!(cargo.args, ["test", "--release", "--", "--help"]);
    }
}
