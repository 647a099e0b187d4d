//! The library's locks, and sleeping on a word.

pub use sync::{Lock, RawLock, wake};

use core::sync::atomic::AtomicU32;
use zx::{MonotonicInstant, Status};

/// Sleeps while `word` is `value`, until a wake-up or the deadline (monotonic, ns). Returns whether the deadline has
/// passed.
pub fn wait(word: &AtomicU32, value: u32, deadline: i64) -> bool {
    sync::wait(word, value, MonotonicInstant(deadline)) == Err(Status::TIMED_OUT)
}
