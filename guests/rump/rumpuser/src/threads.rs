//! Threads, and which of the kernel's threads each one is.

use core::ffi::{c_char, c_int, c_void};
use core::ptr;

use rump_logic::error::{self, EAGAIN};

use crate::arch::{current, set_current};
use crate::{c, kernel};

/// A thread's stack in bytes; there is a guard below it. The kernel needs 16 KiB.
const STACK: usize = 128 << 10;
const DETACHED: c_int = 1;

/// Starts a thread of the program.
///
/// # Errors
/// The C library's number.
pub fn start(start: c::Start, arg: *mut c_void, name: *const c_char, joins: bool) -> Result<*mut c_void, c_int> {
    let mut attributes = c::ThreadAttributes([0; 7]);
    let mut thread = ptr::null_mut();
    // SAFETY: attributes and thread are ours; the caller's function takes the argument.
    let error = unsafe {
        c::pthread_attr_init(&mut attributes);
        c::pthread_attr_setstacksize(&mut attributes, STACK);
        if !joins {
            c::pthread_attr_setdetachstate(&mut attributes, DETACHED);
        }
        c::pthread_create(&mut thread, &attributes, start, arg)
    };
    if error != 0 {
        return Err(error);
    }
    // A detached thread may have ended, and then its name must not be touched.
    if joins && !name.is_null() {
        // SAFETY: the thread has not been joined; the name is the caller's text.
        unsafe { c::pthread_setname_np(thread, name) };
    }
    Ok(thread)
}

/// Starts a thread of the kernel. The system's scheduler is fair to threads, whatever the kernel's priorities are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_thread_create(
    function: c::Start,
    arg: *mut c_void,
    name: *const c_char,
    must_join: c_int,
    _priority: c_int,
    _cpu: c_int,
    cookie: *mut *mut c_void,
) -> c_int {
    match start(function, arg, name, must_join != 0) {
        Ok(thread) => {
            if must_join != 0 && !cookie.is_null() {
                // SAFETY: the caller's variable.
                unsafe { *cookie = thread };
            }
            0
        }
        // The kernel knows this one error.
        Err(error) if error::from_libc(error) == error::EINVAL => error::EINVAL,
        Err(_) => EAGAIN,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_thread_exit() -> ! {
    // SAFETY: ends the calling thread, which the kernel has finished with.
    unsafe { c::pthread_exit(ptr::null_mut()) }
}

/// Waits for the end of a thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_thread_join(cookie: *mut c_void) -> c_int {
    // SAFETY: the cookie is a thread that was made to be joined, once.
    error::from_libc(kernel::outside(|| unsafe { c::pthread_join(cookie, ptr::null_mut()) }))
}

/// The kernel's thread `lwp` begins or ceases to be the calling thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_curlwpop(operation: c_int, lwp: usize) {
    match operation {
        // Made or ended: of no use here.
        0 | 1 => {}
        2 => set_current(lwp),
        3 => set_current(0),
        _ => c::die("an unknown operation on the kernel's threads"),
    }
}

/// The kernel's thread that the calling thread is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_curlwp() -> usize {
    current()
}
