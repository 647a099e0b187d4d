//! The name space: its entries, the boot image, the working directory, and the functions that only resolve names.
//!
//! A process receives its name space at its start: for each entry, a path and a channel to the root of a file system
//! (the file protocol). The library first uses a channel when a path leads to it.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ffi::{c_char, c_int};
use core::sync::atomic::{AtomicPtr, Ordering};

use abi::{Status, ZX_VM_PERM_READ};
use bootfs::{Directory, HEADER_SIZE, Header};
use file_protocol::{Kind, LINKS_MAX, Request};
use sync::Lock;
use zx::{Channel, Handle, Vmar, Vmo};

use crate::c::{self, AT_FDCWD, EBADF, EIO, ELOOP, ENOTDIR, Result};
use crate::object::Object;
use crate::path::{self, Node, PATH_MAX, Place, Space};
use crate::remote::{PathResult, Remote};
use crate::{services, table};

/// The boot file system.
pub struct Boot {
    /// The image.
    pub image: Vmo,
    /// Its directory.
    pub directory: Directory<'static>,
}

/// Set once, before `main`, and never freed.
static BOOT: AtomicPtr<Boot> = AtomicPtr::new(core::ptr::null_mut());

/// An entry of the name space.
#[derive(Clone)]
struct Entry {
    path: Arc<str>,
    root: Arc<Remote>,
}

static ENTRIES: Lock<Vec<Entry>> = Lock::new(Vec::new());

/// The working directory, clean and absolute; empty if none was set.
static WORKING_DIRECTORY: Lock<Vec<u8>> = Lock::new(Vec::new());

unsafe extern "C" {
    fn clock_gettime(clock: c_int, out: *mut [i64; 2]) -> c_int;
}

/// Nanoseconds since 1970.
pub fn now() -> i64 {
    let mut time = [0; 2];
    // SAFETY: `time` has the layout of a `timespec`; clock 0 is the real-time clock.
    unsafe { clock_gettime(0, &mut time) };
    time[0].saturating_mul(1_000_000_000).saturating_add(time[1])
}

/// The boot file system, if this process received it.
pub fn boot() -> Option<&'static Boot> {
    // SAFETY: null, or a leaked box that is never changed.
    unsafe { BOOT.load(Ordering::Acquire).as_ref() }
}

/// Takes the boot image: maps its directory and checks it.
///
/// # Errors
/// Errors of the kernel; [`Status::IO_DATA_INTEGRITY`]: not a valid image.
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
    // SAFETY: `len` bytes are mapped there until the process ends, and the image is never written.
    let bytes = unsafe { core::slice::from_raw_parts(core::ptr::with_exposed_provenance(address), len) };
    let directory = Directory::parse(&bytes[HEADER_SIZE..], size).map_err(bad)?;
    BOOT.store(Box::leak(Box::new(Boot { image, directory })), Ordering::Release);
    Ok(())
}

fn directory() -> Option<Directory<'static>> {
    boot().map(|boot| boot.directory)
}

/// Adds an entry, or replaces the entry with this path.
///
/// # Errors
/// `INVALID_ARGS`: the path is not clean and absolute, or is `/`.
pub fn bind(path: &str, root: Channel) -> core::result::Result<(), Status> {
    let clean = path.len() < PATH_MAX
        && path.strip_prefix('/').is_some_and(|rest| rest.split('/').all(|name| !matches!(name, "" | "." | "..")));
    if !clean {
        return Err(Status::INVALID_ARGS);
    }
    let path: Arc<str> = path.into();
    let entry = Entry { path: path.clone(), root: Arc::new(Remote::new(root, Some(path.clone()))) };
    let old = {
        let mut entries = ENTRIES.lock();
        match entries.iter_mut().find(|entry| entry.path == path) {
            Some(place) => Some(core::mem::replace(place, entry)),
            None => {
                entries.push(entry);
                None
            }
        }
    };
    // Drop outside the lock, because it closes a handle.
    drop(old);
    Ok(())
}

/// Removes an entry.
///
/// # Errors
/// `NOT_FOUND`.
pub fn unbind(path: &str) -> core::result::Result<(), Status> {
    let mut entries = ENTRIES.lock();
    let index = entries.iter().position(|entry| &*entry.path == path).ok_or(Status::NOT_FOUND)?;
    let old = entries.remove(index);
    drop(entries);
    drop(old);
    Ok(())
}

/// All entries, each with a new channel to the root, for another process.
pub fn entries() -> Vec<(String, Handle)> {
    let entries = ENTRIES.lock().clone();
    let copy = |entry: &Entry| {
        let channel = entry.root.again().or_else(|_| replacement(&entry.path)).ok()?;
        Some((String::from(&*entry.path), channel.into_handle()))
    };
    entries.iter().filter_map(copy).collect()
}

