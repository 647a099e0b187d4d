//! A mutex that knows who holds it.

use core::sync::atomic::{AtomicU32, Ordering};

use zx::{HandleRef, MonotonicInstant, Result, Status};

const FREE: u32 = 0;
/// Set while somebody may be waiting; the other bits tell who holds the lock. No handle has it.
const WAITERS: u32 = 1 << 31;
/// The bits that every handle has: a thread without a handle still is not nobody.
const ALWAYS: u32 = 3;

/// A thread, as a mutex notes it: by the handle that the C library keeps for it, which no other living thread has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner(u32);

impl Owner {
    /// The thread that this handle is kept for.
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

/// The lock. All zero is one that nobody holds.
///
/// Whoever comes when it is free takes it, even before threads that wait: a woken thread tries again.
#[repr(transparent)]
#[derive(Debug, Default)]
pub struct Mutex(AtomicU32);

impl Mutex {
    /// A mutex that nobody holds.
    pub const fn new() -> Self {
        Self(AtomicU32::new(FREE))
    }

    /// Whether this thread holds it.
    pub fn is_held_by(&self, thread: Owner) -> bool {
        self.0.load(Ordering::Relaxed) & !WAITERS == thread.0
    }

    /// Takes it if nobody holds it.
    pub fn try_lock(&self, me: Owner) -> bool {
        self.0.compare_exchange(FREE, me.0, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes it, and waits for it until the deadline. A thread that holds it already waits for itself.
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
                // Others may wait as well, which the free word no longer tells: the one after this must look for them.
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
                // The holder is this thread, or a thread that has ended: there is nobody to name.
                slept = crate::wait(&self.0, marked, deadline);
            }
            if slept == Err(Status::TIMED_OUT) {
                return slept;
            }
        }
    }

    /// Gives it back. One that nobody holds stays so.
    pub fn unlock(&self) {
        if self.0.swap(FREE, Ordering::Release) & WAITERS != 0 {
            // The one that is woken will most likely be the next holder. Fails only for a word that is none.
            let _ = zx::futex_wake_single_owner(&self.0);
        }
    }
}
