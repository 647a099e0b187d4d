//! Mutual exclusion and conditions between threads of one virtual processor.
//!
//! A thread that finds a mutex held, or waits for a condition, enters a queue and lets others run. An unlock or a
//! notification takes the first thread from the queue. A mutex with waiters is handed over, so no other thread can take
//! it in between.

use core::cell::{Cell, UnsafeCell};
use core::ops::{Deref, DerefMut};
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::queue::Queue;
use crate::{Inner, Threads};

/// The set of threads that uses an object: the first that used it, and no other.
struct UserSet(AtomicPtr<()>);

impl UserSet {
    const fn nobodys() -> UserSet {
        UserSet(AtomicPtr::new(ptr::null_mut()))
    }

    #[inline(always)]
    fn check(&self, inner: &Inner) {
        let inner = ptr::from_ref(inner).cast_mut().cast();
        if self.0.load(Ordering::Relaxed) != inner {
            let taken = self.0.compare_exchange(ptr::null_mut(), inner, Ordering::Relaxed, Ordering::Relaxed);
            assert!(taken.is_ok(), "it belongs to the threads of another virtual processor");
        }
    }
}

/// A mutex: a value for one thread at a time.
pub struct Mutex<T> {
    whose: UserSet,
    held: Cell<bool>,
    waiting: UnsafeCell<Queue>,
    value: UnsafeCell<T>,
}

// SAFETY: the threads of one virtual processor, which are one Zircon thread, use it with events disabled.
unsafe impl<T: Send> Sync for Mutex<T> {}
// SAFETY: a mutex is moved only by its sole owner, when no thread waits.
unsafe impl<T: Send> Send for Mutex<T> {}

/// A held mutex.
pub struct Guard<'m, 'env, T> {
    mutex: &'m Mutex<T>,
    threads: &'m Threads<'env>,
}

impl<T> Mutex<T> {
    /// A free mutex.
    pub const fn new(value: T) -> Mutex<T> {
        let (held, waiting) = (Cell::new(false), UnsafeCell::new(Queue::new()));
        Mutex { whose: UserSet::nobodys(), held, waiting, value: UnsafeCell::new(value) }
    }

    /// Takes the mutex; waits until it is free.
    ///
    /// # Panics
    /// If it belongs to the threads of another virtual processor.
    pub fn lock<'m, 'env>(&'m self, threads: &'m Threads<'env>) -> Guard<'m, 'env, T> {
        let inner = &threads.inner;
        self.whose.check(inner);
        inner.events.disable();
        self.take(inner);
        inner.enable();
        Guard { mutex: self, threads }
    }

    /// Takes the mutex, with events disabled; they stay disabled.
    fn take(&self, inner: &Inner) {
        if self.held.replace(true) {
            // SAFETY: events are disabled.
            unsafe { (*self.waiting.get()).push(inner.state().current) };
            inner.block();
        }
    }

    /// Hands the mutex over to the first waiter, or releases it; events are disabled.
    fn give(&self, inner: &Inner) {
        // SAFETY: events are disabled.
        match unsafe { (*self.waiting.get()).pop() } {
            Some(next) => inner.state().ready.push(next),
            None => self.held.set(false),
        }
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T> Deref for Guard<'_, '_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this thread holds it.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, '_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the same, and the guard is borrowed mutably.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T> Drop for Guard<'_, '_, T> {
    fn drop(&mut self) {
        let inner = &self.threads.inner;
        inner.events.disable();
        self.mutex.give(inner);
        inner.enable();
    }
}

/// A condition variable.
pub struct Condition {
    whose: UserSet,
    waiting: UnsafeCell<Queue>,
}

// SAFETY: as for `Mutex`.
unsafe impl Sync for Condition {}
// SAFETY: the same.
unsafe impl Send for Condition {}

impl Default for Condition {
    fn default() -> Condition {
        Condition::new()
    }
}

impl Condition {
    /// A condition variable without waiters.
    pub const fn new() -> Condition {
        Condition { whose: UserSet::nobodys(), waiting: UnsafeCell::new(Queue::new()) }
    }

    /// Releases the mutex, waits for a notification, and takes the mutex again. No notification in between is lost.
    ///
    /// # Panics
    /// If it belongs to the threads of another virtual processor.
    pub fn wait<T>(&self, guard: &mut Guard<'_, '_, T>) {
        let inner = &guard.threads.inner;
        self.whose.check(inner);
        inner.events.disable();
        // SAFETY: events are disabled.
        unsafe { (*self.waiting.get()).push(inner.state().current) };
        guard.mutex.give(inner);
        inner.block();
        guard.mutex.take(inner);
        inner.enable();
    }

    /// Wakes the thread that has waited longest.
    ///
    /// # Panics
    /// If it belongs to the threads of another virtual processor.
    pub fn notify_one(&self, threads: &Threads<'_>) {
        self.notify(threads, 1);
    }

    /// Wakes all waiters.
    ///
    /// # Panics
    /// If it belongs to the threads of another virtual processor.
    pub fn notify_all(&self, threads: &Threads<'_>) {
        self.notify(threads, usize::MAX);
    }

    fn notify(&self, threads: &Threads<'_>, most: usize) {
        let inner = &threads.inner;
        self.whose.check(inner);
        threads.quietly(|| {
            for _ in 0..most {
                // SAFETY: events are disabled.
                let Some(next) = (unsafe { (*self.waiting.get()).pop() }) else { return };
                inner.state().ready.push(next);
            }
        });
    }
}
