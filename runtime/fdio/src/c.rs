//! C's side of this library: constants and structures as in the headers of `libc.so` (and in the `libc` crate) for this
//! system, `errno`, and the conversion of a status to an `errno` value.

use core::ffi::{CStr, c_char, c_int, c_void};

use abi::{Signals, Status, zx_port_packet_t, zx_status_t, zx_wait_item_t};
use zx::{AsHandleRef, MonotonicInstant, Port};

use crate::path::PathError;

/// An `errno` value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub c_int);

macro_rules! errors {
    ($($name:ident = $value:literal),* $(,)?) => { $(pub const $name: Errno = Errno($value);)* };
}

errors! {
    EPERM = 1, ENOENT = 2, EIO = 5, ENXIO = 6, EBADF = 9, EAGAIN = 11, ENOMEM = 12, EACCES = 13, EFAULT = 14,
    EBUSY = 16, EEXIST = 17, EXDEV = 18, ENODEV = 19, ENOTDIR = 20, EISDIR = 21, EINVAL = 22, ENFILE = 23, EMFILE = 24,
    ENOTTY = 25, EFBIG = 27, ENOSPC = 28, ESPIPE = 29, EROFS = 30, EMLINK = 31, EPIPE = 32, ERANGE = 34, ENAMETOOLONG = 36,
    ENOTEMPTY = 39, ELOOP = 40, EOVERFLOW = 75, ENOTSOCK = 88, EDESTADDRREQ = 89, EMSGSIZE = 90, EPROTOTYPE = 91,
    ENOPROTOOPT = 92, EPROTONOSUPPORT = 93, ESOCKTNOSUPPORT = 94, EOPNOTSUPP = 95, EAFNOSUPPORT = 97,
    EADDRINUSE = 98, EADDRNOTAVAIL = 99, ENETDOWN = 100, ENETUNREACH = 101, ECONNABORTED = 103, ECONNRESET = 104,
    ENOBUFS = 105, EISCONN = 106, ENOTCONN = 107, ETIMEDOUT = 110, ECONNREFUSED = 111, EHOSTUNREACH = 113,
    EALREADY = 114, EINPROGRESS = 115, ECANCELED = 125,
}

impl From<Status> for Errno {
    fn from(status: Status) -> Errno {
        match status {
            Status::NO_MEMORY => ENOMEM,
            Status::NO_RESOURCES => EMFILE,
            Status::INVALID_ARGS | Status::OUT_OF_RANGE => EINVAL,
            Status::BAD_HANDLE => EBADF,
            Status::ACCESS_DENIED => EACCES,
            Status::NOT_FOUND => ENOENT,
            Status::ALREADY_EXISTS => EEXIST,
            Status::SHOULD_WAIT => EAGAIN,
            Status::PEER_CLOSED | Status::BAD_STATE => EPIPE,
            Status::TIMED_OUT => ETIMEDOUT,
            Status::CANCELED => ECANCELED,
            Status::NOT_SUPPORTED => EOPNOTSUPP,
            _ => EIO,
        }
    }
}

impl From<file_protocol::Error> for Errno {
    fn from(error: file_protocol::Error) -> Errno {
        use file_protocol::Error;
        match error {
            Error::NotFound => ENOENT,
            Error::Exists => EEXIST,
            Error::NotDirectory => ENOTDIR,
            Error::IsDirectory => EISDIR,
            Error::NotEmpty => ENOTEMPTY,
            Error::Access => EACCES,
            Error::BadDescription => EBADF,
            Error::ReadOnly => EROFS,
            Error::Full => ENOSPC,
            Error::TooLarge => EFBIG,
            Error::TooLong => ENAMETOOLONG,
            Error::Links => ELOOP,
            Error::TooManyLinks => EMLINK,
            Error::Invalid => EINVAL,
            Error::Unsupported => EOPNOTSUPP,
            Error::Locked => EAGAIN,
            Error::Busy => EBUSY,
            Error::NotPermitted => EPERM,
            Error::TooManyOpen => ENFILE,
            Error::Memory => ENOMEM,
            Error::Damaged => EIO,
            Error::Canceled => ECANCELED,
            Error::IsSocket => ENXIO,
            Error::Refused => ECONNREFUSED,
            Error::OtherKind => EPROTOTYPE,
            Error::WouldWait => EAGAIN,
        }
    }
}

impl From<PathError> for Errno {
    fn from(error: PathError) -> Errno {
        match error {
            PathError::NotFound => ENOENT,
            PathError::NotDirectory => ENOTDIR,
            PathError::TooLong => ENAMETOOLONG,
        }
    }
}

/// Result of this library's internal functions.
pub type Result<T> = core::result::Result<T, Errno>;

unsafe extern "C" {
    safe fn __errno_location() -> *mut c_int;
    safe fn pthread_testcancel();
    fn __libc_wait(call: usize, a: usize, b: usize, c: usize, d: usize) -> zx_status_t;
    fn malloc(size: usize) -> *mut c_void;
}

