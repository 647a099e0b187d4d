//! Cancellation: `pthread_cancel` and the state of its target.
//!
//! There are no signals here. A thread that waits in a system call is stopped, and continues behind the call:
//!
//! 1. The canceller sets [`PENDING`] in the target and, in the same instruction, counts itself as a user of the
//!    target's structure. A join frees the structure, and closes the handle, only when it has no user
//!    ([`until_unused`]).
//! 2. A thread that waits at a cancellation point stores its stack pointer in its window ([`__libc_wait`]).
//! 3. It then looks at [`PENDING`], so it sees the bit or is found in its window. (There is one processor. With more,
//!    steps 2 and 3 need a fence between them.)
//! 4. The canceller looks for a window. A deferred target without one sees the bit in step 3, or at its next
//!    cancellation point, so it is left alone: a suspended thread repeats what it has sent to an endpoint.
//! 5. The canceller suspends the target. Each canceller holds one lock meanwhile, or two could suspend each other. If
//!    the target has not made its call yet, or is in it, it gets the stack pointer from the window and continues at the
//!    end of [`__libc_wait`], with the status `ZX_ERR_CANCELED`: the call that it abandons has had no effect. If the
//!    call is over, the target keeps its result: a futex may have woken this thread and no other.
//! 6. The target closes its window and returns through all callers, which give back what they hold. The C function that
//!    the program called then ends the thread ([`pthread_testcancel`]).
//! 7. A target with the type "asynchronous" that is outside of the libraries of the system ends where it is. Inside of
//!    them it may hold a lock. Then the canceller leaves the target to a helper: a thread that tries again until the
//!    target has left the libraries, or has ended.

use super::attr::Attributes;
use super::{Start, Thread, create, current, pthread_exit};
use crate::arch::{self, __libc_wait, Progress};
use crate::errno::{EAGAIN, EINVAL, ESRCH};
use crate::loader::{self, System};
use crate::lock::{self, Lock};
use crate::sys::{self, Handle, Status};
use abi::zx_thread_state_general_regs_t;
use core::ffi::c_void;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU32, Ordering};

/// The thread is to be cancelled.
pub const PENDING: u32 = 1 << 0;
/// The program has disabled cancellation.
const DISABLED: u32 = 1 << 1;
/// The thread can be cancelled everywhere.
const ASYNCHRONOUS: u32 = 1 << 2;
/// The library holds a lock of a stream, or something that the program does not know of.
const BUSY: u32 = 1 << 3;
/// The thread ends already, or ends the process.
const ENDING: u32 = 1 << 4;
/// A thread waits until the structure has no user.
const AWAITED: u32 = 1 << 5;
/// The thread has a helper (step 7).
const HELPED: u32 = 1 << 6;
/// The number of users of the structure is in the bits from this one.
const USER: u32 = 1 << 8;
/// With one of these, a thread is not cancelled.
pub const NOT_NOW: u32 = DISABLED | BUSY | ENDING;

/// The result of a cancelled thread.
const CANCELED: *mut c_void = usize::MAX as *mut c_void;
/// How often a canceller tries by itself, before a helper does and if there is none.
const TRIES: u32 = 4;
const TRIES_ALONE: u32 = 1000;
/// Times between tries in nanoseconds: at first; at most for a target that runs; at most for one that waits.
const BETWEEN: i64 = 1_000_000;
const BETWEEN_RUNNING: i64 = 16 * BETWEEN;
const BETWEEN_WAITING: i64 = 1024 * BETWEEN;

/// Held while a target is suspended (step 5). Nothing else is locked or allocated then.
static SUSPENDING: Lock<()> = Lock::new(());

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

/// From now on the calling thread is not cancelled any more, even if it enables cancellation.
pub fn never() {
    set(ENDING, true);
}

/// Ends the calling thread, if it is to be cancelled (step 6).
#[unsafe(no_mangle)]
pub extern "C" fn pthread_testcancel() {
    if bits() & (PENDING | NOT_NOW) == PENDING {
        // SAFETY: the program asked for it.
        unsafe { pthread_exit(CANCELED) }
    }
}

/// Where an asynchronous target ends (step 7).
pub extern "C" fn end_here() -> ! {
    // SAFETY: the program asked for it.
    unsafe { pthread_exit(CANCELED) }
}

