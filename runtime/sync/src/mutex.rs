//! A mutex that knows its owner.

use core::sync::atomic::{AtomicU32, Ordering};

use zx::{HandleRef, MonotonicInstant, Result, Status};

const FREE: u32 = 0;
/// Set while threads may be waiting; the other bits are the owner. No handle value has this bit.
const WAITERS: u32 = 1 << 31;
/// Bits that are set in every handle value. They are set for a thread without a handle too, so that its value is not 0.
const ALWAYS: u32 = 3;

/// A thread as the owner of a mutex: the handle that the C library keeps for it. No other living thread has the same
/// value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner(u32);

impl Owner {
    /// The thread with this handle.
    pub const fn of(handle: u32) -> Self {
        Self((handle | ALWAYS) & !WAITERS)
    }

    /// The calling thread.
    #[cfg(feature = "c")]
    pub fn current() -> Self {
        unsafe extern "C" {
            safe fn zx_thread_self() -> u32;
        }
        Self::of(zx_thread_self())
    }
}

/// The mutex. All zero means free.
///
/// A thread that arrives while the mutex is free takes it, even before waiting threads: a woken thread has to try
/// again.
#[repr(transparent)]
#[derive(Debug, Default)]
pub struct Mutex(AtomicU32);

impl Mutex {
    /// A free mutex.
    pub const fn new() -> Self {
        Self(AtomicU32::new(FREE))
    }

    /// Whether this thread holds it.
    pub fn is_held_by(&self, thread: Owner) -> bool {
        self.0.load(Ordering::Relaxed) & !WAITERS == thread.0
    }

    /// Takes it if it is free; returns whether it did.
    pub fn try_lock(&self, me: Owner) -> bool {
        self.0.compare_exchange(FREE, me.0, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes it; waits until the deadline. A thread that already holds it deadlocks until the deadline.
    ///
    /// # Errors
    /// `TIMED_OUT`.
    pub fn lock(&self, me: Owner, deadline: MonotonicInstant) -> Result<()> {
        if self.try_lock(me) { Ok(()) } else { self.lock_slow(me, deadline) }
    }

    #[cold]
    fn lock_slow(&self, me: Owner, deadline: MonotonicInstant) -> Result<()> {
        loop {
            let seen = self.0.load(Ordering::Relaxed);
            if seen == FREE {
                // Other threads may be waiting, which the free word does not show. Set `WAITERS`, so that the next
                // unlock wakes one.
                let taken = me.0 | WAITERS;
                if self.0.compare_exchange(FREE, taken, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                    return Ok(());
                }
                continue;
            }
            let marked = seen | WAITERS;
            let mark = |seen| self.0.compare_exchange(seen, marked, Ordering::Relaxed, Ordering::Relaxed);
            if seen != marked && mark(seen).is_err() {
                continue;
            }
            let holder = HandleRef::from_raw(marked & !WAITERS);
            let mut slept = zx::futex_wait(&self.0, marked, Some(holder), deadline);
            if matches!(slept, Err(Status::BAD_HANDLE | Status::WRONG_TYPE | Status::INVALID_ARGS)) {
                // The owner is this thread, or a thread that has ended, so there is no owner to name.
                slept = crate::wait(&self.0, marked, deadline);
            }
            if slept == Err(Status::TIMED_OUT) {
                return slept;
            }
        }
    }

    /// Releases it; has no effect on a free mutex.
    pub fn unlock(&self) {
        if self.0.swap(FREE, Ordering::Release) & WAITERS != 0 {
            // The woken thread most likely becomes the next owner. This fails only for an invalid address.
            let _ = zx::futex_wake_single_owner(&self.0);
        }
    }
}
