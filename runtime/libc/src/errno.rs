//! `errno`: its place in each thread, its values, and how Zircon's statuses map to them.

use crate::sys;
use crate::thread;

macro_rules! errors {
    ($($name:ident = $value:literal, $text:literal;)*) => {
        $(#[allow(dead_code)]
        pub const $name: i32 = $value;)*

        /// The message for an error number.
        pub fn text(error: i32) -> &'static core::ffi::CStr {
            match error {
                0 => c"No error",
                $($value => $text,)*
                _ => c"Unknown error",
            }
        }
    };
}

errors! {
    EPERM = 1, c"Operation not permitted";
    ENOENT = 2, c"No such file or directory";
    ESRCH = 3, c"No such process";
    EINTR = 4, c"Interrupted system call";
    EIO = 5, c"I/O error";
    ENXIO = 6, c"No such device or address";
    E2BIG = 7, c"Argument list too long";
    ENOEXEC = 8, c"Exec format error";
    EBADF = 9, c"Bad file descriptor";
    ECHILD = 10, c"No child process";
    EAGAIN = 11, c"Resource temporarily unavailable";
    ENOMEM = 12, c"Out of memory";
    EACCES = 13, c"Permission denied";
    EFAULT = 14, c"Bad address";
    EBUSY = 16, c"Resource busy";
    EEXIST = 17, c"File exists";
    EXDEV = 18, c"Cross-device link";
    ENODEV = 19, c"No such device";
    ENOTDIR = 20, c"Not a directory";
    EISDIR = 21, c"Is a directory";
    EINVAL = 22, c"Invalid argument";
    ENFILE = 23, c"Too many open files in system";
    EMFILE = 24, c"Too many open files";
    ENOTTY = 25, c"Not a tty";
    EFBIG = 27, c"File too large";
    ENOSPC = 28, c"No space left on device";
    ESPIPE = 29, c"Invalid seek";
    EROFS = 30, c"Read-only file system";
    EMLINK = 31, c"Too many links";
    EPIPE = 32, c"Broken pipe";
    EDOM = 33, c"Domain error";
    ERANGE = 34, c"Result not representable";
    EDEADLK = 35, c"Resource deadlock would occur";
    ENAMETOOLONG = 36, c"Filename too long";
    ENOSYS = 38, c"Function not implemented";
    ENOTEMPTY = 39, c"Directory not empty";
    ELOOP = 40, c"Symbolic link loop";
    EOVERFLOW = 75, c"Value too large for data type";
    EILSEQ = 84, c"Illegal byte sequence";
    ENOTSOCK = 88, c"Not a socket";
    EDESTADDRREQ = 89, c"Destination address required";
    EMSGSIZE = 90, c"Message too large";
    EPROTOTYPE = 91, c"Protocol wrong type for socket";
    ENOPROTOOPT = 92, c"Protocol not available";
    EPROTONOSUPPORT = 93, c"Protocol not supported";
    ENOTSUP = 95, c"Not supported";
    EAFNOSUPPORT = 97, c"Address family not supported by protocol";
    EADDRINUSE = 98, c"Address in use";
    EADDRNOTAVAIL = 99, c"Address not available";
    ENETDOWN = 100, c"Network is down";
    ENETUNREACH = 101, c"Network unreachable";
    ECONNABORTED = 103, c"Connection aborted";
    ECONNRESET = 104, c"Connection reset by peer";
    ENOBUFS = 105, c"No buffer space available";
    EISCONN = 106, c"Socket is connected";
    ENOTCONN = 107, c"Socket not connected";
    ETIMEDOUT = 110, c"Operation timed out";
    ECONNREFUSED = 111, c"Connection refused";
    EHOSTUNREACH = 113, c"Host is unreachable";
    EALREADY = 114, c"Operation already in progress";
    EINPROGRESS = 115, c"Operation in progress";
    ECANCELED = 125, c"Operation canceled";
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
