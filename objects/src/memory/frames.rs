//! Reference counts of frames: how many VMOs own each.
//!
//! Clones share frames copy-on-write. A frame with one owner is writable by that owner; a frame with several owners is
//! never written, and is freed when the last owner releases it. The counts are in a vector indexed by frame number,
//! which grows up to the highest number ever shared, so frames that are not shared cost nothing here.

use alloc::vec::Vec;

use crate::containers::growth::{Grows, OutOfMemory};
use crate::machine::{Frame, Machine};
use crate::memory::lookaside::Lookaside;
use crate::memory::vmo::Chunk;

/// Ownership of all frames.
#[derive(Default)]
pub(crate) struct Frames {
    /// Number of owners beyond the first, by frame number.
    more: Vec<u32>,
    /// A page of zeroes that is never written, for reads of absent pages. Allocated when first needed, then kept.
    pub zero: Option<Frame>,
    /// Lookaside cache of address look-ups, valid as long as frames stay where they are.
    pub lookaside: Lookaside,
}

impl Frames {
    /// Number of owners of a frame in use.
    #[inline]
    pub fn owners(&self, frame: Frame) -> u64 {
        self.more.get(frame.0 as usize).map_or(1, |more| u64::from(*more) + 1)
    }

    /// Whether a frame has more than one owner.
    #[inline]
    pub fn is_shared(&self, frame: Frame) -> bool {
        self.more.get(frame.0 as usize).is_some_and(|more| *more != 0)
    }

    /// Adds one owner to each frame of some pages. The caller invalidates cached look-ups of the frames.
    ///
    /// # Errors
    /// No frame then has another owner.
    pub fn share(&mut self, pages: &Chunk) -> Result<(), OutOfMemory> {
        let last = pages.frames().map(|(_, frame)| frame.0).max();
        let missing = last.map_or(0, |last| (last as usize + 1).saturating_sub(self.more.len()));
        if missing > 0 {
            self.more.room(missing)?;
            self.more.resize(self.more.len() + missing, 0);
        }
        for (_, frame) in pages.frames() {
            // Never saturates: each owner takes four bytes of a heap that is smaller than 4 times the maximum count.
            if let Some(more) = self.more.get_mut(frame.0 as usize) {
                *more = more.saturating_add(1);
            }
        }
        Ok(())
    }

    /// Releases a frame that its owner has unmapped everywhere.
    #[inline]
    pub fn release<M: Machine>(&mut self, machine: &mut M, frame: Frame) {
        self.lookaside.forget_all();
        match self.more.get_mut(frame.0 as usize) {
            Some(more) if *more != 0 => *more -= 1,
            // Device memory is never freed.
            _ if frame.is_device() => {}
            _ => machine.frame_free(frame),
        }
    }

    /// The page of zeroes.
    pub fn zero<M: Machine>(&mut self, machine: &mut M) -> Result<Frame, OutOfMemory> {
        match self.zero {
            Some(frame) => Ok(frame),
            None => Ok(*self.zero.insert(machine.frame_alloc()?)),
        }
    }
}
