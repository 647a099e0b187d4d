//! Virtual memory address regions: the tree that says which mappings are allowed where.
//!
//! A VMAR owns a range of addresses and has its children by base address: mappings and further VMARs, which never
//! overlap ([`children`]). The [`AddressSpace`](crate::memory::aspace::AddressSpace) finds the innermost VMAR of an
//! address. Free addresses are chosen at random ([`place`]).

mod children;
mod edit;
mod op_range;
pub mod page_table;
mod place;

use alloc::boxed::Box;

use abi::{Signals, Status};

use crate::containers::slab::Key;
use crate::core::noun::{Noun, ObjectOps};
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::{Machine, PAGE, Perm};
use crate::memory::aspace::MAPPING;
use crate::memory::aspace::Mapping;
use crate::memory::vmo::Vmo;
pub(crate) use children::{Child, Children, Nodes};
pub use op_range::RangeOp;
pub use place::Place;
pub(crate) use place::RandomBytes;

/// What mappings a VMAR allows.
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
    /// What mappings it allows.
    pub flags: VmarFlags,
    /// Its address space; none once it is destroyed.
    pub aspace: Option<Key>,
    pub(crate) parent: Option<Id<Vmar>>,
    /// Number of VMARs above it.
    pub(crate) depth: u32,
    pub(crate) children: Children,
    /// There are page tables among the children, or were.
    has_page_tables: bool,
    /// Where the search for free addresses starts.
    start: u64,
    /// Placement hint: random addresses are first tried above it.
    hint: u64,
}

impl Noun for Vmar {
    const TYPE: u32 = abi::ZX_OBJ_TYPE_VMAR;
    // With its place in the region that it is in, and in its address space.
    const BYTES: u64 = size_of::<Vmar>() as u64 + MAPPING;
}

impl ObjectOps for Vmar {}

impl Vmar {
    pub(crate) fn end(&self) -> u64 {
        self.base + self.len
    }

    /// Whether it is the root VMAR of its address space.
    pub fn is_root(&self) -> bool {
        self.parent.is_none()
    }

    /// Whether a range lies in it.
    pub fn covers(&self, base: u64, len: u64) -> bool {
        base >= self.base && base.checked_add(len).is_some_and(|end| end <= self.end())
    }
}

/// Parameters of a new mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MapRequest {
    /// The VMO.
    pub vmo: Id<Vmo>,
    /// Offset in the VMO.
    pub offset: u64,
    /// Length in bytes; rounded up to pages.
    pub len: u64,
    /// Initial permissions of the mapping.
    pub perm: Perm,
    /// Maximum permissions that `vmar_protect` can give it, from the rights of the VMO's handle.
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
        let vmar = Vmar {
            base,
            len,
            flags,
            aspace: Some(aspace),
            parent,
            depth,
            children,
            has_page_tables: false,
            start,
            hint: start,
        };
        let id = self.create(Signals::NONE, Box::new(vmar))?;
        self.add_ref(id.object());
        Ok(id)
    }

    fn vmar_alive(&self, id: Id<Vmar>) -> Result<(&Vmar, Key), Status> {
        let vmar = self.objects.get(id)?;
        let aspace = vmar.aspace.filter(|&aspace| self.aspaces.get(aspace).is_some_and(|space| space.root.is_some()));
        Ok((vmar, aspace.ok_or(Status::BAD_STATE)?))
    }

    /// `vmar_allocate`: creates a VMAR of whole pages within a VMAR.
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
    /// As [`Kernel::vmar_allocate`]; `OUT_OF_RANGE`: the offset in the VMO is invalid.
    pub fn vmar_map(&mut self, id: Id<Vmar>, place: Place, request: MapRequest) -> Result<u64, Status> {
        self.mapping_create(id, place, &request, false)
    }

    /// As [`Kernel::vmar_map`], for a caller that maps pages right afterwards ([`Kernel::pages_map`]), which then needs
    /// no search for the mapping.
    ///
    /// # Errors
    /// As [`Kernel::vmar_map`].
    pub fn vmar_map_to_fill(&mut self, id: Id<Vmar>, place: Place, request: MapRequest) -> Result<u64, Status> {
        self.mapping_create(id, place, &request, true)
    }

    /// Makes a mapping. With `shown`, it counts as touched, and is the one that the next look-up tries first.
    #[inline(always)]
    fn mapping_create(&mut self, id: Id<Vmar>, place: Place, request: &MapRequest, shown: bool) -> Result<u64, Status> {
        let mapping = Mapping { shown, ..self.mapping_wanted(id, request)? };
        let (base, aspace) = self.vmar_place(id, place, mapping.len)?;
        self.aspace_update_charge(aspace)?;
        if let Place::Over(_) = place {
            self.vmar_clear(id, base, mapping.len)?;
        }
        let mapping = Mapping { base, ..mapping };
        self.mapping_insert(aspace, mapping);
        if (mapping.fixed || shown)
            && let Some(space) = self.aspaces.get_mut(aspace)
        {
            if mapping.fixed {
                space.fixed = Some((base, mapping.end()));
            }
            if shown {
                space.last = Some(mapping);
            }
        }
        Ok(base)
    }

    /// The requested mapping, without its address.
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
            // A slice ends at its own size even if its target is longer.
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
            table: false,
            shown: false,
        })
    }

    /// One slice of [`Kernel::vmar_map`] over existing mappings, after `done` bytes. Each address shows its old or its
    /// new mapping at all times, never nothing. Returns the base, and the number of bytes done, if some are left.
    ///
    /// # Errors
    /// As `vmar_map`.
    pub fn vmar_map_over_slice(
        &mut self,
        id: Id<Vmar>,
        offset: u64,
        (request, content_only): (MapRequest, bool),
        done: u64,
    ) -> Result<(u64, Option<u64>), Status> {
        let wanted = Mapping { content_only, ..self.mapping_wanted(id, &request)? };
        let (base, aspace) = self.vmar_place(id, Place::Over(offset), wanted.len)?;
        self.aspace_update_charge(aspace)?;
        let (at, end) = (base + done, base + wanted.len);
        if done == 0 {
            self.vmar_check_clear(id, base, wanted.len, false)?;
        }
        let cleared = self.vmar_clear_slice(id, (at, end), at, false);
        // Maps what is free now, even if clearing failed on the way. Since the last slice other threads may have mapped
        // something there, possibly from before `at`.
        let children = &self.objects.get(id)?.children;
        let next = children.at(at).or_else(|| children.from(at)).map_or(end, |child| child.base().clamp(at, end));
        let before = at.checked_sub(1).and_then(|before| self.mapping_at(aspace, before)).copied();
        let all = Mapping { base, len: next - base, ..wanted };
        if next > at {
            match before.filter(|&before| before == Mapping { len: done, shown: before.shown, ..all }) {
                Some(Mapping { shown, .. }) => {
                    // The new mapping takes over the references that the removed one drops.
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

    /// Makes accesses to the mapping at an address fault beyond the content of its VMO.
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

    /// Records where the vDSO's image starts in the address space of a VMAR.
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
        // Nothing was mapped there, so no fault has cached a look-up there: the cached last mapping stays valid.
        self.reverse_map_insert(aspace, &mapping);
    }

    fn mapping_remove(&mut self, vmar: Id<Vmar>, base: u64) {
        self.mapping_remove_if(vmar, base, |_| true);
    }

    /// Removes the mapping that begins at an address, if it satisfies a condition; returns the mapping and its address
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
        self.reverse_map_remove(aspace, &mapping);
        Some((mapping, aspace))
    }
}

#[cfg(test)]
mod tests;
