//! FIFOs: two ends, each with a fixed number of small elements of one size.

use alloc::boxed::Box;

use abi::{Signals, Status};

use crate::containers::slab::Key;
use crate::core::noun::{Noun, ObjectOps, Peer, Variant, peered};
use crate::core::object::Id;
use crate::ipc::ring_buffer::{HasRingBuffer, RingBuffer};
use crate::kernel::Kernel;
use crate::machine::Machine;

/// Maximum size of one end's elements, in bytes.
pub const MAX_BYTES: u64 = 4096;

/// One end of a FIFO.
pub struct Fifo {
    pub(crate) peer: Option<Id<Fifo>>,
    /// The peer's koid, also after the peer is closed.
    pub peer_koid: u64,
    /// Capacity in elements.
    pub count: usize,
    /// Size of an element in bytes.
    pub size: usize,
    inbox: RingBuffer,
}

impl Noun for Fifo {
    const TYPE: u32 = abi::ZX_OBJ_TYPE_FIFO;
    const BYTES: u64 = MAX_BYTES;

    fn peer(&self) -> Option<Peer> {
        Peer::new(self.peer, self.peer_koid)
    }
}

impl ObjectOps for Fifo {
    #[inline(always)]
    fn last_handle_closed<M: Machine>(kernel: &mut Kernel<M>, id: Id<Self>) {
        let Some(peer) = kernel.part_pair(id) else { return };
        kernel.signal(peer.object(), Signals::FIFO_WRITABLE, Signals::FIFO_PEER_CLOSED);
    }
}

impl HasRingBuffer for Fifo {
    #[inline(always)]
    fn ring(&mut self) -> Option<&mut RingBuffer> {
        Some(&mut self.inbox)
    }
}

peered!(Fifo);

impl Fifo {
    /// The number of elements in `bytes`, at most `wanted`. Small numbers are counted, which is faster than a division.
    #[inline]
    fn elements(&self, bytes: usize, wanted: u64) -> usize {
        let size = self.size.max(1);
        if wanted == 1 && bytes >= size { 1 } else { (bytes / size).min(wanted as usize) }
    }
}

impl Fifo {
    /// Bytes that `count` elements of a size take.
    ///
    /// # Errors
    /// `OUT_OF_RANGE`: no elements, empty elements, or more than a page of them.
    pub fn bytes(count: u64, size: u64) -> Result<u64, Status> {
        count.checked_mul(size).filter(|&b| b > 0 && b <= MAX_BYTES).ok_or(Status::OUT_OF_RANGE)
    }
}

impl<M: Machine> Kernel<M> {
    /// `fifo_create`.
    ///
    /// # Errors
    /// Those of [`Fifo::bytes`]. `NO_MEMORY`.
    pub fn fifo_create(&mut self, count: u64, size: u64) -> Result<(Id<Fifo>, Id<Fifo>), Status> {
        let bytes = Fifo::bytes(count, size)?;
        let end = || {
            let inbox = RingBuffer::with_room(bytes as usize)?;
            let (count, size) = (count as usize, size as usize);
            Ok::<_, Status>(Box::new(Fifo { peer: None, peer_koid: 0, count, size, inbox }))
        };
        self.create_pair(Signals::FIFO_WRITABLE, [end()?, end()?])
    }

    /// The peer, and how many of `count` elements can be written there now.
    ///
    /// # Errors
    /// `OUT_OF_RANGE`: wrong element size, or no elements. `PEER_CLOSED`. `SHOULD_WAIT`: no room.
    #[inline]
    pub fn fifo_room(&self, end: Id<Fifo>, size: u64, count: u64) -> Result<(Id<Fifo>, usize), Status> {
        let fifo = self.objects.get(end)?;
        if size != fifo.size as u64 || count == 0 {
            return Err(Status::OUT_OF_RANGE);
        }
        let id = fifo.peer.ok_or(Status::PEER_CLOSED)?;
        let peer = self.objects.get(id)?;
        match peer.elements(peer.inbox.room(), count) {
            0 => Err(Status::SHOULD_WAIT),
            room => Ok((id, room)),
        }
    }

    /// Writes whole elements from a program's memory through one end to the other, which must have room for all `len`
    /// bytes.
    ///
    /// # Errors
    /// As [`Kernel::copy_in`].
    #[inline]
    pub fn fifo_write(
        &mut self,
        (end, peer): (Id<Fifo>, Id<Fifo>),
        aspace: Key,
        from: u64,
        len: usize,
    ) -> Result<(), Status> {
        let object = self.ring_fill(peer, aspace, from, len)?;
        let full = Fifo::own(&object.body)?.inbox.room() == 0;
        let change = object.change_signals(Signals::NONE, Signals::FIFO_READABLE);
        self.notify_change(peer.object(), change);
        if full {
            self.signal(end.object(), Signals::FIFO_WRITABLE, Signals::NONE);
        }
        Ok(())
    }

    /// How many of `count` elements can be read now.
    ///
    /// # Errors
    /// `OUT_OF_RANGE` as [`Kernel::fifo_room`]. `SHOULD_WAIT`: no elements. `PEER_CLOSED`: and there will be none.
    #[inline]
    pub fn fifo_available(&self, end: Id<Fifo>, size: u64, count: u64) -> Result<usize, Status> {
        let fifo = self.objects.get(end)?;
        if size != fifo.size as u64 || count == 0 {
            return Err(Status::OUT_OF_RANGE);
        }
        match fifo.elements(fifo.inbox.len(), count) {
            0 if fifo.peer.is_none() => Err(Status::PEER_CLOSED),
            0 => Err(Status::SHOULD_WAIT),
            filled => Ok(filled),
        }
    }

    /// Moves `len` bytes of elements, which must be there, into a program's memory.
    ///
    /// # Errors
    /// As [`Kernel::copy_out`].
    #[inline]
    pub fn fifo_read(&mut self, end: Id<Fifo>, aspace: Key, to: u64, len: usize) -> Result<(), Status> {
        let object = self.ring_show(end, aspace, to, len)?;
        let fifo = Fifo::own_mut(&mut object.body)?;
        let (was_full, peer) = (fifo.inbox.room() == 0, fifo.peer);
        fifo.inbox.drop_front(len);
        if fifo.inbox.len() == 0 {
            object.signals &= !Signals::FIFO_READABLE;
        }
        if let Some(peer) = peer
            && was_full
        {
            self.signal(peer.object(), Signals::NONE, Signals::FIFO_WRITABLE);
        }
        Ok(())
    }
}
