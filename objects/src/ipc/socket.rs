//! Sockets: two ends with byte streams or datagrams in both directions.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use abi::{Signals, Status};

use crate::containers::growth::Grows;
use crate::containers::slab::Key;
use crate::core::account::{QueueCharge, SPARE, STEP};
use crate::core::noun::{Noun, ObjectOps, Peer, Variant, peered};
use crate::core::object::Id;
use crate::ipc::ring_buffer::{HasRingBuffer, RingBuffer};
use crate::kernel::Kernel;
use crate::machine::Machine;

/// Capacity of one end's receive buffer in bytes.
pub const CAPACITY: usize = 256 * 1024;
/// An empty end keeps a buffer up to this size.
const LARGE: usize = 4096;

/// Bytes that a datagram takes beside its queue entry and its content: the rounding of the heap.
const DATAGRAM: usize = 32;
/// Step in bytes by which the charge for datagrams grows, as far as their bytes are counted already. So a burst changes
/// few accounts.
const DATAGRAM_STEP: u64 = 8 * STEP;
/// Bytes by which the charge for datagrams that wait may be too high. With none, it is [`SPARE`].
const DATAGRAM_SPARE: u64 = 2 * DATAGRAM_STEP;
/// Capacity that an empty datagram queue keeps.
const MIN_DATAGRAMS: usize = 16;

/// Received data of an end.
enum Inbox {
    Stream(RingBuffer),
    Datagrams { queue: VecDeque<Vec<u8>>, bytes: usize },
}

peered!(Socket);

impl Inbox {
    fn len(&self) -> usize {
        match self {
            Inbox::Stream(bytes) => bytes.len(),
            Inbox::Datagrams { bytes, .. } => *bytes,
        }
    }

    /// Bytes by which its charge may be too high.
    fn spare(&self) -> u64 {
        match self {
            Inbox::Stream(_) => STEP,
            Inbox::Datagrams { queue, .. } if queue.is_empty() => SPARE,
            Inbox::Datagrams { .. } => DATAGRAM_SPARE,
        }
    }

    /// Bytes to charge for it: the buffer of a stream whether it is full or not, datagrams including their overhead.
    fn cost(&self) -> u64 {
        match self {
            Inbox::Stream(bytes) => bytes.capacity() as u64,
            Inbox::Datagrams { queue, bytes } if queue.is_empty() => *bytes as u64,
            Inbox::Datagrams { queue, bytes } => {
                (bytes + queue.len() * DATAGRAM + queue.capacity() * size_of::<Vec<u8>>()) as u64
            }
        }
    }

    /// The same after `more` further bytes.
    fn cost_with(&self, more: usize) -> u64 {
        let own = match self {
            Inbox::Stream(bytes) if bytes.room() >= more => return bytes.capacity() as u64,
            Inbox::Stream(bytes) => return bytes.wanted(more) as u64,
            // A full queue doubles its capacity.
            Inbox::Datagrams { queue, .. } if queue.len() == queue.capacity() => {
                DATAGRAM + queue.len().max(MIN_DATAGRAMS) * size_of::<Vec<u8>>()
            }
            Inbox::Datagrams { .. } => DATAGRAM,
        };
        self.cost() + (own + more) as u64
    }

    /// Shrinks a queue whose capacity is much too large.
    fn shrink(&mut self) {
        if let Inbox::Datagrams { queue, .. } = self
            && queue.capacity() > MIN_DATAGRAMS
            && queue.len() < queue.capacity() / 4
        {
            queue.shrink_to((queue.capacity() / 2).max(MIN_DATAGRAMS));
        }
    }
}

/// One end of a socket.
pub struct Socket {
    pub(crate) peer: Option<Id<Socket>>,
    /// The peer's koid, also after the peer is closed.
    pub peer_koid: u64,
    inbox: Inbox,
    /// Bytes that the end is charged for its received data: at most [`Inbox::spare`] more than that takes.
    paid: u64,
    /// What is counted against quotas for it.
    pub(crate) counted: QueueCharge,
    /// This end may write.
    pub can_write: bool,
    /// The peer may write to this end.
    pub can_receive: bool,
    /// `ZX_PROP_SOCKET_RX_THRESHOLD`; 0 if not set.
    pub read_threshold: usize,
    /// `ZX_PROP_SOCKET_TX_THRESHOLD`; 0 if not set.
    pub write_threshold: usize,
    /// The peer has a write threshold, so reads from this end may change the peer's signals.
    peer_has_threshold: bool,
}

