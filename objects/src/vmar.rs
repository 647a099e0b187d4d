//! Virtual memory address regions: the tree that says who may map what where.
//!
//! A VMAR owns a range of addresses and knows its children by base: mappings and further VMARs, which never overlap.
//! The mappings themselves stand in the [`AddressSpace`](crate::aspace::AddressSpace).
//!
//! Addresses are chosen near each other, from a random start in each VMAR on: what is randomized is the place of the
//! whole, at the price of one set of page tables.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use abi::{Signals, Status};

use crate::aspace::Mapping;
use crate::kernel::Kernel;
use crate::machine::{Cache, Machine, PAGE, Perm};
use crate::object::{Body, Id};
use crate::slab::Key;
use crate::vmo::Vmo;

/// What may be mapped in a VMAR.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)]
pub struct VmarFlags {
    pub specific: bool,
    pub read: bool,
    pub write: bool,
    pub execute: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Child {
    Vmar(Id<Vmar>, u64),
    Mapping(u64),
}

impl Child {
    fn len(self) -> u64 {
        match self {
            Child::Vmar(_, len) | Child::Mapping(len) => len,
        }
    }
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
    pub(crate) children: BTreeMap<u64, Child>,
    /// Where the search for room starts.
    hint: u64,
}

impl Vmar {
    fn end(&self) -> u64 {
        self.base + self.len
    }

    /// Whether it is all of its address space.
    pub fn is_root(&self) -> bool {
        self.parent.is_none()
    }

    fn is_free(&self, base: u64, len: u64) -> bool {
        match self.children.range(..base.saturating_add(len)).next_back() {
            Some((&at, child)) => at + child.len() <= base,
            None => true,
        }
    }

    /// Room for `len` bytes below `limit`: the first from the hint on, then from the start on.
    fn find_free(&self, len: u64, align: u64, limit: u64) -> Option<u64> {
        let limit = limit.min(self.end());
        self.first_fit(self.hint, len, align, limit).or_else(|| self.first_fit(self.base, len, align, limit))
    }

