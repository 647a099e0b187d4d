//! Cutting a line of input into words.
//!
//! Words are separated by blanks. Between single quotes everything stands for itself; between double quotes all but
//! `$` and `\`. `$NAME` is a variable of the environment, `$?` the return code of the last program; what they stand
//! for is never cut into further words. `#` at the start of a word begins a comment.

use std::iter::Peekable;
use std::str::Chars;

/// Cuts `line` into words; `variable` gives the value of a name, `?` among them.
///
/// # Errors
/// A sentence for the user: a quote that is not closed.
pub fn words(line: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut chars = line.chars().peekable();
    loop {
        while chars.next_if(|char| char.is_whitespace()).is_some() {}
        match chars.peek() {
            None | Some('#') => return Ok(words),
            Some(_) => words.extend(word(&mut chars, variable)?),
        }
    }
}

/// One word; `None` if it consists of nothing but variables without a value.
fn word(chars: &mut Peekable<Chars>, variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<String>, String> {
    let mut word = String::new();
    let mut quoted = false;
    while let Some(char) = chars.next_if(|char| !char.is_whitespace()) {
        match char {
            '\'' => {
                quoted = true;
                single_quoted(chars, &mut word)?;
            }
            '"' => {
                quoted = true;
                double_quoted(chars, variable, &mut word)?;
            }
            '\\' => word.extend(chars.next()),
            '$' => word.push_str(&expansion(chars, variable)),
            _ => word.push(char),
        }
    }
    Ok((quoted || !word.is_empty()).then_some(word))
}

fn single_quoted(chars: &mut Peekable<Chars>, word: &mut String) -> Result<(), String> {
    loop {
        match chars.next() {
            Some('\'') => return Ok(()),
            Some(char) => word.push(char),
            None => return Err("a ' is not closed".to_owned()),
        }
    }
}

fn double_quoted(
    chars: &mut Peekable<Chars>,
    variable: &dyn Fn(&str) -> Option<String>,
    word: &mut String,
) -> Result<(), String> {
    loop {
        match chars.next() {
            Some('"') => return Ok(()),
            Some('\\') => word.extend(chars.next()),
            Some('$') => word.push_str(&expansion(chars, variable)),
            Some(char) => word.push(char),
            None => return Err("a \" is not closed".to_owned()),
        }
    }
}

/// What follows a `$`; the `$` itself if no name does.
fn expansion(chars: &mut Peekable<Chars>, variable: &dyn Fn(&str) -> Option<String>) -> String {
    if chars.next_if_eq(&'?').is_some() {
        return variable("?").unwrap_or_default();
    }
    let mut name = String::new();
    while let Some(char) = chars.next_if(|char| char.is_ascii_alphanumeric() || *char == '_') {
        name.push(char);
    }
    if name.is_empty() { "$".to_owned() } else { variable(&name).unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(line: &str) -> Result<Vec<String>, String> {
        words(line, &|name| match name {
            "?" => Some("7".to_owned()),
            "NAME" => Some("two words".to_owned()),
            _ => None,
        })
    }

    #[test]
    fn blanks_separate() {
        assert_eq!(cut("  hello \t a  b\n").unwrap(), ["hello", "a", "b"]);
        assert!(cut("").unwrap().is_empty());
        assert!(cut(" # nothing here").unwrap().is_empty());
        assert_eq!(cut("a#b # c").unwrap(), ["a#b"]);
    }

    #[test]
    fn quotes() {
        assert_eq!(cut(r#"a 'b  c' "d ' e" f'g'h"#).unwrap(), ["a", "b  c", "d ' e", "fgh"]);
        assert_eq!(cut(r#"'' "" \  \\ \""#).unwrap(), ["", "", " ", "\\", "\""]);
        assert_eq!(cut(r"'$NAME\'").unwrap(), [r"$NAME\"]);
        assert!(cut("'a").is_err());
        assert!(cut("\"a").is_err());
    }

    #[test]
    fn variables() {
        assert_eq!(cut("echo $? x$?y").unwrap(), ["echo", "7", "x7y"]);
        assert_eq!(
            cut("$NAME \"[$NAME]\" $NOTHING \"$NOTHING\" $ a$").unwrap(),
            ["two words", "[two words]", "", "$", "a$"]
        );
    }
}
