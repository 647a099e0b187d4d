//! ext4 on a disk, implemented with the crate `rsext4`.
//!
//! A node's number is the inode number. This module adds what `rsext4` lacks. An inode that is open and has lost its
//! last name is reaped when its last holder releases it. Directories know their names ([`names`]). Blocks reach the
//! disk in the necessary order ([`device`]). Three rules say what survives a power cut:
//!
//! 1. **Durable**: `sync` commits the journal and flushes the disk. A request after which no file is open does the
//!    same, so closing the last open file makes everything durable.
//! 2. **Freed blocks**: `rsext4` reuses freed blocks at once, and writes content before it commits. So a content write
//!    first commits if any block was freed since the last commit. Otherwise a power cut could leave the new content in
//!    a file whose removal was never committed.
//! 3. **Clean**: a `sync` while no file is open unmounts, so that the image needs no journal replay afterwards. The
//!    next request mounts again.
//!
//! Long operations run in slices. A large file is truncated from its end, and a large file without name and holder is
//! truncated before it is reaped. The on-disk orphan list has such files, so the next mount after a power cut reaps
//! them.
//!
//! If the disk fails a write of content, only its writer gets the error. If the disk fails a write of the journal, the
//! image becomes read-only, and uncommitted changes are lost ([`crate::failures`] decides which descriptions get the
//! error).
//!
//! A damaged image causes an error. If the image makes `rsext4` panic, the panic is caught and the image is never
//! accessed again.

pub mod device;
mod names;
mod superblock;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use file_protocol::{Attributes, Change, Entry, Error, Information, Kind, Result, push_entry};
use rsext4::bmalloc::InodeNumber;
use rsext4::{
    Clock, DirectoryCursor, DirectoryEntryType, EntropySource, Ext4Error, Ext4ErrorKind, Ext4Result, Ext4Timestamp,
    FileExtentTarget, FileName, FilePermissions, InodeInfo, InodeMetadataUpdate, MkfsOptions, MountOptions,
    MountServices, MountedServices, MutationContext, NoopObserver, RenameOptions, SpecialInodeKind,
};

use crate::blocks::Blocks;
use crate::system::{FileSystem, New, Node};
use device::Device;
use names::Names;

/// The root directory's inode.
const ROOT: Node = 2;
/// New inodes belong to the super-user.
const CONTEXT: MutationContext = MutationContext::new(0, 0, 0, 0);
/// Maximum number of entries per request. More do not fit into an answer.
const ENTRIES: usize = 2048;
/// Maximum size of a file: 2^32 blocks of 1 KiB, which every block size allows.
const LARGEST: u64 = 1 << 42;
/// Maximum length of a symbolic link's target. A longer one means damage.
const LONGEST_TARGET: u64 = 4096;
/// The range of representable times: 34 bits of seconds, from 1901 to 2446.
const TIMES: std::ops::RangeInclusive<i64> = i32::MIN as i64..=0x3_7fff_ffff;
const SECOND: i64 = 1_000_000_000;
/// Maximum number of bytes, and of extents they lie in, that one slice frees. This much fits into a transaction of any
/// journal.
const SLICE_BYTES: u64 = 8 << 20;
const PIECES: usize = 64;
/// A file of at most this many bytes cannot have more than [`PIECES`] extents, because the smallest block is 1 KiB.
const SMALL_FILE: u64 = PIECES as u64 * 1024;

type Fs = rsext4::Ext4<Device, MountedServices<Entropy, NoopObserver>>;

/// The time of day.
pub(crate) struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Ext4Result<Ext4Timestamp> {
        Ok(stamp(crate::now()))
    }
}

/// Unique numbers, derived from the hasher's keys, which are random for each hasher.
struct Entropy;

impl EntropySource for Entropy {
    fn fill_bytes(&mut self, output: &mut [u8]) -> Ext4Result<()> {
        use std::hash::{BuildHasher, Hasher, RandomState};
        for chunk in output.chunks_mut(8) {
            let random = RandomState::new().build_hasher().finish().to_le_bytes();
            chunk.copy_from_slice(&random[..chunk.len()]);
        }
        Ok(())
    }
}

