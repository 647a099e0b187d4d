//! `disk`: creates, writes and reads disks for `run --disk` on the host, without superuser rights and without mounting.
//!
//! Images are accessed with the file systems that the system itself uses ([`tree`]). A machine may have written an
//! image, so its content is untrusted: names are checked before anything is created under them, and reading a structure
//! with cycles ends ([`device`]).

mod device;
mod tree;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::args::DiskCommand;
use device::Device;
use xtask_common::programs::find_program;
use xtask_common::words;

/// Maximum depth of nested folders.
const DEPTH: usize = 64;

/// A file system.
trait Volume {
    /// The entries of a folder.
    fn list(&mut self, path: &[String]) -> Result<Vec<Entry>>;
    /// A file's content.
    fn read(&mut self, path: &[String], to: &mut dyn Write) -> Result<()>;
    /// Creates a folder, unless it exists.
    fn make_folder(&mut self, path: &[String]) -> Result<()>;
    /// Creates or replaces a file with this content.
    fn write(&mut self, path: &[String], from: &mut dyn Read) -> Result<()>;
    /// Removes a file.
    fn remove(&mut self, path: &[String]) -> Result<()>;
    /// Writes all pending data, and marks the file system as clean.
    fn end(self: Box<Self>) -> Result<()>;
    /// The error that the file system records about itself.
    fn complaint(&mut self) -> Result<Option<String>>;
}

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    File,
    Folder,
    /// A link or anything else.
    Other,
}

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    name: String,
    kind: Kind,
    size: u64,
}

fn open(image: &Path, writable: bool) -> Result<Box<dyn Volume>> {
    let device = Device::open(image, writable)?;
    tree::open(device, writable).with_context(|| image.display().to_string())
}

/// Carries out a command; returns this process' exit code.
///
/// # Errors
/// An image or a file cannot be read or written, or is damaged.
pub fn disk(command: &DiskCommand) -> Result<u8> {
    match command {
        DiskCommand::New { image, size, fat } => new(image, *size, *fat).map(|()| 0),
        DiskCommand::Ls { image, path } => {
            for Entry { name, kind, size } in list(&mut *open(image, false)?, &parts(path)?)? {
                let end = if kind == Kind::Folder { "/" } else { "" };
                writeln!(std::io::stdout(), "{size:>12} {}{end}", words::visible(&name)).context("cannot write")?;
            }
            Ok(0)
        }
        DiskCommand::Put { image, from, to } => {
            let mut volume = open(image, true)?;
            let name = from.canonicalize().ok().and_then(|path| Some(path.file_name()?.to_str()?.to_owned()));
            let name = name.with_context(|| format!("{}: it has no name in UTF-8", from.display()))?;
            let mut path = parts(to)?;
            // If the path is an existing folder, the file goes into it; otherwise the last name is the new one.
            if volume.list(&path).is_ok() {
                path.push(name);
            }
            let put = put(&mut *volume, from, &mut path);
            // Everything written so far is kept, even if the rest failed.
            let end = volume.end();
            put.and(end).map(|()| 0)
        }
        DiskCommand::Get { image, from, to } => {
            let mut volume = open(image, false)?;
            let mut path = parts(from)?;
            let name = path.last().map(String::as_str).unwrap_or_default();
            let to = if to.is_dir() { to.join(name) } else { to.clone() };
            get(&mut *volume, &mut path, &to).map(|()| 0)
        }
        DiskCommand::Check { image } => check(image),
    }
}

/// Splits a path on an image into names.
fn parts(path: &str) -> Result<Vec<String>> {
    let parts: Vec<String> =
        path.split('/').filter(|part| !part.is_empty() && *part != ".").map(str::to_string).collect();
    match parts.iter().find(|part| *part == "..") {
        Some(_) => bail!("{path}: `..` means nothing on an image"),
        None => Ok(parts),
    }
}

fn new(image: &Path, size: u64, fat: bool) -> Result<()> {
    let name = image.display();
    let file = File::create_new(image).with_context(|| format!("cannot make {name}"))?;
    let make = || {
        file.set_len(size.next_multiple_of(1 << 20))?;
        let device = Device::open(image, true)?;
        if fat { tree::format_fat(device) } else { tree::format_ext4(device) }
    };
    make().with_context(|| format!("cannot make {name}")).inspect_err(|_| drop(fs::remove_file(image)))
}

