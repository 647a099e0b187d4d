//! `threads.h`: the threads of the C standard. They are the same threads as POSIX's, so a program can mix both sets of
//! functions. Mutexes and conditions are the smaller ones of Zircon's libsync.

use super::attr::Attributes;
use super::mutex::me;
use super::once::pthread_once;
use super::{Start, Thread, cancel, create, current, keys, sched_yield};
use crate::errno::ENOMEM;
use crate::sys;
use crate::time::{Timespec, deadline, nanosleep};
use core::ffi::c_void;
use core::ptr::{null, null_mut};
use core::sync::atomic::AtomicU32;
use sync::{Condition, Mutex};
use zx::MonotonicInstant;

const SUCCESS: i32 = 0;
const BUSY: i32 = 1;
const ERROR: i32 = 2;
const NO_MEMORY: i32 = 3;
const TIMED_OUT: i32 = 4;

/// `mtx_recursive`; `mtx_timed` is 2, and every mutex supports timeouts.
const RECURSIVE: i32 = 1;
const KINDS: i32 = 3;

type Main = extern "C" fn(*mut c_void) -> i32;

/// `cnd_t`: three words, of which only the first is used.
#[repr(C)]
pub struct ConditionVariable {
    condition: Condition,
    unused: [usize; 2],
}

