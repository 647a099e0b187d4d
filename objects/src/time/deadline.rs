//! Deadlines: setting in O(log n), cancellation in O(1).
//!
//! A cancelled entry stays in its heap until its time, or until such entries outnumber the rest. Each entry has a
//! number ([`Due::number`]), by which its owner ignores old ones.
//!
//! There are two heaps. A program may have as many timers as handles, all due at the same time, so timers fire in
//! slices with pauses in between. Waits, of which a thread has one, do not queue behind all of those.
//!
//! Timers may have slack: a new timer fires together with another one that is set for about the same time, if there is
//! one. For that the times of set timers are also kept in order.

use alloc::collections::binary_heap::PeekMut;
use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, BinaryHeap};
use core::cmp::Reverse;

use abi::Status;

use crate::containers::growth::Grows;
use crate::core::object::ObjectId;

/// A heap entry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Due {
    /// Time in nanoseconds, as in [`crate::machine::Time::now`].
    pub at: i64,
    /// Sequence number: entries with equal times come in the order in which they were set.
    order: u64,
    /// A waiting thread, or a timer.
    pub object: ObjectId,
    /// The number of the wait or timer setting.
    pub number: u32,
}

type Heap = BinaryHeap<Reverse<Due>>;

/// The kind of a deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DeadlineKind {
    /// The end of a thread's wait.
    Wait,
    /// The time of a timer.
    Timer,
}

#[derive(Default)]
pub(crate) struct Deadlines {
    waits: Heap,
    timers: Heap,
    /// No timer fires before this time.
    pause: i64,
    order: u64,
    cancelled: usize,
    /// Times of set timers, with the number of timers at each.
    firing: BTreeMap<i64, u32>,
}

impl Deadlines {
    /// Sets a deadline. Says whether it is now the earliest.
    #[inline]
    pub fn set(&mut self, kind: DeadlineKind, at: i64, object: ObjectId, number: u32) -> Result<bool, Status> {
        let heap = match kind {
            DeadlineKind::Wait => &mut self.waits,
            DeadlineKind::Timer => &mut self.timers,
        };
        heap.room(1)?;
        self.order += 1;
        heap.push(Reverse(Due { at, order: self.order, object, number }));
        // The entry is the first of its kind, and no entry of the other kind comes before it.
        let is_first = first(heap).is_some_and(|first| first.order == self.order);
        Ok(is_first
            && match kind {
                DeadlineKind::Wait => first(&self.timers).is_none_or(|timer| at < timer.at.max(self.pause)),
                DeadlineKind::Timer => first(&self.waits).is_none_or(|wait| at.max(self.pause) < wait.at),
            })
    }

    /// Chooses the time for a timer that may fire from `earliest` to `latest`: the time of the set timer nearest to
    /// `deadline`, so that both share one interrupt, or `deadline` itself. Counts as set until
    /// [`Deadlines::timer_unset`].
    pub fn timer_set(&mut self, deadline: i64, earliest: i64, latest: i64) -> i64 {
        let before = self.firing.range(earliest..=deadline).next_back().map(|(&at, _)| at);
        let after = self.firing.range(deadline..=latest).next().map(|(&at, _)| at);
        let at = match (before, after) {
            (Some(before), Some(after)) if after.abs_diff(deadline) < deadline.abs_diff(before) => after,
            (Some(at), _) | (None, Some(at)) => at,
            (None, None) => deadline,
        };
        *self.firing.entry(at).or_default() += 1;
        at
    }

    /// A timer set for `at` has fired or was cancelled.
    pub fn timer_unset(&mut self, at: i64) {
        if let Entry::Occupied(mut timers) = self.firing.entry(at) {
            match timers.get().checked_sub(1) {
                Some(left) if left > 0 => *timers.get_mut() = left,
                _ => drop(timers.remove()),
            }
        }
    }

    /// Records that one entry was cancelled. Says whether [`Deadlines::sweep`] is due.
    pub fn cancelled(&mut self) -> bool {
        self.cancelled += 1;
        self.cancelled > 64 && self.cancelled > (self.waits.len() + self.timers.len()) / 2
    }

    /// Removes all cancelled entries.
    pub fn sweep(&mut self, counts: impl Fn(&Due) -> bool) {
        self.waits.retain(|Reverse(due)| counts(due));
        self.timers.retain(|Reverse(due)| counts(due));
        self.cancelled = 0;
    }

    /// Takes out the next entry due at `now`.
    pub fn next(&mut self, now: i64) -> Option<Due> {
        let timer = first(&self.timers).filter(|_| self.pause <= now);
        if timer.is_some_and(|timer| first(&self.waits).is_none_or(|wait| timer < wait)) {
            return due(&mut self.timers, now);
        }
        due(&mut self.waits, now)
    }

    /// Delays all timers until a time.
    pub fn pause(&mut self, until: i64) {
        self.pause = until;
    }

    /// The time of the next entry.
    pub fn earliest(&self) -> Option<i64> {
        let timer = first(&self.timers).map(|timer| timer.at.max(self.pause));
        first(&self.waits).map(|wait| wait.at).into_iter().chain(timer).min()
    }

    /// Records that a cancelled entry was taken out.
    pub fn stale(&mut self) {
        self.cancelled = self.cancelled.saturating_sub(1);
    }
}

fn first(heap: &Heap) -> Option<&Due> {
    heap.peek().map(|Reverse(due)| due)
}

/// Takes out the first entry if it is due at `now`.
fn due(heap: &mut Heap, now: i64) -> Option<Due> {
    let first = heap.peek_mut().filter(|first| first.0.at <= now)?;
    Some(PeekMut::pop(first).0)
}
