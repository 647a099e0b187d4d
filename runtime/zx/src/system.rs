//! Information about the system, random numbers, and power control.

use crate::{AsHandleRef, Event, Handle, Job, Resource, Result, check, sys};

/// The number of processors.
pub fn system_get_num_cpus() -> u32 {
    // SAFETY: no memory involved.
    unsafe { sys::zx_system_get_num_cpus() }
}

/// The size of a page in bytes.
pub fn system_get_page_size() -> u32 {
    // SAFETY: no memory involved.
    unsafe { sys::zx_system_get_page_size() }
}

/// The size of a data cache line in bytes.
pub fn system_get_dcache_line_size() -> u32 {
    // SAFETY: no memory involved.
    unsafe { sys::zx_system_get_dcache_line_size() }
}

/// Size of the machine's physical memory in bytes.
pub fn system_get_physmem() -> u64 {
    // SAFETY: no memory involved.
    unsafe { sys::zx_system_get_physmem() }
}

/// The system's version.
pub fn system_get_version_string() -> &'static str {
    let view = system_get_version_view();
    // SAFETY: the vDSO returns a string in its own image, which is valid until the process ends.
    let bytes = unsafe { core::slice::from_raw_parts(view.c_str.cast::<u8>(), view.length) };
    core::str::from_utf8(bytes).unwrap_or("")
}

/// The system's version as the call returns it: with a terminating zero.
pub fn system_get_version_view() -> sys::zx_string_view_t {
    // SAFETY: no memory involved.
    unsafe { sys::zx_system_get_version_string() }
}

/// Fills `bytes` with random bytes.
pub fn cprng_draw(bytes: &mut [u8]) {
    // SAFETY: the buffer is valid for its length.
    unsafe { sys::zx_cprng_draw(bytes.as_mut_ptr().cast(), bytes.len()) };
}

/// Adds entropy to the random number generator.
///
/// # Errors
/// `INVALID_ARGS`: more than 256 bytes.
pub fn cprng_add_entropy(bytes: &[u8]) -> Result<()> {
    // SAFETY: the buffer is valid for its length.
    check(unsafe { sys::zx_cprng_add_entropy(bytes.as_ptr().cast(), bytes.len()) })
}

/// Powers off or reboots the machine (`ZX_SYSTEM_POWERCTL_*`).
///
/// # Errors
/// `ACCESS_DENIED`, `INVALID_ARGS`, `NOT_SUPPORTED`.
pub fn system_powerctl(resource: &Resource, command: u32) -> Result<()> {
    // SAFETY: there is no argument structure.
    check(unsafe { sys::zx_system_powerctl(resource.raw_handle(), command, core::ptr::null()) })
}

/// The event that is signalled while the memory pressure is at the level `kind` (`ZX_SYSTEM_EVENT_*`).
///
/// # Errors
/// `ACCESS_DENIED`: the job is not the root job. `INVALID_ARGS`.
pub fn system_get_event(root_job: &Job, kind: u32) -> Result<Event> {
    let mut out = 0;
    // SAFETY: `out` has room for one handle.
    check(unsafe { sys::zx_system_get_event(root_job.raw_handle(), kind, &mut out) })?;
    Ok(Event::from(Handle::from_call(out)?))
}
