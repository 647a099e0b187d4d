//! The same as Zircon's libsync: its names, argument types and sizes of objects. An object that is all zero is ready for
//! use. Deadlines and durations are nanoseconds of the monotonic clock.
//!
//! Each function takes pointers to objects that live for the call and are used with these functions alone; a mutex that
//! waits goes with a condition must be held by the caller.
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

/// Three words' room, of which this library uses the first.
#[repr(C)]
#[derive(Debug)]
pub struct sync_condition_t {
    condition: Condition,
    unused: [*mut c_void; 2],
}

const _: () = assert!(size_of::<sync_mutex_t>() == 4 && size_of::<sync_completion_t>() == 4);
const _: () = assert!(size_of::<sync_condition_t>() == 24);

/// Ends the process as a crash: the program uses an object in a way that cannot be right.
#[cold]
pub fn crash() -> ! {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: raises an exception and does not come back.
    unsafe {
        core::arch::asm!("ud2", options(noreturn))
    }
    #[cfg(not(target_arch = "x86_64"))]
    compile_error!("only x86-64 is known here");
}

fn status(result: Result<()>) -> zx_status_t {
    result.map_or_else(|Status(status)| status, |()| 0)
}

/// Takes a mutex; its holder cannot take it again.
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

/// Takes the mutex. A thread that holds it already ends the process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sync_mutex_lock(mutex: *const sync_mutex_t) {
    // SAFETY: the caller's object.
    if lock(unsafe { &*mutex }, MonotonicInstant::INFINITE).is_err() {
        crash()
    }
}

/// As `sync_mutex_lock`, for what is built on top: kept because it is in the interface.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sync_mutex_lock_with_waiter(mutex: *const sync_mutex_t) {
    // SAFETY: as for the caller.
    unsafe { sync_mutex_lock(mutex) }
}

/// Takes the mutex, or gives `ZX_ERR_TIMED_OUT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sync_mutex_timedlock(mutex: *const sync_mutex_t, deadline: zx_time_t) -> zx_status_t {
    // SAFETY: the caller's object.
    status(lock(unsafe { &*mutex }, MonotonicInstant(deadline)))
}

/// Takes the mutex if nobody holds it, or gives `ZX_ERR_BAD_STATE`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sync_mutex_trylock(mutex: *const sync_mutex_t) -> zx_status_t {
    // SAFETY: the caller's object.
    let taken = unsafe { &*mutex }.try_lock(Owner::current());
    status(if taken { Ok(()) } else { Err(Status::BAD_STATE) })
}

/// Gives the mutex back; does nothing if nobody holds it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sync_mutex_unlock(mutex: *const sync_mutex_t) {
    // SAFETY: the caller's object.
    unsafe { &*mutex }.unlock();
}

/// Ends the process unless the calling thread holds the mutex.
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

/// Gives the mutex back, sleeps until the condition is signaled, and takes the mutex again. It may also wake up for no
/// reason.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sync_condition_wait(condition: *const sync_condition_t, mutex: *const sync_mutex_t) {
    // SAFETY: the caller's objects. Without a deadline it cannot fail.
    let _ = unsafe { wait(&*condition, &*mutex, MonotonicInstant::INFINITE) };
}

/// The same until a deadline, after which it gives `ZX_ERR_TIMED_OUT`; the mutex is taken again all the same.
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

/// Waits for the signal, at most for a duration: then it gives `ZX_ERR_TIMED_OUT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sync_completion_wait(
    completion: *const sync_completion_t,
    timeout: zx_duration_t,
) -> zx_status_t {
    let deadline = MonotonicInstant::after(zx::Duration(timeout));
    // SAFETY: the caller's object.
    status(unsafe { &*completion }.wait(deadline))
}

/// Waits for the signal until a deadline: then it gives `ZX_ERR_TIMED_OUT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sync_completion_wait_deadline(
    completion: *const sync_completion_t,
    deadline: zx_time_t,
) -> zx_status_t {
    // SAFETY: the caller's object.
    status(unsafe { &*completion }.wait(MonotonicInstant(deadline)))
}

/// Wakes all waiters, and lets those go on that come later, until the reset.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sync_completion_signal(completion: *const sync_completion_t) {
    // SAFETY: the caller's object.
    unsafe { &*completion }.signal();
}

/// Signals, but moves the waiters to the futex `target`, whose owner becomes `owner`, instead of waking them.
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

/// Takes the signal back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sync_completion_reset(completion: *const sync_completion_t) {
    // SAFETY: the caller's object.
    unsafe { &*completion }.reset();
}

/// Whether it is signaled.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sync_completion_signaled(completion: *const sync_completion_t) -> bool {
    // SAFETY: the caller's object.
    unsafe { &*completion }.is_signaled()
}
