//! Deadlines: what is to happen when, in O(log n), with cancellation in O(1).
//!
//! A cancelled deadline stays in the heap until its time or until such entries outnumber the rest; whoever set it
//! gives each a number ([`Due::number`]) and ignores those with an old one.
//!
//! Timers may have slack: one that is set goes off together with another one that is set for about the same time, if
//! there is one. For that the times of set timers are kept in order as well.

use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, BinaryHeap};
use core::cmp::Reverse;

use abi::Status;

use crate::object::ObjectId;
use crate::refusal::Grows;

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
    /// When set timers fire, and how many at that time.
    timers: BTreeMap<i64, u32>,
}

impl Deadlines {
    /// Sets a deadline. Says whether it is now the earliest.
    pub fn set(&mut self, at: i64, object: ObjectId, number: u32) -> Result<bool, Status> {
        self.heap.room(1)?;
        self.order += 1;
        self.heap.push(Reverse(Due { at, order: self.order, object, number }));
        Ok(self.heap.peek().is_some_and(|Reverse(due)| due.order == self.order))
    }

    /// The time of a timer that may fire from `earliest` to `latest`: that of the set timer nearest to `deadline`, so
    /// that both take one interruption, or `deadline` itself. It counts as set until [`Deadlines::timer_unset`].
    pub fn timer_set(&mut self, deadline: i64, earliest: i64, latest: i64) -> i64 {
        let before = self.timers.range(earliest..=deadline).next_back().map(|(&at, _)| at);
        let after = self.timers.range(deadline..=latest).next().map(|(&at, _)| at);
        let at = match (before, after) {
            (Some(before), Some(after)) if after.abs_diff(deadline) < deadline.abs_diff(before) => after,
            (Some(at), _) | (None, Some(at)) => at,
            (None, None) => deadline,
        };
        *self.timers.entry(at).or_default() += 1;
        at
    }

    /// A timer that was to fire then has fired, or will not.
    pub fn timer_unset(&mut self, at: i64) {
        if let Entry::Occupied(mut timers) = self.timers.entry(at) {
            match timers.get().checked_sub(1) {
                Some(left) if left > 0 => *timers.get_mut() = left,
                _ => drop(timers.remove()),
            }
        }
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
