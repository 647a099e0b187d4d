//! A condition variable.

use core::sync::atomic::{AtomicU32, Ordering};

use zx::{MonotonicInstant, Result, Status};

/// A counter of notifications.
///
/// A waiter holds the mutex that guards its condition, takes a [`Ticket`], unlocks the mutex, and sleeps while the
/// counter equals the ticket. So it does not miss a notification in between. Wake-ups can be spurious, so waiters check
/// their condition again. A notification is lost only if the counter wraps: if exactly 2^32 notifications come before
/// the waiter sleeps.
#[repr(transparent)]
#[derive(Debug, Default)]
pub struct Condition(AtomicU32);

/// The value of the counter when a waiter took it.
#[derive(Clone, Copy, Debug)]
pub struct Ticket(u32);

impl Condition {
    /// A condition variable without waiters.
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Takes a ticket. The caller must still hold the mutex.
    pub fn ticket(&self) -> Ticket {
        Ticket(self.0.load(Ordering::Relaxed))
    }

    /// Sleeps until a notification after the ticket.
    ///
    /// # Errors
    /// `TIMED_OUT`.
    pub fn sleep(&self, ticket: Ticket, deadline: MonotonicInstant) -> Result<()> {
        match crate::wait(&self.0, ticket.0, deadline) {
            Err(Status::TIMED_OUT) => Err(Status::TIMED_OUT),
            // Woken, or notified before it slept.
            _ => Ok(()),
        }
    }

    /// Sleeps by a call of the caller's, which gets the futex and the value with which to sleep; returns its result.
    pub fn sleep_by<T>(&self, ticket: Ticket, sleep: impl FnOnce(&AtomicU32, u32) -> T) -> T {
        sleep(&self.0, ticket.0)
    }

    /// Wakes up to `count` waiters.
    pub fn notify(&self, count: u32) {
        self.0.fetch_add(1, Ordering::Release);
        crate::wake(&self.0, count);
    }
}
