//! Chunks that are one large page.
//!
//! Such a chunk holds 512 frames like a chunk of pages: they have numbers, addresses in the window and owners, and are
//! given back one by one. But there is one capability for all of them, so a program can see them by one mapping at an
//! aligned address, and making them costs one call of the kernel instead of a thousand.
//!
//! The kernel cannot split a page. When one of the frames is to be mapped by itself all the same, the chunk is *split*: its content is
//! copied aside, the page is destroyed with all its mappings, small pages are made in its place, and the content is
//! copied back. The numbers stay. That costs about four times what making the large page did. It cannot fail for want of
//! memory: what it takes (the window's page table, slots, 2 MiB to copy to) is put aside when the first such page is
//! made.
//!
//! A mapping that goes with its page leaves the address space's own record behind. Its slot is marked ([`GONE`]) until
//! the record is met.

use core::ptr;

use super::*;

/// In place of the frame of a slot: what it mapped was split.
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
            // In use for ever, by nobody who is counted.
            self.chunks[aside as usize].live = 1;
            self.aside = aside;
            self.spent += 1;
        }
        self.large_make(number)?;
        self.chunks[number as usize].live = PARTS as u16;
        self.live[0] += u64::from(PARTS);
        Ok(())
    }

    /// Makes an empty chunk a large page that the window shows.
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

    /// A capability of a large page by which a program may see it.
    pub fn large_take(&mut self, frame: Frame) -> Result<u64, OutOfMemory> {
        let first = frame.0 - frame.0 % PARTS;
        let slot = self.mapping_further(Frame(first), self.slot(first, 0))?;
        self.large.insert((first / PARTS, slot));
        Ok(slot)
    }

    /// The first page that a capability from [`Memory::large_take`] stands for; none if it was split.
    pub fn large_frame(&self, slot: u64) -> Option<Frame> {
        Some(self.loose.frame(slot)).filter(|frame| *frame != GONE).map(Frame)
    }

    /// Ends the mapping made with a capability from [`Memory::large_take`], and takes it back.
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
            *self.loose.note(Loose::number(slot)) = GONE;
        }
        let chunk = &mut self.chunks[number as usize];
        chunk.kind = Kind::Pages;
        chunk.fresh = 0;
        let some_free = chunk.free != [0; 8];
        let mut made = self.window_ready(number, true);
        for _ in 0..PARTS {
            made = made.and_then(|()| self.part_fresh(number, Kind::Pages)).map(|_| ());
        }
        // All was there already: only a fault of the kernel's could have got in the way, and the next line would end it.
        debug_assert!(made.is_ok());
        copy_chunk(aside, own);
        if some_free {
            self.list(number, Kind::Pages);
        }
    }

    /// Splits a large page some of whose frames have come back, so that they can be handed out.
    pub(super) fn split_for_room(&mut self) -> bool {
        let partly = |chunk: &Chunk| chunk.kind == Kind::Large && chunk.live > 0 && chunk.free != [0; 8];
        let Some(number) = self.chunks.iter().position(partly) else { return false };
        self.split(number as u32);
        true
    }
}

/// Copies what the window shows of one chunk to another.
fn copy_chunk(from: Frame, to: Frame) {
    let (from, to) = (Memory::address(from) as usize, Memory::address(to) as usize);
    // SAFETY: both chunks are mapped in the window in whole, for writing, and are not the same. No program runs while
    // the server does.
    unsafe {
        let from = ptr::with_exposed_provenance::<u8>(from);
        ptr::copy_nonoverlapping(from, ptr::with_exposed_provenance_mut(to), CHUNK as usize);
    }
}