/// An inode that is held.
struct HeldInode {
    count: u64,
    is_file: bool,
}

/// A mounted image, or one that is mounted on its next use.
pub struct Ext4 {
    device: Device,
    fs: Option<Fs>,
    /// The image cannot be written, because the disk cannot be, or because errors are recorded in the image.
    read_only: bool,
    /// The image is damaged, and is never accessed again.
    broken: bool,
    /// There are changes since the last commit.
    changed: bool,
    /// Blocks were freed since the last commit.
    freed: bool,
    /// The disk failed a write of the journal. Nothing more is written.
    failed: bool,
    /// Changes were lost by that since the last call of `take_lost`.
    lost: bool,
    /// The inodes that are held.
    holders: HashMap<Node, HeldInode>,
    /// Those held inodes that have no name.
    unnamed: HashSet<Node>,
    /// Number of files that are held.
    files: u64,
    /// Large files without name and holder that are not completely freed.
    reaping: Vec<Node>,
    names: Names,
}

fn stamp(time: i64) -> Ext4Timestamp {
    Ext4Timestamp::new(time.div_euclid(SECOND), time.rem_euclid(SECOND) as u32)
}

/// Converts an on-disk time to nanoseconds.
fn nanoseconds(time: Ext4Timestamp) -> i64 {
    time.sec.saturating_mul(SECOND).saturating_add(i64::from(time.nsec))
}

fn of_ext4(error: &Ext4Error) -> Error {
    match error.kind() {
        Ext4ErrorKind::NotFound => Error::NotFound,
        Ext4ErrorKind::AlreadyExists => Error::Exists,
        Ext4ErrorKind::NotDirectory => Error::NotDirectory,
        Ext4ErrorKind::IsDirectory => Error::IsDirectory,
        Ext4ErrorKind::NotEmpty => Error::NotEmpty,
        Ext4ErrorKind::NoSpace | Ext4ErrorKind::QuotaExceeded => Error::Full,
        Ext4ErrorKind::NoMemory => Error::Memory,
        Ext4ErrorKind::TooManyLinks => Error::TooManyLinks,
        Ext4ErrorKind::Busy => Error::Busy,
        Ext4ErrorKind::ReadOnly | Ext4ErrorKind::JournalAborted => Error::ReadOnly,
        Ext4ErrorKind::PermissionDenied => Error::NotPermitted,
        Ext4ErrorKind::FileTooLarge | Ext4ErrorKind::Overflow => Error::TooLarge,
        Ext4ErrorKind::InvalidInput => Error::Invalid,
        Ext4ErrorKind::Unsupported | Ext4ErrorKind::UnsupportedFeature | Ext4ErrorKind::UnsupportedCapability => {
            Error::Unsupported
        }
        _ => Error::Damaged,
    }
}

fn number(node: Node) -> Ext4Result<InodeNumber> {
    InodeNumber::from_u64(node)
}

fn permissions(mode: u32) -> Ext4Result<FilePermissions> {
    FilePermissions::new((mode & 0o7777) as u16)
}

/// The kind of an inode as programs see it. An inode of any other kind has no usable content, and is shown as a file.
fn kind_of(kind: DirectoryEntryType) -> Kind {
    match kind {
        DirectoryEntryType::Directory => Kind::Directory,
        DirectoryEntryType::Symlink => Kind::Link,
        DirectoryEntryType::Socket => Kind::Socket,
        _ => Kind::File,
    }
}

/// A directory position as a number that a client keeps: 0 at the start, the highest bit for an offset in a linear
/// directory, otherwise a hash as Linux reports it. Names with the same 63-bit hash may be listed twice.
fn cookie_of(cursor: DirectoryCursor) -> u64 {
    match cursor {
        DirectoryCursor::Start => 0,
        DirectoryCursor::Linear { offset } => offset | 1 << 63,
        DirectoryCursor::HTree { major, minor, .. } => u64::from(major >> 1) << 32 | u64::from(minor),
        DirectoryCursor::End => u64::MAX,
    }
}

