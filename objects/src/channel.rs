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

use crate::account::{Held, SPARE, STEP};
use crate::few::Few;
use crate::handle::Handle;
use crate::kernel::Kernel;
use crate::machine::Machine;
use crate::object::{Body, Id, Noun};
use crate::pager::Then;
use crate::process::Process;
use crate::refusal::Grows;
use crate::slab::Key;
use crate::thread::{Thread, Wait};
use crate::usermem::Place;
use crate::vmo::PAGE_WAIT;
use crate::wait::Waiting;

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
    pub(crate) counted: Held,
    callers: Few<u32, Id<Thread>>,
    next_txid: u32,
    /// The end in whose queue its handle is.
    within: Option<Id<Channel>>,
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

/// Size of a handle in a reader's array: a `zx_handle_info_t` or a bare value.
fn handle_size(etc: bool) -> usize {
    if etc { 16 } else { 4 }
}

impl Channel {
    /// Whether no message is queued.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Takes a handle out of the messages of an end that has no handle any more.
    pub(crate) fn let_go(&mut self) -> Option<Handle> {
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
        let mut end = || Body::Channel(self.spare_channels.pop().unwrap_or_default());
        let ends = [end(), end()];
        self.create_pair(Signals::CHANNEL_WRITABLE, ends)
    }

    /// Destroys an end; may keep its box for reuse.
    #[inline]
    pub(crate) fn channel_end(&mut self, mut end: Box<Channel>) {
        let plain = end.queue.is_empty() && end.queue.capacity() <= SPARE_ROOM && end.callers.is_empty();
        if plain && self.spare_channels.len() < MOST_SPARE {
            (end.peer, end.owed, end.paid, end.counted) = (None, 0, 0, Held::default());
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
            return self.channel_write_otherwise(peer, message);
        }
        to.owed = owed;
        to.queue.push_back(message);
        if waiting == 0 {
            let news = object.change_signals(Signals::NONE, Signals::CHANNEL_READABLE);
            self.tell(peer.object(), news);
        }
        Ok(())
    }

