//! Virtual memory address regions: the tree that says who may map what where.
//!
//! A VMAR owns a range of addresses and has its children by base: mappings and further VMARs, which never overlap
//! ([`children`]). Which VMAR's mapping an address is in the [`AddressSpace`](crate::memory::aspace::AddressSpace) knows. Where
//! something goes that may go anywhere is drawn by lot ([`place`]).

mod children;
mod edit;
mod op_range;
mod place;

use alloc::boxed::Box;

use abi::{Signals, Status};

use crate::containers::slab::Key;
use crate::core::noun::Noun;
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::kernel::nouns::Body;
use crate::machine::{Machine, PAGE, Perm};
use crate::memory::aspace::MAPPING;
use crate::memory::aspace::Mapping;
use crate::memory::vmo::Vmo;
pub(crate) use children::{Child, Children, Nodes};
pub use op_range::RangeOp;
pub(crate) use place::Lots;
pub use place::Place;

/// What may be mapped in a VMAR.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)]
pub struct VmarFlags {
    pub specific: bool,
    pub read: bool,
    pub write: bool,
    pub execute: bool,
}

/// A VMAR.
pub struct Vmar {
    /// First address.
    pub base: u64,
    /// Length in bytes.
    pub len: u64,
    /// What may be mapped in it.
    pub flags: VmarFlags,
    /// Its address space; none once it is destroyed.
    pub aspace: Option<Key>,
    pub(crate) parent: Option<Id<Vmar>>,
    /// VMARs that it lies in.
    pub(crate) depth: u32,
    pub(crate) children: Children,
    /// Where the search for room starts.
    start: u64,
    /// From here on places are drawn first.
    hint: u64,
}

impl Noun for Vmar {
    const TYPE: u32 = abi::ZX_OBJ_TYPE_VMAR;
    // With its place in the region that it is in, and in its address space.
    const BYTES: u64 = size_of::<Vmar>() as u64 + MAPPING;
}

impl Vmar {
    pub(crate) fn end(&self) -> u64 {
        self.base + self.len
    }

    /// Whether it is all of its address space.
    pub fn is_root(&self) -> bool {
        self.parent.is_none()
    }

    /// Whether a range lies in it.
    pub fn covers(&self, base: u64, len: u64) -> bool {
        base >= self.base && base.checked_add(len).is_some_and(|end| end <= self.end())
    }
}

/// What is to be mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MapRequest {
    /// The VMO.
    pub vmo: Id<Vmo>,
    /// Where in it.
    pub offset: u64,
    /// How much, in bytes; rounded up to pages.
    pub len: u64,
    /// What the mapping allows.
    pub perm: Perm,
    /// What it may be made to allow, by the handle's rights.
    pub max: Perm,
    /// The mapping can be neither changed nor removed.
    pub fixed: bool,
}

impl<M: Machine> Kernel<M> {
    pub(crate) fn vmar_new(
        &mut self,
        aspace: Key,
        parent: Option<Id<Vmar>>,
        base: u64,
        len: u64,
        flags: VmarFlags,
    ) -> Result<Id<Vmar>, Status> {
        let start = self.vmar_start(aspace, base, len);
        let children = Children::new(base, base + len);
        let depth = parent.map_or(Ok(0), |parent| self.objects.get(parent).map(|vmar| vmar.depth.saturating_add(1)))?;
        let vmar = Vmar { base, len, flags, aspace: Some(aspace), parent, depth, children, start, hint: start };
        let id = self.create(Signals::NONE, Body::Vmar(Box::new(vmar)))?;
        self.add_ref(id.object());
        Ok(id)
    }

    fn vmar_alive(&self, id: Id<Vmar>) -> Result<(&Vmar, Key), Status> {
        let vmar = self.objects.get(id)?;
        let aspace = vmar.aspace.filter(|&aspace| self.aspaces.get(aspace).is_some_and(|space| space.root.is_some()));
        Ok((vmar, aspace.ok_or(Status::BAD_STATE)?))
    }

