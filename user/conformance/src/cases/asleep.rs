//! Threads that are known to sleep: what the cases of locks share.

use std::os::unix::thread::JoinHandleExt;
use std::thread::JoinHandle;

use zx::{MonotonicInstant, Thread, Unowned};

use super::{late, soon};
use crate::check::{Failure, Outcome};

/// Waits until a thread of this process sleeps on a futex; the handle stays the C library's.
pub fn until_on_futex(handle: u32) -> Outcome {
    let thread = Unowned::<Thread>::from_raw(handle).ok_or("a thread without a handle")?;
    let limit = late();
    while thread.info()?.state != abi::ZX_THREAD_STATE_BLOCKED_FUTEX {
        if MonotonicInstant::now() > limit {
            return Err("it does not sleep on a futex".into());
        }
        zx::nanosleep(soon(1))?;
    }
    Ok(())
}

/// The handle that the C library keeps for a thread of `std`'s. Between the two stands only the type of `as_pthread_t`.
pub fn native<T>(thread: &JoinHandle<T>) -> u32 {
    libc_probe::pthread::pthread_get_zx_handle(thread.as_pthread_t() as usize)
}

/// The result of a thread that must have ended well.
pub fn joined<T>(thread: JoinHandle<T>) -> Result<T, Failure> {
    thread.join().map_err(|_| "a thread panicked".into())
}
