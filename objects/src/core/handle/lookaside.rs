//! Lookaside cache of recent handle look-ups.
//!
//! A look-up goes from a process to its table, through the mask of its values to the cell, and to the object for its
//! type. Programs use the same few handles again and again, so a small table caches results by the handle's value.
//! Entries stay valid, because neither a handle's object nor an object's type changes, and the key of a process that
//! has ended is never reused. They must only be removed when a handle leaves its process's table
//! ([`HandleLookaside::forget`]).

use core::array;
use core::cell::Cell;

use abi::Rights;

use super::{FIXED_BITS, Handle, HandleValue};
use crate::core::noun::Noun;
use crate::core::object::{Id, ObjectId};

/// Number of entries; a power of two.
const ENTRIES: usize = 64;

/// The cached result for a handle of a process. Each field is its own cell, so that a look-up reads only the fields
/// that it needs.
#[repr(align(32))]
pub(crate) struct LookasideEntry {
    value: Cell<HandleValue>,
    process: Cell<ObjectId>,
    object: Cell<ObjectId>,
    rights: Cell<Rights>,
    kind: Cell<u32>,
}

impl LookasideEntry {
    /// An entry for no process: the first of all objects is a job.
    fn none() -> Self {
        LookasideEntry {
            value: Cell::new(super::INVALID),
            process: Cell::new(ObjectId::FIRST),
            object: Cell::new(ObjectId::FIRST),
            rights: Cell::new(Rights::NONE),
            kind: Cell::new(0),
        }
    }

    /// The handle.
    #[inline(always)]
    pub fn handle(&self) -> Handle {
        Handle { object: self.object.get(), rights: self.rights.get() }
    }

    /// The object, if it is a `T`.
    #[inline(always)]
    pub fn to<T: Noun>(&self) -> Option<Id<T>> {
        (self.kind.get() == T::TYPE).then(|| Id::new(self.object.get()))
    }

    /// The same, if it has all of these rights.
    #[inline(always)]
    pub fn to_with<T: Noun>(&self, rights: Rights) -> Option<Id<T>> {
        if self.rights.get().contains(rights) { self.to() } else { None }
    }
}

/// See the description of the module.
pub(crate) struct HandleLookaside([LookasideEntry; ENTRIES]);

impl Default for HandleLookaside {
    fn default() -> Self {
        HandleLookaside(array::from_fn(|_| LookasideEntry::none()))
    }
}

impl HandleLookaside {
    /// The entry for a value; all values have the same lowest bits.
    #[inline(always)]
    fn place(&self, value: HandleValue) -> &LookasideEntry {
        let [first, ..] = &self.0;
        self.0.get((value >> FIXED_BITS.count_ones()) as usize % ENTRIES).unwrap_or(first)
    }

    /// The cached result for a handle of a process. On a miss the caller looks it up and may store it with
    /// [`HandleLookaside::keep`].
    #[inline(always)]
    pub fn find(&self, process: ObjectId, value: HandleValue) -> Option<&LookasideEntry> {
        let found = self.place(value);
        (found.value.get() == value && found.process.get() == process).then_some(found)
    }

    /// Caches a result.
    #[inline]
    pub fn keep(&self, process: ObjectId, value: HandleValue, handle: Handle, kind: u32) -> &LookasideEntry {
        let found = self.place(value);
        found.value.set(value);
        found.process.set(process);
        found.object.set(handle.object);
        found.rights.set(handle.rights);
        found.kind.set(kind);
        found
    }

    /// A handle leaves its table.
    #[inline(always)]
    pub fn forget(&self, value: HandleValue) {
        let found = self.place(value);
        if found.value.get() == value {
            found.process.set(ObjectId::FIRST);
        }
    }

    /// All entries: process, value, handle, type.
    #[cfg(any(test, feature = "fake"))]
    pub fn known(&self) -> impl Iterator<Item = (ObjectId, HandleValue, Handle, u32)> + '_ {
        let known = self.0.iter().filter(|found| found.process.get() != ObjectId::FIRST);
        known.map(|found| (found.process.get(), found.value.get(), found.handle(), found.kind.get()))
    }
}
