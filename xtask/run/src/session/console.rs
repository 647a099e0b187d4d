//! Output for people: the console's lines, and programs' output with names in its backtraces.

use std::collections::VecDeque;
use std::io::{ErrorKind, IsTerminal, Read, Write};
use std::sync::mpsc::{Receiver, sync_channel};

use anyhow::Result;

use crate::symbols::Files;
use crate::symbols::markup::Filter;
use crate::symbols::report::Reports;
use xtask_common::threads::{Thread, Watcher};
use xtask_common::words;

/// A stream of the program that is shown; backtraces in it get names.
pub struct ProgramStream(Option<Filter>);

impl ProgramStream {
    /// With names from these files; without files it is unchanged.
    pub fn new(files: Option<Files>) -> ProgramStream {
        ProgramStream(files.map(Filter::new))
    }

    /// Shows a piece.
    ///
    /// # Errors
    /// The reader has closed the stream.
    pub fn write(&mut self, mut to: impl Write, bytes: &[u8]) -> std::io::Result<()> {
        match &mut self.0 {
            Some(filter) => to.write_all(&filter.push(bytes))?,
            None => to.write_all(bytes)?,
        }
        to.flush()
    }

    /// Writes held-back bytes.
    ///
    /// # Errors
    /// The reader has closed the stream.
    pub fn end(&mut self, mut to: impl Write) -> std::io::Result<()> {
        to.write_all(&self.0.as_mut().map(Filter::end).unwrap_or_default())?;
        to.flush()
    }
}

/// The messages of the root task and the server.
#[derive(Debug, Default)]
pub struct Console {
    /// Warnings and errors, as `who: text`.
    pub warnings: Vec<String>,
    /// All messages of the root task, without their times.
    pub root: Vec<String>,
    /// Messages of others, as `who: text`.
    pub others: Vec<String>,
    /// The last lines.
    pub last: VecDeque<String>,
}

/// How consoles are handled.
pub struct Listener {
    /// Show all messages; otherwise only warnings and errors.
    pub verbose: bool,
    /// Messages go to this process' own standard error; otherwise they are collected.
    pub ours: bool,
    /// Backtraces get names from these.
    pub files: Option<Files>,
    /// Gets the failures of threads.
    pub watcher: Watcher,
}

/// Number of last lines that are kept.
const LAST: usize = 32;
/// Maximum number of lines that are collected; later ones are shown, and not kept.
const MOST: usize = 1 << 18;
/// Maximum number of lines in the queue between the threads.
const WAITING: usize = 4096;

impl Listener {
    /// Follows a console. Each line is prefixed with `who`, the name of an additional instance.
    ///
    /// # Errors
    /// There is no room for the threads.
    pub fn watch(&self, console: impl Read + Send + 'static, who: String) -> Result<Thread<Console>> {
        let Listener { verbose, ours, files, watcher } = self;
        let (verbose, ours, files) = (*verbose, *ours, files.clone());
        let lines = read_lines(console, watcher)?;
        watcher.start("console", move || {
            let full = std::env::var_os("RUST_BACKTRACE").is_some_and(|how| how == "full");
            let mut reports = files.map(|files| Reports::new(files, full));
            let mut found = Console::default();
            let color = std::io::stderr().is_terminal();
            for line in lines {
                let warning = warning(&line);
                if verbose {
                    // Grey, to distinguish it from the program's own output.
                    let (grey, plain) = if color { ("\x1b[90m", "\x1b[0m") } else { ("", "") };
                    let _ = writeln!(std::io::stderr(), "{grey}{who}{line}{plain}");
                } else if let (Some(text), true) = (warning, ours) {
                    words::say(&format!("{who}{text}"));
                }
                let line_of_it = line.split_once("] ").map_or("", |(_, text)| text);
                if let Some(backtrace) = reports.as_mut().and_then(|reports| reports.line(line_of_it)) {
                    words::say(backtrace.trim_end());
                }
                if !ours {
                    found.collect(&line, line_of_it);
                }
                if !line.is_empty() {
                    found.last.push_back(line);
                    if found.last.len() > LAST {
                        found.last.pop_front();
                    }
                }
            }
            found
        })
    }
}

impl Console {
    /// Keeps a line; `text` is the part after its time.
    fn collect(&mut self, line: &str, text: &str) {
        if self.root.len() + self.others.len() + self.warnings.len() >= MOST {
            return;
        }
        // The speaker follows the level; a program's messages begin with its number.
        let said = text.split_once(' ').map_or("", |(_, said)| said);
        match said.strip_prefix("root: ") {
            Some(text) => self.root.push(text.to_string()),
            None if !said.is_empty() => self.others.push(said.to_string()),
            None => {}
        }
        self.warnings.extend(warning(line).map(str::to_string));
    }
}

/// Reads the console's lines and escapes control characters. The console is read in a separate thread, however long the
/// receiver is busy: the first name lookup for a backtrace opens large files, and a port that is not read for long
/// loses text.
fn read_lines(mut console: impl Read + Send + 'static, watcher: &Watcher) -> Result<Receiver<String>> {
    let (sender, lines) = sync_channel(WAITING);
    watcher.start("port", move || {
        let (mut whole, mut buffer) = (words::Lines::default(), [0; 4096]);
        let mut gone = false;
        let mut send = |line: &str| gone |= sender.send(words::visible(line.trim_end()).into_owned()).is_err();
        loop {
            match console.read(&mut buffer) {
                Ok(count) if count > 0 => whole.push(&buffer[..count], &mut send),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        whole.end(send);
    })?;
    Ok(lines)
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

    /// The writer sends single bytes, like QEMU. A receiver that looks up a name at the first line still gets all
    /// lines.
    #[test]
    fn a_slow_look_at_a_line_stops_nobody() {
        let (mut port, console) = UnixStream::pair().unwrap();
        port.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
        let write = move || {
            let text = "a line of the console\r\n".repeat(1000);
            text.bytes().all(|byte| port.write_all(&[byte]).is_ok())
        };
        let writer = Watcher::none().start("writer", write).unwrap();
        let lines = read_lines(console, &Watcher::none()).unwrap();
        let first = lines.recv().unwrap();
        assert!(writer.join().unwrap(), "the port stood still");
        let all: Vec<String> = std::iter::once(first).chain(lines).collect();
        assert!(all.len() == 1000 && all.iter().all(|line| line == "a line of the console"));
    }

    #[test]
    fn nothing_on_the_console_acts_on_the_terminal() {
        let said: &[u8] = b"[  0.1] E exception: \x1b[2J\x9b31m\rE init: all is well\n\xff\x00";
        let lines: Vec<String> = read_lines(said, &Watcher::none()).unwrap().into_iter().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines.iter().all(|line| !line.contains(char::is_control)), "{lines:?}");
    }

    /// The amount of kept output is bounded.
    #[test]
    fn what_is_kept_has_an_end() {
        let mut console = Console::default();
        for n in 0..2 * MOST {
            console.collect("[  0.1] E a: b", if n % 2 == 0 { "E root: b" } else { "E a: b" });
        }
        assert!(console.root.len() + console.others.len() + console.warnings.len() <= MOST + 1);
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
