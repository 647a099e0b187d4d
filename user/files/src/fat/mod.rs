//! The file system on a disk: FAT, by the crate `fatfs`.
//!
//! What `fatfs` has no notion of is here: nodes with numbers, which live as long as somebody holds them; removing what is
//! open (it gets a name of ours in the root until it is closed); renaming onto what is there. A damaged volume can make
//! `fatfs` panic or go in circles: each call of it has [fuel](volume) and is caught, and a volume that made it panic is not
//! touched any more.

mod nodes;
#[cfg(test)]
mod tests;
mod time;
pub mod volume;

use std::collections::HashMap;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

use fatfs::{FsOptions, OemCpConverter};
use file_protocol::{Attributes, Change, Entry, Error, Information, Kind, Result, push_entry};

use crate::system::{FileSystem, New, Node};
use nodes::{Inode, ROOT};
use volume::{Blocks, Volume};

type Fs = fatfs::FileSystem<Volume>;
type Dir = fatfs::Dir<'static, Volume>;
type File = fatfs::File<'static, Volume>;

/// How files are named that were removed while they were open.
const REMOVED: &str = ".removed-while-open-";
/// No file can be larger.
const LARGEST: u64 = u32::MAX as u64;
/// Bytes of an entry in a directory.
const ENTRY: usize = 32;
/// Bytes of all entries that a name may take.
const LONGEST_NAME: u64 = 21 * ENTRY as u64;
/// Zeroes that are written at once.
const ZEROES: usize = 64 << 10;
static CLOCK: time::Clock = time::Clock;

/// A volume.
pub struct Fat {
    fs: &'static Fs,
    volume: Volume,
    nodes: HashMap<Node, Inode>,
    /// By directory and name in small letters: FAT does not tell them apart.
    names: HashMap<(Node, String), Node>,
    next: Node,
    read_only: bool,
    /// Something was changed since it was clean.
    changed: bool,
    /// It made no sense; nothing is done to it any more.
    broken: bool,
    /// Where the sector with the count of free clusters lies (FAT32).
    summary: Option<u64>,
    /// How many files are held.
    held: u64,
}

fn of_io(error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound => Error::NotFound,
        io::ErrorKind::AlreadyExists => Error::Exists,
        io::ErrorKind::InvalidInput => Error::Invalid,
        io::ErrorKind::ReadOnlyFilesystem => Error::ReadOnly,
        // The root of the smaller kinds of FAT has a fixed size, and this is its end.
        io::ErrorKind::WriteZero | io::ErrorKind::UnexpectedEof => Error::Full,
        // `fatfs` says these in words.
        io::ErrorKind::Other => match error.to_string().as_str() {
            "No space left on device" => Error::Full,
            "Directory not empty" => Error::NotEmpty,
            _ => Error::Damaged,
        },
        _ => Error::Damaged,
    }
}

/// Short names in the code page of most disks would need its table; what is not ASCII is shown as `?` and is not found.
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

impl Fat {
    /// The volume on a disk.
    ///
    /// # Errors
    /// A sentence: there is none, or it makes no sense.
    pub fn mount(disk: Box<dyn Blocks>) -> std::result::Result<Fat, String> {
        let read_only = disk.read_only();
        let volume = Volume::new(disk);
        let options = FsOptions::new().time_provider(&CLOCK).oem_cp_converter(&ASCII).update_accessed_date(false);
        let parts = volume.clone();
        let made = catch_unwind(AssertUnwindSafe(move || Fs::new(parts, options)));
        let fs = match made {
            Ok(Ok(fs)) => fs,
            Ok(Err(error)) => return Err(format!("there is no FAT file system on it: {error}")),
            Err(_) => return Err("its FAT file system makes no sense".to_owned()),
        };
        let wide = fs.fat_type() == fatfs::FatType::Fat32;
        volume.set_flag(if wide { 0x41 } else { 0x25 });
        let header: io::Result<([u8; 2], [u8; 2])> = volume.at(11).and_then(|sector| Ok((sector, volume.at(48)?)));
        let (sector, summary) = header.map_err(|error| error.to_string())?;
        let summary = u64::from(u16::from_le_bytes(sector)) * u64::from(u16::from_le_bytes(summary));
        let mut fat = Fat {
            fs: Box::leak(Box::new(fs)),
            volume,
            nodes: HashMap::from([(ROOT, Inode::root())]),
            names: HashMap::new(),
            next: ROOT + 1,
            read_only,
            changed: false,
            broken: false,
            summary: wide.then_some(summary).filter(|at| *at > 0),
            held: 0,
        };
        if !fat.read_only {
            fat.remove_leftovers();
        }
        Ok(fat)
    }

