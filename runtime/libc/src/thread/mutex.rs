//! `pthread_mutex_*`: normal, recursive and error-checking mutexes on futexes.

use super::current_handle;
use crate::errno::{EAGAIN, EBUSY, EDEADLK, EINVAL, ENOTSUP, EPERM, ETIMEDOUT};
use crate::sys;
use crate::time::{Timespec, deadline};
use core::cell::Cell;
use sync::Owner;
use zx::MonotonicInstant;

const RECURSIVE: u32 = 1;
const ERRORCHECK: u32 = 2;

/// `pthread_mutex_t`; all zero is a free normal mutex.
#[repr(C)]
pub struct Mutex {
    /// Its type.
    kind: u32,
    lock: sync::Mutex,
    unused: u32,
    /// Number of times that a recursive mutex was locked again. Only its owner accesses it.
    again: Cell<u32>,
}

/// The calling thread as an owner.
pub fn me() -> Owner {
    Owner::of(current_handle())
}

impl Mutex {
    fn lock(&self, until: i64) -> i32 {
        let me = me();
        if self.lock.try_lock(me) {
            return 0;
        }
        if self.lock.is_held_by(me) {
            match self.kind {
                RECURSIVE => return self.take_again(),
                ERRORCHECK => return EDEADLK,
                _ => {}
            }
        }
        if self.lock.lock(me, MonotonicInstant(until)).is_ok() { 0 } else { ETIMEDOUT }
    }

    fn try_lock(&self) -> i32 {
        let me = me();
        if self.lock.try_lock(me) {
            return 0;
        }
        if self.kind == RECURSIVE && self.lock.is_held_by(me) { self.take_again() } else { EBUSY }
    }

    fn take_again(&self) -> i32 {
        match self.again.get().checked_add(1) {
            Some(again) => {
                self.again.set(again);
                0
            }
            None => EAGAIN,
        }
    }

    fn unlock(&self) -> i32 {
        if self.kind != 0 {
            if !self.lock.is_held_by(me()) {
                return EPERM;
            }
            if self.again.get() > 0 {
                self.again.set(self.again.get() - 1);
                return 0;
            }
        }
        self.lock.unlock();
        0
    }
}

/// `pthread_mutexattr_t`: the mutex type.
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

/// There is no priority inheritance: the only protocol is `PTHREAD_PRIO_NONE`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutexattr_setprotocol(_attr: *mut Attribute, protocol: i32) -> i32 {
    match protocol {
        0 => 0,
        1 | 2 => ENOTSUP,
        _ => EINVAL,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutexattr_getprotocol(_attr: *const Attribute, protocol: *mut i32) -> i32 {
    // SAFETY: the caller's object.
    unsafe { *protocol = 0 };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_init(mutex: *mut Mutex, attr: *const Attribute) -> i32 {
    // SAFETY: the caller's objects.
    unsafe {
        let kind = attr.as_ref().copied().unwrap_or(0);
        mutex.write(Mutex { kind, lock: sync::Mutex::new(), unused: 0, again: Cell::new(0) });
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
    unsafe { &*mutex }.try_lock()
}

/// Waits until a time of the realtime clock.
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
