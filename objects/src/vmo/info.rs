//! What memory a VMO takes.

use abi::Status;

use super::{Backing, Vmo};
use crate::kernel::Kernel;
use crate::machine::{Machine, PAGE};
use crate::object::{Id, Object};

impl<M: Machine> Kernel<M> {
    /// Bytes committed in a VMO, shared or not.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn vmo_committed(&self, id: Id<Vmo>) -> Result<u64, Status> {
        let size = self.vmo_size(id)?;
        let (target, from) = self.vmo_resolve(id, 0)?;
        Ok(self.vmo_count(target, from / PAGE..(from + size) / PAGE) * PAGE)
    }

    /// How many of the pages of a VMO are committed.
    pub fn vmo_count(&self, id: Id<Vmo>, pages: core::ops::Range<u64>) -> u64 {
        match self.objects.get(id).map(|vmo| (&vmo.backing, vmo.size)) {
            Ok((Backing::Pages(p), size)) if pages.start == 0 && pages.end >= size / PAGE => p.len(),
            Ok((Backing::Pages(p), _)) => p.count(pages.start, pages.end),
            _ => 0,
        }
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
    /// Bytes that the kernel itself needs for it.
    pub fn metadata_bytes(&self) -> usize {
        size_of::<Object>() + size_of::<Vmo>() + self.pages().map_or(0, super::pages::Pages::metadata_bytes)
    }
}
