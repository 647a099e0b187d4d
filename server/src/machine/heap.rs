//! The server's heap: a two-level segregated fit allocator over one region that grows by whole chunks.
//!
//! An allocation costs a bounded number of instructions. What the heap has taken it keeps; freed blocks serve later
//! allocations. When nothing fits, the region grows by as many chunks as the allocation needs; when there is no chunk
//! left the allocation fails with a null pointer, which fallible allocation turns into an error, and [`starved`] says
//! so, upon which chunks that lie idle elsewhere are collected for the next attempt. [`reserve`] keeps [`RESERVE`]
//! bytes free, so that small allocations that cannot report failure do not meet it.

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::{self, NonNull};

use rlsf::Tlsf;
use server_boot::cspace::{HEAP_LEAF, leaf_slot};
use server_boot::layout::{CHUNK, HEAP, HEAP_LIMIT};

use super::chunks::{CHUNKS, untyped_of};
use super::single::Single;
use super::sys;

/// Bytes that [`reserve`] keeps free.
pub const RESERVE: usize = 1 << 20;

/// 59 classes of 32 bytes and up span all addresses; only then does the allocator join what is added at the end to the
/// block before it.
type Blocks = Tlsf<'static, u64, u32, 59, 32>;

struct Heap {
    blocks: Blocks,
    /// Bytes mapped.
    mapped: usize,
    /// Bytes handed out, as asked for.
    used: usize,
    /// There was no chunk to grow by.
    starved: bool,
}

static HEAP_STATE: Single<Heap> = Single::new(Heap { blocks: Blocks::new(), mapped: 0, used: 0, starved: false });

/// The allocator that the language knows.
pub struct Allocator;

/// Takes over the part of the region that the root task has mapped. To be called once, before any allocation.
pub fn init(chunks: u64) {
    HEAP_STATE.with(|heap| heap.add(0, (chunks * CHUNK) as usize));
}

/// Makes sure that [`RESERVE`] bytes are free.
#[inline]
pub fn reserve() -> bool {
    HEAP_STATE.with(|heap| heap.mapped - heap.used >= RESERVE * 2 || heap.grow(RESERVE))
}

/// Whether an allocation has failed for want of chunks since this was last asked.
#[inline]
pub fn starved() -> bool {
    HEAP_STATE.with(|heap| core::mem::take(&mut heap.starved))
}

/// Bytes of memory that the heap has taken.
pub fn bytes() -> u64 {
    HEAP_STATE.with(|heap| heap.mapped as u64)
}

impl Heap {
    /// Adds `len` bytes that are mapped at offset `from` of the region.
    fn add(&mut self, from: usize, len: usize) {
        let start = ptr::with_exposed_provenance_mut::<u8>(HEAP as usize + from);
        let Some(start) = NonNull::new(start) else { return };
        let block = NonNull::slice_from_raw_parts(start, len);
        // SAFETY: the bytes are mapped for writing, belong to nobody else, and follow the region's end.
        unsafe {
            if from == 0 {
                self.blocks.insert_free_block_ptr(block);
            } else {
                self.blocks.append_free_block_ptr(block);
            }
        }
        self.mapped = from + len;
    }

    /// Adds chunks until `bytes` more fit in one piece at the end.
    fn grow(&mut self, bytes: usize) -> bool {
        // The allocator rounds a request up to its size class, by less than a sixteenth, and heads each block.
        let Some(bytes) = bytes.checked_add(bytes / 16 + 4096) else { return false };
        let chunks = bytes.div_ceil(CHUNK as usize);
        for _ in 0..chunks {
            if self.mapped as u64 + CHUNK > HEAP_LIMIT {
                return false;
            }
            let Some(chunk) = CHUNKS.with(|chunks| chunks.take()) else {
                self.starved = true;
                return false;
            };
            let slot = self.mapped as u64 / CHUNK;
            let page = sys::retype(untyped_of(chunk), sys::Object::LargePage, Some(HEAP_LEAF), slot, 1);
            let address = HEAP + self.mapped as u64;
            if page.and_then(|()| sys::page_map_own(leaf_slot(HEAP_LEAF, slot), address)).is_err() {
                CHUNKS.with(|chunks| chunks.give(chunk));
                return false;
            }
            self.add(self.mapped, CHUNK as usize);
        }
        true
    }
}

// SAFETY: blocks come from the region, which is never given back, and the allocator keeps them apart.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HEAP_STATE.with(|heap| {
            let mut block = heap.blocks.allocate(layout);
            if block.is_none() && heap.grow(layout.size().saturating_add(layout.align())) {
                block = heap.blocks.allocate(layout);
            }
            let Some(block) = block else { return ptr::null_mut() };
            heap.used += layout.size();
            block.as_ptr()
        })
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        HEAP_STATE.with(|heap| {
            let Some(block) = NonNull::new(block) else { return };
            // SAFETY: the caller got the block from `alloc` with this layout.
            unsafe { heap.blocks.deallocate(block, layout.align()) };
            heap.used -= layout.size();
        });
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        HEAP_STATE.with(|heap| {
            let Some(block) = NonNull::new(block) else { return ptr::null_mut() };
            let Ok(new) = Layout::from_size_align(size, layout.align()) else { return ptr::null_mut() };
            // SAFETY: the caller got the block from `alloc` with this layout.
            let mut moved = unsafe { heap.blocks.reallocate(block, new) };
            if moved.is_none() && heap.grow(size.saturating_add(layout.align())) {
                // SAFETY: as above; the failed attempt left the block alone.
                moved = unsafe { heap.blocks.reallocate(block, new) };
            }
            let Some(moved) = moved else { return ptr::null_mut() };
            heap.used = heap.used + size - layout.size();
            moved.as_ptr()
        })
    }
}
