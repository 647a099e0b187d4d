//! Clocks and sleep.

use core::ffi::{c_int, c_long};

use rump_logic::error::EINVAL;
use rump_logic::time;
use zx::MonotonicInstant;

use crate::{c, kernel};

/// Wall time; for sleep: relative.
const WALL: c_int = 0;
/// Time since the system's start; for sleep: until then.
const MONOTONIC: c_int = 1;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_clock_gettime(clock: c_int, seconds: *mut i64, nanoseconds: *mut c_long) -> c_int {
    let (whole, rest) = match clock {
        WALL => {
            let mut now = [0; 2];
            // SAFETY: `now` is a `struct timespec`; clock 0 is the wall clock.
            if unsafe { c::clock_gettime(0, &mut now) } != 0 {
                return c::last_error();
            }
            (now[0], now[1])
        }
        MONOTONIC => time::parts(MonotonicInstant::now().0),
        _ => return EINVAL,
    };
    // SAFETY: the caller's variables.
    unsafe {
        *seconds = whole;
        *nanoseconds = rest;
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_clock_sleep(clock: c_int, seconds: i64, nanoseconds: c_long) -> c_int {
    let deadline = match clock {
        WALL => time::deadline(MonotonicInstant::now().0, seconds, nanoseconds),
        MONOTONIC => time::nanoseconds(seconds, nanoseconds),
        _ => return EINVAL,
    };
    // The call has no errors.
    let _ = kernel::outside(|| zx::nanosleep(MonotonicInstant(deadline)));
    0
}
