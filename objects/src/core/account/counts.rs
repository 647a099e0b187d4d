//! Counts: how many of some resources each job has, and its quotas of them.
//!
//! Beside bytes, an account counts resources that are limited in themselves: the number of address spaces is limited,
//! every scan of all threads costs time for each of them, and a handle value is an index in a table. A job's counts are
//! included in those of all jobs above. If one of these would exceed its quota, the call fails with `NO_RESOURCES` and
//! changes nothing.
//!
//! - A process and a thread count from creation to end; a job counts as long as it exists.
//! - Handles are counted as slots in the tables of processes, [`CHUNK`](crate::core::handle::CHUNK) at a time. A table
//!   grows by whole chunks and never shrinks, so creating and closing a handle changes no account.
//! - Messages are counted as slots in the queues of channels. Bytes are counted as what channels and sockets are
//!   charged for on behalf of their readers. Both change in steps ([`super::queue_charge`]).

use abi::Status;

use super::{Accounts, UNLIMITED};
use crate::containers::slab::Key;

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CountKind {
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

/// Current number and quota of a resource.
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
    pub(crate) fn count(&mut self, first: Key, what: CountKind, more: u64) -> Result<(), Status> {
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
    pub(crate) fn uncount(&mut self, first: Key, what: CountKind, less: u64) {
        let mut next = Some(first);
        while let Some(account) = next.and_then(|key| self.slab.get_mut(key)) {
            if let Some(count) = account.counts.get_mut(what as usize) {
                count.used = count.used.saturating_sub(less);
            }
            next = account.above;
        }
    }
}
