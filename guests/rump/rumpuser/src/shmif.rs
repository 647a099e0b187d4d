//! The calls of NetBSD's shmif: a network whose wire is a file that several kernels map.
//!
//! A writer changes the head of the file, through its mapping. No object of this system tells other processes of that:
//! a futex is its process's own, and the file system gives out a file's memory without the right to signal. So a wait
//! looks at the head at intervals.

use core::ffi::{c_int, c_void};
use core::ptr;

use rump_logic::error::EINVAL;
use rump_logic::file;
use zx::MonotonicInstant;

use crate::{c, kernel, memory};

/// The part of the file that each writer changes.
type Head = [u8; 64];

/// Time between two looks at the head.
const INTERVAL: i64 = 2_000_000;
/// Looks of one wait. It ends without a change, too: one may have come between the kernel's last look and the first one
/// here, and a kernel that takes the interface down writes what is there already.
const LOOKS: u32 = 10;

fn head(fd: c_int) -> Result<Head, c_int> {
    let mut head: Head = [0; 64];
    // SAFETY: `head` has room for its length.
    match unsafe { c::pread(fd, head.as_mut_ptr().cast(), head.len(), 0) } {
        -1 => Err(c::last_error()),
        _ => Ok(head),
    }
}

/// The size of an open file.
fn size(fd: c_int) -> Result<u64, c_int> {
    let mut found = c::Stat::default();
    // SAFETY: `found` has the size of a `struct stat`.
    if unsafe { c::fstat(fd, &mut found) } != 0 {
        return Err(c::last_error());
    }
    file::shared(found.mode, found.size)
}

/// Makes a descriptor to wait with, which the kernel closes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpcomp_shmif_watchsetup(to: *mut c_int, fd: c_int) -> c_int {
    let watch = kernel::outside(|| {
        size(fd)?;
        // SAFETY: no memory involved.
        match unsafe { c::dup(fd) } {
            -1 => Err(c::last_error()),
            watch => Ok(watch),
        }
    });
    match watch {
        Ok(watch) => {
            // SAFETY: the caller's variable.
            unsafe { *to = watch };
            0
        }
        Err(error) => error,
    }
}

/// Waits until somebody has written, or for a short time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpcomp_shmif_watchwait(fd: c_int) -> c_int {
    kernel::outside(|| {
        let first = head(fd);
        for _ in 0..LOOKS {
            // The call has no errors.
            let _ = zx::nanosleep(MonotonicInstant(MonotonicInstant::now().0.saturating_add(INTERVAL)));
            // An error ends the wait after the first interval, so that a kernel which tries again does not spin.
            if first.is_err() || head(fd) != first {
                break;
            }
        }
        c::number(first.map(drop))
    })
}

/// Maps the file, which becomes as long as the mapping if it is shorter. `rumpuser_unmap` unmaps it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpcomp_shmif_mmap(fd: c_int, len: usize, to: *mut *mut c_void) -> c_int {
    let Some(end) = i64::try_from(len).ok().filter(|end| *end > 0) else { return EINVAL };
    let mapped = kernel::outside(|| {
        let size = size(fd)?;
        memory::count(len)?;
        let mapped = map(fd, len, end, size < len as u64);
        if mapped.is_err() {
            memory::uncount(len);
        }
        mapped
    });
    match mapped {
        Ok(address) => {
            // SAFETY: the caller's variable.
            unsafe { *to = address };
            0
        }
        Err(error) => error,
    }
}

fn map(fd: c_int, len: usize, end: i64, grows: bool) -> Result<*mut c_void, c_int> {
    // SAFETY: no memory involved.
    if grows && unsafe { c::ftruncate(fd, end) } != 0 {
        return Err(c::last_error());
    }
    // SAFETY: the mapping is a new one, at a place of the system's choice.
    let address = unsafe { c::mmap(ptr::null_mut(), len, c::PROT_READ | c::PROT_WRITE, c::MAP_SHARED, fd, 0) };
    if address == c::MAP_FAILED { Err(c::last_error()) } else { Ok(address) }
}
