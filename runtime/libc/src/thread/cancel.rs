//! Cancellation: `pthread_cancel` and the state of its target.
//!
//! There are no signals here. A thread that waits in a system call is stopped, and continues behind the call:
//!
//! 1. The canceller sets [`PENDING`] in the target.
//! 2. A thread that waits at a cancellation point stores its stack pointer in its window.
//! 3. It then looks at [`PENDING`], so it sees the bit or is found in its window.
//! 4. The canceller suspends the target, which is then in the middle of no call but a wait.
//! 5. If the target has a window, it gets the stack pointer from there and continues at the end of [`__libc_wait`],
//!    with the status `ZX_ERR_CANCELED`. The call that it abandons has no effect but waiting.
//! 6. The target closes its window and returns through all callers, which give back what they hold. The C function that
//!    the program called then ends the thread ([`pthread_testcancel`]).
//!
//! A target with the type "asynchronous" that is outside of the libraries of the system ends where it is. Inside of
//! them it may hold a lock, so the canceller lets it go on for a while, and tries again.

use super::{Thread, current, pthread_exit};
use crate::arch::{self, __libc_wait};
use crate::errno::{EINVAL, ESRCH};
use crate::loader;
use crate::sys::{self, Handle, Status};
use abi::zx_thread_state_general_regs_t;
use core::ffi::c_void;
use core::sync::atomic::Ordering;

/// The thread is to be cancelled.
pub const PENDING: u32 = 1 << 0;
/// The program has disabled cancellation.
pub const DISABLED: u32 = 1 << 1;
/// The thread can be cancelled everywhere.
const ASYNCHRONOUS: u32 = 1 << 2;
/// The library holds a lock of a stream.
pub const BUSY: u32 = 1 << 3;

/// The result of a cancelled thread.
const CANCELED: *mut c_void = usize::MAX as *mut c_void;
/// How often the canceller tries to find an asynchronous target outside of the libraries, and the time between in
/// nanoseconds. After that the target ends at its next cancellation point.
const TRIES: u32 = 1000;
const BETWEEN: i64 = 1_000_000;

fn bits() -> u32 {
    // SAFETY: the calling thread's own structure.
    unsafe { (*current()).cancel.load(Ordering::SeqCst) }
}

/// Sets or clears a bit of the calling thread; returns the bits of before.
fn set(bit: u32, on: bool) -> u32 {
    // SAFETY: the calling thread's own structure.
    let cancel = unsafe { &(*current()).cancel };
    if on { cancel.fetch_or(bit, Ordering::SeqCst) } else { cancel.fetch_and(!bit, Ordering::SeqCst) }
}

/// Makes a system call that waits, and can be cancelled.
///
/// # Safety
/// `call` is a system call that waits and has no other effect, and `arguments` are valid for it.
pub unsafe fn wait(call: usize, [a, b, c, d]: [usize; 4]) -> Status {
    // SAFETY: as the caller says.
    sys::when_there_is_memory(|| unsafe { __libc_wait(call, a, b, c, d) })
}

/// From now on the calling thread is not cancelled any more.
pub fn never() {
    set(DISABLED, true);
}

/// Ends the calling thread, if it is to be cancelled.
#[unsafe(no_mangle)]
pub extern "C" fn pthread_testcancel() {
    if bits() & (PENDING | DISABLED | BUSY) == PENDING {
        // SAFETY: the program asked for it.
        unsafe { pthread_exit(CANCELED) }
    }
}

/// Where an asynchronous target continues.
extern "C" fn end_here() -> ! {
    // SAFETY: the program asked for it.
    unsafe { pthread_exit(CANCELED) }
}

/// What an attempt has done.
#[derive(PartialEq, Eq)]
enum Attempt {
    Done,
    /// The target is in a library.
    Later,
}

fn read(thread: Handle) -> Option<zx_thread_state_general_regs_t> {
    let mut registers = zx_thread_state_general_regs_t::default();
    let (place, size) = ((&raw mut registers).cast(), size_of_val(&registers));
    // SAFETY: there is room for the registers.
    (unsafe { sys::zx_thread_read_state(thread, sys::THREAD_GENERAL, place, size) } == sys::OK).then_some(registers)
}