/// Sets `errno`.
pub fn set_errno(error: Errno) {
    // SAFETY: the C library returns the address of the calling thread's `errno`.
    unsafe { *__errno_location() = error.0 };
}

/// A cancellation point: ends the calling thread if `pthread_cancel` has asked for that. Nothing is held here.
pub fn cancellation_point() {
    pthread_testcancel();
}

/// Sleeps until one of `signals` is asserted or the deadline has passed; returns the asserted signals. Like the other
/// waits here, `pthread_cancel` ends it with [`Status::CANCELED`], and [`number`] then ends the thread.
///
/// # Errors
/// See [`zx::AsHandleRef::wait_one`].
pub fn wait_one(object: &impl AsHandleRef, signals: Signals, deadline: MonotonicInstant) -> zx::Result<Signals> {
    let (call, mut seen) = (zx::sys::zx_object_wait_one as *const () as usize, 0u32);
    let (handle, place) = (object.raw_handle() as usize, (&raw mut seen) as usize);
    // SAFETY: a call that only waits; `seen` has room for one signal set.
    check(unsafe { __libc_wait(call, handle, signals.bits() as usize, deadline.0 as usize, place) })?;
    Ok(Signals::from_bits_retain(seen))
}

/// Waits for signals of several objects.
///
/// # Errors
/// See [`zx::wait_many`].
pub fn wait_many(items: &mut [zx_wait_item_t], deadline: MonotonicInstant) -> zx::Result<()> {
    let (call, place) = (zx::sys::zx_object_wait_many as *const () as usize, items.as_mut_ptr() as usize);
    // SAFETY: a call that only waits; the items are valid for their number.
    check(unsafe { __libc_wait(call, place, items.len(), deadline.0 as usize, 0) })
}

/// Waits for a packet of a port that only the caller knows, and drops it.
///
/// # Errors
/// See [`Port::wait`].
pub fn wait_packet(port: &Port, deadline: MonotonicInstant) -> zx::Result<()> {
    let mut packet = core::mem::MaybeUninit::<zx_port_packet_t>::uninit();
    let (call, place) = (zx::sys::zx_port_wait as *const () as usize, packet.as_mut_ptr() as usize);
    // SAFETY: a call that waits; the packet, its only effect, is dropped in any case.
    check(unsafe { __libc_wait(call, port.raw_handle() as usize, deadline.0 as usize, place, 0) })
}

/// Waits for a packet of a port; returns its key.
///
/// # Errors
/// See [`Port::wait`].
pub fn wait_key(port: &Port, deadline: MonotonicInstant) -> zx::Result<u64> {
    let mut packet = core::mem::MaybeUninit::<zx_port_packet_t>::zeroed();
    let (call, place) = (zx::sys::zx_port_wait as *const () as usize, packet.as_mut_ptr() as usize);
    // SAFETY: a call that waits. A thread that is cancelled in it has taken no packet.
    check(unsafe { __libc_wait(call, port.raw_handle() as usize, deadline.0 as usize, place, 0) })?;
    // SAFETY: plain numbers, zeroed before and written by the call.
    Ok(unsafe { packet.assume_init() }.key)
}

/// Sleeps until a time.
///
/// # Errors
/// See [`zx::nanosleep`].
pub fn sleep_until(deadline: MonotonicInstant) -> zx::Result<()> {
    // SAFETY: a call that only waits.
    check(unsafe { __libc_wait(zx::sys::zx_nanosleep as *const () as usize, deadline.0 as usize, 0, 0, 0) })
}

fn check(status: zx_status_t) -> zx::Result<()> {
    if status == 0 { Ok(()) } else { Err(Status(status)) }
}

/// Converts a result to the convention of C functions: on an error, sets `errno` and returns -1. A thread that is
/// cancelled ends here.
pub fn number(result: Result<usize>) -> isize {
    match result {
        Ok(value) => value as isize,
        Err(error) => {
            if error == ECANCELED {
                cancellation_point();
            }
            set_errno(error);
            -1
        }
    }
}

/// Like [`number`], for functions that return an `int`.
pub fn int(result: Result<usize>) -> c_int {
    number(result) as c_int
}

/// Like [`number`], for functions that return only success or failure.
pub fn done(result: Result<()>) -> c_int {
    int(result.map(|()| 0))
}

/// Refuses flags that are not among `known`.
///
/// # Errors
/// `EINVAL`.
pub fn check_flags(flags: c_int, known: c_int) -> Result<()> {
    if flags & !known == 0 { Ok(()) } else { Err(EINVAL) }
}

/// A C string as UTF-8. All names that exist here are UTF-8, so another string gives `ENOENT`.
///
/// # Safety
/// `string` is null or a C string.
pub unsafe fn text<'a>(string: *const c_char) -> Result<&'a str> {
    if string.is_null() {
        return Err(EFAULT);
    }
    // SAFETY: as the caller says.
    unsafe { CStr::from_ptr(string) }.to_str().map_err(|_| ENOENT)
}

