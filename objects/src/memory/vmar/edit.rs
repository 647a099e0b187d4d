//! Changes to existing mappings: unmap, protect, destroy.

use abi::Status;

use super::{Child, Vmar};
use crate::containers::slab::Key;
use crate::core::account::AccountOwner;
use crate::core::continuation::SliceTimer;
use crate::core::continuation::{PAGES_PER_OBJECT, UNMAP_BATCH_PAGES, UNSLICED_BYTES};
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::{Machine, PAGE, Perm};
use crate::memory::aspace::Mapping;
use crate::memory::vmo::CloneKind;

/// Rounds a length up to whole pages.
fn whole_pages(address: u64, len: u64) -> Result<u64, Status> {
    let len = len.checked_next_multiple_of(PAGE).filter(|&len| len > 0).ok_or(Status::INVALID_ARGS)?;
    if address.is_multiple_of(PAGE) { Ok(len) } else { Err(Status::INVALID_ARGS) }
}

/// Encodes how far an operation on a range has come: never 0, which means that it begins.
fn progress_encode(base: u64, at: u64) -> u64 {
    at - base + 1
}

/// Decodes [`progress_encode`] to an address.
fn progress_decode(base: u64, done: u64) -> u64 {
    base + done.saturating_sub(1)
}

impl<M: Machine> Kernel<M> {
    /// Splits the mapping that an address is in the middle of.
    fn mapping_split(&mut self, aspace: Key, at: u64) {
        let Some(&whole) = self.mapping_at(aspace, at) else { return };
        if whole.base == at {
            return;
        }
        let first = at - whole.base;
        // The two new mappings take over the references that the removed one drops, before anything is reaped.
        self.mapping_remove(whole.vmar, whole.base);
        self.mapping_insert(aspace, Mapping { len: first, ..whole });
        let rest = Mapping { base: at, len: whole.len - first, offset: whole.offset + first, ..whole };
        let rest = Mapping { named_offset: whole.named_offset + first, ..rest };
        self.mapping_insert(aspace, rest);
    }

    /// Replaces the VMO of the mapping at an address by a private copy, unless the mapping can be made writable anyway.
    /// The caller's job is charged for the copy.
    ///
    /// # Errors
    /// `ACCESS_DENIED`: its memory cannot be copied. `NO_MEMORY`.
    pub(crate) fn mapping_copy<P: AccountOwner>(&mut self, caller: Id<P>, aspace: Key, at: u64) -> Result<(), Status> {
        let aspace = self.space_of(aspace, at);
        let Some(&mapping) = self.mapping_at(aspace, at) else { return Ok(()) };
        if mapping.max.write || mapping.copied {
            return Ok(());
        }
        if mapping.table {
            return Err(Status::ACCESS_DENIED);
        }
        // The copy ends where the memory ends, so that accesses beyond it still fault.
        let there = self.vmo_size(mapping.vmo)?.saturating_sub(mapping.offset).min(mapping.len);
        let copy = self.vmo_create_clone(mapping.vmo, CloneKind::Modified, mapping.offset, there, false);
        let vmo = copy.map_err(|status| if status == Status::NO_MEMORY { status } else { Status::ACCESS_DENIED })?;
        self.charge_to(caller, vmo).inspect_err(|_| self.reaper_enqueue(vmo.object()))?;
        self.mapping_remove(mapping.vmar, mapping.base);
        self.space_unmap(aspace, mapping.base, mapping.len / PAGE);
        let copy = Mapping { vmo, offset: 0, named: vmo, named_offset: 0, copied: true, ..mapping };
        self.mapping_insert(aspace, copy);
        Ok(())
    }

    /// Joins two adjacent mappings that meet at an address and are alike, as if they had never been split.
    fn mapping_join(&mut self, aspace: Key, at: u64) {
        let left = at.checked_sub(1).and_then(|at| self.mapping_at(aspace, at));
        let (Some(&left), Some(&right)) = (left, self.mapping_at(aspace, at)) else { return };
        let continued = Mapping {
            base: right.base,
            len: right.len,
            offset: left.offset.wrapping_add(left.len),
            named_offset: left.named_offset.wrapping_add(left.len),
            shown: right.shown,
            ..left
        };
        if right == continued {
            self.mapping_remove(left.vmar, left.base);
            self.mapping_remove(left.vmar, right.base);
            let shown = left.shown || right.shown;
            self.mapping_insert(aspace, Mapping { len: left.len + right.len, shown, ..left });
        }
    }

