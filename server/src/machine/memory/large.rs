//! Chunks that are one large page.
//!
//! Such a chunk holds 512 frames like a chunk of pages: they have numbers, addresses in the window and owners, and are
//! freed one by one. But one capability covers all of them, so a program can see them by one mapping at an aligned
//! address, and making them costs one kernel call instead of a thousand.
//!
//! The kernel cannot split a page. When one of the frames must be mapped by itself, the server *splits* the chunk: it
//! copies the content aside, destroys the page with all its mappings, makes small pages in its place, and copies the
//! content back. The numbers stay the same. This costs about four times as much as making the large page did. It cannot
//! fail for lack of memory: everything it needs (the window's page table, slots, 2 MiB for the copy) is reserved when
//! the first large page is made.
//!
//! A large mapping that a split destroys leaves an entry in the address space's tables. Its slot is marked ([`GONE`])
//! until the entry is found.

use core::ptr;

use super::*;

/// Replaces the frame of a slot whose large page was split.
const GONE: u32 = u32::MAX;

impl Memory {
    /// Whether a page is part of a large one.
    #[inline]
    pub fn is_large(&self, frame: Frame) -> bool {
        self.chunks.get((frame.0 / PARTS) as usize).is_some_and(|chunk| chunk.kind == Kind::Large)
    }

    /// Makes an empty chunk a large page with all its frames in use.
    pub(super) fn large_open(&mut self, number: u32) -> Result<(), OutOfMemory> {
        if self.aside == NONE {
            let aside = self.chunk_take()?;
            if let Err(error) = self.large_make(aside) {
                CHUNKS.with(|chunks| chunks.give(aside));
                return Err(error);
            }
            // In use forever, and not counted.
            self.chunks[aside as usize].live = 1;
            self.aside = aside;
            self.spent += 1;
        }
        self.large_make(number)?;
        self.chunks[number as usize].live = PARTS as u16;
        self.live[0] += u64::from(PARTS);
        Ok(())
    }

    /// Makes an empty chunk a large page that is mapped in the window.
    fn large_make(&mut self, number: u32) -> Result<(), OutOfMemory> {
        self.leaf_ready(number)?;
        self.window_ready(number, false)?;
        let leaf = self.leaf_base + u64::from(number);
        sys::retype(untyped_of(number), Object::LargePage, Some(leaf), 0, 1).map_err(|_| OutOfMemory)?;
        let page = number * PARTS;
        if sys::page_map_own(self.slot(page, 0), Self::address(Frame(page))).is_err() {
            sys::revoke(untyped_of(number));
            return Err(OutOfMemory);
        }
        let chunk = &mut self.chunks[number as usize];
        *chunk = Chunk { kind: Kind::Large, fresh: PARTS as u16, ..chunk.emptied() };
        Ok(())
    }

    /// A capability of a large page for a program's mapping.
    pub fn large_take(&mut self, frame: Frame) -> Result<u64, OutOfMemory> {
        let first = frame.0 - frame.0 % PARTS;
        let slot = self.mapping_further(Frame(first), self.slot(first, 0))?;
        self.large.insert((first / PARTS, slot));
        Ok(slot)
    }

    /// The first page of a capability from [`Memory::large_take`]; none if the large page was split.
    pub fn large_frame(&self, slot: u64) -> Option<Frame> {
        Some(self.loose.frame(slot)).filter(|frame| *frame != GONE).map(Frame)
    }

    /// Ends the mapping made with a capability from [`Memory::large_take`], and frees the capability.
    pub fn large_give(&mut self, slot: u64) {
        if let Some(frame) = self.large_frame(slot) {
            self.large.remove(&(frame.0 / PARTS, slot));
            sys::delete(slot);
        }
        self.slot_free(slot);
        self.loose.mapping -= 1;
    }

    /// See the module's description.
    pub(super) fn split(&mut self, number: u32) {
        let (own, aside) = (Frame(number * PARTS), Frame(self.aside * PARTS));
        copy_chunk(own, aside);
        sys::revoke(untyped_of(number));
        while let Some(&(chunk, slot)) = self.large.range((number, 0)..(number + 1, 0)).next() {
            self.large.remove(&(chunk, slot));
            *self.loose.note(LooseSlots::number(slot)) = GONE;
        }
        let chunk = &mut self.chunks[number as usize];
        chunk.kind = Kind::Pages;
        chunk.fresh = 0;
        let some_free = chunk.free != [0; 8];
        let mut made = self.window_ready(number, true);
        for _ in 0..PARTS {
            made = made.and_then(|()| self.part_fresh(number, Kind::Pages)).map(|_| ());
        }
        // Everything needed exists already, so only an error in the kernel could make this fail. The copy on the next
        // line would then fault.
        debug_assert!(made.is_ok());
        copy_chunk(aside, own);
        if some_free {
            self.list(number, Kind::Pages);
        }
    }

    /// Splits a large page some of whose frames are free, so that they can be allocated.
    pub(super) fn split_for_room(&mut self) -> bool {
        let partly = |chunk: &Chunk| chunk.kind == Kind::Large && chunk.live > 0 && chunk.free != [0; 8];
        let Some(number) = self.chunks.iter().position(partly) else { return false };
        self.split(number as u32);
        true
    }
}

/// Copies one chunk to another through the window.
fn copy_chunk(from: Frame, to: Frame) {
    let (from, to) = (Memory::address(from) as usize, Memory::address(to) as usize);
    // SAFETY: both chunks are wholly mapped in the window, for writing, and differ. No program runs while the server
    // runs.
    unsafe {
        let from = ptr::with_exposed_provenance::<u8>(from);
        ptr::copy_nonoverlapping(from, ptr::with_exposed_provenance_mut(to), CHUNK as usize);
    }
}
