//! The heap is the C library's; a bug here ends the process.

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

/// What `malloc` aligns to.
const MALLOC_ALIGN: usize = 16;

struct Heap;

#[global_allocator]
static HEAP: Heap = Heap;

// SAFETY: the C library's functions keep what the trait asks.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: no conditions; a size that is no multiple of the alignment is rounded up as C wants it.
        unsafe {
            if layout.align() <= MALLOC_ALIGN {
                malloc(layout.size()).cast()
            } else {
                aligned_alloc(layout.align(), layout.size().next_multiple_of(layout.align())).cast()
            }
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, _layout: Layout) {
        // SAFETY: the block came from the functions above.
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

/// A piece of text on standard error.
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
    // SAFETY: does not return.
    unsafe { abort() }
}

// The prebuilt `alloc` names what unwinding would call. Nothing unwinds here; and the names must not be seen from outside,
// where a program has its own.
core::arch::global_asm!(
    ".globl _Unwind_Resume",
    ".hidden _Unwind_Resume",
    ".globl rust_eh_personality",
    ".hidden rust_eh_personality",
    "_Unwind_Resume:",
    "rust_eh_personality:",
    "ud2",
);
