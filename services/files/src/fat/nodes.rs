//! Nodes: `fatfs` has no node numbers.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;

use file_protocol::{Error, Kind, Result};

use super::layout::Found;
use super::{Dir, Fat, File, NAMES};
use crate::system::{FileSystem, Node};

/// The root's number.
pub const ROOT: Node = 1;
/// Number of nodes without holder that are remembered.
const REMEMBERED: usize = 4096;
/// This bit is set in the numbers of names that were never looked up.
const HIDDEN: u64 = 1 << 62;

/// A file or directory on the volume.
pub struct Inode {
    /// The directory that contains it.
    pub above: Node,
    /// Its name there, as it is written.
    pub name: String,
    pub kind: Kind,
    pub mode: u32,
    pub size: u64,
    pub accessed: i64,
    pub modified: i64,
    pub holders: u64,
    /// A directory's first cluster, which never changes.
    pub cluster: u32,
    /// It was removed while it was open. For a file: its hidden name in the root until it is closed.
    pub removed: Option<String>,
    /// The open `fatfs` handle, once it was needed.
    dir: Option<Dir>,
    file: Option<File>,
}

impl Inode {
    /// The node of the root directory.
    pub fn root() -> Inode {
        Inode {
            above: ROOT,
            name: String::new(),
            kind: Kind::Directory,
            mode: 0o777,
            size: 0,
            accessed: 0,
            modified: 0,
            // The root is held for ever.
            holders: 1,
            cluster: 0,
            removed: None,
            dir: None,
            file: None,
        }
    }
}

/// Checks that FAT can hold the name and that it is not a hidden name.
///
/// # Errors
/// `Invalid`, `NotPermitted`.
pub fn check_name(name: &[u8]) -> Result<&str> {
    let name = str::from_utf8(name).map_err(|_| Error::Invalid)?;
    if name.starts_with(super::REMOVED) {
        return Err(Error::NotPermitted);
    }
    // Other systems strip these characters from the end, and would find another file.
    let bad = |char: char| {
        !(' '..='\u{ffff}').contains(&char) || matches!(char, '"' | '*' | ':' | '<' | '>' | '?' | '\\' | '|' | '\u{7f}')
    };
    if name.contains(bad) || name.ends_with(['.', ' ']) { Err(Error::Invalid) } else { Ok(name) }
}

/// The number of a name that was never looked up.
pub fn hidden_number(directory: Node, name: &str) -> Node {
    let mut hasher = DefaultHasher::new();
    (directory, name).hash(&mut hasher);
    hasher.finish() >> 2 | HIDDEN
}

impl Fat {
    pub(super) fn inode(&self, node: Node) -> Result<&Inode> {
        self.nodes.get(&node).ok_or(Error::NotFound)
    }

    pub(super) fn inode_mut(&mut self, node: Node) -> Result<&mut Inode> {
        self.nodes.get_mut(&node).ok_or(Error::NotFound)
    }

    /// The node of a name; assigns a number if it has none.
    pub(super) fn look_up(&mut self, directory: Node, name: &str) -> Result<Node> {
        let key = (directory, name.to_lowercase());
        if let Some(node) = self.names.get(&key) {
            return Ok(*node);
        }
        let place = self.place(directory)?;
        let is_it = |found: &Found| {
            found.name.to_lowercase() == key.1
                || found.short().eq_ignore_ascii_case(name) && !matches!(name, "." | "..")
        };
        let found = self.guard(|fat| {
            let names = fat.layout.names(&fat.volume, place, NAMES)?;
            names.into_iter().find(is_it).ok_or(io::ErrorKind::NotFound.into())
        })?;
        let (accessed, modified) = found.times();
        let is_directory = found.is_directory();
        let size = if is_directory { 0 } else { u64::from(found.size()) };
        // A size larger than the whole volume means that the chain has a cycle.
        if size > u64::from(self.layout.end) * self.layout.cluster {
            return Err(Error::Damaged);
        }
        let found = Inode {
            above: directory,
            kind: if is_directory { Kind::Directory } else { Kind::File },
            mode: if found.is_read_only() { 0o555 } else { 0o755 },
            size,
            accessed,
            modified,
            holders: 0,
            cluster: found.cluster(),
            removed: None,
            dir: None,
            file: None,
            name: found.name,
        };
        // The node may be known under its other name.
        let key = (directory, found.name.to_lowercase());
        if let Some(node) = self.names.get(&key) {
            return Ok(*node);
        }
        let node = self.next;
        self.next += 1;
        self.nodes.insert(node, found);
        self.names.insert(key, node);
        Ok(node)
    }

