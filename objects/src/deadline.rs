//! Deadlines: what is to happen when, in O(log n), with cancellation in O(1).
//!
//! A cancelled deadline stays in the heap until its time or until such entries outnumber the rest; whoever set it
//! gives each a number ([`Due::number`]) and ignores those with an old one.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

use abi::Status;

use crate::object::ObjectId;

/// Something that is due at a time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Due {
    /// Nanoseconds as in [`crate::machine::Machine::now`].
    pub at: i64,
    /// Those due at the same time come in the order in which they were set.
    order: u64,
    /// A thread that waits, or a timer.
    pub object: ObjectId,
    /// Which of its waits or settings.
    pub number: u32,
}

#[derive(Default)]
pub(crate) struct Deadlines {
    heap: BinaryHeap<Reverse<Due>>,
    order: u64,
    cancelled: usize,
}

impl Deadlines {
    /// Sets a deadline. Says whether it is now the earliest.
    pub fn set(&mut self, at: i64, object: ObjectId, number: u32) -> Result<bool, Status> {
        self.heap.try_reserve(1).map_err(|_| Status::NO_MEMORY)?;
        self.order += 1;
        self.heap.push(Reverse(Due { at, order: self.order, object, number }));
        Ok(self.heap.peek().is_some_and(|Reverse(due)| due.order == self.order))
    }

    /// Notes that one deadline that was set no longer counts. Says whether it is time to [`Deadlines::sweep`].
    pub fn cancelled(&mut self) -> bool {
        self.cancelled += 1;
        self.cancelled > 64 && self.cancelled > self.heap.len() / 2
    }

    /// Drops all entries that no longer count.
    pub fn sweep(&mut self, counts: impl Fn(&Due) -> bool) {
        self.heap.retain(|Reverse(due)| counts(due));
        self.cancelled = 0;
    }

    /// The next entry due at `now`, taken out.
    pub fn next(&mut self, now: i64) -> Option<Due> {
        if self.heap.peek().is_some_and(|Reverse(due)| due.at <= now) {
            return self.heap.pop().map(|Reverse(due)| due);
        }
        None
    }

    /// When the next entry is due.
    pub fn earliest(&self) -> Option<i64> {
        self.heap.peek().map(|Reverse(due)| due.at)
    }

    /// Notes that an entry that no longer counted came up.
    pub fn stale(&mut self) {
        self.cancelled = self.cancelled.saturating_sub(1);
    }
}
