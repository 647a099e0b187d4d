//! `errno`: its per-thread variable, the values that this half uses, and the conversion of Zircon's statuses.

use core::ffi::{CStr, c_char, c_int};

use crate::sys;
use crate::thread;

pub const EPERM: i32 = 1;
pub const ENOENT: i32 = 2;
pub const ESRCH: i32 = 3;
pub const EINTR: i32 = 4;
pub const EIO: i32 = 5;
pub const E2BIG: i32 = 7;
pub const EBADF: i32 = 9;
pub const EAGAIN: i32 = 11;
pub const ENOMEM: i32 = 12;
pub const EACCES: i32 = 13;
pub const EBUSY: i32 = 16;
pub const EEXIST: i32 = 17;
pub const ENODEV: i32 = 19;
pub const EINVAL: i32 = 22;
pub const EPIPE: i32 = 32;
pub const ERANGE: i32 = 34;
pub const EDEADLK: i32 = 35;
pub const ENOSYS: i32 = 38;
pub const EOVERFLOW: i32 = 75;
pub const ENOTSUP: i32 = 95;
pub const ETIMEDOUT: i32 = 110;
pub const ECANCELED: i32 = 125;

/// The address of the calling thread's `errno`.
#[unsafe(no_mangle)]
pub extern "C" fn __errno_location() -> *mut i32 {
    thread::errno_place()
}

/// The same, under the name that some crates use on this system.
#[unsafe(no_mangle)]
pub extern "C" fn errno_location() -> *mut i32 {
    thread::errno_place()
}

/// Sets `errno` and returns -1, as POSIX functions do on failure.
pub fn fail(error: i32) -> i32 {
    set(error);
    -1
}

/// Sets the calling thread's `errno`.
pub fn set(error: i32) {
    // SAFETY: the calling thread's variable, which is always valid.
    unsafe { *__errno_location() = error };
}

unsafe extern "C" {
    fn strerror(error: c_int) -> *const c_char;
}

/// The text of an error number, cut to fit, with a terminating zero. It knows the names of Zircon's statuses too,
/// because Rust's standard library passes statuses of its system calls as error numbers.
///
/// # Safety
/// `text` has room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strerror_r(error: c_int, text: *mut c_char, size: usize) -> c_int {
    let known = if error < 0 {
        // SAFETY: any status is valid.
        unsafe { sys::zx_status_get_string(error) }
    } else {
        // SAFETY: any number is valid.
        unsafe { strerror(error) }
    };
    // SAFETY: both functions return a static string with a terminating zero.
    let known = unsafe { CStr::from_ptr(known) }.to_bytes_with_nul();
    if let Some(room) = size.checked_sub(1) {
        let len = room.min(known.len() - 1);
        // SAFETY: the caller guarantees room for `len` bytes and the zero; the library's own text does not overlap it.
        unsafe {
            text.copy_from_nonoverlapping(known.as_ptr().cast(), len);
            text.add(len).write(0);
        }
    }
    if known.len() > size { ERANGE } else { 0 }
}

/// The error number that describes a status best.
pub fn from_status(status: sys::Status) -> i32 {
    match status {
        0 => 0,
        sys::ERR_NOT_SUPPORTED => ENOTSUP,
        sys::ERR_NO_MEMORY | -3 => ENOMEM,
        sys::ERR_INVALID_ARGS | -14 => EINVAL,
        sys::ERR_BAD_HANDLE => EBADF,
        sys::ERR_TIMED_OUT => ETIMEDOUT,
        sys::ERR_NOT_FOUND => ENOENT,
        -22 => EAGAIN,
        -23 => ECANCELED,
        -24 => EPIPE,
        -26 => EEXIST,
        -30 => EACCES,
        -5 => E2BIG,
        -6 => EINTR,
        _ => EIO,
    }
}
