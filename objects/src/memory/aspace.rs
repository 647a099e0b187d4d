//! Address spaces: finding the mapping at an address in O(log n), whatever the tree of VMARs.
//!
//! A mapping is among the children of its VMAR. An address space with more VMARs than the root also has a *flat* index:
//! the innermost VMAR from each address up. So a look-up finds the VMAR and then the mapping, and never descends a tree
//! that a program may have made arbitrarily deep.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use abi::Status;

use crate::containers::slab::Key;
use crate::containers::slab::Slab;
use crate::core::continuation::{PAGES_PER_OBJECT, UNMAP_BATCH_PAGES};
use crate::core::object::{Id, ObjectId};
use crate::kernel::Kernel;
use crate::machine::{Aspace, Machine, PAGE, Perm, USER_TOP};
use crate::memory::vmar::{Child, RandomBytes, Vmar, VmarFlags};
use crate::memory::vmo::Vmo;

/// A mapping: a run of pages of a VMO in an address space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// First address.
    pub base: u64,
    /// Length in bytes, whole pages.
    pub len: u64,
    /// The VMO, always one with its own pages.
    pub vmo: Id<Vmo>,
    /// Offset in that VMO.
    pub offset: u64,
    /// The VMO that the program mapped: the same one, or a window onto it, such as a file that is a slice of an image.
    pub named: Id<Vmo>,
    /// Offset in the VMO that the program mapped.
    pub named_offset: u64,
    /// Current permissions.
    pub perm: Perm,
    /// Maximum permissions.
    pub max: Perm,
    /// Its VMAR.
    pub vmar: Id<Vmar>,
    /// It can be neither changed nor removed (the vDSO's code).
    pub fixed: bool,
    /// Accesses beyond the pages of the VMO's content fault.
    pub content_only: bool,
    /// Its VMO is a private copy, made when a debugger wrote where the program must not.
    pub copied: bool,
    /// It is a page table ([`crate::memory::vmar::page_table`]): any page of the VMO may be mapped anywhere in it.
    pub table: bool,
    /// Some of its pages may be mapped in the machine, because it was touched or prefaulted.
    pub(crate) shown: bool,
}

impl Mapping {
    /// The first address after it.
    pub fn end(&self) -> u64 {
        self.base + self.len
    }
}

/// An address space.
pub struct AddressSpace {
    pub(crate) machine: Aspace,
    /// The mapping that the last fault hit, or that was made to be filled since: the next look-up often hits it, too.
    /// None after any change of a mapping.
    pub(crate) last: Option<Mapping>,
    /// Its root VMAR, until that is destroyed.
    pub root: Option<Id<Vmar>>,
    /// The innermost VMAR from an address up. Below the first entry it is the root.
    innermost: BTreeMap<u64, Id<Vmar>>,
    /// Base of the vDSO's image, once its code is mapped; else 0.
    pub vdso_base: u64,
    /// The range of the mapping that is [`Mapping::fixed`]; there is at most one.
    pub(crate) fixed: Option<(u64, u64)>,
    pub(crate) lots: RandomBytes,
    /// The part of another address space that it shows, if any ([`crate::task::shared_process`]).
    pub(crate) shows: Option<SharedPart>,
    /// Address spaces that show a part of this one.
    pub(crate) shown_in: Vec<Key>,
    /// The process that is charged for it, once there is one.
    pub(crate) payer: Option<ObjectId>,
    /// Number of mappings.
    pub(crate) mapped: u64,
    /// Bytes charged for mappings and page tables.
    paid: u64,
    /// Progress of its destruction: the address up to which nothing is mapped any more, and the next VMAR to destroy.
    ending: (u64, Option<Id<Vmar>>),
}

/// Number of VMARs and mappings destroyed per step when an address space is destroyed.
const STEPS: u32 = 8;
/// Bytes charged for a mapping.
pub(crate) const MAPPING: u64 = 256;
/// Granularity of the charge in bytes; at most `SPARE` is charged too much.
const STEP: u64 = 12 * PAGE;
const SPARE: u64 = 4 * STEP;

impl AddressSpace {
    /// The innermost VMAR at an address.
    #[inline]
    pub(crate) fn vmar_at(&self, address: u64) -> Option<Id<Vmar>> {
        if self.innermost.is_empty() {
            return self.root;
        }
        self.innermost.range(..=address).next_back().map(|(_, &vmar)| vmar).or(self.root)
    }

    /// Whether a range lies in a VMAR and contains no other VMAR.
    pub(crate) fn is_all_of(&self, vmar: Id<Vmar>, base: u64, end: u64) -> bool {
        self.vmar_at(base) == Some(vmar) && self.innermost.range(base.saturating_add(1)..end).next().is_none()
    }

    /// Whether there are no VMARs but the root.
    #[cfg(test)]
    pub(crate) fn is_plain(&self) -> bool {
        self.innermost.is_empty()
    }