    /// `vmar_allocate`: a VMAR within a VMAR, of whole pages.
    ///
    /// # Errors
    /// `BAD_STATE`: destroyed. `INVALID_ARGS`: not within the parent. `ALREADY_EXISTS`, `NO_RESOURCES`: no room.
    /// `NO_MEMORY`.
    pub fn vmar_allocate(
        &mut self,
        parent: Id<Vmar>,
        place: Place,
        len: u64,
        flags: VmarFlags,
    ) -> Result<(Id<Vmar>, u64), Status> {
        let len = len.checked_next_multiple_of(PAGE).filter(|&len| len > 0).ok_or(Status::INVALID_ARGS)?;
        let (base, aspace) = self.vmar_place(parent, place, len)?;
        let id = self.vmar_new(aspace, Some(parent), base, len, flags)?;
        let node = self.nodes.make(&mut self.machine, Child::Vmar(id, base, base + len));
        self.objects.get_mut(parent)?.children.insert(node);
        if let Some(space) = self.aspaces.get_mut(aspace) {
            space.vmar_begins(id, base, base + len, parent);
        }
        Ok((id, base))
    }

    /// `vmar_map`.
    ///
    /// # Errors
    /// As [`Kernel::vmar_allocate`]; `OUT_OF_RANGE`: the VMO's offset is absurd.
    pub fn vmar_map(&mut self, id: Id<Vmar>, place: Place, request: MapRequest) -> Result<u64, Status> {
        let mut mapping = self.mapping_wanted(id, &request)?;
        let (base, aspace) = self.vmar_place(id, place, mapping.len)?;
        self.aspace_pays(aspace)?;
        if let Place::Over(_) = place {
            self.vmar_clear(id, base, mapping.len)?;
        }
        mapping.base = base;
        self.mapping_insert(aspace, mapping);
        if mapping.fixed
            && let Some(space) = self.aspaces.get_mut(aspace)
        {
            space.fixed = Some((base, mapping.end()));
        }
        Ok(base)
    }

    /// A mapping as it is asked for, but for where it goes to.
    #[inline(always)]
    fn mapping_wanted(&self, id: Id<Vmar>, request: &MapRequest) -> Result<Mapping, Status> {
        let len = request.len.checked_next_multiple_of(PAGE).ok_or(Status::OUT_OF_RANGE)?;
        if len == 0 || !request.offset.is_multiple_of(PAGE) {
            return Err(Status::INVALID_ARGS);
        }
        let end = request.offset.checked_add(len).ok_or(Status::OUT_OF_RANGE)?;
        let (vmo, offset) = self.vmo_resolve(request.vmo, request.offset)?;
        if vmo != request.vmo {
            offset.checked_add(len).ok_or(Status::OUT_OF_RANGE)?;
            // A window ends where it ends, also when what it shows goes on.
            if self.vmo_is_slice(request.vmo) && end > self.vmo_size(request.vmo)? {
                return Err(Status::OUT_OF_RANGE);
            }
        }
        Ok(Mapping {
            base: 0,
            len,
            vmo,
            offset,
            named: request.vmo,
            named_offset: request.offset,
            perm: request.perm,
            max: request.max,
            vmar: id,
            fixed: request.fixed,
            content_only: false,
            copied: false,
            shown: false,
        })
    }

