//! The protocol between programs and file systems.
//!
//! A file system is a process that serves one tree of names. A channel to it stands for an *open description*: a
//! directory or a file, with its access rights and, for a file, a position. A process receives the channel to the
//! tree's root with its name space; [`Request::Open`] makes all others. The methods follow `fuchsia.io`; the encoding
//! is `postcard`'s.
//!
//! Steps of a conversation; the code on both sides refers to these numbers:
//!
//! 1. **A request** is a message: four bytes with the transaction's number, then a [`Request`], then the data, if the
//!    request has data. Transaction number 0 means that the client wants no answer.
//! 2. **The answer** begins with the same four bytes; then follow `Result<Answer, Error>` and the data. It carries the
//!    handles that the [`Answer`] names. The file system processes the requests of a channel in order, except that
//!    requests for locks may wait.
//! 3. **Paths** are relative to the channel's directory. A path has at most [`PATH_MAX`] bytes, a name at most
//!    [`NAME_MAX`]. The file system follows at most [`LINKS_MAX`] symbolic links. If a path leaves the tree, by an
//!    absolute link or by `..` at the root, the file system answers [`Answer::Elsewhere`] with the rest of the path,
//!    because only the client knows its name space.
//! 4. **Content**: a file system that keeps files in memory returns a *stream* with [`Answer::Opened`]. The client then
//!    reads, writes, appends and seeks by system calls; the file system learns of that only by [`Request::Touched`].
//!    Without a stream, the client sends [`Request::Read`] and related requests, and the file system keeps the
//!    position. A read that is longer than a message goes through a buffer that the client supplies
//!    ([`Request::Fetch`]).
//! 5. **To pass on an open file**, its client makes a channel and sends one end with [`Request::Clone`]. It sends the
//!    other end to the other process, which asks with [`Request::Describe`] what the channel refers to. Both processes
//!    share the position, the flags and the locks.
//! 6. **Closing**: when a channel is closed, for whatever reason, its description is closed. That releases its locks. A
//!    file without names is deleted with its last description. A request that is sent after a channel was closed finds
//!    it closed. So the file system waits for a channel's next message or end before it answers.
//! 7. **A UNIX socket's name** is a node of its own kind. [`Request::Bind`] makes it and opens it over a channel of the
//!    socket. Through that channel the socket *listens* ([`Request::Listen`]) or *receives* datagrams
//!    ([`Request::Receive`]) until the channel is closed; the node remains. The socket's data never passes through the
//!    file system.
//! 8. **To connect**, a client makes a stream socket of Zircon and sends one end with [`Request::Connect`]. That end
//!    waits in the listener's queue for [`Request::Accept`]; the signal [`INCOMING`] on the listener's channel says
//!    that the queue is not empty. If the queue is full, a blocking client waits for a place in the queue; the signal
//!    [`CONNECTED`] on its own end says that it has one. If the listener is closed, the file system closes the ends in
//!    its queue, each after the signal [`RESET`] to the client.
//! 9. **To send datagrams**, a client requests the receiver's socket ([`Request::Reach`]) and writes to it. Each
//!    datagram begins with its sender's name ([`datagram`]), which the sender supplies and nothing checks.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod message;
mod names;
mod sockets;

pub use message::{buffer, decode, encode, transaction};
pub use names::{Entry, check_name, entries, push_entry};
pub use sockets::{
    BACKLOG_MAX, CONNECTED, DATAGRAM_HEADER_MAX, DATAGRAM_MAX, INCOMING, RESET, SOCKET_NAME_MAX, datagram,
    split_datagram,
};

use serde::{Deserialize, Serialize};

/// Limit on a name in bytes.
pub const NAME_MAX: usize = 255;
/// Limit on a path in bytes.
pub const PATH_MAX: usize = 4096;
/// Limit on the symbolic links in the resolution of a path.
pub const LINKS_MAX: u32 = 40;
/// Limit on the data in one message, in bytes.
pub const DATA_MAX: usize = 60 << 10;
/// Limit on the bytes that one [`Request::Fetch`] reads.
pub const FETCH_MAX: usize = 256 << 10;
/// Limit on a message in bytes.
pub const MESSAGE_MAX: usize = 64 << 10;

