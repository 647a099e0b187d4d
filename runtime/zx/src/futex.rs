//! Futexes: waiting until a word in memory changes.

use core::sync::atomic::AtomicU32;

use crate::{HandleRef, MonotonicInstant, Result, check, sys};

/// Waits while `word` is `current`, until a wake-up or the deadline.
///
/// # Errors
/// `BAD_STATE`: the word has another value. `TIMED_OUT`. `INVALID_ARGS`: the owner is invalid.
pub fn futex_wait(
    word: &AtomicU32,
    current: u32,
    owner: Option<HandleRef<'_>>,
    deadline: MonotonicInstant,
) -> Result<()> {
    // SAFETY: the word is valid and atomic.
    check(unsafe {
        sys::zx_futex_wait(
            word.as_ptr().cast(),
            current.cast_signed(),
            owner.map_or(0, |owner| owner.raw()),
            deadline.0,
        )
    })
}

/// Wakes up to `count` waiters.
///
/// # Errors
/// `INVALID_ARGS`: the word is unaligned.
pub fn futex_wake(word: &AtomicU32, count: u32) -> Result<()> {
    // SAFETY: the word is valid and atomic.
    check(unsafe { sys::zx_futex_wake(word.as_ptr().cast(), count) })
}

/// Wakes one waiter and makes it the owner.
///
/// # Errors
/// As [`futex_wake`].
pub fn futex_wake_single_owner(word: &AtomicU32) -> Result<()> {
    // SAFETY: the word is valid and atomic.
    check(unsafe { sys::zx_futex_wake_single_owner(word.as_ptr().cast()) })
}

/// If `word` is `current`, wakes `wake` of its waiters and moves up to `requeue` others to `to`.
///
/// # Errors
/// `BAD_STATE`: the word has another value. `INVALID_ARGS`.
pub fn futex_requeue(
    word: &AtomicU32,
    wake: u32,
    current: u32,
    to: &AtomicU32,
    requeue: u32,
    owner: Option<HandleRef<'_>>,
) -> Result<()> {
    // SAFETY: both words are valid and atomic.
    check(unsafe {
        sys::zx_futex_requeue(
            word.as_ptr().cast(),
            wake,
            current.cast_signed(),
            to.as_ptr().cast(),
            requeue,
            owner.map_or(0, |owner| owner.raw()),
        )
    })
}

/// The koid of the futex's owner; zero for none.
///
/// # Errors
/// `INVALID_ARGS`.
pub fn futex_get_owner(word: &AtomicU32) -> Result<u64> {
    let mut koid = 0;
    // SAFETY: the word is valid and atomic; `koid` has room for one number.
    check(unsafe { sys::zx_futex_get_owner(word.as_ptr().cast(), &mut koid) })?;
    Ok(koid)
}
