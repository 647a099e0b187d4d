//! What a file system has to know.

use file_protocol::{Attributes, Change, Information, Kind, Result};
use service::Program;

/// A node's number.
pub type Node = u64;

/// What is to be made.
#[derive(Clone, Copy, Debug)]
pub enum New<'a> {
    /// An empty file with these permissions.
    File(u32),
    /// An empty directory with these permissions.
    Directory(u32),
    /// A symbolic link that leads there.
    Link(&'a [u8]),
    /// A name of a UNIX socket with these permissions.
    Socket(u32),
}

/// A tree of names. Names are checked and permissions asked for before it is called. A node that nobody
/// [holds](FileSystem::hold) may be gone after [`FileSystem::settle`].
pub trait FileSystem {
    /// The root's number.
    fn root(&self) -> Node;
    /// What a node is, and its permissions.
    ///
    /// # Errors
    /// There is no such node.
    fn kind(&mut self, node: Node) -> Result<(Kind, u32)>;
    /// All that is known of a node, but for the tree's number.
    ///
    /// # Errors
    /// There is no such node.
    fn attributes(&mut self, node: Node) -> Result<Attributes>;
    /// Changes permissions and times.
    ///
    /// # Errors
    /// Nothing can be changed, or not this.
    fn change(&mut self, node: Node, change: &Change) -> Result<()>;
    /// What has a name in a directory.
    ///
    /// # Errors
    /// `NotFound`.
    fn find(&mut self, directory: Node, name: &[u8]) -> Result<Node>;
    /// The directory above a directory; the root is above itself.
    ///
    /// # Errors
    /// `NotFound`: it has been removed.
    fn above(&mut self, directory: Node) -> Result<Node>;
    /// The name of a directory in the one above it.
    ///
    /// # Errors
    /// `NotFound`: it has been removed.
    fn name(&mut self, directory: Node) -> Result<Vec<u8>>;
    /// Makes something with a name that is free.
    ///
    /// # Errors
    /// `Full`, `Unsupported`, `ReadOnly`.
    fn make(&mut self, directory: Node, name: &[u8], new: New<'_>) -> Result<Node>;
    /// Where a symbolic link leads.
    ///
    /// # Errors
    /// It is none.
    fn target(&mut self, link: Node) -> Result<Vec<u8>>;
    /// Gives a file one more name, which is free.
    ///
    /// # Errors
    /// `Unsupported`, `Full`, `TooManyLinks`.
    fn link(&mut self, node: Node, directory: Node, name: &[u8]) -> Result<()>;
    /// Takes away a name that is there. What nobody holds and has no other name is gone.
    ///
    /// # Errors
    /// `NotEmpty` for a directory with names in it.
    fn unlink(&mut self, directory: Node, name: &[u8]) -> Result<()>;
    /// Gives what has one name another one, in the place of what has that; both are of the same kind, and no directory gets
    /// into itself.
    ///
    /// # Errors
    /// `NotEmpty`, `Full`.
    fn rename(&mut self, from: (Node, &[u8]), to: (Node, &[u8])) -> Result<()>;
    /// Adds entries behind `cookie` to an answer's data ([`file_protocol::push_entry`]), as long as there is room.
    ///
    /// # Errors
    /// The disk fails.
    fn entries(&mut self, directory: Node, cookie: u64, data: &mut Vec<u8>) -> Result<()>;
    /// Bytes of a file's content.
    ///
    /// # Errors
    /// It is none.
    fn size(&mut self, file: Node) -> Result<u64>;
    /// Reads content; nothing at its end.
    ///
    /// # Errors
    /// The disk fails.
    fn read(&mut self, file: Node, offset: u64, bytes: &mut [u8]) -> Result<usize>;
    /// Writes content; perhaps not all.
    ///
    /// # Errors
    /// `Full`, when nothing could be written.
    fn write(&mut self, file: Node, offset: u64, bytes: &[u8]) -> Result<usize>;
    /// Changes the length of the content, or goes a part of the way; says whether that was all.
    ///
    /// # Errors
    /// `Full`, `TooLarge`.
    fn resize_some(&mut self, file: Node, size: u64) -> Result<bool>;
    /// Changes the length of the content, however long that takes.
    ///
    /// # Errors
    /// As [`FileSystem::resize_some`].
    fn resize(&mut self, file: Node, size: u64) -> Result<()> {
        while !self.resize_some(file, size)? {}
        Ok(())
    }
    /// Whether what lies between the end of a file and content behind it has to be written.
    fn fills_holes(&self) -> bool {
        false
    }
    /// Whether something was put off because it takes long.
    fn has_work(&self) -> bool {
        false
    }
    /// Does a part of that.
    fn work(&mut self) {}
    /// Has it all stay.
    ///
    /// # Errors
    /// The disk fails. `ReadOnly`: it failed earlier, and nothing is written any more.
    fn sync(&mut self) -> Result<()>;
    /// Nothing can be written.
    fn is_read_only(&self) -> bool {
        false
    }
    /// Whether something that was changed is not on the disk for good.
    fn is_pending(&self) -> bool {
        false
    }
    /// Whether something that was answered may not stay, because the disk failed since this was asked last.
    fn take_lost(&mut self) -> bool {
        false
    }
    /// How full it is, but for the tree's number.
    fn information(&mut self) -> Information;
    /// A node is open once more.
    fn hold(&mut self, node: Node);
    /// A node is open once less.
    fn release(&mut self, node: Node);
    /// A request is done.
    fn settle(&mut self) {}
    /// Says for whom the next requests are: who pays for what they make.
    fn charge(&mut self, _program: Program) {}
    /// The tree has ended: lets go of so many of its parts, and says whether that was all.
    fn end(&mut self, _parts: usize) -> bool {
        true
    }
}
