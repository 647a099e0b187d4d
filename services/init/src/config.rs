//! The boot configuration: the files under `/boot/config`.

use std::fmt;
use std::time::Duration;

/// What init does with the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Run one program and pass its return code on.
    Run,
    /// Show the tour.
    Tour,
    /// Run the shell.
    Shell,
    /// Show the tour, then run the shell.
    TourThenShell,
    /// Run a list of programs, with a result for each.
    Test,
}

/// An error in a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

impl Mode {
    /// Parses `config/mode`.
    ///
    /// # Errors
    /// It is not one of the known words.
    pub fn parse(text: &str) -> Result<Self, Error> {
        match text.trim() {
            "run" => Ok(Self::Run),
            "tour" => Ok(Self::Tour),
            "shell" => Ok(Self::Shell),
            "tour+shell" => Ok(Self::TourThenShell),
            "test" => Ok(Self::Test),
            other => Err(Error(format!("config/mode is {other:?}; known are run, tour, shell, tour+shell, test"))),
        }
    }
}

/// A program and its arguments (without the program's own name).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Path of the program.
    pub program: String,
    /// Its arguments, from number 1 on.
    pub arguments: Vec<String>,
}

impl Command {
    /// Creates a command from a path and its arguments.
    pub fn new(program: &str, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        Self { program: program.to_owned(), arguments }
    }

    /// Parses `config/run`.
    ///
    /// # Errors
    /// There is no program in it, or a string is not UTF-8.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let mut strings = strings("config/run", bytes)?.into_iter();
        let program = strings.next().filter(|program| !program.is_empty());
        let program = program.ok_or_else(|| Error("config/run names no program".to_owned()))?;
        Ok(Self { program, arguments: strings.collect() })
    }
}

/// Parses `config/env`.
///
/// # Errors
/// A string has no `=` after its first character, or is not UTF-8.
pub fn environment(bytes: &[u8]) -> Result<Vec<(String, String)>, Error> {
    let split = |text: String| match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(Error(format!("config/env: {text:?} is not KEY=VALUE"))),
    };
    strings("config/env", bytes)?.into_iter().map(split).collect()
}

/// The NUL-terminated strings of a file.
///
/// # Errors
/// A string is not UTF-8; the error names the file.
pub fn strings(file: &str, bytes: &[u8]) -> Result<Vec<String>, Error> {
    // The last string ends with NUL like the others, so nothing follows it.
    let bytes = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let text = |part: &[u8]| {
        String::from_utf8(part.to_vec())
            .map_err(|_| Error(format!("{file}: {:?} is not UTF-8", part.escape_ascii().to_string())))
    };
    bytes.split(|byte| *byte == 0).map(text).collect()
}

/// One line of `config/tests`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Test {
    /// The name under which the result is reported.
    pub name: String,
    /// The program is killed after this time.
    pub timeout: Duration,
    /// The return code of a pass; `None` for any.
    pub expect: Option<i64>,
    /// The command to run.
    pub command: Command,
}

/// Parses `config/tests` (format: `tests/conformance/README.md`).
///
/// # Errors
/// A line cannot be parsed; the error names it.
pub fn tests(text: &str) -> Result<Vec<Test>, Error> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    lines
        .map(|(index, line)| {
            test(line).ok_or_else(|| {
                let line_number = index + 1;
                Error(format!(
                    "config/tests line {line_number}: expected NAME, TIMEOUT_MS, EXPECT, PROGRAM between tabs"
                ))
            })
        })
        .collect()
}

fn test(line: &str) -> Option<Test> {
    let mut fields = line.split('\t');
    let name = fields.next().filter(|name| !name.is_empty() && !name.contains(' '))?;
    let timeout = Duration::from_millis(fields.next()?.parse().ok()?);
    let expect = match fields.next()? {
        "any" => None,
        code => Some(code.parse().ok()?),
    };
    let program = fields.next().filter(|program| !program.is_empty())?;
    let arguments: Vec<&str> = fields.collect();
    Some(Test { name: name.to_owned(), timeout, expect, command: Command::new(program, &arguments) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes() {
        assert_eq!(Mode::parse("tour+shell\n"), Ok(Mode::TourThenShell));
        assert!(Mode::parse("dance").unwrap_err().to_string().contains("dance"));
    }

    #[test]
    fn commands_keep_empty_and_odd_arguments() {
        let command = Command::parse(b"/boot/bin/hello\0a b\0\0\xc3\xa9\0").unwrap();
        assert_eq!(command, Command::new("/boot/bin/hello", &["a b", "", "é"]));
        assert!(Command::parse(b"").is_err());
        assert!(Command::parse(b"\0").is_err());
        assert!(Command::parse(b"/boot/bin/x\0\xff\0").is_err());
    }

    #[test]
    fn environments() {
        assert_eq!(environment(b""), Ok(Vec::new()));
        let parsed = environment(b"A=1\0B=\0C=x=y\0").unwrap();
        let expected = [("A", "1"), ("B", ""), ("C", "x=y")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(parsed, expected);
        assert!(environment(b"A\0").is_err());
        assert!(environment(b"=1\0").is_err());
    }

    #[test]
    fn test_lists() {
        let list = tests("# all\n\nseven\t500\t7\t/boot/bin/hello\texit\t7\nany\t1\tany\t/boot/bin/x\n").unwrap();
        assert_eq!(list.len(), 2);
        assert_eq!(list[0].expect, Some(7));
        assert_eq!(list[0].timeout, Duration::from_millis(500));
        assert_eq!(list[0].command, Command::new("/boot/bin/hello", &["exit", "7"]));
        assert_eq!(list[1].expect, None);
        for wrong in ["x", "x\t1\t0", "x y\t1\t0\t/p", "x\tsoon\t0\t/p", "x\t1\tgood\t/p", "x\t1\t0\t"] {
            assert!(tests(wrong).unwrap_err().to_string().contains("line 1"), "{wrong:?}");
        }
    }
}
