//! Files by name: opening, asking about them, and all that would change them, which a read-only file system refuses.

use alloc::string::String;
use alloc::sync::Arc;
use core::ffi::{c_char, c_int, c_long, c_uint, c_void};

use abi::Status;
use zx::{Rights, Vmo};

use crate::c::{
    self, AT_EMPTY_PATH, AT_FDCWD, EBADF, EEXIST, EINVAL, EISDIR, ENOENT, ENOTDIR, EOPNOTSUPP, EROFS, Errno, O_ACCMODE,
    O_CLOEXEC, O_CREAT, O_DIRECTORY, O_EXCL, O_PATH, O_RDONLY, O_TRUNC, Result, S_IFCHR, S_IFDIR, S_IFIFO, S_IFREG,
    S_IFSOCK, Stat, W_OK,
};
use crate::description::Description;
use crate::namespace::{look_up, path_of, resolve_at};
use crate::object::{File, Object, file_memory};
use crate::path::{Node, parent};
use crate::table;

/// `open`. Variadic in C; a mode would come in a third register, and nothing can be created.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn open(path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: a C string, as the caller says.
    c::int(unsafe { c::text(path) }.and_then(|path| open_at(AT_FDCWD, path, flags)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn openat(at: c_int, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: a C string, as the caller says.
    c::int(unsafe { c::text(path) }.and_then(|path| open_at(at, path, flags)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn creat(path: *const c_char, _mode: c_uint) -> c_int {
    // SAFETY: a C string, as the caller says.
    unsafe { open(path, c::O_WRONLY | O_CREAT | O_TRUNC) }
}

fn open_at(at: c_int, path: &str, flags: c_int) -> Result<usize> {
    let clean = resolve_at(at, path)?;
    let writes = flags & O_ACCMODE != O_RDONLY && flags & O_PATH == 0;
    let node = match look_up(&clean) {
        Ok(_) if flags & O_CREAT != 0 && flags & O_EXCL != 0 => return Err(EEXIST),
        Ok(node) => node,
        // It would be made in a directory that is there: that nothing can be made is what hinders.
        Err(ENOENT) if flags & O_CREAT != 0 && look_up(parent(&clean))?.is_directory() => return Err(EROFS),
        Err(error) => return Err(error),
    };
    let object = match node {
        Node::Null if flags & O_DIRECTORY != 0 => return Err(ENOTDIR),
        Node::Null => Object::Null,
        Node::File(_) if flags & O_DIRECTORY != 0 => return Err(ENOTDIR),
        Node::File(_) if writes || flags & O_TRUNC != 0 => return Err(EROFS),
        Node::File(entry) => {
            let (offset, size) = (entry.offset.into(), entry.size.into());
            Object::File(File { vmo: None, offset, size, path: clean })
        }
        Node::Root | Node::Dev | Node::Directory(_) if writes => return Err(EISDIR),
        Node::Root | Node::Dev | Node::Directory(_) => Object::Directory { path: clean },
    };
    table::add(Arc::new(Description::new(object, flags)), 0, flags & O_CLOEXEC != 0)
}

/// What is told of an object that a path names.
fn stat_of_node(node: Node<'_>) -> Stat {
    match node {
        Node::File(entry) => Stat { device: 1, inode: u64::from(entry.offset), ..regular(entry.size.into()) },
        Node::Null => special(S_IFCHR | 0o666),
        Node::Root => directory(1),
        Node::Dev => directory(2),
        // Files have the number of their first byte, a multiple of the page size; directories an odd one from the name.
        Node::Directory(path) => directory(
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

fn stat_of_fd(fd: c_int) -> Result<Stat> {
    Ok(match &table::get(fd)?.object {
        Object::Socket { is_socket: true, .. } | Object::Network(_) => special(S_IFSOCK | 0o777),
        Object::Socket { .. } => special(S_IFIFO | 0o600),
        Object::Log { .. } => special(S_IFCHR | 0o222),
        Object::EventFd(_) => special(0o600),
        Object::Null => stat_of_node(Node::Null),
        Object::File(file) if file.path.is_empty() => regular(file.size),
        Object::File(file) => stat_of_node(look_up(&file.path)?),
        Object::Directory { path } => stat_of_node(look_up(path)?),
    })
}

fn give(stat: Result<Stat>, out: *mut Stat) -> c_int {
    // SAFETY: the caller's structure, as each caller says.
    c::done(stat.map(|stat| unsafe { out.write(stat) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn stat(path: *const c_char, out: *mut Stat) -> c_int {
    // SAFETY: a C string, as the caller says.
    let path = unsafe { c::text(path) };
    give(path.and_then(|path| Ok(stat_of_node(look_up(&resolve_at(AT_FDCWD, path)?)?))), out)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn lstat(path: *const c_char, out: *mut Stat) -> c_int {
    // SAFETY: as for `stat`; there are no links to follow.
    unsafe { stat(path, out) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fstat(fd: c_int, out: *mut Stat) -> c_int {
    give(stat_of_fd(fd), out)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fstatat(at: c_int, path: *const c_char, out: *mut Stat, flags: c_int) -> c_int {
    // SAFETY: a C string, as the caller says.
    let path = unsafe { c::text(path) };
    let stat = path.and_then(|path| match path {
        "" if flags & AT_EMPTY_PATH != 0 && at != AT_FDCWD => stat_of_fd(at),
        path => Ok(stat_of_node(look_up(&resolve_at(at, path)?)?)),
    });
    give(stat, out)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn access(path: *const c_char, mode: c_int) -> c_int {
    // SAFETY: as for `faccessat`.
    unsafe { faccessat(AT_FDCWD, path, mode, 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn faccessat(at: c_int, path: *const c_char, mode: c_int, _flags: c_int) -> c_int {
    // SAFETY: a C string, as the caller says.
    c::done(unsafe { c::text(path) }.and_then(|path| {
        let clean = resolve_at(at, path)?;
        let node = look_up(&clean)?;
        if mode & W_OK != 0 && node != Node::Null { Err(EROFS) } else { Ok(()) }
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn readlink(path: *const c_char, _buffer: *mut c_char, _size: usize) -> isize {
    // SAFETY: a C string, as the caller says. There are no links: what is there is something else.
    let there = unsafe { existing(AT_FDCWD, path) };
    c::number(there.and(Err(EINVAL)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn readlinkat(at: c_int, path: *const c_char, _buffer: *mut c_char, _size: usize) -> isize {
    // SAFETY: a C string, as the caller says.
    let there = unsafe { existing(at, path) };
    c::number(there.and(Err(EINVAL)))
}

/// The clean path of something that is there.
///
/// # Safety
/// `path` is null or a C string.
unsafe fn existing(at: c_int, path: *const c_char) -> Result<String> {
    // SAFETY: as the caller says.
    let clean = resolve_at(at, unsafe { c::text(path) }?)?;
    look_up(&clean)?;
    Ok(clean)
}

/// Refuses to change something that is there.
///
/// # Safety
/// `path` is null or a C string.
unsafe fn refuse_change(at: c_int, path: *const c_char) -> c_int {
    // SAFETY: as the caller says.
    c::done(unsafe { existing(at, path) }.and(Err(EROFS)))
}

/// Refuses to make something that is not there.
///
/// # Safety
/// `path` is null or a C string.
unsafe fn refuse_new(at: c_int, path: *const c_char) -> c_int {
    // SAFETY: as the caller says.
    let path = unsafe { c::text(path) };
    c::done(path.and_then(|path| {
        let clean = resolve_at(at, path)?;
        match look_up(&clean) {
            Ok(_) => Err(EEXIST),
            Err(ENOENT) if look_up(parent(&clean))?.is_directory() => Err(EROFS),
            Err(error) => Err(error),
        }
    }))
}

/// Functions that would change what a path names.
macro_rules! changing {
    ($refuse:ident: $(fn $name:ident($at:expr, $path:ident; $($arg:ident: $ty:ty),*);)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> c_int {
            // SAFETY: a C string, as the caller says.
            unsafe { $refuse($at, $path) }
        }
    )*};
}

changing! {
    refuse_change:
        fn unlink(AT_FDCWD, path; path: *const c_char);
        fn unlinkat(at, path; at: c_int, path: *const c_char, _flags: c_int);
        fn rmdir(AT_FDCWD, path; path: *const c_char);
        fn remove(AT_FDCWD, path; path: *const c_char);
        fn rename(AT_FDCWD, from; from: *const c_char, _to: *const c_char);
        fn renameat(at, from; at: c_int, from: *const c_char, _to_at: c_int, _to: *const c_char);
        fn link(AT_FDCWD, from; from: *const c_char, _to: *const c_char);
        fn linkat(at, from; at: c_int, from: *const c_char, _to_at: c_int, _to: *const c_char, _flags: c_int);
        fn chmod(AT_FDCWD, path; path: *const c_char, _mode: c_uint);
        fn fchmodat(at, path; at: c_int, path: *const c_char, _mode: c_uint, _flags: c_int);
        fn chown(AT_FDCWD, path; path: *const c_char, _user: c_uint, _group: c_uint);
        fn lchown(AT_FDCWD, path; path: *const c_char, _user: c_uint, _group: c_uint);
        fn truncate(AT_FDCWD, path; path: *const c_char, _size: i64);
        fn utimensat(at, path; at: c_int, path: *const c_char, _times: *const c_void, _flags: c_int);
}

changing! {
    refuse_new:
        fn mkdir(AT_FDCWD, path; path: *const c_char, _mode: c_uint);
        fn mkdirat(at, path; at: c_int, path: *const c_char, _mode: c_uint);
        fn mkfifo(AT_FDCWD, path; path: *const c_char, _mode: c_uint);
        fn symlink(AT_FDCWD, path; _target: *const c_char, path: *const c_char);
        fn symlinkat(at, path; _target: *const c_char, at: c_int, path: *const c_char);
}

/// Functions that would change what a descriptor refers to: `EROFS` for files, `EINVAL` for what has nothing of the kind.
macro_rules! changing_open {
    ($(fn $name:ident($($arg:ident: $ty:ty),*);)*) => {$(
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(fd: c_int, $($arg: $ty),*) -> c_int {
            c::done(table::get(fd).and_then(|description| match &description.object {
                Object::File(_) | Object::Directory { .. } => Err(EROFS),
                _ => Err(EINVAL),
            }))
        }
    )*};
}

changing_open! {
    fn ftruncate(_size: i64);
    fn fchmod(_mode: c_uint);
    fn fchown(_user: c_uint, _group: c_uint);
    fn futimens(_times: *const c_void);
}

#[unsafe(no_mangle)]
pub extern "C" fn flock(fd: c_int, _operation: c_int) -> c_int {
    // There is nobody yet who would know of other processes' locks.
    c::done(table::get(fd).and(Err(EOPNOTSUPP)))
}

#[unsafe(no_mangle)]
pub extern "C" fn fsync(fd: c_int) -> c_int {
    c::done(table::get(fd).and_then(|description| match &description.object {
        Object::Socket { .. } | Object::Network(_) | Object::EventFd(_) => Err(EINVAL),
        // Nothing that was written waits.
        _ => Ok(()),
    }))
}

#[unsafe(no_mangle)]
pub extern "C" fn fdatasync(fd: c_int) -> c_int {
    fsync(fd)
}

#[unsafe(no_mangle)]
pub extern "C" fn umask(_mask: c_uint) -> c_uint {
    // Nothing is created, so no mask is kept: all that could be set is what is.
    0o022
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
        NAME_MAX => 255,
        PATH => crate::path::PATH_MAX as c_long,
        PIPE_BUF => 4096,
        _ => {
            c::set_errno(EINVAL);
            -1
        }
    }
}

/// The memory object of an open file, for `mmap`: shared, read-only.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdio_get_vmo_exact(fd: c_int, out: *mut u32) -> i32 {
    give_vmo(with_file(fd, file_memory), out)
}

/// A writable copy of an open file as a memory object, for private mappings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdio_get_vmo_copy(fd: c_int, out: *mut u32) -> i32 {
    give_vmo(with_file(fd, copy_of), out)
}

fn with_file(
    fd: c_int,
    get: impl FnOnce(&File) -> core::result::Result<Vmo, Status>,
) -> core::result::Result<Vmo, Status> {
    match &table::get(fd).map_err(|_| Status::BAD_HANDLE)?.object {
        Object::File(file) => get(file),
        _ => Err(Status::NOT_SUPPORTED),
    }
}

fn copy_of(file: &File) -> core::result::Result<Vmo, Status> {
    let copy = Vmo::create(file.size, 0)?;
    let mut buffer = alloc::vec![0; 64 << 10];
    let mut done = 0;
    loop {
        let len = file.read_at(done, &mut buffer).map_err(|_: Errno| Status::IO)?;
        if len == 0 {
            return copy.replace(Rights::SAME_RIGHTS);
        }
        copy.write(&buffer[..len], done)?;
        done += len as u64;
    }
}

fn give_vmo(vmo: core::result::Result<Vmo, Status>, out: *mut u32) -> i32 {
    match vmo {
        Ok(vmo) => {
            // SAFETY: the caller's place for a handle.
            unsafe { out.write(vmo.into_handle().into_raw()) };
            0
        }
        Err(status) => status.0,
    }
}

/// `dirfd` of a directory stream is in [`crate::dir`]; this is the path of a descriptor, for it.
pub fn directory_path(fd: c_int) -> Result<String> {
    let path = path_of(fd)?;
    if look_up(&path).map_err(|_| EBADF)?.is_directory() { Ok(path) } else { Err(ENOTDIR) }
}
