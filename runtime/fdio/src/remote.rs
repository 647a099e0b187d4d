//! The client side of the file protocol: a channel to an open description, and the requests over it. Step numbers refer
//! to [`file_protocol`].

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use abi::{Rights, Status};
use file_protocol::{
    Answer, Attributes, Change, DATA_MAX, Error, FETCH_MAX, Information, Opened, PATH_MAX, Request, decode, encode,
    flags,
};
use sync::Lock;
use zx::{AsHandleRef, Channel, Handle, MonotonicInstant, Stream, Vmo};

use crate::c::{EFBIG, EINVAL, EIO, ENOMEM, ENOSPC, Errno, Result};
use crate::namespace;

/// Buffer size in bytes for answers with little data: at most a path.
pub const SMALL: usize = PATH_MAX * 2 + 256;
/// Buffer size in bytes for answers with as much data as a message can hold.
const LARGE: usize = DATA_MAX + 256;
/// Interval in nanoseconds at which the file system is notified of writes to a stream.
const TOUCH: i64 = 10_000_000;

/// Number of open files with writes that the file system has not been notified of.
pub static UNNOTIFIED: AtomicUsize = AtomicUsize::new(0);

/// A channel to an open description.
pub struct Remote {
    channel: Channel,
    /// The path of the name space entry that it came from; `None` for a channel that this process received by itself.
    pub entry: Option<Arc<str>>,
}

/// Result of a request with paths.
pub enum PathResult<T> {
    /// The request is done.
    Done(T),
    /// A path leads out of the tree.
    Elsewhere {
        /// Whether it is the second of two paths.
        second: bool,
        /// Whether the rest is relative to the parent of the tree's root; otherwise it is absolute.
        above: bool,
        /// The rest of the path.
        rest: Vec<u8>,
    },
}

/// A file system's answer.
pub struct Reply {
    pub answer: Answer,
    pub data: Vec<u8>,
    pub handle: Option<Handle>,
}

fn broken(status: Status) -> Errno {
    match status {
        Status::NO_MEMORY => ENOMEM,
        // The file system has ended, or has never existed.
        _ => EIO,
    }
}

impl Remote {
    /// Wraps a channel that came from an entry, or that this process received by itself.
    pub fn new(channel: Channel, entry: Option<Arc<str>>) -> Remote {
        Remote { channel, entry }
    }

    /// The channel, for waiting.
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Whether the file system has ended.
    pub fn is_gone(&self) -> bool {
        self.channel.signals().is_ok_and(|signals| signals.contains(abi::Signals::CHANNEL_PEER_CLOSED))
    }

    /// Sends a request and waits for its answer (steps 1 and 2).
    fn call(&self, request: &Request<'_>, data: &[u8], room: usize) -> Result<Reply> {
        self.call_with::<0>(request, data, [], room)
    }

    /// Like `call`, with handles.
    pub fn call_with<const N: usize>(
        &self,
        request: &Request<'_>,
        data: &[u8],
        handles: [Handle; N],
        room: usize,
    ) -> Result<Reply> {
        let bytes = encode(0, request, data)?;
        let mut reply = vec![0; room];
        let mut handle = [None];
        let size =
            self.channel.call(MonotonicInstant::INFINITE, &bytes, handles, &mut reply, &mut handle).map_err(broken)?;
        let (answer, data) =
            decode::<core::result::Result<Answer, Error>>(&reply[..size.bytes]).map_err(|_: Error| EIO)?;
        let begin = size.bytes - data.len();
        let answer = answer?;
        reply.truncate(size.bytes);
        reply.drain(..begin);
        let [handle] = handle;
        Ok(Reply { answer, data: reply, handle })
    }

    /// Sends a request with paths.
    fn reach<T>(&self, request: &Request<'_>, done: impl FnOnce(Reply) -> Option<T>) -> Result<PathResult<T>> {
        Self::reached(self.call(request, &[], SMALL)?, done)
    }

    /// Converts the answer to a request with paths.
    pub fn reached<T>(reply: Reply, done: impl FnOnce(Reply) -> Option<T>) -> Result<PathResult<T>> {
        match reply.answer {
            Answer::Elsewhere { second, above } => Ok(PathResult::Elsewhere { second, above, rest: reply.data }),
            _ => done(reply).map(PathResult::Done).ok_or(EIO),
        }
    }

    /// Sends a request without paths whose answer is only success.
    fn tell(&self, request: &Request<'_>) -> Result<()> {
        match self.call(request, &[], SMALL)?.answer {
            Answer::Done => Ok(()),
            _ => Err(EIO),
        }
    }

    /// Sends a request with paths whose answer is only success.
    pub fn order(&self, request: &Request<'_>) -> Result<PathResult<()>> {
        self.reach(request, |reply| (reply.answer == Answer::Done).then_some(()))
    }

