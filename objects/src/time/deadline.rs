//! Deadlines: what is to happen when, in O(log n), with cancellation in O(1).
//!
//! A cancelled deadline stays in its heap until its time or until such entries outnumber the rest; whoever set it
//! gives each a number ([`Due::number`]) and ignores those with an old one.
//!
//! There are two heaps. A program may have as many timers as it has handles, and have all of them go off at one time, so timers
//! go off in portions, with pauses between them; waits, of which a thread has one, do not come after all of those.
//!
//! Timers may have slack: one that is set goes off together with another one that is set for about the same time, if
//! there is one. For that the times of set timers are kept in order as well.

use alloc::collections::binary_heap::PeekMut;
use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, BinaryHeap};
use core::cmp::Reverse;

use abi::Status;

use crate::containers::growth::Grows;
use crate::core::object::ObjectId;

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

type Heap = BinaryHeap<Reverse<Due>>;

/// Whose a deadline is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Whose {
    /// A waiting thread's.
    Wait,
    /// A timer's.
    Timer,
}

#[derive(Default)]
pub(crate) struct Deadlines {
    waits: Heap,
    timers: Heap,
    /// No timer goes off before this time.
    pause: i64,
    order: u64,
    cancelled: usize,
    /// When set timers fire, and how many at that time.
    firing: BTreeMap<i64, u32>,
}

impl Deadlines {
    /// Sets a deadline. Says whether it is now the earliest.
    #[inline]
    pub fn set(&mut self, whose: Whose, at: i64, object: ObjectId, number: u32) -> Result<bool, Status> {
        let heap = match whose {
            Whose::Wait => &mut self.waits,
            Whose::Timer => &mut self.timers,
        };
        heap.room(1)?;
        self.order += 1;
        heap.push(Reverse(Due { at, order: self.order, object, number }));
        // It is the first of its kind, and none of the other kind comes before it.
        let is_first = first(heap).is_some_and(|first| first.order == self.order);
        Ok(is_first
            && match whose {
                Whose::Wait => first(&self.timers).is_none_or(|timer| at < timer.at.max(self.pause)),
                Whose::Timer => first(&self.waits).is_none_or(|wait| at.max(self.pause) < wait.at),
            })
    }

    /// The time of a timer that may fire from `earliest` to `latest`: that of the set timer nearest to `deadline`, so
    /// that both take one interruption, or `deadline` itself. It counts as set until [`Deadlines::timer_unset`].
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

    /// A timer that was to fire then has fired, or will not.
    pub fn timer_unset(&mut self, at: i64) {
        if let Entry::Occupied(mut timers) = self.firing.entry(at) {
            match timers.get().checked_sub(1) {
                Some(left) if left > 0 => *timers.get_mut() = left,
                _ => drop(timers.remove()),
            }
        }
    }

    /// Notes that one deadline that was set no longer counts. Says whether it is time to [`Deadlines::sweep`].
    pub fn cancelled(&mut self) -> bool {
        self.cancelled += 1;
        self.cancelled > 64 && self.cancelled > (self.waits.len() + self.timers.len()) / 2
    }

    /// Drops all entries that no longer count.
    pub fn sweep(&mut self, counts: impl Fn(&Due) -> bool) {
        self.waits.retain(|Reverse(due)| counts(due));
        self.timers.retain(|Reverse(due)| counts(due));
        self.cancelled = 0;
    }

    /// The next entry due at `now`, taken out.
    pub fn next(&mut self, now: i64) -> Option<Due> {
        let timer = first(&self.timers).filter(|_| self.pause <= now);
        if timer.is_some_and(|timer| first(&self.waits).is_none_or(|wait| timer < wait)) {
            return due(&mut self.timers, now);
        }
        due(&mut self.waits, now)
    }

    /// No timer is to go off before that time.
    pub fn pause(&mut self, until: i64) {
        self.pause = until;
    }

    /// When the next entry comes.
    pub fn earliest(&self) -> Option<i64> {
        let timer = first(&self.timers).map(|timer| timer.at.max(self.pause));
        first(&self.waits).map(|wait| wait.at).into_iter().chain(timer).min()
    }

    /// Notes that an entry that no longer counted came up.
    pub fn stale(&mut self) {
        self.cancelled = self.cancelled.saturating_sub(1);
    }
}

fn first(heap: &Heap) -> Option<&Due> {
    heap.peek().map(|Reverse(due)| due)
}

/// The first entry if it is due at `now`, taken out.
fn due(heap: &mut Heap, now: i64) -> Option<Due> {
    let first = heap.peek_mut().filter(|first| first.0.at <= now)?;
    Some(PeekMut::pop(first).0)
}
