//! Zircon's libsync: the same names, argument types and object sizes. An object that is all zero is initialised.
//! Deadlines and durations are in nanoseconds of the monotonic clock.
//!
//! Every function takes pointers to objects that live for the duration of the call and that only these functions
//! access. The caller of a condition's wait functions must hold the mutex.
#![allow(clippy::missing_safety_doc, reason = "the head of the module says it for all")]
#![allow(non_camel_case_types, reason = "the names are Zircon's")]

use core::ffi::c_void;
use core::sync::atomic::AtomicU32;

use zx::sys::{zx_duration_t, zx_futex_t, zx_handle_t, zx_status_t, zx_time_t};
use zx::{HandleRef, MonotonicInstant, Result, Status};

use crate::{Completion, Condition, Mutex, Owner};

/// One word.
pub type sync_mutex_t = Mutex;
/// One word.
pub type sync_completion_t = Completion;

/// Has the size of three words, of which this library uses the first.
#[repr(C)]
#[derive(Debug)]
pub struct sync_condition_t {
    condition: Condition,
    unused: [*mut c_void; 2],
}

const _: () = assert!(size_of::<sync_mutex_t>() == 4 && size_of::<sync_completion_t>() == 4);
const _: () = assert!(size_of::<sync_condition_t>() == 24);

/// Ends the process with an exception, because the program uses an object incorrectly.
#[cold]
pub fn crash() -> ! {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: raises an exception and does not return.
    unsafe {
        core::arch::asm!("ud2", options(noreturn))
    }
    #[cfg(not(target_arch = "x86_64"))]
    compile_error!("only x86-64 is known here");
}

fn status(result: Result<()>) -> zx_status_t {
    result.map_or_else(|Status(status)| status, |()| 0)
}

/// Locks a mutex. A thread that already holds it must not lock it again.
fn lock(mutex: &Mutex, deadline: MonotonicInstant) -> Result<()> {
    let me = Owner::current();
    if mutex.try_lock(me) {
        return Ok(());
    }
    if mutex.is_held_by(me) {
        crash()
    }
    mutex.lock(me, deadline)
}

/// Locks the mutex. If the calling thread already holds it, the process crashes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sync_mutex_lock(mutex: *const sync_mutex_t) {
    // SAFETY: the caller's object.
    if lock(unsafe { &*mutex }, MonotonicInstant::INFINITE).is_err() {
        crash()
    }
}

/// The same as `sync_mutex_lock`; part of the interface for code on top of libsync.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sync_mutex_lock_with_waiter(mutex: *const sync_mutex_t) {
    // SAFETY: as for the caller.
    unsafe { sync_mutex_lock(mutex) }
}

/// Locks the mutex, or returns `ZX_ERR_TIMED_OUT` at the deadline.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sync_mutex_timedlock(mutex: *const sync_mutex_t, deadline: zx_time_t) -> zx_status_t {
    // SAFETY: the caller's object.
    status(lock(unsafe { &*mutex }, MonotonicInstant(deadline)))
}

/// Locks the mutex if it is free; otherwise returns `ZX_ERR_BAD_STATE`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sync_mutex_trylock(mutex: *const sync_mutex_t) -> zx_status_t {
    // SAFETY: the caller's object.
    let taken = unsafe { &*mutex }.try_lock(Owner::current());
    status(if taken { Ok(()) } else { Err(Status::BAD_STATE) })
}

/// Unlocks the mutex; does nothing if it is free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sync_mutex_unlock(mutex: *const sync_mutex_t) {
    // SAFETY: the caller's object.
    unsafe { &*mutex }.unlock();
}

/// Crashes the process unless the calling thread holds the mutex.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sync_mutex_assert_held(mutex: *const sync_mutex_t) {
    // SAFETY: the caller's object.
    if !unsafe { &*mutex }.is_held_by(Owner::current()) {
        crash()
    }
}

fn wait(condition: &sync_condition_t, mutex: &Mutex, deadline: MonotonicInstant) -> Result<()> {
    let me = Owner::current();
    let ticket = condition.condition.ticket();
    mutex.unlock();
    let slept = condition.condition.sleep(ticket, deadline);
    mutex.lock(me, MonotonicInstant::INFINITE)?;
    slept
}

/// Unlocks the mutex, sleeps until the condition is signaled, and locks the mutex again. Spurious wake-ups are
/// possible.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sync_condition_wait(condition: *const sync_condition_t, mutex: *const sync_mutex_t) {
    // SAFETY: the caller's objects. Without a deadline, the wait cannot fail.
    let _ = unsafe { wait(&*condition, &*mutex, MonotonicInstant::INFINITE) };
}

/// Like `sync_condition_wait`, but returns `ZX_ERR_TIMED_OUT` at the deadline; the mutex is locked again in any case.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sync_condition_timedwait(
    condition: *const sync_condition_t,
    mutex: *const sync_mutex_t,
    deadline: zx_time_t,
) -> zx_status_t {
    // SAFETY: the caller's objects.
    status(unsafe { wait(&*condition, &*mutex, MonotonicInstant(deadline)) })
}

/// Wakes one waiter.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sync_condition_signal(condition: *const sync_condition_t) {
    // SAFETY: the caller's object.
    unsafe { &*condition }.condition.notify(1);
}

/// Wakes all waiters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sync_condition_broadcast(condition: *const sync_condition_t) {
    // SAFETY: the caller's object.
    unsafe { &*condition }.condition.notify(u32::MAX);
}

/// Waits for the signal; after the duration `timeout`, returns `ZX_ERR_TIMED_OUT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sync_completion_wait(
    completion: *const sync_completion_t,
    timeout: zx_duration_t,
) -> zx_status_t {
    let deadline = MonotonicInstant::after(zx::Duration(timeout));
    // SAFETY: the caller's object.
    status(unsafe { &*completion }.wait(deadline))
}

/// Waits for the signal; at the deadline, returns `ZX_ERR_TIMED_OUT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sync_completion_wait_deadline(
    completion: *const sync_completion_t,
    deadline: zx_time_t,
) -> zx_status_t {
    // SAFETY: the caller's object.
    status(unsafe { &*completion }.wait(MonotonicInstant(deadline)))
}

/// Sets the signal: wakes all waiters; later waits return at once, until the reset.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sync_completion_signal(completion: *const sync_completion_t) {
    // SAFETY: the caller's object.
    unsafe { &*completion }.signal();
}

/// Sets the signal, but moves the waiters to the futex `target` instead of waking them; `owner` becomes that futex's
/// owner.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sync_completion_signal_requeue(
    completion: *const sync_completion_t,
    target: *const zx_futex_t,
    owner: zx_handle_t,
) {
    let owner = (owner != 0).then(|| HandleRef::from_raw(owner));
    // SAFETY: the caller's objects; a futex is a word for atomic access.
    unsafe { (*completion).signal_requeue(&*target.cast::<AtomicU32>(), owner) };
}

/// Clears the signal.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sync_completion_reset(completion: *const sync_completion_t) {
    // SAFETY: the caller's object.
    unsafe { &*completion }.reset();
}

/// Whether the signal is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sync_completion_signaled(completion: *const sync_completion_t) -> bool {
    // SAFETY: the caller's object.
    unsafe { &*completion }.is_signaled()
}
