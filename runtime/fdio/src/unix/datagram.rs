//! UNIX datagram sockets (step 9). Each receives through a pair of Zircon sockets; senders have handles to the other
//! end.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};

use abi::{Rights, Signals, Status, ZX_SOCKET_DATAGRAM, ZX_SOCKET_DISPOSITION_WRITE_DISABLED, ZX_SOCKET_PEEK};
use file_protocol::{Answer, DATAGRAM_HEADER_MAX, DATAGRAM_MAX, Request, datagram, split_datagram};
use sync::Lock;
use zx::{AsHandleRef, Duration, MonotonicInstant, Socket};

use super::{Bound, Watched, ask_at};
use crate::address::Name;
use crate::c::{self, EAGAIN, ECONNREFUSED, EINVAL, EIO, EMSGSIZE, ENOTCONN, EPIPE, Result};
use crate::object::wait_until;
use crate::readiness::{Asked, Events};
use crate::remote::{Remote, SMALL};

/// A receiver, from a sender's view.
pub struct Receiver {
    pub socket: Socket,
    name: Name,
}

/// Rights that the file system needs on the end that senders write to.
const FOR_SENDERS: Rights =
    Rights::WRITE.union(Rights::WAIT).union(Rights::TRANSFER).union(Rights::DUPLICATE).union(Rights::INSPECT);
/// There is room for any datagram, or there never will be.
pub const ROOM: Signals =
    Signals::SOCKET_WRITE_THRESHOLD.union(Signals::SOCKET_WRITE_DISABLED).union(Signals::SOCKET_PEER_CLOSED);
/// There is a datagram, or there never will be.
pub const READABLE: Signals =
    Signals::SOCKET_READABLE.union(Signals::SOCKET_PEER_WRITE_DISABLED).union(Signals::SOCKET_PEER_CLOSED);

/// A socket that carries datagrams.
pub struct Datagram {
    inbox: Arc<Socket>,
    /// The other end of `inbox`, to which other processes write after this socket is bound.
    entry: Socket,
    bound: Lock<Option<Arc<Bound>>>,
    peer: Lock<Option<Arc<Receiver>>>,
    /// Writing is shut down.
    ended: AtomicBool,
}

impl Datagram {
    pub fn new() -> Result<Datagram> {
        let (inbox, entry) = Socket::create(ZX_SOCKET_DATAGRAM)?;
        // A sender waits until there is room for the longest datagram, because less room can be too little.
        let room = DATAGRAM_HEADER_MAX + DATAGRAM_MAX;
        entry.set_property(abi::ZX_PROP_SOCKET_TX_THRESHOLD, &room.to_ne_bytes())?;
        let (bound, peer) = (Lock::new(None), Lock::new(None));
        Ok(Datagram { inbox: Arc::new(inbox), entry, bound, peer, ended: AtomicBool::new(false) })
    }

    pub fn bind(&self, name: Name) -> Result<()> {
        let mut bound = self.bound.lock();
        if bound.is_some() {
            return Err(EINVAL);
        }
        let entry = self.entry.duplicate_handle(FOR_SENDERS)?;
        let new = Bound::new(name)?;
        let reply = new.remote.call_with(&Request::Receive { name: &new.name }, &[], [entry], SMALL)?;
        if reply.answer != Answer::Done {
            return Err(EIO);
        }
        *bound = Some(Arc::new(new));
        Ok(())
    }

    pub fn connect(&self, to: Option<&[u8]>) -> Result<()> {
        let peer = to.map(reach).transpose()?;
        let old = core::mem::replace(&mut *self.peer.lock(), peer.map(Arc::new));
        // Drop outside the lock, because it closes a handle.
        drop(old);
        Ok(())
    }

    pub fn own_name(&self) -> Name {
        self.bound.lock().as_ref().map(|bound| bound.name.clone()).unwrap_or_default()
    }

    fn peer(&self) -> Option<Arc<Receiver>> {
        self.peer.lock().clone()
    }

    pub fn peer_name(&self) -> Result<Name> {
        self.peer().map(|peer| peer.name.clone()).ok_or(ENOTCONN)
    }

