//! A signal that threads can wait for.

use core::sync::atomic::{AtomicU32, Ordering};

use zx::{HandleRef, MonotonicInstant, Result, Status};

/// The signal is set.
const SIGNALED: u32 = 1;
/// Threads may be waiting.
const WAITERS: u32 = 2;
/// Unit of the rest of the word, which counts signals.
const ONE: u32 = 4;

/// The completion. All zero means not signaled.
///
/// The word counts signals. Thus a woken waiter can distinguish a signal from a spurious wake-up of its futex, and
/// returns even if the completion was reset before the waiter ran.
#[repr(transparent)]
#[derive(Debug, Default)]
pub struct Completion(AtomicU32);

impl Completion {
    /// A completion that is not signaled.
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Whether it is signaled.
    pub fn is_signaled(&self) -> bool {
        self.0.load(Ordering::Acquire) & SIGNALED != 0
    }

    /// Waits until it is signaled, or has been signaled since the call began.
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

    /// Sets the signal: wakes all waiters; later waits return at once.
    pub fn signal(&self) {
        if self.set().is_some_and(|before| before & WAITERS != 0) {
            crate::wake(&self.0, u32::MAX);
        }
    }

    /// Sets the signal, but moves the waiters to the futex `target` instead of waking them; `owner` becomes that
    /// futex's owner. For code on top of this library.
    pub fn signal_requeue(&self, target: &AtomicU32, owner: Option<HandleRef<'_>>) {
        let Some(before) = self.set() else { return };
        let now = (before & !(SIGNALED | WAITERS)).wrapping_add(ONE) | SIGNALED;
        if before & WAITERS != 0 && zx::futex_requeue(&self.0, 0, now, target, u32::MAX, owner).is_err() {
            // The completion was reset in between, or `target` is not a valid futex. The waiters have their signal
            // nonetheless.
            crate::wake(&self.0, u32::MAX);
        }
    }

    /// Sets and counts a signal; returns the previous word, or `None` if the signal was already set.
    fn set(&self) -> Option<u32> {
        let signaled =
            |word: u32| (word & SIGNALED == 0).then(|| (word & !(SIGNALED | WAITERS)).wrapping_add(ONE) | SIGNALED);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, signaled).ok()
    }

    /// Clears the signal.
    pub fn reset(&self) {
        self.0.fetch_and(!SIGNALED, Ordering::AcqRel);
    }
}
