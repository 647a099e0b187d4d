//! `ls`: lists names, one per line; with `-l` also type and size.

use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io::{self, Write};
use std::path::Path;

const USAGE: &str = "usage: ls [-adl] [PATH...]";

struct Options {
    long: bool,
    hidden: bool,
    itself: bool,
}

/// Lists the paths; returns the exit code.
pub fn main(arguments: impl Iterator<Item = OsString>) -> i32 {
    let mut options = Options { long: false, hidden: false, itself: false };
    let mut paths = Vec::new();
    for argument in arguments.skip(1) {
        match argument.to_str() {
            Some(flags) if flags.len() > 1 && flags.starts_with('-') => {
                for flag in flags[1..].chars() {
                    match flag {
                        'l' => options.long = true,
                        'a' => options.hidden = true,
                        'd' => options.itself = true,
                        // One name per line is the default.
                        '1' => {}
                        _ => {
                            eprintln!("ls: -{flag}: there is no such option\n{USAGE}");
                            return 2;
                        }
                    }
                }
            }
            _ => paths.push(argument),
        }
    }
    if paths.is_empty() {
        paths.push(".".into());
    }
    paths.sort();
    let several = paths.len() > 1;
    let mut code = 0;
    for path in &paths {
        let path = Path::new(path);
        if let Err(error) = list(path, &options, several) {
            if error.kind() == io::ErrorKind::BrokenPipe {
                return 1;
            }
            eprintln!("ls: {}: {error}", path.display());
            code = 1;
        }
    }
    code
}

fn list(path: &Path, options: &Options, several: bool) -> io::Result<()> {
    let mut text = String::new();
    let data = fs::symlink_metadata(path)?;
    if options.itself || !fs::metadata(path).is_ok_and(|data| data.is_dir()) {
        row(&mut text, &path.to_string_lossy(), Some(&data), options);
    } else {
        if several {
            text.push_str(&format!("{}:\n", path.display()));
        }
        let mut rows = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if options.hidden || !name.starts_with('.') {
                // A file that was removed meanwhile is listed without its metadata.
                rows.push((name, fs::symlink_metadata(entry.path()).ok()));
            }
        }
        rows.sort_by(|one, two| one.0.cmp(&two.0));
        rows.iter().for_each(|(name, data)| row(&mut text, name, data.as_ref(), options));
    }
    io::stdout().write_all(text.as_bytes())
}

fn row(text: &mut String, name: &str, data: Option<&Metadata>, options: &Options) {
    if options.long {
        let kind = data.map_or('?', |data| match data.file_type() {
            kind if kind.is_dir() => 'd',
            kind if kind.is_symlink() => 'l',
            _ => '-',
        });
        let size = data.map(|data| data.len().to_string()).unwrap_or_default();
        text.push_str(&format!("{kind} {size:>12}  "));
    }
    text.push_str(name);
    text.push('\n');
}
