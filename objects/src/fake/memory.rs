//! Memory of the fake machine.

use alloc::boxed::Box;

use super::{FakeMachine, MEMORY, ask};
use crate::containers::failure_injection::MemoryRequest;
use crate::containers::growth::OutOfMemory;
use crate::machine::{AddressSpaces, Frame, LARGE_PAGES, MachineUsage, Memory, PAGE, PAGE_SIZE};

impl Memory for FakeMachine {
    fn frame_alloc(&mut self) -> Result<Frame, OutOfMemory> {
        ask(MemoryRequest::Frame)?;
        if self.frames_in_use() >= self.limit {
            return Err(OutOfMemory);
        }
        let zero = Some(Box::new([0; PAGE_SIZE]));
        // Freed frames of a large page are reused singly only when no other frame is left: the page is split then.
        let small = self.free.iter().rposition(|&n| !self.frame_is_large(Frame(n)));
        let none = small.is_none() && self.frames.len() < self.limit;
        match small.or_else(|| self.free.len().checked_sub(1).filter(|_| !none)).map(|at| self.free.remove(at)) {
            Some(n) => {
                if self.frame_is_large(Frame(n)) {
                    self.split(n - n % LARGE_PAGES as u32);
                }
                self.frames[n as usize] = zero;
                Ok(Frame(n))
            }
            None => {
                self.frames.push(zero);
                Ok(Frame(self.frames.len() as u32 - 1))
            }
        }
    }

    fn frames_contiguous(&mut self, count: u32, align_log2: u8) -> Result<Frame, OutOfMemory> {
        ask(MemoryRequest::Frame)?;
        if self.limit - self.frames_in_use() < count as usize {
            return Err(OutOfMemory);
        }
        let step = 1usize << align_log2.saturating_sub(12).min(28);
        let fits = |first: &usize| self.frames.iter().skip(*first).take(count as usize).all(Option::is_none);
        let first = (0..=self.frames.len() + step).step_by(step).find(fits).expect("there is room at the end");
        while self.frames.len() < first + count as usize {
            self.free.push(self.frames.len() as u32);
            self.frames.push(None);
        }
        for n in first..first + count as usize {
            self.frames[n] = Some(Box::new([0; PAGE_SIZE]));
        }
        self.free.retain(|n| self.frames[*n as usize].is_none());
        let pages = LARGE_PAGES as usize;
        if step >= pages && (count as usize).is_multiple_of(pages) {
            self.large.extend((first..first + count as usize).step_by(pages).map(|n| n as u32));
        }
        Ok(Frame(first as u32))
    }

    fn frame_address(&self, frame: Frame) -> u64 {
        if frame.is_device() { self.devices.address(frame) } else { MEMORY + u64::from(frame.0) * PAGE }
    }

    fn frame_free(&mut self, frame: Frame) {
        assert!(self.frames[frame.0 as usize].take().is_some(), "frame {frame:?} freed twice");
        let mapped = self.mapped.values().any(|space| space.values().any(|(f, _)| *f == frame));
        assert!(!mapped, "frame {frame:?} freed while it is mapped");
        self.free.push(frame.0);
        let first = frame.0 - frame.0 % LARGE_PAGES as u32;
        if (first..first + LARGE_PAGES as u32).all(|n| self.frames.get(n as usize).is_none_or(Option::is_none)) {
            self.large.remove(&first);
        }
    }

    fn frame_read(&self, frame: Frame, offset: usize, out: &mut [u8]) {
        let page = self.frames[frame.0 as usize].as_ref().expect("frame in use");
        out.copy_from_slice(&page[offset..offset + out.len()]);
    }

    fn frame_write(&mut self, frame: Frame, offset: usize, data: &[u8]) {
        let page = self.frames[frame.0 as usize].as_mut().expect("frame in use");
        page[offset..offset + data.len()].copy_from_slice(data);
    }

    fn frame_zero(&mut self, frame: Frame, offset: usize, len: usize) {
        let page = self.frames[frame.0 as usize].as_mut().expect("frame in use");
        page[offset..offset + len].fill(0);
    }

    fn frame_move(&mut self, from: Frame, from_offset: usize, to: Frame, to_offset: usize, len: usize) {
        let part =
            self.frames[from.0 as usize].as_ref().expect("frame in use")[from_offset..from_offset + len].to_vec();
        self.frame_write(to, to_offset, &part);
    }

    fn frame_copy(&mut self, from: Frame, to: Frame) {
        let page = *self.frames[from.0 as usize].as_ref().expect("frame in use").as_ref();
        self.frame_write(to, 0, &page);
    }

    fn memory(&self) -> (u64, u64) {
        (self.frames_in_use() as u64 * PAGE, self.limit as u64 * PAGE)
    }

    fn usage(&self) -> MachineUsage {
        MachineUsage { frames: self.frames_in_use() as u64, units: 0, slots: 0 }
    }

    /// Never, so that each call's request counts.
    fn fast_path_allowed(&self) -> bool {
        false
    }

    fn force_slow_path(&mut self, _on: bool) {}

    fn heap_reserve(&mut self) -> Result<(), OutOfMemory> {
        ask(MemoryRequest::Reserve)?;
        if self.full { Err(OutOfMemory) } else { Ok(()) }
    }

    fn heap_last_reserve(&mut self) -> bool {
        self.rest
    }
}
