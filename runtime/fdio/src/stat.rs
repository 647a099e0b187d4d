//! File attributes: `stat` and related functions, and changes of permissions, owners and times.

use core::ffi::{c_char, c_int, c_uint};
use core::sync::atomic::Ordering;

use file_protocol::{Attributes, Change, Kind, Request};

use crate::c::{
    self, AT_EACCESS, AT_EMPTY_PATH, AT_FDCWD, AT_NO_AUTOMOUNT, AT_SYMLINK_NOFOLLOW, EACCES, EINVAL, ENOENT, EPERM,
    EROFS, R_OK, Result, S_IFCHR, S_IFDIR, S_IFIFO, S_IFLNK, S_IFREG, S_IFSOCK, Stat, W_OK, X_OK,
};
use crate::namespace::{locate_at, look_up, now};
use crate::object::Object;
use crate::path::Node;
use crate::remote::{PathResult, UNNOTIFIED};
use crate::table;

const NANOS: i64 = 1_000_000_000;
/// In place of nanoseconds: `UTIME_OMIT` keeps the time, `UTIME_NOW` sets the current time.
const UTIME_OMIT: i64 = 0x3fff_fffe;
const UTIME_NOW: i64 = 0x3fff_ffff;

/// `stat` of a file or directory in this library's own part of the name space.
fn stat_of_node(node: Node<'_>, path: &str) -> Stat {
    match node {
        Node::File(entry) => Stat { device: 1, inode: u64::from(entry.offset), ..regular(entry.size.into()) },
        Node::Device(_) => special(S_IFCHR | 0o666),
        // The inode number of a file is the offset of its first byte, a multiple of the page size. A directory has an
        // odd number, hashed from its path.
        Node::Above | Node::Directory(_) => directory(
            path.bytes().fold(3, |hash: u64, byte| hash.wrapping_mul(0x0100_0000_01b3).wrapping_add(byte.into()) | 1),
        ),
    }
}

fn regular(size: u64) -> Stat {
    Stat {
        mode: S_IFREG | 0o555,
        links: 1,
        size: size as i64,
        block_size: 4096,
        blocks: size.div_ceil(512) as i64,
        ..Stat::default()
    }
}

fn directory(inode: u64) -> Stat {
    Stat { mode: S_IFDIR | 0o555, device: 1, inode, links: 1, block_size: 4096, ..Stat::default() }
}

fn special(mode: u32) -> Stat {
    Stat { mode, links: 1, block_size: 4096, ..Stat::default() }
}

fn stat_from(attributes: Attributes) -> Stat {
    let kind = match attributes.kind {
        Kind::File => S_IFREG,
        Kind::Directory => S_IFDIR,
        Kind::Link => S_IFLNK,
        Kind::Socket => S_IFSOCK,
    };
    let time = |nanos: i64| [nanos.div_euclid(NANOS), nanos.rem_euclid(NANOS)];
    Stat {
        device: attributes.tree,
        inode: attributes.node,
        links: attributes.links,
        mode: kind | attributes.mode & 0o7777,
        size: i64::try_from(attributes.size).unwrap_or(i64::MAX),
        block_size: 4096,
        blocks: attributes.stored.div_ceil(512) as i64,
        accessed: time(attributes.accessed),
        modified: time(attributes.modified),
        changed: time(attributes.changed),
        ..Stat::default()
    }
}

fn stat_of_fd(fd: c_int) -> Result<Stat> {
    Ok(match &table::get(fd)?.object {
        Object::Socket { is_socket: true, .. } | Object::Network(_) | Object::Unix(_) => special(S_IFSOCK | 0o777),
        Object::Socket { .. } => special(S_IFIFO | 0o600),
        Object::Log { .. } => special(S_IFCHR | 0o222),
        Object::EventFd(_) | Object::Epoll(_) => special(0o600),
        Object::Device(device) => stat_of_node(Node::Device(*device), ""),
        Object::File(file) if file.path.is_empty() => regular(file.size),
        Object::File(file) => stat_of_node(look_up(&file.path)?, &file.path),
        Object::Directory { path } => stat_of_node(look_up(path)?, path),
        Object::Remote(file) => stat_from(file.attributes()?),
    })
}

