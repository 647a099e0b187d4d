//! Disks with a file system of either kind, created, checked and read by the host's own tools.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use tempfile::TempDir;

use super::Context;
use xtask_build::setup;

/// A kind of file system.
#[derive(Clone, Copy, Debug)]
pub enum Volume {
    /// FAT with table entries of this many bits.
    Fat(u32),
    /// ext4 with blocks of this many bytes.
    Ext4(u32),
}

/// An image with a file system, on the host.
#[derive(Debug)]
pub struct Disk {
    kind: Volume,
    pub path: PathBuf,
    /// Its path as text.
    pub name: String,
}

impl Volume {
    /// Creates a disk in a folder, with the files in `content`.
    ///
    /// # Errors
    /// A tool of the host is missing or fails.
    pub fn disk(self, context: &Context<'_>, folder: &TempDir, mib: u64, content: Option<&Path>) -> Result<Disk> {
        setup::for_disks(&context.ui)?;
        let path = folder.path().join("disk.img");
        fs::File::create(&path).and_then(|file| file.set_len(mib << 20)).context("cannot make a disk")?;
        let name = text(&path)?.to_owned();
        let disk = Disk { kind: self, path, name };
        match self {
            Volume::Fat(bits) => {
                tool("mkfs.vfat", &["-F", &bits.to_string(), &disk.name])?;
                for entry in content.map(fs::read_dir).transpose().context("cannot read")?.into_iter().flatten() {
                    disk.put(&entry.context("cannot read")?.path())?;
                }
            }
            Volume::Ext4(block) => {
                let from: &[&str] = if let Some(content) = content { &["-d", text(content)?] } else { &[] };
                let block = block.to_string();
                tool("mke2fs", &[&["-q", "-F", "-t", "ext4", "-b", &block][..], from, &[&disk.name]].concat())?;
            }
        }
        Ok(disk)
    }
}

impl Disk {
    /// Copies a file or a folder into a FAT file system's root.
    ///
    /// # Errors
    /// mcopy fails.
    pub fn put(&self, from: &Path) -> Result<()> {
        tool("mcopy", &["-s", "-Q", "-i", &self.name, text(from)?, "::/"]).map(drop)
    }

    /// Copies all files into a folder.
    ///
    /// # Errors
    /// The tool fails.
    pub fn get(&self, to: &Path) -> Result<()> {
        match self.kind {
            Volume::Fat(_) => tool("mcopy", &["-s", "-Q", "-i", &self.name, "::/*", text(to)?]).map(drop),
            Volume::Ext4(_) => tool("debugfs", &["-R", &format!("rdump / {}", text(to)?), &self.name]).map(drop),
        }
    }

    /// Checks the image with the host's tool.
    ///
    /// # Errors
    /// The image is not clean.
    pub fn check(&self) -> Result<()> {
        match self.kind {
            Volume::Fat(_) => tool("fsck.vfat", &["-n", &self.name]).map(drop),
            Volume::Ext4(_) => tool("e2fsck", &["-fn", &self.name]).map(drop),
        }
    }
}

/// Runs a tool of the host; returns its output.
///
/// # Errors
/// It cannot be started, or fails.
pub fn tool(name: &str, args: &[&str]) -> Result<String> {
    let output = Command::new(name).args(args).stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot start {name}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        bail!("{name} {args:?}: {}\n{said}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(said)
}

/// Creates a folder in another.
///
/// # Errors
/// It cannot be created.
pub fn folder_in(folder: &TempDir, name: &str) -> Result<PathBuf> {
    let path = folder.path().join(name);
    fs::create_dir(&path).context("cannot make a folder")?;
    Ok(path)
}

/// A path as an argument.
///
/// # Errors
/// It is not UTF-8.
pub fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a temporary folder's name is no text")
}
