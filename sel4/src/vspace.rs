//! Address spaces: pages and the structures that map them.

use crate::cap::cap;
use crate::generated::invoke;
use crate::{Result, Rights, Slot, family};

/// Bytes of the smallest page.
pub const PAGE_SIZE: usize = 4096;

cap! {
    /// An address space: the root of its paging structures. It needs an ASID before anything can be mapped.
    VSpace
}
cap! {
    /// A page of memory, or of a device. Each capability to it can be mapped at one address.
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
    /// Write-back, as for memory.
    #[default]
    WriteBack,
    /// Cached reads, write-through.
    WriteThrough,
    /// Uncached, unless a range register says write-combining.
    Disabled,
    /// Strictly uncached; for device registers.
    Uncacheable,
    /// Write-combining; for frame buffers.
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
    /// This caching, and not executable.
    pub const fn not_executed(self) -> Attributes {
        Attributes { caching: self, execute: false }
    }
}

/// How a page is mapped, besides its rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// How accesses are cached.
    pub caching: Caching,
    /// Whether it is executable. On a kernel that does not [support this](KNOWS_EXECUTE), every page is executable.
    pub execute: bool,
}

/// Pages are executable by default.
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

/// Whether the kernel can make pages non-executable, and reports for each page fault whether it was a fetch.
pub const KNOWS_EXECUTE: bool = family::NOT_EXECUTED != 0;

/// Maximum number of pages that [`Page::map_several`] maps.
pub const AT_ONCE: u64 = 64;

/// Whether [`Page::written_several`] is supported.
pub const KNOWS_WRITTEN: bool = family::KNOWS_WRITTEN;

/// Adjacent page capabilities, for the calls on several pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdjacentPages {
    /// The CNode that contains the pages' original capabilities.
    pub cnode: Slot,
    /// The index, with the same root and depth, of the CNode that contains the capabilities for mapping.
    pub to_index: u64,
    /// The first slot of the original capabilities.
    pub from: u64,
    /// The first slot of the capabilities for mapping.
    pub to: u64,
    /// Number of pages.
    pub count: u64,
}

impl Page {
    /// Maps the page. This capability must not be mapped yet.
    ///
    /// If a paging structure is missing, [`crate::Error::missing_table`] of the error tells which.
    pub fn map(self, vspace: VSpace, address: u64, rights: Rights, attributes: impl Into<Attributes>) -> Result<()> {
        invoke::x86_page_map(self, vspace, address, family::rights(rights), attributes.into().number())
    }

    /// Remaps the page where this capability already maps it, with other rights or attributes. From 13 on this is the
    /// same as [`Page::map`]; 5.0.0 knows the address and ignores the one given here.
    pub fn remap(self, vspace: VSpace, address: u64, rights: Rights, attributes: impl Into<Attributes>) -> Result<()> {
        family::page_remap(self, vspace, address, family::rights(rights), attributes.into().number())
    }

    /// Ends this capability's mapping. It is no error if there is none.
    pub fn unmap(self) -> Result<()> {
        family::page_unmap(self)
    }

    /// Maps several pages at consecutive addresses. Their capabilities are adjacent in a CNode from slot `from` on; the
    /// capabilities from slot `to` on map them, and are copied from the originals if missing. All or none are mapped;
    /// `self` may be any page. The pages are in one page table, at most [`AT_ONCE`]. `None` if the kernel does not
    /// support that.
    pub fn map_several(
        self,
        vspace: VSpace,
        address: u64,
        rights: Rights,
        attributes: impl Into<Attributes>,
        several: AdjacentPages,
    ) -> Option<Result<()>> {
        family::page_map_several(self, vspace, address, family::rights(rights), attributes.into().number(), several)
    }

    /// Ends the mappings of the pages' capabilities from slot `to` on; those that map nothing stay unchanged. `None` if
    /// the kernel does not support that.
    pub fn unmap_several(self, several: AdjacentPages) -> Option<Result<()>> {
        family::page_unmap_several(self, several)
    }

    /// Which of the pages' capabilities from slot `to` on map a page that was written by that mapping, one bit for
    /// each. `None` if the kernel does not support that.
    pub fn written_several(self, several: AdjacentPages) -> Option<Result<u64>> {
        family::page_written_several(self, several)
    }

    /// Returns its physical address.
    pub fn address(self) -> Result<u64> {
        invoke::x86_page_get_address(self)
    }
}

macro_rules! table {
    ($name:ident, $map:ident, $unmap:ident) => {
        impl $name {
            /// Maps this structure into the address space, for the region around `address`.
            pub fn map(self, vspace: VSpace, address: u64) -> Result<()> {
                invoke::$map(self, vspace, address, Caching::WriteBack.number())
            }

            /// Unmaps it. What it maps is no longer reachable.
            pub fn unmap(self) -> Result<()> {
                invoke::$unmap(self)
            }
        }
    };
}

table!(PageTable, x86_pagetable_map, x86_pagetable_unmap);
table!(PageDirectory, x86_pagedirectory_map, x86_pagedirectory_unmap);
table!(Pdpt, x86_pdpt_map, x86_pdpt_unmap);