    /// A VMAR was created in another one, in a free range.
    pub(crate) fn vmar_begins(&mut self, vmar: Id<Vmar>, base: u64, end: u64, parent: Id<Vmar>) {
        self.innermost.insert(base, vmar);
        self.innermost.entry(end).or_insert(parent);
    }

    /// A VMAR is destroyed with everything in it: its range belongs to its parent again.
    pub(crate) fn vmar_ends(&mut self, base: u64, end: u64, parent: Id<Vmar>) {
        while let Some((&at, _)) = self.innermost.range(base..end).next() {
            self.innermost.remove(&at);
        }
        let before = base.checked_sub(1).and_then(|before| self.vmar_at(before));
        if before != Some(parent) {
            self.innermost.insert(base, parent);
        }
        if self.innermost.get(&end) == Some(&parent) {
            self.innermost.remove(&end);
        }
    }
}

/// A part of an address space that shows another one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedPart {
    /// The address space shown.
    pub(crate) of: Key,
    /// The range.
    pub(crate) from: u64,
    pub(crate) end: u64,
}

/// The machine's address spaces in which pages of an address space may be mapped (2).
pub(crate) fn each_machine(aspaces: &Slab<AddressSpace>, aspace: Key, mut act: impl FnMut(Aspace)) {
    let Some(space) = aspaces.get(aspace) else { return };
    act(space.machine);
    for &other in &space.shown_in {
        if let Some(other) = aspaces.get(other) {
            act(other.machine);
        }
    }
}

impl<M: Machine> Kernel<M> {
    /// An address space.
    pub fn aspace(&self, key: Key) -> Option<&AddressSpace> {
        self.aspaces.get(key)
    }

    /// The mapping at an address.
    #[inline]
    pub fn mapping_at(&self, aspace: Key, address: u64) -> Option<&Mapping> {
        let vmar = self.aspaces.get(self.space_of(aspace, address))?.vmar_at(address)?;
        match self.objects.get(vmar).ok()?.children.at(address)? {
            Child::Mapping(mapping) => Some(mapping),
            Child::Vmar(..) => None,
        }
    }

    /// The first mapping that begins at or above an address.
    pub fn mapping_from(&self, aspace: Key, mut address: u64) -> Option<&Mapping> {
        let mut at = self.aspaces.get(self.space_of(aspace, address))?.vmar_at(address)?;
        loop {
            let vmar = self.objects.get(at).ok()?;
            (at, address) = match vmar.children.from(address) {
                Some(Child::Mapping(mapping)) => return Some(mapping),
                Some(&Child::Vmar(sub, base, _)) => (sub, base),
                None => match vmar.parent {
                    Some(parent) => (parent, vmar.end()),
                    None => (self.root_after(aspace, vmar.end())?, vmar.end()),
                },
            };
        }
    }

    /// All mappings of an address space, by address, for tests.
    pub fn mappings(&self, aspace: Key) -> impl Iterator<Item = &Mapping> {
        core::iter::successors(self.mapping_from(aspace, 0), move |mapping| self.mapping_from(aspace, mapping.end()))
    }

    /// Changes the mapping at an address, except its range and VMO.
    pub(crate) fn mapping_change(&mut self, aspace: Key, address: u64, change: impl FnOnce(&mut Mapping)) {
        let Some(space) = self.aspaces.get_mut(self.space_of(aspace, address)) else { return };
        space.last = None;
        let vmar = space.vmar_at(address).and_then(|vmar| self.objects.get_mut(vmar).ok());
        if let Some(mapping) = vmar.and_then(|vmar| vmar.children.mapping_mut(address)) {
            change(mapping);
        }
    }

    /// [`Kernel::mapping_at`] for a fault; caches the result for the next one.
    #[inline]
    pub(crate) fn fault_in(&mut self, aspace: Key, address: u64) -> Option<Mapping> {
        let space = self.aspaces.get_mut(self.space_of(aspace, address))?;
        if let Some(last) = space.last
            && (last.base..last.end()).contains(&address)
        {
            return Some(last);
        }
        let vmar = self.objects.get_mut(space.vmar_at(address)?).ok()?;
        let mapping = vmar.children.mapping_mut(address)?;
        mapping.shown = true;
        space.last = Some(*mapping);
        space.last
    }

    /// Whether an address is beyond the last content page of a mapping that ends with its VMO's content.
    #[cold]
    pub(crate) fn is_beyond_content(&self, mapping: &Mapping, address: u64) -> bool {
        let page = (mapping.named_offset + (address - mapping.base)) / PAGE;
        self.vmo_content_size(mapping.named).is_ok_and(|size| page >= size.div_ceil(PAGE))
    }

