//! Ends a process: `exit`, which runs all registered functions, `_exit`, and `abort`.

use crate::lock::{Lock, RawLock};
use crate::{c, loader, sys, thread};
use alloc::vec::Vec;
use core::arch::asm;
use core::ffi::c_void;
use core::sync::atomic::{AtomicPtr, Ordering};

/// A function to call at exit, with the module that it belongs to.
struct AtExit {
    function: unsafe extern "C" fn(*mut c_void),
    argument: *mut c_void,
    module: *mut c_void,
}

// SAFETY: only the function uses the argument, and the code that registers the function must allow any thread to call
// it.
unsafe impl Send for AtExit {}

static REGISTERED: Lock<Vec<AtExit>> = Lock::new(Vec::new());
/// Taken by the first thread that exits, and never released: other threads wait until the process ends.
static EXITING: RawLock = RawLock::new();
/// The exiting thread, so that a registered function that calls `exit` again does not deadlock.
static EXITER: AtomicPtr<thread::Thread> = AtomicPtr::new(core::ptr::null_mut());

/// Registers a destructor, for example of a C++ object; `module` is its `__dso_handle`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cxa_atexit(
    function: unsafe extern "C" fn(*mut c_void),
    argument: *mut c_void,
    module: *mut c_void,
) -> i32 {
    let mut registered = REGISTERED.lock();
    if registered.try_reserve(1).is_err() {
        return -1;
    }
    registered.push(AtExit { function, argument, module });
    0
}

/// Calls the function that `argument` points to; `atexit` registers this wrapper.
unsafe extern "C" fn call_plain(argument: *mut c_void) {
    // SAFETY: `atexit` passes a function of this type.
    unsafe { core::mem::transmute::<*mut c_void, extern "C" fn()>(argument)() }
}

/// Registers a function to call at exit, in reverse order of registration.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atexit(function: extern "C" fn()) -> i32 {
    // SAFETY: the wrapper interprets the argument correctly.
    unsafe { __cxa_atexit(call_plain, function as *mut c_void, core::ptr::null_mut()) }
}

/// Runs the functions registered for `module` (null: all), in reverse order of registration.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cxa_finalize(module: *mut c_void) {
    loop {
        // One at a time, because a function can register more.
        let next = {
            let mut registered = REGISTERED.lock();
            let index = registered.iter().rposition(|entry| module.is_null() || entry.module == module);
            index.map(|index| registered.remove(index))
        };
        let Some(entry) = next else { return };
        // SAFETY: the function was registered with this argument.
        unsafe { (entry.function)(entry.argument) };
    }
}

/// Ends the process in order: runs the calling thread's destructors, the registered functions and the finalisers of the
/// libraries, flushes open streams, and finalises libfdio.
#[unsafe(no_mangle)]
pub extern "C" fn exit(code: i32) -> ! {
    // What runs from here may be a cancellation point, and other threads wait for the end of the process.
    thread::cancel::never();
    if EXITER.load(Ordering::Relaxed) == thread::current() {
        _exit(code)
    }
    thread::run_destructors();
    EXITING.lock();
    EXITER.store(thread::current(), Ordering::Relaxed);
    // SAFETY: null means all modules.
    unsafe { __cxa_finalize(core::ptr::null_mut()) };
    loader::finalise();
    // SAFETY: flushes the streams; waits for a stream that another thread has locked.
    unsafe { c::__stdio_exit() };
    if let Some(fini) = loader::find_global(b"__libc_extensions_fini") {
        // SAFETY: libfdio's function takes no arguments.
        unsafe { core::mem::transmute::<usize, extern "C" fn()>(fini)() };
    }
    _exit(code)
}

/// Ends the process at once.
#[unsafe(no_mangle)]
pub extern "C" fn _exit(code: i32) -> ! {
    // SAFETY: ends the process.
    unsafe { sys::zx_process_exit(i64::from(code)) }
}

/// Ends the process at once.
#[unsafe(no_mangle)]
pub extern "C" fn _Exit(code: i32) -> ! {
    _exit(code)
}

/// Ends the process as a crash, with an undefined instruction, so that the kernel reports the address. The return code
/// is that of an unhandled exception. (`std` has written the reason before.)
#[unsafe(no_mangle)]
pub extern "C" fn abort() -> ! {
    crate::signal::before_abort();
    crash()
}

/// Ends a process that cannot continue, by an exception.
pub fn crash() -> ! {
    // SAFETY: raises an exception and does not return.
    unsafe { asm!("ud2", options(noreturn)) }
}

/// Called if a stack buffer was overrun.
#[unsafe(no_mangle)]
pub extern "C" fn __stack_chk_fail() -> ! {
    crate::fatal::report(format_args!("stack smashing detected"));
    abort()
}
