//! Services: what a process reaches by a name below `/svc`.
//!
//! A process is given one channel, whose other end knows the names. To connect to a service is to make a channel, keep
//! one end and send the other with the name; nobody answers, and whoever has no such service closes the end. The empty
//! name asks for a second channel like the first: a process gives that to a child.

use abi::Status;
use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicU32, Ordering};
use zx::{Channel, Handle, Unowned};

use crate::namespace;
use crate::startup::status;

/// The path that services are below.
pub const PATH: &str = "/svc";

/// The channel, once there is one; it stays for as long as the process lives.
static SERVICES: AtomicU32 = AtomicU32::new(0);

/// Takes the channel that this process was given.
///
/// # Errors
/// [`Status::ALREADY_EXISTS`]: there is one.
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

/// Sends `request`, which is gone even when it fails, to the service of that name.
///
/// # Errors
/// [`Status::NOT_FOUND`]: this process was given no services.
pub fn connect(name: &str, request: Handle) -> Result<(), Status> {
    let services = Unowned::<Channel>::from_raw(SERVICES.load(Ordering::Acquire)).ok_or(Status::NOT_FOUND)?;
    services.write_handles(name.as_bytes(), [request])
}

/// A channel like this process' own, for a child.
pub fn another() -> Option<Channel> {
    let (ours, theirs) = Channel::create().ok()?;
    connect("", theirs.into_handle()).ok()?;
    Some(ours)
}

/// Asks for what is found at an absolute path of the system's name space.
///
/// # Errors
/// `NOT_FOUND`: this process was not given any services.
pub fn ask(path: &str, request: Handle) -> Result<(), Status> {
    connect(path, request)
}

/// Connects `request`, which is gone even when it fails, to the service of a path below `/svc`.
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

/// The name space of this process, for [`fdio_ns_bind`]: there is one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdio_ns_get_installed(out: *mut *mut c_void) -> c_int {
    // SAFETY: the caller's place for a pointer, to which nobody looks.
    unsafe { out.write(core::ptr::from_ref(&SERVICES).cast_mut().cast()) };
    0
}

/// Binds a channel, which is gone even when it fails, to a path: the root of a file system, or what services are reached by.
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

/// Takes the file system of a path out of the name space; what is open stays open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdio_ns_unbind(_name_space: *mut c_void, path: *const c_char) -> c_int {
    status((|| {
        // SAFETY: the caller's string.
        namespace::unbind(unsafe { crate::c::text(path) }.map_err(|_| Status::INVALID_ARGS)?)
    })())
}
