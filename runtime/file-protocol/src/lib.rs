//! What programs and file systems say to each other.
//!
//! A file system is a process that serves one tree of names. Whoever holds a channel to it holds an *open description*: a
//! directory or a file, with what may be done to it and, for a file, a position. The channel to the tree's root is what a
//! process finds in its name space; all others come from [`Request::Open`]. The methods are those of `fuchsia.io`, the
//! bytes are `postcard`'s.
//!
//! How a conversation goes; the code on both sides bears these numbers:
//!
//! 1. **A request** is a message of four bytes, the transaction's number; then a [`Request`]; then, where the request has
//!    any, bytes of data up to the end. Number 0 asks for no answer.
//! 2. **The answer** begins with the same four bytes; then `Result<Answer, Error>`; then data. It carries the handles that
//!    the [`Answer`] says. Requests of one channel are carried out in their order, but for locks, which may wait.
//! 3. **Paths** are relative to the channel's directory and at most [`PATH_MAX`] bytes long, names at most [`NAME_MAX`]. The
//!    file system follows symbolic links, [`LINKS_MAX`] at most. A path that leaves the tree, by an absolute link or by `..` at
//!    its root, is answered with [`Answer::Elsewhere`] and what is left of it: only the client knows its name space.
//! 4. **Content**: a file system whose files are memory gives a *stream* with [`Answer::Opened`]. The client then reads,
//!    writes, appends and seeks by system calls, and the file system hears nothing of it, but for [`Request::Touched`]. Where there is
//!    no stream, there are [`Request::Read`] and its kin; the position is the file system's. What is longer than a message is read into a
//!    buffer that the client gave ([`Request::Fetch`]).
//! 5. **To give an open file away**, its client makes a channel and sends one end with [`Request::Clone`]; the other goes
//!    to the other process, which asks [`Request::Describe`] what it has got. Both share the position, the flags and the locks.
//! 6. **The end**: a channel that is closed is a description that is closed, whoever closed it and why. What it had locked is
//!    free, and a file without names is gone with the last of its descriptions.
//! 7. **A UNIX socket's name** is a node of a kind of its own. [`Request::Bind`] makes it, open over a channel of its socket's. With that
//!    channel its socket *listens* ([`Request::Listen`]) or *receives* datagrams ([`Request::Receive`]), until the channel is closed; the
//!    node stays. Bytes never go through the file system.
//! 8. **To connect**, a client makes a stream socket of Zircon and sends one end with [`Request::Connect`]. It waits in the listener's
//!    queue for [`Request::Accept`]; [`INCOMING`] on the listener's channel says that the queue is not empty. Where the queue is full,
//!    a client that waits stands in line, and [`CONNECTED`] on its own end says that it has got into the queue. Should the listener end,
//!    the end is closed.
//! 9. **To send datagrams**, a client asks for the receiver's socket ([`Request::Reach`]), and writes to it. Each begins with the
//!    name of its sender ([`datagram`]), as the sender says.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod message;
mod names;
mod sockets;

pub use message::{buffer, decode, encode, transaction};
pub use names::{Entry, check_name, entries, push_entry};
pub use sockets::{
    BACKLOG_MAX, CONNECTED, DATAGRAM_HEADER_MAX, DATAGRAM_MAX, INCOMING, SOCKET_NAME_MAX, datagram, split_datagram,
};

use serde::{Deserialize, Serialize};

/// Bytes of the longest name.
pub const NAME_MAX: usize = 255;
/// Bytes of the longest path.
pub const PATH_MAX: usize = 4096;
/// How many symbolic links a path may lead through.
pub const LINKS_MAX: u32 = 40;
/// Bytes of data in one message at most.
pub const DATA_MAX: usize = 60 << 10;
/// Bytes that [`Request::Fetch`] reads at most.
pub const FETCH_MAX: usize = 256 << 10;
/// Bytes of a message at most.
pub const MESSAGE_MAX: usize = 64 << 10;

/// Flags of [`Request::Open`] and [`Opened`].
pub mod flags {
    /// Content may be read.
    pub const READ: u32 = 1;
    /// Content may be written.
    pub const WRITE: u32 = 1 << 1;
    /// Every write goes to the end.
    pub const APPEND: u32 = 1 << 2;
    /// A file is made where there is none.
    pub const CREATE: u32 = 1 << 3;
    /// With `CREATE`: nothing may be there.
    pub const EXCLUSIVE: u32 = 1 << 4;
    /// A file loses its content.
    pub const TRUNCATE: u32 = 1 << 5;
    /// It must be a directory.
    pub const DIRECTORY: u32 = 1 << 6;
    /// A symbolic link at the end is not followed.
    pub const NO_FOLLOW: u32 = 1 << 7;
}

