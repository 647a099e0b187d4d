//! Mutexes, locks for readers and writers, conditions.

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::AtomicU32;

use rump_logic::error::{EBUSY, ETIMEDOUT};
use rump_logic::rwlock::Access;
use rump_logic::{Condition, Futex, Mutex, RwLock, Slept, time};
use zx::{MonotonicInstant, Status};

use crate::arch::current;
use crate::{c, kernel};

/// The system's futexes.
pub struct Futexes;

impl Futex for Futexes {
    fn sleep(word: &AtomicU32, value: u32, deadline: i64) -> Slept {
        match zx::futex_wait(word, value, None, MonotonicInstant(deadline)) {
            Err(Status::TIMED_OUT) => Slept::TimedOut,
            _ => Slept::Woken,
        }
    }

    fn wake(word: &AtomicU32, count: u32) {
        // It fails only for an invalid address.
        let _ = zx::futex_wake(word, count);
    }
}

/// A value of the library's own, with its mutex. The rump CPU is kept.
pub struct Locked<T> {
    mutex: Mutex,
    value: UnsafeCell<T>,
}

// SAFETY: `with` accesses the value only while it holds the mutex.
unsafe impl<T: Send> Sync for Locked<T> {}

impl<T> Locked<T> {
    pub const fn new(value: T) -> Locked<T> {
        Locked { mutex: Mutex::internal(), value: UnsafeCell::new(value) }
    }

    /// Works on the value.
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        self.mutex.enter::<Futexes>(0);
        // SAFETY: the mutex is held.
        let result = work(unsafe { &mut *self.value.get() });
        self.mutex.exit::<Futexes>();
        result
    }
}

/// Locks have a line of the processor's cache each, so that one lock's waiters do not slow down another's.
const ALIGN: usize = 64;

/// Makes an object on the heap.
fn make<T>(value: T, to: *mut *mut T) {
    const { assert!(align_of::<T>() <= ALIGN) };
    // SAFETY: no memory involved but the heap's.
    let place: *mut T = unsafe { c::aligned_alloc(ALIGN, size_of::<T>().next_multiple_of(ALIGN)) }.cast();
    if place.is_null() {
        // The interface has no error for it.
        c::die("there is no memory for a lock");
    }
    // SAFETY: the new place is large enough and aligned, and `to` is the caller's variable.
    unsafe {
        place.write(value);
        *to = place;
    }
}

/// Frees it.
fn unmake<T>(object: *mut T) {
    // SAFETY: from `make`, and the caller gives it up. The types need no drop.
    unsafe { c::free(object.cast::<c_void>()) };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_mutex_init(to: *mut *mut Mutex, flags: c_int) {
    match Mutex::new(flags.cast_unsigned()) {
        Some(mutex) => make(mutex, to),
        None => c::die("a mutex with unknown flags"),
    }
}

/// Takes the mutex. A wait for one that is not a spin mutex releases the rump CPU.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_mutex_enter(mutex: *const Mutex) {
    // SAFETY: the kernel's mutex, here and below.
    let mutex = unsafe { &*mutex };
    let me = current();
    if mutex.try_enter(me) {
        return;
    }
    if mutex.is_spin() {
        mutex.enter::<Futexes>(me);
    } else {
        // The thread keeps its identity: releasing the CPU clears the variable, and getting one sets it again.
        kernel::outside(|| mutex.enter::<Futexes>(me));
    }
}