    /// Sends a request whose answer is a path.
    pub fn text(&self, request: &Request<'_>) -> Result<PathResult<Vec<u8>>> {
        self.reach(request, |reply| (reply.answer == Answer::Data).then_some(reply.data))
    }

    /// Opens a path.
    pub fn open(&self, path: &[u8], flags: u32, mode: u32) -> Result<PathResult<RemoteFile>> {
        let (channel, theirs) = Channel::create()?;
        let request = Request::Open { path, flags, mode };
        let reply = self.call_with(&request, &[], [theirs.into_handle()], SMALL)?;
        Self::reached(reply, |reply| match (reply.answer, reply.handle) {
            (Answer::Opened(opened), stream) if opened.stream == stream.is_some() => {
                Some(RemoteFile::new(Remote::new(channel, self.entry.clone()), opened, stream))
            }
            _ => None,
        })
    }

    /// The attributes of the file at a path.
    pub fn attributes(&self, path: &[u8], follow: bool) -> Result<PathResult<Attributes>> {
        self.reach(&Request::Attributes { path, follow }, |reply| match reply.answer {
            Answer::Attributes(attributes) => Some(attributes),
            _ => None,
        })
    }

    /// Size and free space of the file system.
    pub fn information(&self) -> Result<Information> {
        match self.call(&Request::Information, &[], SMALL)?.answer {
            Answer::Information(information) => Ok(information),
            _ => Err(EIO),
        }
    }

    /// Directory entries after `cookie`, in the protocol's encoding.
    pub fn entries(&self, cookie: u64) -> Result<Vec<u8>> {
        let reply = self.call(&Request::Entries { cookie }, &[], LARGE)?;
        if reply.answer == Answer::Data { Ok(reply.data) } else { Err(EIO) }
    }

    /// A second channel to this description, for another process or entry (step 5).
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn again(&self) -> core::result::Result<Channel, Status> {
        let (ours, theirs) = Channel::create()?;
        let bytes = encode(0, &Request::Clone, &[]).map_err(|_| Status::INTERNAL)?;
        self.channel.write(&bytes, [theirs.into_handle()])?;
        Ok(ours)
    }

    /// Sends a request for a lock.
    pub fn lock(&self, request: &Request<'_>) -> Result<()> {
        self.tell(request)
    }

    /// The lock that conflicts with a requested one: owner's koid, type, first byte, byte after the last.
    pub fn test(&self, request: &Request<'_>) -> Result<(u64, file_protocol::Lock, u64, u64)> {
        match self.call(request, &[], SMALL)?.answer {
            Answer::Held { owner, lock, start, end } => Ok((owner, lock, start, end)),
            _ => Err(EIO),
        }
    }
}

/// An open file or directory of a file system.
pub struct RemoteFile {
    /// Its channel.
    pub remote: Remote,
    /// Its kind and flags, from the answer to the open request.
    pub opened: Opened,
    /// The stream over its content, if the file system keeps the content in memory.
    stream: Option<Stream>,
    /// Buffer for reads that are longer than a message can hold.
    buffer: Lock<Buffer>,
    /// Times in nanoseconds: the last write that the file system was notified of; the last write that it was not
    /// notified of (0: none).
    notified: AtomicI64,
    unnotified: AtomicI64,
}

/// The VMO that the file system reads into ([`Request::Fetch`]).
enum Buffer {
    /// No read has needed it yet.
    Unused,
    There(Vmo),
    /// There was no memory for it, or the file system refused it.
    Refused,
}

impl RemoteFile {
    fn new(remote: Remote, opened: Opened, stream: Option<Handle>) -> RemoteFile {
        let stream = stream.map(Stream::from);
        let buffer = Lock::new(Buffer::Unused);
        RemoteFile { remote, opened, stream, buffer, notified: AtomicI64::new(0), unnotified: AtomicI64::new(0) }
    }

    /// Asks what a channel refers to that this process received (step 5).
    ///
    /// # Errors
    /// `NOT_SUPPORTED`: the channel does not speak the file protocol, or refers to something else.
    pub fn describe(channel: Channel) -> core::result::Result<RemoteFile, Status> {
        let remote = Remote::new(channel, None);
        let reply = remote.call(&Request::Describe, &[], SMALL).map_err(|_| Status::NOT_SUPPORTED)?;
        match (reply.answer, reply.handle) {
            (Answer::Opened(opened), stream) if opened.stream == stream.is_some() => {
                Ok(RemoteFile::new(remote, opened, stream))
            }
            _ => Err(Status::NOT_SUPPORTED),
        }
    }

