//! Sockets: two ends, bytes in both directions, as a stream or in datagrams.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use abi::{Signals, Status};

use crate::kernel::Kernel;
use crate::machine::Machine;
use crate::object::{Body, Id};

/// Bytes that one end holds for its reader.
pub const CAPACITY: usize = 256 * 1024;

/// What an end has received.
enum Inbox {
    Stream(VecDeque<u8>),
    Datagrams { queue: VecDeque<Vec<u8>>, bytes: usize },
}

impl Inbox {
    fn len(&self) -> usize {
        match self {
            Inbox::Stream(bytes) => bytes.len(),
            Inbox::Datagrams { bytes, .. } => *bytes,
        }
    }
}

/// One end of a socket.
pub struct Socket {
    pub(crate) peer: Option<Id<Socket>>,
    /// The other end's number, also when it is gone.
    pub peer_koid: u64,
    inbox: Inbox,
    /// This end may write.
    pub can_write: bool,
    /// The other end may write to this one.
    pub can_receive: bool,
    /// `ZX_PROP_SOCKET_RX_THRESHOLD`; 0 is none.
    pub read_threshold: usize,
    /// `ZX_PROP_SOCKET_TX_THRESHOLD`; 0 is none.
    pub write_threshold: usize,
}

impl Socket {
    /// Bytes that can be read.
    pub fn readable(&self) -> usize {
        self.inbox.len()
    }

    /// Bytes in the first datagram, or in the stream.
    pub fn next_len(&self) -> usize {
        match &self.inbox {
            Inbox::Stream(bytes) => bytes.len(),
            Inbox::Datagrams { queue, .. } => queue.front().map_or(0, Vec::len),
        }
    }

    /// Whether it keeps datagrams apart.
    pub fn is_datagram(&self) -> bool {
        matches!(self.inbox, Inbox::Datagrams { .. })
    }
}

