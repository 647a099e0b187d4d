//! Signals, of which there are none: no process sends one, and no fault becomes one.
//!
//! Sets of signals are plain data and work. What would need a signal to be delivered fails with `ENOSYS`, so that
//! whoever depends on it learns so. A thread's mask can be set and read as long as nothing is blocked in earnest: it
//! blocks signals that never come.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::errno::{self, EINVAL, ENOSYS};

/// Bits of a `sigset_t` that mean something; the structure is larger.
const SIGNALS: i32 = 64;

/// Words of a `sigset_t`.
const WORDS: usize = 16;

/// A set of signals, as C programs hold it.
#[repr(C)]
pub struct SignalSet {
    words: [u64; WORDS],
}

/// The mask that `sigprocmask` and `pthread_sigmask` set: one for the process, as no signal would tell threads apart.
static MASK: AtomicU64 = AtomicU64::new(0);

fn bit(signal: i32) -> Option<u64> {
    (1..=SIGNALS).contains(&signal).then(|| 1 << (signal - 1))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigemptyset(set: *mut SignalSet) -> i32 {
    // SAFETY: the caller's set, as the contract says.
    unsafe { (*set).words = [0; WORDS] };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigfillset(set: *mut SignalSet) -> i32 {
    // SAFETY: as above.
    unsafe { (*set).words = [0; WORDS] };
    // SAFETY: as above.
    unsafe { (*set).words[0] = u64::MAX };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaddset(set: *mut SignalSet, signal: i32) -> i32 {
    let Some(bit) = bit(signal) else { return errno::fail(EINVAL) };
    // SAFETY: as above.
    unsafe { (*set).words[0] |= bit };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigdelset(set: *mut SignalSet, signal: i32) -> i32 {
    let Some(bit) = bit(signal) else { return errno::fail(EINVAL) };
    // SAFETY: as above.
    unsafe { (*set).words[0] &= !bit };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigismember(set: *const SignalSet, signal: i32) -> i32 {
    let Some(bit) = bit(signal) else { return errno::fail(EINVAL) };
    // SAFETY: as above.
    i32::from(unsafe { (*set).words[0] } & bit != 0)
}

/// What becomes of a signal cannot be chosen, as none comes.
#[unsafe(no_mangle)]
pub extern "C" fn sigaction(_signal: i32, _new: *const u8, _old: *mut u8) -> i32 {
    errno::fail(ENOSYS)
}

/// `SIG_ERR`, as for [`sigaction`].
#[unsafe(no_mangle)]
pub extern "C" fn signal(_signal: i32, _handler: usize) -> usize {
    errno::fail(ENOSYS) as usize
}

#[unsafe(no_mangle)]
pub extern "C" fn kill(_process: i32, _signal: i32) -> i32 {
    errno::fail(ENOSYS)
}

#[unsafe(no_mangle)]
pub extern "C" fn raise(_signal: i32) -> i32 {
    errno::fail(ENOSYS)
}

#[unsafe(no_mangle)]
pub extern "C" fn pthread_kill(_thread: *mut u8, _signal: i32) -> i32 {
    ENOSYS
}

#[unsafe(no_mangle)]
pub extern "C" fn sigaltstack(_new: *const u8, _old: *mut u8) -> i32 {
    errno::fail(ENOSYS)
}

/// Changes the mask; returns an error number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_sigmask(how: i32, new: *const SignalSet, old: *mut SignalSet) -> i32 {
    let before = MASK.load(Ordering::Relaxed);
    if !new.is_null() {
        // SAFETY: the caller's set, as the contract says.
        let given = unsafe { (*new).words[0] };
        let after = match how {
            0 => before | given,
            1 => before & !given,
            2 => given,
            _ => return EINVAL,
        };
        MASK.store(after, Ordering::Relaxed);
    }
    if !old.is_null() {
        // SAFETY: as above.
        unsafe { sigemptyset(old) };
        // SAFETY: as above.
        unsafe { (*old).words[0] = before };
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigprocmask(how: i32, new: *const SignalSet, old: *mut SignalSet) -> i32 {
    // SAFETY: the caller's promises are those of `pthread_sigmask`.
    match unsafe { pthread_sigmask(how, new, old) } {
        0 => 0,
        error => errno::fail(error),
    }
}