/// Whether a canceller uses the structure of a thread.
pub fn is_used(thread: &Thread) -> bool {
    thread.cancel.load(Ordering::SeqCst) >= USER
}

/// Waits until no canceller uses the structure of a thread that has ended.
pub fn until_unused(thread: &Thread) {
    if !is_used(thread) {
        return;
    }
    let mut bits = thread.cancel.fetch_or(AWAITED, Ordering::SeqCst) | AWAITED;
    while bits >= USER {
        lock::wait(&thread.cancel, bits, sys::TIME_INFINITE);
        bits = thread.cancel.load(Ordering::SeqCst);
    }
}

/// The bits of a target that its canceller uses.
///
/// # Safety
/// Between steps 1 and [`release`].
unsafe fn of<'a>(thread: *mut Thread) -> &'a AtomicU32 {
    // SAFETY: as the caller says.
    unsafe { &(*thread).cancel }
}

/// Ends the use of a target's structure.
unsafe fn release(thread: *mut Thread) {
    // SAFETY: a target in use. Behind the subtraction, only the address of the word is used: a thread that sleeps there
    // for another reason checks its own condition.
    unsafe {
        let word = of(thread).as_ptr();
        let before = of(thread).fetch_sub(USER, Ordering::SeqCst);
        if before & AWAITED != 0 {
            zx::sys::zx_futex_wake(word.cast(), u32::MAX);
        }
    }
}

/// What an attempt has done.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Attempt {
    /// Nothing is left to do for the canceller.
    Done,
    /// The target runs: soon it is somewhere else.
    Running,
    /// The target waits in a library.
    Waiting,
}

fn read(thread: Handle) -> Option<zx_thread_state_general_regs_t> {
    let mut registers = zx_thread_state_general_regs_t::default();
    let (place, size) = ((&raw mut registers).cast(), size_of_val(&registers));
    // SAFETY: there is room for the registers.
    (unsafe { sys::zx_thread_read_state(thread, sys::THREAD_GENERAL, place, size) } == sys::OK).then_some(registers)
}

/// It fails for a thread that is in an exception which a call has raised, and so is in no wait.
///
/// # Safety
/// The thread can continue with these registers.
unsafe fn write(thread: Handle, registers: &zx_thread_state_general_regs_t) -> Attempt {
    let (place, size) = ((&raw const *registers).cast(), size_of_val(registers));
    // SAFETY: valid registers; the rest is as the caller says.
    match unsafe { sys::zx_thread_write_state(thread, sys::THREAD_GENERAL, place, size) } {
        sys::OK => Attempt::Done,
        _ => Attempt::Waiting,
    }
}

/// What the bits of a target say, and its window; `None` if its registers must tell.
fn by_bits(bits: u32, window: usize) -> Option<Attempt> {
    let asynchronous = bits & ASYNCHRONOUS != 0;
    match bits & NOT_NOW {
        0 if asynchronous || window != 0 => None,
        BUSY if asynchronous => Some(Attempt::Waiting),
        _ => Some(Attempt::Done),
    }
}

/// Steps 4, 5 and 7.
unsafe fn attempt(thread: *mut Thread) -> Attempt {
    // SAFETY: a target in use.
    let (handle, target) = unsafe { ((*thread).handle.load(Ordering::Relaxed), &*thread) };
    let state = || by_bits(target.cancel.load(Ordering::SeqCst), target.window.load(Ordering::SeqCst));
    if let Some(known) = state() {
        return known;
    }
    let _alone = SUSPENDING.lock();
    let mut token = sys::HANDLE_INVALID;
    // SAFETY: there is room for the result.
    match unsafe { sys::zx_task_suspend(handle, &mut token) } {
        sys::OK => {}
        // It has ended.
        sys::ERR_BAD_STATE => return Attempt::Done,
        // There is no memory, or a quota is used up.
        _ => return Attempt::Running,
    }
    // Before it was suspended, it could still run.
    let done = state().unwrap_or_else(|| {
        // SAFETY: the target is suspended.
        read(handle).map_or(Attempt::Waiting, |registers| unsafe { divert(target, handle, registers) })
    });
    // SAFETY: the token is this function's own.
    unsafe { sys::zx_handle_close(token) };
    done
}

