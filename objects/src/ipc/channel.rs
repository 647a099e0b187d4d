//! Channels: two ends, each with a queue of messages that contain bytes and handles.
//!
//! `channel_call` writes a message with a transaction number chosen by the kernel, and waits for the answer with the
//! same number:
//!
//! 1. The caller's end stores number and thread ([`Channel::callers`]); the message goes to the peer's queue.
//! 2. The thread blocks.
//! 3. A message written to the caller's end whose first four bytes are a stored number goes directly to that thread
//!    instead of into the queue. The closing of the peer, the deadline and the closing of the handle also end the wait.
//!
//! An end has one handle, since channel handles cannot be duplicated. If that handle is in a message in the queue of
//! another end, whose handle is in a message in turn, and so on, the last handle of the chain must be in a process, or
//! no process could ever read any of the messages. So each end stores the end in whose queue its handle is
//! ([`Channel::within`]), and a write that would close the chain to a cycle fails.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use abi::{Signals, Status, ZX_CHANNEL_MAX_MSG_BYTES, ZX_CHANNEL_MAX_MSG_HANDLES};

use crate::containers::growth::Grows;
use crate::containers::inline_map::InlineMap;
use crate::core::account::{QueueCharge, SPARE, STEP};
use crate::core::handle::Handle;
use crate::core::noun::{Noun, ObjectOps, Peer, Variant, peered};
use crate::core::object::{DrainStep, Id, ObjectId, Users};
use crate::kernel::Kernel;
use crate::machine::Machine;

/// Maximum length of such a chain at an end that is written to.
const MAX_DEPTH: usize = 1000;
/// Number of messages in a queue at which the writer counts as a runaway.
const MAX_QUEUED: usize = 3500;

/// Number of unused ends kept for reuse.
const MOST_SPARE: usize = 32;
/// Largest queue capacity of an end kept for reuse.
const SPARE_ROOM: usize = 16;

/// What one `channel_write` sent.
#[derive(Default)]
pub struct Message {
    /// The bytes.
    pub data: Vec<u8>,
    /// The handles, which are in no table. Dropping a message must close them.
    pub handles: Vec<Handle>,
}

peered!(Channel);

impl Message {
    /// Bytes charged for it in a queue.
    fn cost(&self) -> u64 {
        (size_of::<Message>() + self.data.len() + self.handles.len() * size_of::<Handle>()) as u64
    }

    fn txid(&self) -> Option<u32> {
        self.data.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
    }
}

/// One end of a channel.
#[derive(Default)]
pub struct Channel {
    pub(crate) peer: Option<Id<Channel>>,
    /// The peer's koid, also after the peer is closed.
    pub peer_koid: u64,
    queue: VecDeque<Message>,
    /// Bytes that the queued messages take.
    owed: u64,
    /// Bytes that the end is charged for them: see [`STEP`].
    paid: u64,
    /// What is counted against quotas for it.
    pub(crate) counted: QueueCharge,
    pub(crate) callers: InlineMap<u32, ObjectId>,
    pub(crate) next_txid: u32,
    /// The end in whose queue its handle is.
    within: Option<Id<Channel>>,
}

impl Noun for Channel {
    const TYPE: u32 = abi::ZX_OBJ_TYPE_CHANNEL;

    fn peer(&self) -> Option<Peer> {
        Peer::new(self.peer, self.peer_koid)
    }
}

impl ObjectOps for Channel {
    #[inline(always)]
    fn close_fast<M: Machine>(kernel: &mut Kernel<M>, id: Id<Self>) -> bool {
        kernel.channel_closed(id);
        true
    }

    #[inline(always)]
    fn last_handle_closed<M: Machine>(kernel: &mut Kernel<M>, id: Id<Self>) {
        kernel.channel_unreachable(id);
    }

    #[inline(always)]
    fn needs_drain(&self) -> bool {
        !self.is_empty()
    }

    #[inline(always)]
    fn drain<M: Machine>(kernel: &mut Kernel<M>, id: Id<Self>, users: Users) -> DrainStep {
        let handle = match kernel.objects.get_mut(id) {
            Ok(end) if !users.any => end.drain_handle(),
            _ => None,
        };
        handle.map_or(DrainStep::Nothing, DrainStep::Handle)
    }

    #[inline(always)]
    fn queue_charge(&self) -> Option<QueueCharge> {
        Some(self.counted)
    }

    #[inline(always)]
    fn destroyed<M: Machine>(self: Box<Self>, kernel: &mut Kernel<M>, _: Id<Self>) {
        kernel.channel_end(self);
    }
}