fn cursor_of(cookie: u64) -> DirectoryCursor {
    match cookie {
        0 => DirectoryCursor::Start,
        u64::MAX => DirectoryCursor::End,
        cookie if cookie >> 63 == 1 => DirectoryCursor::Linear { offset: cookie & !(1 << 63) },
        cookie => DirectoryCursor::HTree { major: (cookie >> 32) as u32 * 2, minor: cookie as u32, collision: 0 },
    }
}

/// Creates an empty file system on a disk.
///
/// # Errors
/// A message: the disk is too small, or it fails.
pub fn format(disk: Box<dyn Blocks>) -> std::result::Result<(), String> {
    let made = rsext4::format(Device::new(disk), SystemClock, MkfsOptions::default());
    made.map(drop).map_err(|error| match error.kind() {
        Ext4ErrorKind::NoSpace => "the disk is too small for ext4".to_owned(),
        _ => format!("ext4 cannot be made: {error}"),
    })
}

impl Ext4 {
    /// Mounts the image on a device.
    ///
    /// # Errors
    /// A message for the log.
    pub fn mount(device: Device) -> std::result::Result<Ext4, String> {
        if !device.has_superblock().map_err(|error| format!("the disk cannot be read: {error}"))? {
            return Err("there is no ext4 file system on it".to_owned());
        }
        let mut ext4 = Ext4 {
            device,
            fs: None,
            read_only: false,
            broken: false,
            changed: false,
            freed: false,
            failed: false,
            lost: false,
            holders: HashMap::new(),
            unnamed: HashSet::new(),
            files: 0,
            reaping: Vec::new(),
            names: Names::default(),
        };
        ext4.call(|_| Ok(())).map_err(|error| match error {
            Error::Unsupported => "its ext4 has features that are not there".to_owned(),
            _ => "its ext4 file system is damaged; check it with e2fsck".to_owned(),
        })?;
        Ok(ext4)
    }

    fn mounted(&mut self) -> Ext4Result<&mut Fs> {
        if self.fs.is_none() {
            let services = || MountServices::new(SystemClock, Entropy, NoopObserver);
            let options = MountOptions::read_only_no_journal_replay;
            let mut mounted = if self.device.read_only() {
                // The content of the journal stays there.
                Fs::mount(self.device.clone(), services(), options())
            } else {
                Fs::mount_with_readonly_fallback(self.device.clone(), services())
            };
            if mounted.is_err() && self.failed {
                // The disk fails the journal replay, too.
                self.device.reset();
                mounted = Fs::mount(self.device.clone(), services(), options());
            }
            let fs = mounted?;
            if fs.options().readonly && !self.device.read_only() && !self.failed {
                crate::say("it has errors recorded in it, so it is only read; `e2fsck` mends it");
            }
            self.read_only = fs.options().readonly || self.failed;
            self.fs = Some(fs);
        }
        self.fs.as_mut().ok_or_else(Ext4Error::busy)
    }

    /// Calls `rsext4` and catches panics.
    fn call<T>(&mut self, call: impl FnOnce(&mut Fs) -> Ext4Result<T>) -> Result<T> {
        if self.broken {
            return Err(Error::Damaged);
        }
        match catch_unwind(AssertUnwindSafe(|| self.mounted().and_then(call))) {
            Ok(done) => done.map_err(|error| of_ext4(&error)),
            Err(_) => {
                crate::say("the disk makes no sense; nothing is read or written any more");
                self.lost = self.changed || self.freed;
                self.broken = true;
                Err(Error::Damaged)
            }
        }
    }

