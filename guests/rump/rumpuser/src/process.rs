//! The process: its end, signals, errors; and what a static program does not need.

use core::ffi::{c_int, c_void};

use rump_logic::error::ENOSYS;
use rump_logic::parameter::digits;

use crate::{c, console};

/// The exit value of a kernel that panics.
const PANIC: c_int = -1;
/// NetBSD's signal for a pipe without readers.
const SIGPIPE: c_int = 13;

/// Ends the process. A panic ends it with a report of the thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_exit(value: c_int) -> ! {
    console::flush();
    // SAFETY: no memory involved.
    unsafe {
        if value == PANIC {
            c::abort()
        }
        c::exit(value)
    }
}

/// Stores the kernel's error for the program, as it is: programs of the kernel use its numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_seterrno(error: c_int) {
    // SAFETY: the calling thread's variable.
    unsafe { *c::__errno_location() = error };
}

/// Signals do not reach the program: it learns of a closed pipe by the error. Other signals are reported.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_kill(_pid: i64, signal: c_int) -> c_int {
    if signal != SIGPIPE {
        let mut number = [0; 20];
        let number = digits(u64::from(signal.unsigned_abs()), &mut number);
        console::say(&["rumpuser: signal ", core::str::from_utf8(number).unwrap_or("?"), " is not delivered\n"]);
    }
    ENOSYS
}

/// For kernels in shared libraries. This one is linked, and finds its parts itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_dl_bootstrap(_: *const c_void, _: *const c_void, _: *const c_void) {}

/// There is no `fork`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_daemonize_begin() -> c_int {
    ENOSYS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_daemonize_done(_error: c_int) -> c_int {
    ENOSYS
}
