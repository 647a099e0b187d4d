//! `pthread.h` and `semaphore.h`.

use std::ffi::{CStr, c_char, c_void};

use crate::{pack, room, timespec, unpack};

pub const ENOMEM: i32 = 12;
pub const EAGAIN: i32 = 11;
pub const EBUSY: i32 = 16;
pub const EDEADLK: i32 = 35;
pub const EINVAL: i32 = 22;
pub const ENOTSUP: i32 = 95;
pub const EPERM: i32 = 1;
pub const ERANGE: i32 = 34;
pub const ETIMEDOUT: i32 = 110;
pub const PTHREAD_BARRIER_SERIAL_THREAD: i32 = -1;
pub const PTHREAD_CREATE_DETACHED: i32 = 1;
pub const PTHREAD_MUTEX_NORMAL: i32 = 0;
pub const PTHREAD_MUTEX_RECURSIVE: i32 = 1;
pub const PTHREAD_MUTEX_ERRORCHECK: i32 = 2;

/// A thread.
pub type pthread_t = usize;

room! {
    pthread_mutex_t: [u64; 5];
    pthread_mutexattr_t: u32;
    pthread_cond_t: [u64; 6];
    pthread_condattr_t: u32;
    pthread_rwlock_t: [u64; 7];
    pthread_barrier_t: [u64; 4];
    pthread_once_t: u32;
    pthread_spinlock_t: u32;
    pthread_attr_t: [u64; 7];
    sem_t: [u64; 4];
}

type Main = extern "C" fn(*mut c_void) -> usize;

unsafe extern "C" {
    fn pthread_create(out: *mut pthread_t, attr: Option<&pthread_attr_t>, start: Main, argument: *mut c_void) -> i32;
    fn pthread_join(thread: pthread_t, result: *mut usize) -> i32;
    fn pthread_setname_np(thread: pthread_t, name: *const c_char) -> i32;
    fn pthread_getname_np(thread: pthread_t, name: *mut c_char, size: usize) -> i32;
    pub safe fn pthread_detach(thread: pthread_t) -> i32;
    pub safe fn pthread_exit(result: usize) -> !;
    pub safe fn pthread_cancel(thread: pthread_t) -> i32;
    pub safe fn pthread_testcancel();
    pub safe fn pthread_self() -> pthread_t;
    pub safe fn pthread_equal(left: pthread_t, right: pthread_t) -> i32;
    /// The library keeps ownership of the handle.
    pub safe fn pthread_get_zx_handle(thread: pthread_t) -> u32;
    pub safe fn pthread_once(once: &pthread_once_t, function: extern "C" fn()) -> i32;
    pub safe fn sched_yield() -> i32;

    pub safe fn pthread_attr_init(attr: &pthread_attr_t) -> i32;
    pub safe fn pthread_attr_destroy(attr: &pthread_attr_t) -> i32;
    pub safe fn pthread_attr_setstacksize(attr: &pthread_attr_t, size: usize) -> i32;
    pub safe fn pthread_attr_getstacksize(attr: &pthread_attr_t, size: &mut usize) -> i32;
    pub safe fn pthread_attr_setguardsize(attr: &pthread_attr_t, size: usize) -> i32;
    pub safe fn pthread_attr_getguardsize(attr: &pthread_attr_t, size: &mut usize) -> i32;
    pub safe fn pthread_attr_setdetachstate(attr: &pthread_attr_t, state: i32) -> i32;
    pub safe fn pthread_attr_getdetachstate(attr: &pthread_attr_t, state: &mut i32) -> i32;
    pub safe fn pthread_attr_getstack(attr: &pthread_attr_t, stack: &mut usize, size: &mut usize) -> i32;
    pub safe fn pthread_getattr_np(thread: pthread_t, attr: &pthread_attr_t) -> i32;

    pub safe fn pthread_mutexattr_init(attr: &pthread_mutexattr_t) -> i32;
    pub safe fn pthread_mutexattr_settype(attr: &pthread_mutexattr_t, kind: i32) -> i32;
    pub safe fn pthread_mutexattr_gettype(attr: &pthread_mutexattr_t, kind: &mut i32) -> i32;
    pub safe fn pthread_mutexattr_setprotocol(attr: &pthread_mutexattr_t, protocol: i32) -> i32;
    pub safe fn pthread_mutex_init(mutex: &pthread_mutex_t, attr: Option<&pthread_mutexattr_t>) -> i32;
    pub safe fn pthread_mutex_destroy(mutex: &pthread_mutex_t) -> i32;
    pub safe fn pthread_mutex_lock(mutex: &pthread_mutex_t) -> i32;
    pub safe fn pthread_mutex_trylock(mutex: &pthread_mutex_t) -> i32;
    pub safe fn pthread_mutex_timedlock(mutex: &pthread_mutex_t, until: &timespec) -> i32;
    pub safe fn pthread_mutex_unlock(mutex: &pthread_mutex_t) -> i32;

    pub safe fn pthread_condattr_init(attr: &pthread_condattr_t) -> i32;
    pub safe fn pthread_condattr_setclock(attr: &pthread_condattr_t, clock: i32) -> i32;
    pub safe fn pthread_condattr_getclock(attr: &pthread_condattr_t, clock: &mut i32) -> i32;
    pub safe fn pthread_cond_init(cond: &pthread_cond_t, attr: Option<&pthread_condattr_t>) -> i32;
    pub safe fn pthread_cond_destroy(cond: &pthread_cond_t) -> i32;
    pub safe fn pthread_cond_wait(cond: &pthread_cond_t, mutex: &pthread_mutex_t) -> i32;
    pub safe fn pthread_cond_timedwait(cond: &pthread_cond_t, mutex: &pthread_mutex_t, until: &timespec) -> i32;
    pub safe fn pthread_cond_signal(cond: &pthread_cond_t) -> i32;
    pub safe fn pthread_cond_broadcast(cond: &pthread_cond_t) -> i32;

    pub safe fn pthread_rwlock_init(lock: &pthread_rwlock_t, attr: Option<&u32>) -> i32;
    pub safe fn pthread_rwlock_rdlock(lock: &pthread_rwlock_t) -> i32;
    pub safe fn pthread_rwlock_tryrdlock(lock: &pthread_rwlock_t) -> i32;
    pub safe fn pthread_rwlock_wrlock(lock: &pthread_rwlock_t) -> i32;
    pub safe fn pthread_rwlock_trywrlock(lock: &pthread_rwlock_t) -> i32;
    pub safe fn pthread_rwlock_timedwrlock(lock: &pthread_rwlock_t, until: &timespec) -> i32;
    pub safe fn pthread_rwlock_timedrdlock(lock: &pthread_rwlock_t, until: &timespec) -> i32;
    pub safe fn pthread_rwlock_unlock(lock: &pthread_rwlock_t) -> i32;

    pub safe fn pthread_barrier_init(barrier: &pthread_barrier_t, attr: Option<&u32>, count: u32) -> i32;
    pub safe fn pthread_barrier_destroy(barrier: &pthread_barrier_t) -> i32;
    pub safe fn pthread_barrier_wait(barrier: &pthread_barrier_t) -> i32;

    pub safe fn pthread_spin_init(lock: &pthread_spinlock_t, shared: i32) -> i32;
    pub safe fn pthread_spin_lock(lock: &pthread_spinlock_t) -> i32;
    pub safe fn pthread_spin_trylock(lock: &pthread_spinlock_t) -> i32;
    pub safe fn pthread_spin_unlock(lock: &pthread_spinlock_t) -> i32;

    pub safe fn sem_init(semaphore: &sem_t, shared: i32, value: u32) -> i32;
    pub safe fn sem_destroy(semaphore: &sem_t) -> i32;
    pub safe fn sem_wait(semaphore: &sem_t) -> i32;
    pub safe fn sem_trywait(semaphore: &sem_t) -> i32;
    pub safe fn sem_timedwait(semaphore: &sem_t, until: &timespec) -> i32;
    pub safe fn sem_post(semaphore: &sem_t) -> i32;
    pub safe fn sem_getvalue(semaphore: &sem_t, value: &mut i32) -> i32;

    pub safe fn pthread_key_create(key: &mut u32, destructor: Option<extern "C" fn(usize)>) -> i32;
    pub safe fn pthread_key_delete(key: u32) -> i32;
    pub safe fn pthread_getspecific(key: u32) -> usize;
    pub safe fn pthread_setspecific(key: u32, value: usize) -> i32;
}

