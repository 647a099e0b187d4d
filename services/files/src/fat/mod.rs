//! FAT on a disk, implemented with the crate `fatfs`.
//!
//! This module adds what `fatfs` lacks: numbered nodes, which exist as long as they are held; removal of open files (a
//! file gets a hidden name in the root until it is closed); and renaming over an existing name. A damaged volume can
//! make `fatfs` panic or loop. So each call has bounded [fuel](volume), panics are caught, and a volume that caused a
//! panic is never accessed again.

mod calls;
mod check;
mod layout;
mod nodes;
#[cfg(test)]
mod tests;
mod time;
pub mod volume;

pub use check::faults;

use std::collections::HashMap;
use std::io::{self, Read, Seek, SeekFrom, Write};

use fatfs::OemCpConverter;
use file_protocol::{Attributes, Change, Entry, Error, Information, Kind, Result, push_entry};

use crate::system::{FileSystem, New, Node};
use layout::Layout;
use nodes::{Inode, ROOT};
use volume::{Plan, Volume};

type Fs = fatfs::FileSystem<Volume>;
type Dir = fatfs::Dir<'static, Volume>;
type File = fatfs::File<'static, Volume>;

/// Prefix of the hidden names of files that were removed while they were open.
pub const REMOVED: &str = ".removed-while-open-";
/// Maximum size of a file.
const LARGEST: u64 = u32::MAX as u64;
/// Size of a directory entry in bytes.
const ENTRY: usize = layout::ENTRY as usize;
/// A larger file is truncated in slices of this size, also before its removal, because each slice walks the file's
/// whole chain.
const LARGE: u64 = 32 << 20;
/// Number of zeros written at once.
const ZEROES: usize = 64 << 10;
/// Maximum number of names in a directory.
const NAMES: usize = 65_536;
static CLOCK: time::Clock = time::Clock;

/// A volume.
pub struct Fat {
    fs: &'static Fs,
    volume: Volume,
    nodes: HashMap<Node, Inode>,
    /// Nodes by directory and lower-case name, because FAT does not distinguish case.
    names: HashMap<(Node, String), Node>,
    next: Node,
    read_only: bool,
    /// The layout of the volume.
    layout: Layout,
    /// There are changes since the volume was clean.
    changed: bool,
    /// The volume is damaged, and is never accessed again.
    broken: bool,
    /// Position of the sector with the count of free clusters (FAT32).
    summary: Option<u64>,
    /// Number of files that are held.
    held: u64,
    /// Large files without name and holder that are not completely freed.
    unlinked: Vec<Node>,
    /// The disk failed a write of names or tables. Nothing more is written to it.
    failed: bool,
    /// Whether changes have been lost since the last call of `take_lost`.
    lost: bool,
}

fn of_io(error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound => Error::NotFound,
        io::ErrorKind::AlreadyExists => Error::Exists,
        io::ErrorKind::InvalidInput => Error::Invalid,
        io::ErrorKind::ReadOnlyFilesystem => Error::ReadOnly,
        // The root directory of FAT12 and FAT16 has a fixed size, and it is full.
        io::ErrorKind::WriteZero | io::ErrorKind::UnexpectedEof => Error::Full,
        // `fatfs` reports these errors as text.
        io::ErrorKind::Other => match error.to_string().as_str() {
            "No space left on device" => Error::Full,
            "Directory not empty" => Error::NotEmpty,
            _ => Error::Damaged,
        },
        _ => Error::Damaged,
    }
}

/// Short names in the code page of most disks would need its table. A non-ASCII character is shown as `?`, and the name
/// is not found.
#[derive(Debug)]
struct Ascii;

impl OemCpConverter for Ascii {
    fn decode(&self, byte: u8) -> char {
        if byte.is_ascii() { char::from(byte) } else { '?' }
    }

    fn encode(&self, char: char) -> Option<u8> {
        u8::try_from(char).ok().filter(u8::is_ascii)
    }
}

static ASCII: Ascii = Ascii;

impl FileSystem for Fat {
    fn root(&self) -> Node {
        ROOT
    }

    fn kind(&mut self, node: Node) -> Result<(Kind, u32)> {
        let inode = self.inode(node)?;
        Ok((inode.kind, inode.mode))
    }

