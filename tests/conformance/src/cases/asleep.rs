//! Threads that are known to be blocked, for cases that need one.

use std::os::unix::thread::JoinHandleExt;
use std::thread::JoinHandle;

use zx::{AsHandleRef, MonotonicInstant, Rights, Signals, Suspend, Thread, Unowned};

use super::{late, soon};
use crate::check::{Failure, Outcome};

/// Waits until a thread of this process is in one of these states, however slowly the system runs it. The caller keeps
/// the handle.
pub fn until(handle: u32, states: &[u32]) -> Outcome {
    let thread = Unowned::<Thread>::from_raw(handle).ok_or("a thread without a handle")?;
    let limit = late();
    while !states.contains(&thread.info()?.state) {
        if MonotonicInstant::now() > limit {
            return Err("it does not wait there".into());
        }
        zx::nanosleep(soon(1))?;
    }
    Ok(())
}

/// Waits until a thread of this process is blocked on a futex.
pub fn until_on_futex(handle: u32) -> Outcome {
    until(handle, &[abi::ZX_THREAD_STATE_BLOCKED_FUTEX])
}

/// The handle that the C library keeps for a thread of `std`. `as_pthread_t` gives the same value with another type.
pub fn native<T>(thread: &JoinHandle<T>) -> u32 {
    libc_probe::pthread::pthread_get_zx_handle(thread.as_pthread_t() as usize)
}

/// The result of a thread that must end without a panic.
pub fn joined<T>(thread: JoinHandle<T>) -> Result<T, Failure> {
    thread.join().map_err(|_| "a thread panicked".into())
}

/// A thread of this program that is in a system call.
pub struct Caller<T> {
    pub handle: Thread,
    result: JoinHandle<T>,
}

impl<T: Send + 'static> Caller<T> {
    /// Starts a thread that runs `call`, and waits until it is blocked there.
    pub fn new(blocked: u32, call: impl FnOnce() -> T + Send + 'static) -> Result<Self, Failure> {
        let (sender, receiver) = std::sync::mpsc::channel();
        let result = std::thread::spawn(move || {
            let _ = sender.send(zx::startup::thread_self().duplicate_handle(Rights::SAME_RIGHTS));
            call()
        });
        let handle = Thread::from(receiver.recv().map_err(|_| "the thread is gone")??);
        for _ in 0..1000 {
            if handle.info()?.state == blocked {
                return Ok(Self { handle, result });
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        Err("the thread does not block".into())
    }

    /// Suspends it until the token is dropped.
    pub fn suspend(&self) -> Result<Suspend, Failure> {
        let token = self.handle.suspend()?;
        self.handle.wait_one(Signals::THREAD_SUSPENDED, late())?;
        crate::check::equal(self.handle.info()?.state, abi::ZX_THREAD_STATE_SUSPENDED)?;
        Ok(token)
    }

    /// The result of the call.
    pub fn join(self) -> Result<T, Failure> {
        self.result.join().map_err(|_| Failure::from("the thread panicked"))
    }
}
