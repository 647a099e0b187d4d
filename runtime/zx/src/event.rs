//! Events, event pairs, timers and counters: objects that consist of little more than their signals.

use crate::handle::object;
use crate::{AsHandleRef, Duration, Handle, MonotonicInstant, Result, check, sys};

object! {
    /// An event: user signals on one object.
    Event
}

impl Event {
    /// Makes an event.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn create() -> Result<Event> {
        let mut out = 0;
        // SAFETY: `out` has room for one handle.
        check(unsafe { sys::zx_event_create(0, &mut out) })?;
        Ok(Event(Handle::from_call(out)?))
    }
}

object! {
    /// One of two events that signal each other.
    EventPair
}

impl EventPair {
    /// Makes a pair.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn create() -> Result<(EventPair, EventPair)> {
        let (mut a, mut b) = (0, 0);
        // SAFETY: `a` and `b` have room for one handle each.
        check(unsafe { sys::zx_eventpair_create(0, &mut a, &mut b) })?;
        Ok((EventPair(Handle::from_call(a)?), EventPair(Handle::from_call(b)?)))
    }
}

object! {
    /// A timer on the monotonic clock.
    Timer
}

impl Timer {
    /// Makes a timer that is not set. Options: `ZX_TIMER_SLACK_*`.
    ///
    /// # Errors
    /// `INVALID_ARGS`, `NO_MEMORY`.
    pub fn create(options: u32) -> Result<Timer> {
        let mut out = 0;
        // SAFETY: `out` has room for one handle.
        check(unsafe { sys::zx_timer_create(options, 0, &mut out) })?;
        Ok(Timer(Handle::from_call(out)?))
    }

    /// Sets the timer to signal at `deadline`, with a tolerance of `slack`.
    ///
    /// # Errors
    /// `OUT_OF_RANGE`: the slack is negative.
    pub fn set(&self, deadline: MonotonicInstant, slack: Duration) -> Result<()> {
        // SAFETY: no memory involved.
        check(unsafe { sys::zx_timer_set(self.raw_handle(), deadline.0, slack.0) })
    }

    /// Stops the timer and clears its signal.
    ///
    /// # Errors
    /// `ACCESS_DENIED`.
    pub fn cancel(&self) -> Result<()> {
        // SAFETY: no memory involved.
        check(unsafe { sys::zx_timer_cancel(self.raw_handle()) })
    }
}

object! {
    /// A counter, whose signals say whether it is positive.
    Counter
}

impl Counter {
    /// Makes a counter at zero.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn create() -> Result<Counter> {
        let mut out = 0;
        // SAFETY: `out` has room for one handle.
        check(unsafe { sys::zx_counter_create(0, &mut out) })?;
        Ok(Counter(Handle::from_call(out)?))
    }

    /// Adds to the counter.
    ///
    /// # Errors
    /// `OUT_OF_RANGE`: the counter would overflow.
    pub fn add(&self, value: i64) -> Result<()> {
        // SAFETY: no memory involved.
        check(unsafe { sys::zx_counter_add(self.raw_handle(), value) })
    }

    /// The counter's value.
    ///
    /// # Errors
    /// `ACCESS_DENIED`.
    pub fn read(&self) -> Result<i64> {
        let mut value = 0;
        // SAFETY: `value` has room for one number.
        check(unsafe { sys::zx_counter_read(self.raw_handle(), &mut value) })?;
        Ok(value)
    }

    /// Sets the counter.
    ///
    /// # Errors
    /// `ACCESS_DENIED`.
    pub fn write(&self, value: i64) -> Result<()> {
        // SAFETY: no memory involved.
        check(unsafe { sys::zx_counter_write(self.raw_handle(), value) })
    }
}
