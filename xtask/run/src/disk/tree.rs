//! The system's own file systems (the package `files`) on an image: ext4, and FAT12, 16 and 32.

use std::io::{self, ErrorKind, Read, Write};

use anyhow::{Context as _, Result, anyhow, bail};
use fatfs::{FormatVolumeOptions, format_volume};
use file_protocol::{Error, Kind as NodeKind, entries};
use files::blocks::Blocks;
use files::ext4::Ext4;
use files::fat::Fat;
use files::{FileSystem, New, Node};

use super::device::Device;
use super::{Entry, Kind, Volume};

/// Maximum number of entries of a folder that are listed.
const ENTRIES: usize = 1 << 20;
/// Size of a sector in bytes.
const SECTOR: u64 = 512;

/// A file system on an image.
pub struct Tree<F> {
    system: F,
    device: Device,
}

/// An image as a disk.
struct Disk {
    device: Device,
    writable: bool,
}

impl Blocks for Disk {
    fn size(&self) -> u64 {
        self.device.size() / SECTOR * SECTOR
    }

    fn read_only(&self) -> bool {
        !self.writable
    }

    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.device.read_at(bytes, offset)
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.device.write_at(bytes, offset)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.device.settle()
    }
}

/// Creates an empty ext4 file system.
///
/// # Errors
/// The image is too small.
pub fn format_ext4(device: Device) -> Result<()> {
    files::ext4::format(Box::new(Disk { device, writable: true })).map_err(|why| anyhow!(why))
}

/// Creates an empty FAT file system.
///
/// # Errors
/// The image is too small or too large.
pub fn format_fat(mut device: Device) -> Result<()> {
    format_volume(&mut device, FormatVolumeOptions::new().volume_label(*b"HAFNON     "))?;
    Ok(device.settle()?)
}

/// Whether an image holds ext4, by its superblock's magic number.
pub fn is_ext4(device: &Device) -> bool {
    let mut magic = [0; 2];
    device.read_at(&mut magic, 1024 + 56).is_ok() && magic == [0x53, 0xef]
}

/// Whether the last user did not unmount it: FAT has a flag for that, and ext4 a journal to replay.
fn in_use(device: &Device) -> io::Result<bool> {
    let mut header = [0; 2048];
    device.read_at(&mut header, 0)?;
    if is_ext4(device) {
        return Ok(header[1024 + 96] & 4 != 0);
    }
    // Only FAT32 has a zero in the old field for the length of a table.
    let wide = header[22..24] == [0, 0];
    Ok(header[if wide { 0x41 } else { 0x25 }] & 1 != 0)
}

fn said(error: Error) -> anyhow::Error {
    anyhow!(match error {
        Error::NotFound => "it is not there",
        Error::Exists => "it is there already",
        Error::NotDirectory => "it is no folder",
        Error::IsDirectory => "it is a folder",
        Error::Full => "the disk is full",
        Error::TooLarge => "no file can be so large",
        Error::TooLong | Error::Invalid => "that name cannot be had here",
        Error::Damaged => "the file system is damaged",
        other => return anyhow!("{other:?}"),
    })
}

/// Opens the file system of an image.
///
/// # Errors
/// There is none, or it is to be changed and was not unmounted cleanly.
pub fn open(device: Device, writable: bool) -> Result<Box<dyn Volume>> {
    let disk = Box::new(Disk { device: device.clone(), writable });
    if is_ext4(&device) {
        let system = Ext4::mount(files::ext4::device::Device::new(disk)).map_err(|why| anyhow!(why))?;
        return Ok(Box::new(Tree { system, device }));
    }
    if writable && in_use(&device)? {
        bail!("the machine that used it last did not end in order; look at it with `disk check` first");
    }
    let system = Fat::mount(disk).map_err(|why| anyhow!(why))?;
    Ok(Box::new(Tree { system, device }))
}

impl<F: FileSystem> Tree<F> {
    fn find(&mut self, path: &[String]) -> Result<Node> {
        self.device.turn();
        let mut at = self.system.root();
        for name in path {
            at = self.system.find(at, name.as_bytes()).map_err(said)?;
        }
        Ok(at)
    }
}

