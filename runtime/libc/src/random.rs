//! Random bytes, from the kernel.

use crate::errno::{self, EINVAL, EIO};
use crate::sys;
use core::ffi::{c_int, c_uint, c_void};

/// Limit in bytes on one request to the kernel, and on `getentropy`.
const AT_ONCE: usize = 256;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn getentropy(buffer: *mut c_void, size: usize) -> c_int {
    if size > AT_ONCE {
        return errno::fail(EIO);
    }
    // SAFETY: the caller's buffer.
    unsafe { sys::zx_cprng_draw(buffer, size) };
    0
}

/// Fills a buffer of any size. It never blocks, so the known flags have no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrandom(buffer: *mut c_void, size: usize, flags: c_uint) -> isize {
    // The source is ready from the start, and there is one.
    const NONBLOCK: c_uint = 1;
    const RANDOM: c_uint = 2;
    const INSECURE: c_uint = 4;
    if flags & !(NONBLOCK | RANDOM | INSECURE) != 0 || flags & (RANDOM | INSECURE) == RANDOM | INSECURE {
        return errno::fail(EINVAL) as isize;
    }
    for at in (0..size).step_by(AT_ONCE) {
        // SAFETY: inside of the caller's buffer.
        unsafe { sys::zx_cprng_draw(buffer.byte_add(at), AT_ONCE.min(size - at)) };
    }
    size as isize
}
