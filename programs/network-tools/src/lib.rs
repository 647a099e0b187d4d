//! What the programs have in common: arguments, and text of others in messages.
#![forbid(unsafe_code)]

use std::fmt::Write;
use std::time::Duration;

/// The arguments of a program: options of one letter first, then words.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Arguments {
    /// The options that were given, with their values.
    options: Vec<(char, Option<String>)>,
    /// The words behind them.
    pub words: Vec<String>,
}

impl Arguments {
    /// Parses arguments, without the program's name. `flags` are the letters of options without a value, `valued` those
    /// with one. Options may stand together (`-lu`), and a value may follow its option at once (`-w5`). `--` ends them.
    ///
    /// # Errors
    /// A sentence about the argument that is wrong.
    pub fn parse(given: impl IntoIterator<Item = String>, flags: &str, valued: &str) -> Result<Arguments, String> {
        let mut arguments = Arguments::default();
        let mut given = given.into_iter();
        while let Some(argument) = given.next() {
            let letters = match argument.strip_prefix('-') {
                Some("-") => {
                    arguments.words.extend(given);
                    break;
                }
                Some(letters) if !letters.is_empty() => letters,
                _ => {
                    arguments.words.push(argument);
                    continue;
                }
            };
            let mut rest = letters.chars();
            while let Some(letter) = rest.next() {
                if flags.contains(letter) {
                    arguments.options.push((letter, None));
                } else if valued.contains(letter) {
                    let value = match rest.as_str() {
                        "" => given.next().ok_or_else(|| format!("-{letter} needs a value"))?,
                        value => value.to_owned(),
                    };
                    arguments.options.push((letter, Some(value)));
                    break;
                } else {
                    return Err(format!("there is no option -{letter}"));
                }
            }
        }
        Ok(arguments)
    }

    /// Whether an option was given.
    pub fn has(&self, letter: char) -> bool {
        self.options.iter().any(|(given, _)| *given == letter)
    }

    /// The value of an option; the last one counts.
    pub fn value(&self, letter: char) -> Option<&str> {
        self.options.iter().rev().find(|(given, _)| *given == letter).and_then(|(_, value)| value.as_deref())
    }

    /// The value of an option in seconds.
    ///
    /// # Errors
    /// It is no number of seconds over 0.
    pub fn seconds(&self, letter: char) -> Result<Option<Duration>, String> {
        let parse = |text: &str| match text.parse::<u32>() {
            Ok(seconds) if seconds > 0 => Ok(Duration::from_secs(seconds.into())),
            _ => Err(format!("-{letter} {text}: a whole number of seconds over 0 is needed")),
        };
        self.value(letter).map(parse).transpose()
    }
}

/// Whether a character changes the direction or the lines of the text around it.
fn reorders(letter: char) -> bool {
    matches!(letter, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Text of others, for a message on the terminal: control characters, and those that reorder text, become escapes, so
/// that it cannot act on the terminal.
pub fn visible(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        if letter.is_control() || reorders(letter) {
            let _ = write!(out, "{}", letter.escape_default());
        } else {
            out.push(letter);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(given: &[&str]) -> Result<Arguments, String> {
        Arguments::parse(given.iter().map(ToString::to_string), "lu", "w")
    }

    #[test]
    fn options_and_words() {
        let found = parse(&["-lu", "-w5", "host", "-w", "7", "80"]).unwrap();
        assert!(found.has('l') && found.has('u') && !found.has('x'));
        assert_eq!(found.seconds('w'), Ok(Some(Duration::from_secs(7))));
        assert_eq!(found.words, ["host", "80"]);
        assert_eq!(parse(&["--", "-l"]).unwrap().words, ["-l"]);
        assert_eq!(parse(&["-"]).unwrap().words, ["-"]);
        assert_eq!(parse(&["-x"]), Err("there is no option -x".to_owned()));
        assert_eq!(parse(&["-w"]), Err("-w needs a value".to_owned()));
        for wrong in ["0", "-1", "soon", "99999999999"] {
            assert!(parse(&["-w", wrong]).unwrap().seconds('w').is_err(), "{wrong}");
        }
    }

    #[test]
    fn text_of_others() {
        assert_eq!(visible("a\u{202e}b\u{2028}"), "a\\u{202e}b\\u{2028}");
        assert_eq!(visible("a\x1b[2Jb\u{9b}\r\n\u{e9}"), "a\\u{1b}[2Jb\\u{9b}\\r\\n\u{e9}");
    }
}
