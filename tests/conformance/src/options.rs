//! The command line.

use std::time::Duration;

use crate::check::Case;

/// What the program does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Print the names of the cases.
    List,
    /// Run the cases in workers.
    Supervise,
    /// Be a worker, and begin with the case of this number.
    Work { from: usize },
    /// Be the child process of a case; the prefixes say what to do.
    Child,
}

/// How long a case may take unless the command line says otherwise. This is the host's time, and the host may run ten
/// other programs beside this machine.
const TIMEOUT: Duration = Duration::from_secs(240);

/// The command line, parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    pub action: Action,
    pub timeout: Duration,
    /// Stop after the first case that fails.
    pub stop: bool,
    /// Check that everything that the cases used is returned.
    pub leaks: bool,
    /// Cases that do not run.
    pub without: Vec<String>,
    pub prefixes: Vec<String>,
}

impl Options {
    /// Parses the arguments.
    ///
    /// # Errors
    /// A sentence for the user.
    pub fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            action: Action::Supervise,
            timeout: TIMEOUT,
            stop: false,
            leaks: false,
            without: Vec::new(),
            prefixes: Vec::new(),
        };
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            let mut number = |what: &str| {
                let value = arguments.next().and_then(|value| value.parse::<u64>().ok());
                value.ok_or_else(|| format!("{argument} needs {what}"))
            };
            match argument.as_str() {
                "--list" => options.action = Action::List,
                "--timeout" => options.timeout = Duration::from_millis(number("a number of milliseconds")?),
                "--work" => options.action = Action::Work { from: number("the number of a case")? as usize },
                "--leaks" => options.leaks = true,
                "--stop" => options.stop = true,
                "--without" => options.without.push(arguments.next().ok_or("--without needs the name of a case")?),
                "--child" => {
                    options.action = Action::Child;
                    options.prefixes.extend(arguments);
                    return Ok(options);
                }
                option if option.starts_with('-') => return Err(format!("there is no option {option}")),
                _ => options.prefixes.push(argument),
            }
        }
        Ok(options)
    }

    /// The cases that the prefixes select, in the order of the prefixes. A case that is known to fail is selected only
    /// by its full name.
    pub fn select(&self, mut cases: Vec<Case>, known: &[(&str, &str)]) -> Vec<Case> {
        cases.retain(|case| !known.iter().any(|(name, _)| case.name == *name) || self.prefixes.contains(&case.name));
        if !self.prefixes.is_empty() {
            let place = |case: &Case| self.prefixes.iter().position(|prefix| case.name.starts_with(prefix.as_str()));
            cases.retain(|case| place(case).is_some() && !self.without.contains(&case.name));
            cases.sort_by_key(place);
        }
        cases
    }

    /// The options that a worker needs to choose the same cases.
    pub fn choice(&self) -> impl Iterator<Item = &str> {
        self.without.iter().flat_map(|case| ["--without", case]).chain(self.prefixes.iter().map(String::as_str))
    }

    /// A prefix that selects nothing, most likely a typing error.
    pub fn unknown_prefix(&self, cases: &[Case]) -> Option<&str> {
        if self.action == Action::Child {
            return None;
        }
        let known = |prefix: &&String| !cases.iter().any(|case| case.name.starts_with(prefix.as_str()));
        self.prefixes.iter().find(known).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn lines() {
        let options = parse("--timeout 50 channel. socket.").unwrap();
        assert_eq!((options.action, options.timeout), (Action::Supervise, Duration::from_millis(50)));
        assert_eq!(options.prefixes, ["channel.", "socket."]);
        assert_eq!(parse("--work 3 a").unwrap().action, Action::Work { from: 3 });
        assert_eq!(parse("--child exit --timeout").unwrap().prefixes, ["exit", "--timeout"]);
        assert!(parse("--timeout").is_err());
        assert!(parse("--timeout soon").is_err());
        assert!(parse("--dance").is_err());
    }

    #[test]
    fn selection() {
        let cases =
            || vec![Case::new("a.b.c", || Ok(())), Case::new("a.bb.c", || Ok(())), Case::new("b.c.d", || Ok(()))];
        let names = |line: &str| {
            let options = parse(line).unwrap();
            let chosen = options.select(cases(), &[("b.c.d", "known")]);
            let unknown = options.unknown_prefix(&chosen).map(str::to_owned);
            (chosen.into_iter().map(|case| case.name).collect::<Vec<_>>(), unknown)
        };
        assert_eq!(names("").0.len(), 2);
        assert_eq!(names("b.c.d").0, ["b.c.d"]);
        assert_eq!(names("b.").1.as_deref(), Some("b."));
        assert_eq!(names("a.b.").0, ["a.b.c"]);
        assert_eq!(names("b.c.d a.bb").0, ["b.c.d", "a.bb.c"]);
        assert_eq!(names("--without a.b.c a.").0, ["a.bb.c"]);
        assert_eq!(names("a x").1.as_deref(), Some("x"));
    }
}
