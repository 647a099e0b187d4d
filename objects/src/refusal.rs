//! Failure injection: requests for memory that are refused on purpose, to test that each may fail.
//!
//! Code that requests memory and can handle a failure asks here first ([`refused`], and [`Grows`] for the heap).
//! Nothing is refused without a [`Plan`]:
//!
//! 1. The plan is set ([`plan`]): which requests count ([`Want`]), which of these are refused, and whether all later
//!    requests of the same event are refused, too.
//! 2. At the start of an event, [`heed`] sets whether its requests count: in the running system those of one task's
//!    calls and faults ([`Kernel::refusal_plan`]), in the objects' own tests all.
//! 3. Each request that counts gets a number, from 0, and is refused if the plan says so.
//! 4. At the end of the event its requests no longer count. While there is a plan, the reaper's requests are always
//!    refused ([`Kernel::refusal_of_ends`]): destruction must take no memory.
//! 5. The setter of the plan asks for the results ([`made`]).
//!
//! This is the only global state outside of the [`Kernel`]: small containers use it, too, and have no access to the
//! kernel.

use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64};

use crate::kernel::Kernel;
use crate::machine::{Machine, OutOfMemory};
use crate::object::{Body, Id, ObjectId};

/// Kinds of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Want {
    /// A page, or several contiguous ones.
    Frame,
    /// A chunk of memory, from which the machine takes pages and everything else.
    Chunk,
    /// Memory for a kernel object of seL4.
    Unit,
    /// A capability slot.
    Slot,
    /// Heap memory, where the caller handles a failure.
    Heap,
    /// The reserve for a call's small allocations, which cannot fail.
    Reserve,
}

impl Want {
    /// All of them, with their names in commands.
    pub const ALL: [(Want, &str); 6] = [
        (Want::Frame, "frame"),
        (Want::Chunk, "chunk"),
        (Want::Unit, "unit"),
        (Want::Slot, "slot"),
        (Want::Heap, "heap"),
        (Want::Reserve, "reserve"),
    ];

    const fn bit(self) -> u64 {
        1 << self as u64
    }
}

/// A failure injection plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The kind that counts; all if none.
    pub want: Option<Want>,
    /// The number of the first refused request.
    pub first: u64,
    /// How many are refused.
    pub count: u64,
    /// All later requests of the same event are refused, too.
    pub on: bool,
}

/// Results of a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Made {
    /// Number of requests that counted.
    pub made: u64,
    /// Number of those that were refused.
    pub refused: u64,
}

/// Requests do not count.
const OFF: u8 = 0;
/// Step 2: requests count.
const HEEDED: u8 = 1;
/// Step 4: requests are refused, and do not count.
const ENDING: u8 = 2;

struct State {
    mode: AtomicU8,
    wants: AtomicU64,
    first: AtomicU64,
    count: AtomicU64,
    on: AtomicBool,
    /// A request was refused in this event.
    running: AtomicBool,
    made: AtomicU64,
    refused: AtomicU64,
}