/// The attributes of the file at a path.
pub fn stat_at(at: c_int, path: &[u8], follow: bool) -> Result<Stat> {
    if UNNOTIFIED.load(Ordering::Relaxed) > 0 {
        // Notify the file system of this process's writes first, so that the result has their time.
        table::send_touched();
    }
    locate_at(at, path)?.reach(
        |path| Ok(stat_of_node(look_up(path)?, path)),
        |remote, path| {
            Ok(match remote.attributes(path, follow)? {
                PathResult::Done(attributes) => PathResult::Done(stat_from(attributes)),
                PathResult::Elsewhere { second, above, rest } => PathResult::Elsewhere { second, above, rest },
            })
        },
    )
}

fn give(stat: Result<Stat>, out: *mut Stat) -> c_int {
    // SAFETY: the caller's structure, as each caller says.
    c::done(stat.map(|stat| unsafe { out.write(stat) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn stat(path: *const c_char, out: *mut Stat) -> c_int {
    // SAFETY: a C string, as the caller says.
    give(unsafe { c::bytes(path) }.and_then(|path| stat_at(AT_FDCWD, path, true)), out)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn lstat(path: *const c_char, out: *mut Stat) -> c_int {
    // SAFETY: a C string, as the caller says.
    give(unsafe { c::bytes(path) }.and_then(|path| stat_at(AT_FDCWD, path, false)), out)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fstat(fd: c_int, out: *mut Stat) -> c_int {
    give(stat_of_fd(fd), out)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fstatat(at: c_int, path: *const c_char, out: *mut Stat, flags: c_int) -> c_int {
    // SAFETY: a C string, as the caller says.
    let stat = unsafe { c::bytes(path) }.and_then(|path| {
        c::check_flags(flags, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT)?;
        stat_of(at, path, flags)
    });
    give(stat, out)
}

/// The attributes of what the path and the flags `AT_EMPTY_PATH` and `AT_SYMLINK_NOFOLLOW` name.
fn stat_of(at: c_int, path: &[u8], flags: c_int) -> Result<Stat> {
    match path {
        b"" if flags & AT_EMPTY_PATH != 0 && at == AT_FDCWD => stat_at(at, b".", true),
        b"" if flags & AT_EMPTY_PATH != 0 => stat_of_fd(at),
        b"" => Err(ENOENT),
        path => stat_at(at, path, flags & AT_SYMLINK_NOFOLLOW == 0),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn access(path: *const c_char, mode: c_int) -> c_int {
    // SAFETY: as for `faccessat`.
    unsafe { faccessat(AT_FDCWD, path, mode, 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn faccessat(at: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int {
    // SAFETY: a C string, as the caller says.
    c::done(unsafe { c::bytes(path) }.and_then(|path| {
        c::check_flags(flags, AT_EACCESS | AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW)?;
        c::check_flags(mode, R_OK | W_OK | X_OK)?;
        let stat = stat_of(at, path, flags)?;
        let lacks = |asked, bit| mode & asked != 0 && stat.mode & bit == 0;
        match () {
            // Device 1 is this library's own part of the name space.
            () if lacks(W_OK, 0o222) && stat.device == 1 => Err(EROFS),
            () if lacks(R_OK, 0o400) || lacks(W_OK, 0o200) || lacks(X_OK, 0o100) => Err(EACCES),
            () => Ok(()),
        }
    }))
}

/// Changes the attributes of the file at a path.
fn change_at(at: c_int, path: &[u8], follow: bool, change: Change) -> Result<()> {
    locate_at(at, path)?.reach(
        |path| look_up(path).and(Err(EROFS)),
        |remote, path| remote.order(&Request::SetAttributes { path, follow, change }),
    )
}

/// Changes the attributes of what the path and the flags `AT_EMPTY_PATH` and `AT_SYMLINK_NOFOLLOW` name.
fn change_of(at: c_int, path: &[u8], flags: c_int, change: Change) -> Result<()> {
    c::check_flags(flags, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW)?;
    match path {
        b"" if flags & AT_EMPTY_PATH != 0 && at == AT_FDCWD => change_at(at, b".", true, change),
        b"" if flags & AT_EMPTY_PATH != 0 => change_fd(at, change),
        b"" => Err(ENOENT),
        path => change_at(at, path, flags & AT_SYMLINK_NOFOLLOW == 0, change),
    }
}

/// Changes the attributes of an open file.
fn change_fd(fd: c_int, change: Change) -> Result<()> {
    match &table::get(fd)?.object {
        Object::Remote(file) => file.change(change),
        Object::File(_) | Object::Directory { .. } => Err(EROFS),
        _ => Err(EINVAL),
    }
}

fn permissions(mode: c_uint) -> Change {
    Change { mode: Some(mode & 0o7777), ..Change::default() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn chmod(path: *const c_char, mode: c_uint) -> c_int {
    // SAFETY: as for `fchmodat`.
    unsafe { fchmodat(AT_FDCWD, path, mode, 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fchmodat(at: c_int, path: *const c_char, mode: c_uint, flags: c_int) -> c_int {
    // SAFETY: a C string, as the caller says.
    c::done(unsafe { c::bytes(path) }.and_then(|path| change_of(at, path, flags, permissions(mode))))
}

#[unsafe(no_mangle)]
pub extern "C" fn fchmod(fd: c_int, mode: c_uint) -> c_int {
    c::done(change_fd(fd, permissions(mode)))
}

/// Every file belongs to user 0 and group 0; no other owner can be set.
fn check_owner(user: c_uint, group: c_uint) -> Result<Change> {
    let stays = |id| id == 0 || id == c_uint::MAX;
    if stays(user) && stays(group) { Ok(Change::default()) } else { Err(EPERM) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn chown(path: *const c_char, user: c_uint, group: c_uint) -> c_int {
    // SAFETY: as for `fchownat`.
    unsafe { fchownat(AT_FDCWD, path, user, group, 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn lchown(path: *const c_char, user: c_uint, group: c_uint) -> c_int {
    // SAFETY: as for `fchownat`.
    unsafe { fchownat(AT_FDCWD, path, user, group, AT_SYMLINK_NOFOLLOW) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fchownat(at: c_int, path: *const c_char, user: c_uint, group: c_uint, flags: c_int) -> c_int {
    // SAFETY: a C string, as the caller says.
    c::done(unsafe { c::bytes(path) }.and_then(|path| change_of(at, path, flags, check_owner(user, group)?)))
}

#[unsafe(no_mangle)]
pub extern "C" fn fchown(fd: c_int, user: c_uint, group: c_uint) -> c_int {
    c::done(check_owner(user, group).and_then(|change| change_fd(fd, change)))
}

/// The two times of C's functions, of access and of modification; the current time for `None`.
fn times(times: Option<&[[i64; 2]; 2]>) -> Result<Change> {
    let time = |time: Option<[i64; 2]>| match time {
        None | Some([_, UTIME_NOW]) => Ok(Some(now())),
        Some([_, UTIME_OMIT]) => Ok(None),
        Some([seconds, nanos]) if (0..NANOS).contains(&nanos) => {
            let all = seconds.checked_mul(NANOS).and_then(|all| all.checked_add(nanos));
            all.map(Some).ok_or(EINVAL)
        }
        Some(_) => Err(EINVAL),
    };
    let of = |index: usize| time(times.map(|times| times[index]));
    Ok(Change { mode: None, accessed: of(0)?, modified: of(1)? })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn utimensat(
    at: c_int,
    path: *const c_char,
    wanted: *const [[i64; 2]; 2],
    flags: c_int,
) -> c_int {
    // SAFETY: a C string and two times or null, as the caller says.
    let (path, wanted) = unsafe { (c::bytes(path), wanted.as_ref()) };
    c::done(path.and_then(|path| change_of(at, path, flags, times(wanted)?)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn futimens(fd: c_int, wanted: *const [[i64; 2]; 2]) -> c_int {
    // SAFETY: two times or null, as the caller says.
    c::done(times(unsafe { wanted.as_ref() }).and_then(|change| change_fd(fd, change)))
}