impl Noun for Socket {
    const TYPE: u32 = abi::ZX_OBJ_TYPE_SOCKET;

    fn peer(&self) -> Option<Peer> {
        Peer::new(self.peer, self.peer_koid)
    }
}

impl ObjectOps for Socket {
    #[inline(always)]
    fn last_handle_closed<M: Machine>(kernel: &mut Kernel<M>, id: Id<Self>) {
        let Some(peer) = kernel.part_pair(id) else { return };
        let clear = Signals::SOCKET_WRITABLE | Signals::SOCKET_WRITE_THRESHOLD;
        kernel.signal(peer.object(), clear, Signals::SOCKET_PEER_CLOSED);
    }

    #[inline(always)]
    fn queue_charge(&self) -> Option<QueueCharge> {
        Some(self.counted)
    }
}

/// The result of the checks before a write.
#[derive(Clone, Copy)]
pub struct CheckedWrite {
    end: Id<Socket>,
    peer: Id<Socket>,
    /// Bytes that the peer has room for.
    pub room: usize,
    /// Stream bytes that fit without growth of the buffer or the charge.
    ready: usize,
    /// It is a datagram socket.
    pub datagram: bool,
    /// Neither end has a threshold.
    quiet: bool,
}

impl HasRingBuffer for Socket {
    #[inline(always)]
    fn ring(&mut self) -> Option<&mut RingBuffer> {
        match &mut self.inbox {
            Inbox::Stream(bytes) => Some(bytes),
            Inbox::Datagrams { .. } => None,
        }
    }
}

impl Socket {
    /// Bytes that can be read.
    pub fn readable(&self) -> usize {
        self.inbox.len()
    }

    /// Size of the first datagram, or of the stream.
    pub fn next_len(&self) -> usize {
        match &self.inbox {
            Inbox::Stream(bytes) => bytes.len(),
            Inbox::Datagrams { queue, .. } => queue.front().map_or(0, Vec::len),
        }
    }

    /// Whether its peer's inbox has room for its write threshold before or after a change of that inbox, but not both.
    fn crosses_threshold(&self, held_before: usize, held_after: usize) -> bool {
        let [before, after] =
            [held_before, held_after].map(|held| CAPACITY.saturating_sub(held) >= self.write_threshold);
        before != after
    }

