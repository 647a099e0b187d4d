//! `echo`: prints its arguments on a line, as POSIX specifies, and `-n` for no newline.

use std::ffi::OsString;
use std::io::Write;

/// Runs it; the first argument is its name. Returns its exit code.
pub fn main(arguments: impl Iterator<Item = OsString>) -> i32 {
    let mut words: Vec<OsString> = arguments.skip(1).collect();
    let ends = words.first().is_none_or(|word| word != "-n");
    if !ends {
        words.remove(0);
    }
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_encoded_bytes()).collect();
    let mut line = words.join(&b' ');
    if ends {
        line.push(b'\n');
    }
    match std::io::stdout().write_all(&line) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("echo: {error}");
            1
        }
    }
}
