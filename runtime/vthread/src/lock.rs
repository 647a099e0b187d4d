//! Mutual exclusion and conditions between threads of one virtual processor.
//!
//! Who finds a mutex held, or waits for a condition, goes into a queue and lets others run; who unlocks or notifies
//! takes the first from there. A mutex that somebody waits for is handed over: nobody comes in between.

use core::cell::{Cell, UnsafeCell};
use core::ops::{Deref, DerefMut};
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::queue::Queue;
use crate::{Inner, Threads};

/// Whose threads use something: the first that do, and no others.
struct Whose(AtomicPtr<()>);

impl Whose {
    const fn nobodys() -> Whose {
        Whose(AtomicPtr::new(ptr::null_mut()))
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

/// A value for one thread at a time.
pub struct Mutex<T> {
    whose: Whose,
    held: Cell<bool>,
    waiting: UnsafeCell<Queue>,
    value: UnsafeCell<T>,
}

// SAFETY: used with events disabled by the threads of one virtual processor, which are one thread of the system's.
unsafe impl<T: Send> Sync for Mutex<T> {}
// SAFETY: who moves it has it alone: nobody waits.
unsafe impl<T: Send> Send for Mutex<T> {}

/// A mutex that is held.
pub struct Guard<'m, 'env, T> {
    mutex: &'m Mutex<T>,
    threads: &'m Threads<'env>,
}

impl<T> Mutex<T> {
    /// One that nobody holds.
    pub const fn new(value: T) -> Mutex<T> {
        let (held, waiting) = (Cell::new(false), UnsafeCell::new(Queue::new()));
        Mutex { whose: Whose::nobodys(), held, waiting, value: UnsafeCell::new(value) }
    }

    /// Waits until nobody else holds it.
    ///
    /// # Panics
    /// It belongs to the threads of another virtual processor.
    pub fn lock<'m, 'env>(&'m self, threads: &'m Threads<'env>) -> Guard<'m, 'env, T> {
        let inner = &threads.inner;
        self.whose.check(inner);
        inner.events.disable();
        self.take(inner);
        inner.enable();
        Guard { mutex: self, threads }
    }

    /// The same with events disabled, which they stay.
    fn take(&self, inner: &Inner) {
        if self.held.replace(true) {
            // SAFETY: events are disabled.
            unsafe { (*self.waiting.get()).push(inner.state().current) };
            inner.block();
        }
    }

    /// Hands it over, or lets it go; events are disabled.
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
        // SAFETY: the same, and it is borrowed to change.
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

/// Something to wait for.
pub struct Condition {
    whose: Whose,
    waiting: UnsafeCell<Queue>,
}

// SAFETY: as a mutex.
unsafe impl Sync for Condition {}
// SAFETY: the same.
unsafe impl Send for Condition {}

impl Default for Condition {
    fn default() -> Condition {
        Condition::new()
    }
}

impl Condition {
    /// One that nobody waits for.
    pub const fn new() -> Condition {
        Condition { whose: Whose::nobodys(), waiting: UnsafeCell::new(Queue::new()) }
    }

    /// Lets a mutex go and waits to be notified; then holds it again. Nobody notifies in between unseen.
    ///
    /// # Panics
    /// It belongs to the threads of another virtual processor.
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

    /// Wakes the thread that has waited for longest.
    ///
    /// # Panics
    /// It belongs to the threads of another virtual processor.
    pub fn notify_one(&self, threads: &Threads<'_>) {
        self.notify(threads, 1);
    }

    /// Wakes all that wait.
    ///
    /// # Panics
    /// It belongs to the threads of another virtual processor.
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
