//! Functions of the C library and of fdio, and what all hypercalls need of them.

use core::ffi::{CStr, c_char, c_int, c_void};

use rump_logic::error;

/// `struct stat`, as far as it is read here.
#[repr(C)]
#[derive(Default)]
pub struct Stat {
    pub device: u64,
    pub number: u64,
    pub links: u64,
    pub mode: u32,
    pub owners: [u32; 3],
    pub special: u64,
    pub size: i64,
    pub rest: [u64; 11],
}

const _: () = assert!(size_of::<Stat>() == 144);

/// A piece of memory, as in the C library's `struct iovec`, which is the interface's, too.
#[repr(C)]
pub struct Piece {
    pub base: *mut c_void,
    pub len: usize,
}

/// `pthread_attr_t`.
#[repr(C, align(8))]
pub struct ThreadAttributes(pub [u64; 7]);

pub const O_RDONLY: c_int = 0;
pub const O_WRONLY: c_int = 1;
pub const O_RDWR: c_int = 2;
pub const O_CREAT: c_int = 0x01_0000;
pub const O_EXCL: c_int = 0x02_0000;
pub const PROT_READ: c_int = 1;
pub const PROT_WRITE: c_int = 2;
pub const MAP_SHARED: c_int = 1;
pub const MAP_FAILED: *mut c_void = core::ptr::without_provenance_mut(usize::MAX);

pub type Start = unsafe extern "C" fn(*mut c_void) -> *mut c_void;

unsafe extern "C" {
    pub fn __errno_location() -> *mut c_int;
    pub fn abort() -> !;
    pub fn exit(code: c_int) -> !;
    pub fn getenv(name: *const c_char) -> *const c_char;
    pub fn gethostname(name: *mut c_char, size: usize) -> c_int;
    pub fn aligned_alloc(align: usize, size: usize) -> *mut c_void;
    pub fn free(memory: *mut c_void);

    pub fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    pub fn close(fd: c_int) -> c_int;
    pub fn stat(path: *const c_char, to: *mut Stat) -> c_int;
    pub fn fstat(fd: c_int, to: *mut Stat) -> c_int;
    pub fn dup(fd: c_int) -> c_int;
    pub fn ftruncate(fd: c_int, size: i64) -> c_int;
    pub fn mmap(at: *mut c_void, len: usize, access: c_int, flags: c_int, fd: c_int, offset: i64) -> *mut c_void;
    pub fn fsync(fd: c_int) -> c_int;
    pub fn pread(fd: c_int, to: *mut c_void, len: usize, offset: i64) -> isize;
    pub fn pwrite(fd: c_int, from: *const c_void, len: usize, offset: i64) -> isize;
    pub fn write(fd: c_int, from: *const c_void, len: usize) -> isize;
    pub fn readv(fd: c_int, pieces: *const Piece, count: c_int) -> isize;
    pub fn writev(fd: c_int, pieces: *const Piece, count: c_int) -> isize;
    pub fn preadv(fd: c_int, pieces: *const Piece, count: c_int, offset: i64) -> isize;
    pub fn pwritev(fd: c_int, pieces: *const Piece, count: c_int, offset: i64) -> isize;

    pub fn pthread_attr_init(attributes: *mut ThreadAttributes) -> c_int;
    pub fn pthread_attr_setstacksize(attributes: *mut ThreadAttributes, size: usize) -> c_int;
    pub fn pthread_attr_setdetachstate(attributes: *mut ThreadAttributes, detached: c_int) -> c_int;
    pub fn pthread_create(
        thread: *mut *mut c_void,
        attributes: *const ThreadAttributes,
        start: Start,
        arg: *mut c_void,
    ) -> c_int;
    pub fn pthread_setname_np(thread: *mut c_void, name: *const c_char) -> c_int;
    pub fn pthread_join(thread: *mut c_void, result: *mut *mut c_void) -> c_int;
    pub fn pthread_exit(result: *mut c_void) -> !;
    pub fn clock_gettime(clock: c_int, to: *mut [i64; 2]) -> c_int;

    pub safe fn zx_job_default() -> u32;
    pub safe fn zx_vmar_root_self() -> u32;
}

/// The calling thread's error, in the kernel's numbers.
pub fn last_error() -> c_int {
    // SAFETY: the calling thread's variable.
    error::from_libc(unsafe { *__errno_location() })
}

/// The kernel's number for the result of a C function that returns -1 on failure.
pub fn error_of(result: c_int) -> c_int {
    if result < 0 { last_error() } else { 0 }
}

/// The kernel's number for a result of ours.
pub fn number(result: Result<(), c_int>) -> c_int {
    result.err().unwrap_or(0)
}

/// The value of an environment variable.
pub fn variable(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: the name ends with a zero. The kernel has no other threads yet, or the program does not change variables
    // under it, as for every reader of the environment in C.
    let value = unsafe { getenv(name.as_ptr()) };
    // SAFETY: a variable's text, which ends with a zero and stays.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) })
}

/// Ends the program with a message, because the kernel breaks the interface.
#[cold]
pub fn die(why: &str) -> ! {
    crate::console::say(&["rumpuser: ", why, "\n"]);
    // SAFETY: no memory involved.
    unsafe { abort() }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    die("internal error")
}
