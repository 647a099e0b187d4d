//! Endpoints, notifications and saved replies: how threads talk.

use crate::cap::cap;
use crate::generated::invoke;
use crate::message::{Message, Received};
use crate::{CPtr, Result, Slot, Tcb, family, sys};

cap! {
    /// A meeting point of senders and receivers.
    Endpoint
}
cap! {
    /// A word of signal bits that one can wait for.
    Notification
}

impl Endpoint {
    /// Sends and waits until somebody has received. Errors are not reported.
    #[inline]
    pub fn send(self, message: Message) {
        sys::send(self.0, message);
    }

    /// Sends if somebody is waiting, else drops the message.
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

    /// Takes a message if one is waiting. Messages through capabilities without a badge are not told from "none".
    #[inline]
    pub fn nbrecv(self) -> Option<Received> {
        let received = sys::nbrecv(self.0);
        (received.badge != 0).then_some(received)
    }

    /// Replies to the last caller, then waits for the next message, in one entry of the kernel.
    ///
    /// It takes the kernel's fastpath if the reply has at most four words and no capabilities, the caller has not faulted, nothing
    /// of a priority above the caller's is ready, no sender waits on this endpoint, and no signal on the bound notification.
    #[inline(always)]
    pub fn reply_recv(self, reply: Message) -> Received {
        sys::reply_recv(self.0, reply)
    }

    /// As [`Tcb::answer`], then as [`Endpoint::reply_recv`] with a message of at most one word, or as [`Endpoint::recv`]: where the
    /// kernel can, in one entry.
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

    /// Waits until there is a signal; gives the badges, or-ed, of all that came since the last look.
    #[inline]
    pub fn wait(self) -> u64 {
        sys::recv(self.0).badge
    }

    /// Takes the signals that are there; 0 is none.
    #[inline]
    pub fn poll(self) -> u64 {
        sys::nbrecv(self.0).badge
    }
}

/// A slot of one's own CSpace for the right to answer a caller later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplySlot {
    slot: Slot,
    cptr: CPtr,
}

impl ReplySlot {
    /// The slot, and the address under which it is reached in one's own CSpace.
    pub const fn new(slot: Slot, cptr: CPtr) -> Self {
        Self { slot, cptr }
    }

    /// Saves the right to answer the last caller in the slot, which must be empty.
    pub fn save(self) -> Result<()> {
        invoke::cnode_save_caller(self.slot.root, self.slot.index, self.slot.depth)
    }

    /// Answers; that empties the slot. If the caller is gone by now, nothing happens.
    #[inline]
    pub fn send(self, reply: Message) {
        sys::send(self.cptr, reply);
    }

    /// Gives the right up: the caller waits forever, until someone suspends it.
    pub fn delete(self) -> Result<()> {
        self.slot.delete()
    }
}

/// Lets another ready thread of the same priority run.
pub fn r#yield() {
    sys::yield_now();
}
