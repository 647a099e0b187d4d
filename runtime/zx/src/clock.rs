//! Clock objects.

use crate::handle::object;
use crate::{AsHandleRef, Handle, Result, check, sys};

object! {
    /// A clock that somebody may set, such as UTC.
    Clock
}

impl Clock {
    /// Makes a clock that has not begun. Options: `ZX_CLOCK_OPT_*`.
    ///
    /// # Errors
    /// `INVALID_ARGS`, `NO_MEMORY`.
    pub fn create(options: u64) -> Result<Clock> {
        let mut out = 0;
        // SAFETY: no arguments structure; `out` is one handle's place.
        check(unsafe { sys::zx_clock_create(options, core::ptr::null(), &mut out) })?;
        Ok(Clock(Handle::from_call(out)?))
    }

    /// The clock's time in nanoseconds.
    ///
    /// # Errors
    /// `ACCESS_DENIED`.
    pub fn read(&self) -> Result<i64> {
        let mut now = 0;
        // SAFETY: `now` is one number's place.
        check(unsafe { sys::zx_clock_read(self.raw_handle(), &mut now) })?;
        Ok(now)
    }
}
