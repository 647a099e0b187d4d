//! Address spaces: pages and the structures that map them.

use crate::cap::cap;
use crate::generated::invoke;
use crate::{Result, Rights, Slot, family};

/// Bytes of the smallest page.
pub const PAGE_SIZE: usize = 4096;

cap! {
    /// An address space: the root of its paging structures. It must be given an ASID before anything is mapped.
    VSpace
}
cap! {
    /// A page of memory, or of a device. Each capability to it can be mapped in one place.
    Page
}
cap! {
    /// Maps 2 MiB.
    PageTable
}
cap! {
    /// Maps 1 GiB.
    PageDirectory
}
cap! {
    /// Maps 512 GiB.
    Pdpt
}

/// How accesses to a page are cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Caching {
    /// As memory is.
    #[default]
    WriteBack,
    /// Reads cached, writes passed on.
    WriteThrough,
    /// Not at all, unless a range register says write-combining.
    Disabled,
    /// Not at all; for device registers.
    Uncacheable,
    /// Writes collected; for frame buffers.
    WriteCombining,
}

impl Caching {
    /// The kernel's number, the same in all supported versions.
    const fn number(self) -> u64 {
        match self {
            Caching::WriteBack => 0,
            Caching::WriteThrough => 1,
            Caching::Disabled => 2,
            Caching::Uncacheable => 3,
            Caching::WriteCombining => 4,
        }
    }
}

impl Caching {
    /// Cached so, and not executed.
    pub const fn not_executed(self) -> Attributes {
        Attributes { caching: self, execute: false }
    }
}

/// How a page is mapped, beside what rights say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// How accesses are cached.
    pub caching: Caching,
    /// Whether it may be executed. Where the kernel does not [know that](KNOWS_EXECUTE), every page may be.
    pub execute: bool,
}

/// What is not said to be otherwise may be executed.
impl From<Caching> for Attributes {
    fn from(caching: Caching) -> Attributes {
        Attributes { caching, execute: true }
    }
}

impl Attributes {
    /// The kernel's number.
    const fn number(self) -> u64 {
        self.caching.number() | if self.execute { 0 } else { family::NOT_EXECUTED }
    }
}

/// Whether the kernel keeps pages from being executed, and tells of each page fault whether it was a fetch.
pub const KNOWS_EXECUTE: bool = family::NOT_EXECUTED != 0;

/// The most pages that [`Page::map_several`] maps.
pub const AT_ONCE: u64 = 64;

/// Whether [`Page::written_several`] tells anything.
pub const KNOWS_WRITTEN: bool = family::KNOWS_WRITTEN;

/// Capabilities of pages that stand side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Several {
    /// The CNode that the pages' own stand in.
    pub cnode: Slot,
    /// The index, with the same root and depth, of the CNode of those that map them.
    pub to_index: u64,
    /// The first slot of the pages' own.
    pub from: u64,
    /// The first slot of those that map them.
    pub to: u64,
    /// How many.
    pub count: u64,
}

impl Page {
    /// Maps the page, which this capability must not map yet.
    ///
    /// If a paging structure is missing, [`crate::Error::missing_table`] of the error says which.
    pub fn map(self, vspace: VSpace, address: u64, rights: Rights, attributes: impl Into<Attributes>) -> Result<()> {
        invoke::x86_page_map(self, vspace, address, family::rights(rights), attributes.into().number())
    }

    /// Maps the page again where this capability already maps it, with other rights or attributes. From 13 on this is
    /// the same as [`Page::map`]; on 5.0.0 the kernel knows the address and ignores the one given here.
    pub fn remap(self, vspace: VSpace, address: u64, rights: Rights, attributes: impl Into<Attributes>) -> Result<()> {
        family::page_remap(self, vspace, address, family::rights(rights), attributes.into().number())
    }

    /// Takes the page out of the address space that this capability maps it to. It is no error if it is mapped nowhere.
    pub fn unmap(self) -> Result<()> {
        family::page_unmap(self)
    }

    /// Maps several pages side by side, whose capabilities stand side by side in a CNode from slot `from` on, by those
    /// from slot `to` on; where there is none yet, it is made, a copy. All or none; this one is any page. They lie in one
    /// page table, and are at most [`AT_ONCE`]. `None` where the kernel does not do that.
    pub fn map_several(
        self,
        vspace: VSpace,
        address: u64,
        rights: Rights,
        attributes: impl Into<Attributes>,
        several: Several,
    ) -> Option<Result<()>> {
        family::page_map_several(self, vspace, address, family::rights(rights), attributes.into().number(), several)
    }

    /// Unmaps what the pages' capabilities from slot `to` on map; those that map nothing stay as they are. `None` where
    /// the kernel does not do that.
    pub fn unmap_several(self, several: Several) -> Option<Result<()>> {
        family::page_unmap_several(self, several)
    }

    /// Which of the pages' capabilities from slot `to` on map a page that was written by that mapping, a bit for each.
    /// `None` where the kernel does not tell.
    pub fn written_several(self, several: Several) -> Option<Result<u64>> {
        family::page_written_several(self, several)
    }

    /// Its physical address.
    pub fn address(self) -> Result<u64> {
        invoke::x86_page_get_address(self)
    }
}

macro_rules! table {
    ($name:ident, $map:ident, $unmap:ident) => {
        impl $name {
            /// Puts this structure into the address space, where it serves the region around `address`.
            pub fn map(self, vspace: VSpace, address: u64) -> Result<()> {
                invoke::$map(self, vspace, address, Caching::WriteBack.number())
            }

            /// Takes it out. What it maps is no longer reachable.
            pub fn unmap(self) -> Result<()> {
                invoke::$unmap(self)
            }
        }
    };
}

table!(PageTable, x86_pagetable_map, x86_pagetable_unmap);
table!(PageDirectory, x86_pagedirectory_map, x86_pagedirectory_unmap);
table!(Pdpt, x86_pdpt_map, x86_pdpt_unmap);
