//! The heap: a fixed block that is only ever handed out. Userboot starts one program and ends.

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

// SAFETY: each block handed out lies in the heap, aligned, and apart from all others.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: one thread; nothing else refers to the counter.
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
        // SAFETY: one thread; nothing else refers to the counter.
        let used = unsafe { &mut *self.used.get() };
        let start = block.addr() - self.block.get().addr();
        // The newest block can be taken back, which buffers that come and go live on.
        if start + layout.size() == *used {
            *used = start;
        }
    }
}
