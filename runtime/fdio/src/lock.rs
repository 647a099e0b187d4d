//! File locks between processes: of whole files (`flock`), and of byte ranges (`fcntl`).
//!
//! A range lock belongs to the process, by its koid. It ends with the open description that it was made with.

use core::ffi::{c_int, c_short};
use core::sync::atomic::{AtomicU64, Ordering};

use file_protocol::{Lock, Request};
use zx::{HandleRef, Info};

use crate::c::{self, EBADF, EINVAL, EOPNOTSUPP, EOVERFLOW, F_GETLK, F_SETLKW, O_ACCMODE, O_RDONLY, O_WRONLY, Result};
use crate::description::Description;
use crate::object::Object;
use crate::remote::RemoteFile;
use crate::table;

const LOCK_SH: c_int = 1;
const LOCK_EX: c_int = 2;
const LOCK_NB: c_int = 4;
const LOCK_UN: c_int = 8;

const F_RDLCK: c_short = 0;
const F_WRLCK: c_short = 1;
const F_UNLCK: c_short = 2;

/// `struct flock`.
#[repr(C)]
pub struct Range {
    kind: c_short,
    whence: c_short,
    start: i64,
    len: i64,
    process: c_int,
}

unsafe extern "C" {
    safe fn zx_process_self() -> u32;
}

/// This process's koid.
fn owner() -> Result<u64> {
    static OWNER: AtomicU64 = AtomicU64::new(0);
    match OWNER.load(Ordering::Relaxed) {
        0 => {
            let koid = HandleRef::from_raw(zx_process_self()).basic_info()?.koid;
            OWNER.store(koid, Ordering::Relaxed);
            Ok(koid)
        }
        koid => Ok(koid),
    }
}

fn file(description: &Description) -> Result<&RemoteFile> {
    match &description.object {
        Object::Remote(file) => Ok(file),
        // These objects have no file system that knows the locks of other processes.
        Object::File(_) | Object::Directory { .. } => Err(EOPNOTSUPP),
        _ => Err(EINVAL),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn flock(fd: c_int, operation: c_int) -> c_int {
    c::done((|| {
        let description = table::get(fd)?;
        let lock = match operation & !LOCK_NB {
            LOCK_SH => Lock::Shared,
            LOCK_EX => Lock::Exclusive,
            LOCK_UN => Lock::Free,
            _ => return Err(EINVAL),
        };
        file(&description)?.remote.lock(&Request::Lock { lock, wait: operation & LOCK_NB == 0 })
    })())
}

/// `F_GETLK`, `F_SETLK` and `F_SETLKW`.
pub fn record(description: &Description, command: c_int, range: &mut Range) -> Result<()> {
    let file = file(description)?;
    let lock = match range.kind {
        F_RDLCK => Lock::Shared,
        F_WRLCK => Lock::Exclusive,
        F_UNLCK => Lock::Free,
        _ => return Err(EINVAL),
    };
    let mode = description.flags() & O_ACCMODE;
    let allowed = match lock {
        _ if command == F_GETLK => true,
        Lock::Shared => mode != O_WRONLY,
        Lock::Exclusive => mode != O_RDONLY,
        Lock::Free => true,
    };
    if !allowed {
        return Err(EBADF);
    }
    let base = match range.whence {
        0 => 0,
        1 => file.seek(0, 1)?,
        2 => file.attributes()?.size,
        _ => return Err(EINVAL),
    };
    let first = i64::try_from(base).ok().and_then(|base| base.checked_add(range.start)).ok_or(EOVERFLOW)?;
    // A negative length extends backwards; length 0 means to the end of the file.
    let (start, end) = match range.len {
        0 => (first, i64::MAX),
        ..0 => (first.checked_add(range.len).ok_or(EINVAL)?, first),
        len => (first, first.checked_add(len).ok_or(EOVERFLOW)?),
    };
    let start = u64::try_from(start).map_err(|_| EINVAL)?;
    let (owner, end) = (owner()?, u64::try_from(end).map_err(|_| EINVAL)?);
    if command != F_GETLK {
        let wait = command == F_SETLKW;
        return file.remote.lock(&Request::LockRange { owner, lock, wait, start, end });
    }
    let (by, held, start, end) = file.remote.test(&Request::TestRange { owner, lock, start, end })?;
    match held {
        Lock::Free => range.kind = F_UNLCK,
        held => {
            range.kind = if held == Lock::Shared { F_RDLCK } else { F_WRLCK };
            range.whence = 0;
            range.start = start as i64;
            range.len = if end >= i64::MAX as u64 { 0 } else { (end - start) as i64 };
            // A koid can have more bits than a process ID; the truncated value differs from this process's ID all the
            // same.
            range.process = by as c_int;
        }
    }
    Ok(())
}
