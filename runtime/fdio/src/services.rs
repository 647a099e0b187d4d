//! Services that a process reaches by names below `/svc`.
//!
//! A process receives one channel, whose peer resolves the names. To connect to a service, a process makes a channel,
//! keeps one end, and sends the other with the name. There is no answer; if the peer does not have the service, it
//! closes the end. The empty name requests a second channel like the first, which a process passes on to a child.

use abi::Status;
use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicU32, Ordering};
use zx::{Channel, Handle, Unowned};

use crate::namespace;
use crate::startup::status;

/// Directory of services.
pub const PATH: &str = "/svc";

/// The channel's handle, or 0. It stays open until the process ends.
static SERVICES: AtomicU32 = AtomicU32::new(0);

/// Stores the channel that this process received.
///
/// # Errors
/// [`Status::ALREADY_EXISTS`]: a channel is already stored.
pub fn set(channel: Channel) -> Result<(), Status> {
    let raw = channel.into_handle().into_raw();
    match SERVICES.compare_exchange(0, raw, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Ok(()),
        Err(_) => {
            drop(Handle::from_raw(raw));
            Err(Status::ALREADY_EXISTS)
        }
    }
}

/// Sends `request` to the service `name`. Consumes `request`, even on failure.
///
/// # Errors
/// [`Status::NOT_FOUND`]: this process received no services.
pub fn connect(name: &str, request: Handle) -> Result<(), Status> {
    let services = Unowned::<Channel>::from_raw(SERVICES.load(Ordering::Acquire)).ok_or(Status::NOT_FOUND)?;
    services.write_handles(name.as_bytes(), [request])
}

/// A new channel to the services, for a child.
pub fn another() -> Option<Channel> {
    let (ours, theirs) = Channel::create().ok()?;
    connect("", theirs.into_handle()).ok()?;
    Some(ours)
}

/// Requests the file system at an absolute path of the system's name space.
///
/// # Errors
/// `NOT_FOUND`: this process received no services.
pub fn ask(path: &str, request: Handle) -> Result<(), Status> {
    connect(path, request)
}

/// Connects `request` to the service at a path below `/svc`. Consumes `request`, even on failure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdio_service_connect(path: *const c_char, request: u32) -> c_int {
    status((|| {
        let request = Handle::from_raw(request).ok_or(Status::BAD_HANDLE)?;
        // SAFETY: the caller's string.
        let path = unsafe { crate::c::text(path) }.map_err(|_| Status::INVALID_ARGS)?;
        let name = path.strip_prefix(PATH).and_then(|rest| rest.strip_prefix('/')).ok_or(Status::NOT_FOUND)?;
        if name.is_empty() { Err(Status::INVALID_ARGS) } else { connect(name, request) }
    })())
}

/// Returns the process's only name space, for [`fdio_ns_bind`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdio_ns_get_installed(out: *mut *mut c_void) -> c_int {
    // SAFETY: `out` points to the caller's pointer; nothing dereferences the value.
    unsafe { out.write(core::ptr::from_ref(&SERVICES).cast_mut().cast()) };
    0
}

/// Binds a channel to a path: the root of a file system, or the channel to services. Consumes it, even on failure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdio_ns_bind(_name_space: *mut c_void, path: *const c_char, channel: u32) -> c_int {
    status((|| {
        let channel = Handle::from_raw(channel).map(Channel::from).ok_or(Status::BAD_HANDLE)?;
        // SAFETY: the caller's string.
        match unsafe { crate::c::text(path) } {
            Ok(PATH) => set(channel),
            Ok(path) => namespace::bind(path, channel),
            Err(_) => Err(Status::INVALID_ARGS),
        }
    })())
}

/// Removes the file system at a path from the name space. Open files stay open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdio_ns_unbind(_name_space: *mut c_void, path: *const c_char) -> c_int {
    status((|| {
        // SAFETY: the caller's string.
        namespace::unbind(unsafe { crate::c::text(path) }.map_err(|_| Status::INVALID_ARGS)?)
    })())
}
