//! Listing directories.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ffi::{c_char, c_int, c_long};

use file_protocol::{Kind, entries};

use crate::c::{self, ENOENT, ENOTDIR, Result};
use crate::namespace::{boot, look_up, names};
use crate::object::Object;
use crate::path::Node;
use crate::table;

const DT_CHR: u8 = 2;
const DT_DIR: u8 = 4;
const DT_REG: u8 = 8;
const DT_LNK: u8 = 10;
const DT_SOCK: u8 = 12;

/// `struct dirent`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Entry {
    inode: u64,
    offset: i64,
    len: u16,
    kind: u8,
    name: [u8; 256],
}

/// A name that has been read from the file system and not yet returned by `readdir`.
struct Name {
    name: Vec<u8>,
    kind: u8,
    inode: u64,
    /// Position of the next name.
    next: u64,
}

/// `DIR`. Positions 0 and 1 are `.` and `..`. Positions from 2 on are the cookie of the preceding entry plus 2.
pub struct Stream {
    fd: c_int,
    position: u64,
    /// Names read ahead from the position on, in reverse order: as many as the file system returned in one answer.
    ahead: Vec<Name>,
    entry: Entry,
}

const DOTS: u64 = 2;

/// Reads names from `position` on.
fn names_from(fd: c_int, position: u64) -> Result<Vec<Name>> {
    let mut found = Vec::new();
    let mut dot = |name: &[u8], next| found.push(Name { name: name.to_vec(), kind: DT_DIR, inode: next, next });
    if position == 0 {
        dot(b".", 1);
    }
    if position <= 1 {
        dot(b"..", DOTS);
    }
    let from = position.saturating_sub(DOTS);
    match &table::get(fd)?.object {
        Object::Remote(file) if file.opened.kind == Kind::Directory => {
            let data = file.remote.entries(from)?;
            found.extend(entries(&data).map(|entry| {
                let kind = match entry.kind {
                    Kind::File => DT_REG,
                    Kind::Directory => DT_DIR,
                    Kind::Link => DT_LNK,
                    Kind::Socket => DT_SOCK,
                };
                let next = entry.cookie.saturating_add(DOTS);
                Name { name: entry.name.to_vec(), kind, inode: entry.node, next }
            }));
        }
        Object::Directory { path } => found.extend(names_here(path)?.skip(from as usize)),
        _ => return Err(ENOTDIR),
    }
    found.reverse();
    Ok(found)
}

/// The names in a directory of this library's own part of the name space.
fn names_here(path: &str) -> Result<impl Iterator<Item = Name> + use<>> {
    let found: Vec<(Vec<u8>, u8)> = match look_up(path)? {
        Node::Above => {
            let file = if path == "/dev" { DT_CHR } else { DT_REG };
            let kind = |directory| if directory { DT_DIR } else { file };
            names(path).into_iter().map(|(name, directory)| (name.into_bytes(), kind(directory))).collect()
        }
        Node::Directory(inside) => {
            let children = boot().ok_or(ENOENT)?.directory.children(inside);
            let kind = |file: bool| if file { DT_REG } else { DT_DIR };
            children.map(|child| (child.name.as_bytes().to_vec(), kind(child.file.is_some()))).collect()
        }
        Node::Device(_) | Node::File(_) => return Err(ENOTDIR),
    };
    let name = |(index, (name, kind)): (u64, (Vec<u8>, u8))| {
        let next = index + 1 + DOTS;
        Name { name, kind, inode: next, next }
    };
    Ok((0..).zip(found).map(name))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn opendir(path: *const c_char) -> *mut Stream {
    // SAFETY: the same conditions.
    let fd = unsafe { crate::open::open(path, c::O_DIRECTORY | c::O_CLOEXEC, 0) };
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
    let is_directory = table::get(fd).and_then(|description| match &description.object {
        Object::Directory { .. } => Ok(()),
        Object::Remote(file) if file.opened.kind == Kind::Directory => Ok(()),
        _ => Err(ENOTDIR),
    });
    match is_directory {
        Ok(()) => {
            let entry = Entry { inode: 0, offset: 0, len: 0, kind: 0, name: [0; 256] };
            Box::into_raw(Box::new(Stream { fd, position: 0, ahead: Vec::new(), entry }))
        }
        Err(error) => {
            c::set_errno(error);
            core::ptr::null_mut()
        }
    }
}

impl Stream {
    fn next(&mut self) -> Result<Option<&mut Entry>> {
        if self.ahead.is_empty() {
            self.ahead = names_from(self.fd, self.position)?;
        }
        let Some(name) = self.ahead.pop() else { return Ok(None) };
        self.position = name.next;
        let bytes = &name.name[..name.name.len().min(255)];
        self.entry.name[..bytes.len()].copy_from_slice(bytes);
        self.entry.name[bytes.len()] = 0;
        self.entry.kind = name.kind;
        self.entry.inode = name.inode;
        self.entry.offset = name.next as i64;
        self.entry.len = size_of::<Entry>() as u16;
        Ok(Some(&mut self.entry))
    }

    fn go_to(&mut self, position: u64) {
        self.position = position;
        self.ahead.clear();
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn readdir(stream: *mut Stream) -> *mut Entry {
    // SAFETY: a stream from `opendir`, which only one thread at a time uses, as POSIX demands.
    match unsafe { (*stream).next() } {
        Ok(Some(entry)) => entry,
        Ok(None) => core::ptr::null_mut(),
        Err(error) => {
            c::set_errno(error);
            core::ptr::null_mut()
        }
    }
}

/// Like `readdir`, but stores the entry in the caller's memory and returns an error number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn readdir_r(stream: *mut Stream, place: *mut Entry, out: *mut *mut Entry) -> c_int {
    // SAFETY: as for `readdir`; `place` and `out` point to the caller's memory.
    unsafe {
        match (*stream).next() {
            Ok(Some(entry)) => {
                place.write(*entry);
                out.write(place);
                0
            }
            Ok(None) => {
                out.write(core::ptr::null_mut());
                0
            }
            Err(error) => error.0,
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn closedir(stream: *mut Stream) -> c_int {
    // SAFETY: a stream from `opendir`, which the caller does not use any more.
    let stream = unsafe { Box::from_raw(stream) };
    c::done(table::close(stream.fd))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rewinddir(stream: *mut Stream) {
    // SAFETY: as for `readdir`.
    unsafe { (*stream).go_to(0) };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn telldir(stream: *mut Stream) -> c_long {
    // SAFETY: as for `readdir`.
    unsafe { (*stream).position as c_long }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn seekdir(stream: *mut Stream, position: c_long) {
    // SAFETY: as for `readdir`.
    unsafe { (*stream).go_to(position.max(0) as u64) };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn dirfd(stream: *mut Stream) -> c_int {
    // SAFETY: as for `readdir`.
    unsafe { (*stream).fd }
}
