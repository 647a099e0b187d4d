//! The objects that descriptors refer to.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use abi::{Rights, Signals, Status};
use file_protocol::Kind;
use sync::Lock;
use zx::{AsHandleRef, Channel, Debuglog, Handle, Info, MonotonicInstant, Socket, Vmo};

use crate::c::{self, EAGAIN, EBADF, ECONNRESET, EINVAL, EISDIR, Errno, Result};
use crate::epoll::Epoll;
use crate::eventfd::EventFd;
use crate::namespace;
use crate::network::Network;
use crate::path::{self, Device};
use crate::remote::RemoteFile;
use crate::unix::UnixSocket;

/// Limit on the bytes of a log record; longer lines are split.
const LOG_LINE: usize = abi::ZX_LOG_RECORD_DATA_MAX;

/// The object that a descriptor refers to.
pub enum Object {
    /// An end of a pipe, a connected socket, standard input or output.
    Socket {
        /// Zircon's socket.
        socket: Socket,
        /// Whether `socketpair` made it, not `pipe`.
        is_socket: bool,
    },
    /// A socket of the network.
    Network(Network),
    /// A UNIX socket that has or can get a name.
    Unix(UnixSocket),
    /// A file of the boot file system, or one received as a VMO.
    File(File),
    /// A directory of the boot file system, or one above entries of the name space.
    Directory {
        /// Its clean absolute path.
        path: String,
    },
    /// A file or directory that a file system serves.
    Remote(RemoteFile),
    /// The kernel's log: each line written becomes a record.
    Log {
        /// The log.
        log: Debuglog,
        /// The current, incomplete line.
        line: Lock<Vec<u8>>,
    },
    /// A counter of `eventfd`.
    EventFd(EventFd),
    /// A set of descriptors of `epoll`.
    Epoll(Arc<Epoll>),
    /// A device below `/dev`.
    Device(Device),
}

/// A read-only file: a range of a VMO.
pub struct File {
    /// Its own VMO; `None` for a range of the boot image.
    pub vmo: Option<Vmo>,
    /// Offset of the range in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub size: u64,
    /// Its clean absolute path; empty for a file that was received as a VMO.
    pub path: String,
}

impl Device {
    /// Reads; returns the number of bytes.
    pub fn read(self, bytes: &mut [u8]) -> usize {
        match self {
            Device::Null => return 0,
            Device::Zero => bytes.fill(0),
            Device::Random => zx::cprng_draw(bytes),
        }
        bytes.len()
    }
}

impl File {
    /// Copies bytes from `position`; returns their number, 0 at the end.
    pub fn read_at(&self, position: u64, bytes: &mut [u8]) -> Result<usize> {
        let left = usize::try_from(self.size.saturating_sub(position)).unwrap_or(usize::MAX);
        let len = bytes.len().min(left);
        if len == 0 {
            return Ok(0);
        }
        let vmo = match &self.vmo {
            Some(vmo) => vmo,
            None => &namespace::boot().ok_or(EBADF)?.image,
        };
        vmo.read(&mut bytes[..len], self.offset + position)?;
        Ok(len)
    }
}

impl Object {
    /// Makes an object from a handle of another process.
    ///
    /// # Errors
    /// [`Status::NOT_SUPPORTED`]: no descriptor can refer to an object of this type. The handle is closed.
    pub fn from_handle(handle: Handle) -> core::result::Result<Object, Status> {
        match handle.basic_info()?.type_ {
            abi::ZX_OBJ_TYPE_SOCKET => Ok(Object::Socket { socket: Socket::from(handle), is_socket: false }),
            abi::ZX_OBJ_TYPE_DEBUGLOG => Ok(Object::Log { log: Debuglog::from(handle), line: Lock::new(Vec::new()) }),
            abi::ZX_OBJ_TYPE_VMO => {
                let vmo = Vmo::from(handle);
                let size = vmo.get_stream_size().or_else(|_| vmo.get_size())?;
                Ok(Object::File(File { vmo: Some(vmo), offset: 0, size, path: String::new() }))
            }
            abi::ZX_OBJ_TYPE_CHANNEL => RemoteFile::describe(Channel::from(handle)).map(Object::Remote),
            _ => Err(Status::NOT_SUPPORTED),
        }
    }

