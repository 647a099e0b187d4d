//! Time.

/// Nanoseconds since the start are `(counter + offset) * numerator / denominator`, rounded down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Conversion {
    /// Frequency of the counter, in Hz.
    pub per_second: u64,
    /// Added to the raw counter, modulo 2^64.
    pub offset: u64,
    /// Numerator of the formula.
    pub numerator: u32,
    /// Denominator of the formula; not 0.
    pub denominator: u32,
}

/// The clock, and the alarm.
pub trait Time {
    /// Nanoseconds since the start.
    fn now(&self) -> i64;
    /// The raw counter behind [`Self::now`], as programs read it.
    fn ticks(&self) -> i64;
    /// The conversion from the raw counter to [`Self::now`], so that programs compute the same nanosecond.
    fn conversion(&self) -> Conversion;
    /// Nanoseconds from the UNIX epoch (1970) to the zero of [`Self::now`].
    fn utc_offset(&self) -> i64;
    /// Requests a timer event not before `deadline` (nanoseconds as in [`Self::now`]). The earliest requested
    /// deadline counts; an event that comes too early is harmless.
    fn set_deadline(&mut self, deadline: i64);
    /// Nanoseconds during which no thread was ready to run; none if the machine does not know.
    fn idle_time(&self) -> Option<i64>;
}
