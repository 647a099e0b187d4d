//! `errno`: its place in each thread, its values, and how Zircon's statuses map to them.

use crate::sys;
use crate::thread;

macro_rules! errors {
    ($($name:ident = $value:literal;)*) => {
        $(pub const $name: i32 = $value;)*
    };
}

errors! {
    EPERM = 1;
    ENOENT = 2;
    ESRCH = 3;
    EINTR = 4;
    EIO = 5;
    ENXIO = 6;
    E2BIG = 7;
    ENOEXEC = 8;
    EBADF = 9;
    ECHILD = 10;
    EAGAIN = 11;
    ENOMEM = 12;
    EACCES = 13;
    EFAULT = 14;
    EBUSY = 16;
    EEXIST = 17;
    EXDEV = 18;
    ENODEV = 19;
    ENOTDIR = 20;
    EISDIR = 21;
    EINVAL = 22;
    ENFILE = 23;
    EMFILE = 24;
    ENOTTY = 25;
    EFBIG = 27;
    ENOSPC = 28;
    ESPIPE = 29;
    EROFS = 30;
    EMLINK = 31;
    EPIPE = 32;
    EDOM = 33;
    ERANGE = 34;
    EDEADLK = 35;
    ENAMETOOLONG = 36;
    ENOSYS = 38;
    ENOTEMPTY = 39;
    ELOOP = 40;
    EOVERFLOW = 75;
    EILSEQ = 84;
    ENOTSOCK = 88;
    EDESTADDRREQ = 89;
    EMSGSIZE = 90;
    EPROTOTYPE = 91;
    ENOPROTOOPT = 92;
    EPROTONOSUPPORT = 93;
    ENOTSUP = 95;
    EAFNOSUPPORT = 97;
    EADDRINUSE = 98;
    EADDRNOTAVAIL = 99;
    ENETDOWN = 100;
    ENETUNREACH = 101;
    ECONNABORTED = 103;
    ECONNRESET = 104;
    ENOBUFS = 105;
    EISCONN = 106;
    ENOTCONN = 107;
    ETIMEDOUT = 110;
    ECONNREFUSED = 111;
    EHOSTUNREACH = 113;
    EALREADY = 114;
    EINPROGRESS = 115;
    ECANCELED = 125;
}

/// The calling thread's `errno`.
#[unsafe(no_mangle)]
pub extern "C" fn __errno_location() -> *mut i32 {
    thread::errno_place()
}

/// The same by the name that some packages know for this system.
#[unsafe(no_mangle)]
pub extern "C" fn errno_location() -> *mut i32 {
    thread::errno_place()
}

/// Sets `errno` and gives -1, which is how POSIX functions fail.
pub fn fail(error: i32) -> i32 {
    set(error);
    -1
}

/// Sets the calling thread's `errno`.
pub fn set(error: i32) {
    // SAFETY: the calling thread's own, always valid.
    unsafe { *__errno_location() = error };
}

/// The error number that says best what a status says.
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