    pub fn shutdown(&self, reading: bool, writing: bool) -> Result<()> {
        if writing {
            self.ended.store(true, Ordering::Relaxed);
        }
        if reading {
            self.inbox.set_disposition(0, ZX_SOCKET_DISPOSITION_WRITE_DISABLED)?;
        }
        Ok(())
    }

    pub fn receive(&self, bytes: &mut [u8], options: u32, until: MonotonicInstant) -> Result<(usize, Name)> {
        let mut received = vec![0; DATAGRAM_HEADER_MAX + bytes.len().min(DATAGRAM_MAX)];
        loop {
            match self.inbox.read_with(options, &mut received) {
                Ok(len) => {
                    // A datagram without a header has no sender's name.
                    let (from, content) = split_datagram(&received[..len]).unwrap_or((b"", &received[..len]));
                    let len = content.len().min(bytes.len());
                    bytes[..len].copy_from_slice(&content[..len]);
                    return Ok((len, from.to_vec()));
                }
                Err(Status::SHOULD_WAIT) => _ = wait_until(&*self.inbox, READABLE, until)?,
                // This process has shut down reading.
                Err(Status::BAD_STATE) => return Ok((0, Name::new())),
                Err(status) => return Err(status.into()),
            }
        }
    }

    pub fn send(&self, bytes: &[u8], to: Option<&[u8]>, until: MonotonicInstant) -> Result<usize> {
        if self.ended.load(Ordering::Relaxed) {
            return Err(EPIPE);
        }
        let receiver = match to {
            Some(to) => Arc::new(reach(to)?),
            None => self.peer().ok_or(ENOTCONN)?,
        };
        let datagram = datagram(&self.own_name(), bytes).ok_or(EMSGSIZE)?;
        let mut refused = false;
        loop {
            match receiver.socket.write(&datagram) {
                Ok(_) => return Ok(bytes.len()),
                Err(Status::SHOULD_WAIT) if MonotonicInstant::now() >= until => return Err(EAGAIN),
                Err(Status::SHOULD_WAIT) => {
                    wait_until(&receiver.socket, ROOM, until)?;
                    // Another sender took the room, or the receiver has set the threshold too low. The receiver
                    // controls the threshold, and must not make this thread spin.
                    if refused {
                        c::sleep_until(MonotonicInstant::after(Duration::from_millis(1)).min(until))?;
                    }
                    refused = true;
                }
                Err(Status::BAD_STATE) => return Err(EPIPE),
                Err(Status::PEER_CLOSED) => return Err(ECONNREFUSED),
                Err(status) => return Err(status.into()),
            }
        }
    }

    /// Size in bytes of the next datagram.
    pub fn waiting(&self) -> Result<usize> {
        let mut name = [0];
        match self.inbox.read_with(ZX_SOCKET_PEEK, &mut name) {
            Ok(_) => Ok(self.inbox.info()?.rx_buf_available.saturating_sub(1 + usize::from(name[0]))),
            Err(Status::SHOULD_WAIT | Status::BAD_STATE) => Ok(0),
            Err(status) => Err(status.into()),
        }
    }

    pub fn watched(&self, asked: Asked) -> (Vec<Watched>, Events) {
        let mut watched = Vec::new();
        let mut ready = Events::default();
        if asked.read {
            watched.push(Watched::Inbox(self.inbox.clone()));
        }
        match self.peer() {
            Some(peer) if asked.write && !self.ended.load(Ordering::Relaxed) => watched.push(Watched::Receiver(peer)),
            // Without a peer, only `sendto` finds out whether there is room.
            _ => ready.write = asked.write,
        }
        (watched, ready)
    }
}

/// Finds the receiver at a name.
fn reach(name: &[u8]) -> Result<Receiver> {
    let (socket, name) = ask_at(name, |remote, path| {
        let reply = remote.call_with(&Request::Reach { path }, &[], [], SMALL)?;
        Remote::reached(reply, |reply| match (reply.answer, reply.handle) {
            (Answer::Socket, Some(socket)) => Some((socket, reply.data)),
            _ => None,
        })
    })?;
    Ok(Receiver { socket: socket.into(), name })
}
