//! What comes out for people to read: the console's lines, and programs' output with names in its backtraces.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};

use crate::symbols::Files;
use crate::symbols::markup::Filter;
use crate::symbols::report::Reports;

/// A stream of the program's that is shown: backtraces in it get names.
pub struct Shown(Option<Filter>);

impl Shown {
    /// With names from these files; as it is without any.
    pub fn new(files: Option<Files>) -> Shown {
        Shown(files.map(Filter::new))
    }

    /// Shows a piece.
    ///
    /// # Errors
    /// Nobody reads it.
    pub fn write(&mut self, mut to: impl Write, bytes: &[u8]) -> std::io::Result<()> {
        match &mut self.0 {
            Some(filter) => to.write_all(&filter.push(bytes))?,
            None => to.write_all(bytes)?,
        }
        to.flush()
    }

    /// Writes what was held back.
    ///
    /// # Errors
    /// Nobody reads it.
    pub fn end(&mut self, mut to: impl Write) -> std::io::Result<()> {
        to.write_all(&self.0.as_mut().map(Filter::end).unwrap_or_default())?;
        to.flush()
    }
}

/// What the root task and the server said.
#[derive(Debug, Default)]
pub struct Console {
    /// What was wrong, as `who: text`.
    pub warnings: Vec<String>,
    /// All that the root task said, without its time.
    pub root: Vec<String>,
    /// What others said, as `who: text`.
    pub others: Vec<String>,
    /// The last lines.
    pub last: VecDeque<String>,
}

/// Shows what the root task and the server have to say: with `verbose` all, otherwise what is wrong.
/// Each line begins with `who`, where that is an instance beside the main one.
pub fn watch_console(
    console: impl Read + Send + 'static,
    who: String,
    verbose: bool,
    ours: bool,
    files: Option<Files>,
) -> JoinHandle<Console> {
    const LAST: usize = 32;
    thread::spawn(move || {
        let full = std::env::var_os("RUST_BACKTRACE").is_some_and(|how| how == "full");
        let mut reports = files.map(|files| Reports::new(files, full));
        let mut found = Console::default();
        let color = std::io::stderr().is_terminal();
        follow(console, |line| {
            let warning = warning(&line);
            if verbose {
                // Grey, so that it is told from the program's own output.
                if color { eprintln!("\x1b[90m{who}{line}\x1b[0m") } else { eprintln!("{who}{line}") }
            } else if let (Some(text), true) = (warning, ours) {
                eprintln!("{who}{text}");
            }
            let line_of_it = line.split_once("] ").map_or("", |(_, text)| text);
            if let Some(backtrace) = reports.as_mut().and_then(|reports| reports.line(line_of_it)) {
                eprint!("{backtrace}");
            }
            if let Some(text) = line_of_it.split_once(" root: ").map(|(_, text)| text) {
                found.root.push(text.to_string());
            } else if let Some((_, text)) = line_of_it.split_once(' ') {
                found.others.push(text.to_string());
            }
            if let Some(text) = warning {
                found.warnings.push(text.to_string());
            }
            if !line.is_empty() {
                found.last.push_back(line);
                if found.last.len() > LAST {
                    found.last.pop_front();
                }
            }
        });
        found
    })
}

/// Gives each line to `line`, until the console ends. The console is read meanwhile, however long `line` takes: looking
/// up the first name in a backtrace opens large files, and a port that does not move for long loses text.
fn follow(console: impl Read + Send + 'static, mut line: impl FnMut(String)) {
    let (sender, lines) = channel();
    let reader = thread::spawn(move || {
        for line in BufReader::new(console).split(b'\n') {
            let Ok(line) = line else { break };
            let line = String::from_utf8_lossy(&line).trim_end().to_string();
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    lines.into_iter().for_each(&mut line);
    // It has nothing to tell: it ended when the lines did.
    let _ = reader.join();
}

/// `who: text` of a console line `[  0.123456] W who: text` whose level is W or E.
fn warning(line: &str) -> Option<&str> {
    let (time, rest) = line.strip_prefix('[')?.split_once("] ")?;
    time.trim().parse::<f64>().ok()?;
    rest.strip_prefix("W ").or_else(|| rest.strip_prefix("E "))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::*;

    /// As QEMU writes: a byte at a time. Who looks a name up at the first line gets the others all the same.
    #[test]
    fn a_slow_look_at_a_line_stops_nobody() {
        let (mut port, console) = UnixStream::pair().unwrap();
        port.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
        let (sender, written) = channel();
        let writer = thread::spawn(move || {
            let text = "a line of the console\r\n".repeat(1000);
            let all = text.bytes().all(|byte| port.write_all(&[byte]).is_ok());
            sender.send(all).unwrap();
        });
        let mut lines = 0;
        follow(console, |line| {
            if lines == 0 {
                assert!(written.recv().unwrap(), "the port stood still");
            }
            assert_eq!(line, "a line of the console");
            lines += 1;
        });
        writer.join().unwrap();
        assert_eq!(lines, 1000);
    }

    #[test]
    fn console_lines() {
        assert_eq!(warning("[  0.123456] E server: gone"), Some("server: gone"));
        assert_eq!(warning("[ 12.000001] W root: low: 3"), Some("root: low: 3"));
        for line in ["[  0.1] I server: up", "Booting all finished", "", "[", "[x] E a: b", "E a: b"] {
            assert_eq!(warning(line), None, "{line}");
        }
    }
}