impl State {
    const fn new() -> State {
        State {
            mode: AtomicU8::new(OFF),
            wants: AtomicU64::new(0),
            first: AtomicU64::new(0),
            count: AtomicU64::new(0),
            on: AtomicBool::new(false),
            running: AtomicBool::new(false),
            made: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// Step 3.
    #[cold]
    #[inline(never)]
    fn next(&self, want: Want) -> bool {
        if self.wants.load(Relaxed) & want.bit() == 0 {
            return false;
        }
        if self.mode.load(Relaxed) == ENDING {
            return true;
        }
        let number = self.made.fetch_add(1, Relaxed);
        let after = number.checked_sub(self.first.load(Relaxed));
        let planned = after.is_some_and(|after| after < self.count.load(Relaxed));
        let refused = planned || self.running.load(Relaxed);
        if refused {
            self.refused.fetch_add(1, Relaxed);
            self.running.store(self.on.load(Relaxed), Relaxed);
        }
        refused
    }
}

#[cfg(not(test))]
fn with<T>(look: impl FnOnce(&State) -> T) -> T {
    static STATE: State = State::new();
    look(&STATE)
}

/// Tests run in parallel, and each has its own plan.
#[cfg(test)]
fn with<T>(look: impl FnOnce(&State) -> T) -> T {
    std::thread_local! {
        static STATE: State = const { State::new() };
    }
    STATE.with(look)
}

/// Step 1. No request counts until [`heed`] is called.
pub fn plan(plan: Plan) {
    with(|state| {
        let all = Want::ALL.iter().fold(0, |all, (want, _)| all | want.bit());
        state.wants.store(plan.want.map_or(all, Want::bit), Relaxed);
        state.first.store(plan.first, Relaxed);
        state.count.store(plan.count, Relaxed);
        state.on.store(plan.on, Relaxed);
        state.made.store(0, Relaxed);
        state.refused.store(0, Relaxed);
    });
    heed(false);
}

/// Steps 2 and 4: sets whether requests count. Says whether they did.
pub fn heed(on: bool) -> bool {
    with(|state| {
        state.running.store(false, Relaxed);
        state.mode.swap(if on { HEEDED } else { OFF }, Relaxed) == HEEDED
    })
}

/// Step 3: whether a request is to be refused.
#[inline]
pub fn refused(want: Want) -> bool {
    with(|state| state.mode.load(Relaxed) != OFF && state.next(want))
}

/// Runs code whose requests are not refused, because its memory is known to be available.
pub fn granted<T>(make: impl FnOnce() -> T) -> T {
    let before = with(|state| state.mode.swap(OFF, Relaxed));
    let made = make();
    with(|state| state.mode.store(before, Relaxed));
    made
}

/// Step 5.
pub fn made() -> Made {
    with(|state| Made { made: state.made.load(Relaxed), refused: state.refused.load(Relaxed) })
}

/// Containers with fallible growth.
pub trait Grows {
    /// Reserves room for `more` elements, and some to spare.
    ///
    /// # Errors
    /// There is no memory.
    fn room(&mut self, more: usize) -> Result<(), OutOfMemory>;
    /// Reserves room for exactly `more` elements.
    ///
    /// # Errors
    /// There is no memory.
    fn room_exact(&mut self, more: usize) -> Result<(), OutOfMemory>;
}

macro_rules! grows {
    ($($container:ident<$T:ident $(: $bound:ident)?>)*) => {$(
        impl<$T $(: $bound)?> Grows for $container<$T> {
            #[inline]
            fn room(&mut self, more: usize) -> Result<(), OutOfMemory> {
                if self.capacity() - self.len() >= more {
                    return Ok(());
                }
                if refused(Want::Heap) {
                    return Err(OutOfMemory);
                }
                self.try_reserve(more).map_err(|_| OutOfMemory)
            }

            #[inline]
            fn room_exact(&mut self, more: usize) -> Result<(), OutOfMemory> {
                if self.capacity() - self.len() >= more {
                    return Ok(());
                }
                if refused(Want::Heap) {
                    return Err(OutOfMemory);
                }
                self.try_reserve_exact(more).map_err(|_| OutOfMemory)
            }
        }
    )*};
}

grows! { Vec<T> VecDeque<T> BinaryHeap<T: Ord> }

impl<M: Machine> Kernel<M> {
    /// Sets a plan for a task's threads, or removes it. Returns the results of the previous one.
    pub fn refusal_plan(&mut self, new: Option<(u64, Plan)>) -> Made {
        let made = made();
        self.refusing = new.map(|(koid, _)| koid);
        if let Some((_, new)) = new {
            plan(new);
        }
        self.attend();
        made
    }

    /// Whether a plan is set.
    #[inline]
    pub fn is_refusing(&self) -> bool {
        self.refusing.is_some()
    }

    /// Step 2 for an event of the thread with this number.
    pub fn refusal_heed(&self, thread: u32) {
        let counts = |koid| self.thread_at(thread).is_some_and(|thread| self.is_within(thread.object(), koid));
        heed(self.refusing.is_some_and(counts));
    }

    /// Step 4: runs the reaper, whose requests of the plan's kind are refused.
    pub fn refusal_of_ends(&mut self, end: impl FnOnce(&mut Self)) {
        if !self.is_refusing() {
            return end(self);
        }
        let before = with(|state| state.mode.swap(ENDING, Relaxed));
        end(self);
        with(|state| state.mode.store(before, Relaxed));
    }

    /// Whether a thread, its process or one of the jobs above it has this koid.
    fn is_within(&self, thread: ObjectId, koid: u64) -> bool {
        let mut next = Some(thread);
        // Bounded by the maximum height of the job tree.
        while let Some(id) = next {
            if self.koid(id) == koid {
                return true;
            }
            next = match self.objects.any(id).map(|object| &object.body) {
                Ok(Body::Thread(thread)) => Some(thread.process.object()),
                Ok(Body::Process(process)) => Some(process.job.object()),
                Ok(Body::Job(job)) => job.parent.map(Id::object),
                _ => None,
            };
        }
        false
    }

    /// Sets whether the machine must report each call first.
    pub(crate) fn attend(&mut self) {
        let on = self.trace_is_on() || self.is_refusing() || self.is_left();
        self.machine.attend(on);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAP: Plan = Plan { want: Some(Want::Heap), first: 1, count: 1, on: false };

    #[test]
    fn one_request_is_refused() {
        plan(HEAP);
        assert!(!refused(Want::Heap), "it does not count yet");
        heed(true);
        assert!(!refused(Want::Frame), "another kind");
        assert_eq!([(); 3].map(|()| refused(Want::Heap)), [false, true, false]);
        assert_eq!(made(), Made { made: 3, refused: 1 });
    }

    #[test]
    fn all_that_follow_in_the_event_are_refused() {
        plan(Plan { on: true, ..HEAP });
        heed(true);
        assert_eq!([(); 4].map(|()| refused(Want::Heap)), [false, true, true, true]);
        heed(true);
        assert!(!refused(Want::Heap), "another event");
    }

    #[test]
    fn containers_that_have_room_do_not_ask() {
        plan(Plan { first: 0, count: u64::MAX, ..HEAP });
        let mut list: Vec<u8> = Vec::with_capacity(1);
        heed(true);
        assert_eq!(list.room(1), Ok(()));
        assert_eq!(list.room(2), Err(OutOfMemory));
        assert_eq!(list.room_exact(2), Err(OutOfMemory));
        heed(false);
        assert_eq!(list.room(2), Ok(()));
    }
}
