//! Opening files and directories, and operations on open files as a whole.

use alloc::sync::Arc;
use core::ffi::{c_char, c_int, c_long, c_uint};
use core::sync::atomic::{AtomicU32, Ordering};

use file_protocol::flags as protocol;

use crate::c::{
    self, AT_FDCWD, EEXIST, EINVAL, EISDIR, ENOENT, ENOTDIR, EOPNOTSUPP, EROFS, O_ACCMODE, O_APPEND, O_CLOEXEC,
    O_CREAT, O_DIRECTORY, O_EXCL, O_LARGEFILE, O_NOATIME, O_NOCTTY, O_NOFOLLOW, O_NONBLOCK, O_PATH, O_RDONLY, O_RDWR,
    O_SYNC, O_TMPFILE, O_TRUNC, O_WRONLY, Result,
};
use crate::description::Description;
use crate::namespace::{locate_at, look_up};
use crate::object::{File, Object};
use crate::path::{Node, parent};
use crate::remote::PathResult;
use crate::table;

/// The flags of `open`. The others would have to do what they say: `O_DIRECT` leaves a cache out.
const KNOWN: c_int = O_ACCMODE
    | O_APPEND
    | O_CLOEXEC
    | O_CREAT
    | O_DIRECTORY
    | O_EXCL
    | O_LARGEFILE
    | O_NOATIME
    | O_NOCTTY
    | O_NOFOLLOW
    | O_NONBLOCK
    | O_SYNC
    | O_TRUNC;

/// `umask`: the permission bits that new files and directories do not get.
static MASK: AtomicU32 = AtomicU32::new(0o022);

