//! `sort`: sorts lines by bytes or by number.

use std::cmp::Ordering;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write};

const USAGE: &str = "usage: sort [-nru] [-k FIELD] [FILE...]";

#[derive(Default)]
struct Options {
    numbers: bool,
    reverse: bool,
    unique: bool,
    /// The field from which lines are compared; 0: the whole line.
    field: usize,
}

/// Sorts the files; returns the exit code.
pub fn main(arguments: impl Iterator<Item = OsString>) -> i32 {
    let mut options = Options::default();
    let mut files = Vec::new();
    let mut arguments = arguments.skip(1);
    while let Some(argument) = arguments.next() {
        let text = argument.to_string_lossy().into_owned();
        if text.len() < 2 || !text.starts_with('-') {
            files.push(argument);
            continue;
        }
        for (at, flag) in text.char_indices().skip(1) {
            match flag {
                'n' => options.numbers = true,
                'r' => options.reverse = true,
                'u' => options.unique = true,
                'k' => {
                    let rest = text[at + 1..].to_owned();
                    let field = if rest.is_empty() {
                        arguments.next().map(|text| text.to_string_lossy().into_owned()).unwrap_or_default()
                    } else {
                        rest
                    };
                    match field.split(',').next().unwrap_or_default().parse() {
                        Ok(field) if field > 0 => options.field = field,
                        _ => return wrong(&format!("{field}: this is no field")),
                    }
                    break;
                }
                _ => return wrong(&format!("-{flag}: there is no such option")),
            }
        }
    }
    match sort(&options, &files) {
        Ok(()) => 0,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => 1,
        Err(error) => {
            eprintln!("sort: {error}");
            2
        }
    }
}

fn wrong(problem: &str) -> i32 {
    eprintln!("sort: {problem}\n{USAGE}");
    2
}

fn sort(options: &Options, files: &[OsString]) -> io::Result<()> {
    let mut bytes = Vec::new();
    if files.is_empty() {
        io::stdin().read_to_end(&mut bytes)?;
    }
    for file in files {
        if file == "-" {
            io::stdin().read_to_end(&mut bytes)?;
        } else {
            let more =
                fs::read(file).map_err(|error| io::Error::other(format!("{}: {error}", file.to_string_lossy())))?;
            bytes.extend(more);
        }
        if bytes.last().is_some_and(|last| *last != b'\n') {
            bytes.push(b'\n');
        }
    }
    let mut lines: Vec<&[u8]> = bytes.strip_suffix(b"\n").unwrap_or(&bytes).split(|byte| *byte == b'\n').collect();
    if bytes.is_empty() {
        lines.clear();
    }
    lines.sort_by(|one, two| {
        let order = compare(options, one, two);
        let order = if order.is_eq() && !options.unique { one.cmp(two) } else { order };
        if options.reverse { order.reverse() } else { order }
    });
    if options.unique {
        lines.dedup_by(|one, two| compare(options, one, two).is_eq());
    }
    let mut output = io::BufWriter::new(io::stdout().lock());
    for line in lines {
        output.write_all(line)?;
        output.write_all(b"\n")?;
    }
    output.flush()
}

fn compare(options: &Options, one: &[u8], two: &[u8]) -> Ordering {
    let (one, two) = (key(options, one), key(options, two));
    if options.numbers { number(one).total_cmp(&number(two)) } else { one.cmp(two) }
}

/// The part of a line that is compared.
fn key<'a>(options: &Options, line: &'a [u8]) -> &'a [u8] {
    let mut rest = line;
    for _ in 1..options.field {
        let start = rest.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(rest.len());
        let end = rest[start..].iter().position(u8::is_ascii_whitespace).map_or(rest.len(), |end| start + end);
        rest = &rest[end..];
    }
    rest
}

/// The number at the start of a text; 0 if there is none.
fn number(text: &[u8]) -> f64 {
    let text = String::from_utf8_lossy(text);
    let text = text.trim_start();
    let digits = text.find(|char: char| !char.is_ascii_digit() && !matches!(char, '-' | '.')).unwrap_or(text.len());
    text[..digits].parse().unwrap_or(0.0)
}