    /// Slow path: the peer waits for an answer, or the queue must grow, or must be charged for first.
    #[inline(never)]
    fn channel_write_otherwise(&mut self, peer: Id<Channel>, message: Message) -> Result<(), Status> {
        let to = self.objects.get_mut(peer)?;
        if !to.callers.is_empty()
            && let Some(thread) = message.txid().and_then(|txid| to.callers.remove(&txid))
        {
            self.channel_answered(thread, message);
            return Ok(());
        }
        if to.queue.len() >= MAX_QUEUED {
            return self.channel_refuse(message, Status::SHOULD_WAIT);
        }
        let owed = to.owed + message.cost();
        if to.queue.room(1).is_err() {
            return self.channel_refuse(message, Status::NO_MEMORY);
        }
        if let Err(status) = self.channel_pay(peer, owed) {
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
    fn channel_note_within(&mut self, handles: &[Handle], end: Option<Id<Channel>>) {
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
            self.channel_paid_back(end);
        }
        Ok(message)
    }

    /// Reduces the charge of an end after messages were read.
    #[inline(never)]
    fn channel_paid_back(&mut self, end: Id<Channel>) {
        let Ok(channel) = self.objects.get_mut(end) else { return };
        let surplus = channel.paid.saturating_sub(channel.owed + STEP);
        channel.paid -= surplus;
        let (owed, waiting, counted) = (channel.owed, channel.queue.len() as u64, channel.counted);
        self.discharge(end.object(), surplus);
        if counted.is_too_much(owed, waiting) {
            let counted = self.uncount_held(end.object(), counted, owed, waiting);
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
    fn channel_pay(&mut self, end: Id<Channel>, owed: u64) -> Result<(), Status> {
        let channel = self.objects.get(end)?;
        let (counted, messages, paid) = (channel.counted, channel.queue.len() as u64 + 1, channel.paid);
        if !counted.is_enough(owed, messages) {
            self.objects.get_mut(end)?.counted = self.count_held(end.object(), counted, owed, messages)?;
        }
        if owed > paid {
            let more = self.charge_held(end.object(), owed - paid)?;
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

    /// `channel_call`: steps 1 and 2. Replaces the message's first four bytes by the transaction number.
    ///
    /// # Errors
    /// Those of [`Kernel::channel_write`]; the message's handles are closed.
    pub fn channel_call(
        &mut self,
        end: Id<Channel>,
        thread: Id<Thread>,
        mut message: Message,
        deadline: i64,
        buffers: CallBuffers,
    ) -> Result<Waiting, Status> {
        let channel = self.objects.get_mut(end)?;
        // Numbers that the kernel chooses have the top bit set; numbers that programs use themselves do not.
        let txid = loop {
            channel.next_txid = channel.next_txid.wrapping_add(1);
            let txid = channel.next_txid | 0x8000_0000;
            if !channel.callers.contains_key(&txid) {
                break txid;
            }
        };
        if let Some(bytes) = message.data.first_chunk_mut::<4>() {
            *bytes = txid.to_le_bytes();
        }
        channel.callers.insert(txid, thread);
        if let Err(status) = self.channel_write(end, message) {
            self.channel_forget_caller(end, txid);
            return Err(status);
        }
        let blocked = self.block(thread, Wait::Call { channel: end, txid, buffers }, deadline);
        if blocked != Ok(Waiting::Blocked) {
            self.channel_forget_caller(end, txid);
        }
        blocked
    }

    pub(crate) fn channel_forget_caller(&mut self, end: Id<Channel>, txid: u32) {
        if let Ok(channel) = self.objects.get_mut(end) {
            channel.callers.remove(&txid);
        }
    }

    /// Step 3: delivers the answer to the thread that waits for it; its number is no longer stored.
    fn channel_answered(&mut self, id: Id<Thread>, message: Message) {
        if !message.handles.is_empty() {
            self.channel_note_within(&message.handles, None);
        }
        let Ok(thread) = self.objects.get_mut(id) else { return self.drop_message(message) };
        let Wait::Call { buffers, .. } = thread.wait else { return self.drop_message(message) };
        let (process, aspace, machine) = (thread.holder, thread.aspace, thread.at_hand());
        if thread.over() {
            self.disarm();
        }
        // Usually the answer has no handles, and its bytes fit.
        if let Some(aspace) = aspace
            && message.handles.is_empty()
            && self.check_delivery(aspace, process, &message, buffers).is_ok()
        {
            self.buffers.give(message.data);
            return self.wake_machine(id, machine, i64::from(Status::OK.0));
        }
        self.channel_deliver(id, message, buffers);
    }

    /// The same for a thread whose wait is over. It may have to wait for the destination memory.
    pub(crate) fn channel_deliver(&mut self, thread: Id<Thread>, message: Message, buffers: CallBuffers) {
        match self.deliver(thread, message, buffers) {
            Ok(()) => self.wake(thread, Status::OK),
            Err((PAGE_WAIT, Some(message))) => {
                self.page_wait_or_wake(thread, Then::Answer(Box::new((message, buffers))));
            }
            Err((status, message)) => {
                if let Some(message) = message {
                    self.drop_message(message);
                }
                self.wake(thread, status);
            }
        }
    }

    /// Writes a message to the memory and the handle table of a thread.
    ///
    /// # Errors
    /// Those of [`Kernel::check_delivery`]; returns the message if it can be delivered later.
    fn deliver(
        &mut self,
        thread: Id<Thread>,
        message: Message,
        buffers: CallBuffers,
    ) -> Result<(), (Status, Option<Message>)> {
        let found = self.objects.get(thread).map(|thread| thread.holder);
        let found = found.and_then(|process| Ok((process, self.aspace_of_thread(thread)?)));
        let checked = found.and_then(|(process, aspace)| {
            Ok(((process, aspace), self.check_delivery(aspace, process, &message, buffers)?))
        });
        let (receiver, to) = match checked {
            Ok(checked) => checked,
            Err(status) => return Err((status, Some(message))),
        };
        let Message { data, handles } = message;
        self.buffers.give(data);
        if handles.is_empty() {
            return Ok(());
        }
        self.deliver_handles(receiver, handles, to, buffers.etc).map_err(|status| (status, None))
    }

    /// Writes the sizes and bytes of a message, and reserves room for its handles. Returns the address for the handles.
    fn check_delivery(
        &mut self,
        aspace: Key,
        process: Id<Process>,
        message: &Message,
        buffers: CallBuffers,
    ) -> Result<Place, Status> {
        let (bytes, handles) = (message.data.len(), message.handles.len());
        self.copy_out(aspace, buffers.actual_bytes, &(bytes as u32).to_le_bytes())?;
        self.copy_out(aspace, buffers.actual_handles, &(handles as u32).to_le_bytes())?;
        if bytes > buffers.num_bytes as usize || handles > buffers.num_handles as usize {
            return Err(Status::BUFFER_TOO_SMALL);
        }
        let mut to = Place::NOWHERE;
        if handles > 0 {
            to = self.user_place(aspace, buffers.handles, handles * handle_size(buffers.etc))?;
            self.reserve_handles(process, handles)?;
        }
        self.copy_out(aspace, buffers.bytes, &message.data)?;
        Ok(to)
    }

    /// Puts a message's handles into a process's table, and their values or descriptions into an array in an address
    /// space.
    ///
    /// # Errors
    /// `NO_MEMORY`, `INVALID_ARGS` (memory not writable); handles that could not be delivered are then closed.
    #[inline(never)]
    pub fn deliver_handles(
        &mut self,
        receiver: (Id<Process>, Key),
        mut handles: Vec<Handle>,
        to: Place,
        etc: bool,
    ) -> Result<(), Status> {
        let mut result = Ok(());
        for (i, &handle) in handles.iter().enumerate() {
            result = result.and(self.deliver_handle(receiver, handle, to.on(i * handle_size(etc)), etc));
        }
        handles.clear();
        self.buffers.give_list(handles);
        result
    }

    #[inline(always)]
    fn deliver_handle(
        &mut self,
        (process, aspace): (Id<Process>, Key),
        handle: Handle,
        to: Place,
        etc: bool,
    ) -> Result<(), Status> {
        let value = self.objects.get_mut(process).and_then(|receiver| receiver.handles.insert(handle));
        let value = value.inspect_err(|_| self.drop_handle(handle))?;
        let written = if etc {
            let kind = self.objects.any(handle.object)?.body.object_type();
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&value.to_le_bytes());
            bytes[4..8].copy_from_slice(&kind.to_le_bytes());
            bytes[8..12].copy_from_slice(&handle.rights.bits().to_le_bytes());
            self.fill_place(aspace, to, &bytes)
        } else {
            self.fill_place(aspace, to, &value.to_le_bytes())
        };
        if let Err(status) = written {
            let handle = self.take(process, value)?;
            self.drop_handle(handle);
            return Err(status);
        }
        Ok(())
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
        let gone = self.objects.slab.vacate(id.object().key(), |object| match &object.body {
            Body::Channel(end) if end.queue.is_empty() && end.callers.is_empty() && object.is_unneeded() => {
                Some((object.charge, object.take_body()))
            }
            _ => None,
        });
        let Some((charge, Body::Channel(end))) = gone else { return self.close_last(id.object()) };
        self.held_ends(charge, end.counted);
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
        let news = object.change_signals(Signals::CHANNEL_WRITABLE, Signals::CHANNEL_PEER_CLOSED);
        self.tell(id.object(), news);
    }

    /// Ends the calls that wait for answers through an end.
    #[inline(never)]
    fn channel_callers_end(&mut self, end: Id<Channel>, status: Status) {
        let Ok(channel) = self.objects.get_mut(end) else { return };
        for thread in core::mem::take(&mut channel.callers).into_values() {
            self.finish_wait(thread, status);
        }
    }
}
