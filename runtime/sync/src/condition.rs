//! Sleeping until somebody says that things have changed.

use core::sync::atomic::{AtomicU32, Ordering};

use zx::{MonotonicInstant, Result, Status};

/// A counter of notifications.
///
/// A waiter takes a [`Ticket`] while it holds the mutex that guards what it waits for, gives the mutex back, and sleeps
/// while the counter is the ticket's: a notification in between is not missed. Waking up without one is possible, so
/// waiters look again at what they wait for; one is lost only if 2^32 others come before the waiter sleeps.
#[repr(transparent)]
#[derive(Debug, Default)]
pub struct Condition(AtomicU32);

/// The counter as a waiter saw it.
#[derive(Clone, Copy, Debug)]
pub struct Ticket(u32);

impl Condition {
    /// Nobody waits.
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// To be taken before the mutex is given back.
    pub fn ticket(&self) -> Ticket {
        Ticket(self.0.load(Ordering::Relaxed))
    }

    /// Sleeps until a notification that came after the ticket.
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

    /// Wakes up to `count` waiters.
    pub fn notify(&self, count: u32) {
        self.0.fetch_add(1, Ordering::Release);
        crate::wake(&self.0, count);
    }
}
