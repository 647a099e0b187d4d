//! The server's heap: a two-level segregated fit allocator over one region that grows by whole chunks.
//!
//! An allocation costs a bounded number of instructions. The heap never returns memory; freed blocks serve later
//! allocations. When no block fits, the region grows by as many chunks as the allocation needs. When no chunk is left,
//! the allocation fails with a null pointer, which fallible allocation turns into an error, and [`starved`] returns
//! true. The server then collects unused chunks for the next attempt: one before each call, because each takes some
//! hundred microseconds.
//!
//! Small allocations often cannot report failure. So [`reserve`], called before each call is handled, makes sure that
//! they succeed: it keeps [`RESERVE`] bytes or more free. Free bytes may be fragmented, so it also keeps one block of
//! [`SPARE`] bytes aside, which is used when nothing else is left.

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::{self, NonNull};

use rlsf::Tlsf;
use server_boot::cspace::{HEAP_LEAF, leaf_slot};
use server_boot::layout::{CHUNK, HEAP, HEAP_LIMIT};

use super::chunks::{CHUNKS, untyped_of};
use super::single::Single;
use super::sys;

/// Free bytes that the server needs for a call. [`reserve`] grows the heap when less than twice as many are free.
pub const RESERVE: usize = 1 << 20;

/// Bytes of the block that is kept aside.
const SPARE: usize = 256 << 10;
/// The largest allocation that may use that block. Code that makes larger ones handles failure.
const SMALL: usize = 16 << 10;
const SPARE_LAYOUT: Layout = match Layout::from_size_align(SPARE, 16) {
    Ok(layout) => layout,
    Err(_) => panic!("a valid layout"),
};

/// 59 classes from 32 bytes up cover all addresses. Only then does the allocator merge memory that is added at the end
/// with the block before it.
type Blocks = Tlsf<'static, u64, u32, 59, 32>;

struct Heap {
    blocks: Blocks,
    /// Bytes mapped.
    mapped: usize,
    /// Bytes allocated, as requested.
    used: usize,
    /// With fewer bytes allocated, the fast path before a call applies; 0 if the slow path is needed.
    ample: usize,
    /// The slow path before each call was requested, so `ample` stays 0.
    slow_path_forced: bool,
    /// Number of chunks that were missing when the heap last tried to grow.
    starved: usize,
    /// The block that is kept aside.
    spare: Option<NonNull<u8>>,
}

static HEAP_STATE: Single<Heap> = Single::new(Heap {
    blocks: Blocks::new(),
    mapped: 0,
    used: 0,
    ample: 0,
    slow_path_forced: false,
    starved: 0,
    spare: None,
});

/// The global allocator.
pub struct Allocator;

/// Takes over the part of the region that the root task has mapped. Must be called once, before any allocation.
pub fn init(chunks: u64) {
    HEAP_STATE.with(|heap| heap.add(0, (chunks * CHUNK) as usize));
}

/// Whether small allocations have memory without [`reserve`].
#[inline(always)]
pub fn ample() -> bool {
    HEAP_STATE.with(|heap| heap.used < heap.ample)
}

/// Makes [`ample`] return false from now on, or ends that.
pub fn force_slow_path(on: bool) {
    HEAP_STATE.with(|heap| {
        heap.slow_path_forced = on;
        heap.ample = 0;
    });
}

/// Makes sure that small allocations have memory; see the module's description.
pub fn reserve() -> bool {
    HEAP_STATE.with(Heap::refill)
}

/// Whether [`RESERVE`] bytes and the block of [`SPARE`] bytes are still available although [`reserve`] failed: enough
/// for calls that keep no memory.
pub fn last_reserve() -> bool {
    HEAP_STATE.with(|heap| {
        heap.spare = heap.spare.take().or_else(|| heap.take(SPARE_LAYOUT));
        heap.spare.is_some() && heap.mapped - heap.used > RESERVE
    })
}

/// Whether an allocation has failed for lack of chunks. The caller should collect at most one chunk per call.
pub fn starved() -> bool {
    HEAP_STATE.with(|heap| heap.starved != 0)
}