impl<F: FileSystem> Volume for Tree<F> {
    fn list(&mut self, path: &[String]) -> Result<Vec<Entry>> {
        let folder = self.find(path)?;
        if self.system.kind(folder).map_err(said)?.0 != NodeKind::Directory {
            bail!("it is no folder");
        }
        let (mut cookie, mut found) = (0, Vec::new());
        loop {
            let mut data = Vec::new();
            self.system.entries(folder, cookie, &mut data).map_err(said)?;
            let before = found.len();
            for entry in entries(&data) {
                cookie = entry.cookie;
                let kind = match entry.kind {
                    NodeKind::Directory => Kind::Folder,
                    NodeKind::File => Kind::File,
                    NodeKind::Link | NodeKind::Socket => Kind::Other,
                };
                found.push(Entry { name: String::from_utf8_lossy(entry.name).into_owned(), kind, size: 0 });
            }
            if found.len() > ENTRIES {
                bail!("the folder has more entries than one can have; the file system is damaged");
            }
            if found.len() == before {
                break;
            }
        }
        for entry in found.iter_mut().filter(|entry| entry.kind == Kind::File) {
            self.device.turn();
            let file = self.system.find(folder, entry.name.as_bytes()).map_err(said)?;
            entry.size = self.system.size(file).map_err(said)?;
        }
        Ok(found)
    }

    fn read(&mut self, path: &[String], to: &mut dyn Write) -> Result<()> {
        let file = self.find(path)?;
        let (mut at, mut buffer) = (0, vec![0; 1 << 16]);
        loop {
            self.device.turn();
            let count = self.system.read(file, at, &mut buffer).map_err(said)?;
            if count == 0 {
                return Ok(());
            }
            to.write_all(&buffer[..count])?;
            at += count as u64;
        }
    }

    fn make_folder(&mut self, path: &[String]) -> Result<()> {
        let Some((name, above)) = path.split_last() else { return Ok(()) };
        let above = self.find(above)?;
        match self.system.find(above, name.as_bytes()) {
            Ok(there) if self.system.kind(there).map_err(said)?.0 == NodeKind::Directory => Ok(()),
            Ok(_) => bail!("it is there and no folder"),
            Err(Error::NotFound) => {
                self.system.make(above, name.as_bytes(), New::Directory(0o755)).map_err(said)?;
                self.system.settle();
                Ok(())
            }
            Err(error) => Err(said(error)),
        }
    }

    fn write(&mut self, path: &[String], from: &mut dyn Read) -> Result<()> {
        let (name, above) = path.split_last().context("a file has a name")?;
        let above = self.find(above)?;
        let file = match self.system.find(above, name.as_bytes()) {
            Ok(there) => {
                self.system.resize(there, 0).map_err(said)?;
                there
            }
            Err(Error::NotFound) => self.system.make(above, name.as_bytes(), New::File(0o644)).map_err(said)?,
            Err(error) => return Err(said(error)),
        };
        self.system.hold(file);
        let done = self.fill(file, from);
        self.system.release(file);
        self.system.settle();
        done
    }

    fn remove(&mut self, path: &[String]) -> Result<()> {
        let (name, above) = path.split_last().context("a file has a name")?;
        let above = self.find(above)?;
        self.system.unlink(above, name.as_bytes()).map_err(said)?;
        self.system.settle();
        Ok(())
    }

    fn end(mut self: Box<Self>) -> Result<()> {
        self.device.turn();
        self.system.sync().map_err(said)
    }

    fn complaint(&mut self) -> Result<Option<String>> {
        Ok(in_use(&self.device)?.then(|| "the machine that used it last did not end in order".into()))
    }
}

impl<F: FileSystem> Tree<F> {
    /// Writes a file's content from its beginning.
    fn fill(&mut self, file: Node, from: &mut dyn Read) -> Result<()> {
        let (mut at, mut buffer) = (0, vec![0; 1 << 16]);
        loop {
            let count = match from.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            let mut rest = &buffer[..count];
            while !rest.is_empty() {
                self.device.turn();
                let written = self.system.write(file, at, rest).map_err(said)?;
                self.system.settle();
                at += written as u64;
                rest = &rest[written..];
            }
        }
    }
}