    /// Whether an unchangeable mapping overlaps a range.
    pub(super) fn range_has_fixed(&self, aspace: Key, from: u64, to: u64) -> bool {
        // There is one at most: the vDSO's code.
        let Some(space) = self.aspaces.get(aspace) else { return false };
        space.fixed.is_some_and(|(base, end)| base < to && from < end)
    }

    /// Whether a range can be cleared: no fixed mapping, and no VMAR that must stay or overlaps only partly.
    pub(super) fn vmar_check_clear(&self, id: Id<Vmar>, base: u64, len: u64, with_vmars: bool) -> Result<(), Status> {
        let (vmar, aspace) = self.vmar_alive(id)?;
        if !vmar.covers(base, len) {
            return Err(Status::INVALID_ARGS);
        }
        let end = base + len;
        if self.range_has_fixed(aspace, base, end) {
            return Err(Status::ACCESS_DENIED);
        }
        if self.aspaces.get(aspace).is_some_and(|space| space.is_all_of(id, base, end)) {
            return Ok(());
        }
        // Only the first and the last child can overlap partly.
        let in_part = |at| match vmar.children.at(at) {
            Some(&Child::Vmar(_, from, to)) => from < base || to > end,
            _ => false,
        };
        if !with_vmars || in_part(base) || in_part(end - 1) { Err(Status::INVALID_ARGS) } else { Ok(()) }
    }

    /// Whether clearing a range increases the number of mappings, because it is in the middle of one.
    fn range_is_within_mapping(&self, aspace: Key, base: u64, end: u64) -> bool {
        let mapping = self.mapping_at(aspace, base);
        mapping.is_some_and(|mapping| mapping.base < base && end < mapping.end())
    }

    /// Removes the mapping that covers exactly a range. Says whether there was one.
    #[inline]
    fn vmar_clear_one(&mut self, id: Id<Vmar>, base: u64, len: u64) -> bool {
        let alone = |mapping: &Mapping| mapping.len == len && !mapping.fixed;
        let Some((mapping, aspace)) = self.mapping_remove_if(id, base, alone) else { return false };
        if mapping.shown {
            self.space_unmap(aspace, base, len / PAGE);
        }
        true
    }

    /// Removes all mappings from a range of a VMAR that contains no VMAR.
    pub(super) fn vmar_clear(&mut self, id: Id<Vmar>, base: u64, len: u64) -> Result<(), Status> {
        // Usually the range is exactly one mapping.
        if self.vmar_clear_one(id, base, len) {
            return Ok(());
        }
        let (_, aspace) = self.vmar_alive(id)?;
        self.vmar_check_clear(id, base, len, false)?;
        // Unmapping must work even without memory, but not if it increases the number of mappings.
        if self.range_is_within_mapping(aspace, base, base + len) {
            self.retry_with_reaper(|kernel| kernel.machine.heap_reserve()).map_err(|_| Status::NO_MEMORY)?;
        }
        self.mapping_split(aspace, base);
        self.mapping_split(aspace, base + len);
        self.space_unmap(aspace, base, len / PAGE);
        while let Some(child) = self.objects.get(id)?.children.from(base).filter(|child| child.base() < base + len) {
            let base = child.base();
            self.mapping_remove(id, base);
        }
        Ok(())
    }

    /// Destroys an empty VMAR.
    fn vmar_take_out(&mut self, aspace: Key, parent: Id<Vmar>, id: Id<Vmar>) -> Result<(), Status> {
        let vmar = self.objects.get(id)?;
        debug_assert!(vmar.children.from(0).is_none());
        let (base, end) = (vmar.base, vmar.end());
        let parent_vmar = self.objects.get_mut(parent)?;
        parent_vmar.children.remove(&mut self.nodes, base);
        parent_vmar.has_room_at(base);
        if let Some(space) = self.aspaces.get_mut(aspace) {
            space.last = None;
            space.vmar_ends(base, end, parent);
        }
        if let Ok(vmar) = self.objects.get_mut(id) {
            vmar.parent = None;
        }
        self.vmar_tree_step(aspace, id);
        Ok(())
    }