/// Flags of [`Request::Open`] and [`Opened`].
pub mod flags {
    /// The content can be read.
    pub const READ: u32 = 1;
    /// The content can be written.
    pub const WRITE: u32 = 1 << 1;
    /// Append mode: every write goes to the end.
    pub const APPEND: u32 = 1 << 2;
    /// Create the file if it does not exist.
    pub const CREATE: u32 = 1 << 3;
    /// With `CREATE`: fail if the path exists.
    pub const EXCLUSIVE: u32 = 1 << 4;
    /// Truncate the file to length 0.
    pub const TRUNCATE: u32 = 1 << 5;
    /// Fail if it is not a directory.
    pub const DIRECTORY: u32 = 1 << 6;
    /// Do not follow a symbolic link at the end of the path.
    pub const NO_FOLLOW: u32 = 1 << 7;
}

/// A client's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request<'a> {
    /// Opens the file at a path; see [`flags`]. A new file gets `mode`. Carries the file system's end of a new channel,
    /// which then stands for the open description. The client makes the channel, so messages in it are charged to the
    /// client.
    Open {
        /// The path; if it is empty, opens another description of the file that this channel has open.
        path: &'a [u8],
        /// Bits of [`flags`].
        flags: u32,
        /// Permissions of a new file.
        mode: u32,
    },
    /// Makes the channel end in this message a second channel to this description. There is no answer.
    Clone,
    /// Returns what is open, like the answer to [`Request::Open`].
    Describe,
    /// Returns the attributes of the file at a path.
    Attributes {
        /// The path; empty for the open file.
        path: &'a [u8],
        /// Whether to follow a symbolic link at its end.
        follow: bool,
    },
    /// Changes attributes.
    SetAttributes {
        /// The path; empty for the open file.
        path: &'a [u8],
        /// Whether to follow a symbolic link at its end.
        follow: bool,
        /// The attributes to change.
        change: Change,
    },
    /// Reads at the position and advances it.
    Read {
        /// Maximum number of bytes.
        len: u32,
    },
    /// Reads at an offset.
    ReadAt {
        /// Offset in bytes.
        offset: u64,
        /// Maximum number of bytes.
        len: u32,
    },
    /// Sets this channel's buffer for [`Request::Fetch`] and replaces the previous one. Carries a VMO of the client,
    /// which must be writable and must not be supplied by a pager.
    Buffer,
    /// Reads at most [`FETCH_MAX`] bytes into the start of the buffer, and returns their number. A read of that length
    /// costs one message; [`Request::Read`] takes five.
    Fetch {
        /// Offset in bytes; `None` means the position, which advances.
        offset: Option<u64>,
        /// Maximum number of bytes.
        len: u32,
    },
    /// Writes the data at the position, or in append mode at the end, and advances the position.
    Write,
    /// Writes the data at an offset.
    WriteAt {
        /// Offset in bytes.
        offset: u64,
    },
    /// Moves the position.
    Seek {
        /// 0 from the start, 1 from the position, 2 from the end.
        whence: u8,
        /// Signed distance in bytes.
        offset: i64,
    },
    /// Changes the length of the content; added bytes are zero.
    Resize {
        /// The new length in bytes.
        size: u64,
    },
    /// Says that the client wrote content through the stream at this time, in nanoseconds since 1970. There is no
    /// answer.
    Touched {
        /// Time of the write.
        at: i64,
    },
    /// Sets or clears [`flags::APPEND`] of a description without a stream.
    SetAppend {
        /// Whether to set it.
        append: bool,
    },
    /// Returns the VMO of the file's content, for mappings.
    Memory {
        /// Whether the VMO must be writable.
        write: bool,
    },
    /// Returns entries of the open directory, as many as fit. Their order is stable while names are added and removed.
    Entries {
        /// 0 for the first entry, or the cookie of the last known entry.
        cookie: u64,
    },
    /// Copies files of a BOOTFS image to the open directory, which must be empty: all files below a directory of the
    /// image, with the directories on their paths. Carries the image's VMO. Stops at the first error.
    Fill {
        /// The directory's path in the image.
        folder: &'a [u8],
    },
    /// Makes a directory.
    MakeDirectory {
        /// Its path.
        path: &'a [u8],
        /// Its permissions.
        mode: u32,
    },
    /// Removes a name: of an empty directory, or of any other file.
    Unlink {
        /// Its path.
        path: &'a [u8],
        /// Whether it must be a directory; otherwise it must not be one.
        directory: bool,
    },
    /// Renames a file; replaces a file that has the new name.
    Rename {
        /// Its path.
        from: &'a [u8],
        /// Its new path.
        to: &'a [u8],
    },
    /// Adds a name to a file (hard link).
    Link {
        /// An existing path of the file.
        from: &'a [u8],
        /// Its new path.
        to: &'a [u8],
        /// Whether a symbolic link at the end of `from` is followed.
        follow: bool,
    },
    /// Creates a symbolic link.
    MakeLink {
        /// Its path.
        path: &'a [u8],
        /// Its target.
        target: &'a [u8],
    },
    /// Returns the target of a symbolic link.
    ReadLink {
        /// Its path.
        path: &'a [u8],
    },
    /// Returns the path of a file from the tree's root, with symbolic links resolved.
    Resolve {
        /// The path; empty for the open directory itself.
        path: &'a [u8],
    },
    /// Makes written data persistent.
    Sync,
    /// Returns size and free space of the file system.
    Information,
    /// Locks or unlocks the whole file for this description.
    Lock {
        /// Type of the lock.
        lock: Lock,
        /// Whether to wait for conflicting locks.
        wait: bool,
    },
    /// Locks or unlocks a byte range of the file for a process.
    LockRange {
        /// The process's koid.
        owner: u64,
        /// Type of the lock.
        lock: Lock,
        /// Whether to wait for conflicting locks.
        wait: bool,
        /// Its first byte.
        start: u64,
        /// The byte after its last.
        end: u64,
    },
    /// Returns the lock that conflicts with a requested one.
    TestRange {
        /// The requesting process's koid.
        owner: u64,
        /// Type of the lock.
        lock: Lock,
        /// Its first byte.
        start: u64,
        /// The byte after its last.
        end: u64,
    },
    /// Creates the name of a UNIX socket (7). Carries the file system's end of a channel, over which the name is then
    /// open.
    Bind {
        /// Its path.
        path: &'a [u8],
        /// Its permissions.
        mode: u32,
    },
    /// Makes the name that [`Request::Bind`] opened listen, or changes the length of its queue.
    Listen {
        /// Number of connections that can wait in addition to the first; at most [`BACKLOG_MAX`].
        backlog: u32,
        /// The socket's name, which peers see.
        name: &'a [u8],
    },
    /// Makes the name that [`Request::Bind`] opened receive datagrams. Carries the end of a datagram socket that
    /// senders write to.
    Receive {
        /// The socket's name, which senders see.
        name: &'a [u8],
    },
    /// Connects to the listener at a path (8). Carries one end of a stream socket.
    Connect {
        /// The path.
        path: &'a [u8],
        /// The name that the connecting socket supplies; empty for none.
        name: &'a [u8],
        /// Whether to wait for a place if the queue is full.
        wait: bool,
    },
    /// Accepts the connection that has waited longest (8).
    Accept,
    /// Requests the socket that receives datagrams at a path (9).
    Reach {
        /// The path.
        path: &'a [u8],
    },
}

