//! Changes files on a disk, for tests that cut the power: `churn play FOLDER SEED COUNT KIND`, `churn save FOLDER
//! FIRST` and `churn write FOLDER MIB TIMES HEARD`.
//!
//! `play` carries out random operations ([`cuts::plan`]) for a file system of the kind `ext4` or `fat`, and syncs each
//! one in the way that its number determines. After each answered sync it writes the number of synced operations to the
//! mark file on the disk.
//!
//! `save` saves four files in turn without end, as editors do: it writes a new file, syncs it, and renames it over the
//! old one. It prints `saved N` after the rename is synced, too.
//!
//! `write` writes MIB mebibytes to one file and reports its progress TIMES times. The reader of a report adds a byte to
//! the file `HEARD`; `write` waits for that byte before the next report.
#![forbid(unsafe_code)]

use std::fs::{self, File, OpenOptions};
use std::io::{Error, ErrorKind, Result, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

use cuts::log::mark;
use cuts::plan::{Abilities, MARK, Model, Operation, SyncMode, content, way};
use cuts::{Random, saves};

const USAGE: &str =
    "usage: churn play FOLDER SEED COUNT ext4|fat, churn save FOLDER FIRST, or churn write FOLDER MIB TIMES HEARD";

/// The system starts a driver at most this often within a minute. If `write` makes at least as many reports, it pauses
/// this long before each.
const STARTS: u64 = 10;
const PAUSE: Duration = Duration::from_secs(7);

fn carry_out(root: &Path, operation: &Operation) -> Result<()> {
    match operation {
        Operation::Make(path, content) => File::create_new(root.join(path))?.write_all(content),
        Operation::MakeDirectory(path) => fs::create_dir(root.join(path)),
        Operation::Link(from, to) => fs::hard_link(root.join(from), root.join(to)),
        Operation::Append(path, content) => OpenOptions::new().append(true).open(root.join(path))?.write_all(content),
        Operation::Overwrite(path, at, content) => {
            let mut file = OpenOptions::new().write(true).open(root.join(path))?;
            file.seek(SeekFrom::Start(*at as u64))?;
            file.write_all(content)
        }
        Operation::Resize(path, size) => OpenOptions::new().write(true).open(root.join(path))?.set_len(*size as u64),
        Operation::Rename(from, to, open) => {
            let _held = open.then(|| File::open(root.join(to))).transpose()?;
            fs::rename(root.join(from), root.join(to))
        }
        Operation::Remove(path, open) => {
            let _held = open.then(|| File::open(root.join(path))).transpose()?;
            fs::remove_file(root.join(path))
        }
        Operation::RemoveDirectory(path) => fs::remove_dir(root.join(path)),
    }
}

/// Syncs through a directory's handle.
fn sync(root: &Path) -> Result<()> {
    File::open(root)?.sync_all()
}

/// Writes the number of synced operations to the mark file. Uses `open` if given, and leaves it open.
fn tell(root: &Path, open: Option<&mut File>, number: u64) -> Result<()> {
    let mut own = None;
    let file = match open {
        Some(file) => file,
        None => own.insert(OpenOptions::new().write(true).open(root.join(MARK))?),
    };
    file.seek(SeekFrom::Start(0))?;
    file.write_all(&mark(number))?;
    file.sync_data()
}

fn play(root: &Path, seed: u64, count: u64, can: Abilities) -> Result<()> {
    let (mut lot, mut model) = (Random::new(seed), Model::default());
    File::create_new(root.join(MARK))?.write_all(&mark(0))?;
    sync(root)?;
    let mut open = None;
    for index in 0..count {
        let (way, synced) = way(seed, index);
        match way {
            SyncMode::Closed => open = None,
            _ if open.is_none() => open = Some(OpenOptions::new().write(true).open(root.join(MARK))?),
            _ => {}
        }
        let operation = model.draw(&mut lot, can);
        carry_out(root, &operation).map_err(|error| {
            let shown = format!("{operation:?}");
            Error::other(format!("operation {index}, {}: {error}", shown.chars().take(100).collect::<String>()))
        })?;
        model.apply(&operation);
        if synced || index + 1 == count {
            sync(root)?;
            tell(root, open.as_mut(), index + 1)?;
        }
        if way == SyncMode::Closed {
            // Without an open file this unmounts the file system.
            sync(root)?;
        }
    }
    println!("played {count}");
    Ok(())
}

fn save(root: &Path, first: u64) -> Result<()> {
    for number in first.. {
        let (path, new) = (root.join(saves::name(number)), root.join("new"));
        let mut file = File::create(&new)?;
        file.write_all(&saves::content(number))?;
        file.sync_all()?;
        drop(file);
        fs::rename(&new, &path)?;
        sync(root)?;
        println!("saved {number}");
    }
    Ok(())
}

fn write(root: &Path, mib: u64, times: u64, heard: &Path) -> Result<()> {
    let mut file = File::create(root.join("written"))?;
    let mut said = 0;
    for number in 0..mib {
        file.write_all(&content(number as u8, 1 << 20))?;
        if number * (times + 1) / mib != (number + 1) * (times + 1) / mib && number + 1 < mib {
            // Waits until the reader has acknowledged the previous report: the disk has worked since.
            while fs::metadata(heard).map_or(0, |heard| heard.len()) < said {
                std::thread::sleep(Duration::from_millis(1));
            }
            file.sync_all()?;
            if times >= STARTS {
                std::thread::sleep(PAUSE);
            }
            println!("{} MiB", number + 1);
            said += 1;
        }
    }
    file.sync_all()
}

fn main() -> Result<()> {
    let usage = || Error::new(ErrorKind::InvalidInput, USAGE);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse().map_err(|_| usage());
    match arguments.as_slice() {
        ["play", root, seed, count, kind] => {
            let can = Abilities::of(kind).ok_or_else(usage)?;
            play(Path::new(root), number(seed)?, number(count)?, can)
        }
        ["save", root, first] => save(Path::new(root), number(first)?),
        ["write", root, mib, times, heard] => write(Path::new(root), number(mib)?, number(times)?, Path::new(heard)),
        _ => Err(usage()),
    }
}
