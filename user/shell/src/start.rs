//! Running a program.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Command, ExitStatus};

use init::program;

use crate::builtin::reason;

/// The return code for a program that there is not, as shells have it.
const NOT_FOUND: i64 = 127;
/// The return code for a file that cannot be run.
const NOT_RUN: i64 = 126;

/// Runs a program to its end; returns its return code.
pub fn run(name: &str, arguments: &[String]) -> i64 {
    let path = if name.contains('/') { name.to_owned() } else { format!("/boot/bin/{name}") };
    let mut file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            eprintln!("sh: {name}: there is no such program; `ls bin` shows which there are, `help` the commands");
            return NOT_FOUND;
        }
        Err(error) => return not_run(name, &reason(&error)),
    };
    if let Err(problem) = program::check(&mut file, |library| Path::new("/boot/lib").join(library).exists()) {
        return not_run(name, &problem);
    }
    drop(file);
    match Command::new(&path).args(arguments).status() {
        Ok(status) => {
            let code = return_code(status);
            if let Some(end) = ending(code) {
                eprintln!("sh: {name} {end}");
            }
            code
        }
        Err(error) => not_run(name, &starting(&error)),
    }
}

fn not_run(name: &str, problem: &str) -> i64 {
    eprintln!("sh: {name}: {problem}");
    NOT_RUN
}

#[cfg(target_os = "fuchsia")]
fn starting(error: &io::Error) -> String {
    match error.raw_os_error().filter(|code| *code < 0).map(zx::Status) {
        Some(zx::Status::NO_MEMORY) => "there is not enough memory for it".to_owned(),
        Some(status) => format!("starting it gave {status}"),
        None => error.to_string(),
    }
}

#[cfg(not(target_os = "fuchsia"))]
fn starting(error: &io::Error) -> String {
    error.to_string()
}

/// The whole return code: it has 64 bits, and the standard library gives only those that fit into 32.
fn return_code(status: ExitStatus) -> i64 {
    let text = status.to_string();
    text.rsplit(' ').next().and_then(|code| code.parse().ok()).unwrap_or(i64::from(status.code().unwrap_or(-1)))
}

/// Words for an end that the program did not choose.
fn ending(code: i64) -> Option<&'static str> {
    // The range that Zircon keeps for tasks that were killed.
    match code {
        -1024 => Some("was killed"),
        -1025 => Some("was killed because memory ran out"),
        -1026 => Some("was killed by a job policy"),
        -1027 => Some("was killed because of how it used the vDSO"),
        -1028 => Some("was ended by an exception that it did not handle"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_have_words() {
        assert_eq!(ending(0), None);
        assert_eq!(ending(7), None);
        assert!(ending(-1028).is_some_and(|words| words.contains("exception")));
    }
}
