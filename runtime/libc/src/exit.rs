//! Ending a process: `exit` with everything that was registered for it, `_exit`, `abort`.

use crate::lock::{Lock, RawLock};
use crate::{c, loader, sys, thread};
use alloc::vec::Vec;
use core::arch::asm;
use core::ffi::c_void;
use core::sync::atomic::{AtomicPtr, Ordering};

/// A function to be called at exit, with the module that it belongs to.
struct AtExit {
    function: unsafe extern "C" fn(*mut c_void),
    argument: *mut c_void,
    module: *mut c_void,
}

// SAFETY: the argument is for the function alone, which whoever registered it made ready to be called by any thread.
unsafe impl Send for AtExit {}

static REGISTERED: Lock<Vec<AtExit>> = Lock::new(Vec::new());
/// Taken by the first thread that exits and never given back: others wait for the end.
static EXITING: RawLock = RawLock::new();
/// That thread, so that a registered function that calls `exit` again does not wait for itself.
static EXITER: AtomicPtr<thread::Thread> = AtomicPtr::new(core::ptr::null_mut());

/// Registers a destructor of a C++ object or the like; `module` is its `__dso_handle`.
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

/// Calls the function that `argument` points to: what `atexit` registers.
unsafe extern "C" fn call_plain(argument: *mut c_void) {
    // SAFETY: `atexit` put a function of this type there.
    unsafe { core::mem::transmute::<*mut c_void, extern "C" fn()>(argument)() }
}

/// Registers a function to be called at exit, last registered first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atexit(function: extern "C" fn()) -> i32 {
    // SAFETY: the wrapper knows what the argument is.
    unsafe { __cxa_atexit(call_plain, function as *mut c_void, core::ptr::null_mut()) }
}

/// Runs what was registered for `module` (null: everything), last first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cxa_finalize(module: *mut c_void) {
    loop {
        // One at a time: a function may register more.
        let next = {
            let mut registered = REGISTERED.lock();
            let index = registered.iter().rposition(|entry| module.is_null() || entry.module == module);
            index.map(|index| registered.remove(index))
        };
        let Some(entry) = next else { return };
        // SAFETY: registered with this argument.
        unsafe { (entry.function)(entry.argument) };
    }
}

/// Ends the process in an orderly way: destructors of the calling thread, registered functions, finalisers of the
/// libraries, open streams, libfdio.
#[unsafe(no_mangle)]
pub extern "C" fn exit(code: i32) -> ! {
    if EXITER.load(Ordering::Relaxed) == thread::current() {
        _exit(code)
    }
    thread::run_destructors();
    EXITING.lock();
    EXITER.store(thread::current(), Ordering::Relaxed);
    // SAFETY: null = everything.
    unsafe { __cxa_finalize(core::ptr::null_mut()) };
    loader::finalise();
    // SAFETY: writes what streams keep; a stream that another thread is in is waited for.
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

/// Ends the process as a crash: an undefined instruction, so that the system reports where, and the return code is that
/// of an unhandled exception. (std has said why before.)
#[unsafe(no_mangle)]
pub extern "C" fn abort() -> ! {
    crate::signal::before_abort();
    crash()
}

/// The end of a process that cannot go on.
pub fn crash() -> ! {
    // SAFETY: raises an exception and does not come back.
    unsafe { asm!("ud2", options(noreturn)) }
}

/// A stack buffer was overrun.
#[unsafe(no_mangle)]
pub extern "C" fn __stack_chk_fail() -> ! {
    crate::fatal::report(format_args!("stack smashing detected"));
    abort()
}
