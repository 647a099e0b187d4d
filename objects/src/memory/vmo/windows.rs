//! Slices and references: VMOs that show the pages of another one.

use abi::Status;

use super::{Backing, Vmo, range, round_up};
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::{Machine, PAGE};

impl<M: Machine> Kernel<M> {
    /// The VMO with its own pages for an offset of a VMO, and the offset there.
    #[inline]
    pub(crate) fn vmo_resolve(&self, vmo: Id<Vmo>, offset: u64) -> Result<(Id<Vmo>, u64), Status> {
        match self.objects.get(vmo)?.backing {
            Backing::Pages(_) => Ok((vmo, offset)),
            Backing::Window { target, offset: from, .. } => {
                Ok((target, offset.checked_add(from).ok_or(Status::OUT_OF_RANGE)?))
            }
        }
    }

    /// The size of a VMO in bytes, a multiple of the page size.
    ///
    /// # Errors
    /// None that a caller can cause.
    #[inline]
    pub fn vmo_size(&self, id: Id<Vmo>) -> Result<u64, Status> {
        let vmo = self.objects.get(id)?;
        match vmo.backing {
            Backing::Window { target, whole: true, .. } => Ok(self.objects.get(target)?.size),
            _ => Ok(vmo.size),
        }
    }

    /// Whether a VMO is a slice, which ends at its own size even if its target is longer.
    pub(crate) fn vmo_is_slice(&self, id: Id<Vmo>) -> bool {
        self.objects.get(id).is_ok_and(|vmo| matches!(vmo.backing, Backing::Window { whole: false, .. }))
    }

    /// `vmo_create_child` for slices.
    ///
    /// # Errors
    /// `INVALID_ARGS`: the slice does not start at a page, or is not within its parent. `OUT_OF_RANGE`: larger than a
    /// VMO can be. `NOT_SUPPORTED`: the parent is resizable or discardable. `NO_MEMORY`.
    pub fn vmo_create_slice(&mut self, parent: Id<Vmo>, offset: u64, size: u64) -> Result<Id<Vmo>, Status> {
        let rounded = round_up(size)?;
        if !offset.is_multiple_of(PAGE) {
            return Err(Status::INVALID_ARGS);
        }
        range(offset, rounded, self.vmo_size(parent)?).map_err(|_| Status::INVALID_ARGS)?;
        let (target, _) = self.vmo_resolve(parent, 0)?;
        let of = self.objects.get(target)?;
        if of.resizable || of.discard.is_some() {
            return Err(Status::NOT_SUPPORTED);
        }
        let (_, offset) = self.vmo_resolve(parent, offset)?;
        let child = self.vmo_new(rounded, size, false, Backing::Window { target, offset, whole: false })?;
        self.add_ref(parent.object());
        self.vmo_adopt(parent, child);
        Ok(child)
    }

    /// `vmo_create_child` for references: all of a VMO, whatever its current size.
    ///
    /// # Errors
    /// `NOT_SUPPORTED`: the parent is a slice or discardable, or a resizable reference to a parent of fixed size was
    /// asked for. `NO_MEMORY`.
    pub fn vmo_create_reference(&mut self, parent: Id<Vmo>, resizable: bool) -> Result<Id<Vmo>, Status> {
        if self.vmo_is_slice(parent) || resizable && !self.objects.get(parent)?.resizable {
            return Err(Status::NOT_SUPPORTED);
        }
        let (target, offset) = self.vmo_resolve(parent, 0)?;
        let of = self.objects.get(target)?;
        if of.discard.is_some() {
            return Err(Status::NOT_SUPPORTED);
        }
        let (size, content_size) = (of.size, of.content_size);
        let child = self.vmo_new(size, content_size, resizable, Backing::Window { target, offset, whole: true })?;
        self.add_ref(parent.object());
        self.vmo_adopt(parent, child);
        Ok(child)
    }
}