    /// The same for a call that changes the file system.
    fn change_by<T>(&mut self, call: impl FnOnce(&mut Fs) -> Ext4Result<T>) -> Result<T> {
        self.call(|_| Ok(()))?;
        if self.read_only {
            return Err(Error::ReadOnly);
        }
        self.changed = true;
        self.device.begin();
        let done = self.call(call);
        if done.is_err() && self.device.has_failed() {
            // Possibly only the write of content has failed. A commit shows whether the journal still works.
            let device = self.device.clone();
            device.forgive(|| self.commit())?;
        }
        done
    }

    /// The same for a call that writes content (rule 2).
    fn write_by<T>(&mut self, call: impl FnOnce(&mut Fs) -> Ext4Result<T>) -> Result<T> {
        if self.freed {
            self.commit()?;
        }
        self.change_by(call)
    }

    /// Makes all changes durable (rule 1).
    fn commit(&mut self) -> Result<()> {
        if self.changed || self.freed {
            let done = self.call(Fs::sync);
            (self.changed, self.freed) = (false, false);
            if done.is_err() {
                self.fail();
            }
            done?;
        }
        Ok(())
    }

    /// Handles a failed commit: uncommitted changes are lost. `rsext4` can neither write nor drop the changes that it
    /// holds in memory, so the next call mounts the image anew, as it is on the disk.
    fn fail(&mut self) {
        if !self.failed {
            crate::say("the disk failed; from here on it is only read");
        }
        (self.failed, self.lost, self.read_only) = (true, true, true);
        self.fs = None;
        self.device.reset();
    }

    fn inode(&mut self, node: Node) -> Result<InodeInfo> {
        self.call(|fs| fs.inode(number(node)?))
    }

    /// Handles the removal of an inode's name; `gone` says that it was the last one.
    fn lost_name(&mut self, node: Node, gone: bool) -> Result<()> {
        if !gone {
            return Ok(());
        }
        self.names.forget(node);
        if self.holders.contains_key(&node) {
            self.unnamed.insert(node);
            return Ok(());
        }
        self.reap(node)
    }

    fn reap(&mut self, node: Node) -> Result<()> {
        let inode = self.inode(node)?;
        if inode.file_type() == DirectoryEntryType::RegularFile && self.next_size(node, &inode, 0)? > 0 {
            self.reaping.push(node);
            return Ok(());
        }
        self.reap_all(node)
    }

    /// The size to which one slice truncates a file.
    fn next_size(&mut self, file: Node, inode: &InodeInfo, size: u64) -> Result<u64> {
        if inode.blocks.saturating_mul(512) <= SMALL_FILE || size >= inode.size {
            return Ok(size);
        }
        let length = inode.size - size;
        let map = self.call(|fs| fs.inode_extents(number(file)?, size, length, FileExtentTarget::Data, usize::MAX))?;
        let mut left = SLICE_BYTES;
        for (count, piece) in map.extents.iter().rev().enumerate() {
            let end = piece.logical_start.saturating_add(piece.length);
            if count == PIECES || piece.length > left {
                let next = if count == PIECES { end } else { (end - left).next_multiple_of(64 << 10) };
                return Ok(next.clamp(size, inode.size - 1));
            }
            left -= piece.length;
        }
        Ok(size)
    }

    /// Finishes all postponed work.
    fn finish(&mut self) {
        while self.has_work() {
            self.work();
        }
    }

    /// Runs a call that needs free space. If there is none, it finishes the postponed work, which may free some.
    fn with_room<T>(&mut self, mut call: impl FnMut(&mut Ext4) -> Result<T>) -> Result<T> {
        match call(self) {
            Err(Error::Full) if self.has_work() => {
                self.finish();
                call(self)
            }
            done => done,
        }
    }

    fn reap_all(&mut self, node: Node) -> Result<()> {
        self.freed = true;
        self.change_by(|fs| fs.reap_unlinked_inode(number(node)?))
    }

    /// A removed directory is empty, and nothing can be added to it.
    fn check_named(&self, directory: Node) -> Result<()> {
        if self.unnamed.contains(&directory) { Err(Error::NotFound) } else { Ok(()) }
    }

