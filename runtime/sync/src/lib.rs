//! Locks, conditions and completions on futexes.
//!
//! A **futex** is a word of memory and two calls: sleep while it has this value, and wake who sleeps there. Everything
//! here is one such word, changed by atomic instructions; the calls are made only when somebody has to wait or may be
//! waiting.
//!
//! - [`Lock`]: mutual exclusion around a value, for the state of a library. It knows nothing of threads, so that it
//!   works before there is thread storage.
//! - [`Mutex`]: a word that says who holds it. A waiter names the holder to the system, and a holder can be asked for.
//! - [`Condition`]: sleeping until somebody says that things have changed.
//! - [`Completion`]: an event that is there or not.
//!
//! The C library builds `pthread_*` and C11's functions of the last three, libfdio uses the first. With the feature `c` all of it
//! is there as Zircon's libsync: `sync_mutex_*`, `sync_condition_*`, `sync_completion_*`.
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

/// Sleeps while `word` is `value`, until woken or the deadline.
///
/// # Errors
/// `BAD_STATE` when it has another value, `TIMED_OUT`.
pub fn wait(word: &AtomicU32, value: u32, deadline: MonotonicInstant) -> Result<()> {
    zx::futex_wait(word, value, None, deadline)
}

/// Wakes up to `count` threads that sleep on `word`.
pub fn wake(word: &AtomicU32, count: u32) {
    // It fails only for a word that is none.
    let _ = zx::futex_wake(word, count);
}
