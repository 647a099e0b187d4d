//! Counts: how many of some things each job has, and may have.
//!
//! Beside its bytes an account counts what is scarce in itself: there are only so many address spaces, each thread
//! takes its part of whoever looks at all of them, and values of handles are numbers of a table. What a job has, all
//! above it have; where one would pass its limit, the asker gets `NO_RESOURCES`, and nothing has changed.
//!
//! - A process counts from its creation to its end, a thread likewise, and a job as long as there is one.
//! - Handles are counted as places in the tables of processes, [`CHUNK`](crate::core::handle::CHUNK) at a time: the
//!   table of a process grows by as many, and stays as large as it was. So a handle that is made and closed changes no
//!   account.
//! - Messages are counted as places in the queues of channels, and bytes as what channels and sockets are charged for
//!   on behalf of their readers: both by steps ([`super::queue_charge`]).

use abi::Status;

use super::{Accounts, UNLIMITED};
use crate::containers::slab::Key;

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counted {
    /// Jobs below a job.
    Jobs,
    /// Processes that have not ended.
    Processes,
    /// Threads that have not ended.
    Threads,
    /// Slots for handles.
    Handles,
    /// Slots for messages.
    Messages,
    /// Bytes in messages and sockets.
    QueuedBytes,
}

/// Number of counted kinds.
pub(crate) const KINDS: usize = 6;

/// How many there are of something, and may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Count {
    /// Current number.
    pub used: u64,
    /// Maximum, or [`UNLIMITED`].
    pub limit: u64,
}

impl Count {
    pub(crate) const NONE: Count = Count { used: 0, limit: UNLIMITED };
}

impl Accounts {
    /// Counts `more` of a resource.
    ///
    /// # Errors
    /// `NO_RESOURCES`: a job's quota.
    pub(crate) fn count(&mut self, first: Key, what: Counted, more: u64) -> Result<(), Status> {
        let mut fits = true;
        let mut next = Some(first);
        while let Some(account) = next.and_then(|key| self.slab.get_mut(key)) {
            if let Some(count) = account.counts.get_mut(what as usize) {
                count.used = count.used.saturating_add(more);
                fits &= count.used <= count.limit;
            }
            next = account.above;
        }
        if fits {
            return Ok(());
        }
        self.uncount(first, what, more);
        Err(Status::NO_RESOURCES)
    }

    /// Uncounts `less` of a resource.
    pub(crate) fn uncount(&mut self, first: Key, what: Counted, less: u64) {
        let mut next = Some(first);
        while let Some(account) = next.and_then(|key| self.slab.get_mut(key)) {
            if let Some(count) = account.counts.get_mut(what as usize) {
                count.used = count.used.saturating_sub(less);
            }
            next = account.above;
        }
    }
}
