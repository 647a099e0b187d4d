//! The shell inside the system: reads lines, runs programs, shows what there is.
//!
//! A program is named by its path, or by its name alone when it lies in `/boot/bin`. It shares the shell's input and
//! output, and the shell waits for its end. Ctrl-C on the host ends the program and not the shell.
#![forbid(unsafe_code)]

mod builtin;
#[cfg(target_os = "fuchsia")]
mod interrupt;
mod line;
mod ps;
mod start;

use std::io::{self, BufRead, Write};
use std::process::ExitCode;

const PROMPT: &str = "hafnon$ ";

/// What the shell remembers from line to line.
pub struct Shell {
    /// Return code of the last program or command: `$?`.
    pub last: i64,
    /// Set by `exit`.
    pub done: bool,
}

fn main() -> ExitCode {
    #[cfg(target_os = "fuchsia")]
    interrupt::listen();
    let mut shell = Shell { last: 0, done: false };
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [] => interactive(&mut shell),
        [option, lines] if option == "-c" => lines.lines().for_each(|line| shell.line(line)),
        _ => {
            eprintln!("sh: usage: sh [-c LINES]");
            return ExitCode::from(2);
        }
    }
    // A return code has 64 bits here, and the one of the last program is passed on whole.
    exit(shell.last)
}

#[cfg(target_os = "fuchsia")]
fn exit(code: i64) -> ! {
    let _ = io::stdout().flush();
    zx::process_exit(code)
}

#[cfg(not(target_os = "fuchsia"))]
fn exit(code: i64) -> ! {
    std::process::exit(code as i32)
}

fn interactive(shell: &mut Shell) {
    println!("Type a program's name to run it, `ls bin` to see which there are, `help` for the rest.");
    let mut input = io::stdin().lock();
    let mut line = Vec::new();
    while !shell.done {
        print!("{PROMPT}");
        let _ = io::stdout().flush();
        line.clear();
        match input.read_until(b'\n', &mut line) {
            Ok(0) => {
                println!();
                return;
            }
            Ok(_) => shell.line(&String::from_utf8_lossy(&line)),
            Err(error) => {
                eprintln!("sh: standard input: {error}");
                return;
            }
        }
    }
}

impl Shell {
    /// Runs one line.
    fn line(&mut self, line: &str) {
        if self.done {
            return;
        }
        let variable = |name: &str| if name == "?" { Some(self.last.to_string()) } else { std::env::var(name).ok() };
        match line::words(line, &variable) {
            Ok(words) => {
                if let Some((name, arguments)) = words.split_first() {
                    self.last = builtin::run(self, name, arguments).unwrap_or_else(|| start::run(name, arguments));
                }
            }
            Err(problem) => {
                eprintln!("sh: {problem}");
                self.last = 2;
            }
        }
    }
}