    /// Unmounts if nothing is open, so that the image needs no journal replay (rule 3).
    fn unmount(&mut self) -> Result<()> {
        if self.fs.is_some() && !self.read_only && self.files == 0 && self.unnamed.is_empty() {
            self.finish();
            self.commit()?;
            let unmounted = self.call(Fs::unmount);
            self.fs = None;
            match unmounted {
                // `rsext4` 0.9.2 makes no room in a full journal while it changes a block. Everything is committed, so
                // mounting again replays the journal and leaves it empty.
                Err(Error::Busy) => self.call(Fs::unmount)?,
                unmounted => unmounted?,
            }
            self.fs = None;
        }
        Ok(())
    }
}

impl FileSystem for Ext4 {
    fn root(&self) -> Node {
        ROOT
    }

    fn kind(&mut self, node: Node) -> Result<(Kind, u32)> {
        let inode = self.inode(node)?;
        let mode = u32::from(inode.mode) & 0o7777;
        Ok((kind_of(inode.file_type()), mode))
    }

    fn attributes(&mut self, node: Node) -> Result<Attributes> {
        let (kind, mode) = self.kind(node)?;
        let inode = self.inode(node)?;
        Ok(Attributes {
            kind,
            mode,
            size: inode.size,
            // In units of 512 bytes, as in `stat`.
            stored: inode.blocks.saturating_mul(512),
            links: u64::from(inode.links),
            node,
            tree: 0,
            accessed: nanoseconds(inode.times[0]),
            modified: nanoseconds(inode.times[1]),
            changed: nanoseconds(inode.times[2]),
        })
    }

    fn change(&mut self, node: Node, change: &Change) -> Result<()> {
        let times = [change.accessed, change.modified];
        if times.into_iter().flatten().any(|time| !TIMES.contains(&time.div_euclid(SECOND))) {
            return Err(Error::Invalid);
        }
        self.change_by(|fs| {
            let permissions = change.mode.map(permissions).transpose()?;
            let (atime, mtime) = (change.accessed.map(stamp), change.modified.map(stamp));
            let update = InodeMetadataUpdate { permissions, atime, mtime, ..InodeMetadataUpdate::default() };
            fs.update_inode_metadata(number(node)?, update).map(drop)
        })
    }

    fn find(&mut self, directory: Node, name: &[u8]) -> Result<Node> {
        self.check_named(directory)?;
        let found = self.call(|fs| fs.lookup_child(number(directory)?, FileName::new(name)?))?;
        let inode = found.ok_or(Error::NotFound)?;
        let node = inode.number.as_u64();
        if inode.is_directory() {
            self.names.learn(node, directory, name, &self.holders);
        }
        Ok(node)
    }

    fn above(&mut self, directory: Node) -> Result<Node> {
        if directory == ROOT {
            return Ok(ROOT);
        }
        self.names.above(directory)
    }

    fn name(&mut self, directory: Node) -> Result<Vec<u8>> {
        self.names.name(directory)
    }

    fn make(&mut self, directory: Node, name: &[u8], new: New<'_>) -> Result<Node> {
        self.check_named(directory)?;
        let made = self.with_room(|ext4| match new {
            New::File(mode) => ext4.change_by(|fs| {
                fs.create_regular_file(CONTEXT, number(directory)?, FileName::new(name)?, permissions(mode)?)
            }),
            New::Directory(mode) => ext4.change_by(|fs| {
                fs.create_directory(CONTEXT, number(directory)?, FileName::new(name)?, permissions(mode)?)
            }),
            New::Socket(mode) => ext4.change_by(|fs| {
                let (directory, kind) = (number(directory)?, SpecialInodeKind::Socket);
                fs.create_special_inode(CONTEXT, directory, FileName::new(name)?, permissions(mode)?, kind)
            }),
            // A long target is stored as content.
            New::Link(target) => {
                ext4.write_by(|fs| fs.create_symlink(CONTEXT, number(directory)?, FileName::new(name)?, target))
            }
        })?;
        let node = made.number.as_u64();
        if made.is_directory() {
            self.names.learn(node, directory, name, &self.holders);
        }
        Ok(node)
    }