    /// Removes what was open and removed when the machine was turned off.
    fn remove_leftovers(&mut self) {
        let found = self.guard(|fat| {
            let mut found = Vec::new();
            for entry in fat.fs.root_dir().iter() {
                let entry = entry?;
                if entry.is_file() && entry.file_name().starts_with(REMOVED) {
                    found.push(entry.file_name());
                }
            }
            for name in found {
                fat.changed = true;
                fat.fs.root_dir().remove(&name)?;
            }
            Ok(())
        });
        // A volume that cannot be read says so to whoever uses it.
        let _ = found;
        self.settle();
    }

    /// Calls `fatfs`: with fuel, and caught.
    fn guard<T>(&mut self, call: impl FnOnce(&mut Fat) -> io::Result<T>) -> Result<T> {
        if self.broken {
            return Err(Error::Damaged);
        }
        self.volume.refuel();
        match catch_unwind(AssertUnwindSafe(|| call(self))) {
            Ok(done) => done.map_err(|error| of_io(&error)),
            Err(_) => {
                eprintln!("the volume makes no sense; nothing is read or written any more");
                self.broken = true;
                Err(Error::Damaged)
            }
        }
    }

    fn check_change(&mut self) -> Result<()> {
        if self.read_only {
            return Err(Error::ReadOnly);
        }
        self.changed = true;
        Ok(())
    }

    /// Clusters that are free, and bytes of one.
    fn free(&mut self) -> Result<(u64, u64)> {
        let stats = self.guard(|fat| fat.fs.stats())?;
        Ok((stats.free_clusters().into(), stats.cluster_size().into()))
    }

    /// That a name can be added. `fatfs` leaves half a name where it finds out in between that there is no room.
    fn check_room_for_name(&mut self) -> Result<()> {
        let (free, cluster) = self.free()?;
        if free * cluster < LONGEST_NAME { Err(Error::Full) } else { Ok(()) }
    }

    /// Mends the first entries of a new directory: `fatfs` gives `.` and `..` long names beside the short ones, which no other system
    /// wants to see, and has `..` name the root's cluster where a zero belongs.
    fn mend_dots(&self, cluster: u64, in_root: bool) -> io::Result<()> {
        let mut entries: [u8; 4 * ENTRY] = self.volume.at(cluster)?;
        let is = |at: usize, name: &[u8; 11]| entries[at..].starts_with(name);
        if !is(ENTRY, b".          ") || !is(3 * ENTRY, b"..         ") {
            return Ok(());
        }
        entries.copy_within(ENTRY..2 * ENTRY, 0);
        entries.copy_within(3 * ENTRY.., ENTRY);
        entries[2 * ENTRY..].fill(0);
        if in_root {
            // The number's upper and lower half.
            entries[ENTRY + 20..ENTRY + 22].fill(0);
            entries[ENTRY + 26..ENTRY + 28].fill(0);
        }
        self.volume.put(cluster, &entries)
    }

    /// Makes a file longer by zeroes.
    fn extend(&mut self, file: Node, from: u64, to: u64) -> Result<()> {
        if to > LARGEST {
            return Err(Error::TooLarge);
        }
        let (free, cluster) = self.free()?;
        if to.div_ceil(cluster).saturating_sub(from.div_ceil(cluster)) > free {
            return Err(Error::Full);
        }
        let zeroes = vec![0; ZEROES];
        let mut at = from;
        while at < to {
            let len = (to - at).min(ZEROES as u64) as usize;
            at += self.write_at(file, at, &zeroes[..len])? as u64;
            // What it writes need not stay in memory.
            self.volume.write_back().map_err(|_| Error::Damaged)?;
        }
        Ok(())
    }

