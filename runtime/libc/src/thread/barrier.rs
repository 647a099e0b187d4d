//! `pthread_barrier_*` and `pthread_spin_*`.

use crate::errno::{EBUSY, EINVAL};
use crate::lock::{RawLock, wait, wake};
use crate::sys;
use core::sync::atomic::{AtomicU32, Ordering};

/// What one of the threads is given that a barrier lets go.
const SERIAL_THREAD: i32 = -1;
/// Somebody waits to destroy the barrier.
const ENDING: u32 = 1 << 31;

/// `pthread_barrier_t`.
#[repr(C)]
pub struct Barrier {
    /// How many threads make a round.
    limit: u32,
    /// How many of this round have come.
    arrived: AtomicU32,
    /// Rounds so far.
    round: AtomicU32,
    /// Threads that have not left the functions here: the memory may be gone after the last has. With `ENDING`.
    inside: AtomicU32,
}

impl Barrier {
    fn wait(&self) -> i32 {
        self.inside.fetch_add(1, Ordering::Relaxed);
        // It cannot go on before this thread has come.
        let round = self.round.load(Ordering::Acquire);
        let last = self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.limit;
        if last {
            self.arrived.store(0, Ordering::Relaxed);
            self.round.fetch_add(1, Ordering::Release);
            wake(&self.round, u32::MAX);
        } else {
            while self.round.load(Ordering::Acquire) == round {
                wait(&self.round, round, sys::TIME_INFINITE);
            }
        }
        if self.inside.fetch_sub(1, Ordering::AcqRel) == ENDING | 1 {
            wake(&self.inside, 1);
        }
        if last { SERIAL_THREAD } else { 0 }
    }

    /// Waits until the threads that were let go are out.
    fn end(&self) {
        let mut seen = self.inside.fetch_or(ENDING, Ordering::AcqRel) | ENDING;
        while seen != ENDING {
            wait(&self.inside, seen, sys::TIME_INFINITE);
            seen = self.inside.load(Ordering::Acquire);
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_barrierattr_init(attr: *mut u32) -> i32 {
    // SAFETY: the caller's object.
    unsafe { *attr = 0 };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_barrierattr_destroy(_attr: *mut u32) -> i32 {
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_barrier_init(barrier: *mut Barrier, _attr: *const u32, count: u32) -> i32 {
    if count == 0 || count >= ENDING {
        return EINVAL;
    }
    let new = || AtomicU32::new(0);
    // SAFETY: the caller's object.
    unsafe { barrier.write(Barrier { limit: count, arrived: new(), round: new(), inside: new() }) };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_barrier_destroy(barrier: *const Barrier) -> i32 {
    // SAFETY: an initialised barrier that nobody is about to wait for, as the contract says.
    unsafe { &*barrier }.end();
    0
}

/// Waits until as many threads have come as make a round. One of them is given -1, the others 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_barrier_wait(barrier: *const Barrier) -> i32 {
    // SAFETY: an initialised barrier, as the contract says.
    unsafe { &*barrier }.wait()
}

/// With threads that may be anywhere, spinning is worse than sleeping: these are ordinary locks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_spin_init(lock: *mut RawLock, _shared: i32) -> i32 {
    // SAFETY: the caller's object.
    unsafe { lock.write(RawLock::new()) };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_spin_destroy(_lock: *mut RawLock) -> i32 {
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_spin_lock(lock: *const RawLock) -> i32 {
    // SAFETY: an initialised lock, as the contract says.
    unsafe { &*lock }.lock();
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_spin_trylock(lock: *const RawLock) -> i32 {
    // SAFETY: an initialised lock, as the contract says.
    if unsafe { &*lock }.try_lock() { 0 } else { EBUSY }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_spin_unlock(lock: *const RawLock) -> i32 {
    // SAFETY: a lock that the caller holds, as the contract says.
    unsafe { &*lock }.unlock();
    0
}
