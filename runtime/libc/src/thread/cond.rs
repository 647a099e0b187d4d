//! `pthread_cond_*`: condition variables for `pthread_mutex_t`.

use super::cancel;
use super::mutex::{Mutex, pthread_mutex_lock, pthread_mutex_unlock};
use crate::errno::{EINVAL, ETIMEDOUT};
use crate::sys;
use crate::time::{Timespec, deadline};

/// `pthread_cond_t`; all zero is initialised, with the realtime clock.
#[repr(C)]
pub struct Condition {
    condition: sync::Condition,
    unused: u32,
    clock: i32,
    more: [u32; 5],
}

/// `pthread_condattr_t`: the clock.
type Attribute = i32;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_condattr_init(attr: *mut Attribute) -> i32 {
    // SAFETY: the caller's object.
    unsafe { *attr = 0 };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_condattr_destroy(_attr: *mut Attribute) -> i32 {
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_condattr_setclock(attr: *mut Attribute, clock: i32) -> i32 {
    if !(0..=1).contains(&clock) {
        return EINVAL;
    }
    // SAFETY: the caller's object.
    unsafe { *attr = clock };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_condattr_getclock(attr: *const Attribute, clock: *mut i32) -> i32 {
    // SAFETY: the caller's objects.
    unsafe { *clock = *attr };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_init(cond: *mut Condition, attr: *const Attribute) -> i32 {
    // SAFETY: the caller's objects.
    unsafe {
        let clock = attr.as_ref().copied().unwrap_or(0);
        cond.write(Condition { condition: sync::Condition::new(), unused: 0, clock, more: [0; 5] });
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_destroy(_cond: *mut Condition) -> i32 {
    0
}

unsafe fn wait_until(cond: &Condition, mutex: *const Mutex, until: i64) -> i32 {
    cancel::pthread_testcancel();
    let ticket = cond.condition.ticket();
    // SAFETY: a mutex that the caller holds.
    unsafe {
        let failed = pthread_mutex_unlock(mutex);
        if failed != 0 {
            return failed;
        }
        let slept = cond.condition.sleep_by(ticket, |word, value| {
            let arguments = [word.as_ptr() as usize, value as usize, 0, until as usize];
            cancel::wait(zx::sys::zx_futex_wait as *const () as usize, arguments)
        });
        let failed = pthread_mutex_lock(mutex);
        if slept == sys::ERR_CANCELED {
            // Nothing has woken this thread, so the condition may have neither waiters nor memory any more.
            cancel::pthread_testcancel();
        }
        if failed == 0 && slept == sys::ERR_TIMED_OUT { ETIMEDOUT } else { failed }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_wait(cond: *const Condition, mutex: *const Mutex) -> i32 {
    // SAFETY: the caller's objects; the caller holds the mutex.
    unsafe { wait_until(&*cond, mutex, sys::TIME_INFINITE) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_timedwait(
    cond: *const Condition,
    mutex: *const Mutex,
    until: *const Timespec,
) -> i32 {
    // SAFETY: the caller's objects; the caller holds the mutex.
    unsafe {
        match deadline((*cond).clock, *until) {
            Some(until) => wait_until(&*cond, mutex, until),
            None => EINVAL,
        }
    }
}

fn notify(cond: &Condition, count: u32) -> i32 {
    cond.condition.notify(count);
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_signal(cond: *const Condition) -> i32 {
    // SAFETY: the caller's object.
    notify(unsafe { &*cond }, 1)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_broadcast(cond: *const Condition) -> i32 {
    // SAFETY: the caller's object.
    notify(unsafe { &*cond }, u32::MAX)
}