/// Records that a chunk has been collected (`one`), or that there is none to collect.
pub fn collected(one: bool) {
    HEAP_STATE.with(|heap| heap.starved = if one { heap.starved.saturating_sub(1) } else { 0 });
}

/// Bytes of memory that the heap has mapped, and those of them that are not allocated.
pub fn bytes() -> (u64, u64) {
    HEAP_STATE.with(|heap| (heap.mapped as u64, heap.mapped.saturating_sub(heap.used) as u64))
}

impl Heap {
    /// Adds `len` bytes that are mapped at offset `from` of the region.
    fn add(&mut self, from: usize, len: usize) {
        let start = ptr::with_exposed_provenance_mut::<u8>(HEAP as usize + from);
        let Some(start) = NonNull::new(start) else { return };
        let block = NonNull::slice_from_raw_parts(start, len);
        // SAFETY: the bytes are mapped for writing, belong to nothing else, and follow the region's end.
        unsafe {
            if from == 0 {
                self.blocks.insert_free_block_ptr(block);
            } else {
                self.blocks.append_free_block_ptr(block);
            }
        }
        self.mapped = from + len;
    }

    fn refill(&mut self) -> bool {
        self.ample = 0;
        if self.mapped - self.used <= RESERVE * 2 && !self.grow(RESERVE) {
            return false;
        }
        if self.spare.is_none() {
            self.spare = self.take(SPARE_LAYOUT);
        }
        if self.spare.is_some() && !self.slow_path_forced && self.starved == 0 {
            self.ample = self.mapped.saturating_sub(RESERVE * 2);
        }
        self.spare.is_some()
    }

    /// Allocates a block. Grows the heap if necessary.
    #[inline]
    fn take(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        let block = self.blocks.allocate(layout).or_else(|| self.take_more(layout))?;
        self.used += layout.size();
        Some(block)
    }

    #[cold]
    fn take_more(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        let block = match self.grow(layout.size().saturating_add(layout.align())) {
            true => self.blocks.allocate(layout),
            false => None,
        };
        block.or_else(|| {
            if layout.size() > SMALL {
                return None;
            }
            let spare = self.spare.take()?;
            self.ample = 0;
            // SAFETY: the block is the heap's own, of this layout.
            unsafe { self.blocks.deallocate(spare, SPARE_LAYOUT.align()) };
            self.used -= SPARE;
            self.blocks.allocate(layout)
        })
    }

    /// Adds chunks until `bytes` more fit in one piece at the end.
    fn grow(&mut self, bytes: usize) -> bool {
        // The allocator rounds a request up to its size class, by less than a sixteenth, and adds a header to each
        // block.
        let Some(bytes) = bytes.checked_add(bytes / 16 + 4096) else { return false };
        let chunks = bytes.div_ceil(CHUNK as usize);
        for missing in (1..=chunks).rev() {
            if self.mapped as u64 + CHUNK > HEAP_LIMIT {
                return false;
            }
            let Some(chunk) = CHUNKS.with(|chunks| chunks.take()) else {
                self.starved = missing;
                self.ample = 0;
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

// SAFETY: blocks come from the region, which is never given back, and the allocator keeps them disjoint.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HEAP_STATE.with(|heap| heap.take(layout).map_or(ptr::null_mut(), NonNull::as_ptr))
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
        let Ok(new) = Layout::from_size_align(size, layout.align()) else { return ptr::null_mut() };
        let moved = HEAP_STATE.with(|heap| {
            // SAFETY: the caller got the block from `alloc` with this layout.
            let moved = unsafe { heap.blocks.reallocate(NonNull::new(block)?, new) }?;
            heap.used = heap.used + size - layout.size();
            Some(moved)
        });
        if let Some(moved) = moved {
            return moved.as_ptr();
        }
        // No free memory at the block fits: allocate a new block, for which the heap may grow.
        // SAFETY: both blocks belong to the heap, are disjoint, and are at least as long as what is copied; the caller
        // gives up the old one.
        unsafe {
            let to = self.alloc(new);
            if !to.is_null() {
                ptr::copy_nonoverlapping(block, to, layout.size().min(size));
                self.dealloc(block, layout);
            }
            to
        }
    }
}
