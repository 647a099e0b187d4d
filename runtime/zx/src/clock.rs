//! Clock objects.

use abi::{zx_clock_details_v1_t, zx_clock_update_args_v2_t};

use crate::handle::object;
use crate::{AsHandleRef, Handle, Info, Result, check, sys};

object! {
    /// A clock that programs can set, such as UTC.
    Clock
}

impl Clock {
    /// Makes a clock that has not started. Options: `ZX_CLOCK_OPT_*`.
    ///
    /// # Errors
    /// `INVALID_ARGS`, `NO_MEMORY`.
    pub fn create(options: u64) -> Result<Clock> {
        let mut out = 0;
        // SAFETY: there is no arguments structure; `out` has room for one handle.
        check(unsafe { sys::zx_clock_create(options, core::ptr::null(), &mut out) })?;
        Ok(Clock(Handle::from_call(out)?))
    }

    /// The clock's time in nanoseconds.
    ///
    /// # Errors
    /// `ACCESS_DENIED`.
    pub fn read(&self) -> Result<i64> {
        let mut now = 0;
        // SAFETY: `now` has room for one number.
        check(unsafe { sys::zx_clock_read(self.raw_handle(), &mut now) })?;
        Ok(now)
    }

    /// Size in bytes of its mapping ([`Vmar::map_clock`]).
    ///
    /// # Errors
    /// `INVALID_ARGS`: the clock cannot be mapped. `ACCESS_DENIED`.
    pub fn mapped_size(&self) -> Result<u64> {
        self.info_record(abi::ZX_INFO_CLOCK_MAPPED_SIZE)
    }

    /// All details of the clock.
    ///
    /// # Errors
    /// `ACCESS_DENIED`.
    pub fn details(&self) -> Result<zx_clock_details_v1_t> {
        let mut details = zx_clock_details_v1_t::default();
        let place = (&raw mut details).cast();
        // SAFETY: `place` has room for one record of the requested version.
        check(unsafe { sys::zx_clock_get_details(self.raw_handle(), abi::ZX_CLOCK_ARGS_VERSION_1, place) })?;
        Ok(details)
    }

    /// Starts, sets or adjusts the clock, with version 2 of the record; the options say which of its fields are valid.
    ///
    /// # Errors
    /// `INVALID_ARGS`, `BAD_STATE`, `ACCESS_DENIED`.
    pub fn update(&self, options: u64, args: &zx_clock_update_args_v2_t) -> Result<()> {
        let options = options | abi::ZX_CLOCK_ARGS_VERSION_2;
        // SAFETY: the pointer is to one record of the given version.
        check(unsafe { sys::zx_clock_update(self.raw_handle(), options, (&raw const *args).cast()) })
    }
}

/// The time of a clock that is mapped at an address.
///
/// # Errors
/// None. The caller is responsible for the contents of the address, as the crate's documentation says.
pub fn clock_read_mapped(address: usize) -> Result<i64> {
    let mut now = 0;
    // SAFETY: `now` has room for one number; the caller is responsible for the rest, as documented.
    check(unsafe { sys::zx_clock_read_mapped(core::ptr::with_exposed_provenance(address), &mut now) })?;
    Ok(now)
}

/// All details of a clock that is mapped at an address.
///
/// # Errors
/// As [`clock_read_mapped`].
pub fn clock_details_mapped(address: usize) -> Result<zx_clock_details_v1_t> {
    let mut details = zx_clock_details_v1_t::default();
    let (clock, place) = (core::ptr::with_exposed_provenance(address), (&raw mut details).cast());
    // SAFETY: `place` has room for one record of the requested version; the caller is responsible for the rest, as
    // documented.
    check(unsafe { sys::zx_clock_get_details_mapped(clock, abi::ZX_CLOCK_ARGS_VERSION_1, place) })?;
    Ok(details)
}
