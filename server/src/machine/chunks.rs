//! Memory in chunks of 2 MiB.
//!
//! The root task hands over untypeds of many sizes. The server cuts them into chunks one after the other, smallest
//! first, because the kernel clears a whole untyped when it is first cut. Each chunk has a permanent number. The slot
//! of chunk `c`'s untyped capability follows from `c`. Once the chunk is used for pages or kernel objects it has its
//! own leaf CNode, so the slot of each of its parts follows from `c` as well. A freed chunk keeps both and waits in a
//! list.
//!
//! This module does not allocate from the heap, because the heap itself grows by chunks.

use server_boot::cspace::{CHUNK_CAPS_LEAF, LEAF_BITS, LEAF_SLOTS, SOURCES_LEAF, leaf_slot};
use server_boot::layout::{CHUNK, CHUNK_BITS};
use server_boot::{BootInfo, MAX_SOURCES};

use super::single::Single;
use super::sys;

/// Marks the absence of a chunk.
pub const NONE: u32 = u32::MAX;

/// All chunks of this server.
pub static CHUNKS: Single<Chunks> = Single::new(Chunks::new());

#[derive(Clone, Copy)]
struct Source {
    /// Chunks in it.
    size: u32,
    /// Chunks cut from it.
    used: u32,
    /// Physical address.
    address: u64,
    /// Number of its first chunk.
    first: u32,
}

/// See the module's description.
pub struct Chunks {
    source: [Source; MAX_SOURCES],
    sources: usize,
    current: usize,
    next: u32,
    total: u32,
    free: u32,
    free_head: u32,
    /// For each chunk in the free list, the next one.
    link: &'static mut [u32],
}

impl Chunks {
    const fn new() -> Self {
        Chunks {
            source: [Source { size: 0, used: 0, address: 0, first: 0 }; MAX_SOURCES],
            sources: 0,
            current: 0,
            next: 0,
            total: 0,
            free: 0,
            free_head: NONE,
            link: &mut [],
        }
    }

    /// Takes over the memory that the root task gave. `link` has an entry for each chunk.
    pub fn init(&mut self, boot: &BootInfo, link: &'static mut [u32]) {
        self.sources = (boot.sources as usize).min(MAX_SOURCES);
        let mut first = 0u32;
        for (own, given) in self.source.iter_mut().zip(&boot.source[..self.sources]) {
            own.size = 1u32 << given.bits.saturating_sub(u64::from(CHUNK_BITS)).min(31);
            own.address = given.address;
            own.first = first;
            first = first.saturating_add(own.size);
        }
        self.total = link.len() as u32;
        self.link = link;
    }

    /// Allocates a chunk. Its untyped has no children.
    pub fn take(&mut self) -> Option<u32> {
        if self.free_head != NONE {
            let chunk = self.free_head;
            self.free_head = self.link[chunk as usize];
            self.free -= 1;
            return Some(chunk);
        }
        self.cut()
    }

    /// Cuts the next chunk.
    fn cut(&mut self) -> Option<u32> {
        while self.current < self.sources {
            let source = &mut self.source[self.current];
            if source.used < source.size && self.next < self.total {
                let from = leaf_slot(SOURCES_LEAF, self.current as u64);
                let chunk = u64::from(self.next);
                let leaf = CHUNK_CAPS_LEAF + (chunk >> LEAF_BITS);
                sys::retype(from, sys::Object::Untyped(CHUNK_BITS), Some(leaf), chunk % LEAF_SLOTS, 1).ok()?;
                source.used += 1;
                self.next += 1;
                return Some(chunk as u32);
            }
            self.current += 1;
        }
        None
    }

    /// Frees a chunk whose untyped has no children.
    pub fn give(&mut self, chunk: u32) {
        self.link[chunk as usize] = self.free_head;
        self.free_head = chunk;
        self.free += 1;
    }

    /// The physical address of a chunk.
    pub fn physical(&self, chunk: u32) -> u64 {
        let after = self.source[..self.sources].partition_point(|source| source.first <= chunk);
        let source = self.source[after.saturating_sub(1)];
        source.address + u64::from(chunk.wrapping_sub(source.first)) * CHUNK
    }

    /// Finds `count` chunks with consecutive physical addresses, the first a multiple of 2^`align_log2`, and returns
    /// the first. Each must be marked in `usable`, free, or not yet cut. Also marks chunks that are free or not yet
    /// cut.
    pub fn find_run(&self, count: u32, align_log2: u8, usable: &mut [bool]) -> Option<u32> {
        let mut free = self.free_head;
        while free != NONE {
            usable[free as usize] = true;
            free = self.link[free as usize];
        }
        usable[self.next as usize..].fill(true);
        let align = 1u64.checked_shl(align_log2.into())?;
        // The run that ends before the current chunk: its first chunk, and the address after it.
        let (mut first, mut end) = (0, u64::MAX);
        for chunk in 0..self.total {
            let address = self.physical(chunk);
            let starts = usable[chunk as usize] && address.is_multiple_of(align);
            if !usable[chunk as usize] {
                end = u64::MAX;
                continue;
            }
            if end != address {
                if !starts {
                    end = u64::MAX;
                    continue;
                }
                first = chunk;
            }
            end = address + CHUNK;
            if chunk - first + 1 == count {
                return Some(first);
            }
        }
        None
    }

    /// Allocates `count` chunks from `first` on. Each must be free or not yet cut.
    pub fn take_run(&mut self, first: u32, count: u32) -> Option<()> {
        let run = first..first + count;
        while self.next < run.end {
            let chunk = self.cut()?;
            self.give(chunk);
        }
        let mut chunk = core::mem::replace(&mut self.free_head, NONE);
        self.free = 0;
        while chunk != NONE {
            let next = self.link[chunk as usize];
            if !run.contains(&chunk) {
                self.give(chunk);
            }
            chunk = next;
        }
        Some(())
    }

    /// Bytes in free chunks, and bytes in total.
    pub fn bytes(&self) -> (u64, u64) {
        let left = self.total - self.next + self.free;
        (u64::from(left) * CHUNK, u64::from(self.total) * CHUNK)
    }
}

/// The untyped capability of a chunk.
pub const fn untyped_of(chunk: u32) -> u64 {
    leaf_slot(CHUNK_CAPS_LEAF + (chunk as u64 >> LEAF_BITS), chunk as u64 % LEAF_SLOTS)
}