    fn attributes(&mut self, node: Node) -> Result<Attributes> {
        let (kind, mode) = self.kind(node)?;
        let cluster = u64::from(self.fs.cluster_size());
        let inode = self.inode(node)?;
        let (size, modified) = (inode.size, inode.modified);
        let links = if inode.removed.is_some() { 0 } else { 1 };
        let (stored, accessed) = (size.next_multiple_of(cluster), inode.accessed);
        Ok(Attributes { kind, mode, size, stored, links, node, tree: 0, accessed, modified, changed: modified })
    }

    #[allow(deprecated)] // The only way to set a time other than the current one.
    fn change(&mut self, node: Node, change: &Change) -> Result<()> {
        self.begin()?;
        let inode = self.inode(node)?;
        // The only permission that FAT has is "may be written", and `fatfs` cannot change it.
        if change.mode.is_some_and(|mode| (mode ^ inode.mode) & 0o200 != 0) {
            return Err(Error::Unsupported);
        }
        if change.accessed.is_none() && change.modified.is_none() {
            return Ok(());
        }
        if inode.kind != Kind::File {
            return Err(Error::Unsupported);
        }
        self.with_file(node, |file| {
            if let Some(accessed) = change.accessed {
                file.set_accessed(time::date_time(accessed).date);
            }
            if let Some(modified) = change.modified {
                file.set_modified(time::date_time(modified));
            }
            file.flush()
        })?;
        self.write_back(Plan::Grow)?;
        if let Some(inode) = self.nodes.get_mut(&node) {
            inode.accessed = change.accessed.unwrap_or(inode.accessed);
            inode.modified = change.modified.unwrap_or(inode.modified);
        }
        Ok(())
    }

    fn find(&mut self, directory: Node, name: &[u8]) -> Result<Node> {
        let name = str::from_utf8(name).map_err(|_| Error::NotFound)?;
        if name.starts_with(REMOVED) {
            return Err(Error::NotFound);
        }
        self.look_up(directory, name)
    }

    fn above(&mut self, directory: Node) -> Result<Node> {
        Ok(self.inode(directory)?.above)
    }

    fn name(&mut self, directory: Node) -> Result<Vec<u8>> {
        Ok(self.inode(directory)?.name.clone().into_bytes())
    }

    fn make(&mut self, directory: Node, name: &[u8], new: New<'_>) -> Result<Node> {
        self.begin()?;
        let name = nodes::check_name(name)?;
        if let New::Link(_) | New::Socket(_) = new {
            return Err(Error::Unsupported);
        }
        let dir = self.dir(directory)?;
        let made = self.guard(|fat| match new {
            New::Directory(_) => {
                // Creates a file first: it needs the same room for its name, and can be removed again.
                drop(dir.create_file(name)?);
                dir.remove(name)?;
                let made = fat.volume.first_zeroes(|| dir.create_dir(name).map(drop))?;
                fat.mend_dots(made.ok_or(io::ErrorKind::InvalidData)?, directory == ROOT)
            }
            _ => dir.create_file(name).map(drop),
        });
        self.end(Plan::Grow, made)?;
        self.look_up(directory, name)
    }

    fn target(&mut self, _link: Node) -> Result<Vec<u8>> {
        Err(Error::Invalid)
    }

    fn link(&mut self, _node: Node, _directory: Node, _name: &[u8]) -> Result<()> {
        Err(Error::Unsupported)
    }

    fn unlink(&mut self, directory: Node, name: &[u8]) -> Result<()> {
        self.begin()?;
        let node = self.find(directory, name)?;
        let inode = self.inode(node)?;
        let (name, kind, held) = (inode.name.clone(), inode.kind, inode.holders > 0);
        let large = inode.size > LARGE;
        if held && kind == Kind::Directory {
            // A program that has it open sees it as empty afterwards. It can be removed only without names in it.
            self.check_empty(node)?;
        }
        if (held || large) && kind == Kind::File {
            let moved = self.hide(node).and_then(|hidden| {
                self.move_entry((directory, &name), (ROOT, &hidden))?;
                Ok(hidden)
            });
            match moved {
                Ok(hidden) => {
                    self.forget_name(directory, &name);
                    return self.has_hidden_name(node, hidden);
                }
                // There is no room for the hidden name, and the file is not open: removes it at once.
                Err(Error::Full) if !held => {}
                Err(error) => return Err(error),
            }
        }
        self.close_handle(node);
        let dir = self.dir(directory)?;
        let removed = self.guard(|_| dir.remove(&name));
        self.end(Plan::Shrink, removed)?;
        self.forget_name(directory, &name);
        if held {
            self.inode_mut(node)?.removed = Some(String::new());
        } else {
            self.nodes.remove(&node);
        }
        Ok(())
    }