    /// Reads at the position, or at an offset.
    pub fn read(&self, at: Option<u64>, bytes: &mut [u8]) -> Result<usize> {
        if let Some(stream) = &self.stream {
            // Step 4: a system call, without a request to the file system.
            let read = match at {
                Some(offset) => stream.readv_at(offset, [bytes]),
                None => stream.read(bytes),
            };
            return read.map_err(of_stream);
        }
        if bytes.is_empty() {
            return Ok(0);
        }
        if bytes.len() > DATA_MAX
            && let Some(fetched) = self.fetch(at, bytes)
        {
            return fetched;
        }
        let len = bytes.len().min(DATA_MAX) as u32;
        let request = match at {
            Some(offset) => Request::ReadAt { offset, len },
            None => Request::Read { len },
        };
        let reply = self.remote.call(&request, &[], LARGE)?;
        if reply.answer != Answer::Data || reply.data.len() > bytes.len() {
            return Err(EIO);
        }
        bytes[..reply.data.len()].copy_from_slice(&reply.data);
        Ok(reply.data.len())
    }

    /// Like `read`, through the buffer. Returns `None` if there is no buffer or another thread uses it.
    fn fetch(&self, at: Option<u64>, bytes: &mut [u8]) -> Option<Result<usize>> {
        let mut buffer = self.buffer.try_lock()?;
        if let Buffer::Unused = *buffer {
            *buffer = self.give_buffer().map_or(Buffer::Refused, Buffer::There);
        }
        let Buffer::There(vmo) = &*buffer else { return None };
        let request = Request::Fetch { offset: at, len: bytes.len().min(FETCH_MAX) as u32 };
        Some(match self.remote.call(&request, &[], SMALL).map(|reply| reply.answer) {
            Ok(Answer::Count(count)) if count <= bytes.len() as u64 => {
                let count = count as usize;
                vmo.read(&mut bytes[..count], 0).map(|()| count).map_err(broken)
            }
            Ok(_) => Err(EIO),
            Err(ENOMEM) => {
                // The file system has no memory for such a long read. The position has not moved.
                *buffer = Buffer::Refused;
                return None;
            }
            Err(error) => Err(error),
        })
    }

    fn give_buffer(&self) -> Result<Vmo> {
        let vmo = Vmo::create(FETCH_MAX as u64, 0)?;
        let theirs = vmo.duplicate(Rights::WRITE | Rights::INSPECT | Rights::TRANSFER)?;
        let reply = self.remote.call_with(&Request::Buffer, &[], [theirs.into_handle()], SMALL)?;
        if reply.answer == Answer::Done { Ok(vmo) } else { Err(EIO) }
    }

    /// Writes at the position, or at an offset.
    pub fn write(&self, at: Option<u64>, bytes: &[u8]) -> Result<usize> {
        if let Some(stream) = &self.stream {
            let written = match at {
                Some(offset) => stream.writev_at(offset, [bytes]),
                None => stream.write(bytes),
            };
            let written = written.map_err(of_stream)?;
            self.touch();
            return Ok(written);
        }
        let mut done = 0;
        while done < bytes.len() {
            let part = &bytes[done..bytes.len().min(done + DATA_MAX)];
            let request = match at {
                Some(offset) => Request::WriteAt { offset: offset.checked_add(done as u64).ok_or(EFBIG)? },
                None => Request::Write,
            };
            match self.remote.call(&request, part, SMALL).map(|reply| reply.answer) {
                Ok(Answer::Count(0)) => break,
                Ok(Answer::Count(count)) if count <= part.len() as u64 => done += count as usize,
                Ok(_) => return Err(EIO),
                // Bytes already written count as success; the next call returns the error.
                Err(error) => return if done > 0 { Ok(done) } else { Err(error) },
            }
        }
        Ok(done)
    }

    /// Moves the position.
    pub fn seek(&self, offset: i64, whence: u8) -> Result<u64> {
        if let Some(stream) = &self.stream {
            // Zircon's positions are unsigned, C's are signed. Reject a negative absolute position before the stream
            // moves.
            if whence == 0 && offset < 0 {
                return Err(EINVAL);
            }
            let to = stream.seek(whence.into(), offset).map_err(|_| EINVAL)?;
            return if i64::try_from(to).is_ok() { Ok(to) } else { Err(EINVAL) };
        }
        match self.remote.call(&Request::Seek { whence, offset }, &[], SMALL)?.answer {
            Answer::Count(to) => Ok(to),
            _ => Err(EIO),
        }
    }

    /// Changes the length.
    pub fn resize(&self, size: u64) -> Result<()> {
        self.remote.tell(&Request::Resize { size })
    }

    /// Makes written data persistent.
    pub fn sync(&self) -> Result<()> {
        self.send_touched();
        self.remote.tell(&Request::Sync)
    }

