//! `pthread_once` and POSIX semaphores.

use super::cancel;
use crate::c;
use crate::errno::{self, EAGAIN, EINVAL, EOVERFLOW, ETIMEDOUT};
use crate::lock::{wait, wake};
use crate::sys;
use crate::time::{Timespec, deadline};
use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, Ordering};

const NEW: u32 = 0;
const RUNNING: u32 = 1;
const DONE: u32 = 2;

/// The thread ended in the function: the next caller calls it.
unsafe extern "C" fn again(once: *mut c_void) {
    // SAFETY: the object that `pthread_once` named.
    let once = unsafe { AtomicU32::from_ptr(once.cast()) };
    once.store(NEW, Ordering::Release);
    wake(once, u32::MAX);
}

/// Calls `function` once for `once`, even if several threads call this; all return after `function` has returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_once(once: *const AtomicU32, function: extern "C" fn()) -> i32 {
    // SAFETY: the caller's object, initially zero.
    let once = unsafe { &*once };
    loop {
        match once.compare_exchange(NEW, RUNNING, Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => {
                let mut handler = [0usize; 3];
                // SAFETY: the handler lives until it is taken off; if the thread ends before, `once` does, too.
                unsafe {
                    c::_pthread_cleanup_push(handler.as_mut_ptr().cast(), again, once.as_ptr().cast());
                    function();
                    c::_pthread_cleanup_pop(handler.as_mut_ptr().cast(), 0);
                }
                once.store(DONE, Ordering::Release);
                wake(once, u32::MAX);
                return 0;
            }
            Err(DONE) => return 0,
            Err(state) => _ = wait(once, state, sys::TIME_INFINITE),
        }
    }
}

/// `sem_t`.
#[repr(C)]
pub struct Semaphore {
    value: AtomicU32,
    waiters: AtomicU32,
}

impl Semaphore {
    fn try_take(&self) -> bool {
        self.value.fetch_update(Ordering::Acquire, Ordering::Relaxed, |value| value.checked_sub(1)).is_ok()
    }

    fn take(&self, until: i64) -> i32 {
        cancel::pthread_testcancel();
        while !self.try_take() {
            self.waiters.fetch_add(1, Ordering::Relaxed);
            let arguments = [self.value.as_ptr() as usize, 0, 0, until as usize];
            // SAFETY: a futex wait.
            let slept = unsafe { cancel::wait(zx::sys::zx_futex_wait as *const () as usize, arguments) };
            self.waiters.fetch_sub(1, Ordering::Relaxed);
            match slept {
                sys::ERR_TIMED_OUT => return errno::fail(ETIMEDOUT),
                sys::ERR_CANCELED => cancel::pthread_testcancel(),
                _ => {}
            }
        }
        0
    }
}

/// Initialises a semaphore of this process (`shared` is not supported) with a value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_init(semaphore: *mut Semaphore, shared: i32, value: u32) -> i32 {
    if shared != 0 {
        return errno::fail(errno::ENOSYS);
    }
    if value > i32::MAX as u32 {
        return errno::fail(EINVAL);
    }
    // SAFETY: the caller's object.
    unsafe { semaphore.write(Semaphore { value: AtomicU32::new(value), waiters: AtomicU32::new(0) }) };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_destroy(_semaphore: *mut Semaphore) -> i32 {
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_wait(semaphore: *const Semaphore) -> i32 {
    // SAFETY: an initialised semaphore, as the contract says.
    unsafe { &*semaphore }.take(sys::TIME_INFINITE)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_trywait(semaphore: *const Semaphore) -> i32 {
    // SAFETY: an initialised semaphore, as the contract says.
    if unsafe { &*semaphore }.try_take() { 0 } else { errno::fail(EAGAIN) }
}

/// Waits until a time of the realtime clock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_timedwait(semaphore: *const Semaphore, until: *const Timespec) -> i32 {
    // SAFETY: the caller's objects.
    unsafe {
        match deadline(0, *until) {
            Some(until) => (*semaphore).take(until),
            None => errno::fail(EINVAL),
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_post(semaphore: *const Semaphore) -> i32 {
    // SAFETY: an initialised semaphore, as the contract says.
    let semaphore = unsafe { &*semaphore };
    let more = |value: u32| (value < i32::MAX as u32).then(|| value + 1);
    if semaphore.value.fetch_update(Ordering::Release, Ordering::Relaxed, more).is_err() {
        return errno::fail(EOVERFLOW);
    }
    // A waiter that increments `waiters` after this check sees the new value and does not sleep.
    if semaphore.waiters.load(Ordering::SeqCst) > 0 {
        wake(&semaphore.value, 1);
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_getvalue(semaphore: *const Semaphore, value: *mut i32) -> i32 {
    // SAFETY: the caller's objects.
    unsafe { *value = (*semaphore).value.load(Ordering::Relaxed) as i32 };
    0
}
