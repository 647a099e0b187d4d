//! Pages with consecutive numbers and physical addresses.
//!
//! Within a chunk, consecutive page numbers have consecutive addresses. So up to 512 pages are a run of free parts in
//! one chunk of pages. Only if the first few chunks with room contain no such run, a new chunk is allocated. More pages
//! take several adjacent chunks: free chunks, chunks without parts in use, and chunks that were never cut. The search
//! looks at every chunk, which costs little compared with clearing so many pages.

use alloc::vec::Vec;

use super::*;
use objects::containers::growth::Grows;

/// Number of chunks with room that are searched for a run before a new chunk is allocated.
const SEARCHED: usize = 16;

impl Memory {
    /// The physical address of a page.
    pub fn physical(&self, frame: Frame) -> u64 {
        if frame.is_device() {
            return self.device_page(frame).map_or(0, |page| page.address);
        }
        let chunk = CHUNKS.with(|chunks| chunks.physical(frame.0 / PARTS));
        chunk + u64::from(frame.0 % PARTS) * 4096
    }

    /// See [`objects::Memory::frames_contiguous`](objects::machine::Memory::frames_contiguous).
    pub fn frames_contiguous(&mut self, count: u32, align_log2: u8) -> Result<Frame, OutOfMemory> {
        fail_if_planned(MemoryRequest::Frame)?;
        // A request for pages aligned to large pages gets large pages.
        let large = align_log2 >= CHUNK_BITS && count.is_multiple_of(PARTS);
        if count <= PARTS && align_log2 <= CHUNK_BITS && !large {
            let step = 1 << align_log2.saturating_sub(12);
            if let Some((number, first)) = self.run_in_chunks(count, step) {
                return self.run_take(number, first, count);
            }
            if count < PARTS {
                self.chunk_make(Kind::Pages)?;
                return self.run_take(self.room[0], 0, count);
            }
        }
        let chunks = count.div_ceil(PARTS);
        let first = self.chunks_take(chunks, align_log2.max(CHUNK_BITS))?;
        for number in first..first + chunks {
            let made = if large {
                self.large_open(number)
            } else {
                self.chunk_prepare(number, Kind::Pages).map(|()| self.chunk_open(number, Kind::Pages))
            };
            if let Err(error) = made {
                // The chunks made so far are in use and their pages are freed; the other chunks are freed directly.
                let pages = if large { (number - first) * PARTS } else { 0 };
                (0..pages).for_each(|page| self.frame_free(Frame(first * PARTS + page)));
                (number..first + chunks).for_each(|number| CHUNKS.with(|chunks| chunks.give(number)));
                return Err(error);
            }
        }
        if large {
            return Ok(Frame(first * PARTS));
        }
        for i in 0..chunks {
            let part = (count - i * PARTS).min(PARTS);
            if let Err(error) = self.run_take(first + i, 0, part) {
                (0..i * PARTS).for_each(|page| self.frame_free(Frame(first * PARTS + page)));
                return Err(error);
            }
        }
        Ok(Frame(first * PARTS))
    }

    /// A run of free parts in one of the first chunks of pages with room: the chunk, and the first part.
    fn run_in_chunks(&self, count: u32, step: u32) -> Option<(u32, u32)> {
        let mut number = self.room[0];
        for _ in 0..SEARCHED {
            let chunk = self.chunks.get(number as usize)?;
            let free = |i: u32| i >= u32::from(chunk.fresh) || bit(&chunk.free, i);
            let starts = (0..=PARTS - count).step_by(step as usize);
            // A used part rules out all starts up to it, so each part is checked about once.
            let mut after = 0;
            for start in starts {
                if start < after {
                    continue;
                }
                match (start..start + count).rev().find(|i| !free(*i)) {
                    None => return Some((number, start)),
                    Some(used) => after = used + 1,
                }
            }
            number = chunk.next;
        }
        None
    }

    /// Allocates `count` free parts of a chunk of pages from `first` on.
    fn run_take(&mut self, number: u32, first: u32, count: u32) -> Result<Frame, OutOfMemory> {
        let page = |i: u32| Frame(number * PARTS + i);
        for i in first..first + count {
            // Parts before the run that were never allocated become free parts.
            while u32::from(self.chunks[number as usize].fresh) < i {
                let skipped = self.fresh_page(number, first, i)?;
                set_bit(&mut self.chunks[number as usize].free, skipped, true);
            }
            let chunk = &mut self.chunks[number as usize];
            if u32::from(chunk.fresh) == i {
                self.fresh_page(number, first, i)?;
            } else {
                set_bit(&mut chunk.free, i, false);
                zero_page(Self::address(page(i)));
            }
            self.part_taken(number);
        }
        Ok(page(first))
    }

    /// The next page of a chunk that was never allocated, not yet counted as in use. On an error the parts from `first`
    /// up to `taken` are freed.
    fn fresh_page(&mut self, number: u32, first: u32, taken: u32) -> Result<u32, OutOfMemory> {
        let made = self.part_fresh(number, Kind::Pages);
        made.inspect_err(|_| (first..taken).for_each(|i| self.frame_free(Frame(number * PARTS + i))))
    }

    /// Allocates adjacent chunks that are free or have no parts in use.
    fn chunks_take(&mut self, count: u32, align_log2: u8) -> Result<u32, OutOfMemory> {
        let mut usable = Vec::new();
        fail_if_planned(MemoryRequest::Chunk)?;
        usable.room_exact(self.chunks.len())?;
        usable.extend(self.chunks.iter().map(|chunk| chunk.kind != Kind::None && chunk.live == 0));
        let first = CHUNKS.with(|chunks| chunks.find_run(count, align_log2, &mut usable)).ok_or(OutOfMemory)?;
        for number in first..first + count {
            if self.chunks[number as usize].kind != Kind::None {
                self.chunk_close(number);
                CHUNKS.with(|chunks| chunks.give(number));
            }
        }
        CHUNKS.with(|chunks| chunks.take_run(first, count)).ok_or(OutOfMemory)?;
        Ok(first)
    }
}
