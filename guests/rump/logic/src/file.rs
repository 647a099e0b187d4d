//! Names, flags and types of files.

use crate::error::{EINVAL, EIO, ENAMETOOLONG, ENOENT, ENOSPC, ENXIO};

/// The longest name of a file.
pub const LONGEST_NAME: usize = 1023;
/// The largest number of pieces of one transfer.
pub const MOST_PIECES: usize = 1024;

/// Whether a name can be a file's. Names that begin with `disk:` are for disks without a file; there are none yet.
///
/// # Errors
/// `ENOENT`: empty. `ENAMETOOLONG`. `ENXIO`: a disk.
pub fn name(name: &[u8]) -> Result<(), i32> {
    match name.len() {
        0 => Err(ENOENT),
        len if len > LONGEST_NAME => Err(ENAMETOOLONG),
        _ if name.starts_with(b"disk:") => Err(ENXIO),
        _ => Ok(()),
    }
}

/// How to open a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// Bytes may be read.
    pub reads: bool,
    /// Bytes may be written.
    pub writes: bool,
    /// A missing file is made.
    pub creates: bool,
    /// A file that exists is an error.
    pub excludes: bool,
}

/// The interface's flags.
///
/// # Errors
/// `EINVAL`: unknown ones.
pub fn mode(flags: i32) -> Result<Mode, i32> {
    // Block I/O, bit 4, needs nothing special here.
    if flags & !0x1f != 0 || flags & 3 == 3 {
        return Err(EINVAL);
    }
    let access = flags & 3;
    Ok(Mode { reads: access != 1, writes: access != 0, creates: flags & 4 != 0, excludes: flags & 8 != 0 })
}

/// The interface's number for the type of a file with this `st_mode`.
pub fn kind(mode: u32) -> i32 {
    match mode & 0o170_000 {
        0o040_000 => 1,
        0o100_000 => 2,
        0o060_000 => 3,
        0o020_000 => 4,
        _ => 0,
    }
}

/// The size of a file that kernels share, from its `st_mode` and `st_size`.
///
/// # Errors
/// `EINVAL`: it is not a regular file.
pub fn shared(mode: u32, size: i64) -> Result<u64, i32> {
    match (kind(mode), u64::try_from(size)) {
        (2, Ok(size)) => Ok(size),
        _ => Err(EINVAL),
    }
}

/// The error of closing a file that was written back first. Writing back fails for what cannot be written, too, and that
/// loses nothing.
pub fn closed(written: i32, closed: i32) -> i32 {
    match (written, closed) {
        (EIO | ENOSPC, 0) => written,
        _ => closed,
    }
}
