//! The command line: every command. The options of a command are beside the code that carries it out.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use xtask_bench::args::BenchArgs;
use xtask_conformance::coverage::CoverageArgs;
use xtask_run::args::{CargoArgs, DiskCommand, LinuxArgs, RunArgs};
use xtask_test::args::{FuzzArgs, FuzzHostArgs, MiriArgs, TestArgs};

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
    Run(Box<RunArgs>),
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
    /// Links C programs with NetBSD's rump kernel, which the user brings as a prefix (docs/rump.md).
    Rump {
        /// What to do.
        #[command(subcommand)]
        what: RumpCommand,
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
    /// Runs rustc; for `hafnon cargo`'s cargo to call.
    #[command(hide = true, disable_help_flag = true, disable_version_flag = true)]
    Rustc {
        /// rustc, and its arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<std::ffi::OsString>,
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

/// What to do with a rump kernel.
#[derive(Debug, Subcommand)]
pub enum RumpCommand {
    /// Tells what a prefix is and which components it has; the exit code is 1 if no program can be linked with it.
    Check {
        /// The folder that buildrump.sh, rumprun's build or NetBSD's own build filled.
        prefix: PathBuf,
    },
    /// Compiles and links C programs with a rump kernel: as `cc`, with the kernel's headers and the chosen components.
    Cc {
        /// The folder that buildrump.sh, rumprun's build or NetBSD's own build filled [default: $RUMP_PREFIX].
        #[arg(long, value_name = "FOLDER")]
        prefix: Option<PathBuf>,
        /// Components by name; those that they need come with them. `check` lists the names.
        #[arg(short = 'l', long, value_name = "NAMES", value_delimiter = ',')]
        components: Vec<String>,
        /// Sources, and further arguments of clang.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        args: Vec<std::ffi::OsString>,
    },
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
    fn a_programs_options_are_its_own() {
        let cli = Cli::try_parse_from(["hafnon", "run", "--mem", "1G", "hello", "-v", "--timeout", "x"]).unwrap();
        let Command::Run(run) = cli.command else { panic!("not `run`") };
        assert_eq!((run.mem, run.verbose, run.timeout), (1 << 30, false, None));
        assert_eq!(run.program, ["hello", "-v", "--timeout", "x"]);
        assert!(Cli::try_parse_from(["hafnon", "run", "--colour", "hello"]).is_err());
    }

    #[test]
    fn clangs_options_are_its_own() {
        let words = ["hafnon", "rump", "cc", "--prefix", "p", "-l", "tmpfs,net", "-l", "inet", "a.c", "-o", "a", "-lm"];
        let Command::Rump { what: RumpCommand::Cc { prefix, components, args } } =
            Cli::try_parse_from(words).unwrap().command
        else {
            panic!("not `rump cc`")
        };
        assert_eq!((prefix, components.join(" ")), (Some("p".into()), "tmpfs net inet".into()));
        assert_eq!(args, ["a.c", "-o", "a", "-lm"]);
    }

    #[test]
    fn cargos_options_are_its_own() {
        let cli = Cli::try_parse_from(["hafnon", "cargo", "test", "--release", "--", "--help"]).unwrap();
        let Command::Cargo(cargo) = cli.command else { panic!("not `cargo`") };
        assert_eq!(cargo.args, ["test", "--release", "--", "--help"]);
    }
}
