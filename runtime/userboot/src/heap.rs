//! The heap: a fixed block with a bump allocator. Only the newest allocation can grow, shrink and be freed in place,
//! which is enough for short-lived buffers; userboot has few other allocations.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ptr;

const SIZE: usize = 1 << 20;

#[repr(C, align(4096))]
struct Heap {
    block: UnsafeCell<[u8; SIZE]>,
    used: UnsafeCell<usize>,
}

// SAFETY: userboot has one thread.
unsafe impl Sync for Heap {}

#[global_allocator]
static HEAP: Heap = Heap { block: UnsafeCell::new([0; SIZE]), used: UnsafeCell::new(0) };

// SAFETY: every allocation is inside the heap, aligned, and does not overlap others.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: there is one thread; nothing else refers to the counter.
        let used = unsafe { &mut *self.used.get() };
        let start = used.next_multiple_of(layout.align());
        match start.checked_add(layout.size()) {
            Some(end) if end <= SIZE && layout.align() <= 4096 => {
                *used = end;
                self.block.get().cast::<u8>().wrapping_add(start)
            }
            _ => ptr::null_mut(),
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: there is one thread; nothing else refers to the counter.
        let used = unsafe { &mut *self.used.get() };
        let start = block.addr() - self.block.get().addr();
        if start + layout.size() == *used {
            *used = start;
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: there is one thread; nothing else refers to the counter.
        let used = unsafe { &mut *self.used.get() };
        let start = block.addr() - self.block.get().addr();
        if start + layout.size() == *used && start.checked_add(size).is_some_and(|end| end <= SIZE) {
            *used = start + size;
            return block;
        }
        // SAFETY: the caller keeps the trait's conditions, so these calls do too.
        unsafe {
            let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !new.is_null() {
                ptr::copy_nonoverlapping(block, new, layout.size().min(size));
                self.dealloc(block, layout);
            }
            new
        }
    }
}