/// A new channel to the file system at `path`, for an entry whose file system has ended.
fn replacement(path: &str) -> core::result::Result<Channel, Status> {
    let (ours, theirs) = Channel::create()?;
    services::ask(path, theirs.into_handle())?;
    Ok(ours)
}

/// The root of an entry. If the file system has ended, asks for a new channel first.
fn root(entry: &Entry) -> Arc<Remote> {
    if entry.root.is_gone()
        && let Ok(channel) = replacement(&entry.path)
        && bind(&entry.path, channel).is_ok()
        && let Some(new) = ENTRIES.lock().iter().find(|new| new.path == entry.path)
    {
        return new.root.clone();
    }
    entry.root.clone()
}

/// The place that a path leads to.
#[derive(Clone)]
pub enum Location {
    /// A place in this library's own part of the name space: a clean absolute path.
    Here(String),
    /// A place in a file system: a path relative to an open directory.
    There(Arc<Remote>, Vec<u8>),
    /// The same, relative to the directory of a descriptor.
    From(Arc<crate::description::Description>, Vec<u8>),
}

impl Location {
    /// Calls `here` or `there` for the place, and repeats that when a file system answers that the path leads
    /// elsewhere.
    pub fn reach<T>(
        mut self,
        here: impl FnOnce(&str) -> Result<T>,
        mut there: impl FnMut(&Remote, &[u8]) -> Result<PathResult<T>>,
    ) -> Result<T> {
        for _ in 0..LINKS_MAX {
            let (entry, reached) = match &self {
                Location::Here(path) => return here(path),
                Location::There(remote, path) => (remote.entry.clone(), there(remote, path)?),
                Location::From(description, path) => {
                    let Object::Remote(file) = &description.object else { return Err(EBADF) };
                    (file.remote.entry.clone(), there(&file.remote, path)?)
                }
            };
            match reached {
                PathResult::Done(value) => return Ok(value),
                PathResult::Elsewhere { above, rest, .. } => self = elsewhere(entry.as_deref(), above, &rest)?,
            }
        }
        Err(ELOOP)
    }
}

/// Continues a path that has left the tree of an entry.
pub fn elsewhere(entry: Option<&str>, above: bool, rest: &[u8]) -> Result<Location> {
    if !above {
        return locate(b"/", rest);
    }
    // A directory without an entry's path has no parent in the name space.
    let above = path::parent(entry.ok_or(c::ENOENT)?);
    locate(above.as_bytes(), if rest.is_empty() { b"." } else { rest })
}

/// Resolves a path, relative to an absolute one, to a place.
fn locate(base: &[u8], path: &[u8]) -> Result<Location> {
    let entries = ENTRIES.lock().clone();
    let paths: Vec<&str> = entries.iter().map(|entry| &*entry.path).collect();
    Ok(match (Space { image: directory(), entries: &paths }).resolve(base, path)? {
        Place::Here(path) => Location::Here(path),
        Place::Entry(index, rest) => Location::There(root(&entries[index]), rest),
    })
}

/// Resolves a path, relative to the directory `at` (`AT_FDCWD`: the working directory), to a place.
///
/// # Errors
/// `ENOENT`, `ENOTDIR`, `ENAMETOOLONG`, `EBADF`.
pub fn locate_at(at: c_int, path: &[u8]) -> Result<Location> {
    if path.starts_with(b"/") || at == AT_FDCWD {
        return locate(&working_directory(), path);
    }
    let description = table::get(at)?;
    match &description.object {
        Object::Directory { path: base } => locate(base.as_bytes(), path),
        Object::Remote(file) if file.opened.kind != Kind::Directory => Err(ENOTDIR),
        Object::Remote(_) if path.is_empty() => Err(c::ENOENT),
        Object::Remote(_) => Ok(Location::From(description, path.to_vec())),
        _ => Err(ENOTDIR),
    }
}

/// Like [`locate_at`], but never returns [`Location::From`]: for calls with two paths, which must lie in one file
/// system.
pub fn locate_absolute(at: c_int, path: &[u8]) -> Result<Location> {
    match locate_at(at, path)? {
        Location::From(description, path) => {
            let Object::Remote(file) = &description.object else { return Err(EBADF) };
            locate(&absolute(&file.remote, b"")?, &path)
        }
        location => Ok(location),
    }
}