    /// Sets or clears append mode, in which every write goes to the end.
    pub fn set_append(&self, append: bool) -> Result<()> {
        match &self.stream {
            Some(stream) => Ok(stream.set_property(abi::ZX_PROP_STREAM_MODE_APPEND, &[append.into()])?),
            None => self.remote.tell(&Request::SetAppend { append }),
        }
    }

    /// The attributes of the open file.
    pub fn attributes(&self) -> Result<Attributes> {
        self.send_touched();
        match self.remote.attributes(b"", false)? {
            PathResult::Done(attributes) => Ok(attributes),
            PathResult::Elsewhere { .. } => Err(EIO),
        }
    }

    /// Changes the attributes of the open file.
    pub fn change(&self, change: Change) -> Result<()> {
        self.send_touched();
        self.remote.tell(&Request::SetAttributes { path: b"", follow: false, change })
    }

    /// The VMO of its content: shared, and writable if the file is open for writing.
    ///
    /// # Errors
    /// `NOT_SUPPORTED`: the file system does not keep the content in memory. Errors of the kernel.
    pub fn memory(&self) -> core::result::Result<Vmo, Status> {
        if self.stream.is_none() {
            return Err(Status::NOT_SUPPORTED);
        }
        let write = self.opened.flags & flags::WRITE != 0;
        let reply = self.remote.call(&Request::Memory { write }, &[], SMALL).map_err(|_| Status::ACCESS_DENIED)?;
        reply.handle.map(Vmo::from).ok_or(Status::ACCESS_DENIED)
    }

    /// A VMO with a copy of its content, which only the caller can change.
    ///
    /// # Errors
    /// Errors of the kernel; `IO`.
    pub fn copy(&self) -> core::result::Result<Vmo, Status> {
        if self.stream.is_some() {
            let vmo = self.memory()?;
            let size = vmo.get_stream_size()?;
            let child = vmo.create_child(abi::ZX_VMO_CHILD_SNAPSHOT, 0, size)?;
            child.set_stream_size(size)?;
            return Ok(child);
        }
        let size = self.attributes().map_err(|_| Status::IO)?.size;
        let copy = Vmo::create(size, 0)?;
        let mut buffer = vec![0; FETCH_MAX];
        let mut done = 0;
        while done < size {
            let len = self.read(Some(done), &mut buffer).map_err(|_| Status::IO)?;
            let len = len.min(usize::try_from(size - done).unwrap_or(usize::MAX));
            if len == 0 {
                break;
            }
            copy.write(&buffer[..len], done)?;
            done += len as u64;
        }
        Ok(copy)
    }

    /// Records a write to the content, and notifies the file system at most once per [`TOUCH`].
    fn touch(&self) {
        let now = namespace::now();
        if now.saturating_sub(self.notified.load(Ordering::Relaxed)) >= TOUCH {
            if self.unnotified.swap(0, Ordering::Relaxed) != 0 {
                UNNOTIFIED.fetch_sub(1, Ordering::Relaxed);
            }
            self.send_touch_time(now);
        } else if self.unnotified.swap(now, Ordering::Relaxed) == 0 {
            UNNOTIFIED.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notifies the file system of the last write, if that is pending.
    pub fn send_touched(&self) {
        let at = self.unnotified.swap(0, Ordering::Relaxed);
        if at != 0 {
            UNNOTIFIED.fetch_sub(1, Ordering::Relaxed);
            self.send_touch_time(at);
        }
    }

    fn send_touch_time(&self, at: i64) {
        self.notified.store(at, Ordering::Relaxed);
        if let Ok(bytes) = encode(0, &Request::Touched { at }, &[]) {
            // Other requests report a file system that has ended.
            let _ = self.remote.channel.write(&bytes, []);
        }
    }

    /// A handle from which another process can make the same file.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn to_handle(&self) -> core::result::Result<Handle, Status> {
        self.send_touched();
        self.remote.again().map(Channel::into_handle)
    }
}

impl Drop for RemoteFile {
    fn drop(&mut self) {
        self.send_touched();
    }
}

/// Converts a stream's status to an `errno` value.
fn of_stream(status: Status) -> Errno {
    match status {
        // There is no memory for more content.
        Status::NO_MEMORY => ENOSPC,
        Status::NO_SPACE | Status::FILE_BIG | Status::OUT_OF_RANGE => EFBIG,
        // The buffer is not in the program's memory.
        Status::NOT_FOUND | Status::INVALID_ARGS => crate::c::EFAULT,
        Status::ACCESS_DENIED => crate::c::EBADF,
        _ => EIO,
    }
}

/// Rights of a read-only VMO.
pub const READ_ONLY: Rights = Rights::BASIC.union(Rights::READ).union(Rights::MAP).union(Rights::GET_PROPERTY);
