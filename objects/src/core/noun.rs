//! Types of objects, and the constants of each.

use abi::Status;

use crate::core::object::Id;
use crate::kernel::nouns::Body;

/// A type whose values are a variant of [`Body`]. The kernel's list of nouns implements it.
pub trait Variant: Sized {
    /// The object's type-specific part, if it is of this type.
    fn of(body: &Body) -> Option<&Self>;
    /// The same, to change it.
    fn of_mut(body: &mut Body) -> Option<&mut Self>;
    /// Whether the object is of this type.
    fn is(body: &Body) -> bool;
    /// As [`Variant::of`], for an object that must be of this type.
    ///
    /// # Errors
    /// `INTERNAL`: it is not.
    fn own(body: &Body) -> Result<&Self, Status>;
    /// The same, to change it.
    ///
    /// # Errors
    /// As [`Variant::own`].
    fn own_mut(body: &mut Body) -> Result<&mut Self, Status>;
}

/// A type of object and its constants.
pub trait Noun: Variant {
    /// `ZX_OBJ_TYPE_*`.
    const TYPE: u32;
    /// Bytes for which an object is charged from its creation, in addition to those that every object takes.
    const BYTES: u64 = 128;

    /// Bytes that an object has when it is charged for the first time.
    fn held_bytes(&self) -> u64 {
        0
    }
}

/// A noun whose objects come in pairs.
pub(crate) trait Peered: Noun {
    /// The peer, while it exists, and the peer's koid, which stays.
    fn peer_mut(&mut self) -> (&mut Option<Id<Self>>, &mut u64);
}

/// The field of a noun in which it stores the peer.
macro_rules! peered {
    ($noun:ty) => {
        impl crate::core::noun::Peered for $noun {
            fn peer_mut(&mut self) -> (&mut Option<Id<Self>>, &mut u64) {
                (&mut self.peer, &mut self.peer_koid)
            }
        }
    };
}

/// Declares a list linked through a field of a noun.
macro_rules! chain {
    ($(#[$doc:meta])* $chain:ident = $noun:ident.$field:ident) => {
        $(#[$doc])*
        pub struct $chain;

        crate::core::noun::linked!($chain = $noun.$field);
    };
}

/// Declares the link field of a noun for a list declared elsewhere.
macro_rules! linked {
    ($chain:ident = $noun:ident.$field:ident) => {
        impl crate::containers::list::Chain for $chain {
            type Entry = crate::core::object::Object;
            fn link(object: &Self::Entry) -> Option<&crate::containers::list::Link> {
                Some(&<$noun as crate::core::noun::Variant>::of(&object.body)?.$field)
            }
            fn link_mut(object: &mut Self::Entry) -> Option<&mut crate::containers::list::Link> {
                Some(&mut <$noun as crate::core::noun::Variant>::of_mut(&mut object.body)?.$field)
            }
        }
    };
}

pub(crate) use {chain, linked, peered};
