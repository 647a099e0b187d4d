//! Builtins that write and read text.

use std::io::Read;

use crate::escape;
use crate::state::{Run, Shell, is_name};

/// `echo`
pub fn echo(shell: &mut Shell, words: &[String]) -> Run {
    let (mut newline, mut escapes) = (true, false);
    let mut rest = &words[1..];
    while let Some((first, more)) = rest.split_first() {
        let flags = first.strip_prefix('-').filter(|flags| !flags.is_empty());
        let Some(flags) = flags.filter(|flags| flags.chars().all(|flag| "neE".contains(flag))) else { break };
        newline &= !flags.contains('n');
        escapes = flags.rfind(['e', 'E']).map_or(escapes, |at| flags[at..].starts_with('e'));
        rest = more;
    }
    let mut text = rest.join(" ");
    let mut ended = false;
    if escapes {
        (text, ended) = escape::up_to_end(&text);
    }
    if newline && !ended {
        text.push('\n');
    }
    shell.say(text)
}

/// `printf`
pub fn printf(shell: &mut Shell, words: &[String]) -> Run {
    let rest = if words.get(1).is_some_and(|word| word == "--") { &words[2..] } else { &words[1..] };
    let Some((format, arguments)) = rest.split_first() else { return shell.fail("printf", "takes a format") };
    let (text, wrong) = escape::printf(format, arguments);
    let written = shell.say(text)?;
    for problem in &wrong {
        shell.complain("printf", problem);
    }
    Ok(if wrong.is_empty() { written } else { 1 })
}

/// `read`: splits a line into variables; the last one gets the rest.
pub fn read(shell: &mut Shell, words: &[String]) -> Run {
    let mut raw = false;
    let mut names = Vec::new();
    let mut words = words[1..].iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "-r" => raw = true,
            "-p" => shell.fds.get(&2).map_or((), |file| {
                use std::io::Write;
                let prompt = words.next().map(String::as_str).unwrap_or_default();
                let _ = file.as_ref().write_all(prompt.as_bytes());
            }),
            name if is_name(name) => names.push(name.to_owned()),
            other => return shell.fail("read", &format!("{other}: this is no name of a variable")),
        }
    }
    let Some((line, whole)) = line(shell, raw) else { return Ok(1) };
    let separators = shell.get("IFS").unwrap_or(" \t\n").to_owned();
    if names.is_empty() {
        shell.set("REPLY", line)?;
        return Ok(i64::from(!whole));
    }
    let blank = |char: char| char.is_ascii_whitespace() && separators.contains(char);
    let mut rest = line.trim_start_matches(blank);
    for (index, name) in names.iter().enumerate() {
        if index + 1 == names.len() {
            shell.set(name, rest.trim_end_matches(blank))?;
            break;
        }
        let end = rest.find(|char| separators.contains(char)).unwrap_or(rest.len());
        let (field, after) = rest.split_at(end);
        shell.set(name, field)?;
        let after = after.trim_start_matches(blank);
        let other = after.chars().next().filter(|char| separators.contains(*char) && end < rest.len() && !blank(*char));
        rest = other.map_or(after, |char| after[char.len_utf8()..].trim_start_matches(blank));
    }
    Ok(i64::from(!whole))
}

/// A line of standard input, and whether it ended with a newline; `None` at the end of input. It reads byte by byte,
/// because the following input belongs to other commands.
fn line(shell: &Shell, raw: bool) -> Option<(String, bool)> {
    let mut bytes = Vec::new();
    let whole = loop {
        match shell.byte()? {
            Some(b'\n') => break true,
            Some(b'\\') if !raw => match shell.byte()? {
                Some(b'\n') => {}
                Some(byte) => bytes.push(byte),
                None => break false,
            },
            Some(byte) => bytes.push(byte),
            None if bytes.is_empty() => return None,
            None => break false,
        }
    };
    Some((String::from_utf8_lossy(&bytes).into_owned(), whole))
}

impl Shell {
    /// The next byte of standard input; `Some(None)` at its end, `None` if there is no input.
    pub fn byte(&self) -> Option<Option<u8>> {
        let mut byte = [0];
        match self.fds.get(&0)?.as_ref().read(&mut byte) {
            Ok(0) => Some(None),
            Ok(_) => Some(Some(byte[0])),
            Err(_) => None,
        }
    }
}
