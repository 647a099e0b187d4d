//! `hafnon cargo`: cargo, for any crate, with the system as its target.
//!
//! Cargo gets the target, the location of the libraries, and this tool as the runner of programs; everything else is
//! the caller's. The runner uses the result of the last build: it is started once for each test binary and
//! documentation test, and must not build in between. All runs except those of `cargo run` share a machine ([`batch`]).

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use std::{env, fs};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::accel;
use crate::args::{Accel, CargoArgs, RunArgs};
use crate::batch::{self, Keeper};
use crate::compiler;
use crate::symbols::Files;
use xtask_build::cargo::{PROGRAM_TARGET, TOOLCHAIN};
use xtask_build::{BuildOptions, Built, c, program_flags, setup};
use xtask_common::paths::{Paths, own_file};
use xtask_common::programs::code;
use xtask_common::size::parse_size;
use xtask_common::threads::Watcher;
use xtask_common::ui::Ui;
use xtask_common::words;

/// The variables that pass `--mem`, `--timeout` and `--raw-backtraces` through cargo to the runner.
const MEMORY: &str = "HAFNON_RUN_MEM";
const TIMEOUT: &str = "HAFNON_RUN_TIMEOUT";
const RAW_BACKTRACES: &str = "HAFNON_RUN_RAW_BACKTRACES";
/// Default memory of a machine for many programs, in bytes.
const MACHINE: u64 = 1 << 30;

/// Runs cargo; returns its exit code.
///
/// # Errors
/// The system does not build, or cargo cannot be started.
pub fn cargo(paths: &Paths, args: &CargoArgs) -> Result<u8> {
    let ui = Ui::new(false);
    setup::for_booting(&ui)?;
    let built = xtask_build::build(paths, &ui, BuildOptions::default())?;
    // A wrong variable is an error before cargo starts; whether KVM works is looked at when a machine is needed.
    accel::wanted(None)?;
    let mut command = command(paths, args)?;
    let keeper = if is_run(args) {
        None
    } else {
        let paths = paths.clone();
        Some(keeper(&built, args, move |built| accel::choose(&paths, &ui, None, built))?)
    };
    if let Some(keeper) = &keeper {
        command.env(batch::SOCKET, keeper.socket());
    }
    let mut child = command.spawn().context("cannot start cargo")?;
    // A Ctrl-C reaches cargo and its runners directly; the machine is ended after them.
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot watch signals")?;
    let (handle, id) = (signals.handle(), child.id());
    // Without this thread a signal would not end cargo, so its failure ends this tool.
    let watcher = Watcher::new(move |failed| {
        words::say(&format!("hafnon: {failed}"));
        std::process::exit(125);
    });
    watcher.start("signals", move || {
        let cargo = i32::try_from(id).ok().and_then(Pid::from_raw);
        for signal in signals.forever().filter(|signal| *signal != SIGINT) {
            let signal = if signal == SIGHUP { Signal::HUP } else { Signal::TERM };
            let _ = cargo.map(|cargo| kill_process(cargo, signal));
        }
    })?;
    let status = child.wait().context("cannot wait for cargo")?;
    handle.close();
    keeper.map_or(Ok(()), |keeper| keeper.check())?;
    Ok(code(status))
}

/// A keeper of a machine for the programs that cargo runs.
///
/// # Errors
/// As [`Keeper::start`].
pub fn keeper(
    built: &Built,
    args: &CargoArgs,
    choose: impl Fn(&mut Built) -> Result<Accel> + Send + 'static,
) -> Result<Keeper> {
    Keeper::start(built, args.mem.unwrap_or(MACHINE), choose)
}

/// Whether this is `cargo run`: one program, which gets its own machine with all features of `run`.
fn is_run(args: &CargoArgs) -> bool {
    let subcommand = args.args.iter().filter_map(|arg| arg.to_str()).find(|arg| !arg.starts_with(['-', '+']));
    matches!(subcommand, Some("run" | "r"))
}

