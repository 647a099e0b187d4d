//! The `malloc` family: dlmalloc on top of VMOs mapped in the root VMAR.
//!
//! The allocator requests segments of at least [`SEGMENT`] bytes, which grow with the heap, so that a large program
//! makes few system calls. The kernel commits pages when they are first touched, so a large segment costs only address
//! space. One lock guards everything.

use crate::errno::{self, EINVAL, ENOMEM};
use crate::lock::Lock;
use crate::{sys, system};
use core::alloc::{GlobalAlloc, Layout};
use core::ffi::c_void;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicUsize, Ordering};
use dlmalloc::{Allocator, Dlmalloc};

/// Smallest segment in bytes.
const SEGMENT: usize = 256 * 1024;
/// Largest segment in bytes that is requested beyond need.
const MOST_AHEAD: usize = 4 * 1024 * 1024;
/// Alignment of blocks in bytes.
const MALLOC_ALIGN: usize = 16;

static HEAP: Lock<Dlmalloc<Segments>> = Lock::new(Dlmalloc::new_with_allocator(Segments));
/// Bytes in all segments.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// Whether a thread is inside of the allocator. The caller must then not do anything that allocates.
pub fn is_busy() -> bool {
    HEAP.is_held()
}

/// Source of dlmalloc's segments.
struct Segments;

// SAFETY: segments are new mappings of zeroed memory, which nothing else uses.
unsafe impl Allocator for Segments {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        // Pages are committed when they are touched, so any size could be mapped. But a size that exceeds the machine's
        // memory fails here, where the caller sees it, instead of ending the process later.
        // SAFETY: no arguments.
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
        // Unmapping a part would not free its pages: they belong to the whole VMO.
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

/// The usable size of the block at `ptr`, from the header before it.
unsafe fn usable(ptr: *mut c_void) -> usize {
    // SAFETY: a block of this heap, as the caller guarantees.
    let head = unsafe { ptr.cast::<usize>().sub(1).read() };
    // The low three bits are flags; the block's header takes one word.
    (head & !7) - size_of::<usize>()
}

fn done<T>(ptr: *mut T) -> *mut c_void {
    if ptr.is_null() {
        errno::set(ENOMEM);
    }
    ptr.cast()
}

/// Allocates `size` bytes, aligned to 16; returns null and sets ENOMEM if there is no memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
    // SAFETY: the heap belongs to this library.
    done(unsafe { HEAP.lock().c_malloc(size.max(1)) })
}

/// Allocates `count` times `size` zeroed bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    let Some(size) = count.checked_mul(size) else { return done(null_mut::<u8>()) };
    // SAFETY: the heap belongs to this library.
    done(unsafe { HEAP.lock().calloc(size.max(1), MALLOC_ALIGN) })
}

/// Resizes or moves a block to `size` bytes; on failure it is unchanged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(ptr: *mut c_void, size: usize) -> *mut c_void {
    if ptr.is_null() {
        // SAFETY: as `malloc`.
        return unsafe { malloc(size) };
    }
    // SAFETY: a block of this heap, as C demands.
    unsafe { done(HEAP.lock().c_realloc(ptr.cast(), size.max(1))) }
}

/// Resizes or moves a block to `count` times `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(ptr: *mut c_void, count: usize, size: usize) -> *mut c_void {
    match count.checked_mul(size) {
        // SAFETY: as `realloc`.
        Some(size) => unsafe { realloc(ptr, size) },
        None => done(null_mut::<u8>()),
    }
}

/// Frees a block; null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(ptr: *mut c_void) {
    if !ptr.is_null() {
        // SAFETY: a block of this heap, as C demands.
        unsafe { HEAP.lock().c_free(ptr.cast()) };
    }
}

/// Allocates a block aligned to `align` (a power of two, at least a pointer's size), stored in `out`. Returns an error
/// number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(out: *mut *mut c_void, align: usize, size: usize) -> i32 {
    if !align.is_power_of_two() || align < size_of::<usize>() {
        return EINVAL;
    }
    // SAFETY: the heap belongs to this library; `out` points to the caller's memory.
    unsafe {
        let ptr = HEAP.lock().c_memalign(align.max(MALLOC_ALIGN), size.max(1));
        if ptr.is_null() {
            return ENOMEM;
        }
        *out = ptr.cast();
    }
    0
}

/// Allocates a block aligned to `align`, a power of two.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    if !align.is_power_of_two() {
        errno::set(EINVAL);
        return null_mut();
    }
    // SAFETY: the heap belongs to this library.
    done(unsafe { HEAP.lock().c_memalign(align.max(MALLOC_ALIGN), size.max(1)) })
}

/// The older name of [`aligned_alloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
    // SAFETY: the same contract.
    unsafe { aligned_alloc(align, size) }
}

/// The usable size of a block: at least the size requested.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(ptr: *mut c_void) -> usize {
    // SAFETY: a block of this heap, as the function's contract demands.
    if ptr.is_null() { 0 } else { unsafe { usable(ptr) } }
}

/// The same heap, for this library's own collections.
struct LibraryHeap;

// SAFETY: dlmalloc meets the trait's conditions; `dealloc` gets blocks of `alloc`.
unsafe impl GlobalAlloc for LibraryHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the heap belongs to this library.
        unsafe { HEAP.lock().c_memalign(layout.align().max(MALLOC_ALIGN), layout.size()) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, _: Layout) {
        // SAFETY: the block came from `alloc`.
        unsafe { HEAP.lock().c_free(ptr) }
    }
}

#[global_allocator]
static OWN: LibraryHeap = LibraryHeap;
