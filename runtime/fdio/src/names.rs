//! Creating, removing and renaming names.

use core::ffi::{c_char, c_int, c_uint};

use file_protocol::{LINKS_MAX, Request};

use crate::c::{
    self, AT_FDCWD, AT_REMOVEDIR, AT_SYMLINK_FOLLOW, EBUSY, EEXIST, EINVAL, EISDIR, ELOOP, ENOENT, ENOTDIR, EOPNOTSUPP,
    EROFS, EXDEV, Result,
};
use crate::namespace::{Location, elsewhere, locate_absolute, locate_at, look_up};
use crate::open::masked;
use crate::path::parent;
use crate::remote::PathResult;

/// The error for creating a name in this library's own part of the name space.
pub fn refuse_new(path: &str) -> Result<()> {
    match look_up(path) {
        Ok(_) => Err(EEXIST),
        Err(ENOENT) if look_up(parent(path))?.is_directory() => Err(EROFS),
        Err(error) => Err(error),
    }
}

fn make(at: c_int, path: &[u8], request: impl for<'a> Fn(&'a [u8]) -> Request<'a>) -> Result<()> {
    locate_at(at, path)?.reach(refuse_new, |remote, path| match path {
        // The path is the root of the entry.
        b"" => Err(EEXIST),
        path => remote.order(&request(path)),
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mkdir(path: *const c_char, mode: c_uint) -> c_int {
    // SAFETY: as for `mkdirat`.
    unsafe { mkdirat(AT_FDCWD, path, mode) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mkdirat(at: c_int, path: *const c_char, mode: c_uint) -> c_int {
    let mode = masked(mode);
    // SAFETY: a C string, as the caller says.
    c::done(unsafe { c::bytes(path) }.and_then(|path| make(at, path, |path| Request::MakeDirectory { path, mode })))
}

/// Named pipes are not supported.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mkfifo(_path: *const c_char, _mode: c_uint) -> c_int {
    c::done(Err(EOPNOTSUPP))
}

/// Nor are device files.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mknod(_path: *const c_char, _mode: c_uint, _device: u64) -> c_int {
    c::done(Err(EOPNOTSUPP))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn symlink(target: *const c_char, path: *const c_char) -> c_int {
    // SAFETY: as for `symlinkat`.
    unsafe { symlinkat(target, AT_FDCWD, path) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn symlinkat(target: *const c_char, at: c_int, path: *const c_char) -> c_int {
    // SAFETY: C strings, as the caller says.
    let (target, path) = unsafe { (c::bytes(target), c::bytes(path)) };
    c::done(target.and_then(|target| link_to(at, path?, target)))
}

fn link_to(at: c_int, path: &[u8], target: &[u8]) -> Result<()> {
    locate_at(at, path)?.reach(refuse_new, |remote, path| match path {
        b"" => Err(EEXIST),
        path => remote.order(&Request::MakeLink { path, target }),
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn unlink(path: *const c_char) -> c_int {
    // SAFETY: as for `unlinkat`.
    unsafe { unlinkat(AT_FDCWD, path, 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmdir(path: *const c_char) -> c_int {
    // SAFETY: as for `unlinkat`.
    unsafe { unlinkat(AT_FDCWD, path, AT_REMOVEDIR) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn unlinkat(at: c_int, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: a C string, as the caller says.
    c::done(unsafe { c::bytes(path) }.and_then(|path| {
        c::check_flags(flags, AT_REMOVEDIR)?;
        remove_name(at, path, flags & AT_REMOVEDIR != 0)
    }))
}

/// C's function to remove a file or an empty directory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn remove(path: *const c_char) -> c_int {
    // SAFETY: a C string, as the caller says.
    c::done(unsafe { c::bytes(path) }.and_then(|path| match remove_name(AT_FDCWD, path, false) {
        Err(EISDIR) => remove_name(AT_FDCWD, path, true),
        other => other,
    }))
}

fn remove_name(at: c_int, path: &[u8], directory: bool) -> Result<()> {
    locate_at(at, path)?.reach(
        |path| match look_up(path)?.is_directory() {
            true if !directory => Err(EISDIR),
            false if directory => Err(ENOTDIR),
            _ => Err(EROFS),
        },
        |remote, path| match path {
            // The path is the root of the entry.
            b"" => Err(if directory { EBUSY } else { EISDIR }),
            path => remote.order(&Request::Unlink { path, directory }),
        },
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: as for `renameat`.
    unsafe { renameat(AT_FDCWD, from, AT_FDCWD, to) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn renameat(from_at: c_int, from: *const c_char, to_at: c_int, to: *const c_char) -> c_int {
    // SAFETY: C strings, as the caller says.
    let (from, to) = unsafe { (c::bytes(from), c::bytes(to)) };
    c::done(from.and_then(|from| two(from_at, from, to_at, to?, EBUSY, |from, to| Request::Rename { from, to })))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn link(from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: as for `linkat`.
    unsafe { linkat(AT_FDCWD, from, AT_FDCWD, to, 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn linkat(
    from_at: c_int,
    from: *const c_char,
    to_at: c_int,
    to: *const c_char,
    flags: c_int,
) -> c_int {
    let follow = flags & AT_SYMLINK_FOLLOW != 0;
    // SAFETY: C strings, as the caller says.
    let (from, to) = unsafe { (c::bytes(from), c::bytes(to)) };
    c::done(
        c::check_flags(flags, AT_SYMLINK_FOLLOW)
            .and(from)
            .and_then(|from| two(from_at, from, to_at, to?, EEXIST, |from, to| Request::Link { from, to, follow })),
    )
}

/// Sends a request with two paths, which must lie in the same file system. `itself` is the error if the second path is
/// the root of an entry.
fn two(
    from_at: c_int,
    from: &[u8],
    to_at: c_int,
    to: &[u8],
    itself: c::Errno,
    request: impl for<'a> Fn(&'a [u8], &'a [u8]) -> Request<'a>,
) -> Result<()> {
    let mut from = locate_absolute(from_at, from)?;
    let mut to = locate_absolute(to_at, to)?;
    for _ in 0..LINKS_MAX {
        let reached = match (&from, &to) {
            (Location::There(one, from), Location::There(two, to)) if one.entry == two.entry => {
                match (&**from, &**to) {
                    (b"", _) => return Err(EBUSY),
                    (_, b"") => return Err(itself),
                    (from, to) => (one.entry.clone(), one.order(&request(from, to))?),
                }
            }
            (Location::Here(path), _) => return look_up(path).and(Err(EROFS)),
            (Location::There(..), Location::Here(path)) => {
                return match look_up(parent(path))?.is_directory() {
                    true => Err(EXDEV),
                    false => Err(ENOTDIR),
                };
            }
            _ => return Err(EXDEV),
        };
        match reached {
            (_, PathResult::Done(())) => return Ok(()),
            (entry, PathResult::Elsewhere { second, above, rest }) => {
                let place = elsewhere(entry.as_deref(), above, &rest)?;
                *(if second { &mut to } else { &mut from }) = place;
            }
        }
    }
    Err(ELOOP)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn readlink(path: *const c_char, buffer: *mut c_char, size: usize) -> isize {
    // SAFETY: as for `readlinkat`.
    unsafe { readlinkat(AT_FDCWD, path, buffer, size) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn readlinkat(at: c_int, path: *const c_char, buffer: *mut c_char, size: usize) -> isize {
    // SAFETY: a C string, as the caller says.
    let target = unsafe { c::bytes(path) }.and_then(|path| {
        let here = |path: &str| look_up(path).and(Err(EINVAL));
        locate_at(at, path)?.reach(here, |remote, path| remote.text(&Request::ReadLink { path }))
    });
    c::number(target.map(|target| {
        let len = target.len().min(size);
        // SAFETY: the caller's buffer has `size` bytes.
        unsafe { buffer.cast::<u8>().copy_from_nonoverlapping(target.as_ptr(), len) };
        len
    }))
}
