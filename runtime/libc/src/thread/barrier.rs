//! `pthread_barrier_*` and `pthread_spin_*`.

use crate::errno::{EBUSY, EINVAL};
use crate::lock::{RawLock, wait, wake};
use crate::sys;
use core::sync::atomic::{AtomicU32, Ordering};

/// Return value of one of the threads that pass a barrier.
const SERIAL_THREAD: i32 = -1;
/// A thread waits to destroy the barrier.
const ENDING: u32 = 1 << 31;

/// `pthread_barrier_t`.
#[repr(C)]
pub struct Barrier {
    /// Number of threads in a round.
    limit: u32,
    /// Number of threads that have arrived in this round.
    arrived: AtomicU32,
    /// Number of completed rounds.
    round: AtomicU32,
    /// Number of threads inside of these functions, with the flag `ENDING`. The memory can be freed after the last has
    /// left.
    inside: AtomicU32,
}

impl Barrier {
    fn wait(&self) -> i32 {
        self.inside.fetch_add(1, Ordering::Relaxed);
        // The round cannot end before this thread arrives.
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

    /// Waits until the released threads have left.
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
    // SAFETY: an initialised barrier that no thread is about to wait on, by contract.
    unsafe { &*barrier }.end();
    0
}

/// Waits until a full round of threads has arrived. One thread gets -1, the others 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_barrier_wait(barrier: *const Barrier) -> i32 {
    // SAFETY: an initialised barrier, as the contract says.
    unsafe { &*barrier }.wait()
}

/// Threads can be preempted at any time, so spinning is worse than sleeping: spin locks are ordinary locks.
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
