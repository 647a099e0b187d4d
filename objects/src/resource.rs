//! Resources: the right to ask for parts of the computer.
//!
//! A resource is a range of a kind (addresses, I/O ports, interrupts, ...). The root resource is of every kind. One
//! resource can be made exclusive: no other may then be made that overlaps it.

use alloc::boxed::Box;
use alloc::vec::Vec;

use abi::{Signals, Status, ZX_RSRC_FLAG_EXCLUSIVE, ZX_RSRC_KIND_ROOT};

use crate::kernel::Kernel;
use crate::machine::Machine;
use crate::name::Name;
use crate::object::{Body, Id, ObjectId};

/// A resource.
pub struct Resource {
    /// `ZX_RSRC_KIND_*`.
    pub kind: u32,
    /// `ZX_RSRC_FLAG_*`.
    pub flags: u32,
    /// Start of the range.
    pub base: u64,
    /// Length of the range; 0 for the root resource, which has none.
    pub size: u64,
    /// Its name.
    pub name: Name,
}

/// Which resources there are, to keep exclusive ones apart.
#[derive(Default)]
pub struct RangeBook {
    all: Vec<ObjectId>,
}

impl Resource {
    /// Whether a range of a kind lies within it.
    pub fn covers(&self, kind: u32, base: u64, size: u64) -> bool {
        if self.kind == ZX_RSRC_KIND_ROOT {
            return true;
        }
        let Some(offset) = base.checked_sub(self.base) else { return false };
        self.kind == kind && self.size.checked_sub(offset).is_some_and(|left| size <= left)
    }

    fn overlaps(&self, kind: u32, base: u64, size: u64) -> bool {
        self.kind == kind && base < self.base.saturating_add(self.size) && self.base < base.saturating_add(size)
    }
}

impl<M: Machine> Kernel<M> {
    /// The resource that all others come from.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn resource_root(&mut self) -> Result<Id<Resource>, Status> {
        let root = Resource { kind: ZX_RSRC_KIND_ROOT, flags: 0, base: 0, size: 0, name: Name::new(b"root") };
        self.create(Signals::NONE, Body::Resource(Box::new(root)))
    }

    /// `resource_create`: a resource out of another one.
    ///
    /// # Errors
    /// `ACCESS_DENIED`: not within the parent. `INVALID_ARGS`: the range is absurd. `NOT_FOUND`: it overlaps one that
    /// is exclusive, or wants to be exclusive and overlaps any. `NO_MEMORY`.
    pub fn resource_create(&mut self, parent: Id<Resource>, resource: Resource) -> Result<Id<Resource>, Status> {
        let p = self.objects.get(parent)?;
        resource.base.checked_add(resource.size).ok_or(Status::INVALID_ARGS)?;
        if p.flags & ZX_RSRC_FLAG_EXCLUSIVE != 0 || !p.covers(resource.kind, resource.base, resource.size) {
            return Err(Status::ACCESS_DENIED);
        }
        let objects = &self.objects;
        let exclusive = resource.flags & ZX_RSRC_FLAG_EXCLUSIVE != 0;
        let clash = self.ranges.all.iter().any(|&id| {
            let Ok(other) = objects.typed::<Resource>(id).and_then(|id| objects.get(id)) else { return false };
            (exclusive || other.flags & ZX_RSRC_FLAG_EXCLUSIVE != 0)
                && other.overlaps(resource.kind, resource.base, resource.size)
        });
        if clash {
            return Err(Status::NOT_FOUND);
        }
        self.ranges.all.try_reserve(1).map_err(|_| Status::NO_MEMORY)?;
        let id: Id<Resource> = self.create(Signals::NONE, Body::Resource(Box::new(resource)))?;
        self.ranges.all.push(id.object());
        Ok(id)
    }

    pub(crate) fn resource_end(&mut self, id: Id<Resource>) {
        if let Some(place) = self.ranges.all.iter().position(|&other| other == id.object()) {
            self.ranges.all.swap_remove(place);
        }
    }
}
