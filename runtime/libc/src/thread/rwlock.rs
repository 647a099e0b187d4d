//! `pthread_rwlock_*`: many readers or one writer, on a futex. Writers do not starve: a waiting writer stops new readers.

use crate::errno::{EBUSY, EINVAL, ETIMEDOUT};
use crate::lock::{wait, wake};
use crate::sys;
use crate::time::{Timespec, deadline};
use core::sync::atomic::{AtomicU32, Ordering};

/// A writer holds the lock.
const WRITER: u32 = 0x3fff_ffff;
/// Threads may be waiting.
const WAITERS: u32 = 1 << 31;
/// A writer may be waiting, so new readers wait too.
const WANTED: u32 = 1 << 30;

/// `pthread_rwlock_t`; all zero is free.
#[repr(C)]
pub struct RwLock {
    /// Number of readers, or `WRITER`; with flags.
    word: AtomicU32,
    unused: u32,
}

impl RwLock {
    fn try_read(&self) -> bool {
        let taken = |word: u32| {
            let readers = word & WRITER;
            (readers < WRITER - 1 && word & WANTED == 0).then(|| word + 1)
        };
        self.word.fetch_update(Ordering::Acquire, Ordering::Relaxed, taken).is_ok()
    }

    fn try_write(&self) -> bool {
        let taken = |word: u32| (word & WRITER == 0).then_some(word | WRITER);
        self.word.fetch_update(Ordering::Acquire, Ordering::Relaxed, taken).is_ok()
    }

    /// Takes the lock by `attempt`. While that fails, sets `flags` to announce that it waits, and sleeps.
    fn lock(&self, attempt: fn(&Self) -> bool, flags: u32, until: i64) -> i32 {
        loop {
            if attempt(self) {
                return 0;
            }
            let seen = self.word.load(Ordering::Relaxed);
            let free_now = seen & WRITER == 0 && seen & WANTED == 0;
            if free_now {
                continue;
            }
            let marked = seen | flags;
            if marked != seen && self.word.compare_exchange(seen, marked, Ordering::Relaxed, Ordering::Relaxed).is_err()
            {
                continue;
            }
            if wait(&self.word, marked, until) {
                return ETIMEDOUT;
            }
        }
    }

    fn unlock(&self) {
        let left = |word: u32| {
            let readers = word & WRITER;
            // The last owner clears the flags: it wakes all waiters, and those that still have to wait set the flags
            // again.
            Some(if readers == WRITER || readers <= 1 { 0 } else { word - 1 })
        };
        let before = self.word.fetch_update(Ordering::Release, Ordering::Relaxed, left).unwrap_or(0);
        let readers = before & WRITER;
        if (readers == WRITER || readers <= 1) && before & (WAITERS | WANTED) != 0 {
            wake(&self.word, u32::MAX);
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_init(lock: *mut RwLock, _attr: *const u8) -> i32 {
    // SAFETY: the caller's object.
    unsafe { lock.write(RwLock { word: AtomicU32::new(0), unused: 0 }) };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_destroy(_lock: *mut RwLock) -> i32 {
    0
}

macro_rules! lock_functions {
    ($take:ident, $try:ident, $timed:ident: $attempt:path, $flags:expr) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $take(lock: *const RwLock) -> i32 {
            // SAFETY: an initialised lock, as the contract says.
            unsafe { &*lock }.lock($attempt, $flags, sys::TIME_INFINITE)
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $try(lock: *const RwLock) -> i32 {
            // SAFETY: an initialised lock, as the contract says.
            if $attempt(unsafe { &*lock }) { 0 } else { EBUSY }
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $timed(lock: *const RwLock, until: *const Timespec) -> i32 {
            // SAFETY: the caller's objects.
            match unsafe { deadline(0, *until) } {
                // SAFETY: as above.
                Some(until) => unsafe { &*lock }.lock($attempt, $flags, until),
                None => EINVAL,
            }
        }
    };
}

lock_functions!(pthread_rwlock_rdlock, pthread_rwlock_tryrdlock, pthread_rwlock_timedrdlock: RwLock::try_read, WAITERS);
lock_functions!(pthread_rwlock_wrlock, pthread_rwlock_trywrlock, pthread_rwlock_timedwrlock: RwLock::try_write, WAITERS | WANTED);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_unlock(lock: *const RwLock) -> i32 {
    // SAFETY: a lock that the caller holds, as the contract says.
    unsafe { &*lock }.unlock();
    0
}
