//! Calls before and after `main`, and conversions between descriptors and handles.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ffi::{CStr, c_char, c_int};
use core::sync::atomic::{AtomicU32, Ordering};

use abi::{Rights, Status};
use processargs::{HandleInfo, PA_FD, PA_NS_DIR, PA_VMO_BOOTFS, PA_VMO_VDSO};
use zx::{AsHandleRef, Handle, HandleRef, Unowned, Vmar, Vmo};

use crate::c::O_RDWR;
use crate::description::Description;
use crate::namespace;
use crate::network::Network;
use crate::object::Object;
use crate::path::Device;
use crate::services;
use crate::table;

unsafe extern "C" {
    static environ: *const *const c_char;
    safe fn zx_vmar_root_self() -> u32;
}

/// Handle of the vDSO's VMO, for processes that this one starts.
static VDSO: AtomicU32 = AtomicU32::new(0);

/// The vDSO's VMO, if this process received it.
pub fn vdso() -> Option<Unowned<'static, Vmo>> {
    Unowned::from_raw(VDSO.load(Ordering::Acquire))
}

/// The C library calls this before `main`. It takes the handles that become descriptors, and copies handles that this
/// library needs too. It clears the array's entry of each handle that it takes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __libc_extensions_init(
    count: u32,
    handles: *mut u32,
    infos: *mut u32,
    name_count: u32,
    names: *mut *mut c_char,
) {
    for index in 0..count as usize {
        // SAFETY: the C library passes arrays of that length.
        let (place, info) = unsafe { (&mut *handles.add(index), &mut *infos.add(index)) };
        let what = HandleInfo::from_word(*info);
        match what.kind {
            PA_FD => {
                let handle = Handle::from_raw(core::mem::take(place));
                *info = 0;
                let fd = c_int::from(what.arg);
                // If no descriptor can refer to such an object, the descriptor stays closed.
                if let Some(object) = handle.and_then(|handle| given(fd, handle)) {
                    let _ = table::put(Arc::new(Description::new(object, O_RDWR)), fd, false);
                }
            }
            PA_VMO_BOOTFS => {
                if let Some(image) = duplicate(*place).map(Vmo::from)
                    && let Some(root) = vmar_root()
                {
                    // Without a valid image, there are no files below `/boot`.
                    let _ = namespace::set_boot(&root, image);
                }
            }
            PA_NS_DIR => {
                let handle = Handle::from_raw(core::mem::take(place));
                *info = 0;
                let name = (u32::from(what.arg) < name_count).then(|| {
                    // SAFETY: the C library passes an array of that length, of C strings.
                    unsafe { crate::c::text(*names.add(what.arg.into())) }
                });
                match (handle, name) {
                    (Some(handle), Some(Ok(services::PATH))) => _ = services::set(handle.into()),
                    // An entry with an invalid path is dropped.
                    (Some(handle), Some(Ok(path))) => _ = namespace::bind(path, handle.into()),
                    _ => {}
                }
            }
            PA_VMO_VDSO => {
                if let Some(vdso) = duplicate(*place) {
                    VDSO.store(vdso.into_raw(), Ordering::Release);
                }
            }
            _ => {}
        }
    }
    // SAFETY: the C library's array, which nothing else accesses before `main`.
    if let Some(directory) = unsafe { take_variable(DIRECTORY).or_else(|| variable(b"PWD=")) } {
        namespace::start_in(directory);
    }
    // A program relies on the first three descriptors not being reused for its files.
    for fd in 0..3 {
        if !table::in_use(fd) {
            let _ = table::put(Arc::new(Description::new(Object::Device(Device::Null), O_RDWR)), fd, false);
        }
    }
}

/// Makes an object for a descriptor from a handle. The second handle for a descriptor makes a network socket of both;
/// otherwise the handle alone makes the object.
fn given(fd: c_int, handle: Handle) -> Option<Object> {
    if let Ok(first) = table::get(fd)
        && let Object::Socket { socket, .. } = &first.object
    {
        return Network::from_handles(socket, handle).ok().map(Object::Network);
    }
    Object::from_handle(handle).ok()
}

/// Variable in which a parent's fdio passes the child's working directory.
pub(crate) const DIRECTORY: &[u8] = b"HAFNON_WORKING_DIRECTORY=";

