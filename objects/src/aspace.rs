//! Address spaces: all mappings of a process by address, for look-up in O(log n), whatever tree of VMARs they hang in.

use alloc::collections::BTreeMap;

use abi::Status;

use crate::kernel::Kernel;
use crate::machine::{Aspace, Machine, PAGE, Perm, USER_BASE, USER_TOP};
use crate::object::Id;
use crate::slab::Key;
use crate::vmar::{Lots, Vmar, VmarFlags};
use crate::vmo::Vmo;

/// A run of pages of a VMO in an address space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// First address.
    pub base: u64,
    /// Length in bytes, whole pages.
    pub len: u64,
    /// The VMO, always one with pages of its own.
    pub vmo: Id<Vmo>,
    /// Where in it.
    pub offset: u64,
    /// The VMO that was named when it was mapped: itself, or a window onto it, such as a file that is a slice of an
    /// image.
    pub named: Id<Vmo>,
    /// Where in that one.
    pub named_offset: u64,
    /// What it allows now.
    pub perm: Perm,
    /// What it may be made to allow.
    pub max: Perm,
    /// The VMAR that it hangs in.
    pub vmar: Id<Vmar>,
    /// It can be neither changed nor removed: the vDSO's code.
    pub fixed: bool,
    /// Accesses beyond the pages of the VMO's content are faults.
    pub content_only: bool,
    /// What it shows is a copy that nobody else has, made when a debugger wrote where the program must not.
    pub copied: bool,
}

impl Mapping {
    /// The first address after it.
    pub fn end(&self) -> u64 {
        self.base + self.len
    }
}

/// All mappings of an address space, by base.
#[derive(Default)]
pub struct Mappings {
    map: BTreeMap<u64, Mapping>,
    /// The one that a fault was in last: the next often is, too. None after any change.
    last: Option<Mapping>,
}

impl core::ops::Deref for Mappings {
    type Target = BTreeMap<u64, Mapping>;

    fn deref(&self) -> &Self::Target {
        &self.map
    }
}

impl core::ops::DerefMut for Mappings {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.last = None;
        &mut self.map
    }
}

/// An address space.
pub struct AddressSpace {
    pub(crate) machine: Aspace,
    /// All mappings, by base.
    pub mappings: Mappings,
    /// The VMAR that is all of it, until that is destroyed.
    pub root: Option<Id<Vmar>>,
    /// Where the vDSO's image starts, once its code is mapped; else 0.
    pub vdso_base: u64,
    /// The range of the mapping that is [`Mapping::fixed`]; there is one at most.
    pub(crate) fixed: Option<(u64, u64)>,
    pub(crate) lots: Lots,
}

impl AddressSpace {
    /// The mapping that an address is in.
    #[inline]
    pub fn find(&self, address: u64) -> Option<&Mapping> {
        let (_, mapping) = self.mappings.range(..=address).next_back()?;
        (address < mapping.end()).then_some(mapping)
    }

    /// The same, kept for the next fault.
    #[inline]
    pub(crate) fn fault_in(&mut self, address: u64) -> Option<Mapping> {
        if let Some(last) = self.mappings.last
            && (last.base..last.end()).contains(&address)
        {
            return Some(last);
        }
        let found = self.find(address).copied();
        self.mappings.last = found;
        found
    }
}

impl<M: Machine> Kernel<M> {
    /// An address space.
    pub fn aspace(&self, key: Key) -> Option<&AddressSpace> {
        self.aspaces.get(key)
    }

    /// Whether an address in a mapping that ends with the content of its VMO lies beyond that content's last page.
    #[cold]
    pub(crate) fn is_beyond_content(&self, mapping: &Mapping, address: u64) -> bool {
        let page = (mapping.named_offset + (address - mapping.base)) / PAGE;
        self.vmo_content_size(mapping.named).is_ok_and(|size| page >= size.div_ceil(PAGE))
    }

    /// A new address space with its root VMAR.
    pub(crate) fn aspace_create(&mut self) -> Result<(Key, Id<Vmar>), Status> {
        let machine = self.machine.aspace_create().map_err(|_| Status::NO_MEMORY)?;
        let space = AddressSpace {
            machine,
            mappings: Mappings::default(),
            root: None,
            vdso_base: 0,
            fixed: None,
            lots: Lots::default(),
        };
        let key = self.aspaces.insert(space).map_err(|_| {
            self.machine.aspace_destroy(machine);
            Status::NO_MEMORY
        })?;
        let all = VmarFlags { specific: true, read: true, write: true, execute: true };
        match self.vmar_new(key, None, USER_BASE, USER_TOP - USER_BASE, all) {
            Ok(vmar) => {
                if let Some(space) = self.aspaces.get_mut(key) {
                    space.root = Some(vmar);
                }
                Ok((key, vmar))
            }
            Err(status) => {
                self.aspaces.remove(key);
                self.machine.aspace_destroy(machine);
                Err(status)
            }
        }
    }

    /// Ends an address space with all VMARs and mappings.
    pub(crate) fn aspace_destroy(&mut self, key: Key) {
        let Some(space) = self.aspaces.get_mut(key) else { return };
        let machine = space.machine;
        let root = space.root.take();
        // The machine forgets all at once; then nothing is left to unmap one by one.
        self.machine.aspace_destroy(machine);
        let mappings = self.aspaces.remove(key).map(|space| space.mappings).unwrap_or_default();
        for mapping in mappings.values() {
            self.mapping_let_go(key, mapping);
        }
        if let Some(root) = root {
            self.vmar_tree_dead(root);
        }
    }
}