    /// Charges a process for its address space's mappings, and for the machine's tables, before an operation that may
    /// add some.
    ///
    /// # Errors
    /// `NO_MEMORY`: the job's memory limit.
    #[inline]
    pub(crate) fn aspace_update_charge(&mut self, key: Key) -> Result<(), Status> {
        let Some(space) = self.aspaces.get(key) else { return Ok(()) };
        let owed = space.mapped * MAPPING + self.machine.aspace_bytes(space.machine);
        // The charge must be neither too low nor much too high.
        if space.paid.wrapping_sub(owed) <= SPARE { Ok(()) } else { self.aspace_update_charge_slow(key, owed) }
    }

    #[cold]
    #[inline(never)]
    fn aspace_update_charge_slow(&mut self, key: Key, owed: u64) -> Result<(), Status> {
        let Some(space) = self.aspaces.get_mut(key) else { return Ok(()) };
        let (Some(payer), paid, wanted) = (space.payer, space.paid, owed + STEP) else { return Ok(()) };
        if paid > wanted {
            space.paid = wanted;
            self.discharge(payer, paid - wanted);
            return Ok(());
        }
        self.may_charge(payer, wanted - paid)?;
        self.charge(payer, wanted - paid);
        if let Some(space) = self.aspaces.get_mut(key) {
            space.paid = wanted;
        }
        Ok(())
    }

    /// Creates an address space, a part of which may show another one. `machine` is an existing address space of the
    /// machine, which is destroyed on an error.
    pub(crate) fn aspace_create(&mut self, machine: Option<Aspace>, shows: Option<SharedPart>) -> Result<Key, Status> {
        let machine = match machine {
            Some(machine) => machine,
            None => self.retry_with_reaper(|kernel| kernel.machine.aspace_create()).map_err(|_| Status::NO_MEMORY)?,
        };
        let space = AddressSpace {
            machine,
            last: None,
            root: None,
            innermost: BTreeMap::new(),
            vdso_base: 0,
            fixed: None,
            lots: RandomBytes::default(),
            shows: None,
            shown_in: Vec::new(),
            payer: None,
            mapped: 0,
            paid: 0,
            ending: (0, None),
        };
        let key = self.aspaces.insert(space).map_err(|_| {
            self.machine.aspace_destroy(machine);
            Status::NO_MEMORY
        })?;
        match shows.map_or(Ok(()), |shows| self.space_shows(key, shows)) {
            Ok(()) => Ok(key),
            Err(status) => {
                self.aspaces.remove(key);
                self.machine.aspace_destroy(machine);
                Err(status)
            }
        }
    }

    /// Like [`Kernel::aspace_create`], with a root VMAR.
    pub(crate) fn aspace_create_with(
        &mut self,
        machine: Option<Aspace>,
        (base, end): (u64, u64),
        shows: Option<SharedPart>,
    ) -> Result<(Key, Id<Vmar>), Status> {
        let key = self.aspace_create(machine, shows)?;
        let all = VmarFlags { specific: true, read: true, write: true, execute: true };
        let vmar = self.vmar_new(key, None, base, end - base, all).inspect_err(|_| self.aspace_destroy(key))?;
        if let Some(space) = self.aspaces.get_mut(key) {
            space.root = Some(vmar);
        }
        Ok((key, vmar))
    }

    /// Begins to destroy an address space: detaches its root VMAR and ends its charge. No thread makes calls in it.
    pub(crate) fn aspace_ends(&mut self, key: Key) {
        let Some(space) = self.aspaces.get_mut(key) else { return };
        space.ending.1 = space.root.take();
        if let Some(payer) = space.payer.take() {
            let paid = core::mem::take(&mut space.paid);
            self.discharge(payer, paid);
        }
    }

    /// One step of destroying an address space: first the machine's mappings, then VMARs and mappings, then the address
    /// space itself. Says whether there is more.
    pub(crate) fn aspace_reap_step(&mut self, key: Key) -> bool {
        let Some(space) = self.aspaces.get_mut(key) else { return false };
        let (machine, (at, vmar)) = (space.machine, space.ending);
        if at < USER_TOP {
            let pages = self.machine.unmap_some(machine, at, (USER_TOP - at) / PAGE, UNMAP_BATCH_PAGES);
            space.ending.0 = at + pages * PAGE;
            self.slice_add_work(UNMAP_BATCH_PAGES / PAGES_PER_OBJECT);
            return true;
        }
        if vmar.is_some() {
            let mut next = vmar;
            for _ in 0..STEPS {
                next = next.and_then(|vmar| self.vmar_tree_step(key, vmar));
            }
            if let Some(space) = self.aspaces.get_mut(key) {
                space.ending.1 = next;
            }
            self.slice_add_work(STEPS);
            return true;
        }
        self.space_hides(key);
        self.machine.aspace_destroy(machine);
        self.aspaces.remove(key);
        false
    }

    /// Destroys an address space in which nothing was mapped yet.
    pub(crate) fn aspace_destroy(&mut self, key: Key) {
        self.aspace_ends(key);
        while self.aspace_reap_step(key) {}
    }
}