/// # Safety
/// The thread can continue with these registers.
unsafe fn write(thread: Handle, registers: &zx_thread_state_general_regs_t) {
    let (place, size) = ((&raw const *registers).cast(), size_of_val(registers));
    // It fails only for a thread that is at its end.
    // SAFETY: valid registers; the rest is as the caller says.
    unsafe { sys::zx_thread_write_state(thread, sys::THREAD_GENERAL, place, size) };
}

/// Steps 4 and 5.
unsafe fn attempt(thread: *mut Thread) -> Attempt {
    // Taken first: a suspended target must not hold it. Nothing else is locked or allocated while the target is suspended.
    let modules = loader::MODULES.lock();
    let mut result = Attempt::Done;
    // SAFETY: a living thread by contract; its registers are changed only to what steps 5 and 6 expect.
    unsafe {
        let handle = (*thread).handle.load(Ordering::Relaxed);
        let mut token = sys::HANDLE_INVALID;
        if sys::zx_task_suspend(handle, &mut token) != sys::OK {
            // It has ended.
            return Attempt::Done;
        }
        let bits = (*thread).cancel.load(Ordering::SeqCst);
        let window = (*thread).window.load(Ordering::SeqCst);
        if bits & DISABLED == 0
            && let Some(mut registers) = read(handle)
        {
            if bits & BUSY == 0 && window != 0 {
                arch::end_wait(&mut registers, window);
                write(handle, &registers);
            } else if bits & ASYNCHRONOUS != 0 {
                if bits & BUSY != 0 || modules.is_of_system(arch::place(&registers)) {
                    result = Attempt::Later;
                } else {
                    arch::call_instead(&mut registers, end_here);
                    write(handle, &registers);
                }
            }
        }
        sys::zx_handle_close(token);
    }
    result
}

/// Asks for the end of a thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cancel(thread: *mut Thread) -> i32 {
    if thread.is_null() {
        return ESRCH;
    }
    // SAFETY: a thread that has not been joined, by contract.
    let before = unsafe { (*thread).cancel.fetch_or(PENDING, Ordering::SeqCst) };
    if thread == current() {
        if before & ASYNCHRONOUS != 0 {
            pthread_testcancel();
        }
        return 0;
    }
    for _ in 0..TRIES {
        // SAFETY: as above.
        if unsafe { attempt(thread) } == Attempt::Done {
            break;
        }
        // SAFETY: no pointers.
        unsafe { sys::zx_nanosleep(sys::zx_clock_get_monotonic() + BETWEEN) };
    }
    0
}

/// Enables (0) or disables (1) cancellation of the calling thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_setcancelstate(state: i32, old: *mut i32) -> i32 {
    if !(0..=1).contains(&state) {
        return EINVAL;
    }
    let before = set(DISABLED, state == 1);
    if !old.is_null() {
        // SAFETY: `old` has room for the result.
        unsafe { *old = i32::from(before & DISABLED != 0) };
    }
    if before & ASYNCHRONOUS != 0 {
        pthread_testcancel();
    }
    0
}

/// Sets the type of cancellation: deferred (0) or asynchronous (1).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_setcanceltype(kind: i32, old: *mut i32) -> i32 {
    if !(0..=1).contains(&kind) {
        return EINVAL;
    }
    let before = set(ASYNCHRONOUS, kind == 1);
    if !old.is_null() {
        // SAFETY: `old` has room for the result.
        unsafe { *old = i32::from(before & ASYNCHRONOUS != 0) };
    }
    if kind == 1 {
        pthread_testcancel();
    }
    0
}

/// For streams, which hold a lock during a call of libfdio: no cancellation until [`__cancel_on`]. Returns what that
/// function expects.
#[unsafe(no_mangle)]
extern "C" fn __cancel_off() -> u32 {
    set(BUSY, true) & BUSY
}

#[unsafe(no_mangle)]
extern "C" fn __cancel_on(before: u32) {
    set(BUSY, before != 0);
}
