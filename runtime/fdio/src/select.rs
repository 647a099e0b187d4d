//! `select`: the older form of [`poll`](crate::poll), with sets of descriptors below 1024.

use alloc::vec::Vec;
use core::ffi::{c_int, c_void};

use zx::MonotonicInstant;

use crate::c::{self, EBADF, EINVAL, Result};
use crate::poll::{POLLERR, POLLHUP, POLLIN, POLLNVAL, POLLOUT, PollFd, deadline_of, wait};

const SET_SIZE: usize = 1024;

/// `fd_set`
pub type FdSet = [u64; SET_SIZE / 64];

fn contains(set: &Option<&mut FdSet>, fd: usize) -> bool {
    set.as_ref().is_some_and(|set| set[fd / 64] >> (fd % 64) & 1 != 0)
}

fn select_until(count: c_int, sets: [Option<&mut FdSet>; 3], deadline: MonotonicInstant) -> Result<usize> {
    let count = usize::try_from(count).ok().filter(|count| *count <= SET_SIZE).ok_or(EINVAL)?;
    let [mut read, mut write, mut except] = sets;
    let mut fds: Vec<PollFd> = Vec::new();
    for fd in 0..count {
        let events = if contains(&read, fd) { POLLIN } else { 0 } | if contains(&write, fd) { POLLOUT } else { 0 };
        if events != 0 || contains(&except, fd) {
            fds.push(PollFd { fd: fd as c_int, events, revents: 0 });
        }
    }
    wait(&mut fds, deadline)?;
    if fds.iter().any(|entry| entry.revents & POLLNVAL != 0) {
        return Err(EBADF);
    }
    for set in [&mut read, &mut write, &mut except].into_iter().flatten() {
        set.fill(0);
    }
    let mut told = 0;
    for entry in &fds {
        let fd = entry.fd as usize;
        let ready = [
            (&mut read, entry.events & POLLIN != 0 && entry.revents & (POLLIN | POLLHUP | POLLERR) != 0),
            (&mut write, entry.events & POLLOUT != 0 && entry.revents & (POLLOUT | POLLERR) != 0),
        ];
        for (set, ready) in ready {
            if let Some(set) = set
                && ready
            {
                set[fd / 64] |= 1 << (fd % 64);
                told += 1;
            }
        }
    }
    Ok(told)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn select(
    count: c_int,
    read: *mut FdSet,
    write: *mut FdSet,
    except: *mut FdSet,
    timeout: *mut [i64; 2],
) -> c_int {
    c::cancellation_point();
    // SAFETY: the caller's sets and structure of seconds and microseconds, or null.
    let (sets, timeout) = unsafe { ([read.as_mut(), write.as_mut(), except.as_mut()], timeout.as_ref()) };
    c::int(deadline_of(timeout, 1000).and_then(|deadline| select_until(count, sets, deadline)))
}

/// `select` with a timeout in nanoseconds. There are no signals, so the signal mask has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pselect(
    count: c_int,
    read: *mut FdSet,
    write: *mut FdSet,
    except: *mut FdSet,
    timeout: *const [i64; 2],
    _mask: *const c_void,
) -> c_int {
    c::cancellation_point();
    // SAFETY: the caller's sets and structure of seconds and nanoseconds, or null.
    let (sets, timeout) = unsafe { ([read.as_mut(), write.as_mut(), except.as_mut()], timeout.as_ref()) };
    c::int(deadline_of(timeout, 1).and_then(|deadline| select_until(count, sets, deadline)))
}