    /// One slice of [`Kernel::vmar_unmap`]. `done` and the result are encoded progress; none if nothing is left. A
    /// short range with only mappings is unmapped at once; VMARs can be nested to any depth, even in a short range.
    ///
    /// # Errors
    /// As `vmar_unmap`.
    pub fn vmar_unmap_slice(
        &mut self,
        id: Id<Vmar>,
        (address, len): (u64, u64),
        with_vmars: bool,
        done: u64,
    ) -> Result<Option<u64>, Status> {
        let len = whole_pages(address, len)?;
        if done == 0 {
            if len <= UNSLICED_BYTES && self.vmar_clear_one(id, address, len) {
                return Ok(None);
            }
            if len <= UNSLICED_BYTES && self.vmar_is_plain(id, address, len) {
                return self.vmar_clear(id, address, len).map(|()| None);
            }
            self.vmar_check_clear(id, address, len, with_vmars)?;
        }
        let at = self.vmar_clear_slice(id, (address, address + len), progress_decode(address, done), with_vmars)?;
        Ok(at.map(|at| progress_encode(address, at)))
    }

    /// Whether a range lies in a VMAR and contains no other VMAR.
    fn vmar_is_plain(&self, id: Id<Vmar>, base: u64, len: u64) -> bool {
        let aspace = self.objects.get(id).ok().and_then(|vmar| self.aspaces.get(vmar.aspace?));
        aspace.is_some_and(|space| space.is_all_of(id, base, base.saturating_add(len)))
    }

    /// One slice of [`Kernel::vmar_destroy`]. `done` and the result are encoded progress; none if nothing is left.
    ///
    /// # Errors
    /// As `vmar_destroy`.
    pub fn vmar_destroy_slice(&mut self, id: Id<Vmar>, done: u64) -> Result<Option<u64>, Status> {
        let (vmar, aspace) = self.vmar_alive(id)?;
        let (base, end) = (vmar.base, vmar.end());
        let parent = vmar.parent.ok_or(Status::NOT_SUPPORTED)?;
        if self.range_has_fixed(aspace, base, end) {
            return Err(Status::ACCESS_DENIED);
        }
        match self.vmar_clear_slice(id, (base, end), progress_decode(base, done), true)? {
            Some(at) => Ok(Some(progress_encode(base, at))),
            None => self.vmar_take_out(aspace, parent, id).map(|()| None),
        }
    }

    /// Removes mappings and VMARs from a range of a VMAR, from an address up, as many as fit in one slice. Returns how
    /// far it has come; none if the range is empty.
    pub(super) fn vmar_clear_slice(
        &mut self,
        id: Id<Vmar>,
        (start, end): (u64, u64),
        mut at: u64,
        with_vmars: bool,
    ) -> Result<Option<u64>, Status> {
        let (vmar, aspace) = self.vmar_alive(id)?;
        if !vmar.covers(start, end - start) {
            return Err(Status::INVALID_ARGS);
        }
        let mut slice = SliceTimer::default();
        loop {
            // Destroys the innermost VMAR first.
            let inner = self.aspaces.get(aspace).and_then(|space| space.vmar_at(at)).ok_or(Status::BAD_STATE)?;
            if at < end && inner != id && !(with_vmars && self.vmar_within(id, at, (start, end))) {
                return Err(Status::INVALID_ARGS);
            }
            let inner = if at < end { inner } else { id };
            let vmar = self.objects.get(inner)?;
            let (base, parent) = (vmar.base, vmar.parent);
            let next = vmar.children.at(at).or_else(|| vmar.children.from(at)).filter(|child| child.base() < end);
            match next.copied() {
                Some(Child::Mapping(mapping)) => {
                    let (from, to) = (mapping.base.max(at), mapping.end().min(end));
                    // Unmapping must work even without memory for the rest of a mapping that is split.
                    let pages = match self.heap_reserve() {
                        Ok(()) => self.space_stretch(aspace, from, (to - from) / PAGE),
                        Err(_) => (to - from) / PAGE,
                    };
                    self.vmar_clear(inner, from, pages * PAGE)?;
                    at = from + pages * PAGE;
                    self.slice_add_work(pages.min(UNMAP_BATCH_PAGES.into()) as u32 / PAGES_PER_OBJECT);
                }
                Some(Child::Vmar(_, base, _)) => at = base,
                None if inner == id => {
                    // Other threads may have mapped something into the part that was cleared.
                    let children = &self.objects.get(id)?.children;
                    let again = children.at(start).or_else(|| children.from(start));
                    return Ok(again.filter(|child| child.base() < end).map(|_| start));
                }
                None => match self.objects.get(inner)?.children.from(base) {
                    Some(child) => at = child.base(),
                    None => {
                        self.vmar_take_out(aspace, parent.ok_or(Status::BAD_STATE)?, inner)?;
                        at = base;
                    }
                },
            }
            if self.slice_over(&mut slice) {
                return Ok(Some(at));
            }
        }
    }

