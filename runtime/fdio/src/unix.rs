//! UNIX sockets. Their names are in file systems; their data goes directly between processes. Numbers in comments refer
//! to the steps in [`file_protocol`]. Connected pairs, which never have a name, are
//! [`Object::Socket`](crate::object::Object::Socket).

mod datagram;
mod stream;

use alloc::sync::Arc;
use alloc::vec::Vec;

use abi::{Signals, Status};
use file_protocol::{Answer, Request};
use zx::{AsHandleRef, Channel, Handle, HandleRef, MonotonicInstant, Socket};

pub use datagram::Datagram;
pub use stream::Stream;

use crate::address::Name;
use crate::c::{AT_FDCWD, EADDRINUSE, ECONNREFUSED, EEXIST, EOPNOTSUPP, Result};
use crate::names::refuse_new;
use crate::namespace::{locate_at, look_up};
use crate::open::masked;
use crate::readiness::{Asked, Events};
use crate::remote::{PathResult, Remote, SMALL};

/// A UNIX socket.
pub enum UnixSocket {
    /// A stream socket, connected or listening.
    Stream(Stream),
    /// A datagram socket.
    Datagram(Datagram),
}

/// A bound name (7). It exists until its channel is closed.
pub struct Bound {
    remote: Remote,
    name: Name,
}

impl Bound {
    /// Creates a name.
    ///
    /// # Errors
    /// `EADDRINUSE`: the name exists. Other errors of the file system.
    fn new(name: Name) -> Result<Bound> {
        let mode = masked(0o777);
        let made = locate_at(AT_FDCWD, &name)?.reach(
            |path| refuse_new(path).and(Err(EOPNOTSUPP)),
            |remote, path| {
                let (channel, theirs) = Channel::create()?;
                let request = Request::Bind { path, mode };
                let reply = remote.call_with(&request, &[], [theirs.into_handle()], SMALL)?;
                Remote::reached(reply, |reply| match reply.answer {
                    Answer::Opened(_) => Some(Remote::new(channel, remote.entry.clone())),
                    _ => None,
                })
            },
        );
        let remote = made.map_err(|error| if error == EEXIST { EADDRINUSE } else { error })?;
        Ok(Bound { remote, name })
    }
}

/// Sends a request about the socket at a path.
fn ask_at<T>(name: &[u8], ask: impl FnMut(&Remote, &[u8]) -> Result<PathResult<T>>) -> Result<T> {
    // A path outside of all file systems is not a socket.
    locate_at(AT_FDCWD, name)?.reach(|path| look_up(path).and(Err(ECONNREFUSED)), ask)
}