    fn first_fit(&self, from: u64, len: u64, align: u64, limit: u64) -> Option<u64> {
        let mut at = from.checked_next_multiple_of(align)?;
        if let Some((&before, child)) = self.children.range(..=at).next_back() {
            at = at.max((before + child.len()).checked_next_multiple_of(align)?);
        }
        for (&next, child) in self.children.range(at..) {
            if at.checked_add(len)? <= next {
                break;
            }
            at = (next + child.len()).checked_next_multiple_of(align)?;
        }
        (at.checked_add(len)? <= limit && at >= self.base).then_some(at)
    }
}

/// Where something is to go in a VMAR.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Anywhere, aligned, ending at most so many bytes from the VMAR's start.
    Anywhere {
        /// A power of two, at least a page.
        align: u64,
        /// Offset of the end, if it is limited.
        limit: Option<u64>,
    },
    /// At an offset, if there is room.
    At(u64),
    /// At an offset, in place of whatever is mapped there.
    Over(u64),
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
        // A VMAR of more than 4 GiB starts somewhere in its first quarter.
        let mut hint = base;
        if len > 1 << 32 {
            let mut bytes = [0; 8];
            self.machine.random(&mut bytes);
            hint += (u64::from_le_bytes(bytes) % (len / 4)) / PAGE * PAGE;
        }
        let vmar = Vmar { base, len, flags, aspace: Some(aspace), parent, children: BTreeMap::new(), hint };
        let id = self.create(Signals::NONE, Body::Vmar(Box::new(vmar)))?;
        self.add_ref(id.object());
        Ok(id)
    }

    fn vmar_alive(&self, id: Id<Vmar>) -> Result<(&Vmar, Key), Status> {
        let vmar = self.objects.get(id)?;
        Ok((vmar, vmar.aspace.ok_or(Status::BAD_STATE)?))
    }

    /// The address that a place means for `len` bytes.
    fn vmar_place(&self, id: Id<Vmar>, place: Place, len: u64) -> Result<u64, Status> {
        let (vmar, _) = self.vmar_alive(id)?;
        match place {
            Place::Anywhere { align, limit } => {
                let limit = match limit {
                    None => vmar.end(),
                    Some(limit) => vmar.base.checked_add(limit).ok_or(Status::INVALID_ARGS)?,
                };
                vmar.find_free(len, align, limit).ok_or(Status::NO_RESOURCES)
            }
            Place::At(offset) | Place::Over(offset) => {
                if offset % PAGE != 0 {
                    return Err(Status::INVALID_ARGS);
                }
                let base = vmar.base.checked_add(offset).ok_or(Status::INVALID_ARGS)?;
                if base.checked_add(len).is_none_or(|end| end > vmar.end()) {
                    return Err(Status::INVALID_ARGS);
                }
                if !vmar.is_free(base, len) && matches!(place, Place::At(_)) {
                    return Err(Status::ALREADY_EXISTS);
                }
                Ok(base)
            }
        }
    }

    fn vmar_add_child(&mut self, id: Id<Vmar>, base: u64, child: Child) {
        if let Ok(vmar) = self.objects.get_mut(id) {
            vmar.children.insert(base, child);
            vmar.hint = base + child.len();
        }
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
        let base = self.vmar_place(parent, place, len)?;
        let (_, aspace) = self.vmar_alive(parent)?;
        let id = self.vmar_new(aspace, Some(parent), base, len, flags)?;
        self.vmar_add_child(parent, base, Child::Vmar(id, len));
        Ok((id, base))
    }

    /// `vmar_map`.
    ///
    /// # Errors
    /// As [`Kernel::vmar_allocate`]; `OUT_OF_RANGE`: the VMO's offset is absurd.
    pub fn vmar_map(&mut self, id: Id<Vmar>, place: Place, request: MapRequest) -> Result<u64, Status> {
        let len = request.len.checked_next_multiple_of(PAGE).filter(|&len| len > 0).ok_or(Status::INVALID_ARGS)?;
        if !request.offset.is_multiple_of(PAGE) {
            return Err(Status::INVALID_ARGS);
        }
        request.offset.checked_add(len).filter(|&end| end <= crate::vmo::MAX_SIZE).ok_or(Status::INVALID_ARGS)?;
        let (vmo, offset) = self.vmo_resolve(request.vmo, request.offset)?;
        offset.checked_add(len).ok_or(Status::OUT_OF_RANGE)?;
        // A window ends where it ends, also when what it shows goes on.
        if vmo != request.vmo && request.offset + len > self.objects.get(request.vmo)?.size {
            return Err(Status::OUT_OF_RANGE);
        }
        let base = self.vmar_place(id, place, len)?;
        if let Place::Over(_) = place {
            self.vmar_clear(id, base, len, true)?;
        }
        let (_, aspace) = self.vmar_alive(id)?;
        let mapping = Mapping {
            base,
            len,
            vmo,
            offset,
            named: request.vmo,
            named_offset: request.offset,
            perm: request.perm,
            max: request.max,
            vmar: id,
            fixed: request.fixed,
        };
        self.mapping_insert(aspace, mapping);
        if let Ok(vmar) = self.objects.get_mut(id) {
            vmar.hint = mapping.end();
        }
        Ok(base)
    }

    /// Commits and maps the pages of a mapping in advance, as `ZX_VM_MAP_RANGE` asks: those that are committed.
    pub fn vmar_prefault(&mut self, aspace: Key, base: u64, len: u64) {
        let Some(space) = self.aspaces.get(aspace) else { return };
        let machine = space.machine;
        let Some(&mapping) = space.find(base) else { return };
        if !mapping.perm.read {
            return;
        }
        for page in 0..len.div_ceil(PAGE) {
            let at = base + page * PAGE;
            let offset = mapping.offset + (at - mapping.base);
            if let Some(frame) = self.vmo_page_if_there(mapping.vmo, offset / PAGE)
                && self.machine.map(machine, at, frame, mapping.perm, Cache::Cached).is_err()
            {
                return;
            }
        }
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

    fn mapping_insert(&mut self, aspace: Key, mapping: Mapping) {
        if let Some(space) = self.aspaces.get_mut(aspace) {
            space.mappings.insert(mapping.base, mapping);
        }
        if let Ok(vmar) = self.objects.get_mut(mapping.vmar) {
            vmar.children.insert(mapping.base, Child::Mapping(mapping.len));
        }
        self.mapping_take_up(aspace, &mapping);
    }

    fn mapping_remove(&mut self, aspace: Key, base: u64) -> Option<Mapping> {
        let mapping = self.aspaces.get_mut(aspace)?.mappings.remove(&base)?;
        if let Ok(vmar) = self.objects.get_mut(mapping.vmar) {
            vmar.children.remove(&base);
        }
        self.mapping_let_go(aspace, &mapping);
        Some(mapping)
    }

    /// Cuts the mapping that an address is in the midst of in two.
    fn mapping_split(&mut self, aspace: Key, at: u64) {
        let Some(&whole) = self.aspaces.get(aspace).and_then(|s| s.find(at)) else { return };
        if whole.base == at {
            return;
        }
        let first = at - whole.base;
        // The reference that removal lets go of is kept by the two that come in, before anything is reaped.
        self.mapping_remove(aspace, whole.base);
        self.mapping_insert(aspace, Mapping { len: first, ..whole });
        let rest = Mapping { base: at, len: whole.len - first, offset: whole.offset + first, ..whole };
        let rest = Mapping { named_offset: whole.named_offset + first, ..rest };
        self.mapping_insert(aspace, rest);
    }

    /// Whether a range can be cleared: no part of a sub-VMAR, nothing fixed.
    fn vmar_check_clear(&self, id: Id<Vmar>, base: u64, len: u64, overwrite: bool) -> Result<(), Status> {
        let (vmar, aspace) = self.vmar_alive(id)?;
        let end = base.checked_add(len).filter(|&e| e <= vmar.end() && base >= vmar.base);
        let end = end.ok_or(Status::INVALID_ARGS)?;
        let space = self.aspaces.get(aspace).ok_or(Status::BAD_STATE)?;
        let first = vmar.children.range(..base).next_back().filter(|(at, child)| **at + child.len() > base);
        for (&at, &child) in first.into_iter().chain(vmar.children.range(base..end)) {
            match child {
                Child::Mapping(_) => {
                    if space.mappings.get(&at).is_some_and(|m| m.fixed) {
                        return Err(Status::ACCESS_DENIED);
                    }
                }
                Child::Vmar(sub, len) => {
                    if overwrite || at < base || at + len > end {
                        return Err(Status::INVALID_ARGS);
                    }
                    let sub = self.objects.get(sub)?;
                    if self.range_has_fixed(aspace, sub.base, sub.end()) {
                        return Err(Status::ACCESS_DENIED);
                    }
                }
            }
        }
        Ok(())
    }

    fn range_has_fixed(&self, aspace: Key, from: u64, to: u64) -> bool {
        self.aspaces.get(aspace).is_some_and(|s| s.mappings.range(from..to).any(|(_, m)| m.fixed))
    }

    /// Takes everything out of a range of a VMAR.
    fn vmar_clear(&mut self, id: Id<Vmar>, base: u64, len: u64, overwrite: bool) -> Result<(), Status> {
        self.vmar_check_clear(id, base, len, overwrite)?;
        let (_, aspace) = self.vmar_alive(id)?;
        self.mapping_split(aspace, base);
        self.mapping_split(aspace, base + len);
        self.range_clear(aspace, base, len);
        // Sub-VMARs in the range are dead; their mappings went with the rest.
        while let Ok(vmar) = self.objects.get_mut(id) {
            let Some((&at, &child)) = vmar.children.range(base..base + len).next() else { break };
            vmar.children.remove(&at);
            if let Child::Vmar(sub, _) = child {
                self.vmar_tree_dead(sub);
            }
        }
        Ok(())
    }

    /// Removes all mappings that start in a range, and unmaps it.
    fn range_clear(&mut self, aspace: Key, base: u64, len: u64) {
        let Some(machine) = self.aspaces.get(aspace).map(|s| s.machine) else { return };
        self.machine.unmap(machine, base, len / PAGE);
        while let Some(at) =
            self.aspaces.get(aspace).and_then(|s| s.mappings.range(base..base + len).next().map(|(&at, _)| at))
        {
            self.mapping_remove(aspace, at);
        }
    }

    /// `vmar_unmap`: removes all mappings and destroys all VMARs in a range.
    ///
    /// # Errors
    /// `INVALID_ARGS`: not whole pages, not within the VMAR, a part of a sub-VMAR. `BAD_STATE`: destroyed.
    /// `ACCESS_DENIED`: the vDSO's code is there.
    pub fn vmar_unmap(&mut self, id: Id<Vmar>, address: u64, len: u64) -> Result<(), Status> {
        self.vmar_alive(id)?;
        let len = len.checked_next_multiple_of(PAGE).filter(|&len| len > 0).ok_or(Status::INVALID_ARGS)?;
        if !address.is_multiple_of(PAGE) {
            return Err(Status::INVALID_ARGS);
        }
        self.vmar_clear(id, address, len, false)
    }

    /// `vmar_protect`.
    ///
    /// # Errors
    /// `INVALID_ARGS`, `BAD_STATE` as [`Kernel::vmar_unmap`]; `NOT_FOUND`: a part of the range is not mapped in this
    /// VMAR. `ACCESS_DENIED`: a mapping there may not be made to allow this.
    pub fn vmar_protect(&mut self, id: Id<Vmar>, address: u64, len: u64, perm: Perm) -> Result<(), Status> {
        let (vmar, aspace) = self.vmar_alive(id)?;
        let len = len.checked_next_multiple_of(PAGE).filter(|&len| len > 0).ok_or(Status::INVALID_ARGS)?;
        let end = address.checked_add(len).ok_or(Status::INVALID_ARGS)?;
        if !address.is_multiple_of(PAGE) || address < vmar.base || end > vmar.end() {
            return Err(Status::INVALID_ARGS);
        }
        let space = self.aspaces.get(aspace).ok_or(Status::BAD_STATE)?;
        let mut at = address;
        while at < end {
            let mapping = space.find(at).filter(|m| m.vmar == id).ok_or(Status::NOT_FOUND)?;
            let allowed = (!perm.read || mapping.max.read)
                && (!perm.write || mapping.max.write)
                && (!perm.execute || mapping.max.execute);
            if !allowed || mapping.fixed {
                return Err(Status::ACCESS_DENIED);
            }
            at = mapping.end();
        }
        let machine = space.machine;
        self.mapping_split(aspace, address);
        self.mapping_split(aspace, end);
        // Pages come back with their new permission when they are touched.
        self.machine.unmap(machine, address, len / PAGE);
        if let Some(space) = self.aspaces.get_mut(aspace) {
            for (_, mapping) in space.mappings.range_mut(address..end) {
                mapping.perm = perm;
            }
        }
        Ok(())
    }

    /// `vmar_destroy`: unmaps everything in a VMAR and ends it and all VMARs in it.
    ///
    /// # Errors
    /// `BAD_STATE`: it is destroyed. `NOT_SUPPORTED`: it is the root. `ACCESS_DENIED`: the vDSO's code is in it.
    pub fn vmar_destroy(&mut self, id: Id<Vmar>) -> Result<(), Status> {
        let (vmar, aspace) = self.vmar_alive(id)?;
        let (base, len) = (vmar.base, vmar.len);
        let parent = vmar.parent.ok_or(Status::NOT_SUPPORTED)?;
        if self.range_has_fixed(aspace, base, base + len) {
            return Err(Status::ACCESS_DENIED);
        }
        self.range_clear(aspace, base, len);
        if let Ok(parent) = self.objects.get_mut(parent) {
            parent.children.remove(&base);
        }
        self.vmar_tree_dead(id);
        Ok(())
    }

    /// Marks a VMAR and all within it as destroyed; their mappings are gone already. Takes one child after the other out
    /// of the tree and goes down into it, then back up by the parent: a tree of any shape needs no memory.
    pub(crate) fn vmar_tree_dead(&mut self, id: Id<Vmar>) {
        let mut at = id;
        while let Ok(vmar) = self.objects.get_mut(at) {
            match vmar.children.pop_last() {
                Some((_, Child::Vmar(sub, _))) => at = sub,
                Some(_) => {}
                None => {
                    vmar.aspace = None;
                    let parent = vmar.parent.take();
                    self.drop_ref(at.object());
                    match parent {
                        Some(parent) if at != id => at = parent,
                        _ => return,
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::fake::FakeMachine;
    use crate::machine::USER_BASE;
    use crate::name::Name;
    use proptest::prelude::*;

    const R: Perm = Perm { read: true, write: false, execute: false };
    const RW: Perm = Perm { read: true, write: true, execute: false };
    /// Pages of the region that the model covers.
    const PAGES: u64 = 48;

    struct World {
        kernel: Kernel<FakeMachine>,
        aspace: Key,
        region: Id<Vmar>,
        vmos: Vec<Id<Vmo>>,
    }

    impl World {
        fn new() -> World {
            let mut kernel = Kernel::new(FakeMachine::new(10_000)).unwrap();
            let job = kernel.root_job().unwrap();
            let (process, root) = kernel.process_create(job, Name::new(b"p")).unwrap();
            kernel.add_handle(process.object());
            let aspace = kernel.objects.get(process).unwrap().aspace.unwrap();
            let flags = VmarFlags { specific: true, read: true, write: true, execute: true };
            let (region, _) = kernel.vmar_allocate(root, Place::At(0), PAGES * PAGE, flags).unwrap();
            let mut vmos = Vec::new();
            for n in 0..3u8 {
                let vmo = kernel.vmo_create(PAGES * PAGE, false).unwrap();
                kernel.add_ref(vmo.object());
                // Each page says which it is.
                for page in 0..PAGES {
                    kernel.vmo_write(vmo, page * PAGE, &[n + 1, page as u8]).unwrap();
                }
                vmos.push(vmo);
            }
            World { kernel, aspace, region, vmos }
        }

        fn map(&mut self, place: Place, vmo: usize, page: u64, pages: u64, perm: Perm) -> Result<u64, Status> {
            let vmo = self.vmos[vmo];
            let request = MapRequest { vmo, offset: page * PAGE, len: pages * PAGE, perm, max: RW, fixed: false };
            self.kernel.vmar_map(self.region, place, request)
        }

        /// What a program finds at a page of the region: its mark and whether it can be written.
        fn look(&mut self, page: u64) -> Option<([u8; 2], bool)> {
            let address = USER_BASE + page * PAGE;
            let mut mark = [0; 2];
            self.kernel.copy_in(self.aspace, address, &mut mark).ok()?;
            let fault = self.kernel.page_fault(self.aspace, address, true, false);
            let by_kernel = self.kernel.check_out(self.aspace, address, 1);
            assert_eq!(fault.is_ok(), by_kernel.is_ok());
            Some((mark, fault.is_ok()))
        }
    }

    #[derive(Clone, Debug)]
    enum Op {
        Map { vmo: usize, from: u64, at: u64, pages: u64, write: bool, over: bool },
        MapAnywhere { vmo: usize, pages: u64 },
        Unmap { at: u64, pages: u64 },
        Protect { at: u64, pages: u64, write: bool },
        Look(u64),
    }

    fn op() -> impl Strategy<Value = Op> {
        let (at, pages) = (0..PAGES, 1..9u64);
        prop_oneof![
            (0..3usize, 0..PAGES, at.clone(), pages.clone(), any::<bool>(), any::<bool>())
                .prop_map(|(vmo, from, at, pages, write, over)| Op::Map { vmo, from, at, pages, write, over }),
            (0..3usize, pages.clone()).prop_map(|(vmo, pages)| Op::MapAnywhere { vmo, pages }),
            (at.clone(), pages.clone()).prop_map(|(at, pages)| Op::Unmap { at, pages }),
            (at.clone(), pages, any::<bool>()).prop_map(|(at, pages, write)| Op::Protect { at, pages, write }),
            at.prop_map(Op::Look),
        ]
    }

    proptest! {
        #[test]
        fn behaves_as_an_array_of_pages(ops in proptest::collection::vec(op(), 0..60)) {
            let mut world = World::new();
            let mut model: Vec<Option<([u8; 2], bool)>> = std::vec![None; PAGES as usize];
            for op in ops {
                match op {
                    Op::Map { vmo, from, at, pages, write, over } => {
                        let fits = at + pages <= PAGES && from + pages <= PAGES;
                        let place = if over { Place::Over(at * PAGE) } else { Place::At(at * PAGE) };
                        if from + pages > PAGES {
                            continue;
                        }
                        let result = world.map(place, vmo, from, pages, if write { RW } else { R });
                        let free = fits && model[at as usize..(at + pages) as usize].iter().all(Option::is_none);
                        prop_assert_eq!(result.is_ok(), fits && (over || free), "{:?}", result);
                        if result.is_ok() {
                            for i in 0..pages {
                                model[(at + i) as usize] = Some(([vmo as u8 + 1, (from + i) as u8], write));
                            }
                        }
                    }
                    Op::MapAnywhere { vmo, pages } => {
                        let place = Place::Anywhere { align: PAGE, limit: None };
                        let room = model.windows(pages as usize).any(|w| w.iter().all(Option::is_none));
                        match world.map(place, vmo, 0, pages, R) {
                            Ok(base) => {
                                let at = (base - USER_BASE) / PAGE;
                                for i in 0..pages {
                                    prop_assert_eq!(model[(at + i) as usize], None);
                                    model[(at + i) as usize] = Some(([vmo as u8 + 1, i as u8], false));
                                }
                            }
                            Err(status) => prop_assert!(!room && status == Status::NO_RESOURCES),
                        }
                    }
                    Op::Unmap { at, pages } => {
                        let fits = at + pages <= PAGES;
                        let result = world.kernel.vmar_unmap(world.region, USER_BASE + at * PAGE, pages * PAGE);
                        prop_assert_eq!(result.is_ok(), fits);
                        if fits {
                            model[at as usize..(at + pages) as usize].fill(None);
                        }
                    }
                    Op::Protect { at, pages, write } => {
                        let perm = if write { RW } else { R };
                        let all = at + pages <= PAGES
                            && model[at as usize..(at + pages) as usize].iter().all(Option::is_some);
                        let result = world.kernel.vmar_protect(world.region, USER_BASE + at * PAGE, pages * PAGE, perm);
                        prop_assert_eq!(result.is_ok(), all);
                        if all {
                            for page in model[at as usize..(at + pages) as usize].iter_mut().flatten() {
                                page.1 = write;
                            }
                        }
                    }
                    Op::Look(at) => prop_assert_eq!(world.look(at), model[at as usize]),
                }
                world.kernel.reap();
            }
            for at in 0..PAGES {
                prop_assert_eq!(world.look(at), model[at as usize]);
            }
            // What the processor sees is never more than what the model allows.
            let space = world.kernel.machine.mapped.values().next().unwrap();
            for (&address, &(_, perm)) in space {
                let page = model[((address - USER_BASE) / PAGE) as usize];
                prop_assert!(page.is_some_and(|(_, write)| write || !perm.write));
            }
        }
    }

    #[test]
    fn a_sub_region_goes_as_a_whole() {
        let mut world = World::new();
        let flags = VmarFlags { specific: true, read: true, write: true, execute: false };
        let (sub, base) = world.kernel.vmar_allocate(world.region, Place::At(4 * PAGE), 4 * PAGE, flags).unwrap();
        let request = MapRequest { vmo: world.vmos[0], offset: 0, len: PAGE, perm: R, max: R, fixed: false };
        world.kernel.vmar_map(sub, Place::At(0), request).unwrap();
        assert_eq!(world.kernel.vmar_unmap(world.region, base, PAGE), Err(Status::INVALID_ARGS));
        assert!(world.look(4).is_some());
        assert_eq!(world.kernel.vmar_unmap(world.region, base - PAGE, 6 * PAGE), Ok(()));
        assert_eq!(world.look(4), None);
        assert_eq!(world.kernel.vmar_unmap(sub, base, PAGE), Err(Status::BAD_STATE));
    }

    #[test]
    fn a_process_leaves_nothing_behind() {
        let mut world = World::new();
        world.map(Place::At(0), 0, 0, 8, RW).unwrap();
        world.look(3);
        for vmo in world.vmos.clone() {
            world.kernel.drop_ref(vmo.object());
        }
        let process = world.kernel.objects.get(world.kernel.root_job().unwrap()).unwrap().processes;
        let process = Id::new(world.kernel.objects.after(process, None).unwrap());
        world.kernel.process_kill(process, 7);
        assert_eq!(world.kernel.objects.get(process).unwrap().return_code, 7);
        world.kernel.close(crate::handle::Handle { object: process.object(), rights: abi::Rights::NONE });
        world.kernel.reap();
        assert_eq!(world.kernel.machine.frames_in_use(), 0);
        // The root job stays.
        assert_eq!(world.kernel.census(), (1, 0, 0));
        assert!(world.kernel.machine.mapped.is_empty());
    }
}
