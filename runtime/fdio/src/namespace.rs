//! Names: the boot image, the working directory, and the functions that only look at names.

use alloc::string::String;
use core::ffi::{c_char, c_int};
use core::sync::atomic::{AtomicPtr, Ordering};

use abi::{Status, ZX_VM_PERM_READ};
use alloc::boxed::Box;
use bootfs::{Directory, HEADER_SIZE, Header};
use sync::Lock;
use zx::{Vmar, Vmo};

use crate::c::{self, AT_FDCWD, EBADF, ENOTDIR, Result};
use crate::object::Object;
use crate::path::{self, Node, PATH_MAX};
use crate::table;

/// The boot file system.
pub struct Boot {
    /// The image.
    pub image: Vmo,
    /// Its directory.
    pub directory: Directory<'static>,
}

/// Set once, before `main`; never freed.
static BOOT: AtomicPtr<Boot> = AtomicPtr::new(core::ptr::null_mut());

/// The working directory, clean and absolute; empty means `/`.
static WORKING_DIRECTORY: Lock<String> = Lock::new(String::new());

/// The boot file system, if this process was given it.
pub fn boot() -> Option<&'static Boot> {
    // SAFETY: null or a leaked box that nobody changes.
    unsafe { BOOT.load(Ordering::Acquire).as_ref() }
}

/// Takes the boot image: maps and checks its directory.
///
/// # Errors
/// What the kernel answers; [`Status::IO_DATA_INTEGRITY`] for an image that is none.
pub fn set_boot(root: &Vmar, image: Vmo) -> core::result::Result<(), Status> {
    let size = image.get_stream_size().or_else(|_| image.get_size())?;
    let mut header = [0; HEADER_SIZE];
    image.read(&mut header, 0)?;
    let bad = |_| Status::IO_DATA_INTEGRITY;
    let len = HEADER_SIZE + Header::parse(&header).map_err(bad)?.directory_size();
    if len as u64 > size {
        return Err(Status::IO_DATA_INTEGRITY);
    }
    let address = root.map(ZX_VM_PERM_READ, 0, &image, 0, len.next_multiple_of(4096))?;
    // SAFETY: `len` bytes are mapped there for as long as this process lives, and nobody writes to the image.
    let bytes = unsafe { core::slice::from_raw_parts(core::ptr::with_exposed_provenance(address), len) };
    let directory = Directory::parse(&bytes[HEADER_SIZE..], size).map_err(bad)?;
    BOOT.store(Box::leak(Box::new(Boot { image, directory })), Ordering::Release);
    Ok(())
}

/// The directory of the boot image, if there is one.
pub fn directory() -> Option<Directory<'static>> {
    boot().map(|boot| boot.directory)
}

/// The working directory.
pub fn working_directory() -> String {
    let current = WORKING_DIRECTORY.lock();
    if current.is_empty() { String::from("/") } else { current.clone() }
}

/// Makes `path`, seen from the directory `at` (`AT_FDCWD`: the working directory), clean and absolute.
///
/// # Errors
/// `ENOENT`, `ENOTDIR`, `ENAMETOOLONG`, `EBADF`.
pub fn resolve_at(at: c_int, path: &str) -> Result<String> {
    let base = if path.starts_with('/') {
        String::from("/")
    } else if at == AT_FDCWD {
        working_directory()
    } else {
        match &table::get(at)?.object {
            Object::Directory { path } => path.clone(),
            _ => return Err(ENOTDIR),
        }
    };
    Ok(path::resolve(directory(), &base, path)?)
}

/// What a clean absolute path names.
///
/// # Errors
/// `ENOENT`, `ENOTDIR`.
pub fn look_up(path: &str) -> Result<Node<'_>> {
    Ok(path::look_up(directory(), path)?)
}

fn change_to(path: String) -> Result<()> {
    if !look_up(&path)?.is_directory() {
        return Err(ENOTDIR);
    }
    *WORKING_DIRECTORY.lock() = path;
    Ok(())
}

/// `chdir`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn chdir(path: *const c_char) -> c_int {
    // SAFETY: a C string, as the caller says.
    c::done(unsafe { c::text(path) }.and_then(|path| change_to(resolve_at(AT_FDCWD, path)?)))
}

/// `fchdir`
#[unsafe(no_mangle)]
pub extern "C" fn fchdir(fd: c_int) -> c_int {
    c::done(table::get(fd).and_then(|description| match &description.object {
        Object::Directory { path } => change_to(path.clone()),
        _ => Err(ENOTDIR),
    }))
}

/// `getcwd`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getcwd(buffer: *mut c_char, size: usize) -> *mut c_char {
    if !buffer.is_null() && size == 0 {
        c::set_errno(c::EINVAL);
        return core::ptr::null_mut();
    }
    // SAFETY: the buffer is null or as long as the caller says.
    pointer(unsafe { c::give_text(&working_directory(), buffer, size) })
}

/// `realpath`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realpath(path: *const c_char, resolved: *mut c_char) -> *mut c_char {
    // SAFETY: a C string, as the caller says.
    let clean = unsafe { c::text(path) }.and_then(|path| {
        let clean = resolve_at(AT_FDCWD, path)?;
        look_up(&clean)?;
        Ok(clean)
    });
    let size = if resolved.is_null() { 0 } else { PATH_MAX };
    // SAFETY: the buffer is null or of that size, as POSIX says.
    pointer(clean.and_then(|clean| unsafe { c::give_text(&clean, resolved, size) }))
}

fn pointer(result: Result<*mut c_char>) -> *mut c_char {
    result.unwrap_or_else(|error| {
        c::set_errno(error);
        core::ptr::null_mut()
    })
}

/// The name of a descriptor's directory or file, for calls that take one in the place of a path.
///
/// # Errors
/// `EBADF`.
pub fn path_of(fd: c_int) -> Result<String> {
    match &table::get(fd)?.object {
        Object::Directory { path } => Ok(path.clone()),
        Object::File(file) => Ok(file.path.clone()),
        _ => Err(EBADF),
    }
}
