//! Address-space identifiers: every [`VSpace`] needs one. A pool holds 512, and there are at most 8 pools.

use crate::cap::cap;
use crate::generated::invoke;
use crate::{Result, Slot, Untyped, VSpace};

cap! {
    /// The authority to make pools.
    AsidControl
}
cap! {
    /// A pool of 512 identifiers.
    AsidPool
}

impl AsidControl {
    /// Makes a pool from an untyped of 4 KiB and puts its capability into the empty slot.
    pub fn make_pool(self, memory: Untyped, to: Slot) -> Result<()> {
        invoke::x86_asidcontrol_make_pool(self, memory, to.root, to.index, to.depth)
    }
}

impl AsidPool {
    /// Assigns an identifier to a new address space.
    pub fn assign(self, vspace: VSpace) -> Result<()> {
        invoke::x86_asidpool_assign(self, vspace)
    }
}
