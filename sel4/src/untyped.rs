//! Untyped memory, and the objects that are made from it.

use crate::cap::cap;
use crate::generated::{config, invoke};
use crate::{CNode, Result, family};

cap! {
    /// Memory from which objects can be made.
    Untyped
}

/// Maximum number of objects that one [`Untyped::retype`] makes.
pub const MAX_OBJECTS_PER_RETYPE: u64 = config::RETYPE_FAN_OUT_LIMIT;

/// The types of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ObjectType {
    /// Untyped memory of 2^n bytes, n from 4 to 47.
    Untyped(u8),
    /// A thread.
    Tcb,
    /// An endpoint.
    Endpoint,
    /// A notification.
    Notification,
    /// A table of 2^n capabilities, n from 1 on.
    CNode(u8),
    /// A page of 4 KiB.
    Page,
    /// A page of 2 MiB.
    LargePage,
    /// The lowest paging structure: 2 MiB of address space.
    PageTable,
    /// The second: 1 GiB.
    PageDirectory,
    /// The third: 512 GiB.
    Pdpt,
    /// The root of an address space.
    VSpace,
}

impl ObjectType {
    /// Binary logarithm of its size in bytes; objects are aligned to their size.
    pub const fn size_bits(self) -> u8 {
        match self {
            ObjectType::Untyped(bits) => bits,
            ObjectType::Tcb => family::TCB_BITS,
            ObjectType::Endpoint => 4,
            ObjectType::Notification => 5,
            ObjectType::CNode(bits) => bits + 5,
            ObjectType::Page | ObjectType::PageTable | ObjectType::PageDirectory => 12,
            ObjectType::Pdpt | ObjectType::VSpace => 12,
            ObjectType::LargePage => 21,
        }
    }

    /// The kernel's number, and the size if it is variable.
    const fn encode(self) -> (u64, u64) {
        // Enumerations of the C headers: five types of all architectures, then those of x86-64, among which the page of
        // 1 GiB exists only if it is configured.
        let pages = if config::HUGE_PAGE { 8 } else { 7 };
        match self {
            ObjectType::Untyped(bits) => (0, bits as u64),
            ObjectType::Tcb => (1, 0),
            ObjectType::Endpoint => (2, 0),
            ObjectType::Notification => (3, 0),
            ObjectType::CNode(bits) => (4, bits as u64),
            ObjectType::Pdpt => (5, 0),
            ObjectType::VSpace => (6, 0),
            ObjectType::Page => (pages, 0),
            ObjectType::LargePage => (pages + 1, 0),
            ObjectType::PageTable => (pages + 2, 0),
            ObjectType::PageDirectory => (pages + 3, 0),
        }
    }
}

impl Untyped {
    /// Makes `count` adjacent objects (at most [`MAX_OBJECTS_PER_RETYPE`]) in this memory, and puts their capabilities
    /// into as many empty slots from `offset` on, in the CNode to which `depth` bits of `index` lead from `root`; with
    /// a depth of 0 that is `root` itself.
    ///
    /// The memory of pages, page tables and so on is zeroed. An untyped hands out its memory from the bottom up; all of
    /// it is free again when everything made from it has been deleted.
    pub fn retype(self, ty: ObjectType, root: CNode, index: u64, depth: u8, offset: u64, count: u64) -> Result<()> {
        let (number, bits) = ty.encode();
        invoke::untyped_retype(self, number, bits, root, index, depth, offset, count)
    }
}
