//! Threads: what each has, how they start, end and wait for each other.
//!
//! A thread's memory is one [`block`]: stacks, thread-local variables and the [`Thread`] structure, to which the FS
//! register points. The first four words of that structure are the ABI that compilers know (own address, stack
//! protector's guard, unsafe stack pointer); the rest is the library's.

mod attr;
mod barrier;
mod block;
mod c11;
mod cond;
mod create;
mod keys;
mod mutex;
mod once;
mod rwlock;

pub use attr::STACK_MIN;
pub use create::{init_main, run_destructors};
pub use keys::KEYS;

use crate::sys::{self, Handle};
use block::Block;
use core::arch::asm;
use core::cell::{Cell, UnsafeCell};
use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, Ordering};

/// A thread, at its thread pointer.
#[repr(C)]
pub struct Thread {
    /// Its own address: how code finds the thread pointer's value.
    pub this: *mut Thread,
    pub reserved: usize,
    /// What stack protectors compare with.
    pub guard: usize,
    /// The top of the unsafe stack (code built with SafeStack, as this target's C is).
    pub unsafe_stack: usize,
    pub errno: Cell<i32>,
    handle: AtomicU32,
    /// What the C half keeps by thread (`../c/internal/pthread_impl.h`): a number for locks of streams, the error of the last
    /// look-up of a host, the locale, the streams that are locked, what runs when it ends.
    number: u32,
    h_errno: i32,
    locale: *mut c_void,
    locked_streams: *mut c_void,
    cleanup_handlers: *mut c_void,
    /// Who frees the block: see [`create`].
    state: AtomicU32,
    start: Start,
    argument: *mut c_void,
    result: *mut c_void,
    block: Block,
    /// The process that it makes threads in: 0 for the one that the program was started in. See `thrd_set_zx_process`.
    process: Cell<u32>,
    /// The next in the list of ended detached threads.
    next_dead: *mut Thread,
    keys: keys::Values,
    /// Destructors of thread-locals, last registered first.
    destructors: UnsafeCell<alloc::vec::Vec<Destructor>>,
}

/// What a thread is to run. The two standards differ in what it gives.
#[derive(Clone, Copy)]
enum Start {
    /// The main thread was not started by this library.
    Nothing,
    Posix(extern "C" fn(*mut c_void) -> *mut c_void),
    C11(extern "C" fn(*mut c_void) -> i32),
}

/// What `__cxa_thread_atexit_impl` was given.
#[derive(Clone, Copy)]
struct Destructor {
    function: unsafe extern "C" fn(*mut c_void),
    argument: *mut c_void,
}

/// The calling thread.
pub fn current() -> *mut Thread {
    let this: *mut Thread;
    // SAFETY: FS points to the structure in every thread that runs C code, and its first word is its address.
    unsafe { asm!("mov {}, fs:0", out(reg) this, options(pure, readonly, nostack, preserves_flags)) };
    this
}

/// Where the calling thread's `errno` is.
pub fn errno_place() -> *mut i32 {
    // SAFETY: the calling thread lives.
    unsafe { (*current()).errno.as_ptr() }
}

/// The calling thread's handle, which stays the library's.
pub fn current_handle() -> Handle {
    // SAFETY: the calling thread lives.
    unsafe { (*current()).handle.load(Ordering::Relaxed) }
}

/// Where the calling thread's thread-local variables end (and its structure begins).
pub fn pointer() -> usize {
    current() as usize
}

/// Lets another thread run.
#[unsafe(no_mangle)]
pub extern "C" fn sched_yield() -> i32 {
    // SAFETY: no pointers.
    unsafe { sys::zx_thread_legacy_yield(0) };
    0
}
