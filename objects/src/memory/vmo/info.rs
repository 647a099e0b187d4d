//! What memory a VMO takes.
//!
//! A frame that several VMOs own counts in full for each of them as committed, for none of them as private, and for each
//! of them the same part as scaled. So the scaled bytes of all VMOs together are the memory that they take, whatever
//! has been cloned from what. What a window shows counts for its target alone.

use core::ops::Range;

use abi::Status;

use super::{Kind, Vmo};
use crate::core::object::{Id, Object};
use crate::kernel::Kernel;
use crate::machine::{Machine, PAGE};

/// Bits after the point in [`Memory::scaled`].
pub const FRACTION: u32 = 63;

/// What memory a VMO or a part of it takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Memory {
    /// Bytes.
    pub committed: u64,
    /// Those that nobody else owns too.
    pub private: u64,
    /// Its part of them, in units of 2^-63 bytes.
    pub scaled: u128,
}

impl Memory {
    /// [`Memory::scaled`] as whole bytes and the fraction of one, in units of 2^-63.
    pub fn scaled_bytes(&self) -> (u64, u64) {
        ((self.scaled >> FRACTION) as u64, (self.scaled & ((1 << FRACTION) - 1)) as u64)
    }
}

impl<M: Machine> Kernel<M> {
    /// What memory a VMO takes.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn vmo_memory(&self, id: Id<Vmo>) -> Result<Memory, Status> {
        let vmo = self.objects.get(id)?;
        Ok(if vmo.is_window() { Memory::default() } else { self.vmo_memory_of(id, 0..vmo.size / PAGE) })
    }

    /// What memory some pages of a VMO with pages of its own take.
    pub fn vmo_memory_of(&self, id: Id<Vmo>, pages: Range<u64>) -> Memory {
        let Ok(vmo) = self.objects.get(id) else { return Memory::default() };
        let Some(table) = vmo.pages().filter(|_| !matches!(vmo.kind, Kind::Physical { .. })) else {
            return Memory::default();
        };
        let all = pages.start == 0 && pages.end >= vmo.size / PAGE;
        let committed = if all { table.len() } else { table.count(pages.start, pages.end) } * PAGE;
        if !vmo.shares {
            return Memory { committed, private: committed, scaled: u128::from(committed) << FRACTION };
        }
        let (mut private, mut scaled) = (0, 0);
        // Mostly all have as many owners.
        let (mut last, mut part) = (0, 0);
        for frame in table.frames(pages.start, pages.end) {
            let owners = self.frames.owners(frame);
            private += if owners == 1 { PAGE } else { 0 };
            if owners != last {
                (last, part) = (owners, (u128::from(PAGE) << FRACTION) / u128::from(owners));
            }
            scaled += part;
        }
        Memory { committed, private, scaled }
    }

    /// Bytes committed in what a VMO shows, be they its own or another's.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn vmo_committed(&self, id: Id<Vmo>) -> Result<u64, Status> {
        let size = self.vmo_size(id)?;
        let (target, from) = self.vmo_resolve(id, 0)?;
        let pages = self.objects.get(target)?.pages();
        Ok(pages.map_or(0, |pages| pages.count(from / PAGE, (from + size) / PAGE)) * PAGE)
    }

    /// What a VMO is told as: a window that an IOBuffer was mapped through is nobody's business, its region is.
    pub fn vmo_told(&self, id: Id<Vmo>) -> Id<Vmo> {
        match self.objects.get(id) {
            Ok(Vmo { iob: Some(_), parent: Some(region), .. }) => *region,
            _ => id,
        }
    }
}

impl Vmo {
    /// Pages of memory that it owns, alone or with others.
    pub(crate) fn own_pages(&self) -> u64 {
        let memory = self.pages().filter(|_| !matches!(self.kind, Kind::Physical { .. }));
        memory.map_or(0, super::pages::Pages::len)
    }

    /// Bytes that the kernel itself needs for it.
    pub fn metadata_bytes(&self) -> usize {
        size_of::<Object>() + size_of::<Vmo>() + self.pages().map_or(0, super::pages::Pages::metadata_bytes)
    }
}