    /// A handle from which another process can make the same object.
    ///
    /// # Errors
    /// [`Status::NOT_SUPPORTED`] for directories of the boot image, counters, sets of `epoll` and devices, which have no handle, and for
    /// UNIX sockets other than connected streams.
    pub fn to_handle(&self) -> core::result::Result<Handle, Status> {
        match self {
            Object::Socket { socket, .. } => socket.duplicate_handle(Rights::SAME_RIGHTS),
            Object::Log { log, .. } => log.duplicate_handle(Rights::SAME_RIGHTS),
            Object::File(file) => file_memory(file).map(Vmo::into_handle),
            Object::Remote(file) => file.to_handle(),
            Object::Unix(socket) => socket.to_handle(),
            Object::Network(_)
            | Object::Directory { .. }
            | Object::EventFd(_)
            | Object::Epoll(_)
            | Object::Device(_) => Err(Status::NOT_SUPPORTED),
        }
    }

    /// All handles from which a started process makes the same object. Only a network socket needs more than one.
    ///
    /// # Errors
    /// See [`Object::to_handle`].
    pub fn to_handles(&self) -> core::result::Result<Vec<Handle>, Status> {
        match self {
            Object::Network(network) => network.to_handles(),
            object => object.to_handle().map(|handle| alloc::vec![handle]),
        }
    }

    /// Reads; waits for data until a deadline. [`MonotonicInstant::ZERO`] means not to wait.
    ///
    /// # Errors
    /// `EAGAIN`: there is no data before the deadline. `EISDIR`. `EBADF` for the log.
    pub fn read(&self, bytes: &mut [u8], options: u32, until: MonotonicInstant) -> Result<usize> {
        match self {
            Object::Socket { socket, .. } => read_socket(socket, bytes, options, until),
            Object::Network(network) => network.receive(bytes, options, until).map(|(len, _)| len),
            Object::Unix(socket) => socket.receive(bytes, options, until).map(|(len, _)| len),
            Object::EventFd(counter) => counter.read(bytes, until != MonotonicInstant::ZERO),
            Object::Device(device) => Ok(device.read(bytes)),
            Object::Remote(file) if file.opened.kind == Kind::File => file.read(None, bytes),
            Object::Directory { .. } | Object::Remote(_) => Err(EISDIR),
            Object::Epoll(_) => Err(EINVAL),
            Object::File(_) | Object::Log { .. } => Err(EBADF),
        }
    }

    /// Writes all bytes, or as many as possible until a deadline. [`MonotonicInstant::ZERO`] means not to wait.
    ///
    /// # Errors
    /// `EPIPE`: nothing can read the bytes any more. `EAGAIN`: nothing was written before the deadline. `EBADF`: the
    /// object cannot be written.
    pub fn write(&self, bytes: &[u8], until: MonotonicInstant) -> Result<usize> {
        match self {
            Object::Socket { socket, .. } => write_socket(socket, bytes, until),
            Object::Network(network) => network.send(bytes, None, until),
            Object::Unix(socket) => socket.send(bytes, None, until),
            Object::Log { log, line } => {
                write_log(log, &mut line.lock(), bytes);
                Ok(bytes.len())
            }
            Object::EventFd(counter) => counter.write(bytes, until != MonotonicInstant::ZERO),
            Object::Device(_) => Ok(bytes.len()),
            Object::Epoll(_) => Err(EINVAL),
            Object::Remote(file) if file.opened.kind == Kind::File => file.write(None, bytes),
            Object::File(_) | Object::Directory { .. } | Object::Remote(_) => Err(EBADF),
        }
    }
}

/// The peer was closed while it had unread bytes, or before it was accepted.
const RESET: Signals = Signals::from_bits_retain(file_protocol::RESET);

/// Whether the peer has reset the connection. It says so once.
pub fn take_reset(socket: &Socket) -> bool {
    let reset = socket.signals().is_ok_and(|signals| signals.contains(RESET));
    if reset {
        let _ = socket.signal(RESET, Signals::NONE);
    }
    reset
}

/// A stream socket is about to be closed. If bytes are unread and nobody else has the socket, the peer learns of it, as
/// on Linux: its next read fails with `ECONNRESET`.
pub fn reset_if_unread(socket: &Socket) {
    let unread = |info: abi::zx_info_socket_t| info.options & abi::ZX_SOCKET_DATAGRAM == 0 && info.rx_buf_available > 0;
    let count = || socket.info_record::<abi::zx_info_handle_count_t>(abi::ZX_INFO_HANDLE_COUNT);
    if socket.info().is_ok_and(unread) && count().is_ok_and(|count| count.handle_count == 1) {
        let _ = socket.signal_peer(Signals::NONE, RESET);
    }
}

