//! Parcels: what goes into the mailbox.

use std::fs;
use std::path::{Path, PathBuf};

use ::batch::{FILES, PROGRAM, START, Start};
use anyhow::{Context as _, Result, bail};
use bootfs::Writer;

/// The most bytes of a folder's files.
const MOST: u64 = 64 << 20;

/// A program, and how to start it.
///
/// # Errors
/// It has no name.
pub fn of_program(start: &Start, program: &[u8]) -> Result<Vec<u8>> {
    let mut image = Writer::new();
    image.add(START, start.encode().context("cannot encode a start")?)?;
    image.add(&format!("{PROGRAM}/{}", start.name), program)?;
    Ok(image.to_bytes()?)
}

/// The files of a package's folder, without what is built from it, and what only tools look at.
///
/// # Errors
/// They are too many, or cannot be read.
pub fn of_folder(folder: &Path) -> Result<Vec<u8>> {
    let mut image = Writer::new();
    let mut total = 0;
    let mut open = vec![(folder.to_path_buf(), FILES.to_owned())];
    while let Some((folder, path)) = open.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let entry: PathBuf = entry.with_context(|| format!("cannot read {}", folder.display()))?.path();
            // What has no name in UTF-8 cannot be carried.
            let Some(name) = entry.file_name().and_then(|name| name.to_str()) else { continue };
            let path = format!("{path}/{name}");
            if entry.is_dir() {
                let built = entry.join("CACHEDIR.TAG").exists() || name == "target" || name == ".git";
                if !built && !entry.is_symlink() {
                    open.push((entry, path));
                }
            } else if entry.is_file() {
                let bytes = fs::read(&entry).with_context(|| format!("cannot read {}", entry.display()))?;
                total += bytes.len() as u64;
                if total > MOST {
                    bail!("{} has more than {} MiB of files", folder.display(), MOST >> 20);
                }
                image.add(&path, bytes)?;
            }
        }
    }
    Ok(image.to_bytes()?)
}