impl<M: Machine> Kernel<M> {
    /// `socket_create`.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn socket_create(&mut self, datagram: bool) -> Result<(Id<Socket>, Id<Socket>), Status> {
        let end = || {
            let inbox = if datagram {
                Inbox::Datagrams { queue: VecDeque::new(), bytes: 0 }
            } else {
                Inbox::Stream(VecDeque::new())
            };
            Body::Socket(Box::new(Socket {
                peer: None,
                peer_koid: 0,
                inbox,
                can_write: true,
                can_receive: true,
                read_threshold: 0,
                write_threshold: 0,
            }))
        };
        self.create_pair(Signals::SOCKET_WRITABLE, [end(), end()])
    }

    /// Bytes that `socket_write` would take now.
    ///
    /// # Errors
    /// `BAD_STATE`: this end may not write. `PEER_CLOSED`. `SHOULD_WAIT`: no room.
    pub fn socket_room(&self, end: Id<Socket>) -> Result<usize, Status> {
        let socket = self.objects.get(end)?;
        let Some(peer) = socket.peer else { return Err(Status::PEER_CLOSED) };
        if !socket.can_write {
            return Err(Status::BAD_STATE);
        }
        match CAPACITY.saturating_sub(self.objects.get(peer)?.inbox.len()) {
            0 => Err(Status::SHOULD_WAIT),
            room => Ok(room),
        }
    }

    /// Bytes that this end has written and the other has not read.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn socket_sent(&self, end: Id<Socket>) -> Result<usize, Status> {
        let peer = self.objects.get(end)?.peer;
        Ok(peer.and_then(|peer| self.objects.get(peer).ok()).map_or(0, Socket::readable))
    }

    /// Puts bytes, of which there is room for all, into the other end.
    ///
    /// # Errors
    /// As [`Kernel::socket_room`]; `OUT_OF_RANGE`: a datagram that can never fit. `NO_MEMORY`.
    pub fn socket_write(&mut self, end: Id<Socket>, data: &[u8]) -> Result<usize, Status> {
        let room = self.socket_room(end)?;
        let peer = self.objects.get(end)?.peer.ok_or(Status::PEER_CLOSED)?;
        self.may_charge(peer.object(), data.len().min(room) as u64)?;
        let to = self.objects.get_mut(peer)?;
        let taken = match &mut to.inbox {
            Inbox::Stream(bytes) => {
                let part = data.get(..data.len().min(room)).unwrap_or(data);
                bytes.try_reserve(part.len()).map_err(|_| Status::NO_MEMORY)?;
                bytes.extend(part);
                part.len()
            }
            Inbox::Datagrams { queue, bytes } => {
                if data.len() > CAPACITY {
                    return Err(Status::OUT_OF_RANGE);
                }
                if data.len() > room {
                    return Err(Status::SHOULD_WAIT);
                }
                queue.try_reserve(1).map_err(|_| Status::NO_MEMORY)?;
                let mut datagram = Vec::new();
                datagram.try_reserve_exact(data.len()).map_err(|_| Status::NO_MEMORY)?;
                datagram.extend_from_slice(data);
                queue.push_back(datagram);
                *bytes += data.len();
                data.len()
            }
        };
        self.charge(peer.object(), taken as u64);
        self.socket_update_signals(end, peer);
        Ok(taken)
    }

    /// Takes, or with `peek` looks at, up to `out.len()` bytes: of the stream, or of the first datagram, whose rest is
    /// lost.
    ///
    /// # Errors
    /// `SHOULD_WAIT`: there is nothing; `PEER_CLOSED`, `BAD_STATE`: and there never will be.
    pub fn socket_read(&mut self, end: Id<Socket>, out: &mut [u8], peek: bool) -> Result<usize, Status> {
        let socket = self.objects.get_mut(end)?;
        if socket.inbox.len() == 0 && socket.next_len() == 0 && !has_datagram(&socket.inbox) {
            return Err(match socket.peer {
                None => Status::PEER_CLOSED,
                Some(_) if !socket.can_receive => Status::BAD_STATE,
                Some(_) => Status::SHOULD_WAIT,
            });
        }
        let held = socket.inbox.len();
        let len = match &mut socket.inbox {
            Inbox::Stream(bytes) => {
                let len = copy_front(bytes, out);
                if !peek {
                    bytes.drain(..len);
                }
                len
            }
            Inbox::Datagrams { queue, bytes } => {
                let len = queue.front().map_or(0, |d| d.len().min(out.len()));
                if let (Some(to), Some(from)) = (out.get_mut(..len), queue.front().and_then(|d| d.get(..len))) {
                    to.copy_from_slice(from);
                }
                if !peek {
                    *bytes -= queue.pop_front().map_or(0, |d| d.len());
                }
                len
            }
        };
        if !peek {
            // An empty stream gives its memory back.
            if let Inbox::Stream(bytes) = &mut socket.inbox
                && bytes.is_empty()
                && bytes.capacity() > 4096
            {
                *bytes = VecDeque::new();
            }
            let taken = held.saturating_sub(socket.inbox.len());
            self.discharge(end.object(), taken as u64);
            match self.objects.get(end)?.peer {
                Some(peer) => self.socket_update_signals(peer, end),
                None => self.socket_update_reader(end),
            }
        }
        Ok(len)
    }

    /// `socket_set_disposition`: whether this end and its peer may write.
    ///
    /// # Errors
    /// `BAD_STATE`: writing was disabled and data is still there to be read, so it cannot be enabled again.
    pub fn socket_set_disposition(
        &mut self,
        end: Id<Socket>,
        own: Option<bool>,
        peer: Option<bool>,
    ) -> Result<(), Status> {
        let other = self.objects.get(end)?.peer.ok_or(Status::PEER_CLOSED)?;
        for (writer, reader, allow) in [(end, other, own), (other, end, peer)] {
            let Some(allow) = allow else { continue };
            if allow && !self.objects.get(writer)?.can_write && self.objects.get(reader)?.inbox.len() > 0 {
                return Err(Status::BAD_STATE);
            }
        }
        for (writer, reader, allow) in [(end, other, own), (other, end, peer)] {
            let Some(allow) = allow else { continue };
            self.objects.get_mut(writer)?.can_write = allow;
            self.objects.get_mut(reader)?.can_receive = allow;
            self.socket_update_signals(writer, reader);
        }
        Ok(())
    }

    /// Sets a threshold and the signal that goes with it; 0 is none.
    ///
    /// # Errors
    /// `INVALID_ARGS`: more than an end can hold. `PEER_CLOSED`: nothing more can be written here.
    pub fn socket_set_threshold(&mut self, end: Id<Socket>, read: bool, threshold: usize) -> Result<(), Status> {
        let socket = self.objects.get_mut(end)?;
        let peer = if read { None } else { Some(socket.peer.ok_or(Status::PEER_CLOSED)?) };
        if threshold > CAPACITY {
            return Err(Status::INVALID_ARGS);
        }
        match peer {
            None => {
                socket.read_threshold = threshold;
                self.socket_update_reader(end);
            }
            Some(peer) => {
                socket.write_threshold = threshold;
                self.socket_update_signals(end, peer);
            }
        }
        Ok(())
    }

    fn socket_update_reader(&mut self, reader: Id<Socket>) {
        let Ok(r) = self.objects.get(reader) else { return };
        let len = r.inbox.len();
        let mut set = Signals::NONE;
        set.set(Signals::SOCKET_READABLE, len > 0 || has_datagram(&r.inbox));
        set.set(Signals::SOCKET_READ_THRESHOLD, r.read_threshold > 0 && len >= r.read_threshold);
        set.set(Signals::SOCKET_PEER_WRITE_DISABLED, !r.can_receive);
        let all = Signals::SOCKET_READABLE | Signals::SOCKET_READ_THRESHOLD | Signals::SOCKET_PEER_WRITE_DISABLED;
        self.signal(reader.object(), all & !set, set);
    }

    /// Sets the signals of a writer and its reader as they are.
    fn socket_update_signals(&mut self, writer: Id<Socket>, reader: Id<Socket>) {
        self.socket_update_reader(reader);
        let (Ok(w), Ok(r)) = (self.objects.get(writer), self.objects.get(reader)) else { return };
        let room = CAPACITY.saturating_sub(r.inbox.len());
        let mut set = Signals::NONE;
        set.set(Signals::SOCKET_WRITABLE, w.can_write && room > 0);
        set.set(Signals::SOCKET_WRITE_THRESHOLD, w.can_write && w.write_threshold > 0 && room >= w.write_threshold);
        set.set(Signals::SOCKET_WRITE_DISABLED, !w.can_write);
        let all = Signals::SOCKET_WRITABLE | Signals::SOCKET_WRITE_THRESHOLD | Signals::SOCKET_WRITE_DISABLED;
        self.signal(writer.object(), all & !set, set);
    }

    pub(crate) fn socket_unreachable(&mut self, end: Id<Socket>) {
        let Some(peer) = self.part_pair(end) else { return };
        let clear = Signals::SOCKET_WRITABLE | Signals::SOCKET_WRITE_THRESHOLD;
        self.signal(peer.object(), clear, Signals::SOCKET_PEER_CLOSED);
    }
}

/// Copies as many bytes from the front of a queue as it has and there is room for; says how many.
pub(crate) fn copy_front(bytes: &VecDeque<u8>, out: &mut [u8]) -> usize {
    let len = out.len().min(bytes.len());
    let (first, second) = bytes.as_slices();
    let from_first = len.min(first.len());
    for (part, from) in [(0..from_first, first), (from_first..len, second)] {
        let part_len = part.len();
        if part_len > 0
            && let (Some(to), Some(from)) = (out.get_mut(part), from.get(..part_len))
        {
            to.copy_from_slice(from);
        }
    }
    len
}

fn has_datagram(inbox: &Inbox) -> bool {
    matches!(inbox, Inbox::Datagrams { queue, .. } if !queue.is_empty())
}