/// What a client asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request<'a> {
    /// Opens what a path names; see [`flags`]. A new file gets `mode`. With the file system's end of a channel, which leads to
    /// it then; the client has made it, so that what waits in it is the client's.
    Open {
        /// The path; empty for what is open already, as another description.
        path: &'a [u8],
        /// Bits of [`flags`].
        flags: u32,
        /// Permissions of a new file.
        mode: u32,
    },
    /// Makes the channel's end that comes along another to this description. Asks for no answer.
    Clone,
    /// Tells what is open, as [`Request::Open`] did.
    Describe,
    /// Tells what is known of what a path names.
    Attributes {
        /// The path; empty for what is open.
        path: &'a [u8],
        /// Whether a symbolic link at its end is followed.
        follow: bool,
    },
    /// Changes it.
    SetAttributes {
        /// The path; empty for what is open.
        path: &'a [u8],
        /// Whether a symbolic link at its end is followed.
        follow: bool,
        /// What is to change.
        change: Change,
    },
    /// Reads at the position, which moves.
    Read {
        /// The most bytes.
        len: u32,
    },
    /// Reads at an offset.
    ReadAt {
        /// From where.
        offset: u64,
        /// The most bytes.
        len: u32,
    },
    /// Gives this channel a buffer for [`Request::Fetch`], in the place of the one before: with a memory object of the client's,
    /// which can be written and which no pager supplies.
    Buffer,
    /// Reads into the start of the buffer, [`FETCH_MAX`] bytes at most, and tells how many. A read of that length costs one message,
    /// where [`Request::Read`] takes five.
    Fetch {
        /// From where; none for the position, which moves.
        offset: Option<u64>,
        /// The most bytes.
        len: u32,
    },
    /// Writes the data at the position, or at the end; the position moves.
    Write,
    /// Writes the data at an offset.
    WriteAt {
        /// To where.
        offset: u64,
    },
    /// Moves the position.
    Seek {
        /// 0 from the start, 1 from the position, 2 from the end.
        whence: u8,
        /// By how much.
        offset: i64,
    },
    /// Changes the length of the content; what is new is zero.
    Resize {
        /// The new length.
        size: u64,
    },
    /// Content was written by the stream at this time, in nanoseconds since 1970. Asks for no answer.
    Touched {
        /// When.
        at: i64,
    },
    /// Sets or clears [`flags::APPEND`], where there is no stream.
    SetAppend {
        /// Whether.
        append: bool,
    },
    /// The memory that is the file's content, for mappings: with one handle.
    Memory {
        /// Whether it is to be written.
        write: bool,
    },
    /// Names in the open directory, as many as fit, in an order that stays while names come and go.
    Entries {
        /// 0 for the first, or what the last entry that is known says.
        cookie: u64,
    },
    /// Makes the files of a BOOTFS image in the open directory, which is empty: those below a folder of the image, with all
    /// folders on their way. The image comes along as a memory object. Stops at the first that cannot be made.
    Fill {
        /// The folder's path in the image.
        folder: &'a [u8],
    },
    /// Makes a directory.
    MakeDirectory {
        /// Its path.
        path: &'a [u8],
        /// Its permissions.
        mode: u32,
    },
    /// Takes away a name: of a directory, which must be empty, or of anything else.
    Unlink {
        /// Its path.
        path: &'a [u8],
        /// Whether it must be a directory, or must not.
        directory: bool,
    },
    /// Gives something another name, in the place of what has it.
    Rename {
        /// Its path.
        from: &'a [u8],
        /// Its new path.
        to: &'a [u8],
    },
    /// Gives a file one more name.
    Link {
        /// A path of it.
        from: &'a [u8],
        /// Its new path.
        to: &'a [u8],
        /// Whether a symbolic link at the end of `from` is followed.
        follow: bool,
    },
    /// Makes a symbolic link.
    MakeLink {
        /// Its path.
        path: &'a [u8],
        /// Where it leads.
        target: &'a [u8],
    },
    /// Tells where a symbolic link leads.
    ReadLink {
        /// Its path.
        path: &'a [u8],
    },
    /// The path of what a path names, from the tree's root, without links.
    Resolve {
        /// The path; empty for the open directory itself.
        path: &'a [u8],
    },
    /// Has what was written stay, whatever happens to the machine.
    Sync,
    /// Tells how full the file system is.
    Information,
    /// Locks the whole file for this description, or frees it.
    Lock {
        /// How.
        lock: Lock,
        /// Whether to wait for others.
        wait: bool,
    },
    /// Locks a part of the file for a process, or frees it.
    LockRange {
        /// The process, by its koid.
        owner: u64,
        /// How.
        lock: Lock,
        /// Whether to wait for others.
        wait: bool,
        /// Its first byte.
        start: u64,
        /// The first byte behind it.
        end: u64,
    },
    /// Asks who would hinder a lock.
    TestRange {
        /// The process that asks, by its koid.
        owner: u64,
        /// The lock.
        lock: Lock,
        /// Its first byte.
        start: u64,
        /// The first byte behind it.
        end: u64,
    },
    /// Makes a name of a UNIX socket (7). With the file system's end of a channel, over which it is open then.
    Bind {
        /// Its path.
        path: &'a [u8],
        /// Its permissions.
        mode: u32,
    },
    /// Listens with what [`Request::Bind`] opened, or changes how many may wait.
    Listen {
        /// How many connections may wait beside the first, [`BACKLOG_MAX`] at most.
        backlog: u32,
        /// The socket's name, which connections are told.
        name: &'a [u8],
    },
    /// Receives datagrams with what [`Request::Bind`] opened: with the end of a datagram socket that senders write to.
    Receive {
        /// The socket's name, which senders are told.
        name: &'a [u8],
    },
    /// Connects to who listens at a path (8). With one end of a stream socket.
    Connect {
        /// The path.
        path: &'a [u8],
        /// The name of the socket that connects, as it says; empty for none.
        name: &'a [u8],
        /// Whether to stand in line where the queue is full.
        wait: bool,
    },
    /// Takes the connection that waits longest (8).
    Accept,
    /// Asks for the socket that receives datagrams at a path (9).
    Reach {
        /// The path.
        path: &'a [u8],
    },
}