/// Takes the mutex and keeps the rump CPU, or has none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_mutex_enter_nowrap(mutex: *const Mutex) {
    // SAFETY: as above.
    unsafe { &*mutex }.enter::<Futexes>(current());
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_mutex_tryenter(mutex: *const Mutex) -> c_int {
    // SAFETY: as above.
    if unsafe { &*mutex }.try_enter(current()) { 0 } else { EBUSY }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_mutex_exit(mutex: *const Mutex) {
    // SAFETY: as above.
    unsafe { &*mutex }.exit::<Futexes>();
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_mutex_destroy(mutex: *mut Mutex) {
    unmake(mutex);
}

/// The kernel's thread that holds the mutex.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_mutex_owner(mutex: *const Mutex, to: *mut usize) {
    // SAFETY: as above; `to` is the caller's variable for a pointer.
    unsafe { *to = (*mutex).owner() };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_rw_init(to: *mut *mut RwLock) {
    make(RwLock::new(), to);
}

fn access(raw: c_int) -> Access {
    Access::from_raw(raw).unwrap_or_else(|| c::die("a lock is entered neither for reading nor for writing"))
}

/// Enters; a wait releases the rump CPU.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_rw_enter(kind: c_int, lock: *const RwLock) {
    // SAFETY: the kernel's lock, here and below.
    let lock = unsafe { &*lock };
    let (access, me) = (access(kind), current());
    if !lock.try_enter(access, me) {
        kernel::outside(|| lock.enter::<Futexes>(access, me));
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_rw_tryenter(kind: c_int, lock: *const RwLock) -> c_int {
    // SAFETY: as above.
    if unsafe { &*lock }.try_enter(access(kind), current()) { 0 } else { EBUSY }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_rw_tryupgrade(lock: *const RwLock) -> c_int {
    // SAFETY: as above.
    if unsafe { &*lock }.try_upgrade(current()) { 0 } else { EBUSY }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_rw_downgrade(lock: *const RwLock) {
    // SAFETY: as above.
    unsafe { &*lock }.downgrade::<Futexes>();
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_rw_exit(lock: *const RwLock) {
    // SAFETY: as above.
    unsafe { &*lock }.exit::<Futexes>();
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_rw_destroy(lock: *mut RwLock) {
    unmake(lock);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_rw_held(kind: c_int, lock: *const RwLock, to: *mut c_int) {
    // SAFETY: as above; `to` is the caller's variable.
    unsafe { *to = c_int::from((*lock).is_held(access(kind), current())) };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_cv_init(to: *mut *mut Condition) {
    make(Condition::new(), to);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_cv_destroy(condition: *mut Condition) {
    unmake(condition);
}

/// Waits, and releases the rump CPU and the mutex for it.
///
/// The kernel's scheduler gets the mutex as interlock. If it is one of the scheduler's own, the scheduler takes it while
/// it releases the CPU, and gives it back with the next one: the caller need not hold it. So the ticket comes first.
fn wait(condition: &Condition, mutex: &Mutex, deadline: i64) -> Slept {
    let (interlock, me) = (ptr::from_ref(mutex).cast_mut().cast(), current());
    let ticket = condition.ticket();
    let locks = kernel::release(interlock);
    mutex.exit::<Futexes>();
    let slept = condition.sleep::<Futexes>(ticket, deadline);
    condition.leave();
    if mutex.comes_after_cpu() {
        kernel::take(locks, interlock);
        mutex.enter::<Futexes>(me);
    } else {
        mutex.enter::<Futexes>(me);
        kernel::take(locks, interlock);
    }
    slept
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_cv_wait(condition: *const Condition, mutex: *const Mutex) {
    // SAFETY: the kernel's objects, here and below.
    wait(unsafe { &*condition }, unsafe { &*mutex }, Futexes::FOREVER);
}

/// Waits and keeps the rump CPU, or has none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_cv_wait_nowrap(condition: *const Condition, mutex: *const Mutex) {
    // SAFETY: as above.
    let (condition, mutex) = unsafe { (&*condition, &*mutex) };
    let ticket = condition.ticket();
    mutex.exit::<Futexes>();
    let _ = condition.sleep::<Futexes>(ticket, Futexes::FOREVER);
    condition.leave();
    mutex.enter::<Futexes>(current());
}

/// Waits for at most this long.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_cv_timedwait(
    condition: *const Condition,
    mutex: *const Mutex,
    seconds: i64,
    nanoseconds: i64,
) -> c_int {
    let deadline = time::deadline(MonotonicInstant::now().0, seconds, nanoseconds);
    // SAFETY: as above.
    match wait(unsafe { &*condition }, unsafe { &*mutex }, deadline) {
        Slept::Woken => 0,
        Slept::TimedOut => ETIMEDOUT,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_cv_signal(condition: *const Condition) {
    // SAFETY: as above.
    unsafe { &*condition }.signal::<Futexes>();
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_cv_broadcast(condition: *const Condition) {
    // SAFETY: as above.
    unsafe { &*condition }.broadcast::<Futexes>();
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_cv_has_waiters(condition: *const Condition, to: *mut c_int) {
    // SAFETY: as above; `to` is the caller's variable.
    unsafe { *to = (*condition).waiters().try_into().unwrap_or(c_int::MAX) };
}
