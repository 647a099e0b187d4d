//! Failure injection: makes requests for memory fail on purpose, to test that every caller handles the failure.
//!
//! Code that requests memory and can handle a failure asks here first ([`should_fail`], and
//! [`Grows`](crate::containers::growth::Grows) for the heap). No request fails without a [`Plan`]:
//!
//! 1. The plan is set ([`plan`]): which requests count ([`MemoryRequest`]), which of these fail, and whether all later
//!    requests of the same event fail, too.
//! 2. At the start of an event, [`arm`] sets whether its requests count: in the running system those of one task's
//!    calls and faults ([`Kernel::failure_plan_set`](crate::Kernel::failure_plan_set)), in the objects' own tests all.
//! 3. Each request that counts gets a number, from 0, and fails if the plan says so.
//! 4. At the end of the event its requests no longer count. While there is a plan, the reaper's requests always fail
//!    ([`Kernel::failure_plan_reap`](crate::Kernel::failure_plan_reap)): destruction must take no memory.
//! 5. The setter of the plan asks for the results ([`made`]).
//!
//! This is the only global state outside of the [`Kernel`](crate::Kernel): small containers use it, too, and have no
//! access to the kernel.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64};

/// Kinds of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryRequest {
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

impl MemoryRequest {
    /// All of them, with their names in commands.
    pub const ALL: [(MemoryRequest, &str); 6] = [
        (MemoryRequest::Frame, "frame"),
        (MemoryRequest::Chunk, "chunk"),
        (MemoryRequest::Unit, "unit"),
        (MemoryRequest::Slot, "slot"),
        (MemoryRequest::Heap, "heap"),
        (MemoryRequest::Reserve, "reserve"),
    ];

    const fn bit(self) -> u64 {
        1 << self as u64
    }
}

/// A failure injection plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The kind that counts; all if none.
    pub want: Option<MemoryRequest>,
    /// The number of the first request that fails.
    pub first: u64,
    /// How many requests fail.
    pub count: u64,
    /// All later requests of the same event fail, too.
    pub on: bool,
}

/// Results of a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PlanResults {
    /// Number of requests that counted.
    pub made: u64,
    /// Number of those that failed.
    pub refused: u64,
}

/// Requests do not count.
const OFF: u8 = 0;
/// Step 2: requests count.
const ARMED: u8 = 1;
/// Step 4: requests fail, and do not count.
const REAPING: u8 = 2;

struct State {
    mode: AtomicU8,
    wants: AtomicU64,
    first: AtomicU64,
    count: AtomicU64,
    on: AtomicBool,
    /// A request has failed in this event.
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
    fn next(&self, want: MemoryRequest) -> bool {
        if self.wants.load(Relaxed) & want.bit() == 0 {
            return false;
        }
        if self.mode.load(Relaxed) == REAPING {
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

/// Step 1. No request counts until [`arm`] is called.
pub fn plan(plan: Plan) {
    with(|state| {
        let all = MemoryRequest::ALL.iter().fold(0, |all, (want, _)| all | want.bit());
        state.wants.store(plan.want.map_or(all, MemoryRequest::bit), Relaxed);
        state.first.store(plan.first, Relaxed);
        state.count.store(plan.count, Relaxed);
        state.on.store(plan.on, Relaxed);
        state.made.store(0, Relaxed);
        state.refused.store(0, Relaxed);
    });
    arm(false);
}

/// Steps 2 and 4: sets whether requests count. Says whether they did.
pub fn arm(on: bool) -> bool {
    with(|state| {
        state.running.store(false, Relaxed);
        state.mode.swap(if on { ARMED } else { OFF }, Relaxed) == ARMED
    })
}

/// Step 3: whether a request is to fail.
#[inline]
pub fn should_fail(want: MemoryRequest) -> bool {
    with(|state| state.mode.load(Relaxed) != OFF && state.next(want))
}

/// Runs code whose requests do not fail, because its memory is known to be available.
pub fn without_failures<T>(make: impl FnOnce() -> T) -> T {
    let before = with(|state| state.mode.swap(OFF, Relaxed));
    let made = make();
    with(|state| state.mode.store(before, Relaxed));
    made
}

/// Step 4: all requests of the reaper fail.
pub(crate) fn fail_all<T>(end: impl FnOnce() -> T) -> T {
    let before = with(|state| state.mode.swap(REAPING, Relaxed));
    let ended = end();
    with(|state| state.mode.store(before, Relaxed));
    ended
}

/// Step 5.
pub fn made() -> PlanResults {
    with(|state| PlanResults { made: state.made.load(Relaxed), refused: state.refused.load(Relaxed) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAP: Plan = Plan { want: Some(MemoryRequest::Heap), first: 1, count: 1, on: false };

    #[test]
    fn one_request_is_refused() {
        plan(HEAP);
        assert!(!should_fail(MemoryRequest::Heap), "it does not count yet");
        arm(true);
        assert!(!should_fail(MemoryRequest::Frame), "another kind");
        assert_eq!([(); 3].map(|()| should_fail(MemoryRequest::Heap)), [false, true, false]);
        assert_eq!(made(), PlanResults { made: 3, refused: 1 });
    }

    #[test]
    fn all_that_follow_in_the_event_are_refused() {
        plan(Plan { on: true, ..HEAP });
        arm(true);
        assert_eq!([(); 4].map(|()| should_fail(MemoryRequest::Heap)), [false, true, true, true]);
        arm(true);
        assert!(!should_fail(MemoryRequest::Heap), "another event");
    }
}