extern "C" fn run(packed: *mut c_void) -> usize {
    // SAFETY: the creator packed this argument for this thread.
    unsafe { unpack::<usize>(packed)() }
}

/// Creates a thread that runs `main`, by `pthread_create`; returns the library's error.
pub fn create(attr: Option<&pthread_attr_t>, main: impl FnOnce() -> usize + Send + 'static) -> Result<pthread_t, i32> {
    let packed = pack(main);
    let mut thread = 0;
    // SAFETY: there is room for the result; the thread unpacks its argument once.
    match unsafe { pthread_create(&mut thread, attr, run, packed) } {
        0 => Ok(thread),
        error => {
            // SAFETY: there is no thread that could unpack it.
            drop(unsafe { unpack::<usize>(packed) });
            Err(error)
        }
    }
}

/// `pthread_join`: the thread's result.
pub fn join(thread: pthread_t) -> Result<usize, i32> {
    let mut result = 0;
    // SAFETY: there is room for the result.
    match unsafe { pthread_join(thread, &mut result) } {
        0 => Ok(result),
        error => Err(error),
    }
}

/// `pthread_setname_np`.
pub fn set_name(thread: pthread_t, name: &CStr) -> i32 {
    // SAFETY: a C string.
    unsafe { pthread_setname_np(thread, name.as_ptr()) }
}

/// `pthread_getname_np` with room for `size` bytes.
pub fn name(thread: pthread_t, size: usize) -> Result<String, i32> {
    let mut buffer = vec![0u8; size];
    // SAFETY: the buffer has `size` bytes.
    match unsafe { pthread_getname_np(thread, buffer.as_mut_ptr().cast(), size) } {
        0 => Ok(buffer.iter().take_while(|&&byte| byte != 0).map(|&byte| char::from(byte)).collect()),
        error => Err(error),
    }
}