    /// Whether the child of a VMAR at an address is a VMAR within a range.
    fn vmar_within(&self, id: Id<Vmar>, at: u64, (start, end): (u64, u64)) -> bool {
        let child = self.objects.get(id).ok().and_then(|vmar| vmar.children.at(at));
        child.is_some_and(|child| matches!(child, Child::Vmar(..)) && child.base() >= start && child.end() <= end)
    }

    /// `vmar_unmap`: removes all mappings in a range, and, if `with_vmars`, destroys all VMARs in it. Runs all slices.
    ///
    /// # Errors
    /// `INVALID_ARGS`: not whole pages, not within the VMAR, or a VMAR in the range must stay or overlaps only partly.
    /// `BAD_STATE`: destroyed. `ACCESS_DENIED`: the vDSO's code is there. `NO_MEMORY`: for the second part of a split
    /// mapping.
    pub fn vmar_unmap(&mut self, id: Id<Vmar>, address: u64, len: u64, with_vmars: bool) -> Result<(), Status> {
        let mut done = 0;
        while let Some(next) = self.vmar_unmap_slice(id, (address, len), with_vmars, done)? {
            done = next;
        }
        Ok(())
    }

    /// `vmar_protect`. Within VMARs below this one, if `with_vmars` allows them at all, permissions can only be
    /// removed.
    ///
    /// # Errors
    /// `INVALID_ARGS`, `BAD_STATE` as [`Kernel::vmar_unmap`]; `NOT_FOUND`: a part of the range is not mapped.
    /// `ACCESS_DENIED`: a mapping's maximum permissions do not include these.
    pub fn vmar_protect(
        &mut self,
        id: Id<Vmar>,
        address: u64,
        len: u64,
        perm: Perm,
        with_vmars: bool,
    ) -> Result<(), Status> {
        let len = whole_pages(address, len)?;
        let (vmar, aspace) = self.vmar_alive(id)?;
        if !vmar.covers(address, len) {
            return Err(Status::INVALID_ARGS);
        }
        let end = address + len;
        self.aspace_update_charge(aspace)?;
        let (mut at, mut takes_execute) = (address, false);
        while at < end {
            let (next, before) = self.may_protect(id, aspace, at, perm, with_vmars)?;
            takes_execute |= before.execute && !perm.execute;
            at = next;
        }
        self.mapping_split(aspace, address);
        self.mapping_split(aspace, end);
        self.frames.lookaside.forget(address, len);
        // The machine's mappings may allow less than they should: a refused access faults, and the fault handler maps
        // the page anew.
        if !perm.read {
            self.space_unmap(aspace, address, len / PAGE);
        } else if !perm.write || takes_execute {
            self.space_protect(aspace, address, len / PAGE, perm);
        }
        let mut at = address;
        while at < end
            && let Some(&Mapping { base, len, .. }) = self.mapping_at(aspace, at)
        {
            self.mapping_change(aspace, base, |mapping| mapping.perm = perm);
            at = base + len;
            self.mapping_join(aspace, base);
        }
        self.mapping_join(aspace, end);
        Ok(())
    }