impl UnixSocket {
    /// Creates a socket without a name.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn new(datagrams: bool) -> Result<UnixSocket> {
        Ok(if datagrams { UnixSocket::Datagram(Datagram::new()?) } else { UnixSocket::Stream(Stream::new()) })
    }

    /// Whether this is a datagram socket.
    pub fn is_datagram(&self) -> bool {
        matches!(self, UnixSocket::Datagram(_))
    }

    /// Binds the socket to a name.
    ///
    /// # Errors
    /// `EINVAL`: the socket has a name. Errors of [`Bound::new`].
    pub fn bind(&self, name: Name) -> Result<()> {
        match self {
            UnixSocket::Stream(stream) => stream.bind(name),
            UnixSocket::Datagram(datagram) => datagram.bind(name),
        }
    }

    /// Makes the socket listen.
    ///
    /// # Errors
    /// `EINVAL`: the socket has no name, or is connected. `EOPNOTSUPP`: it is a datagram socket.
    pub fn listen(&self, backlog: u32) -> Result<()> {
        match self {
            UnixSocket::Stream(stream) => stream.listen(backlog),
            UnixSocket::Datagram(_) => Err(EOPNOTSUPP),
        }
    }

    /// Whether the socket listens.
    pub fn listens(&self) -> bool {
        matches!(self, UnixSocket::Stream(stream) if stream.listener().is_ok())
    }

    /// Accepts a connection; returns it with the peer's name.
    ///
    /// # Errors
    /// `EAGAIN`: the deadline is over. `EINVAL`: the socket does not listen. `EOPNOTSUPP`: it is a datagram socket.
    pub fn accept(&self, until: MonotonicInstant) -> Result<(UnixSocket, Name)> {
        match self {
            UnixSocket::Stream(stream) => {
                stream.accept(until).map(|(accepted, peer)| (UnixSocket::Stream(accepted), peer))
            }
            UnixSocket::Datagram(_) => Err(EOPNOTSUPP),
        }
    }

    /// Connects to a name. Without a name, a datagram socket loses its peer.
    ///
    /// # Errors
    /// `ECONNREFUSED`: no socket listens or receives there. `EPROTOTYPE`: the socket there is of another type.
    /// `EAGAIN`: the deadline is over. Other errors of the file system.
    pub fn connect(&self, name: Option<Name>, until: MonotonicInstant) -> Result<()> {
        match self {
            UnixSocket::Stream(stream) => stream.connect(&name.ok_or(EOPNOTSUPP)?, until),
            UnixSocket::Datagram(datagram) => datagram.connect(name.as_deref()),
        }
    }

    /// Its own name.
    pub fn own_name(&self) -> Name {
        match self {
            UnixSocket::Stream(stream) => stream.own_name(),
            UnixSocket::Datagram(datagram) => datagram.own_name(),
        }
    }

    /// The peer's name.
    ///
    /// # Errors
    /// `ENOTCONN`.
    pub fn peer_name(&self) -> Result<Name> {
        match self {
            UnixSocket::Stream(stream) => stream.peer_name(),
            UnixSocket::Datagram(datagram) => datagram.peer_name(),
        }
    }

    /// Shuts down reading, writing, or both.
    ///
    /// # Errors
    /// `ENOTCONN`.
    pub fn shutdown(&self, reading: bool, writing: bool) -> Result<()> {
        match self {
            UnixSocket::Stream(stream) => stream.shutdown(reading, writing),
            UnixSocket::Datagram(datagram) => datagram.shutdown(reading, writing),
        }
    }

    /// Reads bytes, or a datagram and its sender's name.
    ///
    /// # Errors
    /// `EAGAIN`: the deadline is over. `EINVAL`: the socket is not connected.
    pub fn receive(&self, bytes: &mut [u8], options: u32, until: MonotonicInstant) -> Result<(usize, Option<Name>)> {
        match self {
            UnixSocket::Stream(stream) => Ok((stream.receive(bytes, options, until)?, None)),
            UnixSocket::Datagram(datagram) => {
                datagram.receive(bytes, options, until).map(|(len, from)| (len, Some(from)))
            }
        }
    }

    /// Writes bytes, or a datagram to `to` or to the peer.
    ///
    /// # Errors
    /// `EAGAIN`: the deadline is over. `ENOTCONN`, `EPIPE`, `ECONNREFUSED`.
    pub fn send(&self, bytes: &[u8], to: Option<&[u8]>, until: MonotonicInstant) -> Result<usize> {
        match self {
            UnixSocket::Stream(stream) => stream.send(bytes, to.is_some(), until),
            UnixSocket::Datagram(datagram) => datagram.send(bytes, to, until),
        }
    }

    /// Number of bytes that a read returns without blocking.
    ///
    /// # Errors
    /// Errors of the kernel for the socket.
    pub fn waiting(&self) -> Result<usize> {
        match self {
            UnixSocket::Stream(stream) => stream.waiting(),
            UnixSocket::Datagram(datagram) => datagram.waiting(),
        }
    }

    /// The socket is about to be closed: see [`crate::object::reset_if_unread`].
    pub fn reset_if_unread(&self) {
        if let UnixSocket::Stream(stream) = self {
            stream.reset_if_unread();
        }
    }

    /// Whether the peer has reset the connection. It says so once.
    pub fn take_reset(&self) -> bool {
        matches!(self, UnixSocket::Stream(stream) if stream.take_reset())
    }

    /// A handle from which another process can make the same connection.
    ///
    /// # Errors
    /// `NOT_SUPPORTED`: the socket is not a connected stream.
    pub fn to_handle(&self) -> core::result::Result<Handle, Status> {
        match self {
            UnixSocket::Stream(stream) => stream.to_handle(),
            UnixSocket::Datagram(_) => Err(Status::NOT_SUPPORTED),
        }
    }

    /// The objects that `poll` waits for, and the events that are pending without a wait.
    pub fn watched(&self, asked: Asked) -> (Vec<Watched>, Events) {
        match self {
            UnixSocket::Stream(stream) => stream.watched(),
            UnixSocket::Datagram(datagram) => datagram.watched(asked),
        }
    }
}

/// An object that `poll` waits for on behalf of a socket. It keeps the handle open.
pub enum Watched {
    /// The channel of a listener.
    Listener(Arc<Bound>),
    /// A connected stream.
    Stream(Arc<stream::Connected>),
    /// The socket on which datagrams arrive.
    Inbox(Arc<Socket>),
    /// The socket to which datagrams are sent.
    Receiver(Arc<datagram::Receiver>),
}

impl Watched {
    /// Its handle.
    pub fn handle(&self) -> HandleRef<'_> {
        match self {
            Watched::Listener(bound) => bound.remote.channel().as_handle_ref(),
            Watched::Stream(connected) => connected.socket.as_handle_ref(),
            Watched::Inbox(socket) => socket.as_handle_ref(),
            Watched::Receiver(receiver) => receiver.socket.as_handle_ref(),
        }
    }

    /// The signals that `poll` waits for, of a listener also those of a connection if it asks for reading; those of a
    /// stream follow from the wanted events.
    pub fn wanted(&self, read: bool) -> Signals {
        match self {
            Watched::Listener(_) if read => INCOMING | Signals::CHANNEL_PEER_CLOSED,
            Watched::Listener(_) => Signals::CHANNEL_PEER_CLOSED,
            Watched::Stream(_) => Signals::SOCKET_PEER_CLOSED,
            Watched::Inbox(_) => datagram::READABLE,
            Watched::Receiver(_) => datagram::ROOM,
        }
    }

    /// The events that signals stand for, except for a stream's.
    pub fn events(&self, signals: Signals) -> Events {
        let is = signals.intersects(self.wanted(true));
        match self {
            Watched::Listener(_) => {
                let gone = signals.contains(Signals::CHANNEL_PEER_CLOSED);
                Events { read: is, write: false, error: gone, ended: gone, hung_up: gone }
            }
            Watched::Inbox(_) => Events { read: is, ..Events::default() },
            Watched::Receiver(_) | Watched::Stream(_) => Events { write: is, ..Events::default() },
        }
    }
}

/// Signals of the file protocol.
const INCOMING: Signals = Signals::from_bits_retain(file_protocol::INCOMING);
const CONNECTED: Signals = Signals::from_bits_retain(file_protocol::CONNECTED);