/// `open`. It is variadic in C; the mode arrives in the same register.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    c::cancellation_point();
    // SAFETY: as for `openat`.
    unsafe { openat(AT_FDCWD, path, flags, mode) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn openat(at: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    c::cancellation_point();
    // SAFETY: a C string, as the caller says.
    c::int(unsafe { c::bytes(path) }.and_then(|path| {
        let object = open_at(at, path, flags, mode)?;
        table::add(Arc::new(Description::new(object, flags)), 0, flags & O_CLOEXEC != 0)
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn creat(path: *const c_char, mode: c_uint) -> c_int {
    // SAFETY: a C string, as the caller says.
    unsafe { open(path, O_WRONLY | O_CREAT | O_TRUNC, mode) }
}

/// The permissions of a new file that a program wants to have `mode`.
pub fn masked(mode: c_uint) -> u32 {
    mode & !MASK.load(Ordering::Relaxed) & 0o7777
}

/// Opens the file or directory at a path.
pub fn open_at(at: c_int, path: &[u8], flags: c_int, mode: c_uint) -> Result<Object> {
    if flags & O_TMPFILE != 0 {
        return Err(EOPNOTSUPP);
    }
    if flags & !KNOWN != 0 {
        return Err(EINVAL);
    }
    let mut wanted = 0;
    let access = match flags & O_ACCMODE {
        O_RDONLY => protocol::READ,
        O_WRONLY => protocol::WRITE,
        O_RDWR => protocol::READ | protocol::WRITE,
        path if path & O_PATH != 0 => 0,
        _ => return Err(EINVAL),
    };
    for (flag, bit) in [
        (O_APPEND, protocol::APPEND),
        (O_CREAT, protocol::CREATE),
        (O_EXCL, protocol::EXCLUSIVE),
        (O_TRUNC, protocol::TRUNCATE),
        (O_DIRECTORY, protocol::DIRECTORY),
        (O_NOFOLLOW, protocol::NO_FOLLOW),
    ] {
        if flags & flag != 0 {
            wanted |= bit;
        }
    }
    if flags & O_PATH != 0 {
        wanted &= protocol::DIRECTORY | protocol::NO_FOLLOW;
    }
    locate_at(at, path)?.reach(
        |path| open_here(path, flags),
        |remote, path| {
            Ok(match remote.open(path, wanted | access, masked(mode))? {
                PathResult::Done(file) => PathResult::Done(Object::Remote(file)),
                PathResult::Elsewhere { second, above, rest } => PathResult::Elsewhere { second, above, rest },
            })
        },
    )
}

/// Opens a file or directory in this library's own, read-only part of the name space.
fn open_here(path: &str, flags: c_int) -> Result<Object> {
    let writes = flags & O_ACCMODE != O_RDONLY && flags & O_PATH == 0;
    let node = match look_up(path) {
        Ok(_) if flags & O_CREAT != 0 && flags & O_EXCL != 0 => return Err(EEXIST),
        Ok(node) => node,
        // The parent directory exists, so the reason for the failure is that it is read-only.
        Err(ENOENT) if flags & O_CREAT != 0 && look_up(parent(path))?.is_directory() => return Err(EROFS),
        Err(error) => return Err(error),
    };
    match node {
        Node::Device(_) | Node::File(_) if flags & O_DIRECTORY != 0 => Err(ENOTDIR),
        Node::Device(device) => Ok(Object::Device(device)),
        Node::File(_) if writes || flags & O_TRUNC != 0 => Err(EROFS),
        Node::File(entry) => {
            let (offset, size) = (entry.offset.into(), entry.size.into());
            Ok(Object::File(File { vmo: None, offset, size, path: path.into() }))
        }
        Node::Above | Node::Directory(_) if writes || flags & O_CREAT != 0 => Err(EISDIR),
        Node::Above | Node::Directory(_) => Ok(Object::Directory { path: path.into() }),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn ftruncate(fd: c_int, size: i64) -> c_int {
    c::done(table::get(fd).and_then(|description| match &description.object {
        _ if description.flags() & O_ACCMODE == O_RDONLY => Err(EINVAL),
        Object::Remote(file) => file.resize(u64::try_from(size).map_err(|_| EINVAL)?),
        _ => Err(EINVAL),
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn truncate(path: *const c_char, size: i64) -> c_int {
    // SAFETY: a C string, as the caller says.
    c::done(unsafe { c::bytes(path) }.and_then(|path| {
        let size = u64::try_from(size).map_err(|_| EINVAL)?;
        match open_at(AT_FDCWD, path, O_WRONLY, 0)? {
            Object::Remote(file) => file.resize(size),
            _ => Err(EINVAL),
        }
    }))
}

#[unsafe(no_mangle)]
pub extern "C" fn fsync(fd: c_int) -> c_int {
    c::cancellation_point();
    c::done(table::get(fd).and_then(|description| match &description.object {
        Object::Remote(file) => file.sync(),
        Object::Socket { .. } | Object::Network(_) | Object::Unix(_) | Object::EventFd(_) | Object::Epoll(_) => {
            Err(EINVAL)
        }
        // These objects have no written data that is pending.
        _ => Ok(()),
    }))
}

#[unsafe(no_mangle)]
pub extern "C" fn fdatasync(fd: c_int) -> c_int {
    c::cancellation_point();
    fsync(fd)
}

#[unsafe(no_mangle)]
pub extern "C" fn umask(mask: c_uint) -> c_uint {
    MASK.swap(mask & 0o777, Ordering::Relaxed)
}

#[unsafe(no_mangle)]
pub extern "C" fn pathconf(_path: *const c_char, name: c_int) -> c_long {
    fpathconf(-1, name)
}

#[unsafe(no_mangle)]
pub extern "C" fn fpathconf(_fd: c_int, name: c_int) -> c_long {
    const NAME_MAX: c_int = 3;
    const PATH: c_int = 4;
    const PIPE_BUF: c_int = 5;
    match name {
        NAME_MAX => file_protocol::NAME_MAX as c_long,
        PATH => crate::path::PATH_MAX as c_long,
        PIPE_BUF => 4096,
        _ => {
            c::set_errno(EINVAL);
            -1
        }
    }
}
