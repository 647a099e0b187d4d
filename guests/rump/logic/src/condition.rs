//! A condition variable that makes no call when no thread waits.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::{Futex, Slept};

/// A thread has taken a ticket since the last wake-up of all.
const ARMED: u32 = 1;
/// One step of the counter above [`ARMED`].
const STEP: u32 = 2;

/// A counter of wake-ups.
///
/// A waiter holds the mutex that guards its condition, takes a [`Ticket`], releases the mutex, and sleeps while the word
/// equals the ticket. Each wake-up changes the word, so a waiter does not miss one that comes before it sleeps. Waiters
/// check their condition again, because wake-ups can be spurious.
///
/// Two thirds of a rump kernel's wake-ups find no waiter. They end at the first look: the lowest bit of the word says
/// whether a ticket was taken since all waiters were woken. Taking a ticket and leaving go through `waiters` first, so a
/// thread that wakes sees each waiter whose ticket was taken before it looked, even if the kernel does not hold the mutex
/// then. A wake-up is lost only if exactly 2^31 others come between a ticket and its sleep.
#[derive(Debug, Default)]
pub struct Condition {
    word: AtomicU32,
    /// Threads between `ticket` and `leave`.
    waiters: AtomicU32,
}

/// The value of the word while no wake-up has come.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Ticket(u32);

impl Condition {
    /// A condition variable without waiters.
    pub const fn new() -> Condition {
        Condition { word: AtomicU32::new(0), waiters: AtomicU32::new(0) }
    }

    /// Begins a wait. The caller calls [`Condition::leave`] after it.
    pub fn ticket(&self) -> Ticket {
        self.waiters.fetch_add(1, Ordering::SeqCst);
        Ticket(self.word.fetch_or(ARMED, Ordering::SeqCst) | ARMED)
    }

    /// Sleeps until a wake-up after the ticket, or the deadline.
    pub fn sleep<F: Futex>(&self, ticket: Ticket, deadline: i64) -> Slept {
        if self.word.load(Ordering::SeqCst) != ticket.0 {
            return Slept::Woken;
        }
        F::sleep(&self.word, ticket.0, deadline)
    }

    /// Ends a wait.
    pub fn leave(&self) {
        self.waiters.fetch_sub(1, Ordering::SeqCst);
    }

    /// Wakes at least one waiter, if there are any.
    pub fn signal<F: Futex>(&self) {
        let seen = self.word.load(Ordering::SeqCst);
        if seen & ARMED == 0 {
            return;
        }
        if self.waiters.load(Ordering::SeqCst) <= 1 {
            // The only waiter, or one that has timed out: the next wake-up needs no call.
            return self.broadcast::<F>();
        }
        self.word.fetch_add(STEP, Ordering::SeqCst);
        F::wake(&self.word, 1);
    }

    /// Wakes all waiters.
    pub fn broadcast<F: Futex>(&self) {
        let mut seen = self.word.load(Ordering::SeqCst);
        while seen & ARMED != 0 {
            // The sum clears the bit and moves the counter.
            match self.word.compare_exchange(seen, seen.wrapping_add(1), Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return F::wake(&self.word, u32::MAX),
                Err(now) => seen = now,
            }
        }
    }

    /// Number of threads that wait, or have been woken and not left yet.
    pub fn waiters(&self) -> u32 {
        self.waiters.load(Ordering::SeqCst)
    }
}