/// The entries of a folder, sorted by name.
fn list(volume: &mut dyn Volume, path: &[String]) -> Result<Vec<Entry>> {
    let mut entries = volume.list(path).with_context(|| format!("/{}", path.join("/")))?;
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

fn put(volume: &mut dyn Volume, from: &Path, path: &mut Vec<String>) -> Result<()> {
    let here = || format!("{} to /{}", from.display(), path.join("/"));
    let data = fs::metadata(from).with_context(here)?;
    if !data.is_dir() {
        let mut file = File::open(from).with_context(here)?;
        // A partial file must not look like a complete one.
        let written = volume.write(path, &mut file);
        return written.or_else(|error| volume.remove(path).and(Err(error))).with_context(here);
    }
    volume.make_folder(path).with_context(here)?;
    let entries = fs::read_dir(from).with_context(here)?;
    let mut entries = entries.collect::<std::io::Result<Vec<_>>>().with_context(here)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let entry = entry.path();
        if entry.is_symlink() {
            words::say(&format!("hafnon: {}: a link, which is left out", entry.display()));
            continue;
        }
        let name = entry.file_name().and_then(|name| name.to_str());
        path.push(name.with_context(|| format!("{}: the name is not UTF-8", entry.display()))?.to_owned());
        put(volume, &entry, path)?;
        path.pop();
    }
    Ok(())
}

fn get(volume: &mut dyn Volume, path: &mut Vec<String>, to: &Path) -> Result<()> {
    let here = || format!("/{} to {}", path.join("/"), to.display());
    if path.len() > DEPTH {
        bail!("{}: folders lie too deep in each other", here());
    }
    let kind = match path.split_last() {
        None => Kind::Folder,
        Some((name, above)) => {
            let entries = volume.list(above).with_context(here)?;
            let is_it = |entry: &&Entry| entry.name == *name;
            entries.iter().find(is_it).with_context(|| format!("/{}: it is not there", path.join("/")))?.kind
        }
    };
    match kind {
        Kind::Other => words::say(&format!("hafnon: /{}: a link or a socket, which is left out", path.join("/"))),
        Kind::File => {
            let mut file = File::create(to).with_context(here)?;
            volume.read(path, &mut file).with_context(here)?;
        }
        Kind::Folder => {
            fs::create_dir_all(to).with_context(here)?;
            for Entry { name, .. } in list(volume, path)? {
                // A machine may have chosen the name: it must be a single name here, not a path.
                if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']) {
                    bail!("/{}: a name that cannot be one: {}", path.join("/"), words::visible(&name));
                }
                path.push(name.clone());
                get(volume, path, &to.join(name))?;
                path.pop();
            }
        }
    }
    Ok(())
}

/// Checks the file system: with the host's own program if there is one, and by reading all of it.
fn check(image: &Path) -> Result<u8> {
    let device = Device::open(image, false)?;
    let (program, args) = if tree::is_ext4(&device) { ("e2fsck", "-fn") } else { ("fsck.vfat", "-n") };
    drop(device);
    let mut found = None;
    // The program's folder is often not in an ordinary user's PATH.
    let places = [find_program(program), Some(Path::new("/sbin").join(program))];
    if let Some(program) = places.into_iter().flatten().find(|program| program.is_file()) {
        let output = Command::new(&program).arg(args).arg(image).stdin(Stdio::null()).output();
        let output = output.with_context(|| format!("cannot start {}", program.display()))?;
        words::say(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).trim_end());
        if !output.status.success() {
            found = Some(format!("{} finds something wrong", program.display()));
        }
    }
    let mut volume = open(image, false)?;
    found = found.or(volume.complaint()?);
    let read = count(&mut *volume, &mut Vec::new());
    let found = match read {
        Ok((files, bytes)) if found.is_none() => {
            words::say(&format!("hafnon: in order: {files} files, {bytes} bytes"));
            return Ok(0);
        }
        Ok(_) => found.unwrap_or_default(),
        Err(error) => format!("{error:#}"),
    };
    words::say(&format!("hafnon: {}: {found}", image.display()));
    Ok(1)
}

/// Reads everything; returns the number of files, and of bytes in them.
fn count(volume: &mut dyn Volume, path: &mut Vec<String>) -> Result<(u64, u64)> {
    if path.len() > DEPTH {
        bail!("/{}: folders lie too deep in each other", path.join("/"));
    }
    let mut sum = (0, 0);
    for Entry { name, kind, size } in list(volume, path)? {
        path.push(name);
        match kind {
            Kind::Other => {}
            Kind::File => {
                volume.read(path, &mut std::io::sink()).with_context(|| format!("/{}", path.join("/")))?;
                sum = (sum.0 + 1, sum.1 + size);
            }
            Kind::Folder => {
                let inside = count(volume, path)?;
                sum = (sum.0 + inside.0, sum.1 + inside.1);
            }
        }
        path.pop();
    }
    Ok(sum)
}

#[cfg(test)]
mod tests;
