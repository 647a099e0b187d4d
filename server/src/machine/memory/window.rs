//! Pages as the objects use them, through the window; and the reserve for the objects' small allocations.

use core::ptr;

use objects::containers::failure_injection::{MemoryRequest, should_fail};
use objects::containers::growth::OutOfMemory;
use objects::machine::{Frame, MachineUsage, PAGE_SIZE};

use super::super::arch::copy;
use super::super::{Sel4, heap};
use super::Memory;

impl Sel4 {
    /// Copies `len` bytes from the server's memory to the start of a page.
    pub(crate) fn frame_fill(&mut self, frame: Frame, from: usize, len: usize) {
        let to = ptr::with_exposed_provenance_mut::<u8>(Memory::address(frame) as usize);
        // SAFETY: the boot-file buffer is mapped for reading, the page for writing, and they are disjoint.
        unsafe { ptr::copy_nonoverlapping(ptr::with_exposed_provenance::<u8>(from), to, len.min(PAGE_SIZE)) };
    }

    #[cold]
    fn heap_refill(&mut self) -> Result<(), OutOfMemory> {
        if should_fail(MemoryRequest::Reserve) {
            return Err(OutOfMemory);
        }
        if heap::starved() {
            heap::collected(self.memory.release_one());
        }
        if heap::reserve() || (self.memory.release_one() && heap::reserve()) { Ok(()) } else { Err(OutOfMemory) }
    }
}

/// The part of a range that lies within a page: its address, and its length. For a device's page the length is 0,
/// because the window does not show it.
#[inline]
fn within(frame: Frame, offset: usize, len: usize) -> (usize, usize) {
    if frame.is_device() {
        return (ptr::dangling::<u8>().addr(), 0);
    }
    let offset = offset.min(PAGE_SIZE);
    (Memory::address(frame) as usize + offset, len.min(PAGE_SIZE - offset))
}

/// Whether a range lies within a page that the window shows. Callers ask for no others. If the length is a constant,
/// the compiler evaluates most of this.
#[inline(always)]
fn has(frame: Frame, offset: usize, len: usize) -> bool {
    !frame.is_device() && len <= PAGE_SIZE && offset <= PAGE_SIZE - len
}

impl objects::machine::Memory for Sel4 {
    fn frame_alloc(&mut self) -> Result<Frame, OutOfMemory> {
        self.with_all(|machine| machine.memory.frame_alloc())
    }

    fn frames_contiguous(&mut self, count: u32, align_log2: u8) -> Result<Frame, OutOfMemory> {
        self.with_all(|machine| machine.memory.frames_contiguous(count, align_log2))
    }

    fn frame_address(&self, frame: Frame) -> u64 {
        self.memory.physical(frame)
    }

    fn frame_free(&mut self, frame: Frame) {
        self.memory.frame_free(frame);
    }

    #[inline(always)]
    fn frame_read(&self, frame: Frame, offset: usize, out: &mut [u8]) {
        if has(frame, offset, out.len()) {
            let from = ptr::with_exposed_provenance::<u8>(Memory::address(frame) as usize + offset);
            // SAFETY: the bytes lie within a page that the window shows; `out` is not in the window. No program runs
            // while the server runs.
            unsafe { copy(from, out.as_mut_ptr(), out.len()) };
        }
    }

    #[inline(always)]
    fn frame_write(&mut self, frame: Frame, offset: usize, data: &[u8]) {
        if has(frame, offset, data.len()) {
            let to = ptr::with_exposed_provenance_mut::<u8>(Memory::address(frame) as usize + offset);
            // SAFETY: as in `frame_read`.
            unsafe { copy(data.as_ptr(), to, data.len()) };
        }
    }

    fn frame_zero(&mut self, frame: Frame, offset: usize, len: usize) {
        let (to, len) = within(frame, offset, len);
        // SAFETY: as in `frame_read`.
        unsafe { ptr::write_bytes(ptr::with_exposed_provenance_mut::<u8>(to), 0, len) };
    }

    fn frame_move(&mut self, from: Frame, from_offset: usize, to: Frame, to_offset: usize, len: usize) {
        let (from, len) = within(from, from_offset, len);
        let (to, len) = within(to, to_offset, len);
        // SAFETY: as in `frame_read`, for both pages; they may be the same.
        unsafe { ptr::copy(ptr::with_exposed_provenance::<u8>(from), ptr::with_exposed_provenance_mut::<u8>(to), len) };
    }

    fn frame_copy(&mut self, from: Frame, to: Frame) {
        if from != to && !from.is_device() && !to.is_device() {
            self.frame_fill(to, Memory::address(from) as usize, PAGE_SIZE);
        }
    }

    fn memory(&self) -> (u64, u64) {
        self.memory.bytes()
    }

    fn heap(&self) -> (u64, u64) {
        heap::bytes()
    }

    fn usage(&self) -> MachineUsage {
        self.held_by_others()
    }

    #[inline(always)]
    fn fast_path_allowed(&self) -> bool {
        heap::ample()
    }

    fn force_slow_path(&mut self, on: bool) {
        heap::force_slow_path(on);
    }

    #[inline(always)]
    fn heap_reserve(&mut self) -> Result<(), OutOfMemory> {
        if heap::ample() { Ok(()) } else { self.heap_refill() }
    }

    fn heap_last_reserve(&mut self) -> bool {
        !should_fail(MemoryRequest::Reserve) && heap::last_reserve()
    }
}