    /// One slice of [`Kernel::vmar_protect`] after `done` bytes: a first pass checks all mappings, a second one changes
    /// them. Returns the number of bytes done, if some are left.
    ///
    /// # Errors
    /// As `vmar_protect`.
    pub fn vmar_protect_slice(
        &mut self,
        id: Id<Vmar>,
        (address, len): (u64, u64),
        perm: Perm,
        with_vmars: bool,
        done: u64,
    ) -> Result<Option<u64>, Status> {
        if len <= UNSLICED_BYTES && done == 0 {
            return self.vmar_protect(id, address, len, perm, with_vmars).map(|()| None);
        }
        let len = whole_pages(address, len)?;
        let (vmar, aspace) = self.vmar_alive(id)?;
        if !vmar.covers(address, len) {
            return Err(Status::INVALID_ARGS);
        }
        let (mut done, mut slice) = (done, SliceTimer::default());
        while done < 2 * len {
            let changes = done >= len;
            let at = address + done % len;
            let (end, _) = self.may_protect(id, aspace, at, perm, with_vmars)?;
            let left = (end.min(address + len) - at) / PAGE;
            if changes {
                let pages = self.space_stretch(aspace, at, left);
                self.vmar_protect(id, at, pages * PAGE, perm, with_vmars)?;
                done += pages * PAGE;
                self.slice_add_work(pages.min(UNMAP_BATCH_PAGES.into()) as u32 / PAGES_PER_OBJECT);
            } else {
                done += left * PAGE;
            }
            if self.slice_over(&mut slice) {
                return Ok(Some(done).filter(|&done| done < 2 * len));
            }
        }
        Ok(None)
    }

    /// Checks that the mapping at an address can get permissions. Returns its end, and its current permissions.
    fn may_protect(
        &self,
        id: Id<Vmar>,
        aspace: Key,
        at: u64,
        perm: Perm,
        with_vmars: bool,
    ) -> Result<(u64, Perm), Status> {
        let mapping = self.mapping_at(aspace, at).ok_or(Status::NOT_FOUND)?;
        if !mapping.max.allows(perm) || mapping.fixed {
            return Err(Status::ACCESS_DENIED);
        }
        if mapping.vmar != id {
            if !with_vmars {
                return Err(Status::INVALID_ARGS);
            }
            if !mapping.perm.allows(perm) {
                return Err(Status::ACCESS_DENIED);
            }
        }
        Ok((mapping.end(), mapping.perm))
    }

    /// `vmar_destroy`: unmaps everything in a VMAR and destroys it and all VMARs in it. Runs all slices.
    ///
    /// # Errors
    /// `BAD_STATE`: it is destroyed. `NOT_SUPPORTED`: it is the root. `ACCESS_DENIED`: the vDSO's code is in it.
    pub fn vmar_destroy(&mut self, id: Id<Vmar>) -> Result<(), Status> {
        let mut done = 0;
        while let Some(next) = self.vmar_destroy_slice(id, done)? {
            done = next;
        }
        Ok(())
    }

    /// One step of destroying a tree of VMARs whose pages are unmapped in the machine already: removes a child and
    /// descends into it, or marks the VMAR as destroyed and ascends to its parent. Returns the VMAR for the next step.
    /// So a tree of any shape needs no additional memory.
    pub(crate) fn vmar_tree_step(&mut self, aspace: Key, at: Id<Vmar>) -> Option<Id<Vmar>> {
        let vmar = self.objects.get_mut(at).ok()?;
        match vmar.children.pop(&mut self.nodes) {
            Some(Child::Vmar(sub, ..)) => Some(sub),
            Some(Child::Mapping(mapping)) => {
                self.reverse_map_remove(aspace, &mapping);
                Some(at)
            }
            None => {
                vmar.aspace = None;
                let parent = vmar.parent.take();
                self.drop_ref(at.object());
                parent
            }
        }
    }
}
