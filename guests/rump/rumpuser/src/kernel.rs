//! The calls into the kernel, and the rump CPU.

use core::cell::UnsafeCell;
use core::ffi::{c_char, c_int, c_long, c_void};
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::{c, console};

/// The revision of the interface.
const REVISION: c_int = 17;

/// The functions of the kernel that hypercalls may call, in the interface's order.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Upcalls {
    schedule: unsafe extern "C" fn(),
    unschedule: unsafe extern "C" fn(),
    backend_unschedule: unsafe extern "C" fn(c_int, *mut c_int, *mut c_void),
    backend_schedule: unsafe extern "C" fn(c_int, *mut c_void),
    lwproc_switch: *const c_void,
    lwproc_release: *const c_void,
    lwproc_rfork: *const c_void,
    lwproc_newlwp: unsafe extern "C" fn(c_int) -> c_int,
    lwproc_curlwp: *const c_void,
    syscall: *const c_void,
    lwpexit: *const c_void,
    execnotify: unsafe extern "C" fn(*const c_char),
    getpid: *const c_void,
}

struct Cell(UnsafeCell<Option<Upcalls>>);

// SAFETY: written once, by `rumpuser_init`, before the kernel has a second thread; only read after that.
unsafe impl Sync for Cell {}

static UPCALLS: Cell = Cell(UnsafeCell::new(None));
static STARTED: AtomicBool = AtomicBool::new(false);

fn upcalls() -> &'static Upcalls {
    // SAFETY: see `Cell`.
    match unsafe { &*UPCALLS.0.get() } {
        Some(upcalls) => upcalls,
        None => c::die("a hypercall before rumpuser_init"),
    }
}

/// Takes the upcalls of a kernel of this revision.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_init(revision: c_int, upcalls: *const Upcalls) -> c_int {
    if revision != REVISION {
        let mut digits = [0; 20];
        let number = rump_logic::parameter::digits(u64::from(revision.unsigned_abs()), &mut digits);
        let sign = if revision < 0 { "-" } else { "" };
        console::say(&["rumpuser: the kernel has revision ", sign, core::str::from_utf8(number).unwrap_or("?")]);
        console::say(&[" of the hypercalls, and this library has 17: build the kernel from sources with 17\n"]);
        return 1;
    }
    if STARTED.load(Ordering::Relaxed) {
        console::say(&["rumpuser: a process starts one rump kernel, once\n"]);
        return 1;
    }
    if let Err(why) = crate::memory::start() {
        console::say(&["rumpuser: ", why, "\n"]);
        return 1;
    }
    // SAFETY: the caller's structure of this revision; no other thread reads the copy yet, see `Cell`.
    unsafe { *UPCALLS.0.get() = Some(upcalls.read()) };
    STARTED.store(true, Ordering::Relaxed);
    0
}

/// Releases the rump CPU; returns how often the kernel's big lock was held.
pub fn release(interlock: *mut c_void) -> c_int {
    let mut locks = 0;
    // SAFETY: the kernel's function; the thread has a rump CPU.
    unsafe { (upcalls().backend_unschedule)(0, &mut locks, interlock) };
    locks
}

/// Gets a rump CPU again, with the number from [`release`].
pub fn take(locks: c_int, interlock: *mut c_void) {
    // SAFETY: the kernel's function; the thread has no rump CPU.
    unsafe { (upcalls().backend_schedule)(locks, interlock) };
}

/// Does what may wait without the rump CPU.
pub fn outside<T>(wait: impl FnOnce() -> T) -> T {
    let locks = release(ptr::null_mut());
    let result = wait();
    take(locks, ptr::null_mut());
    result
}

/// Makes the calling thread, which is the library's, one of the kernel's threads, without a rump CPU; returns an error
/// of the kernel.
pub fn become_thread() -> c_int {
    let upcalls = upcalls();
    // SAFETY: the kernel's functions, in the order that the interface asks for.
    unsafe {
        (upcalls.schedule)();
        let error = (upcalls.lwproc_newlwp)(0);
        (upcalls.unschedule)();
        error
    }
}

/// The count of the big lock in a thread that does not hold it.
pub const NO_LOCKS: c_int = 0;

const _: () = assert!(size_of::<Upcalls>() == 13 * size_of::<c_long>());