/// Type of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lock {
    /// Not locked.
    Free,
    /// Compatible with other shared locks.
    Shared,
    /// Compatible with no other lock.
    Exclusive,
}

/// Changes of [`Request::SetAttributes`]; `None` leaves an attribute unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Permissions.
    pub mode: Option<u32>,
    /// Time of the last access, in nanoseconds since 1970.
    pub accessed: Option<i64>,
    /// Time of the last modification of the content, in nanoseconds since 1970.
    pub modified: Option<i64>,
}

/// A file system's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// Success.
    Done,
    /// A file is open; the message carries the stream if [`Opened::stream`] is set.
    Opened(Opened),
    /// The requested attributes.
    Attributes(Attributes),
    /// Number of bytes written or fetched, or the new position.
    Count(u64),
    /// Data follows: bytes that were read, a path, or entries.
    Data,
    /// Size and free space.
    Information(Information),
    /// The message carries the requested VMO.
    Memory,
    /// The conflicting lock.
    Held {
        /// Koid of the process that holds it; 0 if there is no conflict.
        owner: u64,
        /// Type of the lock.
        lock: Lock,
        /// The first byte.
        start: u64,
        /// The byte after its last.
        end: u64,
    },
    /// The path leads out of the tree. The rest of the path follows as data.
    Elsewhere {
        /// Whether it is the request's second path.
        second: bool,
        /// Whether the rest is relative to the parent of the tree's root; otherwise it is absolute.
        above: bool,
    },
    /// The connection is in the listener's queue, or waits for a place in it. The listener's name follows as data.
    Connected {
        /// Whether it waits for a place in the queue.
        waits: bool,
    },
    /// The message carries the requested socket. The peer's name follows as data.
    Socket,
}