    fn target(&mut self, link: Node) -> Result<Vec<u8>> {
        let inode = self.inode(link)?;
        if inode.file_type() != DirectoryEntryType::Symlink {
            return Err(Error::Invalid);
        }
        if inode.size > LONGEST_TARGET {
            return Err(Error::Damaged);
        }
        let mut target = vec![0; inode.size as usize];
        let read = self.call(|fs| fs.read_inode(number(link)?, 0, &mut target))?;
        target.truncate(read);
        Ok(target)
    }

    fn link(&mut self, node: Node, directory: Node, name: &[u8]) -> Result<()> {
        self.check_named(directory)?;
        self.check_named(node)?;
        self.change_by(|fs| fs.hard_link(number(node)?, number(directory)?, FileName::new(name)?).map(drop))
    }

    fn unlink(&mut self, directory: Node, name: &[u8]) -> Result<()> {
        let node = self.find(directory, name)?;
        let is_directory = self.inode(node)?.is_directory();
        let outcome = self.change_by(|fs| {
            let (directory, name) = (number(directory)?, FileName::new(name)?);
            if is_directory { fs.remove_empty_directory(directory, name) } else { fs.unlink(directory, name) }
        })?;
        self.lost_name(node, outcome.requires_reap())
    }

    fn rename(&mut self, from: (Node, &[u8]), to: (Node, &[u8])) -> Result<()> {
        self.check_named(to.0)?;
        let node = self.find(from.0, from.1)?;
        let outcome = self.change_by(|fs| {
            let (old, new) = ((number(from.0)?, FileName::new(from.1)?), (number(to.0)?, FileName::new(to.1)?));
            fs.rename(old.0, old.1, new.0, new.1, RenameOptions::REPLACE)
        })?;
        self.names.moved(node, to.0, to.1);
        match outcome.replaced {
            Some(replaced) => self.lost_name(replaced.inode.as_u64(), replaced.requires_reap()),
            None => Ok(()),
        }
    }

    fn entries(&mut self, directory: Node, cookie: u64, data: &mut Vec<u8>) -> Result<()> {
        if self.unnamed.contains(&directory) || cookie == u64::MAX {
            return Ok(());
        }
        let found = self.call(|fs| fs.read_directory(number(directory)?, cursor_of(cookie), ENTRIES))?;
        for entry in found {
            if entry.name == b"." || entry.name == b".." {
                continue;
            }
            let (kind, node) = (kind_of(entry.file_type), entry.inode.as_u64());
            if !push_entry(data, &Entry { name: &entry.name, kind, node, cookie: cookie_of(entry.next_cursor) }) {
                break;
            }
        }
        Ok(())
    }

    fn size(&mut self, file: Node) -> Result<u64> {
        Ok(self.inode(file)?.size)
    }

    fn read(&mut self, file: Node, offset: u64, bytes: &mut [u8]) -> Result<usize> {
        self.call(|fs| fs.read_inode(number(file)?, offset, bytes))
    }

    fn write(&mut self, file: Node, offset: u64, bytes: &[u8]) -> Result<usize> {
        if offset >= LARGEST {
            return Err(Error::TooLarge);
        }
        let bytes = &bytes[..bytes.len().min((LARGEST - offset) as usize)];
        match self.with_room(|ext4| ext4.write_by(|fs| fs.write_inode(number(file)?, offset, bytes))) {
            Ok(()) => Ok(bytes.len()),
            // Writes as much as there is room for, in steps of the smallest block size.
            Err(Error::Full) => {
                let mut done = 0;
                while done < bytes.len() {
                    let len = (1024 - (offset as usize + done) % 1024).min(bytes.len() - done);
                    let piece = &bytes[done..done + len];
                    match self.write_by(|fs| fs.write_inode(number(file)?, offset + done as u64, piece)) {
                        Ok(()) => done += len,
                        Err(_) if done > 0 => break,
                        Err(error) => return Err(error),
                    }
                }
                Ok(done)
            }
            Err(error) => Err(error),
        }
    }

