//! Channels: two ends, each with a queue of messages that carry bytes and handles.
//!
//! `channel_call` writes a message under a transaction number that the kernel chooses and waits for the answer that
//! bears it:
//!
//! 1. The caller's end notes number and thread ([`Channel::callers`]); the message goes to the peer's queue.
//! 2. The thread is blocked.
//! 3. A message written to the caller's end whose first four bytes are a number noted there goes straight to that
//!    thread instead of into the queue. The peer's closing, the deadline and the closing of the handle end the wait too.
//!
//! An end has one handle, as nobody may duplicate it. If that lies in a message, and the end with the message in its queue
//! has its handle in a message in turn, and so on, somebody must hold the last of them, or nobody could ever read any. So
//! each end notes in whose queue its handle lies ([`Channel::within`]), and a write that would close such a chain to a
//! circle is refused.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use abi::{Signals, Status, ZX_CHANNEL_MAX_MSG_BYTES, ZX_CHANNEL_MAX_MSG_HANDLES};

use crate::containers::growth::Grows;
use crate::containers::inline_map::InlineMap;
use crate::containers::slab::Key;
use crate::core::account::{Held, SPARE, STEP};
use crate::core::continuation::PAGE_WAIT;
use crate::core::handle::Handle;
use crate::core::noun::Noun;
use crate::core::noun::Variant;
use crate::core::noun::peered;
use crate::core::object::Id;
use crate::core::wait::Waiting;
use crate::kernel::Kernel;
use crate::kernel::blocking::Wait;
use crate::kernel::nouns::Body;
use crate::machine::Machine;
use crate::memory::usermem::Place;
use crate::task::page_wait::Then;
use crate::task::process::Process;
use crate::task::thread::Thread;

/// How deep ends may lie in messages of each other where one of them is written to.
const MAX_DEPTH: usize = 1000;
/// Messages that may wait in one end before the writer is taken for a runaway.
const MAX_QUEUED: usize = 3500;

/// Ends that are over and kept for the next ones.
const MOST_SPARE: usize = 32;
/// Messages for which one of them may have room.
const SPARE_ROOM: usize = 16;

/// What one `channel_write` sent.
#[derive(Default)]
pub struct Message {
    /// The bytes.
    pub data: Vec<u8>,
    /// The handles, in being: whoever drops a message closes them.
    pub handles: Vec<Handle>,
}

peered!(Channel);

impl Message {
    /// Bytes that it takes while it waits to be read.
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
    /// The other end's number, also when it is gone.
    pub peer_koid: u64,
    queue: VecDeque<Message>,
    /// Bytes that the messages in the queue take.
    owed: u64,
    /// Bytes that the end is charged for on their behalf: see [`STEP`].
    paid: u64,
    /// What is counted for it.
    pub(crate) counted: Held,
    callers: InlineMap<u32, Id<Thread>>,
    next_txid: u32,
    /// The end in whose queue its handle lies.
    within: Option<Id<Channel>>,
}

impl Noun for Channel {
    const TYPE: u32 = abi::ZX_OBJ_TYPE_CHANNEL;
}

/// Where the answer to a `channel_call` goes: addresses in the caller's memory.
#[derive(Clone, Copy, Debug)]
pub struct CallBuffers {
    /// The answer's bytes.
    pub bytes: u64,
    /// Room for them.
    pub num_bytes: u32,
    /// The answer's handles.
    pub handles: u64,
    /// Room for them.
    pub num_handles: u32,
    /// Each handle is a `zx_handle_info_t`.
    pub etc: bool,
    /// Where the number of bytes goes.
    pub actual_bytes: u64,
    /// Where the number of handles goes.
    pub actual_handles: u64,
}

/// Bytes of a handle in a reader's array: of a `zx_handle_info_t`, or of the bare value.
fn handle_size(etc: bool) -> usize {
    if etc { 16 } else { 4 }
}

impl Channel {
    /// Whether no message waits to be read.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Takes a handle out of the messages of an end that nobody can read from any more.
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

    /// An end is over; what it is made of may be kept.
    #[inline]
    pub(crate) fn channel_end(&mut self, mut end: Box<Channel>) {
        let plain = end.queue.is_empty() && end.queue.capacity() <= SPARE_ROOM && end.callers.is_empty();
        if plain && self.spare_channels.len() < MOST_SPARE {
            (end.peer, end.owed, end.paid, end.counted) = (None, 0, 0, Held::default());
            (end.next_txid, end.within) = (0, None);
            self.spare_channels.push(end);
        }
    }