/// The VMO of a file; for a file of the boot image, a child of the image's VMO.
///
/// # Errors
/// Errors of the kernel.
pub fn file_memory(file: &File) -> core::result::Result<Vmo, Status> {
    if file.size == 0 {
        return Vmo::create(0, 0);
    }
    match &file.vmo {
        Some(vmo) => vmo.duplicate(Rights::SAME_RIGHTS),
        None => {
            let boot = namespace::boot().ok_or(Status::NOT_FOUND)?;
            let name = path::in_image(&file.path).unwrap_or(&file.path);
            let entry = boot.directory.find(name).ok_or(Status::NOT_FOUND)?;
            process_builder::loader::boot_file(&boot.image, &entry)
        }
    }
}

/// Waits for one of some signals until a deadline. [`MonotonicInstant::ZERO`] means to poll.
///
/// # Errors
/// `EAGAIN`: the deadline is over.
pub fn wait_until(object: &impl AsHandleRef, signals: Signals, until: MonotonicInstant) -> Result<Signals> {
    c::wait_one(object, signals, until)
        .map_err(|status| if status == Status::TIMED_OUT { EAGAIN } else { status.into() })
}

/// Reads from a socket of Zircon.
///
/// # Errors
/// See [`Object::read`].
pub fn read_socket(socket: &Socket, bytes: &mut [u8], options: u32, until: MonotonicInstant) -> Result<usize> {
    if bytes.is_empty() {
        return Ok(0);
    }
    let readable = Signals::SOCKET_READABLE | Signals::SOCKET_PEER_CLOSED | Signals::SOCKET_PEER_WRITE_DISABLED;
    loop {
        match socket.read_with(options, bytes) {
            Ok(len) => return Ok(len),
            Err(Status::PEER_CLOSED) if take_reset(socket) => return Err(ECONNRESET),
            // The peer has been closed or has shut down writing: end of the stream.
            Err(Status::PEER_CLOSED | Status::BAD_STATE) => return Ok(0),
            Err(Status::SHOULD_WAIT) if until != MonotonicInstant::ZERO => _ = wait_until(socket, readable, until)?,
            Err(status) => return Err(status.into()),
        }
    }
}

/// Writes to a socket of Zircon.
///
/// # Errors
/// See [`Object::write`].
pub fn write_socket(socket: &Socket, bytes: &[u8], until: MonotonicInstant) -> Result<usize> {
    let mut done = 0;
    while done < bytes.len() {
        let error: Errno = match socket.write(&bytes[done..]) {
            Ok(len) => {
                done += len;
                continue;
            }
            Err(Status::SHOULD_WAIT) if until != MonotonicInstant::ZERO => {
                match wait_for_room(socket, bytes.len(), until) {
                    Ok(()) => continue,
                    Err(error) => error,
                }
            }
            Err(status) => status.into(),
        };
        // Bytes already sent count as success; the next call returns the error.
        return if done > 0 { Ok(done) } else { Err(error) };
    }
    Ok(done)
}

/// Waits until the socket has room, or cannot be written any more. A datagram is written as a whole, so the wait is for
/// room for all of its `len` bytes.
fn wait_for_room(socket: &Socket, len: usize, until: MonotonicInstant) -> Result<()> {
    let room = if socket.info()?.options & abi::ZX_SOCKET_DATAGRAM == 0 {
        Signals::SOCKET_WRITABLE
    } else {
        socket.set_property(abi::ZX_PROP_SOCKET_TX_THRESHOLD, &len.to_ne_bytes())?;
        Signals::SOCKET_WRITE_THRESHOLD
    };
    let over = Signals::SOCKET_PEER_CLOSED | Signals::SOCKET_WRITE_DISABLED;
    wait_until(socket, room | over, until).map(drop)
}

fn write_log(log: &Debuglog, line: &mut Vec<u8>, bytes: &[u8]) {
    for byte in bytes {
        if *byte != b'\n' {
            line.push(*byte);
        }
        if *byte == b'\n' || line.len() >= LOG_LINE {
            // The log drops a record for which it has no room; there is no caller to report that to.
            let _ = log.write(line);
            line.clear();
        }
    }
}
