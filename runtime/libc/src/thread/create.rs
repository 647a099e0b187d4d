//! Creating, ending, joining and detaching threads.
//!
//! A thread's block must not be freed while the thread runs on it, not even for its last instructions. So a thread
//! never frees its own block. Its `state` says which thread does:
//!
//! | state | set by | the block is freed by |
//! |---|---|---|
//! | joinable | creation | no thread yet |
//! | joined | `pthread_join` | the joining thread, after the kernel reports that the thread has ended |
//! | detached | creation or `pthread_detach` | the next thread that starts or ends (an ended thread joins a list) |
//! | done | the end of a joinable thread | a later join or detach |
//! | joined, done | the end of a joined thread | the joining thread |
//!
//! Every change is one compare-and-exchange, so join, detach and the thread's end agree on one order. A join that is
//! cancelled goes back: from "joined" to "joinable", from "joined, done" to "done".

use super::attr::Attributes;
use super::block::Block;
use super::{Destructor, Start, Thread, cancel, current};
use crate::arch::entry;
use crate::errno::{EAGAIN, EDEADLK, EINVAL, ENOMEM, ERANGE, ESRCH};
use crate::{c, sys, system};
use core::ffi::{CStr, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

const JOINABLE: u32 = 0;
const JOINED: u32 = 1;
const DETACHED: u32 = 2;
const DONE: u32 = 3;
const JOINED_DONE: u32 = 4;

/// The main thread's stack size in bytes, unless the program requests more.
const MAIN_STACK: usize = 8 * 1024 * 1024;

/// Minimum stack size in bytes, even if the program requests less: enough for the library itself and some more.
const LEAST_STACK: usize = 16 * 1024;

static GUARD: AtomicUsize = AtomicUsize::new(0);
/// Number of threads that have not ended: those of this library, and the main thread.
static LIVING: AtomicU32 = AtomicU32::new(1);
/// Detached threads that have ended, or are about to; linked by `next_dead`.
static DEAD: AtomicPtr<Thread> = AtomicPtr::new(null_mut());

/// The stack protectors' guard value: random, with a zero byte that stops string functions.
pub fn stack_guard() -> usize {
    let guard = GUARD.load(Ordering::Relaxed);
    if guard != 0 {
        return guard;
    }
    let mut random = 0usize;
    // SAFETY: a valid buffer of this size.
    unsafe { sys::zx_cprng_draw((&raw mut random).cast(), size_of::<usize>()) };
    let random = (random & !0xff) | 1 << 63;
    match GUARD.compare_exchange(0, random, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => random,
        Err(other) => other,
    }
}

/// Allocates the structure and the stacks of the first thread and sets its FS register. `wanted` is the stack size that
/// the program's file requests. Returns the top of the new stack.
pub fn init_main(handle: sys::Handle, wanted: usize) -> Result<usize, sys::Status> {
    let thread = Block::make_thread(wanted.max(MAIN_STACK), sys::PAGE_SIZE)?;
    let pointer = thread as usize;
    // SAFETY: a new thread structure; the property is a word.
    unsafe {
        (*thread).handle.store(handle, Ordering::Relaxed);
        let value = (&raw const pointer).cast();
        system::check(sys::zx_object_set_property(handle, sys::PROP_REGISTER_FS, value, size_of::<usize>()))?;
        Ok((*thread).block.stack_top())
    }
}

impl Thread {
    /// Whether it is detached.
    pub fn is_detached(&self) -> bool {
        self.state.load(Ordering::Relaxed) == DETACHED
    }
}

pub unsafe extern "C" fn run(thread: *mut Thread) -> ! {
    // SAFETY: the structure is this thread's own, and its creator has initialised it.
    unsafe {
        let argument = (*thread).argument;
        let result = match (*thread).start {
            Start::Posix(start) => start(argument),
            Start::C11(start) => start(argument) as usize as *mut c_void,
            Start::Nothing => null_mut(),
        };
        pthread_exit(result)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    out: *mut *mut Thread,
    attr: *const Attributes,
    start: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> i32 {
    let default = Attributes::default();
    // SAFETY: null or the caller's initialised attributes; `out` has room for the result, by contract.
    let made = unsafe {
        let attr = attr.as_ref().unwrap_or(&default);
        create(out, attr, Start::Posix(start), argument, attr.name.cast())
    };
    // POSIX has one error for every lack of resources.
    if made == ENOMEM { EAGAIN } else { made }
}

/// Creates a thread and starts it; returns an error number. The name is null or a C string.
pub unsafe fn create(
    out: *mut *mut Thread,
    attr: &Attributes,
    start: Start,
    argument: *mut c_void,
    name: *const u8,
) -> i32 {
    let error = |status| if status == sys::ERR_NO_MEMORY { ENOMEM } else { EAGAIN };
    reap();
    // SAFETY: only enables the locks of streams that had none.
    unsafe { c::__c_threads_begin() };
    let thread = match Block::make_thread(attr.stack_size.max(LEAST_STACK), attr.guard_size) {
        Ok(thread) => thread,
        Err(status) => return error(status),
    };
    let mut handle = sys::HANDLE_INVALID;
    // SAFETY: a new structure that only this thread knows until the new thread starts.
    unsafe {
        let block = (*thread).block;
        let name = if name.is_null() { c"pthread".as_ptr().cast() } else { name };
        let len = crate::arch::strlen(name);
        let process = (*current()).process.get();
        let status = sys::zx_thread_create(thrd_get_zx_process(), name, len, 0, &mut handle);
        if status != sys::OK {
            block.free();
            return error(status);
        }
        (*thread).handle.store(handle, Ordering::Relaxed);
        (*thread).state.store(if attr.detached != 0 { DETACHED } else { JOINABLE }, Ordering::Relaxed);
        (*thread).start = start;
        (*thread).argument = argument;
        (*thread).process.set(process);
        // Store the result before the thread runs, because it may end and be joined at once.
        *out = thread;
        LIVING.fetch_add(1, Ordering::Relaxed);
        let entry = entry as *const () as usize;
        let stack = block.stack_top() - 8;
        let status = sys::zx_thread_start_regs(handle, entry, stack, thread as usize, 0, thread as usize, 0);
        if status != sys::OK {
            LIVING.fetch_sub(1, Ordering::Relaxed);
            sys::zx_handle_close(handle);
            block.free();
            return error(status);
        }
    }
    0
}

/// Creates a thread of this library, which never ends. The process ends without it.
pub fn service(start: extern "C" fn(*mut c_void) -> *mut c_void, argument: *mut c_void, name: &CStr) -> bool {
    let mut attributes = Attributes::default();
    attributes.detached = 1;
    let mut out = null_mut();
    // SAFETY: the result has room, and the name is a C string; the caller's argument is what `start` expects.
    let made = unsafe { create(&mut out, &attributes, Start::Posix(start), argument, name.as_ptr().cast()) == 0 };
    if made {
        LIVING.fetch_sub(1, Ordering::AcqRel);
    }
    made
}

/// Frees the memory of detached threads that have ended.
fn reap() {
    let mut dead = DEAD.swap(null_mut(), Ordering::Acquire);
    while !dead.is_null() {
        // SAFETY: the thread is on the list, so its structure lives until this function frees it or puts it back.
        unsafe {
            let next = (*dead).next_dead;
            let handle = (*dead).handle.load(Ordering::Relaxed);
            // The thread may still be between joining the list and its exit in the kernel, or in use by a canceller.
            match sys::zx_object_wait_one(handle, sys::TASK_TERMINATED, 0, null_mut()) {
                sys::OK if !cancel::is_used(&*dead) => free(dead),
                _ => bury(dead),
            }
            dead = next;
        }
    }
}

/// Puts a thread that has ended or is about to on the list.
unsafe fn bury(thread: *mut Thread) {
    let mut head = DEAD.load(Ordering::Relaxed);
    loop {
        // SAFETY: nothing else uses this field now.
        unsafe { (*thread).next_dead = head };
        match DEAD.compare_exchange_weak(head, thread, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return,
            Err(other) => head = other,
        }
    }
}

/// Frees an ended thread's memory and handle, which another thread's `pthread_cancel` may still use.
unsafe fn free(thread: *mut Thread) {
    // SAFETY: the kernel has reported that it has ended; nothing else frees it, as `state` says.
    unsafe {
        cancel::until_unused(&*thread);
        sys::zx_handle_close((*thread).handle.load(Ordering::Relaxed));
        (*thread).block.free();
    }
}

/// Waits until the kernel reports that the thread has ended: only then can its stack be freed.
unsafe fn wait(thread: *mut Thread) {
    // SAFETY: nothing else frees the structure, as `state` says.
    unsafe {
        let handle = (*thread).handle.load(Ordering::Relaxed);
        sys::when_there_is_memory(|| {
            sys::zx_object_wait_one(handle, sys::TASK_TERMINATED, sys::TIME_INFINITE, null_mut())
        });
    }
}

/// Waits until the thread has ended, then frees it.
unsafe fn wait_and_free(thread: *mut Thread) {
    // SAFETY: as for `free`.
    unsafe {
        wait(thread);
        free(thread);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_join(thread: *mut Thread, result: *mut *mut c_void) -> i32 {
    if thread.is_null() {
        return ESRCH;
    }
    if thread == current() {
        return EDEADLK;
    }
    cancel::pthread_testcancel();
    // SAFETY: a thread that has not been joined or detached lives, by contract.
    unsafe {
        let state = &(*thread).state;
        let from = |from| state.compare_exchange(from, JOINED, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        let handle = (*thread).handle.load(Ordering::Relaxed) as usize;
        let ended = [handle, sys::TASK_TERMINATED as usize, sys::TIME_INFINITE as usize, 0];
        let back = |from, to| state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        loop {
            if !from(JOINABLE) && !from(DONE) {
                return EINVAL;
            }
            if cancel::wait(sys::zx_object_wait_one as *const () as usize, ended) != sys::ERR_CANCELED {
                break;
            }
            if !back(JOINED, JOINABLE) {
                back(JOINED_DONE, DONE);
            }
            cancel::pthread_testcancel();
        }
        if !result.is_null() {
            *result = (*thread).result;
        }
        free(thread);
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_detach(thread: *mut Thread) -> i32 {
    if thread.is_null() {
        return ESRCH;
    }
    // SAFETY: a thread that has not been joined or detached lives, by contract.
    unsafe {
        let state = &(*thread).state;
        if state.compare_exchange(JOINABLE, DETACHED, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return 0;
        }
        if state.compare_exchange(DONE, JOINED, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            wait_and_free(thread);
            return 0;
        }
    }
    EINVAL
}

/// Runs the destructors of the calling thread's thread-locals and keys.
pub fn run_destructors() {
    // SAFETY: the calling thread's own; a destructor can register more, so nothing is borrowed during the call.
    unsafe {
        let thread = current();
        while let Some(next) = (*(*thread).destructors.get()).pop() {
            (next.function)(next.argument);
        }
        (*thread).keys.destroy();
        // Destructors of keys may have used thread-locals.
        while let Some(next) = (*(*thread).destructors.get()).pop() {
            (next.function)(next.argument);
        }
        drop(core::mem::take(&mut *(*thread).destructors.get()));
    }
}

/// Registers a destructor for a thread-local of the calling thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cxa_thread_atexit_impl(
    function: unsafe extern "C" fn(*mut c_void),
    argument: *mut c_void,
    _module: *mut c_void,
) -> i32 {
    // SAFETY: the calling thread's own.
    let list = unsafe { &mut *(*current()).destructors.get() };
    if list.try_reserve(1).is_err() {
        return -1;
    }
    list.push(Destructor { function, argument });
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_exit(result: *mut c_void) -> ! {
    cancel::never();
    // SAFETY: the calling thread's own handlers.
    unsafe { c::__c_thread_cleanup() };
    run_destructors();
    // SAFETY: the calling thread's own streams.
    unsafe { c::__do_orphaned_stdio_locks() };
    if LIVING.fetch_sub(1, Ordering::AcqRel) == 1 {
        // The process ends with its last thread, through `exit`.
        crate::exit::exit(0)
    }
    // Free the memory of earlier detached threads now, so that only the last one's remains after many have ended.
    reap();
    // SAFETY: the calling thread's own structure, which lives until the kernel reports that the thread has ended.
    unsafe {
        let thread = current();
        (*thread).result = result;
        let state = &(*thread).state;
        let to = |from, to| state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
        // A join that is cancelled between the two makes it joinable again.
        while to(JOINABLE, DONE).is_err() && to(JOINED, JOINED_DONE).is_err() {
            if state.load(Ordering::Acquire) == DETACHED {
                bury(thread);
                break;
            }
        }
        sys::zx_thread_exit()
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn pthread_self() -> *mut Thread {
    current()
}

#[unsafe(no_mangle)]
pub extern "C" fn pthread_equal(left: *mut Thread, right: *mut Thread) -> i32 {
    i32::from(left == right)
}

/// Registers handlers for `fork`. There is no `fork`, so they never run.
#[unsafe(no_mangle)]
pub extern "C" fn pthread_atfork(
    _prepare: Option<extern "C" fn()>,
    _parent: Option<extern "C" fn()>,
    _child: Option<extern "C" fn()>,
) -> i32 {
    0
}

/// The Zircon handle of a thread. The library keeps ownership.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thrd_get_zx_handle(thread: *mut Thread) -> sys::Handle {
    // SAFETY: a living thread, as the contract says.
    unsafe { (*thread).handle.load(Ordering::Relaxed) }
}

/// The same, under its POSIX name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_get_zx_handle(thread: *mut Thread) -> sys::Handle {
    // SAFETY: as above.
    unsafe { thrd_get_zx_handle(thread) }
}

/// The process in which the calling thread creates threads.
#[unsafe(no_mangle)]
pub extern "C" fn thrd_get_zx_process() -> sys::Handle {
    // SAFETY: this thread's own structure.
    match unsafe { (*current()).process.get() } {
        sys::HANDLE_INVALID => system::zx_process_self(),
        process => process,
    }
}

/// Makes the calling thread, and the threads that it creates, create threads in another process from now on. That
/// process shares its address space with this one (`zx_process_create_shared`). The caller keeps ownership of the
/// handle. Returns the previous process.
#[unsafe(no_mangle)]
pub extern "C" fn thrd_set_zx_process(process: sys::Handle) -> sys::Handle {
    let before = thrd_get_zx_process();
    // SAFETY: as above.
    unsafe { (*current()).process.set(process) };
    before
}

/// Sets the name of a thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_setname_np(thread: *mut Thread, name: *const u8) -> i32 {
    // SAFETY: a living thread and a C string, by contract.
    unsafe {
        let len = crate::arch::strlen(name);
        let status = sys::zx_object_set_property(thrd_get_zx_handle(thread), sys::PROP_NAME, name.cast(), len);
        crate::errno::from_status(status)
    }
}

/// The name of a thread, as a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_getname_np(thread: *mut Thread, name: *mut u8, size: usize) -> i32 {
    let mut full = [0u8; sys::MAX_NAME_LEN];
    // SAFETY: a living thread and a buffer of this size, by contract.
    unsafe {
        let handle = thrd_get_zx_handle(thread);
        let status = sys::zx_object_get_property(handle, sys::PROP_NAME, full.as_mut_ptr().cast(), full.len());
        if status != sys::OK {
            return crate::errno::from_status(status);
        }
        let len = full.iter().position(|&byte| byte == 0).unwrap_or(full.len() - 1);
        if size <= len {
            return ERANGE;
        }
        core::ptr::copy_nonoverlapping(full.as_ptr(), name, len);
        name.add(len).write(0);
    }
    0
}
