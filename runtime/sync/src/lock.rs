//! Mutual exclusion around a value.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering};

use zx::MonotonicInstant;

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and threads may be waiting.
const CONTENDED: u32 = 2;

/// A bare lock word. Without contention, lock and unlock cost one atomic instruction each.
#[repr(transparent)]
#[derive(Debug)]
pub struct RawLock(AtomicU32);

impl RawLock {
    /// A free lock.
    pub const fn new() -> Self {
        Self(AtomicU32::new(FREE))
    }

    /// Takes the lock if it is free; returns whether it did.
    pub fn try_lock(&self) -> bool {
        self.0.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes the lock; waits until it is free.
    pub fn lock(&self) {
        if !self.try_lock() {
            self.lock_slow();
        }
    }

    #[cold]
    fn lock_slow(&self) {
        while self.0.swap(CONTENDED, Ordering::Acquire) != FREE {
            // Whatever the result is, the loop reads the word again.
            let _ = crate::wait(&self.0, CONTENDED, MonotonicInstant::INFINITE);
        }
    }

    /// Releases the lock.
    pub fn unlock(&self) {
        if self.0.swap(FREE, Ordering::Release) == CONTENDED {
            crate::wake(&self.0, 1);
        }
    }

    /// Whether the lock is held at this moment.
    pub fn is_held(&self) -> bool {
        self.0.load(Ordering::Relaxed) != FREE
    }
}

impl Default for RawLock {
    fn default() -> Self {
        Self::new()
    }
}

/// A value and its lock.
#[derive(Debug)]
pub struct Lock<T> {
    raw: RawLock,
    value: UnsafeCell<T>,
}

// SAFETY: the value is accessed only through a guard, of which there is one at a time.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    /// Puts a lock around `value`.
    pub const fn new(value: T) -> Self {
        Self { raw: RawLock::new(), value: UnsafeCell::new(value) }
    }

    /// Whether the lock is held at this moment.
    pub fn is_held(&self) -> bool {
        self.raw.is_held()
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        self.raw.try_lock().then(|| Guard(self))
    }

    /// Takes the lock; waits until it is free.
    pub fn lock(&self) -> Guard<'_, T> {
        self.raw.lock();
        Guard(self)
    }
}

/// Access to the value; dropping it releases the lock.
#[derive(Debug)]
pub struct Guard<'a, T>(&'a Lock<T>);

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: there is only one guard.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: there is only one guard, and it is borrowed mutably.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.0.raw.unlock();
    }
}
