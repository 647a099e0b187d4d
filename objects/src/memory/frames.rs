//! How many VMOs own a frame.
//!
//! Copies of memory share frames until someone writes. A frame that has one owner is that owner's to write; one that
//! has more is not to be written by anybody, and goes back to the machine when the last owner lets go of it. The counts
//! stand in one vector by the number of the frame, which grows with the highest number that was ever shared, so
//! frames that nobody shares cost nothing here.

use alloc::vec::Vec;

use crate::containers::growth::{Grows, OutOfMemory};
use crate::machine::{Frame, Machine};
use crate::memory::lookaside::Lookaside;
use crate::memory::vmo::Chunk;

/// The owners of all frames.
#[derive(Default)]
pub(crate) struct Frames {
    /// Owners beyond the first, by the number of the frame.
    more: Vec<u32>,
    /// A page of zeroes that is never written, for whoever reads what is not there. Taken when first needed and kept.
    pub zero: Option<Frame>,
    /// What was found of programs' addresses, which is only good as long as frames stay where they are.
    pub lookaside: Lookaside,
}

impl Frames {
    /// Owners of a frame that is in use.
    #[inline]
    pub fn owners(&self, frame: Frame) -> u64 {
        self.more.get(frame.0 as usize).map_or(1, |more| u64::from(*more) + 1)
    }

    /// Whether a frame has more than one owner.
    #[inline]
    pub fn is_shared(&self, frame: Frame) -> bool {
        self.more.get(frame.0 as usize).is_some_and(|more| *more != 0)
    }

    /// The frames of some pages get one more owner each. Whoever shares frames sees to it that what is known of them is forgotten.
    ///
    /// # Errors
    /// None has one more then.
    pub fn share(&mut self, pages: &Chunk) -> Result<(), OutOfMemory> {
        let last = pages.frames().map(|(_, frame)| frame.0).max();
        let missing = last.map_or(0, |last| (last as usize + 1).saturating_sub(self.more.len()));
        if missing > 0 {
            self.more.room(missing)?;
            self.more.resize(self.more.len() + missing, 0);
        }
        for (_, frame) in pages.frames() {
            // An owner takes four bytes of a heap that is smaller than as many times that.
            if let Some(more) = self.more.get_mut(frame.0 as usize) {
                *more = more.saturating_add(1);
            }
        }
        Ok(())
    }

    /// An owner lets go of a frame that it has mapped nowhere any more.
    #[inline]
    pub fn release<M: Machine>(&mut self, machine: &mut M, frame: Frame) {
        self.lookaside.forget_all();
        match self.more.get_mut(frame.0 as usize) {
            Some(more) if *more != 0 => *more -= 1,
            // What a device has stays the device's.
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
