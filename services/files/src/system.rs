//! The interface of a file system.

use file_protocol::{Attributes, Change, Information, Kind, Result};
use service::Program;

/// A node's number.
pub type Node = u64;

/// What to create.
#[derive(Clone, Copy, Debug)]
pub enum New<'a> {
    /// An empty file with these permissions.
    File(u32),
    /// An empty directory with these permissions.
    Directory(u32),
    /// A symbolic link with this target.
    Link(&'a [u8]),
    /// A name of a UNIX socket with these permissions.
    Socket(u32),
}

/// A tree of names. The caller has checked names and permissions. A node without a [holder](FileSystem::hold) may be
/// gone after [`FileSystem::settle`].
pub trait FileSystem {
    /// The root's number.
    fn root(&self) -> Node;
    /// The kind of a node, and its permissions.
    ///
    /// # Errors
    /// The node does not exist.
    fn kind(&mut self, node: Node) -> Result<(Kind, u32)>;
    /// All attributes of a node, except the tree's number.
    ///
    /// # Errors
    /// The node does not exist.
    fn attributes(&mut self, node: Node) -> Result<Attributes>;
    /// Changes permissions and times.
    ///
    /// # Errors
    /// Nothing can be changed, or this attribute cannot be changed.
    fn change(&mut self, node: Node, change: &Change) -> Result<()>;
    /// The node of a name in a directory.
    ///
    /// # Errors
    /// `NotFound`.
    fn find(&mut self, directory: Node, name: &[u8]) -> Result<Node>;
    /// The parent of a directory. The root is its own parent.
    ///
    /// # Errors
    /// `NotFound`: the directory has been removed.
    fn above(&mut self, directory: Node) -> Result<Node>;
    /// The name of a directory in its parent.
    ///
    /// # Errors
    /// `NotFound`: the directory has been removed.
    fn name(&mut self, directory: Node) -> Result<Vec<u8>>;
    /// Creates something under a free name.
    ///
    /// # Errors
    /// `Full`, `Unsupported`, `ReadOnly`.
    fn make(&mut self, directory: Node, name: &[u8], new: New<'_>) -> Result<Node>;
    /// The target of a symbolic link.
    ///
    /// # Errors
    /// It is not a symbolic link.
    fn target(&mut self, link: Node) -> Result<Vec<u8>>;
    /// Gives a file an additional name, which is free.
    ///
    /// # Errors
    /// `Unsupported`, `Full`, `TooManyLinks`.
    fn link(&mut self, node: Node, directory: Node, name: &[u8]) -> Result<()>;
    /// Removes an existing name. A node without another name and without a holder is freed.
    ///
    /// # Errors
    /// `NotEmpty`: a directory with names in it.
    fn unlink(&mut self, directory: Node, name: &[u8]) -> Result<()>;
    /// Renames; replaces the node that has the new name. Both are of the same kind, and no directory is moved into
    /// itself.
    ///
    /// # Errors
    /// `NotEmpty`, `Full`.
    fn rename(&mut self, from: (Node, &[u8]), to: (Node, &[u8])) -> Result<()>;
    /// Appends the entries after `cookie` to an answer's data ([`file_protocol::push_entry`]), as long as there is
    /// room.
    ///
    /// # Errors
    /// The disk fails.
    fn entries(&mut self, directory: Node, cookie: u64, data: &mut Vec<u8>) -> Result<()>;
    /// Size of a file's content in bytes.
    ///
    /// # Errors
    /// It is not a file.
    fn size(&mut self, file: Node) -> Result<u64>;
    /// Reads content; returns 0 at the end.
    ///
    /// # Errors
    /// The disk fails.
    fn read(&mut self, file: Node, offset: u64, bytes: &mut [u8]) -> Result<usize>;
    /// Writes content, possibly only a part of it.
    ///
    /// # Errors
    /// `Full` if nothing could be written.
    fn write(&mut self, file: Node, offset: u64, bytes: &[u8]) -> Result<usize>;
    /// Changes the size of the content, possibly only in part; returns whether it is done.
    ///
    /// # Errors
    /// `Full`, `TooLarge`.
    fn resize_some(&mut self, file: Node, size: u64) -> Result<bool>;
    /// Changes the size of the content, however long it takes.
    ///
    /// # Errors
    /// As [`FileSystem::resize_some`].
    fn resize(&mut self, file: Node, size: u64) -> Result<()> {
        while !self.resize_some(file, size)? {}
        Ok(())
    }
    /// Whether the gap between the end of a file and content written beyond it must be filled.
    fn fills_holes(&self) -> bool {
        false
    }
    /// Whether there is postponed work.
    fn has_work(&self) -> bool {
        false
    }
    /// Does a slice of the postponed work.
    fn work(&mut self) {}
    /// Makes all changes durable.
    ///
    /// # Errors
    /// The disk fails. `ReadOnly`: it failed earlier, and nothing is written any more.
    fn sync(&mut self) -> Result<()>;
    /// Whether nothing can be written.
    fn is_read_only(&self) -> bool {
        false
    }
    /// Whether there are changes that are not durable on the disk.
    fn is_pending(&self) -> bool {
        false
    }
    /// Whether changes that were answered may be lost, because the disk failed since the last call.
    fn take_lost(&mut self) -> bool {
        false
    }
    /// Size and use of the file system, except the tree's number.
    fn information(&mut self) -> Information;
    /// Adds a holder to a node.
    fn hold(&mut self, node: Node);
    /// Removes a holder from a node.
    fn release(&mut self, node: Node);
    /// Ends a request.
    fn settle(&mut self) {}
    /// Sets the program that is charged for what the next requests create.
    fn charge(&mut self, _program: Program) {}
    /// The tree has ended: frees that many of its parts, and returns whether all are freed.
    fn end(&mut self, _parts: usize) -> bool {
        true
    }
}
