//! What threads wait for: one kind of wait for each event that can block a thread.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::containers::slab::Key;
use crate::core::continuation::Continuation;
use crate::core::noun::linked;
use crate::core::object::{Id, ObjectId};
use crate::core::port::Port;
use crate::core::wait::{Observed, Waiters};
use crate::ipc::channel::{CallBuffers, Channel};
use crate::task::exception::{AfterException, Exception};
use crate::task::futex::FutexKey;
use crate::task::page_wait::PageWait;
use crate::task::thread::Thread;

/// What a thread waits for.
pub(crate) enum Wait {
    /// Nothing: it runs.
    None,
    /// The deadline (`nanosleep`).
    Sleep,
    /// Signals of objects.
    Signals { observers: Vec<Key>, out: Observed },
    /// Signals of one object of which this thread is the sole waiter; also set if its handle was closed, which is what
    /// ends the wait.
    SoleWaiter { object: ObjectId, out: Observed, closed: bool },
    /// A packet.
    Port { port: Id<Port>, out: u64 },
    /// A wake-up on an address.
    Futex { key: FutexKey },
    /// The answer to a call.
    Call { channel: Id<Channel>, txid: u32, buffers: CallBuffers },
    /// Bytes from the host link, or room for them.
    Serial(SerialWait),
    /// An interrupt; its time is written to this address, unless that is 0.
    Interrupt { interrupt: ObjectId, out: u64 },
    /// Pages that a pager supplies.
    Page(Box<PageWait>),
    /// Nothing: a call that continues. The thread makes the call again for the next slice
    /// ([`crate::core::continuation`]).
    Continuation(Box<Continuation>),
    /// A handler's decision about what the thread did.
    Exception { exception: Id<Exception>, after: AfterException, kind: u32 },
}

/// What a thread waits for at the host link.
pub(crate) enum SerialWait {
    /// Bytes: up to `len` go to `out`, their number to `actual`.
    Read { out: u64, len: u64, actual: u64 },
    /// Acceptance of all bytes; the first `taken` are accepted.
    Write { data: Vec<u8>, taken: usize },
}

linked!(Waiters = Thread.queue);
