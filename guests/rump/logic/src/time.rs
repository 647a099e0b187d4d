//! Times of the interface: seconds and nanoseconds.

const SECOND: i64 = 1_000_000_000;

/// Nanoseconds; a time before zero is zero, and one that is too late is the latest.
pub fn nanoseconds(seconds: i64, nanoseconds: i64) -> i64 {
    seconds.saturating_mul(SECOND).saturating_add(nanoseconds).max(0)
}

/// The deadline that is this far from `now`.
pub fn deadline(now: i64, seconds: i64, more: i64) -> i64 {
    now.saturating_add(nanoseconds(seconds, more))
}

/// Seconds and nanoseconds of a time; a time before zero is zero.
pub fn parts(time: i64) -> (i64, i64) {
    let time = time.max(0);
    (time / SECOND, time % SECOND)
}