    fn rename(&mut self, from: (Node, &[u8]), to: (Node, &[u8])) -> Result<()> {
        self.begin()?;
        let node = self.find(from.0, from.1)?;
        let new = nodes::check_name(to.1)?;
        let kind = self.inode(node)?.kind;
        if kind == Kind::Directory && from.0 != to.0 {
            // Its entry for the parent directory would have to change as well.
            return Err(Error::Unsupported);
        }
        let over = match self.find(to.0, to.1) {
            Ok(over) if over == node => return Ok(()),
            Ok(over) => Some(over),
            Err(Error::NotFound) => None,
            Err(error) => return Err(error),
        };
        let old = self.inode(node)?.name.clone();
        // Open `fatfs` handles know the position of its entry, so they must be dropped.
        self.close_handle(node);
        let name = match over {
            Some(over) if kind == Kind::File => self.rename_over((from.0, &old), to.0, over)?,
            Some(over) => {
                // An empty directory; removing it loses nothing.
                self.check_empty(over)?;
                self.unlink(to.0, to.1)?;
                self.move_entry((from.0, &old), (to.0, new))?;
                new.to_owned()
            }
            None => {
                self.move_entry((from.0, &old), (to.0, new))?;
                new.to_owned()
            }
        };
        self.forget_name(from.0, &old);
        self.names.insert((to.0, name.to_lowercase()), node);
        let inode = self.inode_mut(node)?;
        (inode.above, inode.name) = (to.0, name);
        Ok(())
    }

    fn entries(&mut self, directory: Node, cookie: u64, data: &mut Vec<u8>) -> Result<()> {
        if self.inode(directory)?.removed.is_some() {
            return Ok(());
        }
        let place = self.place(directory)?;
        // A cookie is an index into the names. If names are added or removed in between, a name may be listed twice or
        // not at all.
        let skipped = usize::try_from(cookie).map_or(NAMES, |cookie| cookie.min(NAMES));
        // More names do not fit into one answer.
        let found = self.guard(|fat| fat.layout.names(&fat.volume, place, skipped + 2048))?;
        for (index, found) in (cookie + 1..).zip(found.into_iter().skip(skipped)) {
            let kind = if found.is_directory() { Kind::Directory } else { Kind::File };
            let name = found.name;
            if name.starts_with(REMOVED) {
                continue;
            }
            let node = self.names.get(&(directory, name.to_lowercase())).copied();
            let node = node.unwrap_or_else(|| nodes::hidden_number(directory, &name));
            if !push_entry(data, &Entry { name: name.as_bytes(), kind, node, cookie: index }) {
                break;
            }
        }
        Ok(())
    }

    fn size(&mut self, file: Node) -> Result<u64> {
        Ok(self.inode(file)?.size)
    }

    fn read(&mut self, file: Node, offset: u64, bytes: &mut [u8]) -> Result<usize> {
        let size = self.inode(file)?.size;
        if offset >= size {
            return Ok(0);
        }
        let len = bytes.len().min(usize::try_from(size - offset).unwrap_or(usize::MAX));
        self.with_file(file, |place| {
            place.seek(SeekFrom::Start(offset))?;
            let mut done = 0;
            while done < len {
                match place.read(&mut bytes[done..len])? {
                    // The file's chain of clusters is shorter than the file.
                    0 => return Err(io::ErrorKind::InvalidData.into()),
                    count => done += count,
                }
            }
            Ok(done)
        })
    }

    fn write(&mut self, file: Node, offset: u64, bytes: &[u8]) -> Result<usize> {
        self.check_change()?;
        if offset >= LARGEST {
            return Err(Error::TooLarge);
        }
        let size = self.inode(file)?.size;
        if offset > size {
            let mut size = size;
            while !self.extend(file, size, offset)? {
                size = self.inode(file)?.size;
            }
        }
        let len = bytes.len().min((LARGEST - offset) as usize);
        match self.write_at(file, offset, &bytes[..len])? {
            // Finishing the postponed work frees space.
            0 if len > 0 && self.has_work() => {
                while self.has_work() {
                    self.work();
                }
                self.write(file, offset, bytes)
            }
            0 if len > 0 => Err(Error::Full),
            written => Ok(written),
        }
    }

