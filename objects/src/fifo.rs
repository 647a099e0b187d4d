//! FIFOs: two ends, each with a fixed number of small elements of one size.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use abi::{Signals, Status};

use crate::kernel::Kernel;
use crate::machine::Machine;
use crate::object::{Body, Id};
use crate::socket::copy_front;

/// The most that the elements of one end may take, in bytes.
pub const MAX_BYTES: u64 = 4096;

/// One end of a FIFO.
pub struct Fifo {
    pub(crate) peer: Option<Id<Fifo>>,
    /// The other end's number, also when it is gone.
    pub peer_koid: u64,
    /// Elements that fit.
    pub count: usize,
    /// Bytes in an element.
    pub size: usize,
    inbox: VecDeque<u8>,
}

impl Fifo {
    fn filled(&self) -> usize {
        self.inbox.len() / self.size.max(1)
    }
}

impl<M: Machine> Kernel<M> {
    /// `fifo_create`.
    ///
    /// # Errors
    /// `OUT_OF_RANGE`: no elements, empty elements, or more than a page of them. `NO_MEMORY`.
    pub fn fifo_create(&mut self, count: u64, size: u64) -> Result<(Id<Fifo>, Id<Fifo>), Status> {
        let bytes = count.checked_mul(size).filter(|&b| b > 0 && b <= MAX_BYTES).ok_or(Status::OUT_OF_RANGE)?;
        let end = || {
            let mut inbox = VecDeque::new();
            inbox.try_reserve_exact(bytes as usize).map_err(|_| Status::NO_MEMORY)?;
            let (count, size) = (count as usize, size as usize);
            Ok::<_, Status>(Body::Fifo(Box::new(Fifo { peer: None, peer_koid: 0, count, size, inbox })))
        };
        self.create_pair(Signals::FIFO_WRITABLE, [end()?, end()?])
    }

    /// Elements that can be written now.
    ///
    /// # Errors
    /// `OUT_OF_RANGE`: another element size, or no elements. `PEER_CLOSED`. `SHOULD_WAIT`: none.
    pub fn fifo_room(&self, end: Id<Fifo>, size: u64, count: u64) -> Result<usize, Status> {
        let fifo = self.objects.get(end)?;
        if size != fifo.size as u64 || count == 0 {
            return Err(Status::OUT_OF_RANGE);
        }
        let peer = self.objects.get(fifo.peer.ok_or(Status::PEER_CLOSED)?)?;
        match peer.count.saturating_sub(peer.filled()) {
            0 => Err(Status::SHOULD_WAIT),
            room => Ok(room),
        }
    }

    /// Writes whole elements, of which there is room for all.
    ///
    /// # Errors
    /// `PEER_CLOSED`.
    pub fn fifo_write(&mut self, end: Id<Fifo>, elements: &[u8]) -> Result<(), Status> {
        let peer = self.objects.get(end)?.peer.ok_or(Status::PEER_CLOSED)?;
        let to = self.objects.get_mut(peer)?;
        to.inbox.extend(elements);
        let full = to.filled() >= to.count;
        self.signal(peer.object(), Signals::NONE, Signals::FIFO_READABLE);
        if full {
            self.signal(end.object(), Signals::FIFO_WRITABLE, Signals::NONE);
        }
        Ok(())
    }

    /// Elements that can be read now.
    ///
    /// # Errors
    /// `OUT_OF_RANGE` as [`Kernel::fifo_room`]. `SHOULD_WAIT`: none. `PEER_CLOSED`: and there will be none.
    pub fn fifo_available(&self, end: Id<Fifo>, size: u64, count: u64) -> Result<usize, Status> {
        let fifo = self.objects.get(end)?;
        if size != fifo.size as u64 || count == 0 {
            return Err(Status::OUT_OF_RANGE);
        }
        match fifo.filled() {
            0 if fifo.peer.is_none() => Err(Status::PEER_CLOSED),
            0 => Err(Status::SHOULD_WAIT),
            filled => Ok(filled),
        }
    }

    /// Takes elements out: as many bytes as `out` has, which are there.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn fifo_read(&mut self, end: Id<Fifo>, out: &mut [u8]) -> Result<(), Status> {
        let fifo = self.objects.get_mut(end)?;
        let len = copy_front(&fifo.inbox, out);
        fifo.inbox.drain(..len);
        let (empty, peer) = (fifo.inbox.is_empty(), fifo.peer);
        if empty {
            self.signal(end.object(), Signals::FIFO_READABLE, Signals::NONE);
        }
        if let Some(peer) = peer {
            self.signal(peer.object(), Signals::NONE, Signals::FIFO_WRITABLE);
        }
        Ok(())
    }

    pub(crate) fn fifo_unreachable(&mut self, end: Id<Fifo>) {
        let Some(peer) = self.part_pair(end) else { return };
        self.signal(peer.object(), Signals::FIFO_WRITABLE, Signals::FIFO_PEER_CLOSED);
    }
}
