//! A mutual exclusion lock for the library's own state, on a futex.
//!
//! Uncontended it costs one atomic exchange each way. It needs no thread storage, so that it works before there is any.

use crate::sys;
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering};

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and somebody may be waiting.
const CONTENDED: u32 = 2;

/// A bare lock word.
#[repr(transparent)]
pub struct RawLock(AtomicU32);

impl RawLock {
    pub const fn new() -> Self {
        Self(AtomicU32::new(FREE))
    }

    /// Takes the lock if nobody holds it.
    pub fn try_lock(&self) -> bool {
        self.0.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    pub fn lock(&self) {
        if !self.try_lock() {
            self.lock_slow();
        }
    }

    #[cold]
    fn lock_slow(&self) {
        while self.0.swap(CONTENDED, Ordering::Acquire) != FREE {
            wait(&self.0, CONTENDED, sys::TIME_INFINITE);
        }
    }

    pub fn unlock(&self) {
        if self.0.swap(FREE, Ordering::Release) == CONTENDED {
            wake(&self.0, 1);
        }
    }
}

/// Sleeps while `word` is `value`, until woken or the deadline (monotonic, ns). Gives the system call's status.
pub fn wait(word: &AtomicU32, value: u32, deadline: i64) -> sys::Status {
    // SAFETY: the word is valid; no owner is named.
    unsafe { sys::zx_futex_wait(word.as_ptr(), value, sys::HANDLE_INVALID, deadline) }
}

/// Wakes up to `count` threads that wait for `word`.
pub fn wake(word: &AtomicU32, count: u32) {
    // SAFETY: only the address counts.
    unsafe { sys::zx_futex_wake(word.as_ptr(), count) };
}

/// A value and its lock.
pub struct Lock<T> {
    raw: RawLock,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only while the lock is held; callers put in only values that may move between threads
// (or pointers whose use the lock guards).
unsafe impl<T> Sync for Lock<T> {}

impl<T> Lock<T> {
    pub const fn new(value: T) -> Self {
        Self { raw: RawLock::new(), value: UnsafeCell::new(value) }
    }

    /// Whether somebody holds the lock at this moment.
    pub fn is_held(&self) -> bool {
        self.raw.0.load(Ordering::Relaxed) != FREE
    }

    pub fn lock(&self) -> Guard<'_, T> {
        self.raw.lock();
        Guard(self)
    }
}

/// The value, until dropped.
pub struct Guard<'a, T>(&'a Lock<T>);

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the lock is held.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held, and this guard is borrowed alone.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.0.raw.unlock();
    }
}