    fn fills_holes(&self) -> bool {
        true
    }

    fn has_work(&self) -> bool {
        !self.unlinked.is_empty()
    }

    fn work(&mut self) {
        let Some(node) = self.unlinked.last().copied() else { return };
        let short = match self.inode(node) {
            Ok(inode) if inode.size > LARGE => self.resize_some(node, 0).map(|_| false),
            _ => Ok(true),
        };
        // The next start removes it if that fails now.
        if short != Ok(false) {
            self.unlinked.pop();
            self.remove_hidden(node);
        }
    }

    fn resize_some(&mut self, file: Node, whole: u64) -> Result<bool> {
        self.begin()?;
        let old = self.inode(file)?.size;
        if whole > old {
            return self.extend(file, old, whole);
        }
        let size = whole.max(old.saturating_sub(LARGE));
        if size < old {
            let cut = self.with_file(file, |place| {
                place.seek(SeekFrom::Start(size))?;
                place.truncate()?;
                place.flush()
            });
            self.end(Plan::Shrink, cut)?;
            let inode = self.inode_mut(file)?;
            (inode.size, inode.modified) = (size, crate::now());
        }
        Ok(size == whole)
    }

    fn sync(&mut self) -> Result<()> {
        if self.broken {
            return Err(Error::Damaged);
        }
        if self.failed {
            return Err(Error::ReadOnly);
        }
        self.write_back(Plan::Grow)?;
        if self.held > 0 || self.has_work() {
            return self.disk_done(self.volume.flush());
        }
        if self.changed {
            if let Some(summary) = self.summary {
                let (free, _) = self.free()?;
                let free = u32::try_from(free).unwrap_or(u32::MAX);
                self.volume.put(summary + 488, &free.to_le_bytes()).map_err(|error| of_io(&error))?;
            }
            self.disk_done(self.volume.clean())?;
            self.changed = false;
        }
        Ok(())
    }

    fn is_read_only(&self) -> bool {
        self.read_only
    }

    fn is_pending(&self) -> bool {
        self.volume.is_pending()
    }

    fn take_lost(&mut self) -> bool {
        std::mem::take(&mut self.lost)
    }

    fn information(&mut self) -> Information {
        let block = self.fs.cluster_size();
        let stats = self.guard(|fat| fat.fs.stats());
        let (all, free) = stats.map_or((0, 0), |stats| (stats.total_clusters(), stats.free_clusters()));
        let bytes = u64::from(all) * u64::from(block);
        let used_bytes = u64::from(all.saturating_sub(free)) * u64::from(block);
        let read_only = self.read_only || self.broken;
        Information { bytes, used_bytes, nodes: 0, used_nodes: 0, block, read_only, tree: 0 }
    }

    fn hold(&mut self, node: Node) {
        if let Some(inode) = self.nodes.get_mut(&node) {
            inode.holders += 1;
            self.held += u64::from(inode.kind == Kind::File);
        }
    }

    fn release(&mut self, node: Node) {
        let Some(inode) = self.nodes.get_mut(&node) else { return };
        inode.holders = inode.holders.saturating_sub(1);
        self.held = self.held.saturating_sub(u64::from(inode.kind == Kind::File));
        if inode.holders == 0 && inode.removed.is_some() {
            if inode.kind == Kind::File && inode.size > LARGE {
                inode.holders = 1;
                self.unlinked.push(node);
            } else {
                self.remove_hidden(node);
            }
        }
    }

    fn settle(&mut self) {
        self.tidy();
        // Content of open files may wait. Closed files are on the disk, and then the volume is marked clean.
        if self.changed && self.held == 0 && !self.failed && !self.broken {
            let _ = self.sync();
        }
    }
}

#[cfg(target_os = "fuchsia")]
impl crate::serving::ServedFileSystem for Fat {
    fn stream(&mut self, _file: Node, _flags: u32) -> Result<Option<zx::Stream>> {
        Ok(None)
    }

    fn memory(&mut self, _file: Node, _write: bool) -> Result<zx::Vmo> {
        Err(Error::Unsupported)
    }
}
