//! Files, through fdio. The kernel's descriptors are the program's.

use core::ffi::{CStr, c_char, c_int};

use rump_logic::error::EINVAL;
use rump_logic::file;

use crate::{c, kernel};

/// The place of a transfer that goes on where the last one ended.
const AT_ITS_PLACE: i64 = -1;
/// Readable and writable for all users: there are none.
const PERMISSIONS: c_int = 0o666;

fn opened(name: *const c_char, flags: c_int) -> Result<c_int, c_int> {
    // SAFETY: the caller's text.
    file::name(unsafe { CStr::from_ptr(name) }.to_bytes())?;
    let mode = file::mode(flags)?;
    let mut how = match (mode.reads, mode.writes) {
        (true, true) => c::O_RDWR,
        (false, _) => c::O_WRONLY,
        _ => c::O_RDONLY,
    };
    if mode.creates {
        how |= c::O_CREAT;
    }
    if mode.excludes {
        how |= c::O_EXCL;
    }
    // SAFETY: the caller's text.
    kernel::outside(|| match unsafe { c::open(name, how, PERMISSIONS) } {
        -1 => Err(c::last_error()),
        fd => Ok(fd),
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_open(name: *const c_char, flags: c_int, to: *mut c_int) -> c_int {
    match opened(name, flags) {
        Ok(fd) => {
            // SAFETY: the caller's variable.
            unsafe { *to = fd };
            0
        }
        Err(error) => error,
    }
}

/// Writes back, and closes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_close(fd: c_int) -> c_int {
    // SAFETY: no memory involved.
    kernel::outside(|| unsafe {
        let written = c::error_of(c::fsync(fd));
        file::closed(written, c::error_of(c::close(fd)))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_getfileinfo(name: *const c_char, size: *mut u64, kind: *mut c_int) -> c_int {
    // SAFETY: the caller's text.
    if let Err(error) = file::name(unsafe { CStr::from_ptr(name) }.to_bytes()) {
        return error;
    }
    let mut found = c::Stat::default();
    // SAFETY: the caller's text; `found` has the size of a `struct stat`.
    if unsafe { c::stat(name, &mut found) } != 0 {
        return c::last_error();
    }
    let Ok(bytes) = u64::try_from(found.size) else { return EINVAL };
    // SAFETY: null, or the caller's variables.
    unsafe {
        if !size.is_null() {
            *size = bytes;
        }
        if !kind.is_null() {
            *kind = file::kind(found.mode);
        }
    }
    0
}

/// One of the C library's functions that transfer pieces, at an offset.
type TransferAt = unsafe extern "C" fn(c_int, *const c::Piece, c_int, i64) -> isize;
/// The same at the file's own place.
type Transfer = unsafe extern "C" fn(c_int, *const c::Piece, c_int) -> isize;

/// Transfers pieces.
///
/// # Safety
/// The pieces are memory of the caller's.
unsafe fn transfer(
    (at, here): (TransferAt, Transfer),
    fd: c_int,
    (pieces, count): (*const c::Piece, usize),
    offset: i64,
    to: *mut usize,
) -> c_int {
    let number = match c_int::try_from(count) {
        Ok(number) if count <= file::MOST_PIECES && offset >= AT_ITS_PLACE => number,
        _ => return EINVAL,
    };
    let moved = kernel::outside(|| {
        // SAFETY: as the caller says.
        let moved =
            unsafe { if offset == AT_ITS_PLACE { here(fd, pieces, number) } else { at(fd, pieces, number, offset) } };
        usize::try_from(moved).map_err(|_| c::last_error())
    });
    match moved {
        Ok(moved) => {
            // SAFETY: the caller's variable.
            unsafe { *to = moved };
            0
        }
        Err(error) => error,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_iovread(
    fd: c_int,
    pieces: *const c::Piece,
    count: usize,
    offset: i64,
    to: *mut usize,
) -> c_int {
    // SAFETY: the kernel's pieces.
    unsafe { transfer((c::preadv, c::readv), fd, (pieces, count), offset, to) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_iovwrite(
    fd: c_int,
    pieces: *const c::Piece,
    count: usize,
    offset: i64,
    to: *mut usize,
) -> c_int {
    // SAFETY: the kernel's pieces.
    unsafe { transfer((c::pwritev, c::writev), fd, (pieces, count), offset, to) }
}

/// Writes a file back, all of it. A read always sees what others have written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_syncfd(fd: c_int, flags: c_int, _start: u64, _len: u64) -> c_int {
    const WRITE: c_int = 2;
    if flags & 3 == 0 || flags & !0xf != 0 {
        return EINVAL;
    }
    if flags & WRITE == 0 {
        return 0;
    }
    // SAFETY: no memory involved.
    kernel::outside(|| c::error_of(unsafe { c::fsync(fd) }))
}
