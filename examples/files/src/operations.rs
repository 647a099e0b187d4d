//! Random operations on the files below a directory. Each prints its result on a line. The same seed gives the same
//! lines on all systems whose files behave the same.
//!
//! Values that correct file systems may report differently are left out: the size of directories and their number of
//! links, permissions of group and others (the umask), the current time.

use std::collections::hash_map::DefaultHasher;
use std::fs::{self, File, FileTimes, Metadata, OpenOptions, Permissions};
use std::hash::{Hash, Hasher};
use std::io::{Read, Result, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::Numbers;

/// Names in paths: few, so that operations hit the same files.
const FILES: [&str; 5] = ["a", "b", "c", "with blanks in it", "a-name-that-goes-on-for-quite-a-while.txt"];
const FOLDERS: [&str; 3] = ["folder", "folder.d", "Größe"];

pub struct Operations {
    root: PathBuf,
    numbers: Numbers,
    /// Files that stay open, even if their names change or are removed.
    open: Vec<File>,
}

/// The attributes of a file that are printed.
fn told(metadata: &Metadata) -> String {
    let kind = metadata.file_type();
    let mode = metadata.permissions().mode() & 0o700;
    if kind.is_dir() {
        format!("directory {mode:o}")
    } else if kind.is_symlink() {
        format!("link of {}", metadata.len())
    } else {
        format!("file of {}, {mode:o}, {} names", metadata.len(), metadata.nlink())
    }
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish() & 0xffff_ffff
}

/// Time since 1970, with nanoseconds.
fn since(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("{}.{:09}", since.as_secs(), since.subsec_nanos())
}

impl Operations {
    pub fn new(root: &Path, seed: u64) -> Result<Operations> {
        Ok(Operations { root: root.canonicalize()?, numbers: Numbers(seed), open: Vec::new() })
    }

    /// Carries out this many operations, and prints the result of each.
    pub fn run(&mut self, count: u64) {
        for number in 1..=count {
            let (what, came) = self.one();
            match came {
                Ok(came) => println!("{number} {what}: {came}"),
                Err(error) => println!("{number} {what}: {:?}", error.kind()),
            }
        }
    }

    /// A name: sometimes a folder's name for a file, and vice versa.
    fn name(&mut self, folder: bool) -> &'static str {
        let names: &[&str] = if folder == (self.numbers.next(10) > 0) { &FOLDERS } else { &FILES };
        names[self.numbers.next(names.len() as u64) as usize]
    }

    /// A path from the root.
    fn path(&mut self, folder: bool) -> String {
        let depth = [0, 0, 0, 1, 1, 2][self.numbers.next(6) as usize];
        let above: Vec<&str> = (0..depth).map(|_| self.name(true)).collect();
        [above, vec![self.name(folder)]].concat().join("/")
    }

    fn bytes(&mut self) -> Vec<u8> {
        let len = [100, 5000, 30_000][self.numbers.next(3) as usize];
        let len = self.numbers.next(len);
        let byte = self.numbers.next(256) as u8;
        (0..len).map(|at| byte.wrapping_add(at as u8)).collect()
    }

    fn one(&mut self) -> (String, Result<String>) {
        let kind = self.numbers.next(28);
        let folder = matches!(kind, 9..=13 | 23 | 26) || self.numbers.next(5) == 0 && matches!(kind, 16..=22);
        let path = self.path(folder);
        let full = self.root.join(&path);
        let done = |result: Result<()>| result.map(|()| "done".to_owned());
        match kind {
            0..=2 => {
                let bytes = self.bytes();
                (format!("write {path} {}", bytes.len()), done(fs::write(full, bytes)))
            }
            3 => {
                let bytes = self.bytes();
                let mut options = OpenOptions::new();
                let options = options.append(true).create(self.numbers.next(2) == 0);
                let came = options.open(full).and_then(|mut file| file.write_all(&bytes));
                (format!("append {path} {}", bytes.len()), done(came))
            }
            4 | 5 => {
                let came = fs::read(full).map(|bytes| format!("{} {:x}", bytes.len(), hash(&bytes)));
                (format!("read {path}"), came)
            }
            6 => {
                let len = self.numbers.next(60_000);
                let came = OpenOptions::new().write(true).open(full).and_then(|file| file.set_len(len));
                (format!("set_len {path} {len}"), done(came))
            }
            7 => {
                let (at, bytes) = (self.numbers.next(80_000), self.bytes());
                let came = OpenOptions::new().write(true).open(full).and_then(|file| file.write_all_at(&bytes, at));
                (format!("write_at {path} {at} {}", bytes.len()), done(came))
            }
            8 => (format!("create_new {path}"), done(File::create_new(full).map(drop))),
            9..=11 => (format!("create_dir {path}"), done(fs::create_dir(full))),
            12 => (format!("create_dir_all {path}"), done(fs::create_dir_all(full))),
            13 => (format!("remove_dir {path}"), done(fs::remove_dir(full))),
            14 | 15 => (format!("remove_file {path}"), done(fs::remove_file(full))),
            16 | 17 => {
                let to = self.path(folder);
                (format!("rename {path} {to}"), done(fs::rename(full, self.root.join(&to))))
            }
            18 => {
                let to = self.path(folder);
                (format!("hard_link {path} {to}"), done(fs::hard_link(full, self.root.join(&to))))
            }
            19 => {
                let target = match self.numbers.next(4) {
                    0 => self.name(folder).to_owned(),
                    1 => format!("../{}", self.name(folder)),
                    2 => format!("./{}/", self.name(true)),
                    _ => self.path(folder),
                };
                (format!("symlink {target} {path}"), done(symlink(&target, full)))
            }
            20 => {
                let came = fs::read_link(full).map(|target| target.display().to_string());
                (format!("read_link {path}"), came)
            }
            21 => (format!("metadata {path}"), fs::metadata(full).map(|found| told(&found))),
            22 => (format!("symlink_metadata {path}"), fs::symlink_metadata(full).map(|found| told(&found))),
            23 => (format!("read_dir {path}"), self.list(&full)),
            24 => {
                let mode = 0o600 | self.numbers.next(0o100) as u32 & 0o77 | (self.numbers.next(2) as u32) << 6;
                // The owner must still be able to search directories.
                let came = fs::metadata(&full).and_then(|found| {
                    let mode = if found.is_dir() { mode | 0o100 } else { mode };
                    fs::set_permissions(&full, Permissions::from_mode(mode))?;
                    Ok(format!("{:o}", fs::metadata(&full)?.permissions().mode() & 0o777))
                });
                (format!("set_permissions {path}"), came)
            }
            25 => (format!("set_times {path}"), self.times(&full)),
            26 if self.numbers.next(8) == 0 => (format!("remove_dir_all {path}"), done(fs::remove_dir_all(full))),
            26 => {
                let came = full.canonicalize().map(|found| {
                    found
                        .strip_prefix(&self.root)
                        .map_or_else(|_| "elsewhere".into(), |rest| rest.display().to_string())
                });
                (format!("canonicalize {path}"), came)
            }
            _ => self.with_open(&path, &full),
        }
    }

    fn list(&self, path: &Path) -> Result<String> {
        let mut names = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            let mark = if kind.is_dir() {
                "/"
            } else if kind.is_symlink() {
                "@"
            } else {
                ""
            };
            names.push(format!("{}{mark}", entry.file_name().to_string_lossy()));
        }
        names.sort();
        Ok(names.join(", "))
    }

    fn times(&mut self, path: &Path) -> Result<String> {
        let mut time = || {
            let (seconds, nanos) = (self.numbers.next(4_000_000_000), self.numbers.next(1_000_000_000) as u32);
            SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos)
        };
        let times = FileTimes::new().set_accessed(time()).set_modified(time());
        File::open(path)?.set_times(times)?;
        let found = fs::metadata(path)?;
        Ok(format!("{} {}", since(found.accessed()?), since(found.modified()?)))
    }

    /// An operation on a file that stays open for long.
    fn with_open(&mut self, path: &str, full: &Path) -> (String, Result<String>) {
        let index = self.numbers.next(5) as usize;
        if index >= self.open.len() {
            let opened = OpenOptions::new().read(true).write(true).open(full);
            let came = opened.map(|file| {
                self.open.push(file);
                "open".to_owned()
            });
            return (format!("open {path}"), came);
        }
        let (choice, bytes, at) = (self.numbers.next(6), self.bytes(), self.numbers.next(50_000));
        if choice == 0 {
            drop(self.open.remove(index));
            return (format!("close {index}"), Ok("done".to_owned()));
        }
        let file = &mut self.open[index];
        let what = ["", "write", "read", "length", "cut", "sync"][choice as usize];
        let came = match choice {
            1 => file.seek(SeekFrom::Start(at)).and_then(|_| file.write_all(&bytes)).map(|()| "done".to_owned()),
            2 => {
                let mut found = Vec::new();
                let read = file.seek(SeekFrom::Start(at)).and_then(|_| file.read_to_end(&mut found));
                read.map(|len| format!("{len} {:x}", hash(&found)))
            }
            3 => file.metadata().map(|found| told(&found)),
            4 => file.set_len(at).map(|()| "done".to_owned()),
            _ => file.sync_all().map(|()| "done".to_owned()),
        };
        (format!("{what} {index} {at} {}", bytes.len()), came)
    }
}
