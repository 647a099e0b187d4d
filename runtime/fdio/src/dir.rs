//! Listing directories.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::ffi::{c_char, c_int, c_long};

use crate::c::{self, ENOENT, Result};
use crate::fs::directory_path;
use crate::namespace::{directory, look_up};
use crate::path::Node;
use crate::table;

const DT_CHR: u8 = 2;
const DT_DIR: u8 = 4;
const DT_REG: u8 = 8;

/// `struct dirent`.
#[repr(C)]
pub struct Entry {
    inode: u64,
    offset: i64,
    len: u16,
    kind: u8,
    name: [u8; 256],
}

/// `DIR`: the names as they were when the directory was opened.
pub struct Stream {
    fd: c_int,
    names: Vec<(String, u8)>,
    position: usize,
    entry: Entry,
}

fn names_in(path: &str) -> Result<Vec<(String, u8)>> {
    let mut names = Vec::new();
    let mut add = |name: &str, kind| names.push((String::from(name), kind));
    add(".", DT_DIR);
    add("..", DT_DIR);
    match look_up(path)? {
        Node::Root => {
            if directory().is_some() {
                add("boot", DT_DIR);
            }
            add("dev", DT_DIR);
        }
        Node::Dev => add("null", DT_CHR),
        Node::Directory(inside) => {
            for child in directory().ok_or(ENOENT)?.children(inside) {
                add(child.name, if child.file.is_some() { DT_REG } else { DT_DIR });
            }
        }
        Node::Null | Node::File(_) => return Err(c::ENOTDIR),
    }
    Ok(names)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn opendir(path: *const c_char) -> *mut Stream {
    // SAFETY: the same conditions.
    let fd = unsafe { crate::fs::open(path, c::O_DIRECTORY | c::O_CLOEXEC) };
    if fd < 0 {
        return core::ptr::null_mut();
    }
    let stream = fdopendir(fd);
    if stream.is_null() {
        let _ = table::close(fd);
    }
    stream
}

#[unsafe(no_mangle)]
pub extern "C" fn fdopendir(fd: c_int) -> *mut Stream {
    match directory_path(fd).and_then(|path| names_in(&path)) {
        Ok(names) => {
            let entry = Entry { inode: 0, offset: 0, len: 0, kind: 0, name: [0; 256] };
            Box::into_raw(Box::new(Stream { fd, names, position: 0, entry }))
        }
        Err(error) => {
            c::set_errno(error);
            core::ptr::null_mut()
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn readdir(stream: *mut Stream) -> *mut Entry {
    // SAFETY: a stream from `opendir`, used by one thread at a time as POSIX says.
    let stream = unsafe { &mut *stream };
    let Some((name, kind)) = stream.names.get(stream.position) else { return core::ptr::null_mut() };
    stream.position += 1;
    let bytes = &name.as_bytes()[..name.len().min(255)];
    stream.entry.name[..bytes.len()].copy_from_slice(bytes);
    stream.entry.name[bytes.len()] = 0;
    stream.entry.kind = *kind;
    stream.entry.inode = stream.position as u64;
    stream.entry.offset = stream.position as i64;
    stream.entry.len = size_of::<Entry>() as u16;
    &mut stream.entry
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn closedir(stream: *mut Stream) -> c_int {
    // SAFETY: a stream from `opendir`, which ends here.
    let stream = unsafe { Box::from_raw(stream) };
    c::done(table::close(stream.fd))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rewinddir(stream: *mut Stream) {
    // SAFETY: as for `readdir`.
    unsafe { (*stream).position = 0 };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn telldir(stream: *mut Stream) -> c_long {
    // SAFETY: as for `readdir`.
    unsafe { (*stream).position as c_long }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn seekdir(stream: *mut Stream, position: c_long) {
    // SAFETY: as for `readdir`. A position beyond the end is at the end.
    unsafe { (*stream).position = position.max(0) as usize };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn dirfd(stream: *mut Stream) -> c_int {
    // SAFETY: as for `readdir`.
    unsafe { (*stream).fd }
}