    /// A portion of [`Kernel::vmar_map`] over what is mapped, of which `done` bytes are done. Each address shows what it did or what it
    /// is to, never nothing. Says where, and how many bytes are done then, if some are left.
    ///
    /// # Errors
    /// As `vmar_map`.
    pub fn vmar_map_over_portion(
        &mut self,
        id: Id<Vmar>,
        offset: u64,
        (request, content_only): (MapRequest, bool),
        done: u64,
    ) -> Result<(u64, Option<u64>), Status> {
        let wanted = Mapping { content_only, ..self.mapping_wanted(id, &request)? };
        let (base, aspace) = self.vmar_place(id, Place::Over(offset), wanted.len)?;
        self.aspace_pays(aspace)?;
        let (at, end) = (base + done, base + wanted.len);
        if done == 0 {
            self.vmar_check_clear(id, base, wanted.len, false)?;
        }
        let cleared = self.vmar_clear_portion(id, (at, end), at, false);
        // What is free now is mapped, also when clearing has failed on the way. Others may have put something there since the last
        // portion, and it may begin before this one does.
        let children = &self.objects.get(id)?.children;
        let next = children.at(at).or_else(|| children.from(at)).map_or(end, |child| child.base().clamp(at, end));
        let before = at.checked_sub(1).and_then(|before| self.mapping_at(aspace, before)).copied();
        let all = Mapping { base, len: next - base, ..wanted };
        if next > at {
            match before.filter(|&before| before == Mapping { len: done, shown: before.shown, ..all }) {
                Some(Mapping { shown, .. }) => {
                    // The reference that removal lets go of is kept by what comes in.
                    self.mapping_remove(id, base);
                    self.mapping_insert(aspace, Mapping { shown, ..all });
                }
                None => {
                    let (offset, named_offset) = (all.offset + done, all.named_offset + done);
                    self.mapping_insert(aspace, Mapping { base: at, len: next - at, offset, named_offset, ..all });
                }
            }
        }
        cleared?;
        Ok((base, Some(next - base).filter(|_| next < end)))
    }

    /// The mapping at an address ends, for accesses, where the content of its VMO does.
    pub fn mapping_ends_with_content(&mut self, aspace: Key, address: u64) {
        self.mapping_change(aspace, address, |mapping| mapping.content_only = true);
    }

    /// Whether the vDSO's code is mapped in the address space of a VMAR.
    ///
    /// # Errors
    /// `BAD_STATE`: the VMAR is destroyed.
    pub fn vdso_is_mapped(&self, id: Id<Vmar>) -> Result<bool, Status> {
        let (_, aspace) = self.vmar_alive(id)?;
        Ok(self.aspaces.get(aspace).is_some_and(|s| s.vdso_base != 0))
    }

    /// Notes where the vDSO's image starts in the address space of a VMAR.
    ///
    /// # Errors
    /// `BAD_STATE`: the VMAR is destroyed.
    pub fn vdso_mapped(&mut self, id: Id<Vmar>, base: u64) -> Result<(), Status> {
        let (_, aspace) = self.vmar_alive(id)?;
        if let Some(space) = self.aspaces.get_mut(aspace) {
            space.vdso_base = base;
        }
        Ok(())
    }

    #[inline]
    fn mapping_insert(&mut self, aspace: Key, mapping: Mapping) {
        let node = self.nodes.make(&mut self.machine, Child::Mapping(mapping));
        if let Ok(vmar) = self.objects.get_mut(mapping.vmar) {
            vmar.children.insert(node);
        }
        // Nothing was there, so no fault has looked there: what is known of the last one holds.
        self.mapping_take_up(aspace, &mapping);
    }

    fn mapping_remove(&mut self, vmar: Id<Vmar>, base: u64) {
        self.mapping_remove_if(vmar, base, |_| true);
    }

    /// Removes the mapping that begins at an address, if it is as it should be, and says which it was, and in which address
    /// space.
    #[inline]
    fn mapping_remove_if(
        &mut self,
        vmar: Id<Vmar>,
        base: u64,
        is: impl FnOnce(&Mapping) -> bool,
    ) -> Option<(Mapping, Key)> {
        let vmar = self.objects.get_mut(vmar).ok()?;
        let aspace = vmar.aspace?;
        let is = |child: &Child| matches!(child, Child::Mapping(mapping) if is(mapping));
        let Some(Child::Mapping(mapping)) = vmar.children.remove_if(&mut self.nodes, base, is) else { return None };
        vmar.has_room_at(base);
        if let Some(space) = self.aspaces.get_mut(aspace) {
            space.last = None;
        }
        self.mapping_let_go(aspace, &mapping);
        Some((mapping, aspace))
    }
}

#[cfg(test)]
mod tests;
