//! `threads.h`.

use std::ffi::{CStr, c_char, c_void};

use crate::{pack, room, timespec, unpack};

pub const THRD_SUCCESS: i32 = 0;
pub const THRD_BUSY: i32 = 1;
pub const THRD_ERROR: i32 = 2;
pub const THRD_NOMEM: i32 = 3;
pub const THRD_TIMEDOUT: i32 = 4;
pub const MTX_PLAIN: i32 = 0;
pub const MTX_RECURSIVE: i32 = 1;
pub const MTX_TIMED: i32 = 2;

/// A thread.
pub type thrd_t = usize;

room! {
    mtx_t: u32;
    once_flag: u32;
    cnd_t: [u64; 3];
}

impl mtx_t {
    /// Its first word. No other thread may use the mutex at the same time.
    pub fn word(&self) -> u32 {
        self.0.get()
    }

    /// A mutex whose memory held `word` before it was initialised.
    pub fn filled(word: u32) -> Self {
        let mutex = Self::new();
        mutex.0.set(word);
        mutex
    }
}

type Main = extern "C" fn(*mut c_void) -> i32;

unsafe extern "C" {
    fn thrd_create(out: *mut thrd_t, start: Main, argument: *mut c_void) -> i32;
    fn thrd_create_with_name(out: *mut thrd_t, start: Main, argument: *mut c_void, name: *const c_char) -> i32;
    fn thrd_join(thread: thrd_t, result: *mut i32) -> i32;
    pub safe fn thrd_detach(thread: thrd_t) -> i32;
    pub safe fn thrd_exit(result: i32) -> !;
    pub safe fn thrd_current() -> thrd_t;
    pub safe fn thrd_equal(left: thrd_t, right: thrd_t) -> i32;
    pub safe fn thrd_yield();
    pub safe fn thrd_sleep(time: &timespec, remaining: Option<&mut timespec>) -> i32;
    /// The library keeps ownership of the handle.
    pub safe fn thrd_get_zx_handle(thread: thrd_t) -> u32;
    pub safe fn thrd_get_zx_process() -> u32;
    pub safe fn thrd_set_zx_process(process: u32) -> u32;
    pub safe fn call_once(once: &once_flag, function: extern "C" fn());

    pub safe fn mtx_init(mutex: &mtx_t, kind: i32) -> i32;
    pub safe fn mtx_destroy(mutex: &mtx_t);
    pub safe fn mtx_lock(mutex: &mtx_t) -> i32;
    pub safe fn mtx_trylock(mutex: &mtx_t) -> i32;
    pub safe fn mtx_timedlock(mutex: &mtx_t, until: &timespec) -> i32;
    pub safe fn mtx_unlock(mutex: &mtx_t) -> i32;

    pub safe fn cnd_init(cond: &cnd_t) -> i32;
    pub safe fn cnd_destroy(cond: &cnd_t);
    pub safe fn cnd_wait(cond: &cnd_t, mutex: &mtx_t) -> i32;
    pub safe fn cnd_timedwait(cond: &cnd_t, mutex: &mtx_t, until: &timespec) -> i32;
    pub safe fn cnd_signal(cond: &cnd_t) -> i32;
    pub safe fn cnd_broadcast(cond: &cnd_t) -> i32;

    pub safe fn tss_create(key: &mut u32, destructor: Option<extern "C" fn(usize)>) -> i32;
    pub safe fn tss_delete(key: u32);
    pub safe fn tss_get(key: u32) -> usize;
    pub safe fn tss_set(key: u32, value: usize) -> i32;
}

extern "C" fn run(packed: *mut c_void) -> i32 {
    // SAFETY: the creator packed this argument for this thread.
    unsafe { unpack::<i32>(packed)() }
}

/// Creates a thread that runs `main`, by `thrd_create`; returns the library's error.
pub fn create(main: impl FnOnce() -> i32 + Send + 'static) -> Result<thrd_t, i32> {
    made(main, |out, packed| {
        // SAFETY: `out` has room for the result; the thread unpacks its argument once.
        unsafe { thrd_create(out, run, packed) }
    })
}

/// `thrd_create_with_name`.
pub fn create_with_name(name: Option<&CStr>, main: impl FnOnce() -> i32 + Send + 'static) -> Result<thrd_t, i32> {
    made(main, |out, packed| {
        let name = name.map_or(std::ptr::null(), CStr::as_ptr);
        // SAFETY: `out` has room for the result; the name is null or a C string; the thread unpacks its argument once.
        unsafe { thrd_create_with_name(out, run, packed, name) }
    })
}

fn made(
    main: impl FnOnce() -> i32 + Send + 'static,
    create: impl FnOnce(*mut thrd_t, *mut c_void) -> i32,
) -> Result<thrd_t, i32> {
    let packed = pack(main);
    let mut thread = 0;
    match create(&mut thread, packed) {
        THRD_SUCCESS => Ok(thread),
        error => {
            // SAFETY: there is no thread that could unpack it.
            drop(unsafe { unpack::<i32>(packed) });
            Err(error)
        }
    }
}

/// `thrd_join`: the thread's result.
pub fn join(thread: thrd_t) -> Result<i32, i32> {
    let mut result = 0;
    // SAFETY: there is room for the result.
    match unsafe { thrd_join(thread, &mut result) } {
        THRD_SUCCESS => Ok(result),
        error => Err(error),
    }
}
