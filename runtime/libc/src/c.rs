//! Interface to the C half of the library: functions of the C half, and functions that the C half calls.

use crate::lock::{self, RawLock};
use core::ffi::{c_int, c_long, c_void};
use core::sync::atomic::AtomicU32;

unsafe extern "C" {
    /// Initialises the C half's per-thread state of a new thread.
    pub fn __c_thread_init(thread: *mut c_void);
    /// Must be called before the second thread starts.
    pub fn __c_threads_begin();
    /// Adds a clean-up handler, `struct __ptcb` at `handler`, to the calling thread's.
    pub fn _pthread_cleanup_push(
        handler: *mut c_void,
        function: unsafe extern "C" fn(*mut c_void),
        argument: *mut c_void,
    );
    /// Takes it off; runs it if `run` is not 0.
    pub fn _pthread_cleanup_pop(handler: *mut c_void, run: c_int);
    /// Runs the clean-up handlers of the calling thread.
    pub fn __c_thread_cleanup();
    /// Makes the locks of streams that the calling thread holds permanent.
    pub fn __do_orphaned_stdio_locks();
    /// Flushes all streams.
    pub fn __stdio_exit();
    /// Whether a child with this pid exists and has not been waited for. Kills it if `really`.
    pub fn __c_kill_child(process: c_int, really: bool) -> bool;
    /// What `waitpid` says of a process's return code.
    pub safe fn __c_wait_status(code: i64) -> c_int;
    /// Has ended children forgotten from now on, or no longer.
    pub safe fn __c_ignore_children(now: bool);
    fn __on_SYS_write(descriptor: c_int, bytes: *const u8, size: usize) -> c_long;
}

/// Writes all of `bytes` to a descriptor; returns false on failure.
pub fn write_all(descriptor: c_int, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        // SAFETY: a valid buffer.
        let written = unsafe { __on_SYS_write(descriptor, bytes.as_ptr(), bytes.len()) };
        match usize::try_from(written) {
            Ok(written) if written > 0 => bytes = bytes.get(written..).unwrap_or(&[]),
            _ => return false,
        }
    }
    true
}

/// Takes a lock of the C half, where it is an `int`.
#[unsafe(no_mangle)]
unsafe extern "C" fn __lock(lock: *const RawLock) {
    // SAFETY: a static lock word of the C half.
    unsafe { (*lock).lock() };
}

/// Releases a lock of the C half.
#[unsafe(no_mangle)]
unsafe extern "C" fn __unlock(lock: *const RawLock) {
    // SAFETY: as above.
    unsafe { (*lock).unlock() };
}

/// Sleeps while the word has this value.
#[unsafe(no_mangle)]
unsafe extern "C" fn __futexwait(word: *const AtomicU32, value: u32, _private: c_int) {
    // SAFETY: a word in a stream that its users keep alive.
    lock::wait(unsafe { &*word }, value, i64::MAX);
}

/// Wakes sleeping threads; all if the count is negative.
#[unsafe(no_mangle)]
unsafe extern "C" fn __wake(word: *const AtomicU32, count: c_int, _private: c_int) {
    // SAFETY: as above.
    lock::wake(unsafe { &*word }, u32::try_from(count).unwrap_or(u32::MAX));
}