/// Cargo with everything set.
///
/// # Errors
/// This tool's own path is unknown.
pub fn command(paths: &Paths, args: &CargoArgs) -> Result<Command> {
    let mut command = Command::new("cargo");
    command
        .env("RUSTUP_TOOLCHAIN", TOOLCHAIN)
        .env("CARGO_BUILD_TARGET", PROGRAM_TARGET)
        .env("HAFNON_ROOT", &paths.workspace);
    // A list, so that a path with a blank is one word.
    let tool = own_file()?;
    let runner = format!("target.{PROGRAM_TARGET}.runner=[{},'runner']", toml_string(&tool.to_string_lossy()));
    let mut settings: Vec<OsString> = vec!["--config".into(), runner.into()];
    // Flags in the environment override those in files, so ours are added where the caller's are.
    let flags = [program_flags(paths), compiler::set(paths, &mut command)?];
    let ours = flags.join(OsStr::new("\u{1f}"));
    let joined = |theirs: OsString, separator: &str| {
        let mut all = theirs;
        if !all.is_empty() {
            all.push(separator);
        }
        all.push(&ours);
        all
    };
    if let Some(theirs) = env::var_os("CARGO_ENCODED_RUSTFLAGS") {
        command.env("CARGO_ENCODED_RUSTFLAGS", joined(theirs, "\u{1f}"));
    } else if let Some(theirs) = env::var_os("RUSTFLAGS") {
        let theirs = theirs.to_string_lossy().split_whitespace().collect::<Vec<_>>().join("\u{1f}");
        command.env_remove("RUSTFLAGS").env("CARGO_ENCODED_RUSTFLAGS", joined(theirs.into(), "\u{1f}"));
    } else {
        let flags = flags.map(|flag| toml_string(&flag.to_string_lossy())).join(",");
        let flags = format!("target.{PROGRAM_TARGET}.rustflags=[{flags}]");
        settings.extend(["--config".into(), flags.into()]);
    }
    for (variable, tool) in c::front::variables(paths) {
        if env::var_os(&variable).is_none() {
            command.env(variable, tool);
        }
    }
    let theirs = env::var_os("CARGO_ENCODED_RUSTDOCFLAGS").or_else(|| {
        let flags = env::var("RUSTDOCFLAGS").ok()?;
        Some(flags.split_whitespace().collect::<Vec<_>>().join("\u{1f}").into())
    });
    command.env("CARGO_ENCODED_RUSTDOCFLAGS", joined(theirs.unwrap_or_default(), "\u{1f}"));
    if let Some(memory) = args.mem {
        command.env(MEMORY, format!("{}K", memory / 1024));
    }
    if let Some(timeout) = args.timeout {
        command.env(TIMEOUT, timeout.to_string());
    }
    if args.raw_backtraces {
        command.env(RAW_BACKTRACES, "1");
    }
    command.args(with_settings(&args.args, settings));
    Ok(command)
}

/// The caller's arguments with our settings. Cargo ignores a `--config` before its subcommand if another one follows it,
/// so ours stand next to the caller's.
fn with_settings(args: &[OsString], settings: Vec<OsString>) -> Vec<OsString> {
    let is_config = |arg: &OsString| arg.to_string_lossy().split('=').next() == Some("--config");
    let theirs = args.iter().take_while(|arg| *arg != "--").position(is_config).unwrap_or(0);
    let mut all = args.to_vec();
    all.splice(theirs..theirs, settings);
    all
}

/// Runs a program that cargo built; returns its exit code.
///
/// # Errors
/// As [`crate::run`].
pub fn runner(paths: &Paths, program: OsString, args: Vec<String>) -> Result<u8> {
    let built = xtask_build::last(paths).context("nothing has been built yet; this is for `hafnon cargo` to start")?;
    let memory = env::var(MEMORY).ok().and_then(|text| parse_size(&text).ok());
    let timeout = env::var(TIMEOUT).ok().and_then(|text| text.parse().ok());
    let raw_backtraces = env::var_os(RAW_BACKTRACES).is_some();
    // A name without a slash would refer to a built-in program.
    let program = fs::canonicalize(&program).unwrap_or_else(|_| program.into());
    if let Some(socket) = env::var_os(batch::SOCKET) {
        let limit = timeout.map(Duration::from_secs_f64);
        let names = (!raw_backtraces).then(|| Files::new(paths, &built, std::slice::from_ref(&program)));
        return batch::run(&Ui::new(false), Path::new(&socket), &program, args, crate::variables(&[]), limit, names);
    }
    let program = program.into_os_string().into_string().ok().context("the program's path is not UTF-8")?;
    let program = std::iter::once(program).chain(args).collect();
    let args = RunArgs { program, timeout, raw_backtraces, ..RunArgs::with_memory(memory) };
    crate::boot(&Ui::new(false), paths, built, &args)
}

fn toml_string(text: &str) -> String {
    toml::Value::String(text.to_string()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_stand_next_to_those_of_the_caller() {
        let with = |args: &str| {
            let args: Vec<OsString> = args.split(' ').map(OsString::from).collect();
            let all = with_settings(&args, vec!["--config".into(), "ours".into()]);
            all.iter().map(|arg| arg.to_string_lossy()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(with("test --lib"), "--config ours test --lib");
        assert_eq!(with("test --config a=1"), "test --config ours --config a=1");
        assert_eq!(with("test --lib --config=a=1 -- --x"), "test --lib --config ours --config=a=1 -- --x");
        assert_eq!(with("--config a=1 test"), "--config ours --config a=1 test");
        assert_eq!(with("run -- --config a"), "--config ours run -- --config a");
    }
}