/// Description of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// Type of the file.
    pub kind: Kind,
    /// The bits `READ`, `WRITE` and `APPEND` of [`flags`].
    pub flags: u32,
    /// Whether the message carries a stream.
    pub stream: bool,
}

/// Type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A UNIX socket's name.
    Socket,
}

/// Attributes of a file. Times are nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    /// Type of the file.
    pub kind: Kind,
    /// Permissions: nine bits, and the three bits set-user-ID, set-group-ID and sticky.
    pub mode: u32,
    /// Length of the content in bytes.
    pub size: u64,
    /// Bytes of storage in use.
    pub stored: u64,
    /// Number of names (hard links).
    pub links: u64,
    /// Number in the tree (inode number).
    pub node: u64,
    /// Number of the tree (device number).
    pub tree: u64,
    /// Time of the last access.
    pub accessed: i64,
    /// Time of the last modification of the content.
    pub modified: i64,
    /// Time of the last change of content or attributes.
    pub changed: i64,
}

/// Size and free space of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Information {
    /// Total bytes.
    pub bytes: u64,
    /// Used bytes.
    pub used_bytes: u64,
    /// Total inodes; 0 if their number is not limited.
    pub nodes: u64,
    /// Used inodes.
    pub used_nodes: u64,
    /// Block size in bytes.
    pub block: u32,
    /// Whether the file system is read-only.
    pub read_only: bool,
    /// Number of the tree (device number).
    pub tree: u64,
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Error {
    /// The name does not exist.
    NotFound,
    /// The name already exists.
    Exists,
    /// A path component is not a directory.
    NotDirectory,
    /// A directory where a file is expected.
    IsDirectory,
    /// The directory is not empty.
    NotEmpty,
    /// The permissions or the access mode do not allow it.
    Access,
    /// The description is not open for reading, or not for writing.
    BadDescription,
    /// The file system is read-only.
    ReadOnly,
    /// No space is left.
    Full,
    /// The file would be too large.
    TooLarge,
    /// A name or a path is too long.
    TooLong,
    /// Too many symbolic links.
    Links,
    /// A file would have too many names.
    TooManyLinks,
    /// The request or an argument is invalid.
    Invalid,
    /// The file system does not support this.
    Unsupported,
    /// Another process or description holds a conflicting lock.
    Locked,
    /// The file or directory is in use.
    Busy,
    /// The operation is not permitted on this type of file.
    NotPermitted,
    /// Too many open files.
    TooManyOpen,
    /// No memory is left.
    Memory,
    /// The disk fails, or the data on it is corrupt.
    Damaged,
    /// The request was waiting and was cancelled.
    Canceled,
    /// The name is a UNIX socket's and cannot be opened.
    IsSocket,
    /// No socket listens or receives at this name.
    Refused,
    /// The socket at this name is of another type.
    OtherKind,
    /// The queue is full, or it is empty.
    WouldWait,
}

/// Result of the protocol's operations.
pub type Result<T> = core::result::Result<T, Error>;