    /// Writes a message to the other end. On an error the message's handles are closed.
    ///
    /// # Errors
    /// `OUT_OF_RANGE`: too many bytes or handles. `PEER_CLOSED`. `NOT_SUPPORTED`: nobody could ever read the message,
    /// because the other end lies in it, by whatever detour. `SHOULD_WAIT`: too many messages wait to be read, and this
    /// one is not the answer to a call. `NO_MEMORY`, `NO_RESOURCES`: the job that made the other end may not have so much.
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

    /// The same where the other end waits for an answer, or where there is no room or no credit for the message yet.
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

    /// Handles are about to lie in the queue of an end. Says no if it lies in one of their queues, by whatever detour, or
    /// deeper than anybody looks.
    #[inline(never)]
    fn channel_encloses(&mut self, end: Id<Channel>, handles: &[Handle]) -> bool {
        let mut next = Some(end);
        for _ in 0..MAX_DEPTH {
            let Some(at) = next.take() else { break };
            if handles.iter().any(|handle| handle.object == at.object()) {
                return false;
            }
            // Where somebody holds another handle, it can be read.
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

    /// Handles lie in the queue of an end, or in none any more.
    fn channel_note_within(&mut self, handles: &[Handle], end: Option<Id<Channel>>) {
        for handle in handles {
            if let Ok(channel) = self.objects.typed::<Channel>(handle.object).and_then(|id| self.objects.get_mut(id)) {
                channel.within = end;
            }
        }
    }

    /// The size of the next message: bytes, handles.
    ///
    /// # Errors
    /// `SHOULD_WAIT`; `PEER_CLOSED` if there is none and will be none.
    #[inline]
    pub fn channel_peek(&self, end: Id<Channel>) -> Result<(usize, usize), Status> {
        let channel = self.objects.get(end)?;
        match channel.queue.front() {
            Some(message) => Ok((message.data.len(), message.handles.len())),
            None if channel.peer.is_none() => Err(Status::PEER_CLOSED),
            None => Err(Status::SHOULD_WAIT),
        }
    }

    /// Takes the next message out.
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

    /// Gives back most of what an end is charged for messages that have been read.
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

    /// Charges an end for one message more, with which they take so much.
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

    /// Puts a message back that was read and could not be delivered.
    pub fn channel_unread(&mut self, end: Id<Channel>, message: Message) {
        self.channel_note_within(&message.handles, Some(end));
        let Ok(channel) = self.objects.get_mut(end) else { return self.drop_message(message) };
        // It has just left, so its place is still there, and what was counted for it.
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

    /// `channel_call`: steps 1 and 2. The message's first four bytes are replaced by the transaction number.
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
        // Numbers that the kernel chooses have the top bit set; those that callers may use by hand do not.
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

    /// Step 3: the answer goes to the thread that waits for it, whose number was noted no longer.
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
        // Mostly it is bytes alone, and there is room for them.
        if let Some(aspace) = aspace
            && message.handles.is_empty()
            && self.check_delivery(aspace, process, &message, buffers).is_ok()
        {
            self.buffers.give(message.data);
            return self.wake_machine(id, machine, i64::from(Status::OK.0));
        }
        self.channel_deliver(id, message, buffers);
    }

    /// The same, for a thread that no longer waits for the answer. It may have to wait for the memory that it goes to.
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

    /// Writes a message into the memory and the handle table of the thread that asked for it.
    ///
    /// # Errors
    /// Those of [`Kernel::check_delivery`], with the message.
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

    /// Writes the sizes and the bytes of a message, and makes sure of room for its handles. Says where they go.
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

    /// Puts a message's handles into a process's table and their values, or descriptions, into an array in an address
    /// space.
    ///
    /// # Errors
    /// `NO_MEMORY`, `INVALID_ARGS` (memory not writable); what could not be delivered is closed then.
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

    /// The last handle to an end is gone: [`Kernel::close_last`], at once where the end holds nothing and nothing hangs on it.
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

    /// The other end is unreachable.
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

    /// Nobody will answer those who wait for answers through an end.
    #[inline(never)]
    fn channel_callers_end(&mut self, end: Id<Channel>, status: Status) {
        let Ok(channel) = self.objects.get_mut(end) else { return };
        for thread in core::mem::take(&mut channel.callers).into_values() {
            self.finish_wait(thread, status);
        }
    }
}
