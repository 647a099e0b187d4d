//! Memory usage of a VMO.
//!
//! A frame that several VMOs own counts for each of them in full as committed and not at all as private; scaled bytes
//! divide it equally among them. So the scaled bytes of all VMOs add up to the memory that they use, whatever was
//! cloned from what. Pages that a window shows count only for its target.

use core::ops::Range;

use abi::Status;

use super::{Kind, Vmo};
use crate::core::object::{Id, Object};
use crate::kernel::Kernel;
use crate::machine::{Machine, PAGE};

/// Number of fraction bits in [`Memory::scaled`].
pub const FRACTION: u32 = 63;

/// Memory usage of a VMO or a part of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Memory {
    /// Bytes in frames that it owns.
    pub committed: u64,
    /// Bytes of those that no other VMO owns.
    pub private: u64,
    /// Its share of them, in units of 2^-63 bytes.
    pub scaled: u128,
}

impl Memory {
    /// [`Memory::scaled`] as whole bytes and a fraction in units of 2^-63.
    pub fn scaled_bytes(&self) -> (u64, u64) {
        ((self.scaled >> FRACTION) as u64, (self.scaled & ((1 << FRACTION) - 1)) as u64)
    }
}

impl<M: Machine> Kernel<M> {
    /// Memory usage of a VMO.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn vmo_memory(&self, id: Id<Vmo>) -> Result<Memory, Status> {
        let vmo = self.objects.get(id)?;
        Ok(if vmo.is_window() { Memory::default() } else { self.vmo_memory_of(id, 0..vmo.size / PAGE) })
    }

    /// Memory usage of a range of pages of a VMO with its own pages.
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
        // Most frames have the same number of owners as the one before.
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

    /// Bytes committed in the pages that a VMO shows, its own or its target's.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn vmo_committed(&self, id: Id<Vmo>) -> Result<u64, Status> {
        let size = self.vmo_size(id)?;
        let (target, from) = self.vmo_resolve(id, 0)?;
        let pages = self.objects.get(target)?.pages();
        Ok(pages.map_or(0, |pages| pages.count(from / PAGE, (from + size) / PAGE)) * PAGE)
    }

    /// The VMO that reports name: for a window through which an IOBuffer was mapped, its region.
    pub fn vmo_to_report(&self, id: Id<Vmo>) -> Id<Vmo> {
        match self.objects.get(id) {
            Ok(Vmo { iob: Some(_), parent: Some(region), .. }) => *region,
            _ => id,
        }
    }
}

impl Vmo {
    /// Number of pages of memory that it owns, alone or with others.
    pub(crate) fn own_pages(&self) -> u64 {
        let memory = self.pages().filter(|_| !matches!(self.kind, Kind::Physical { .. }));
        memory.map_or(0, super::pages::Pages::len)
    }

    /// Bytes of kernel memory that it takes.
    pub fn metadata_bytes(&self) -> usize {
        size_of::<Object>() + size_of::<Vmo>() + self.pages().map_or(0, super::pages::Pages::metadata_bytes)
    }
}
