//! The root task's own CSpace.
//!
//! The kernel starts the root task in a CNode whose size is configured: 4,096 slots by default. One server and its root
//! task use half of it, because each page of a program takes a slot. So the root task creates a CNode with room for all
//! instances and components, and moves there before it does anything else:
//! 1. It moves the capabilities that the kernel gave it to the slots with the same numbers. The pages of its own image
//!    stay behind, because nothing uses them.
//! 2. It copies the capabilities to its thread, its address space and the CNode itself: until step 3 they are needed in
//!    the old CNode.
//! 3. It sets the new CNode as its thread's CSpace.
//!
//! From then on [`INIT_CNODE`] is the new CNode. The kernel's CNode still exists, with the capabilities that were not
//! moved, but is unreachable.

use sel4::bootinfo::{INIT_CNODE, INIT_TCB, INIT_VSPACE, SlotRange};
use sel4::{CNode, CPtr, CapData, Error as KernelError, Rights};

use crate::error::{Context, Error};
use crate::make::own_slot;

/// Binary logarithm of the number of slots.
pub const BITS: u8 = 16;

/// The bits of an address that the CNode does not resolve are zero.
const GUARD: CapData = CapData::guard(0, 64 - BITS);

/// Moves the capabilities in the first `end` slots, except for `stays`, into an empty CNode of [`BITS`], and switches
/// to that CNode.
pub fn move_to(cnode: CNode, end: u64, stays: SlotRange) -> Result<(), Error> {
    let fixed = [INIT_TCB.cptr().0, INIT_VSPACE.cptr().0, INIT_CNODE.cptr().0];
    let place = |slot: u64| cnode.slot(slot, BITS);
    // Step 1.
    for slot in (0..end).filter(|slot| !fixed.contains(slot) && !(stays.start..stays.end).contains(slot)) {
        match place(slot).move_from(own_slot(slot)) {
            // The slot is empty.
            Ok(()) | Err(KernelError::FailedLookup { source: true, .. }) => {}
            Err(error) => return Err(error).context("the root task's capabilities"),
        }
    }
    // Step 2.
    for slot in [INIT_TCB.cptr().0, INIT_VSPACE.cptr().0] {
        place(slot).copy_from(own_slot(slot), Rights::ALL).context("the root task's capabilities")?;
    }
    let itself = place(INIT_CNODE.cptr().0).mint_from(own_slot(cnode.cptr().0), Rights::ALL, GUARD);
    itself.context("the root task's slots")?;
    // Step 3.
    INIT_TCB.set_space(CPtr(0), cnode, GUARD, INIT_VSPACE).context("the root task's slots")
}
