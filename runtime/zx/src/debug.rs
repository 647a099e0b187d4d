//! Resources, the kernel's log, the debug serial line, and the kernel's trace.

use crate::handle::object;
use crate::{AsHandleRef, Handle, Job, Result, check, sys};

object! {
    /// A resource: the right to a part of the machine.
    Resource
}

impl Resource {
    /// Makes a resource for a part of this one's range.
    ///
    /// # Errors
    /// `ACCESS_DENIED`, `INVALID_ARGS`, `OUT_OF_RANGE`.
    pub fn create_child(&self, options: u32, base: u64, size: usize, name: &str) -> Result<Resource> {
        let mut out = 0;
        // SAFETY: the name is valid for its length; `out` has room for one handle.
        check(unsafe {
            sys::zx_resource_create(self.raw_handle(), options, base, size, name.as_ptr().cast(), name.len(), &mut out)
        })?;
        Ok(Resource(Handle::from_call(out)?))
    }
}

object! {
    /// A handle to the kernel's log.
    Debuglog
}

impl Debuglog {
    /// Opens the log. Options: `ZX_LOG_FLAG_READABLE` or 0.
    ///
    /// # Errors
    /// `ACCESS_DENIED`: the resource does not allow it.
    pub fn create(resource: &Resource, options: u32) -> Result<Debuglog> {
        let mut out = 0;
        // SAFETY: `out` has room for one handle.
        check(unsafe { sys::zx_debuglog_create(resource.raw_handle(), options, &mut out) })?;
        Ok(Debuglog(Handle::from_call(out)?))
    }

    /// Writes one record; text beyond the limit is cut off.
    ///
    /// # Errors
    /// `ACCESS_DENIED`.
    pub fn write(&self, text: &[u8]) -> Result<()> {
        // SAFETY: the text is valid for its length.
        check(unsafe { sys::zx_debuglog_write(self.raw_handle(), 0, text.as_ptr().cast(), text.len()) })
    }

    /// Reads one record without waiting; returns its length in bytes.
    ///
    /// # Errors
    /// `SHOULD_WAIT`: there is no record.
    pub fn read(&self, record: &mut [u8]) -> Result<usize> {
        // SAFETY: the buffer is valid for its length.
        let got = unsafe { sys::zx_debuglog_read(self.raw_handle(), 0, record.as_mut_ptr().cast(), record.len()) };
        // On success, this call returns a length instead of OK.
        usize::try_from(got).map_err(|_| crate::Status(got))
    }
}

/// Writes bytes to the debug serial line.
///
/// # Errors
/// `NOT_SUPPORTED`: there is none. `ACCESS_DENIED`.
pub fn debug_write(bytes: &[u8]) -> Result<()> {
    // SAFETY: the bytes are valid for their length.
    check(unsafe { sys::zx_debug_write(bytes.as_ptr().cast(), bytes.len()) })
}

/// Reads bytes from the debug serial line; returns their number.
///
/// # Errors
/// `ACCESS_DENIED`, `NOT_SUPPORTED`.
pub fn debug_read(resource: &Resource, bytes: &mut [u8]) -> Result<usize> {
    let mut actual = 0;
    // SAFETY: the buffer is valid for its length.
    check(unsafe { sys::zx_debug_read(resource.raw_handle(), bytes.as_mut_ptr().cast(), bytes.len(), &mut actual) })?;
    Ok(actual)
}

/// Sends a command to the kernel, which answers in its log.
///
/// # Errors
/// `NOT_SUPPORTED`: the command does not exist. `ACCESS_DENIED`.
pub fn debug_send_command(resource: &Resource, command: &str) -> Result<()> {
    // SAFETY: the command is valid for its length.
    check(unsafe { sys::zx_debug_send_command(resource.raw_handle(), command.as_ptr().cast(), command.len()) })
}

/// Starts the kernel's trace of a job and everything below it.
///
/// # Errors
/// `BAD_STATE`: the trace is running. `NO_MEMORY`, `WRONG_TYPE`.
pub fn ktrace_start(resource: &Resource, job: &Job) -> Result<()> {
    let mut job = job.raw_handle();
    // SAFETY: the kernel reads the handle's value there; it is valid for the duration of the call.
    check(unsafe { sys::zx_ktrace_control(resource.raw_handle(), abi::KTRACE_ACTION_START, 0, (&raw mut job).cast()) })
}

/// Stops the kernel's trace, or discards its records: `KTRACE_ACTION_STOP`, `KTRACE_ACTION_REWIND`.
///
/// # Errors
/// `INVALID_ARGS`: another action. `WRONG_TYPE`.
pub fn ktrace_control(resource: &Resource, action: u32) -> Result<()> {
    // SAFETY: these actions use no memory.
    check(unsafe { sys::zx_ktrace_control(resource.raw_handle(), action, 0, core::ptr::null_mut()) })
}

/// Takes the oldest bytes of the kernel's trace; returns their number.
///
/// # Errors
/// `WRONG_TYPE`.
pub fn ktrace_read(resource: &Resource, bytes: &mut [u8]) -> Result<usize> {
    let mut actual = 0;
    // SAFETY: the buffer is valid for its length.
    check(unsafe {
        sys::zx_ktrace_read(resource.raw_handle(), bytes.as_mut_ptr().cast(), 0, bytes.len(), &mut actual)
    })?;
    Ok(actual)
}
