//! Shared parts of the programs that run named cases: cases and checks, the worker that runs them and its supervisor,
//! the server's counts, and processes of a few instructions.
//!
//! The conformance program has cases of what the system promises; the program of `tests/hostile` has cases of attacks.
#![forbid(unsafe_code)]

#[cfg(target_os = "fuchsia")]
pub mod caught_exception;
pub mod census;
pub mod check;
#[cfg(target_os = "fuchsia")]
pub mod counter;
mod options;
pub mod refused;
pub mod supervise;
#[cfg(target_os = "fuchsia")]
pub mod test_process;

use std::process::ExitCode;

use check::Case;
use options::{Action, Options};

/// A program that runs cases.
pub struct Program {
    /// Its name, for messages.
    pub name: &'static str,
    /// Its cases, sorted by name.
    pub cases: fn() -> Vec<Case>,
    /// Cases that are known to fail, with the reason. They run only when the command line names them in full.
    pub known: &'static [(&'static str, &'static str)],
    /// Runs in a process that a case started as its child.
    pub child: fn(&[String]) -> ExitCode,
}

impl Program {
    /// Executes the command line.
    pub fn main(&self) -> ExitCode {
        let options = match Options::parse(std::env::args().skip(1)) {
            Ok(options) => options,
            Err(problem) => {
                eprintln!("{}: {problem}", self.name);
                return ExitCode::from(2);
            }
        };
        let cases = options.select((self.cases)(), self.known);
        if let Some(prefix) = options.unknown_prefix(&cases) {
            eprintln!("{}: no case begins with {prefix:?}", self.name);
            return ExitCode::from(2);
        }
        match options.action {
            Action::List => {
                cases.iter().for_each(|case| println!("{}", case.name));
                self.known.iter().for_each(|(name, why)| println!("{name} (known to fail: {why})"));
                ExitCode::SUCCESS
            }
            Action::Work { from } => supervise::work(&cases, from),
            Action::Child => (self.child)(&options.prefixes),
            Action::Supervise => supervise::run(&cases, &options),
        }
    }
}
