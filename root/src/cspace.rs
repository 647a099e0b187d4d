//! The root task's own CSpace.
//!
//! The kernel starts the root task in a CNode whose size its configuration says: 4,096 slots by default, which one server and
//! its root task fill to the half, as each page of a program takes one. So the root task makes a CNode with room for all
//! instances and components that it watches, and moves there before it does anything else:
//! 1. What the kernel gave it goes to the slots of the same numbers. The pages of its own image stay behind: nobody uses them.
//! 2. Its thread, its address space and the CNode itself are copied: until step 3 they are needed where they are.
//! 3. Its thread gets the CNode for its CSpace.
//!
//! From then on [`INIT_CNODE`] is the new one. The kernel's, with what was left in it, is in nobody's reach and stays.

use sel4::bootinfo::{INIT_CNODE, INIT_TCB, INIT_VSPACE, SlotRange};
use sel4::{CNode, CPtr, CapData, Error as KernelError, Rights};

use crate::error::{Context, Error};
use crate::make::own_slot;

/// The logarithm of the number of slots.
pub const BITS: u8 = 16;

/// The bits of an address that the CNode does not resolve are zero.
const GUARD: CapData = CapData::guard(0, 64 - BITS);

/// Moves the capabilities in the first `end` slots, but those that stay, into an empty CNode of [`BITS`], and goes on there.
pub fn move_to(cnode: CNode, end: u64, stays: SlotRange) -> Result<(), Error> {
    let fixed = [INIT_TCB.cptr().0, INIT_VSPACE.cptr().0, INIT_CNODE.cptr().0];
    let place = |slot: u64| cnode.slot(slot, BITS);
    // Step 1.
    for slot in (0..end).filter(|slot| !fixed.contains(slot) && !(stays.start..stays.end).contains(slot)) {
        match place(slot).move_from(own_slot(slot)) {
            // Nothing is there.
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
