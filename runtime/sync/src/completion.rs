//! An event that is there or not.

use core::sync::atomic::{AtomicU32, Ordering};

use zx::{HandleRef, MonotonicInstant, Result, Status};

/// It is there.
const SIGNALED: u32 = 1;
/// Somebody may be waiting.
const WAITERS: u32 = 2;
/// The rest of the word counts how often the event has come.
const ONE: u32 = 4;

/// The event. All zero: it is not there yet.
///
/// The word counts signals. So a waiter that is woken can tell a signal from a stray wake-up of its futex, and goes on
/// even if the completion was reset before it ran.
#[repr(transparent)]
#[derive(Debug, Default)]
pub struct Completion(AtomicU32);

impl Completion {
    /// The event is not there yet.
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Whether it is there.
    pub fn is_signaled(&self) -> bool {
        self.0.load(Ordering::Acquire) & SIGNALED != 0
    }

    /// Waits until it is there, or has been since the call began.
    ///
    /// # Errors
    /// `TIMED_OUT`.
    pub fn wait(&self, deadline: MonotonicInstant) -> Result<()> {
        let first = self.0.load(Ordering::Acquire);
        let mut seen = first;
        loop {
            if seen & SIGNALED != 0 || seen / ONE != first / ONE {
                return Ok(());
            }
            let marked = seen | WAITERS;
            if seen != marked
                && let Err(other) = self.0.compare_exchange(seen, marked, Ordering::Acquire, Ordering::Acquire)
            {
                seen = other;
                continue;
            }
            let slept = crate::wait(&self.0, marked, deadline);
            seen = self.0.load(Ordering::Acquire);
            if slept == Err(Status::TIMED_OUT) && seen == marked {
                return slept;
            }
        }
    }

    /// It is there: all waiters go on, and who comes later does not wait.
    pub fn signal(&self) {
        if self.set().is_some_and(|before| before & WAITERS != 0) {
            crate::wake(&self.0, u32::MAX);
        }
    }

    /// It is there, but waiters go on only when `target` is woken, where they sleep from now on; `owner` is its new
    /// owner. For what is built on top.
    pub fn signal_requeue(&self, target: &AtomicU32, owner: Option<HandleRef<'_>>) {
        let Some(before) = self.set() else { return };
        let now = (before & !(SIGNALED | WAITERS)).wrapping_add(ONE) | SIGNALED;
        if before & WAITERS != 0 && zx::futex_requeue(&self.0, 0, now, target, u32::MAX, owner).is_err() {
            // Reset meanwhile, or there is nothing to sleep on: they have their signal all the same.
            crate::wake(&self.0, u32::MAX);
        }
    }

    /// Counts a signal; gives the word before, or nothing if it was signaled already.
    fn set(&self) -> Option<u32> {
        let signaled =
            |word: u32| (word & SIGNALED == 0).then(|| (word & !(SIGNALED | WAITERS)).wrapping_add(ONE) | SIGNALED);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, signaled).ok()
    }

    /// It is not there any more.
    pub fn reset(&self) {
        self.0.fetch_and(!SIGNALED, Ordering::AcqRel);
    }
}