    fn resize_some(&mut self, file: Node, size: u64) -> Result<bool> {
        if size > LARGEST {
            return Err(Error::TooLarge);
        }
        let inode = self.inode(file)?;
        if size >= inode.size {
            self.write_by(|fs| fs.truncate_inode(number(file)?, size))?;
            return Ok(true);
        }
        let next = self.next_size(file, &inode, size)?;
        self.freed = true;
        self.change_by(|fs| fs.truncate_inode(number(file)?, next))?;
        Ok(next == size)
    }

    fn has_work(&self) -> bool {
        !self.reaping.is_empty()
    }

    fn work(&mut self) {
        let Some(node) = self.reaping.last().copied() else { return };
        let done = match self.resize_some(node, 0) {
            Ok(true) => self.reap_all(node).map(|()| true),
            done => done,
        };
        // The next mount reaps it if that fails now.
        if done != Ok(false) {
            self.reaping.pop();
        }
    }

    fn sync(&mut self) -> Result<()> {
        if self.broken {
            return Err(Error::Damaged);
        }
        if self.failed {
            return Err(Error::ReadOnly);
        }
        self.commit()?;
        self.unmount()
    }

    fn is_read_only(&self) -> bool {
        self.read_only
    }

    fn is_pending(&self) -> bool {
        self.changed || self.freed
    }

    fn take_lost(&mut self) -> bool {
        std::mem::take(&mut self.lost)
    }

    fn information(&mut self) -> Information {
        let stats = self.call(|fs| Ok(fs.statfs()));
        let read_only = self.read_only || self.broken;
        let Ok(stats) = stats else {
            return Information { bytes: 0, used_bytes: 0, nodes: 0, used_nodes: 0, block: 4096, read_only, tree: 0 };
        };
        let block = u32::try_from(stats.block_size).unwrap_or(4096);
        let bytes = stats.total_blocks.saturating_mul(u64::from(block));
        let free = stats.free_blocks.saturating_mul(u64::from(block));
        let (nodes, free_nodes) = (u64::from(stats.total_inodes), u64::from(stats.free_inodes));
        Information {
            bytes,
            used_bytes: bytes.saturating_sub(free),
            nodes,
            used_nodes: nodes.saturating_sub(free_nodes),
            block,
            read_only,
            tree: 0,
        }
    }

    fn hold(&mut self, node: Node) {
        if let Some(held) = self.holders.get_mut(&node) {
            held.count += 1;
            return;
        }
        let is_file = self.kind(node).is_ok_and(|(kind, _)| kind == Kind::File);
        self.files += u64::from(is_file);
        self.holders.insert(node, HeldInode { count: 1, is_file });
    }

    fn release(&mut self, node: Node) {
        let Some(held) = self.holders.get_mut(&node) else { return };
        held.count -= 1;
        if held.count > 0 {
            return;
        }
        self.files -= u64::from(held.is_file);
        self.holders.remove(&node);
        if self.unnamed.remove(&node) {
            // The next mount reaps it if that fails now: the orphan list on the disk has it.
            let _ = self.reap(node);
        }
    }

    fn settle(&mut self) {
        if self.changed && self.files == 0 && self.commit().is_err() {
            crate::say("what was written did not get to the disk");
        }
    }
}

#[cfg(target_os = "fuchsia")]
impl crate::serving::ServedFileSystem for Ext4 {
    fn stream(&mut self, _file: Node, _flags: u32) -> Result<Option<zx::Stream>> {
        Ok(None)
    }

    fn memory(&mut self, _file: Node, _write: bool) -> Result<zx::Vmo> {
        Err(Error::Unsupported)
    }
}
