//! Threads: their state, their creation and end, and synchronisation.
//!
//! A thread's memory is one [`block`]: stacks, thread-local variables and the [`Thread`] structure, to which the FS
//! register points. The first four words of that structure are an ABI that compilers use (own address, reserved, stack
//! guard, unsafe stack pointer); the rest is private to the library.

mod attr;
mod barrier;
mod block;
mod c11;
pub mod cancel;
mod cond;
mod create;
mod keys;
mod mutex;
mod once;
mod rwlock;

pub use attr::STACK_MIN;
pub use create::{init_main, pthread_exit, run, run_destructors, service};
pub use keys::KEYS;

use crate::sys::{self, Handle};
use block::Block;
use core::arch::asm;
use core::cell::{Cell, UnsafeCell};
use core::ffi::c_void;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// A thread, at its thread pointer.
#[repr(C)]
pub struct Thread {
    /// Its own address; code reads the thread pointer's value from here.
    pub this: *mut Thread,
    pub reserved: usize,
    /// Guard value of stack protectors.
    pub guard: usize,
    /// The unsafe stack pointer (for code built with SafeStack, like this target's C).
    pub unsafe_stack: usize,
    pub errno: Cell<i32>,
    handle: AtomicU32,
    /// The C half's per-thread state (`../c/internal/pthread_impl.h`): number for the locks of streams, error of the
    /// last host look-up, locale, locked streams, clean-up handlers.
    number: u32,
    h_errno: i32,
    locale: *mut c_void,
    locked_streams: *mut c_void,
    cleanup_handlers: *mut c_void,
    /// Bits of [`cancel`].
    cancel: AtomicU32,
    /// The stack pointer with which a wait returns early; 0 outside of waits that can be cancelled.
    window: AtomicUsize,
    /// Determines which thread frees the block: see [`create`].
    state: AtomicU32,
    start: Start,
    argument: *mut c_void,
    result: *mut c_void,
    block: Block,
    /// The process in which it creates threads; 0 for the one in which the program started. See `thrd_set_zx_process`.
    process: Cell<u32>,
    /// The next in the list of ended detached threads.
    next_dead: *mut Thread,
    keys: keys::Values,
    /// Destructors of thread-locals; the last registered runs first.
    destructors: UnsafeCell<alloc::vec::Vec<Destructor>>,
}

/// Where a thread's bits of cancellation and its window are, from its thread pointer.
pub const CANCEL: usize = offset_of!(Thread, cancel);
pub const WINDOW: usize = offset_of!(Thread, window);

/// The function that a thread runs. POSIX and C11 differ in its return type.
#[derive(Clone, Copy)]
enum Start {
    /// The main thread: this library did not start it.
    Nothing,
    Posix(extern "C" fn(*mut c_void) -> *mut c_void),
    C11(extern "C" fn(*mut c_void) -> i32),
}

/// A destructor registered by `__cxa_thread_atexit_impl`.
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

/// The address of the calling thread's `errno`.
pub fn errno_place() -> *mut i32 {
    // SAFETY: the calling thread lives.
    unsafe { (*current()).errno.as_ptr() }
}

/// The calling thread's handle. The library keeps ownership.
pub fn current_handle() -> Handle {
    // SAFETY: the calling thread lives.
    unsafe { (*current()).handle.load(Ordering::Relaxed) }
}

/// The thread pointer: the calling thread's thread-local variables end here, and its structure begins.
pub fn pointer() -> usize {
    current() as usize
}

/// Yields the processor.
#[unsafe(no_mangle)]
pub extern "C" fn sched_yield() -> i32 {
    // SAFETY: no pointers.
    unsafe { sys::zx_thread_legacy_yield(0) };
    0
}
