//! The kernel objects of a thread: its TCB, and the CNode that is its whole capability space.
//!
//! If a TCB takes half a unit, both fit into one unit. On a kernel that is configured for AVX and keeps the vector
//! registers in the TCB, a TCB fills a unit, and the CNode is in a second one.

use objects::containers::growth::OutOfMemory;

use super::{Memory, Unit};
use crate::machine::sys::{Object, THREAD_BITS};

/// Units that a thread takes.
pub const THREAD_UNITS: u64 = if Object::Tcb.size_bits() < 12 { 1 } else { 2 };
const _: () = assert!(Object::Tcb.size_bits() <= 12 && Object::CNode(THREAD_BITS).size_bits() < 12);

/// The objects of one thread.
#[derive(Clone, Copy)]
pub struct ThreadObjects {
    unit: Unit,
    /// The unit of the CNode, if it is separate.
    further: Option<Unit>,
    /// The capability of the TCB.
    pub tcb: u64,
    /// The capability of the CNode of 2^[`THREAD_BITS`] slots, initially empty. It is in a loose slot.
    pub cnode: u64,
}

impl Memory {
    /// Makes the objects of a thread.
    pub fn thread_objects(&mut self) -> Result<ThreadObjects, OutOfMemory> {
        let cnode = self.slot_alloc()?;
        let made = self.tcb_and_cnode(cnode);
        made.inspect_err(|_| self.slot_free(cnode))
    }

    fn tcb_and_cnode(&mut self, cnode: u64) -> Result<ThreadObjects, OutOfMemory> {
        let further = if THREAD_UNITS > 1 { Some(self.unit_alloc()?) } else { None };
        let made = self.unit_object(Object::Tcb).and_then(|(unit, tcb)| {
            let untyped = self.slot(further.unwrap_or(unit).0, 0);
            let made = self.make_at(untyped, Object::CNode(THREAD_BITS), cnode);
            made.inspect_err(|_| self.unit_free(unit))?;
            Ok(ThreadObjects { unit, further, tcb, cnode })
        });
        made.inspect_err(|_| further.into_iter().for_each(|unit| self.unit_free(unit)))
    }

    /// Destroys them.
    pub fn thread_objects_free(&mut self, objects: ThreadObjects) {
        self.unit_free(objects.unit);
        objects.further.into_iter().for_each(|unit| self.unit_free(unit));
        self.slot_free(objects.cnode);
    }
}
