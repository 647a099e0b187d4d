//! `pthread_mutex_*`: normal, recursive and error-checking mutexes on futexes.

use crate::errno::{EBUSY, EDEADLK, EINVAL, EPERM, ETIMEDOUT};
use crate::lock::{wait, wake};
use crate::sys;
use crate::time::{Timespec, deadline};
use core::cell::Cell;
use core::sync::atomic::{AtomicU32, Ordering};

const RECURSIVE: u32 = 1;
const ERRORCHECK: u32 = 2;

const FREE: u32 = 0;
/// Set while somebody may be waiting; the other bits tell who holds the lock.
const WAITERS: u32 = 1 << 31;

/// `pthread_mutex_t`; all zero is a normal mutex that nobody holds.
#[repr(C)]
pub struct Mutex {
    /// The kind.
    kind: u32,
    /// 0, or a number of the owner, with `WAITERS`.
    word: AtomicU32,
    waiters: u32,
    /// Times a recursive mutex was taken again.
    again: Cell<u32>,
}

/// A number for the calling thread that no other living thread has: its handle.
fn owner() -> u32 {
    super::current_handle() & !WAITERS
}

impl Mutex {
    fn try_take(&self) -> bool {
        self.word.compare_exchange(FREE, owner(), Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    fn lock(&self, until: i64) -> i32 {
        if self.try_take() {
            return 0;
        }
        if self.word.load(Ordering::Relaxed) & !WAITERS == owner() {
            match self.kind & 3 {
                RECURSIVE => return self.take_again(),
                ERRORCHECK => return EDEADLK,
                _ => {}
            }
        }
        loop {
            let seen = self.word.load(Ordering::Relaxed);
            if seen == FREE {
                // Others may wait as well: whoever comes by the slow way must wake them.
                let taken = owner() | WAITERS;
                if self.word.compare_exchange(FREE, taken, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                    return 0;
                }
                continue;
            }
            let marked = seen | WAITERS;
            if seen != marked && self.word.compare_exchange(seen, marked, Ordering::Relaxed, Ordering::Relaxed).is_err()
            {
                continue;
            }
            if wait(&self.word, marked, until) == sys::ERR_TIMED_OUT {
                return ETIMEDOUT;
            }
        }
    }

    fn take_again(&self) -> i32 {
        match self.again.get().checked_add(1) {
            Some(again) => {
                self.again.set(again);
                0
            }
            None => crate::errno::EAGAIN,
        }
    }

    fn unlock(&self) -> i32 {
        if self.kind & 3 != 0 {
            if self.word.load(Ordering::Relaxed) & !WAITERS != owner() {
                return EPERM;
            }
            if self.again.get() > 0 {
                self.again.set(self.again.get() - 1);
                return 0;
            }
        }
        if self.word.swap(FREE, Ordering::Release) & WAITERS != 0 {
            wake(&self.word, 1);
        }
        0
    }
}

/// `pthread_mutexattr_t`: the kind.
type Attribute = u32;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutexattr_init(attr: *mut Attribute) -> i32 {
    // SAFETY: the caller's object.
    unsafe { *attr = 0 };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutexattr_destroy(_attr: *mut Attribute) -> i32 {
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutexattr_settype(attr: *mut Attribute, kind: i32) -> i32 {
    if !(0..=ERRORCHECK as i32).contains(&kind) {
        return EINVAL;
    }
    // SAFETY: the caller's object.
    unsafe { *attr = kind as u32 };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutexattr_gettype(attr: *const Attribute, kind: *mut i32) -> i32 {
    // SAFETY: the caller's objects.
    unsafe { *kind = *attr as i32 };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_init(mutex: *mut Mutex, attr: *const Attribute) -> i32 {
    // SAFETY: the caller's objects.
    unsafe {
        let kind = attr.as_ref().copied().unwrap_or(0);
        mutex.write(Mutex { kind, word: AtomicU32::new(FREE), waiters: 0, again: Cell::new(0) });
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_destroy(_mutex: *mut Mutex) -> i32 {
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_lock(mutex: *const Mutex) -> i32 {
    // SAFETY: an initialised mutex, as the contract says.
    unsafe { &*mutex }.lock(sys::TIME_INFINITE)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_trylock(mutex: *const Mutex) -> i32 {
    // SAFETY: an initialised mutex, as the contract says.
    let mutex = unsafe { &*mutex };
    if mutex.try_take() {
        return 0;
    }
    if mutex.kind & 3 == RECURSIVE && mutex.word.load(Ordering::Relaxed) & !WAITERS == owner() {
        return mutex.take_again();
    }
    EBUSY
}

/// Waits until a moment of the realtime clock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_timedlock(mutex: *const Mutex, until: *const Timespec) -> i32 {
    // SAFETY: the caller's objects.
    unsafe {
        match deadline(0, *until) {
            Some(until) => (*mutex).lock(until),
            None => EINVAL,
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_unlock(mutex: *const Mutex) -> i32 {
    // SAFETY: an initialised mutex, as the contract says.
    unsafe { &*mutex }.unlock()
}