    /// The `fatfs` handle of a directory.
    pub(super) fn dir(&mut self, directory: Node) -> Result<Dir> {
        let inode = self.inode(directory)?;
        if inode.kind != Kind::Directory {
            return Err(Error::NotDirectory);
        }
        if inode.removed.is_some() {
            return Err(Error::NotFound);
        }
        if let Some(dir) = &inode.dir {
            return Ok(dir.clone());
        }
        let (above, name) = (inode.above, inode.name.clone());
        let dir = if directory == ROOT {
            self.guard(|fat| Ok(fat.fs.root_dir()))?
        } else {
            if self.depth(directory)? > file_protocol::PATH_MAX / 2 {
                return Err(Error::Damaged);
            }
            let parent = self.dir(above)?;
            self.guard(|_| parent.open_dir(&name))?
        };
        self.inode_mut(directory)?.dir = Some(dir.clone());
        Ok(dir)
    }

    /// Depth of a directory below the root.
    fn depth(&self, directory: Node) -> Result<usize> {
        let (mut at, mut depth) = (directory, 0);
        while at != ROOT && depth <= file_protocol::PATH_MAX {
            at = self.inode(at)?.above;
            depth += 1;
        }
        Ok(depth)
    }

    /// Runs a call with the `fatfs` handle of a file. There is one handle per file, however many descriptions have it
    /// open.
    pub(super) fn with_file<T>(&mut self, node: Node, call: impl FnOnce(&mut File) -> io::Result<T>) -> Result<T> {
        let inode = self.inode_mut(node)?;
        if inode.kind != Kind::File {
            return Err(Error::IsDirectory);
        }
        let mut file = match inode.file.take() {
            Some(file) => file,
            None => {
                let (above, name) = (inode.above, inode.name.clone());
                let parent = self.dir(above)?;
                self.guard(|_| parent.open_file(&name))?
            }
        };
        let done = self.guard(|_| {
            let done = call(&mut file);
            Ok((file, done))
        });
        let (file, done) = done?;
        // After an error the position in the handle may be wrong, so it is dropped.
        if done.is_ok() {
            self.inode_mut(node)?.file = Some(file);
        } else {
            let _ = self.guard(|_| {
                drop(file);
                Ok(())
            });
        }
        done.map_err(|error| super::of_io(&error))
    }

    /// Closes the `fatfs` handle of a node.
    pub(super) fn close_handle(&mut self, node: Node) {
        let Some(inode) = self.nodes.get_mut(&node) else { return };
        let open = (inode.dir.take(), inode.file.take());
        let _ = self.guard(|_| {
            drop(open);
            Ok(())
        });
    }

    pub(super) fn forget_name(&mut self, directory: Node, name: &str) {
        self.names.remove(&(directory, name.to_lowercase()));
    }

    /// Checks that a directory has no names in it.
    pub(super) fn check_empty(&mut self, directory: Node) -> Result<()> {
        let mut data = Vec::new();
        self.entries(directory, 0, &mut data)?;
        if data.is_empty() { Ok(()) } else { Err(Error::NotEmpty) }
    }

    /// Forgets nodes without holder when there are many.
    pub(super) fn tidy(&mut self) {
        if self.nodes.len() <= REMEMBERED {
            return;
        }
        let mut needed: Vec<Node> = Vec::new();
        for (node, inode) in &self.nodes {
            let (mut at, mut holders) = (*node, inode.holders);
            // A directory above a held node is kept, too.
            while holders > 0 && at != ROOT && needed.len() <= self.nodes.len() * 64 {
                needed.push(at);
                let Some(inode) = self.nodes.get(&at) else { break };
                (at, holders) = (inode.above, 1);
            }
        }
        needed.sort_unstable();
        let gone: Vec<Node> =
            self.nodes.keys().filter(|node| **node != ROOT && needed.binary_search(node).is_err()).copied().collect();
        for node in gone {
            self.close_handle(node);
            if let Some(inode) = self.nodes.remove(&node) {
                self.forget_name(inode.above, &inode.name);
            }
        }
    }
}
