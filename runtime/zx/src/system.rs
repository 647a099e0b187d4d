//! What the system tells of itself, randomness, power.

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

/// The machine's memory in bytes.
pub fn system_get_physmem() -> u64 {
    // SAFETY: no memory involved.
    unsafe { sys::zx_system_get_physmem() }
}

/// The system's version.
pub fn system_get_version_string() -> &'static str {
    let view = system_get_version_view();
    // SAFETY: the vDSO answers with a string in itself, which is there while the process is.
    let bytes = unsafe { core::slice::from_raw_parts(view.c_str.cast::<u8>(), view.length) };
    core::str::from_utf8(bytes).unwrap_or("")
}

/// The system's version as the call gives it: with a zero after it.
pub fn system_get_version_view() -> sys::zx_string_view_t {
    // SAFETY: no memory involved.
    unsafe { sys::zx_system_get_version_string() }
}

/// Fills `bytes` with random numbers.
pub fn cprng_draw(bytes: &mut [u8]) {
    // SAFETY: the buffer is valid for its length.
    unsafe { sys::zx_cprng_draw(bytes.as_mut_ptr().cast(), bytes.len()) };
}

/// Adds entropy to the generator.
///
/// # Errors
/// `INVALID_ARGS` for over 256 bytes.
pub fn cprng_add_entropy(bytes: &[u8]) -> Result<()> {
    // SAFETY: the buffer is valid for its length.
    check(unsafe { sys::zx_cprng_add_entropy(bytes.as_ptr().cast(), bytes.len()) })
}

/// Switches the machine off or starts it again (`ZX_SYSTEM_POWERCTL_*`).
///
/// # Errors
/// `ACCESS_DENIED`, `INVALID_ARGS`, `NOT_SUPPORTED`.
pub fn system_powerctl(resource: &Resource, command: u32) -> Result<()> {
    // SAFETY: no argument structure.
    check(unsafe { sys::zx_system_powerctl(resource.raw_handle(), command, core::ptr::null()) })
}

/// The event that is signalled while memory is as short as `kind` (`ZX_SYSTEM_EVENT_*`) says.
///
/// # Errors
/// `ACCESS_DENIED` for a job that is not the root job, `INVALID_ARGS`.
pub fn system_get_event(root_job: &Job, kind: u32) -> Result<Event> {
    let mut out = 0;
    // SAFETY: `out` is one handle's place.
    check(unsafe { sys::zx_system_get_event(root_job.raw_handle(), kind, &mut out) })?;
    Ok(Event::from(Handle::from_call(out)?))
}
