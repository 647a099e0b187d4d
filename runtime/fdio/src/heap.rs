//! The Rust heap, on top of the C library's `malloc`, and the panic handler: a panic of this library aborts the
//! process.

use core::alloc::{GlobalAlloc, Layout};
use core::ffi::c_void;
use core::fmt::{self, Write};
use core::panic::PanicInfo;

unsafe extern "C" {
    fn malloc(size: usize) -> *mut c_void;
    fn aligned_alloc(align: usize, size: usize) -> *mut c_void;
    fn realloc(block: *mut c_void, size: usize) -> *mut c_void;
    fn free(block: *mut c_void);
    fn abort() -> !;
}

/// Alignment of blocks from `malloc`, in bytes.
const MALLOC_ALIGN: usize = 16;

struct Heap;

#[global_allocator]
static HEAP: Heap = Heap;

// SAFETY: the C library's allocator meets the trait's conditions.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: these functions have no conditions; the size is rounded up to a multiple of the alignment, as C
        // demands.
        unsafe {
            if layout.align() <= MALLOC_ALIGN {
                malloc(layout.size()).cast()
            } else {
                aligned_alloc(layout.align(), layout.size().next_multiple_of(layout.align())).cast()
            }
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, _layout: Layout) {
        // SAFETY: the block came from `alloc` or `realloc`.
        unsafe { free(block.cast()) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.align() <= MALLOC_ALIGN {
            // SAFETY: the block came from `malloc`.
            return unsafe { realloc(block.cast(), size).cast() };
        }
        // SAFETY: the caller keeps the trait's conditions, so these calls do too.
        unsafe {
            let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !new.is_null() {
                core::ptr::copy_nonoverlapping(block, new, layout.size().min(size));
                self.dealloc(block, layout);
            }
            new
        }
    }
}

/// Writes text to standard error.
struct StandardError;

impl Write for StandardError {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // SAFETY: the text is valid for its length.
        unsafe { crate::io::write(2, text.as_ptr().cast(), text.len()) };
        Ok(())
    }
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    let _ = writeln!(StandardError, "libfdio.so: {info}");
    // SAFETY: no conditions; it does not return.
    unsafe { abort() }
}

// The prebuilt `alloc` crate refers to functions of an unwinder. This library does not unwind. The symbols are hidden,
// because a program has its own unwinder.
core::arch::global_asm!(
    ".globl _Unwind_Resume",
    ".hidden _Unwind_Resume",
    ".globl rust_eh_personality",
    ".hidden rust_eh_personality",
    "_Unwind_Resume:",
    "rust_eh_personality:",
    "ud2",
);
