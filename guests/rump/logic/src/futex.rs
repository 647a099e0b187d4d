//! The two calls below the locks.

use core::sync::atomic::AtomicU32;

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slept {
    /// By a wake-up, or because the word had another value. Wake-ups without cause are possible.
    Woken,
    /// By the deadline.
    TimedOut,
}

/// A system with futexes.
pub trait Futex {
    /// The deadline of a wait without one.
    const FOREVER: i64 = i64::MAX;

    /// Sleeps while `word` is `value`, until a wake-up or `deadline` (nanoseconds of the monotonic clock).
    fn sleep(word: &AtomicU32, value: u32, deadline: i64) -> Slept;

    /// Wakes up to `count` threads that sleep on `word`.
    fn wake(word: &AtomicU32, count: u32);
}
