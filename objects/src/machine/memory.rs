//! Memory: pages, and what the heap of the objects themselves needs.

pub use crate::arch::layout::{LARGE_PAGE, LARGE_PAGES, PAGE, PAGE_SIZE};
use crate::containers::growth::OutOfMemory;

/// One page of memory, owned by the code that allocated it; or one page of device memory, which has no owner
/// ([`Frame::is_device`]).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Frame(pub u32);

impl Frame {
    /// The lowest number of a page of device memory. Numbers of ordinary memory are dense and start at 0.
    pub const DEVICE: u32 = 1 << 31;

    /// Whether this is a page of device memory. Such a page is never freed, and the server cannot read, write, zero or
    /// copy it.
    #[inline]
    pub const fn is_device(self) -> bool {
        self.0 >= Frame::DEVICE
    }
}

/// Usage of the machine's own resources, without those that it keeps for reuse.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MachineUsage {
    /// Pages allocated.
    pub frames: u64,
    /// Memory blocks that kernel objects are made of.
    pub units: u64,
    /// Capability slots allocated one by one.
    pub slots: u64,
}

/// Pages of ordinary memory, and the memory behind small allocations.
///
/// The machine numbers pages. The objects free each page that they allocated exactly once, and only when it is mapped
/// nowhere. A page is zeroed when it is allocated.
pub trait Memory {
    /// Allocates a zeroed page.
    fn frame_alloc(&mut self) -> Result<Frame, OutOfMemory>;
    /// Allocates `count` zeroed pages, at least 1, with consecutive numbers and physical addresses. The first address
    /// is a multiple of 2^`align_log2`. Returns the first page. Each page is freed separately, in any order. Each
    /// aligned group of [`LARGE_PAGES`] pages is a large page.
    fn frames_contiguous(&mut self, count: u32, align_log2: u8) -> Result<Frame, OutOfMemory>;
    /// The physical address of a page of ordinary or device memory.
    fn frame_address(&self, frame: Frame) -> u64;
    /// Frees a page, which must not be mapped anywhere. Not for pages of device memory.
    fn frame_free(&mut self, frame: Frame);
    /// Copies out of a page. The caller keeps `offset + out.len()` within the page; the machine copies nothing beyond
    /// the page, and nothing from a page of device memory.
    fn frame_read(&self, frame: Frame, offset: usize, out: &mut [u8]);
    /// Copies into a page, with the same bounds.
    fn frame_write(&mut self, frame: Frame, offset: usize, data: &[u8]);
    /// Zeroes a part of a page, with the same bounds.
    fn frame_zero(&mut self, frame: Frame, offset: usize, len: usize);
    /// Copies a part of a page into another page or within the same page, where the ranges may overlap. The same bounds
    /// hold for both.
    fn frame_move(&mut self, from: Frame, from_offset: usize, to: Frame, to_offset: usize, len: usize);
    /// Copies a whole page.
    fn frame_copy(&mut self, from: Frame, to: Frame);
    /// Bytes of memory in use, and bytes of memory in total.
    fn memory(&self) -> (u64, u64);
    /// Bytes of the memory in use that the heap has taken, and how many of them are free within the heap.
    fn heap(&self) -> (u64, u64) {
        (0, 0)
    }
    /// Current usage, with which tests check that everything is returned.
    fn usage(&self) -> MachineUsage;
    /// Whether no work is due before the next call: memory for small allocations is available, and
    /// [`Self::force_slow_path`] is off.
    fn fast_path_allowed(&self) -> bool;
    /// Turns on or off that [`Self::fast_path_allowed`] returns false.
    fn force_slow_path(&mut self, on: bool);
    /// Ensures that the objects' own small allocations cannot fail until the next call of this method.
    fn heap_reserve(&mut self) -> Result<(), OutOfMemory>;
    /// Whether, although [`Self::heap_reserve`] fails, enough memory is left for the small allocations of one more
    /// call that keeps next to no memory afterwards.
    fn heap_last_reserve(&mut self) -> bool;
}
