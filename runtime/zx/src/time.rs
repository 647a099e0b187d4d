//! Time: instants of the monotonic clock, and durations; both in nanoseconds.

use core::ops::{Add, Sub};

use crate::{Result, check, sys};

/// A duration in nanoseconds; may be negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Duration(pub i64);

impl Duration {
    /// The longest duration.
    pub const INFINITE: Duration = Duration(i64::MAX);

    /// A duration in nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Duration {
        Duration(nanos)
    }

    /// A duration in microseconds, saturating.
    pub const fn from_micros(micros: i64) -> Duration {
        Duration(micros.saturating_mul(1_000))
    }

    /// A duration in milliseconds, saturating.
    pub const fn from_millis(millis: i64) -> Duration {
        Duration(millis.saturating_mul(1_000_000))
    }

    /// A duration in seconds, saturating.
    pub const fn from_seconds(seconds: i64) -> Duration {
        Duration(seconds.saturating_mul(1_000_000_000))
    }

    /// The duration in nanoseconds.
    pub const fn into_nanos(self) -> i64 {
        self.0
    }
}

impl From<core::time::Duration> for Duration {
    fn from(duration: core::time::Duration) -> Duration {
        Duration(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
    }
}

/// An instant of the monotonic clock, in nanoseconds since the system's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MonotonicInstant(pub i64);

impl MonotonicInstant {
    /// The infinite future.
    pub const INFINITE: MonotonicInstant = MonotonicInstant(i64::MAX);
    /// The infinite past.
    pub const INFINITE_PAST: MonotonicInstant = MonotonicInstant(i64::MIN);
    /// The start of the clock; as a deadline, it means not to wait.
    pub const ZERO: MonotonicInstant = MonotonicInstant(0);

    /// Now.
    pub fn now() -> MonotonicInstant {
        // SAFETY: no memory involved.
        MonotonicInstant(unsafe { sys::zx_clock_get_monotonic() })
    }

    /// The instant that is `duration` from now, saturating.
    pub fn after(duration: Duration) -> MonotonicInstant {
        // SAFETY: no memory involved.
        MonotonicInstant(unsafe { sys::zx_deadline_after(duration.0) })
    }
}

impl Add<Duration> for MonotonicInstant {
    type Output = MonotonicInstant;

    fn add(self, duration: Duration) -> MonotonicInstant {
        MonotonicInstant(self.0.saturating_add(duration.0))
    }
}

impl Sub for MonotonicInstant {
    type Output = Duration;

    fn sub(self, earlier: MonotonicInstant) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

/// Sleeps until the deadline.
///
/// # Errors
/// None at present; the call has a status.
pub fn nanosleep(deadline: MonotonicInstant) -> Result<()> {
    // SAFETY: no memory involved.
    check(unsafe { sys::zx_nanosleep(deadline.0) })
}

/// The processor's tick counter.
pub fn ticks_get() -> i64 {
    // SAFETY: no memory involved.
    unsafe { sys::zx_ticks_get() }
}

/// Frequency of [`ticks_get`] in ticks per second.
pub fn ticks_per_second() -> i64 {
    // SAFETY: no memory involved.
    unsafe { sys::zx_ticks_per_second() }
}