/// Steps 5 and 7 for a suspended target.
unsafe fn divert(target: &Thread, handle: Handle, mut registers: zx_thread_state_general_regs_t) -> Attempt {
    let window = target.window.load(Ordering::SeqCst);
    if window != 0 {
        match arch::progress_of_wait(&registers) {
            Progress::Before => {
                arch::end_wait(&mut registers, window);
                // SAFETY: what step 6 expects.
                return unsafe { write(handle, &registers) };
            }
            Progress::Between => return Attempt::Running,
            Progress::After => {}
        }
    }
    if target.cancel.load(Ordering::SeqCst) & ASYNCHRONOUS == 0 {
        return Attempt::Done;
    }
    match loader::system_at(arch::place(&registers)) {
        System::Vdso if arch::is_in_call(&registers) => Attempt::Waiting,
        System::Vdso | System::Library => Attempt::Running,
        System::Not => {
            arch::call_instead(&mut registers);
            // SAFETY: the thread ends there.
            unsafe { write(handle, &registers) }
        }
    }
}

/// Tries up to so many times; returns whether nothing is left to do.
unsafe fn attempts(thread: *mut Thread, tries: u32, while_waiting: bool) -> bool {
    for _ in 0..tries {
        // SAFETY: a target in use.
        match unsafe { attempt(thread) } {
            Attempt::Done => return true,
            Attempt::Waiting if !while_waiting => return false,
            // SAFETY: no pointers.
            _ => unsafe { sys::zx_nanosleep(sys::zx_clock_get_monotonic() + BETWEEN) },
        };
    }
    false
}

/// The thread that continues for a canceller, as a user of the target's structure (step 7).
extern "C" fn helper(argument: *mut c_void) -> *mut c_void {
    let thread = argument.cast::<Thread>();
    let mut pause = BETWEEN;
    // SAFETY: a target in use; the wait has no results.
    unsafe {
        let handle = (*thread).handle.load(Ordering::Relaxed);
        loop {
            let longest = match attempt(thread) {
                Attempt::Done => break,
                Attempt::Running => BETWEEN_RUNNING,
                Attempt::Waiting => BETWEEN_WAITING,
            };
            pause = pause.min(longest);
            let until = sys::zx_clock_get_monotonic() + pause;
            pause *= 2;
            if sys::zx_object_wait_one(handle, sys::TASK_TERMINATED, until, null_mut()) == sys::OK {
                break;
            }
        }
        of(thread).fetch_and(!HELPED, Ordering::SeqCst);
        release(thread);
    }
    null_mut()
}

/// Starts a helper, which becomes a user of the target's structure in place of the caller. Returns whether it did.
unsafe fn start_helper(thread: *mut Thread) -> bool {
    let mut attributes = Attributes::default();
    attributes.detached = 1;
    let mut helps = null_mut();
    let start = Start::Posix(helper);
    // SAFETY: the result has room; the argument lives until the helper releases it.
    unsafe { create::create(&mut helps, &attributes, start, thread.cast(), c"pthread_cancel".as_ptr().cast()) == 0 }
}

/// Asks for the end of a thread. `EAGAIN` if it cannot be reached for want of memory: it then ends at its next
/// cancellation point, or the program tries again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cancel(thread: *mut Thread) -> i32 {
    if thread.is_null() {
        return ESRCH;
    }
    // SAFETY: a thread that has not been joined, by contract. From here it is in use until its release.
    unsafe {
        let begin = |bits| Some((bits | PENDING) + USER);
        // Step 1. It cannot fail.
        let before = of(thread).fetch_update(Ordering::SeqCst, Ordering::SeqCst, begin).unwrap_or_default();
        let mut result = 0;
        if thread != current()
            && !attempts(thread, TRIES, false)
            && of(thread).fetch_or(HELPED, Ordering::SeqCst) & HELPED == 0
        {
            if start_helper(thread) {
                return 0;
            }
            of(thread).fetch_and(!HELPED, Ordering::SeqCst);
            if !attempts(thread, TRIES_ALONE, true) {
                result = EAGAIN;
            }
        }
        release(thread);
        if thread == current() && before & ASYNCHRONOUS != 0 {
            pthread_testcancel();
        }
        result
    }
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

/// For code that holds what it would not give back: no cancellation until [`__cancel_on`]. Returns what that function
/// expects.
#[unsafe(no_mangle)]
extern "C" fn __cancel_off() -> u32 {
    set(BUSY, true) & BUSY
}

#[unsafe(no_mangle)]
extern "C" fn __cancel_on(before: u32) {
    set(BUSY, before != 0);
}