/// A C string as bytes, for paths.
///
/// # Safety
/// `string` is null or a C string.
pub unsafe fn bytes<'a>(string: *const c_char) -> Result<&'a [u8]> {
    if string.is_null() {
        return Err(EFAULT);
    }
    // SAFETY: as the caller says.
    Ok(unsafe { CStr::from_ptr(string) }.to_bytes())
}

/// Copies a string and a NUL to `buffer`; if `buffer` is null, to a block from `malloc`.
///
/// # Safety
/// `buffer` is null or has `size` bytes.
pub unsafe fn give_text(text: &[u8], mut buffer: *mut c_char, size: usize) -> Result<*mut c_char> {
    if buffer.is_null() {
        // SAFETY: no conditions.
        buffer = unsafe { malloc(size.max(text.len() + 1)) }.cast();
        if buffer.is_null() {
            return Err(ENOMEM);
        }
    } else if size <= text.len() {
        return Err(ERANGE);
    }
    // SAFETY: the buffer has room for the text and its NUL.
    unsafe {
        buffer.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), text.len());
        buffer.add(text.len()).write(0);
    }
    Ok(buffer)
}

pub const O_ACCMODE: c_int = 3 | O_PATH;
pub const O_NOFOLLOW: c_int = 0x80;
pub const O_RDONLY: c_int = 0;
pub const O_WRONLY: c_int = 1;
pub const O_RDWR: c_int = 2;
pub const O_NONBLOCK: c_int = 0x10;
/// With `O_DSYNC`, which is one of its bits, a write returns when its bytes are durable.
pub const O_SYNC: c_int = 0x60;
pub const O_CLOEXEC: c_int = 0x100;
pub const O_NOCTTY: c_int = 0x200;
pub const O_LARGEFILE: c_int = 0x1000;
/// Reading changes no time here, so it is kept and has no effect.
pub const O_NOATIME: c_int = 0x2000;
pub const O_TMPFILE: c_int = 0x4000;
pub const O_CREAT: c_int = 0x1_0000;
pub const O_EXCL: c_int = 0x2_0000;
pub const O_TRUNC: c_int = 0x4_0000;
pub const O_DIRECTORY: c_int = 0x8_0000;
pub const O_APPEND: c_int = 0x10_0000;
pub const O_PATH: c_int = 0x40_0000;
/// The flags that `F_SETFL` can change.
pub const CHANGEABLE: c_int = O_NONBLOCK | O_APPEND | O_NOATIME;
/// `O_ASYNC` and `O_DIRECT`, which `F_SETFL` changes on Linux.
pub const NOT_CHANGEABLE: c_int = 0x400 | 0x800;

pub const F_DUPFD: c_int = 0;
pub const F_GETFD: c_int = 1;
pub const F_SETFD: c_int = 2;
pub const F_GETFL: c_int = 3;
pub const F_SETFL: c_int = 4;
pub const F_GETLK: c_int = 5;
pub const F_SETLK: c_int = 6;
pub const F_SETLKW: c_int = 7;
pub const F_DUPFD_CLOEXEC: c_int = 1030;
pub const FD_CLOEXEC: c_int = 1;

pub const FIONREAD: c_int = 0x541b;
pub const FIONBIO: c_int = 0x5421;
pub const FIONCLEX: c_int = 0x5450;
pub const FIOCLEX: c_int = 0x5451;

pub const AT_FDCWD: c_int = -100;
pub const AT_SYMLINK_NOFOLLOW: c_int = 0x100;
pub const AT_REMOVEDIR: c_int = 0x200;
/// A process has no other identity than its effective one. The value is that of `AT_REMOVEDIR`.
pub const AT_EACCESS: c_int = 0x200;
/// Nothing is mounted by looking at it.
pub const AT_NO_AUTOMOUNT: c_int = 0x800;
pub const AT_SYMLINK_FOLLOW: c_int = 0x400;
pub const AT_EMPTY_PATH: c_int = 0x1000;
pub const X_OK: c_int = 1;
pub const W_OK: c_int = 2;
pub const R_OK: c_int = 4;

pub const S_IFIFO: u32 = 0o1_0000;
pub const S_IFCHR: u32 = 0o2_0000;
pub const S_IFDIR: u32 = 0o4_0000;
pub const S_IFREG: u32 = 0o10_0000;
pub const S_IFLNK: u32 = 0o12_0000;
pub const S_IFSOCK: u32 = 0o14_0000;

/// One buffer of a scatter/gather call.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct IoVec {
    pub base: *mut c_void,
    pub len: usize,
}

/// `struct stat`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Stat {
    pub device: u64,
    pub inode: u64,
    pub links: u64,
    pub mode: u32,
    pub user: u32,
    pub group: u32,
    pub pad: u32,
    pub special_device: u64,
    pub size: i64,
    pub block_size: i64,
    pub blocks: i64,
    pub accessed: [i64; 2],
    pub modified: [i64; 2],
    pub changed: [i64; 2],
    pub unused: [i64; 3],
}

const _: () = assert!(size_of::<Stat>() == 144);
