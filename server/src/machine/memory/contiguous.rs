//! Pages whose numbers and physical addresses follow each other.
//!
//! Within a chunk page numbers and addresses go together, so up to 512 pages are a run of free parts in one chunk of
//! pages; only if the first few chunks with room have none, a chunk is taken anew. More pages take several chunks side
//! by side: those that are free, those whose parts have all come back, those that were never cut. Looking for them costs
//! a look at each chunk that there is, which is little beside what clearing so many pages costs.

use alloc::vec::Vec;

use super::*;
use objects::containers::growth::Grows;

/// Chunks with room that are searched for a run before one is taken anew.
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

    /// See [`objects::Machine::frames_contiguous`](objects::machine::Machine::frames_contiguous).
    pub fn frames_contiguous(&mut self, count: u32, align_log2: u8) -> Result<Frame, OutOfMemory> {
        granted(Want::Frame)?;
        // Whoever wants them aligned to large pages gets large pages.
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
                // Those made so far are chunks in use that is over; the rest goes back.
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
            // A part that is in use rules out all starts up to it: each part is looked at once, but for the steps.
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

    /// Takes `count` free parts of a chunk of pages from `first` on.
    fn run_take(&mut self, number: u32, first: u32, count: u32) -> Result<Frame, OutOfMemory> {
        let page = |i: u32| Frame(number * PARTS + i);
        for i in first..first + count {
            // Those before the run that were never handed out are from now on ones that came back.
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

    /// The next page of a chunk that was never handed out, not yet counted as in use. On an error the parts from `first`
    /// up to `taken` go back.
    fn fresh_page(&mut self, number: u32, first: u32, taken: u32) -> Result<u32, OutOfMemory> {
        let made = self.part_fresh(number, Kind::Pages);
        made.inspect_err(|_| (first..taken).for_each(|i| self.frame_free(Frame(number * PARTS + i))))
    }

    /// Takes chunks side by side out of whatever use they are in that has ended.
    fn chunks_take(&mut self, count: u32, align_log2: u8) -> Result<u32, OutOfMemory> {
        let mut usable = Vec::new();
        granted(Want::Chunk)?;
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
