//! Endpoints, notifications and saved replies: communication between threads.

use crate::cap::cap;
use crate::generated::invoke;
use crate::message::{Message, Received};
use crate::{CPtr, Result, Slot, Tcb, family, sys};

cap! {
    /// A rendezvous of senders and receivers.
    Endpoint
}
cap! {
    /// A word of signal bits that a thread can wait for.
    Notification
}

impl Endpoint {
    /// Sends and waits until a thread has received the message. Errors are not reported.
    #[inline]
    pub fn send(self, message: Message) {
        sys::send(self.0, message);
    }

    /// Sends if a receiver waits, otherwise drops the message.
    #[inline]
    pub fn nbsend(self, message: Message) {
        sys::nbsend(self.0, message);
    }

    /// Sends and waits for the reply.
    #[inline(always)]
    pub fn call(self, message: Message) -> Message {
        sys::call(self.0, message)
    }

    /// Waits for a message, or for a signal on the notification that is bound to this thread.
    #[inline(always)]
    pub fn recv(self) -> Received {
        sys::recv(self.0)
    }

    /// Receives a message if one is waiting. A message through a capability without a badge looks like none.
    #[inline]
    pub fn nbrecv(self) -> Option<Received> {
        let received = sys::nbrecv(self.0);
        (received.badge != 0).then_some(received)
    }

    /// Replies to the last caller, then waits for the next message, in one kernel entry.
    ///
    /// It takes the kernel's fastpath if the reply has at most four words and no capabilities, the caller has not
    /// faulted, no thread of a priority above the caller's is ready, no sender waits on this endpoint, and no signal is
    /// pending on the bound notification.
    #[inline(always)]
    pub fn reply_recv(self, reply: Message) -> Received {
        sys::reply_recv(self.0, reply)
    }

    /// As [`Tcb::answer`], then as [`Endpoint::reply_recv`] with a message of at most one word, or as
    /// [`Endpoint::recv`]. One kernel entry if the kernel supports that.
    #[inline(always)]
    pub fn answer_first(self, tcb: Tcb, answer: Message, reply: Option<Message>) -> Received {
        family::answer_first(self, tcb, answer, reply)
    }

    /// Replies to the last caller.
    #[inline]
    pub fn reply(reply: Message) {
        sys::reply(reply);
    }
}

impl Notification {
    /// Signals it.
    #[inline]
    pub fn signal(self) {
        sys::signal(self.0);
    }

    /// Waits for a signal; returns the badges, combined by OR, of all signals since the last wait or poll.
    #[inline]
    pub fn wait(self) -> u64 {
        sys::recv(self.0).badge
    }

    /// Takes the pending signals; 0 means none.
    #[inline]
    pub fn poll(self) -> u64 {
        sys::nbrecv(self.0).badge
    }
}

/// A slot of the caller's own CSpace for a reply capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplySlot {
    slot: Slot,
    cptr: CPtr,
}

impl ReplySlot {
    /// The slot, and its address in the caller's own CSpace.
    pub const fn new(slot: Slot, cptr: CPtr) -> Self {
        Self { slot, cptr }
    }

    /// Saves the right to reply to the last caller in the slot, which must be empty.
    pub fn save(self) -> Result<()> {
        invoke::cnode_save_caller(self.slot.root, self.slot.index, self.slot.depth)
    }

    /// Replies, which empties the slot. If the caller no longer exists, nothing happens.
    #[inline]
    pub fn send(self, reply: Message) {
        sys::send(self.cptr, reply);
    }

    /// Gives up the right to reply: the caller stays blocked until it is suspended.
    pub fn delete(self) -> Result<()> {
        self.slot.delete()
    }
}

/// Lets another ready thread of the same priority run.
pub fn r#yield() {
    sys::yield_now();
}