/// How something is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lock {
    /// Not.
    Free,
    /// Others may lock it so too.
    Shared,
    /// Nobody else may.
    Exclusive,
}

/// What [`Request::SetAttributes`] changes: what is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Permissions.
    pub mode: Option<u32>,
    /// The last time of access, in nanoseconds since 1970.
    pub accessed: Option<i64>,
    /// The last time of change of the content.
    pub modified: Option<i64>,
}

/// What a file system answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// It is done.
    Done,
    /// Something is open: with the stream where [`Opened::stream`] says so.
    Opened(Opened),
    /// What was asked.
    Attributes(Attributes),
    /// Bytes written or fetched, or the new position.
    Count(u64),
    /// Data follows: bytes read, a path, entries.
    Data,
    /// How full it is.
    Information(Information),
    /// The memory: with its handle.
    Memory,
    /// Who hinders a lock.
    Held {
        /// The process' koid, 0 for nobody.
        owner: u64,
        /// How it is locked.
        lock: Lock,
        /// The first byte.
        start: u64,
        /// The first byte behind it.
        end: u64,
    },
    /// The path leads out of the tree; what is left of it follows as data.
    Elsewhere {
        /// The request's second path, not its first.
        second: bool,
        /// It goes on in the directory above the tree's root; else it is absolute.
        above: bool,
    },
    /// The connection waits to be accepted, or stands in line for it; the listener's name follows as data.
    Connected {
        /// It stands in line.
        waits: bool,
    },
    /// The socket: with its handle; the name of the other party follows as data.
    Socket,
}

/// What was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// What it is.
    pub kind: Kind,
    /// What may be done to it: `READ`, `WRITE`, `APPEND` of [`flags`].
    pub flags: u32,
    /// A stream comes along.
    pub stream: bool,
}

/// What has a name.
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

/// What is known of a node. Times are nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    /// What it is.
    pub kind: Kind,
    /// Permissions: nine bits and three.
    pub mode: u32,
    /// Bytes of content.
    pub size: u64,
    /// Bytes that it takes.
    pub stored: u64,
    /// How many names it has.
    pub links: u64,
    /// Its number in the tree.
    pub node: u64,
    /// The tree's number.
    pub tree: u64,
    /// Last access.
    pub accessed: i64,
    /// Last change of the content.
    pub modified: i64,
    /// Last change of anything.
    pub changed: i64,
}

/// How full a file system is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Information {
    /// Bytes in all.
    pub bytes: u64,
    /// Of them, used.
    pub used_bytes: u64,
    /// Nodes in all; 0 where they have no number.
    pub nodes: u64,
    /// Of them, used.
    pub used_nodes: u64,
    /// Bytes of a block.
    pub block: u32,
    /// Nothing can be changed.
    pub read_only: bool,
    /// The tree's number.
    pub tree: u64,
}

/// Why something was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Error {
    /// Nothing has this name.
    NotFound,
    /// Something has it already.
    Exists,
    /// Something that is not a directory is used as one.
    NotDirectory,
    /// A directory is used as a file.
    IsDirectory,
    /// The directory has names in it.
    NotEmpty,
    /// Permissions, or how it was opened, do not allow it.
    Access,
    /// It is open for something else: reading, or writing.
    BadDescription,
    /// Nothing can be changed here.
    ReadOnly,
    /// The file system is full.
    Full,
    /// No file can be so large.
    TooLarge,
    /// A name or a path is too long.
    TooLong,
    /// Too many symbolic links.
    Links,
    /// A name has too many links, or a node too many names.
    TooManyLinks,
    /// What was asked makes no sense.
    Invalid,
    /// This file system cannot do that.
    Unsupported,
    /// Somebody else has it locked.
    Locked,
    /// It is in use in a way that hinders.
    Busy,
    /// It may not be done to this kind of thing.
    NotPermitted,
    /// Too many files are open.
    TooManyOpen,
    /// There is no memory left.
    Memory,
    /// The disk fails, or what is on it makes no sense.
    Damaged,
    /// It was waiting, and is not any more.
    Canceled,
    /// It is a UNIX socket's name, which cannot be opened.
    IsSocket,
    /// Nobody listens or receives there.
    Refused,
    /// Who is there has sockets of another kind.
    OtherKind,
    /// The queue is full, or there is nothing in it.
    WouldWait,
}

/// What everything here gives.
pub type Result<T> = core::result::Result<T, Error>;
