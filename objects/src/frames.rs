//! How many VMOs own a frame.
//!
//! Copies of memory share frames until someone writes. A frame that has one owner is that owner's to write; one that
//! has more is not to be written by anybody, and goes back to the machine when the last owner lets go of it. The counts
//! stand in one vector by the number of the frame, which grows with the highest number that was ever shared, so
//! frames that nobody shares cost nothing here.

use alloc::vec::Vec;

use crate::machine::{Frame, Machine, OutOfMemory};
use crate::recent::Recent;
use crate::refusal::Grows;

/// The owners of all frames.
#[derive(Default)]
pub(crate) struct Frames {
    /// Owners beyond the first, by the number of the frame.
    more: Vec<u32>,
    /// A page of zeroes that is never written, for whoever reads what is not there. Taken when first needed and kept.
    pub zero: Option<Frame>,
    /// What was found of programs' addresses, which is only good as long as frames stay where they are.
    pub recent: Recent,
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

    /// Makes room, so that [`Frames::share`] cannot fail for this frame.
    pub fn reserve(&mut self, frame: Frame) -> Result<(), OutOfMemory> {
        match self.more.get(frame.0 as usize) {
            Some(&more) => (more < u32::MAX).then_some(()).ok_or(OutOfMemory),
            None => {
                let len = (frame.0 as usize).checked_add(1).ok_or(OutOfMemory)?;
                self.more.room(len - self.more.len())?;
                self.more.resize(len, 0);
                Ok(())
            }
        }
    }

    /// A frame for which room was made gets one more owner.
    #[inline]
    pub fn share(&mut self, frame: Frame) {
        self.recent.forget_all();
        if let Some(more) = self.more.get_mut(frame.0 as usize) {
            *more = more.saturating_add(1);
        }
    }

    /// An owner lets go of a frame that it has mapped nowhere any more.
    #[inline]
    pub fn release<M: Machine>(&mut self, machine: &mut M, frame: Frame) {
        self.recent.forget_all();
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