    /// Whether it is a datagram socket.
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
                Inbox::Stream(RingBuffer::default())
            };
            Box::new(Socket {
                peer: None,
                peer_koid: 0,
                inbox,
                paid: 0,
                counted: QueueCharge::default(),
                can_write: true,
                can_receive: true,
                read_threshold: 0,
                write_threshold: 0,
                peer_has_threshold: false,
            })
        };
        self.create_pair(Signals::SOCKET_WRITABLE, [end(), end()])
    }

    /// Checks whether an end can be written to now.
    ///
    /// # Errors
    /// `BAD_STATE`: this end may not write. `PEER_CLOSED`. `SHOULD_WAIT`: no room.
    #[inline(always)]
    pub fn socket_way(&self, end: Id<Socket>) -> Result<CheckedWrite, Status> {
        let socket = self.objects.get(end)?;
        let Some(peer) = socket.peer else { return Err(Status::PEER_CLOSED) };
        if !socket.can_write {
            return Err(Status::BAD_STATE);
        }
        let to = self.objects.get(peer)?;
        // A stream is charged for all of its buffer.
        let (held, ready) = match &to.inbox {
            Inbox::Stream(bytes) => (bytes.len(), Some(bytes.room())),
            Inbox::Datagrams { bytes, .. } => (*bytes, None),
        };
        let room = CAPACITY.saturating_sub(held);
        if room == 0 {
            return Err(Status::SHOULD_WAIT);
        }
        let quiet = socket.write_threshold == 0 && to.read_threshold == 0;
        Ok(CheckedWrite { end, peer, room, ready: ready.unwrap_or(0), datagram: ready.is_none(), quiet })
    }

    /// Bytes that this end has written and the peer has not read.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn socket_sent(&self, end: Id<Socket>) -> Result<usize, Status> {
        let peer = self.objects.get(end)?.peer;
        Ok(peer.and_then(|peer| self.objects.get(peer).ok()).map_or(0, Socket::readable))
    }

    /// Writes `len` bytes of a program's memory to the peer, all of them or none.
    ///
    /// # Errors
    /// As [`Kernel::socket_way`]; `SHOULD_WAIT`: no room for all. As [`Kernel::copy_in`]. `NO_MEMORY`, `NO_RESOURCES`.
    pub fn socket_write(&mut self, end: Id<Socket>, aspace: Key, from: u64, len: usize) -> Result<(), Status> {
        let way = self.socket_way(end)?;
        if len > way.room {
            return Err(Status::SHOULD_WAIT);
        }
        self.socket_send(way, aspace, from, len)
    }

    /// The same after the checks: `way` has room for all.
    ///
    /// # Errors
    /// As [`Kernel::copy_in`]. `NO_MEMORY`, `NO_RESOURCES`: limits of the job that created the peer.
    #[inline(always)]
    pub fn socket_send(&mut self, way: CheckedWrite, aspace: Key, from: u64, len: usize) -> Result<(), Status> {
        if !(1..=way.ready).contains(&len) || !way.quiet || len == way.room {
            return self.socket_send_slow((way.end, way.peer), way.datagram, aspace, from, len);
        }
        let object = self.ring_fill(way.peer, aspace, from, len)?;
        let change = object.change_signals(Signals::NONE, Signals::SOCKET_READABLE);
        self.notify_change(way.peer.object(), change);
        Ok(())
    }

    /// Slow path of [`Kernel::socket_send`]: there are no bytes, the peer must be charged or its buffer must grow, it
    /// is a datagram socket, or signals of both ends change.
    #[inline(never)]
    fn socket_send_slow(
        &mut self,
        (end, peer): (Id<Socket>, Id<Socket>),
        datagram: bool,
        aspace: Key,
        from: u64,
        len: usize,
    ) -> Result<(), Status> {
        let sent = self.socket_prepare(peer, len).and_then(|()| match datagram {
            false => self.ring_fill(peer, aspace, from, len).map(|_| ()),
            true => self.socket_put(peer, aspace, from, len),
        });
        if let Err(status) = sent {
            self.socket_shrink(peer, false);
            return Err(status);
        }
        let (writer, reader) = (self.objects.get(end)?, self.objects.get(peer)?);
        let held = reader.inbox.len();
        let is_quiet = (len > 0 || datagram)
            && reader.read_threshold == 0
            && held < CAPACITY
            && !writer.crosses_threshold(held - len, held);
        if is_quiet {
            let change = self.objects.any_mut(peer.object())?.change_signals(Signals::NONE, Signals::SOCKET_READABLE);
            self.notify_change(peer.object(), change);
        } else {
            self.socket_update_signals(end, peer);
        }
        Ok(())
    }

    /// Charges an end for `more` bytes, and makes room for them in its buffer.
    #[inline(never)]
    fn socket_prepare(&mut self, end: Id<Socket>, more: usize) -> Result<(), Status> {
        let cost = self.objects.get(end)?.inbox.cost_with(more);
        let mut paid = self.socket_pay(end, cost);
        // Where a stream's next size exceeds the limit, the exact amount may fit.
        if paid.is_err()
            && let Some(ring) = self.objects.get_mut(end)?.ring()
        {
            let least = ring.least(more) as u64;
            paid = self.socket_pay(end, least);
        }
        paid?;
        match self.objects.get_mut(end)?.ring() {
            Some(ring) if ring.room() < more => self.socket_grow(end, more),
            _ => Ok(()),
        }
    }

    /// Charges an end for `cost` bytes in all.
    fn socket_pay(&mut self, end: Id<Socket>, cost: u64) -> Result<(), Status> {
        let socket = self.objects.get(end)?;
        let missing = cost.saturating_sub(socket.paid);
        if missing == 0 {
            return Ok(());
        }
        let (counted, bytes) = (socket.counted, socket.paid + missing);
        if !counted.is_enough(bytes, 0) {
            self.objects.get_mut(end)?.counted = self.count_queue(end.object(), counted, bytes, 0)?;
        }
        let socket = self.objects.get(end)?;
        let step = match socket.inbox {
            Inbox::Stream(_) => STEP,
            Inbox::Datagrams { .. } => DATAGRAM_STEP.min(socket.counted.beyond(socket.paid)).max(STEP),
        };
        let paid = self.charge_queue_by(end.object(), missing, step)?;
        self.objects.get_mut(end)?.paid += paid;
        Ok(())
    }

    /// Gives a stream, whose larger buffer is charged, that buffer.
    fn socket_grow(&mut self, end: Id<Socket>, more: usize) -> Result<(), Status> {
        let socket = self.objects.get_mut(end)?;
        let paid = socket.paid;
        let ring = socket.ring().ok_or(Status::INTERNAL)?;
        let wanted = ring.wanted(more);
        let wanted = if paid >= wanted as u64 { wanted } else { ring.least(more) };
        let larger = self.buffers.take(wanted)?;
        let ring = self.objects.get_mut(end)?.ring().ok_or(Status::INTERNAL)?;
        let smaller = ring.grow_into(larger);
        self.buffers.give(smaller);
        Ok(())
    }

    /// Appends a datagram to an end.
    fn socket_put(&mut self, end: Id<Socket>, aspace: Key, from: u64, len: usize) -> Result<(), Status> {
        let mut datagram = self.buffers.take(len)?;
        self.copy_in(aspace, from, &mut datagram)?;
        if let Inbox::Datagrams { queue, bytes } = &mut self.objects.get_mut(end)?.inbox {
            queue.room(1)?;
            queue.push_back(datagram);
            *bytes += len;
        }
        Ok(())
    }

    /// Reads, or with `peek` copies, up to `len` bytes into a program's memory: of the stream, or of the first
    /// datagram, whose rest is lost (but with a length of 0 all of it stays). Returns the number of bytes.
    ///
    /// # Errors
    /// `SHOULD_WAIT`: there is no data; `PEER_CLOSED`, `BAD_STATE`: and there will be none. As [`Kernel::copy_out`];
    /// all data then stays.
    #[inline]
    pub fn socket_read(
        &mut self,
        end: Id<Socket>,
        aspace: Key,
        to: u64,
        room: usize,
        peek: bool,
    ) -> Result<usize, Status> {
        let socket = self.objects.get(end)?;
        let held = socket.inbox.len();
        if held == 0 && !has_datagram(&socket.inbox) {
            return Err(match socket.peer {
                None => Status::PEER_CLOSED,
                Some(_) if !socket.can_receive => Status::BAD_STATE,
                Some(_) => Status::SHOULD_WAIT,
            });
        }
        let (object, len, left) = match &socket.inbox {
            Inbox::Stream(_) => {
                let len = room.min(held);
                (self.ring_show(end, aspace, to, len)?, len, held - len)
            }
            Inbox::Datagrams { .. } => {
                let (len, left) = self.socket_receive(end, aspace, to, room, peek)?;
                (self.objects.any_mut(end.object())?, len, left)
            }
        };
        if peek {
            return Ok(len);
        }
        let socket = Socket::own_mut(&mut object.body)?;
        let mut large = false;
        if let Inbox::Stream(bytes) = &mut socket.inbox {
            bytes.drop_front(len);
            large = left == 0 && bytes.capacity() > LARGE;
        }
        socket.inbox.shrink();
        let too_much = socket.paid > socket.inbox.cost() + socket.inbox.spare();
        let (peer, plain) = (socket.peer, socket.read_threshold == 0);
        let watched = socket.peer_has_threshold || held == CAPACITY;
        if plain && left == 0 && !has_datagram(&socket.inbox) {
            object.signals &= !Signals::SOCKET_READABLE;
        }
        if large || too_much {
            self.socket_shrink(end, large);
        }
        match peer {
            Some(peer) if !plain || watched => {
                let crosses = held == CAPACITY || self.objects.get(peer)?.crosses_threshold(held, left);
                if !plain || crosses {
                    self.socket_update_signals(peer, end);
                }
            }
            None if !plain => self.socket_update_reader(end),
            _ => {}
        }
        Ok(len)
    }

    /// The same for a datagram: returns the number of bytes read, and the number that stay.
    #[inline(never)]
    fn socket_receive(
        &mut self,
        end: Id<Socket>,
        aspace: Key,
        to: u64,
        room: usize,
        peek: bool,
    ) -> Result<(usize, usize), Status> {
        let Inbox::Datagrams { queue, bytes } = &mut self.objects.get_mut(end)?.inbox else {
            return Err(Status::INTERNAL);
        };
        let held = *bytes;
        let datagram = queue.pop_front().ok_or(Status::SHOULD_WAIT)?;
        let part = datagram.get(..room).unwrap_or(&datagram);
        let (len, whole) = (part.len(), datagram.len());
        let copied = self.copy_out(aspace, to, part);
        // A read of 0 bytes takes nothing.
        if peek || room == 0 || copied.is_err() {
            if let Inbox::Datagrams { queue, .. } = &mut self.objects.get_mut(end)?.inbox {
                // It has just left the queue, so its slot is still there.
                queue.push_front(datagram);
            }
            return copied.map(|()| (len, held));
        }
        self.buffers.give(datagram);
        if let Inbox::Datagrams { bytes, .. } = &mut self.objects.get_mut(end)?.inbox {
            *bytes -= whole;
        }
        Ok((len, held - whole))
    }

    /// Frees the large buffer of an empty end, and reduces the charge of an end to what it needs.
    #[inline(never)]
    fn socket_shrink(&mut self, end: Id<Socket>, large: bool) {
        let Ok(socket) = self.objects.get_mut(end) else { return };
        if large && let Some(ring) = socket.ring() {
            let buffer = ring.take_buffer();
            self.buffers.give(buffer);
        }
        let surplus = socket.paid.saturating_sub(socket.inbox.cost());
        socket.paid -= surplus;
        let (counted, paid) = (socket.counted, socket.paid);
        self.discharge(end.object(), surplus);
        if counted.is_too_much(paid, 0) {
            let counted = self.uncount_queue(end.object(), counted, paid, 0);
            if let Ok(socket) = self.objects.get_mut(end) {
                socket.counted = counted;
            }
        }
    }

    /// `socket_set_disposition`: enables or disables writing by this end and its peer. If the peer is closed, only this
    /// end changes.
    ///
    /// # Errors
    /// `BAD_STATE`: writing was disabled and data is still unread, so it cannot be enabled again.
    pub fn socket_set_disposition(
        &mut self,
        end: Id<Socket>,
        own: Option<bool>,
        peer: Option<bool>,
    ) -> Result<(), Status> {
        let Some(other) = self.objects.get(end)?.peer else { return self.socket_set_alone(end, own, peer) };
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

    /// [`Kernel::socket_set_disposition`] for an end whose peer is closed.
    fn socket_set_alone(&mut self, end: Id<Socket>, own: Option<bool>, peer: Option<bool>) -> Result<(), Status> {
        let socket = self.objects.get_mut(end)?;
        if peer == Some(true) && !socket.can_receive && socket.inbox.len() > 0 {
            return Err(Status::BAD_STATE);
        }
        let Some(allow) = own else { return Ok(()) };
        socket.can_write = allow;
        let (may, may_not) = (Signals::SOCKET_WRITABLE, Signals::SOCKET_WRITE_DISABLED);
        let (clear, set) = if allow { (may_not, may) } else { (may, may_not) };
        self.signal(end.object(), clear, set);
        Ok(())
    }

    /// Sets a threshold and updates its signal; 0 clears it.
    ///
    /// # Errors
    /// `INVALID_ARGS`: more than an end can hold. `PEER_CLOSED`: nothing more can be written to this end.
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
                self.objects.get_mut(peer)?.peer_has_threshold = threshold > 0;
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

    /// Updates the signals of a writer and its reader.
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
}

fn has_datagram(inbox: &Inbox) -> bool {
    matches!(inbox, Inbox::Datagrams { queue, .. } if !queue.is_empty())
}