/// Destinations of the answer to a `channel_call`: addresses in the caller's memory.
#[derive(Clone, Copy, Debug)]
pub struct CallBuffers {
    /// Address for the bytes.
    pub bytes: u64,
    /// Room for bytes.
    pub num_bytes: u32,
    /// Address for the handles.
    pub handles: u64,
    /// Room for handles.
    pub num_handles: u32,
    /// Handles are written as `zx_handle_info_t`.
    pub etc: bool,
    /// Address for the number of bytes.
    pub actual_bytes: u64,
    /// Address for the number of handles.
    pub actual_handles: u64,
}

impl Channel {
    /// Whether no message is queued.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Takes a handle out of the messages of an end that has no handle any more.
    pub(crate) fn drain_handle(&mut self) -> Option<Handle> {
        while let Some(message) = self.queue.front_mut() {
            if let Some(handle) = message.handles.pop() {
                return Some(handle);
            }
            self.queue.pop_front();
        }
        None
    }
}

impl<M: Machine> Kernel<M> {
    /// `channel_create`.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn channel_create(&mut self) -> Result<(Id<Channel>, Id<Channel>), Status> {
        let mut end = || self.spare_channels.pop().unwrap_or_default();
        let ends = [end(), end()];
        self.create_pair(Signals::CHANNEL_WRITABLE, ends)
    }

    /// Destroys an end; may keep its box for reuse.
    #[inline]
    pub(crate) fn channel_end(&mut self, mut end: Box<Channel>) {
        let plain = end.queue.is_empty() && end.queue.capacity() <= SPARE_ROOM && end.callers.is_empty();
        if plain && self.spare_channels.len() < MOST_SPARE {
            (end.peer, end.owed, end.paid, end.counted) = (None, 0, 0, QueueCharge::default());
            (end.next_txid, end.within) = (0, None);
            self.spare_channels.push(end);
        }
    }

    /// Writes a message to the peer. On an error the message's handles are closed.
    ///
    /// # Errors
    /// `OUT_OF_RANGE`: too many bytes or handles. `PEER_CLOSED`. `NOT_SUPPORTED`: no process could ever read the
    /// message, because the peer's handle is in it, directly or through other queues. `SHOULD_WAIT`: too many messages
    /// are queued, and this one does not answer a call. `NO_MEMORY`, `NO_RESOURCES`: limits of the job that created the
    /// peer.
    #[inline(always)]
    pub fn channel_write(&mut self, end: Id<Channel>, message: Message) -> Result<(), Status> {
        let (bytes, handles) = (message.data.len(), message.handles.len());
        if bytes > ZX_CHANNEL_MAX_MSG_BYTES as usize || handles > ZX_CHANNEL_MAX_MSG_HANDLES as usize {
            return self.channel_refuse(message, Status::OUT_OF_RANGE);
        }
        let Some(peer) = self.objects.get(end)?.peer else {
            return self.channel_refuse(message, Status::PEER_CLOSED);
        };
        if handles > 0 && !self.channel_encloses(peer, &message.handles) {
            return self.channel_refuse(message, Status::NOT_SUPPORTED);
        }
        let object = self.objects.any_mut(peer.object())?;
        let to = Channel::own_mut(&mut object.body)?;
        let (waiting, owed) = (to.queue.len(), to.owed + message.cost());
        if !to.callers.is_empty() || waiting >= to.queue.capacity().min(to.counted.places as usize) || owed > to.paid {
            return self.channel_write_slow(peer, message);
        }
        to.owed = owed;
        to.queue.push_back(message);
        if waiting == 0 {
            let change = object.change_signals(Signals::NONE, Signals::CHANNEL_READABLE);
            self.notify_change(peer.object(), change);
        }
        Ok(())
    }

    /// Slow path: the peer waits for an answer, or the queue must grow, or must be charged for first.
    #[inline(never)]
    fn channel_write_slow(&mut self, peer: Id<Channel>, message: Message) -> Result<(), Status> {
        let to = self.objects.get_mut(peer)?;
        if !to.callers.is_empty()
            && let Some(thread) = message.txid().and_then(|txid| to.callers.remove(&txid))
        {
            self.channel_answered(Id::new(thread), message);
            return Ok(());
        }
        if to.queue.len() >= MAX_QUEUED {
            return self.channel_refuse(message, Status::SHOULD_WAIT);
        }
        let owed = to.owed + message.cost();
        if to.queue.room(1).is_err() {
            return self.channel_refuse(message, Status::NO_MEMORY);
        }
        if let Err(status) = self.channel_raise_charge(peer, owed) {
            return self.channel_refuse(message, status);
        }
        let to = self.objects.get_mut(peer)?;
        to.owed = owed;
        to.queue.push_back(message);
        if to.queue.len() == 1 {
            self.signal(peer.object(), Signals::NONE, Signals::CHANNEL_READABLE);
        }
        Ok(())
    }

    /// Records that handles enter the queue of an end. Says no if that end's handle is in the queue of one of them,
    /// directly or through others, or if the chain is longer than the maximum.
    #[inline(never)]
    fn channel_encloses(&mut self, end: Id<Channel>, handles: &[Handle]) -> bool {
        let mut next = Some(end);
        for _ in 0..MAX_DEPTH {
            let Some(at) = next.take() else { break };
            if handles.iter().any(|handle| handle.object == at.object()) {
                return false;
            }
            // If the end has another handle, a process can read it.
            if self.objects.any(at.object()).is_ok_and(|object| object.handles == 1) {
                next = self.objects.get(at).ok().and_then(|channel| channel.within);
            }
        }
        if next.is_some() {
            return false;
        }
        self.channel_note_within(handles, Some(end));
        true
    }

    /// Records the end in whose queue handles are, or that they are in none any more.
    pub(crate) fn channel_note_within(&mut self, handles: &[Handle], end: Option<Id<Channel>>) {
        for handle in handles {
            if let Ok(channel) = self.objects.typed::<Channel>(handle.object).and_then(|id| self.objects.get_mut(id)) {
                channel.within = end;
            }
        }
    }

    /// The size of the next message in bytes and handles.
    ///
    /// # Errors
    /// `SHOULD_WAIT`: no message; `PEER_CLOSED`: and there will be none.
    #[inline]
    pub fn channel_peek(&self, end: Id<Channel>) -> Result<(usize, usize), Status> {
        let channel = self.objects.get(end)?;
        match channel.queue.front() {
            Some(message) => Ok((message.data.len(), message.handles.len())),
            None if channel.peer.is_none() => Err(Status::PEER_CLOSED),
            None => Err(Status::SHOULD_WAIT),
        }
    }

    /// Takes the next message off the queue.
    ///
    /// # Errors
    /// As [`Kernel::channel_peek`].
    #[inline(always)]
    pub fn channel_read(&mut self, end: Id<Channel>) -> Result<Message, Status> {
        let object = self.objects.any_mut(end.object())?;
        let channel = Channel::own_mut(&mut object.body)?;
        let Some(message) = channel.queue.pop_front() else {
            return Err(if channel.peer.is_none() { Status::PEER_CLOSED } else { Status::SHOULD_WAIT });
        };
        channel.owed = channel.owed.saturating_sub(message.cost());
        let too_much = channel.paid > channel.owed + SPARE;
        if channel.queue.is_empty() {
            object.signals &= !Signals::CHANNEL_READABLE;
        }
        if !message.handles.is_empty() {
            self.channel_note_within(&message.handles, None);
        }
        if too_much {
            self.channel_lower_charge(end);
        }
        Ok(message)
    }

    /// Reduces the charge of an end after messages were read.
    #[inline(never)]
    fn channel_lower_charge(&mut self, end: Id<Channel>) {
        let Ok(channel) = self.objects.get_mut(end) else { return };
        let surplus = channel.paid.saturating_sub(channel.owed + STEP);
        channel.paid -= surplus;
        // The charge is for the messages, so the queue's room must not stay that of more of them.
        if channel.queue.capacity() / 4 > channel.queue.len().max(SPARE_ROOM) {
            channel.queue.shrink_to(channel.queue.len().max(SPARE_ROOM) * 2);
        }
        let (owed, waiting, counted) = (channel.owed, channel.queue.len() as u64, channel.counted);
        self.discharge(end.object(), surplus);
        if counted.is_too_much(owed, waiting) {
            let counted = self.uncount_queue(end.object(), counted, owed, waiting);
            if let Ok(channel) = self.objects.get_mut(end) {
                channel.counted = counted;
            }
        }
    }

    #[cold]
    fn channel_refuse(&mut self, message: Message, status: Status) -> Result<(), Status> {
        self.drop_message(message);
        Err(status)
    }

    /// Charges an end for one more message; `owed` is the new total.
    ///
    /// # Errors
    /// `NO_MEMORY`, `NO_RESOURCES`.
    #[cold]
    fn channel_raise_charge(&mut self, end: Id<Channel>, owed: u64) -> Result<(), Status> {
        let channel = self.objects.get(end)?;
        let (counted, messages, paid) = (channel.counted, channel.queue.len() as u64 + 1, channel.paid);
        if !counted.is_enough(owed, messages) {
            self.objects.get_mut(end)?.counted = self.count_queue(end.object(), counted, owed, messages)?;
        }
        if owed > paid {
            let more = self.charge_queue(end.object(), owed - paid)?;
            self.objects.get_mut(end)?.paid += more;
        }
        Ok(())
    }

    /// Returns a message to the front of the queue after its delivery failed.
    pub fn channel_unread(&mut self, end: Id<Channel>, message: Message) {
        self.channel_note_within(&message.handles, Some(end));
        let Ok(channel) = self.objects.get_mut(end) else { return self.drop_message(message) };
        // It has just left the queue, so its slot and its count are still there.
        channel.owed += message.cost();
        let missing = channel.owed.saturating_sub(channel.paid);
        channel.paid += missing;
        channel.queue.push_front(message);
        self.charge(end.object(), missing);
        self.signal(end.object(), Signals::NONE, Signals::CHANNEL_READABLE);
    }

    /// Closes a message's handles.
    pub fn drop_message(&mut self, message: Message) {
        let Message { data, mut handles } = message;
        self.buffers.give(data);
        handles.drain(..).for_each(|handle| self.drop_handle(handle));
        self.buffers.give_list(handles);
    }

    pub(crate) fn channel_unreachable(&mut self, end: Id<Channel>) {
        let Ok(channel) = self.objects.get_mut(end) else { return };
        if !channel.callers.is_empty() {
            self.channel_callers_end(end, Status::CANCELED);
        }
        let Some(peer) = self.objects.get_mut(end).ok().and_then(|channel| channel.peer.take()) else { return };
        self.channel_peer_gone(peer);
    }

    /// The last handle to an end is closed: [`Kernel::close_last`], with a fast path for an end that holds nothing and
    /// is not referenced.
    #[inline(never)]
    pub(crate) fn channel_closed(&mut self, id: Id<Channel>) {
        let gone = self.objects.slab.vacate(id.object().key(), |object| {
            let end = Channel::of(&object.body)?;
            let is_free = end.queue.is_empty() && end.callers.is_empty() && object.is_unneeded();
            is_free.then(|| (object.charge, object.take_body()))
        });
        let gone = gone.and_then(|(charge, body)| Some((charge, Channel::from_body(body)?)));
        let Some((charge, end)) = gone else { return self.close_last(id.object()) };
        self.uncount_whole_queue(charge, end.counted);
        self.charge_end(charge);
        let peer = end.peer;
        self.channel_end(end);
        if let Some(peer) = peer {
            self.channel_peer_gone(peer);
        }
    }

    /// The peer is closed.
    #[inline]
    fn channel_peer_gone(&mut self, id: Id<Channel>) {
        let Ok(object) = self.objects.any_mut(id.object()) else { return };
        let Ok(end) = Channel::own_mut(&mut object.body) else { return };
        end.peer = None;
        if !end.callers.is_empty() {
            self.channel_callers_end(id, Status::PEER_CLOSED);
            return self.signal(id.object(), Signals::CHANNEL_WRITABLE, Signals::CHANNEL_PEER_CLOSED);
        }
        let change = object.change_signals(Signals::CHANNEL_WRITABLE, Signals::CHANNEL_PEER_CLOSED);
        self.notify_change(id.object(), change);
    }

    /// Ends the calls that wait for answers through an end.
    #[inline(never)]
    fn channel_callers_end(&mut self, end: Id<Channel>, status: Status) {
        let Ok(channel) = self.objects.get_mut(end) else { return };
        for thread in core::mem::take(&mut channel.callers).into_values() {
            self.finish_wait(Id::new(thread), status);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeMachine;

    #[test]
    fn an_end_that_was_full_keeps_no_room_for_that() {
        let mut kernel = Kernel::new(FakeMachine::new(1 << 20)).unwrap();
        let (one, two) = kernel.channel_create().unwrap();
        for left in [0, 1, 300] {
            for _ in 0..MAX_QUEUED - 300 {
                kernel.channel_write(one, Message::default()).unwrap();
            }
            while kernel.objects.get(two).unwrap().queue.len() > left {
                kernel.channel_read(two).unwrap();
            }
            let channel = kernel.objects.get(two).unwrap();
            let room = (channel.queue.capacity() * size_of::<Message>()) as u64;
            assert!(
                room <= 4 * channel.paid + 4 * SPARE,
                "{room} bytes for {left} messages, {} are charged",
                channel.paid
            );
        }
    }
}
