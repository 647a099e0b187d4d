//! The `malloc` family: dlmalloc over memory objects mapped in the root address region.
//!
//! The allocator asks for segments of at least [`SEGMENT`] bytes, growing with the heap so that a large program makes few
//! system calls; pages are committed by the system when they are first touched, so that a large segment costs address
//! space only. One lock guards everything.

use crate::errno::{self, EINVAL, ENOMEM};
use crate::lock::Lock;
use crate::{sys, system};
use core::alloc::{GlobalAlloc, Layout};
use core::ffi::c_void;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicUsize, Ordering};
use dlmalloc::{Allocator, Dlmalloc};

/// The smallest piece taken from the system.
const SEGMENT: usize = 256 * 1024;
/// The largest piece taken in advance of need.
const MOST_AHEAD: usize = 4 * 1024 * 1024;
/// What `malloc` aligns to.
const MALLOC_ALIGN: usize = 16;

static HEAP: Lock<Dlmalloc<Segments>> = Lock::new(Dlmalloc::new_with_allocator(Segments));
/// Bytes taken from the system.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// Whether a thread is inside the allocator now: then nothing that allocates may be done on its behalf.
pub fn is_busy() -> bool {
    HEAP.is_held()
}

/// Where dlmalloc gets its segments.
struct Segments;

// SAFETY: segments are fresh mappings of zeroed memory, not used by anybody else.
unsafe impl Allocator for Segments {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        // Pages are committed when they are touched, so any size could be mapped; but what the machine could never fill
        // is an error that the caller can see, not a process that ends later.
        // SAFETY: a call without arguments.
        if size as u64 > unsafe { sys::zx_system_get_physmem() } {
            return (null_mut(), 0, 0);
        }
        let ahead = (TAKEN.load(Ordering::Relaxed) / 4).clamp(SEGMENT, MOST_AHEAD);
        let Some(size) = size.max(ahead).checked_next_multiple_of(sys::PAGE_SIZE) else { return (null_mut(), 0, 0) };
        match system::map_memory(size, c"heap") {
            Ok(address) => {
                TAKEN.fetch_add(size, Ordering::Relaxed);
                (address as *mut u8, size, 0)
            }
            Err(_) => (null_mut(), 0, 0),
        }
    }

    fn remap(&self, _: *mut u8, _: usize, _: usize, _: bool) -> *mut u8 {
        null_mut()
    }

    fn free_part(&self, _: *mut u8, _: usize, _: usize) -> bool {
        // Unmapping a part would not give its pages back: they belong to the whole memory object.
        false
    }

    fn free(&self, ptr: *mut u8, size: usize) -> bool {
        let done = system::unmap(ptr as usize, size) == sys::OK;
        if done {
            TAKEN.fetch_sub(size, Ordering::Relaxed);
        }
        done
    }

    fn can_release_part(&self, _: u32) -> bool {
        false
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        sys::PAGE_SIZE
    }
}

/// The size of the block at `ptr` that its owner may use, from the header that dlmalloc keeps before it.
unsafe fn usable(ptr: *mut c_void) -> usize {
    // SAFETY: a block of this heap, as the caller says.
    let head = unsafe { ptr.cast::<usize>().sub(1).read() };
    // The low three bits are flags; the block's own header takes one word.
    (head & !7) - size_of::<usize>()
}

fn done<T>(ptr: *mut T) -> *mut c_void {
    if ptr.is_null() {
        errno::set(ENOMEM);
    }
    ptr.cast()
}

/// A block of `size` bytes, aligned to 16; null with ENOMEM when there is no memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
    // SAFETY: the heap is ours.
    done(unsafe { HEAP.lock().c_malloc(size.max(1)) })
}

/// A zeroed block of `count` times `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    let Some(size) = count.checked_mul(size) else { return done(null_mut::<u8>()) };
    // SAFETY: the heap is ours.
    done(unsafe { HEAP.lock().calloc(size.max(1), MALLOC_ALIGN) })
}

/// The block moved to, or grown or shrunk in, `size` bytes; on failure it stays as it was.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(ptr: *mut c_void, size: usize) -> *mut c_void {
    if ptr.is_null() {
        // SAFETY: as `malloc`.
        return unsafe { malloc(size) };
    }
    // SAFETY: a block of this heap, as C demands.
    unsafe { done(HEAP.lock().c_realloc(ptr.cast(), size.max(1))) }
}

/// `realloc` of `count` times `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(ptr: *mut c_void, count: usize, size: usize) -> *mut c_void {
    match count.checked_mul(size) {
        // SAFETY: as `realloc`.
        Some(size) => unsafe { realloc(ptr, size) },
        None => done(null_mut::<u8>()),
    }
}

/// Gives a block back; null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(ptr: *mut c_void) {
    if !ptr.is_null() {
        // SAFETY: a block of this heap, as C demands.
        unsafe { HEAP.lock().c_free(ptr.cast()) };
    }
}

/// A block aligned to `align` (a power of two, at least a pointer's size), stored in `out`. Gives an error number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(out: *mut *mut c_void, align: usize, size: usize) -> i32 {
    if !align.is_power_of_two() || align < size_of::<usize>() {
        return EINVAL;
    }
    // SAFETY: the heap is ours; `out` is the caller's.
    unsafe {
        let ptr = HEAP.lock().c_memalign(align.max(MALLOC_ALIGN), size.max(1));
        if ptr.is_null() {
            return ENOMEM;
        }
        *out = ptr.cast();
    }
    0
}

/// A block aligned to `align`, a power of two.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    if !align.is_power_of_two() {
        errno::set(EINVAL);
        return null_mut();
    }
    // SAFETY: the heap is ours.
    done(unsafe { HEAP.lock().c_memalign(align.max(MALLOC_ALIGN), size.max(1)) })
}

/// The older name of [`aligned_alloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
    // SAFETY: the same contract.
    unsafe { aligned_alloc(align, size) }
}

/// Bytes of the block that may be used: at least those asked for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(ptr: *mut c_void) -> usize {
    // SAFETY: a block of this heap, as the function's contract demands.
    if ptr.is_null() { 0 } else { unsafe { usable(ptr) } }
}

/// The same heap for this library's own collections.
struct Own;

// SAFETY: dlmalloc keeps the contract; `dealloc` gets what `alloc` gave.
unsafe impl GlobalAlloc for Own {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the heap is ours.
        unsafe { HEAP.lock().c_memalign(layout.align().max(MALLOC_ALIGN), layout.size()) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, _: Layout) {
        // SAFETY: from `alloc`.
        unsafe { HEAP.lock().c_free(ptr) }
    }
}

#[global_allocator]
static OWN: Own = Own;
