//! Measures how long file operations take, by the clock: a line `figure NAME COUNT NANOSECONDS` for each kind of work.
//! If the clock counts instructions, so do the figures.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Result, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use crate::Numbers;

/// Size of the large file, and of the pieces in which it is read and written, in bytes.
const LARGE: u64 = 16 << 20;
const PIECE: usize = 64 << 10;
const SMALL: usize = 4096;
/// Number of files that are created, and of repetitions of an operation.
const FILES: u64 = 400;
const TIMES: u64 = 100;

fn figure(name: &str, count: u64, work: impl FnOnce() -> Result<()>) -> Result<()> {
    let start = Instant::now();
    work()?;
    println!("figure {name} {count} {}", start.elapsed().as_nanos());
    Ok(())
}

pub fn speed(dir: &Path) -> Result<()> {
    let path = dir.join("large");
    let piece = vec![0x5a; PIECE];
    figure("write", LARGE, || {
        let mut file = File::create(&path)?;
        for _ in 0..LARGE / PIECE as u64 {
            file.write_all(&piece)?;
        }
        file.sync_all()
    })?;
    figure("read", LARGE, || {
        let (mut file, mut bytes) = (File::open(&path)?, vec![0; PIECE]);
        for _ in 0..LARGE / PIECE as u64 {
            file.read_exact(&mut bytes)?;
        }
        Ok(())
    })?;
    let mut numbers = Numbers(3);
    let mut place = || numbers.next(LARGE / SMALL as u64) * SMALL as u64;
    figure("read-anywhere", TIMES, || {
        let (file, mut bytes) = (File::open(&path)?, [0; SMALL]);
        (0..TIMES).try_for_each(|_| file.read_exact_at(&mut bytes, place()))
    })?;
    figure("write-anywhere", TIMES, || {
        let file = OpenOptions::new().write(true).open(&path)?;
        (0..TIMES).try_for_each(|_| file.write_all_at(&piece[..SMALL], place()))?;
        file.sync_all()
    })?;
    let folder = dir.join("folder");
    fs::create_dir(&folder)?;
    figure("create", FILES, || {
        (0..FILES).try_for_each(|file| fs::write(folder.join(format!("file {file}")), "content"))
    })?;
    figure("remove", FILES, || (0..FILES).try_for_each(|file| fs::remove_file(folder.join(format!("file {file}")))))?;
    figure("append-and-sync", TIMES, || {
        let mut file = File::create(dir.join("log"))?;
        (0..TIMES).try_for_each(|_| {
            file.write_all(&piece[..100])?;
            file.sync_all()
        })
    })?;
    figure("save-by-renaming", TIMES, || {
        (0..TIMES).try_for_each(|_| {
            let new = dir.join("new");
            let mut file = File::create(&new)?;
            file.write_all(&piece[..SMALL])?;
            file.sync_all()?;
            fs::rename(new, dir.join("saved"))
        })
    })
}
