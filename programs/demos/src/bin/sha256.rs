//! Prints the SHA-256 of files, four at a time; without arguments, of the programs in the boot image.
#![forbid(unsafe_code)]

use std::fs::{self, File};
use std::io::{self, Read};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use sha2::{Digest, Sha256};

const PROGRAMS: &str = "/boot/bin";

fn main() -> ExitCode {
    let mut files: Vec<String> = std::env::args().skip(1).collect();
    if files.is_empty() {
        files = match list() {
            Ok(files) => files,
            Err(error) => {
                eprintln!("sha256: {PROGRAMS}: {error}");
                return ExitCode::FAILURE;
            }
        };
    }
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..4 {
            let (sender, next, files) = (sender.clone(), &next, &files);
            scope.spawn(move || {
                while let Some((index, file)) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|index| Some((index, files.get(index)?)))
                {
                    // The receiver lives as long as this scope.
                    let _ = sender.send((index, hash(file)));
                }
            });
        }
        drop(sender);
    });
    let mut results: Vec<_> = receiver.into_iter().collect();
    results.sort_by_key(|(index, _)| *index);
    let mut code = ExitCode::SUCCESS;
    for (index, result) in results {
        match result {
            Ok((hash, length)) => println!("{hash}  {} ({length} bytes)", files[index]),
            Err(error) => {
                eprintln!("sha256: {}: {error}", files[index]);
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}

fn list() -> io::Result<Vec<String>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(PROGRAMS)? {
        let path = entry?.path();
        if path.is_file() {
            files.push(path.to_string_lossy().into_owned());
        }
    }
    files.sort();
    Ok(files)
}

fn hash(path: &str) -> io::Result<(String, u64)> {
    let mut file = File::open(path)?;
    let (mut hasher, mut length) = (Sha256::new(), 0);
    let mut bytes = vec![0; 64 << 10];
    loop {
        match file.read(&mut bytes)? {
            0 => break,
            count => {
                hasher.update(&bytes[..count]);
                length += count as u64;
            }
        }
    }
    let hash: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok((hash, length))
}