/// The absolute path of the file that `path` names in an entry's tree.
fn absolute(remote: &Remote, path: &[u8]) -> Result<Vec<u8>> {
    match remote.text(&Request::Resolve { path })? {
        PathResult::Done(rest) => whole(remote, &rest),
        PathResult::Elsewhere { .. } => Err(EIO),
    }
}

fn whole(remote: &Remote, rest: &[u8]) -> Result<Vec<u8>> {
    let mut path = remote.entry.as_deref().ok_or(c::EXDEV)?.as_bytes().to_vec();
    if !rest.is_empty() {
        path.push(b'/');
        path.extend_from_slice(rest);
    }
    if path.len() < PATH_MAX { Ok(path) } else { Err(c::ENAMETOOLONG) }
}

/// The absolute path of a place, with symbolic links resolved.
fn real(location: Location) -> Result<Vec<u8>> {
    location.reach(
        |path| look_up(path).map(|_| path.as_bytes().to_vec()),
        |remote, path| {
            Ok(match remote.text(&Request::Resolve { path })? {
                PathResult::Done(rest) => PathResult::Done(whole(remote, &rest)?),
                PathResult::Elsewhere { second, above, rest } => PathResult::Elsewhere { second, above, rest },
            })
        },
    )
}

/// Looks up a clean absolute path in this library's own part of the name space.
///
/// # Errors
/// `ENOENT`, `ENOTDIR`.
pub fn look_up(path: &str) -> Result<Node<'_>> {
    let entries = ENTRIES.lock().clone();
    let paths: Vec<&str> = entries.iter().map(|entry| &*entry.path).collect();
    Ok(Space { image: directory(), entries: &paths }.look_up(path)?)
}

/// The names in a directory of this library's own part that is not in the image.
pub fn names(path: &str) -> Vec<(String, bool)> {
    let entries = ENTRIES.lock().clone();
    let paths: Vec<&str> = entries.iter().map(|entry| &*entry.path).collect();
    Space { image: directory(), entries: &paths }.names(path)
}

/// The working directory.
pub fn working_directory() -> Vec<u8> {
    let current = WORKING_DIRECTORY.lock();
    if !current.is_empty() {
        return current.clone();
    }
    drop(current);
    default_directory()
}

/// The working directory of a process that received none.
pub fn default_directory() -> Vec<u8> {
    let fallback: &[u8] = if ENTRIES.lock().iter().any(|entry| &*entry.path == "/tmp") { b"/tmp" } else { b"/" };
    fallback.to_vec()
}

/// Sets the working directory that the process was started with: an absolute path. Whether it exists shows at its first
/// use.
pub fn start_in(path: &[u8]) {
    if path.starts_with(b"/") && path.len() < PATH_MAX {
        *WORKING_DIRECTORY.lock() = path.to_vec();
    }
}

fn change_to(path: Vec<u8>) -> Result<()> {
    let stat = crate::stat::stat_at(AT_FDCWD, &path, true)?;
    if stat.mode & c::S_IFDIR == 0 || stat.mode & 0o17_0000 != c::S_IFDIR {
        return Err(ENOTDIR);
    }
    *WORKING_DIRECTORY.lock() = path;
    Ok(())
}

/// `chdir`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn chdir(path: *const c_char) -> c_int {
    // SAFETY: a C string, as the caller says.
    c::done(unsafe { c::bytes(path) }.and_then(|path| change_to(real(locate_at(AT_FDCWD, path)?)?)))
}

/// `fchdir`
#[unsafe(no_mangle)]
pub extern "C" fn fchdir(fd: c_int) -> c_int {
    c::done(path_of(fd).and_then(change_to))
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
    let clean = unsafe { c::bytes(path) }.and_then(|path| real(locate_at(AT_FDCWD, path)?));
    let size = if resolved.is_null() { 0 } else { PATH_MAX };
    // SAFETY: the buffer is null or has that size, as POSIX demands.
    pointer(clean.and_then(|clean| unsafe { c::give_text(&clean, resolved, size) }))
}

fn pointer(result: Result<*mut c_char>) -> *mut c_char {
    result.unwrap_or_else(|error| {
        c::set_errno(error);
        core::ptr::null_mut()
    })
}

/// The absolute path of a descriptor's directory.
///
/// # Errors
/// `EBADF`, `ENOTDIR`; `ENOENT`: the directory has been removed.
pub fn path_of(fd: c_int) -> Result<Vec<u8>> {
    let description = table::get(fd)?;
    match &description.object {
        Object::Directory { path } => Ok(path.as_bytes().to_vec()),
        Object::Remote(file) if file.opened.kind == Kind::Directory => absolute(&file.remote, b""),
        _ => Err(ENOTDIR),
    }
}
