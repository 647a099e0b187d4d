//! Clocks and sleeping.
//!
//! `CLOCK_MONOTONIC` is Zircon's monotonic clock, which the vDSO reads. `CLOCK_REALTIME` is the UTC clock that the
//! process received at its start. In a process without a UTC clock, the time is 1970-01-01 plus the system's uptime, so
//! it is wrong but advances. The CPU-time clocks of process and thread return their run time.

use crate::errno::{self, EINVAL, ENOTSUP};
use crate::thread::{self, cancel};
use crate::{sys, system};

/// Seconds and nanoseconds.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Timespec {
    pub seconds: i64,
    pub nanos: i64,
}

const CLOCK_REALTIME: i32 = 0;
const CLOCK_MONOTONIC: i32 = 1;
const CLOCK_PROCESS_CPUTIME_ID: i32 = 2;
const CLOCK_THREAD_CPUTIME_ID: i32 = 3;
const CLOCK_MONOTONIC_RAW: i32 = 4;
const CLOCK_REALTIME_COARSE: i32 = 5;
const CLOCK_MONOTONIC_COARSE: i32 = 6;
const CLOCK_BOOTTIME: i32 = 7;
const NANOS: i64 = 1_000_000_000;

impl Timespec {
    /// Converts from nanoseconds.
    pub fn from_nanos(nanos: i64) -> Self {
        Self { seconds: nanos.div_euclid(NANOS), nanos: nanos.rem_euclid(NANOS) }
    }

    /// Converts to nanoseconds, saturating; `None` if the fields are invalid.
    pub fn to_nanos(self) -> Option<i64> {
        if !(0..NANOS).contains(&self.nanos) {
            return None;
        }
        Some(self.seconds.saturating_mul(NANOS).saturating_add(self.nanos))
    }
}

fn monotonic() -> i64 {
    // SAFETY: no arguments.
    unsafe { sys::zx_clock_get_monotonic() }
}

fn utc() -> i64 {
    let clock = system::utc_clock();
    let mut now = 0;
    // SAFETY: there is room for the result.
    if clock != sys::HANDLE_INVALID && unsafe { sys::zx_clock_read(clock, &mut now) } == sys::OK {
        return now;
    }
    monotonic()
}

/// Run time of a process or thread in nanoseconds.
fn run_time(task: sys::Handle) -> Option<i64> {
    const INFO_TASK_RUNTIME: u32 = 30 | 1 << 28;
    let mut info = [0i64; 4];
    let (place, size) = (info.as_mut_ptr().cast(), size_of_val(&info));
    let none = core::ptr::null_mut;
    // SAFETY: `zx_info_task_runtime_t` is four words, the first is the CPU time.
    let status = unsafe { sys::zx_object_get_info(task, INFO_TASK_RUNTIME, place, size, none(), none()) };
    (status == sys::OK).then_some(info[0])
}

fn now(clock: i32) -> Option<i64> {
    match clock {
        CLOCK_REALTIME | CLOCK_REALTIME_COARSE => Some(utc()),
        CLOCK_PROCESS_CPUTIME_ID => run_time(system::zx_process_self()),
        CLOCK_THREAD_CPUTIME_ID => run_time(thread::current_handle()),
        CLOCK_MONOTONIC | CLOCK_MONOTONIC_RAW | CLOCK_MONOTONIC_COARSE | CLOCK_BOOTTIME => Some(monotonic()),
        _ => None,
    }
}

fn is_run_time(clock: i32) -> bool {
    matches!(clock, CLOCK_PROCESS_CPUTIME_ID | CLOCK_THREAD_CPUTIME_ID)
}

/// The monotonic deadline that corresponds to the time `time` of `clock`.
pub fn deadline(clock: i32, time: Timespec) -> Option<i64> {
    let at = time.to_nanos()?;
    Some(at.saturating_sub(now(clock)?).saturating_add(monotonic()))
}

/// The time of a clock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: i32, time: *mut Timespec) -> i32 {
    match now(clock) {
        Some(nanos) => {
            // SAFETY: `time` has room for the result.
            unsafe { *time = Timespec::from_nanos(nanos) };
            0
        }
        None => errno::fail(EINVAL),
    }
}

/// How exact the run times of threads are, in nanoseconds: the kernel samples them at its tick.
const TICK: i64 = 2_000_000;

/// The resolution of a clock: 1 ns, for run times the kernel's tick.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_getres(clock: i32, time: *mut Timespec) -> i32 {
    if now(clock).is_none() {
        return errno::fail(EINVAL);
    }
    if !time.is_null() {
        // SAFETY: `time` has room for the result.
        unsafe { *time = Timespec::from_nanos(if is_run_time(clock) { TICK } else { 1 }) };
    }
    0
}

/// Seconds since 1970, also stored in `out` unless null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn time(out: *mut i64) -> i64 {
    let seconds = utc().div_euclid(NANOS);
    if !out.is_null() {
        // SAFETY: `out` has room for the result.
        unsafe { *out = seconds };
    }
    seconds
}

/// Seconds and microseconds since 1970; the time zone is not set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gettimeofday(time: *mut [i64; 2], _zone: *mut u8) -> i32 {
    if !time.is_null() {
        let now = Timespec::from_nanos(utc());
        // SAFETY: `time` has room for the result.
        unsafe { *time = [now.seconds, now.nanos / 1000] };
    }
    0
}

fn sleep_until(deadline: i64) {
    cancel::pthread_testcancel();
    // SAFETY: a wait without pointers.
    unsafe { cancel::wait(sys::zx_nanosleep as *const () as usize, [deadline as usize, 0, 0, 0]) };
    cancel::pthread_testcancel();
}

/// Sleeps for `request`. There are no signals, so the whole time passes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nanosleep(request: *const Timespec, _remaining: *mut Timespec) -> i32 {
    // SAFETY: the caller's argument.
    match unsafe { *request }.to_nanos().filter(|&nanos| nanos >= 0) {
        Some(nanos) => {
            sleep_until(monotonic().saturating_add(nanos));
            0
        }
        None => errno::fail(EINVAL),
    }
}

/// Sleeps for a duration, or (`TIMER_ABSTIME`) until a time, of a clock. Returns an error number; `ENOTSUP` for a clock
/// of run times.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_nanosleep(
    clock: i32,
    flags: i32,
    request: *const Timespec,
    _remaining: *mut Timespec,
) -> i32 {
    const ABSOLUTE: i32 = 1;
    if flags & !ABSOLUTE != 0 || clock == CLOCK_THREAD_CPUTIME_ID {
        return EINVAL;
    }
    if clock == CLOCK_PROCESS_CPUTIME_ID {
        return ENOTSUP;
    }
    // SAFETY: the caller's argument.
    let request = unsafe { *request };
    let until = if flags & ABSOLUTE != 0 {
        deadline(clock, request)
    } else {
        request.to_nanos().filter(|_| now(clock).is_some()).map(|nanos| monotonic().saturating_add(nanos))
    };
    match until {
        Some(until) => {
            sleep_until(until);
            0
        }
        None => EINVAL,
    }
}

/// Sleeps for some seconds; returns the number of seconds not slept, which is 0.
#[unsafe(no_mangle)]
pub extern "C" fn sleep(seconds: u32) -> u32 {
    sleep_until(monotonic().saturating_add(i64::from(seconds) * NANOS));
    0
}

/// Sleeps for some microseconds.
#[unsafe(no_mangle)]
pub extern "C" fn usleep(micros: u32) -> i32 {
    sleep_until(monotonic().saturating_add(i64::from(micros) * 1000));
    0
}