    /// Writes within a file or at its end.
    fn write_at(&mut self, file: Node, offset: u64, bytes: &[u8]) -> Result<usize> {
        let written = self.with_file(file, |place| {
            place.seek(SeekFrom::Start(offset))?;
            let mut done = 0;
            while done < bytes.len() {
                match place.write(&bytes[done..]) {
                    Ok(0) => break,
                    Ok(len) => done += len,
                    Err(error) if done == 0 => return Err(error),
                    Err(_) => break,
                }
            }
            place.flush()?;
            Ok(done)
        })?;
        if let Some(inode) = self.nodes.get_mut(&file) {
            inode.size = inode.size.max(offset + written as u64);
            inode.modified = crate::now();
        }
        Ok(written)
    }
}

impl FileSystem for Fat {
    fn root(&self) -> Node {
        ROOT
    }

    fn kind(&mut self, node: Node) -> Result<(Kind, u32)> {
        let inode = self.inode(node)?;
        Ok((inode.kind, if self.read_only { inode.mode & !0o222 } else { inode.mode }))
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

    #[allow(deprecated)] // The only way to set a time that is not the present.
    fn change(&mut self, node: Node, change: &Change) -> Result<()> {
        self.check_change()?;
        let inode = self.inode(node)?;
        // FAT knows of permissions whether something may be written, and `fatfs` cannot change that.
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
        self.check_change()?;
        let name = nodes::check_name(name)?;
        if let New::Link(_) = new {
            return Err(Error::Unsupported);
        }
        self.check_room_for_name()?;
        let dir = self.dir(directory)?;
        self.guard(|fat| match new {
            New::Directory(_) => {
                // A file first: it needs the same room for its name, and can be removed again.
                drop(dir.create_file(name)?);
                dir.remove(name)?;
                let made = fat.volume.first_zeroes(|| dir.create_dir(name).map(drop))?;
                fat.mend_dots(made.ok_or(io::ErrorKind::InvalidData)?, directory == ROOT)
            }
            _ => dir.create_file(name).map(drop),
        })?;
        self.look_up(directory, name)
    }

    fn target(&mut self, _link: Node) -> Result<Vec<u8>> {
        Err(Error::Invalid)
    }

    fn link(&mut self, _node: Node, _directory: Node, _name: &[u8]) -> Result<()> {
        Err(Error::Unsupported)
    }

    fn unlink(&mut self, directory: Node, name: &[u8]) -> Result<()> {
        self.check_change()?;
        let node = self.find(directory, name)?;
        let inode = self.inode(node)?;
        let (name, kind, held) = (inode.name.clone(), inode.kind, inode.holders > 0);
        if held && kind == Kind::Directory {
            // Whoever has it open finds nothing in it any more; with names in it, it cannot be removed.
            self.check_empty(node)?;
        }
        self.let_go(node);
        let dir = self.dir(directory)?;
        if held && kind == Kind::File {
            let hidden = format!("{REMOVED}{node}");
            let root = self.dir(ROOT)?;
            self.guard(|_| dir.rename(&name, &root, &hidden))?;
            self.forget_name(directory, &name);
            let inode = self.inode_mut(node)?;
            (inode.above, inode.name, inode.removed) = (ROOT, hidden.clone(), Some(hidden));
            return Ok(());
        }
        self.guard(|_| dir.remove(&name))?;
        self.forget_name(directory, &name);
        if held {
            self.inode_mut(node)?.removed = Some(String::new());
        } else {
            self.nodes.remove(&node);
        }
        Ok(())
    }

    fn rename(&mut self, from: (Node, &[u8]), to: (Node, &[u8])) -> Result<()> {
        self.check_change()?;
        let node = self.find(from.0, from.1)?;
        let new = nodes::check_name(to.1)?;
        if self.inode(node)?.kind == Kind::Directory && from.0 != to.0 {
            // `fatfs` would leave the entry for the directory above as it is.
            return Err(Error::Unsupported);
        }
        match self.find(to.0, to.1) {
            Ok(old) if old == node => return Ok(()),
            Ok(_) => self.unlink(to.0, to.1)?,
            Err(Error::NotFound) => {}
            Err(error) => return Err(error),
        }
        self.check_room_for_name()?;
        let old = self.inode(node)?.name.clone();
        // What knows where its entry lies must not outlive that.
        self.let_go(node);
        let (source, target) = (self.dir(from.0)?, self.dir(to.0)?);
        self.guard(|_| {
            // `fatfs` takes the old name away before it finds out whether there is room for the new one.
            drop(target.create_file(new)?);
            target.remove(new)?;
            source.rename(&old, &target, new)
        })?;
        self.forget_name(from.0, &old);
        self.names.insert((to.0, new.to_lowercase()), node);
        let inode = self.inode_mut(node)?;
        (inode.above, inode.name) = (to.0, new.to_owned());
        Ok(())
    }

    fn entries(&mut self, directory: Node, cookie: u64, data: &mut Vec<u8>) -> Result<()> {
        if self.inode(directory)?.removed.is_some() {
            return Ok(());
        }
        let dir = self.dir(directory)?;
        // A cookie is a place among the entries. When names come and go in between, one may be told twice or not at all.
        let found: Vec<(String, bool)> = self.guard(|_| {
            let mut found = Vec::new();
            for entry in dir.iter().skip(cookie as usize) {
                let entry = entry?;
                found.push((entry.file_name(), entry.is_dir()));
                // More do not fit into one answer.
                if found.len() > 2048 {
                    break;
                }
            }
            Ok(found)
        })?;
        for (index, (name, is_dir)) in (cookie + 1..).zip(found) {
            if name == "." || name == ".." || name.starts_with(REMOVED) {
                continue;
            }
            let kind = if is_dir { Kind::Directory } else { Kind::File };
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
                    // Its chain of clusters is shorter than the file.
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
            self.extend(file, size, offset)?;
        }
        let len = bytes.len().min((LARGEST - offset) as usize);
        match self.write_at(file, offset, &bytes[..len])? {
            0 if len > 0 => Err(Error::Full),
            written => Ok(written),
        }
    }

    fn resize(&mut self, file: Node, size: u64) -> Result<()> {
        self.check_change()?;
        let old = self.inode(file)?.size;
        if size > old {
            return self.extend(file, old, size);
        }
        if size < old {
            self.with_file(file, |place| {
                place.seek(SeekFrom::Start(size))?;
                place.truncate()?;
                place.flush()
            })?;
            let inode = self.inode_mut(file)?;
            (inode.size, inode.modified) = (size, crate::now());
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        if self.changed && !self.broken {
            if let Some(summary) = self.summary {
                let (free, _) = self.free()?;
                let free = u32::try_from(free).unwrap_or(u32::MAX);
                self.volume.put(summary + 488, &free.to_le_bytes()).map_err(|error| of_io(&error))?;
            }
            self.volume.clean().map_err(|error| of_io(&error))?;
            self.changed = false;
        }
        Ok(())
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
        if inode.holders == 0
            && let Some(hidden) = inode.removed.take()
        {
            self.let_go(node);
            self.nodes.remove(&node);
            if !hidden.is_empty() {
                // What cannot be removed now is at the next start.
                let _ = self.guard(|fat| fat.fs.root_dir().remove(&hidden));
            }
        }
    }

    fn settle(&mut self) {
        self.tidy();
        if self.changed && self.held == 0 {
            // Nothing is open: the volume is as if it had never been.
            if let Err(error) = self.sync() {
                eprintln!("what was written did not get to the disk: {error:?}");
            }
        } else if let Err(error) = self.volume.write_back() {
            eprintln!("what was written did not get to the disk: {error}");
        }
    }
}

#[cfg(target_os = "fuchsia")]
impl crate::serving::Served for Fat {
    fn stream(&mut self, _file: Node, _flags: u32) -> Result<Option<zx::Stream>> {
        Ok(None)
    }

    fn memory(&mut self, _file: Node, _write: bool) -> Result<zx::Vmo> {
        Err(Error::Unsupported)
    }
}