fn either(failed: i32) -> i32 {
    if failed == 0 { SUCCESS } else { ERROR }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thrd_create(out: *mut *mut Thread, start: Main, argument: *mut c_void) -> i32 {
    // SAFETY: as for the caller.
    unsafe { thrd_create_with_name(out, start, argument, null()) }
}

/// Like `thrd_create`, with a name for the kernel, or null. The kernel keeps the first 31 bytes of the name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thrd_create_with_name(
    out: *mut *mut Thread,
    start: Main,
    argument: *mut c_void,
    name: *const u8,
) -> i32 {
    // SAFETY: `out` has room for the result; the name is null or a C string, by contract.
    let made = unsafe { create::create(out, &Attributes::default(), Start::C11(start), argument, name) };
    match made {
        0 => SUCCESS,
        ENOMEM => NO_MEMORY,
        _ => ERROR,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thrd_join(thread: *mut Thread, result: *mut i32) -> i32 {
    let mut value = null_mut();
    // SAFETY: a thread that has not been joined or detached; `result` is null or has room for the result, by contract.
    unsafe {
        let failed = create::pthread_join(thread, &mut value);
        if failed == 0 && !result.is_null() {
            *result = value as usize as i32;
        }
        either(failed)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thrd_detach(thread: *mut Thread) -> i32 {
    // SAFETY: as for the caller.
    either(unsafe { create::pthread_detach(thread) })
}

#[unsafe(no_mangle)]
pub extern "C" fn thrd_exit(result: i32) -> ! {
    // SAFETY: ends the calling thread.
    unsafe { create::pthread_exit(result as usize as *mut c_void) }
}

#[unsafe(no_mangle)]
pub extern "C" fn thrd_current() -> *mut Thread {
    current()
}

#[unsafe(no_mangle)]
pub extern "C" fn thrd_equal(left: *mut Thread, right: *mut Thread) -> i32 {
    i32::from(left == right)
}

#[unsafe(no_mangle)]
pub extern "C" fn thrd_yield() {
    sched_yield();
}

/// Sleeps for a duration; returns 0, or -2 if the duration is invalid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thrd_sleep(time: *const Timespec, remaining: *mut Timespec) -> i32 {
    // SAFETY: as for the caller.
    if unsafe { nanosleep(time, remaining) } == 0 { 0 } else { -2 }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn call_once(once: *const AtomicU32, function: extern "C" fn()) {
    // SAFETY: as for the caller.
    unsafe { pthread_once(once, function) };
}

/// Initialises a mutex. A mutex of one word has no room for a count, so recursive mutexes are not supported.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtx_init(mutex: *mut Mutex, kind: i32) -> i32 {
    if kind & RECURSIVE != 0 || kind & !KINDS != 0 {
        return ERROR;
    }
    // SAFETY: the caller's object.
    unsafe { mutex.write(Mutex::new()) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtx_destroy(_mutex: *mut Mutex) {}

fn lock(mutex: &Mutex, until: i64) -> i32 {
    if mutex.lock(me(), MonotonicInstant(until)).is_ok() { SUCCESS } else { TIMED_OUT }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtx_lock(mutex: *const Mutex) -> i32 {
    // SAFETY: an initialised mutex, as the contract says.
    lock(unsafe { &*mutex }, sys::TIME_INFINITE)
}

/// Waits until a time of the realtime clock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtx_timedlock(mutex: *const Mutex, until: *const Timespec) -> i32 {
    // SAFETY: the caller's objects.
    match unsafe { deadline(0, *until) } {
        // SAFETY: as above.
        Some(until) => lock(unsafe { &*mutex }, until),
        None => ERROR,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtx_trylock(mutex: *const Mutex) -> i32 {
    // SAFETY: an initialised mutex, as the contract says.
    if unsafe { &*mutex }.try_lock(me()) { SUCCESS } else { BUSY }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtx_unlock(mutex: *const Mutex) -> i32 {
    // SAFETY: a mutex that the caller holds, as the contract says.
    unsafe { &*mutex }.unlock();
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cnd_init(cond: *mut ConditionVariable) -> i32 {
    // SAFETY: the caller's object.
    unsafe { cond.write(ConditionVariable { condition: Condition::new(), unused: [0; 2] }) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cnd_destroy(_cond: *mut ConditionVariable) {}

fn wait(cond: &ConditionVariable, mutex: &Mutex, until: i64) -> i32 {
    cancel::pthread_testcancel();
    let ticket = cond.condition.ticket();
    mutex.unlock();
    let slept = cond.condition.sleep_by(ticket, |word, value| {
        let arguments = [word.as_ptr() as usize, value as usize, 0, until as usize];
        // SAFETY: a futex wait.
        unsafe { cancel::wait(zx::sys::zx_futex_wait as *const () as usize, arguments) }
    });
    lock(mutex, sys::TIME_INFINITE);
    match slept {
        sys::ERR_TIMED_OUT => return TIMED_OUT,
        sys::ERR_CANCELED => cancel::pthread_testcancel(),
        _ => {}
    }
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cnd_wait(cond: *const ConditionVariable, mutex: *const Mutex) -> i32 {
    // SAFETY: the caller's objects; the caller holds the mutex.
    unsafe { wait(&*cond, &*mutex, sys::TIME_INFINITE) }
}

/// Waits until a time of the realtime clock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cnd_timedwait(
    cond: *const ConditionVariable,
    mutex: *const Mutex,
    until: *const Timespec,
) -> i32 {
    // SAFETY: the caller's objects; the caller holds the mutex.
    unsafe {
        match deadline(0, *until) {
            Some(until) => wait(&*cond, &*mutex, until),
            None => ERROR,
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cnd_signal(cond: *const ConditionVariable) -> i32 {
    // SAFETY: the caller's object.
    unsafe { &*cond }.condition.notify(1);
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cnd_broadcast(cond: *const ConditionVariable) -> i32 {
    // SAFETY: the caller's object.
    unsafe { &*cond }.condition.notify(u32::MAX);
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tss_create(key: *mut u32, destructor: Option<keys::Destroy>) -> i32 {
    // SAFETY: `key` has room for the result.
    either(unsafe { keys::pthread_key_create(key, destructor) })
}

#[unsafe(no_mangle)]
pub extern "C" fn tss_delete(key: u32) {
    keys::pthread_key_delete(key);
}

#[unsafe(no_mangle)]
pub extern "C" fn tss_get(key: u32) -> *mut c_void {
    keys::pthread_getspecific(key)
}

#[unsafe(no_mangle)]
pub extern "C" fn tss_set(key: u32, value: *const c_void) -> i32 {
    either(keys::pthread_setspecific(key, value))
}
