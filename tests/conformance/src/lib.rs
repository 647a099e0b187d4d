//! What programs of named cases share: the cases and what they check with, the worker that runs them and its supervisor,
//! the kernel's counts, and processes of a few instructions.
//!
//! The conformance program has cases of what is promised; the program of `tests/hostile` has cases of what is attacked.
#![forbid(unsafe_code)]

#[cfg(target_os = "fuchsia")]
pub mod caught;
pub mod census;
pub mod check;
mod options;
pub mod refused;
pub mod supervise;
#[cfg(target_os = "fuchsia")]
pub mod tiny;

use std::process::ExitCode;

use check::Case;
use options::{Action, Options};

/// What a program of cases is made of.
pub struct Program {
    /// Its name, for messages.
    pub name: &'static str,
    /// Its cases, sorted by name.
    pub cases: fn() -> Vec<Case>,
    /// Cases that are known to fail, and why: they run only when named in full.
    pub known: &'static [(&'static str, &'static str)],
    /// What a process does that a case started as its child.
    pub child: fn(&[String]) -> ExitCode,
}

impl Program {
    /// Does what the command line says.
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
