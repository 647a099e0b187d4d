//! The handles that a program was started with. The C library keeps them; each handle can be taken once.

use core::ffi::{c_char, c_void};
use std::ffi::CString;
use std::os::fd::{FromRawFd, OwnedFd};

use crate::{
    Channel, Clock, Handle, HandleRef, Job, Process, Resource, Result, Status, Thread, Unowned, Vmar, check, sys,
};

unsafe extern "C" {
    safe fn zx_take_startup_handle(info: u32) -> sys::zx_handle_t;
    safe fn hafnon_startup_handle(info: u32) -> sys::zx_handle_t;
    safe fn zx_thread_self() -> sys::zx_handle_t;
    safe fn zx_process_self() -> sys::zx_handle_t;
    safe fn zx_vmar_root_self() -> sys::zx_handle_t;
    safe fn zx_job_default() -> sys::zx_handle_t;
    safe fn zx_utc_reference_get() -> sys::zx_handle_t;
    safe fn dl_set_loader_service(service: sys::zx_handle_t) -> sys::zx_handle_t;
    fn dl_clone_loader_service(out: *mut sys::zx_handle_t) -> i32;
    fn fdio_fd_create(handle: sys::zx_handle_t, out: *mut i32) -> i32;
    fn fdio_service_connect(path: *const c_char, request: sys::zx_handle_t) -> i32;
    fn fdio_ns_get_installed(out: *mut *mut c_void) -> i32;
    fn fdio_ns_bind(name_space: *mut c_void, path: *const c_char, channel: sys::zx_handle_t) -> i32;
}

/// Takes the startup handle of this type (`PA_*`) and argument.
pub fn take(kind: u32, arg: u16) -> Option<Handle> {
    Handle::from_raw(zx_take_startup_handle(kind | u32::from(arg) << 16))
}

/// Type of the root resource among startup handles (`PA_RESOURCE`).
const RESOURCE: u32 = 0x3f;

/// Takes the root resource, which only the first programs have.
pub fn take_resource() -> Option<Resource> {
    take(RESOURCE, 0).map(Resource::from)
}

/// The root resource, if it has not been taken. While it has not been taken, programs that this one starts receive it
/// too.
pub fn resource() -> Option<Unowned<'static, Resource>> {
    Unowned::from_raw(hafnon_startup_handle(RESOURCE))
}

/// Borrows a handle that the C library keeps, and that every program has.
fn kept<T: From<Handle>>(raw: sys::zx_handle_t) -> Unowned<'static, T> {
    Unowned::from_raw(raw).expect("a program is started with handles to itself")
}

/// This process.
pub fn process_self() -> Unowned<'static, Process> {
    kept(zx_process_self())
}

/// The calling thread.
pub fn thread_self() -> Unowned<'static, Thread> {
    kept(zx_thread_self())
}

/// The root VMAR of this process.
pub fn vmar_root_self() -> Unowned<'static, Vmar> {
    kept(zx_vmar_root_self())
}

/// The job for new processes, if there is one.
pub fn job_default() -> Option<Unowned<'static, Job>> {
    Unowned::from_raw(zx_job_default())
}

/// The UTC clock, if there is one.
pub fn utc_reference() -> Option<Unowned<'static, Clock>> {
    Unowned::from_raw(zx_utc_reference_get())
}

/// The calling thread's handle, for calls that take any handle.
pub fn thread_self_ref() -> HandleRef<'static> {
    HandleRef::from_raw(zx_thread_self())
}

/// Replaces the loader service of this process and of the processes that it starts. Returns the previous one.
pub fn set_loader_service(service: Channel) -> Option<Channel> {
    Handle::from_raw(dl_set_loader_service(service.into_handle().into_raw())).map(Channel::from)
}

/// Opens another connection to this process's loader service, for a process that this one builds.
///
/// # Errors
/// `NOT_FOUND`: this process has none.
pub fn clone_loader_service() -> Result<Channel> {
    let mut out = 0;
    // SAFETY: `out` has room for one handle.
    check(unsafe { dl_clone_loader_service(&mut out) })?;
    Ok(Channel::from(Handle::from_call(out)?))
}

/// Makes a file descriptor for a handle (a socket, ...). Consumes the handle, even on failure.
///
/// # Errors
/// `NOT_SUPPORTED`: no descriptor can refer to an object of this type.
pub fn descriptor(handle: Handle) -> Result<OwnedFd> {
    let mut fd = 0;
    // SAFETY: `fd` has room for one descriptor.
    check(unsafe { fdio_fd_create(handle.into_raw(), &mut fd) })?;
    // SAFETY: a new descriptor, which nothing else uses.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Connects to the service with this name. If it does not exist, the channel's other end is closed.
///
/// # Errors
/// `NOT_FOUND`: this process received no services.
pub fn connect(name: &str) -> Result<Channel> {
    let (ours, theirs) = Channel::create()?;
    connect_with(name, theirs.into_handle())?;
    Ok(ours)
}

/// Like [`connect`], with the service's end of the connection, which need not be a channel.
///
/// # Errors
/// `NOT_FOUND`: this process received no services.
pub fn connect_with(name: &str, end: Handle) -> Result<()> {
    let path = CString::new(std::format!("/svc/{name}")).map_err(|_| Status::INVALID_ARGS)?;
    // SAFETY: a C string.
    check(unsafe { fdio_service_connect(path.as_ptr(), end.into_raw()) })
}

/// Sets the channel through which this process, and those that it starts, connect to services.
///
/// # Errors
/// `ALREADY_EXISTS`: there is one.
pub fn bind_services(channel: Channel) -> Result<()> {
    let mut name_space = core::ptr::null_mut();
    // SAFETY: `name_space` has room for one pointer; a C string.
    unsafe {
        check(fdio_ns_get_installed(&mut name_space))?;
        check(fdio_ns_bind(name_space, c"/svc".as_ptr(), channel.into_handle().into_raw()))
    }
}
