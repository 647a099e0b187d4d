//! What threads wait for: one kind of wait for each thing that can block a thread.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::containers::slab::Key;
use crate::core::continuation::Continuation;
use crate::core::noun::linked;
use crate::core::object::{Id, ObjectId};
use crate::core::port::Port;
use crate::core::wait::{Observed, Waiters};
use crate::ipc::channel::{CallBuffers, Channel};
use crate::task::exception::{After, Exception};
use crate::task::futex::FutexKey;
use crate::task::page_wait::PageWait;
use crate::task::thread::Thread;

/// What a thread waits for.
pub(crate) enum Wait {
    /// Nothing: it runs.
    None,
    /// A time (`nanosleep`).
    Sleep,
    /// Signals of objects.
    Signals { observers: Vec<Key>, out: Observed },
    /// Signals of one object for which nobody else waits; its handle was closed, which is what ends the wait.
    SoleWaiter { object: ObjectId, out: Observed, closed: bool },
    /// A packet.
    Port { port: Id<Port>, out: u64 },
    /// A wake-up on an address.
    Futex { key: FutexKey },
    /// The answer to a call.
    Call { channel: Id<Channel>, txid: u32, buffers: CallBuffers },
    /// Bytes from the host link, or room for them.
    Serial(SerialWait),
    /// An interrupt; when it came goes to this address, unless that is 0.
    Interrupt { interrupt: ObjectId, out: u64 },
    /// Pages that a pager supplies.
    Page(Box<PageWait>),
    /// Its own next portion of a call: it does not wait, but makes the call again ([`crate::core::continuation`]).
    Continuation(Box<Continuation>),
    /// A handler's decision about what the thread did.
    Exception { exception: Id<Exception>, after: After, kind: u32 },
}

/// What a thread waits for.
pub(crate) enum SerialWait {
    /// Bytes, for `len` of which there is room at `out`; their number goes to `actual`.
    Read { out: u64, len: u64, actual: u64 },
    /// All bytes to be taken; the first `taken` are.
    Write { data: Vec<u8>, taken: usize },
}

linked!(Waiters = Thread.queue);
