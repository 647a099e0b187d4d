//! Parcels: the contents of the mailbox.

use std::fs;
use std::path::{Path, PathBuf};

use ::batch::{FILES, PROGRAM, START, Start};
use anyhow::{Context as _, Result, bail};
use bootfs::Writer;

use xtask_build::elf;

/// Maximum size of a folder's files in bytes.
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

/// A folder that several programs see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Folder {
    /// A package's files.
    Files(PathBuf),
    /// Programs, and the folder in which they were built.
    Programs(PathBuf, Vec<PathBuf>),
}

impl Folder {
    /// The programs that cargo built in a folder from this package, if there are any: its binaries and its examples.
    /// Programs of other packages are there too; cargo's dependency file next to a program lists its sources.
    ///
    /// # Errors
    /// A file or folder cannot be read.
    pub fn programs(built: &Path, package: &Path) -> Result<Option<Folder>> {
        let mut programs = Vec::new();
        for folder in [built.to_path_buf(), built.join("examples")] {
            let Ok(entries) = fs::read_dir(&folder) else { continue };
            for entry in entries {
                let sources = entry.with_context(|| format!("cannot read {}", folder.display()))?.path();
                let program = sources.with_extension("");
                if sources.extension().is_some_and(|end| end == "d") && program.is_file() {
                    let text = fs::read(&sources).with_context(|| format!("cannot read {}", sources.display()))?;
                    if is_from(&String::from_utf8_lossy(&text), package) {
                        programs.push(program);
                    }
                }
            }
        }
        programs.sort();
        Ok((!programs.is_empty()).then(|| Folder::Programs(built.to_path_buf(), programs)))
    }

    /// Encodes the folder as a parcel.
    ///
    /// # Errors
    /// It is too large, or cannot be read.
    pub fn parcel(&self) -> Result<Vec<u8>> {
        match self {
            Folder::Files(folder) => of_files(folder),
            Folder::Programs(built, programs) => of_programs(built, programs),
        }
    }
}

/// Whether a dependency list (`FILE: SOURCE SOURCE...`, in the format of `make`) has a source in this folder.
fn is_from(list: &str, folder: &Path) -> bool {
    let sources =
        list.lines().filter_map(|line| line.split_once(": ")).map(|(_, sources)| sources.replace("\\ ", "\0"));
    sources
        .flat_map(|sources| sources.split(' ').map(|source| source.replace('\0', " ")).collect::<Vec<_>>())
        .any(|source| Path::new(&source).starts_with(folder))
}

fn of_programs(built: &Path, programs: &[PathBuf]) -> Result<Vec<u8>> {
    let mut image = Writer::new();
    let mut total = 0;
    for program in programs {
        let name =
            program.strip_prefix(built).ok().and_then(Path::to_str).context("a program with a name in no UTF-8")?;
        let bytes = elf::read(program)?.stripped();
        total += bytes.len() as u64;
        if total > MOST {
            bail!("they have more than {} MiB", MOST >> 20);
        }
        image.add(&format!("{FILES}/{name}"), bytes)?;
    }
    Ok(image.to_bytes()?)
}

/// The files of a package's folder, without build outputs and files that only tools read.
fn of_files(folder: &Path) -> Result<Vec<u8>> {
    let mut image = Writer::new();
    let mut total = 0;
    let mut open = vec![(folder.to_path_buf(), FILES.to_owned())];
    while let Some((folder, path)) = open.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let entry: PathBuf = entry.with_context(|| format!("cannot read {}", folder.display()))?.path();
            // A name that is not UTF-8 cannot be transferred.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_those_of_the_package() {
        let folder = tempfile::tempdir().unwrap();
        let (built, package) = (folder.path().join("debug"), Path::new("/home/a b/own"));
        fs::create_dir_all(built.join("examples")).unwrap();
        for (name, source) in [
            ("tool", "/home/a\\ b/own/src/main.rs"),
            ("other", "/home/a\\ b/owner/src/main.rs"),
            ("examples/shown", "/home/other.rs /home/a\\ b/own/examples/shown.rs"),
        ] {
            fs::write(built.join(name), "").unwrap();
            let list = format!("{}: {source}\n", built.join(name).display());
            fs::write(built.join(name).with_extension("d"), list).unwrap();
        }
        // A library, whose file name differs.
        fs::write(built.join("libown.d"), "/x/libown.rlib: /home/a\\ b/own/src/lib.rs\n").unwrap();
        let expected = vec![built.join("examples/shown"), built.join("tool")];
        assert_eq!(Folder::programs(&built, package).unwrap(), Some(Folder::Programs(built.clone(), expected)));
        assert_eq!(Folder::programs(&built, Path::new("/home/none")).unwrap(), None);
        assert_eq!(Folder::programs(&folder.path().join("none"), package).unwrap(), None);
    }
}
