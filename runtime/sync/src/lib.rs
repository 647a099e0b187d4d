//! Locks, conditions and completions on futexes.
//!
//! A **futex** is a word of memory with two calls: sleep while the word has a given value, and wake threads that sleep
//! on the word. Each type here is one such word, changed by atomic instructions; it makes a call only if a thread must
//! wait, or may be waiting.
//!
//! - [`Lock`]: mutual exclusion around a value, for the state of a library. It does not use thread-local storage, so it
//!   works before that exists.
//! - [`Mutex`]: its word holds the owner. A waiter names the owner to the kernel, and the owner can be queried.
//! - [`Condition`]: a condition variable.
//! - [`Completion`]: a signal that threads can wait for.
//!
//! The C library builds the functions of `pthread_*` and of C11 on the last three; libfdio uses the first. With the
//! feature `c`, everything is available as Zircon's libsync: `sync_mutex_*`, `sync_condition_*`, `sync_completion_*`.
#![no_std]

#[cfg(feature = "c")]
pub mod c;
mod completion;
mod condition;
mod lock;
mod mutex;

pub use completion::Completion;
pub use condition::Condition;
pub use lock::{Guard, Lock, RawLock};
pub use mutex::{Mutex, Owner};

use core::sync::atomic::AtomicU32;
use zx::{MonotonicInstant, Result};

/// Sleeps while `word` is `value`, until a wake-up or the deadline.
///
/// # Errors
/// `BAD_STATE`: the word has another value. `TIMED_OUT`.
pub fn wait(word: &AtomicU32, value: u32, deadline: MonotonicInstant) -> Result<()> {
    zx::futex_wait(word, value, None, deadline)
}

/// Wakes up to `count` threads that sleep on `word`.
pub fn wake(word: &AtomicU32, count: u32) {
    // It fails only for an invalid address.
    let _ = zx::futex_wake(word, count);
}