/// Like [`variable`], and removes the variable from the environment.
///
/// # Safety
/// Nothing else uses the environment at this time.
unsafe fn take_variable<'a>(name: &[u8]) -> Option<&'a [u8]> {
    // SAFETY: as the caller says; a null-terminated array of C strings, or null. It only gets shorter.
    unsafe {
        let mut next = environ.cast_mut();
        while !next.is_null() && !(*next).is_null() {
            if let Some(value) = CStr::from_ptr(*next).to_bytes().strip_prefix(name) {
                while !(*next).is_null() {
                    *next = *next.add(1);
                    next = next.add(1);
                }
                return Some(value);
            }
            next = next.add(1);
        }
    }
    None
}

/// The value of an environment variable; `name` ends with `=`.
///
/// # Safety
/// The environment does not change.
unsafe fn variable<'a>(name: &[u8]) -> Option<&'a [u8]> {
    // SAFETY: as the caller says; a null-terminated array of C strings, or null.
    unsafe {
        let mut next = environ;
        while !next.is_null() && !(*next).is_null() {
            if let Some(value) = CStr::from_ptr(*next).to_bytes().strip_prefix(name) {
                return Some(value);
            }
            next = next.add(1);
        }
    }
    None
}

fn duplicate(handle: u32) -> Option<Handle> {
    HandleRef::from_raw(handle).duplicate_handle(Rights::SAME_RIGHTS).ok()
}

/// The C library calls this after `main`. Descriptors end with the process, but a partial line of the log must be
/// written.
#[unsafe(no_mangle)]
pub extern "C" fn __libc_extensions_fini() {
    table::send_touched();
    for fd in 0..3 {
        if let Ok(description) = table::get(fd)
            && let Object::Log { line, .. } = &description.object
            && !line.lock().is_empty()
        {
            let _ = description.object.write(b"\n", zx::MonotonicInstant::INFINITE);
        }
    }
}

/// Converts a result to a C status.
pub fn status(result: Result<(), Status>) -> i32 {
    result.map_or_else(|status| status.0, |()| 0)
}

/// Makes a descriptor for a handle. Consumes the handle, even on failure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdio_fd_create(handle: u32, out: *mut c_int) -> i32 {
    status((|| {
        let object = Object::from_handle(Handle::from_raw(handle).ok_or(Status::BAD_HANDLE)?)?;
        let fd = table::add(Arc::new(Description::new(object, O_RDWR)), 0, false).map_err(|_| Status::NO_RESOURCES)?;
        // SAFETY: the caller's memory for a descriptor.
        unsafe { out.write(fd as c_int) };
        Ok(())
    })())
}

/// Makes a handle from which another process can make the same descriptor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdio_fd_clone(fd: c_int, out: *mut u32) -> i32 {
    status(clone_fd(fd).and_then(only).map(|handle| {
        // SAFETY: the caller's memory for a handle.
        unsafe { out.write(handle.into_raw()) }
    }))
}

/// Like [`fdio_fd_clone`], and closes the descriptor, even on failure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdio_fd_transfer(fd: c_int, out: *mut u32) -> i32 {
    status(transfer_fd(fd).and_then(only).map(|handle| {
        // SAFETY: the caller's memory for a handle.
        unsafe { out.write(handle.into_raw()) }
    }))
}

/// The same as [`fdio_fd_transfer`]: every handle here can be cloned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdio_fd_transfer_or_clone(fd: c_int, out: *mut u32) -> i32 {
    // SAFETY: the same conditions.
    unsafe { fdio_fd_transfer(fd, out) }
}

/// Handles for a descriptor, which stays open.
pub fn clone_fd(fd: c_int) -> Result<Vec<Handle>, Status> {
    table::get(fd).map_err(|_| Status::INVALID_ARGS)?.object.to_handles()
}

/// Handles for a descriptor, which is closed.
pub fn transfer_fd(fd: c_int) -> Result<Vec<Handle>, Status> {
    table::give_away(fd).map_err(|_| Status::INVALID_ARGS)?.object.to_handles()
}

/// The handle of an object that needs only one.
fn only(handles: Vec<Handle>) -> Result<Handle, Status> {
    <[Handle; 1]>::try_from(handles).map(|[handle]| handle).map_err(|_| Status::NOT_SUPPORTED)
}

/// The address space of this process.
pub fn vmar_root() -> Option<Unowned<'static, Vmar>> {
    Unowned::from_raw(zx_vmar_root_self())
}
