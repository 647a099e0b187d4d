//! Types of objects, and what each says about itself.
//!
//! A noun implements [`Noun`] and [`ObjectOps`] beside its type. The kernel's list of nouns
//! ([`crate::kernel::nouns`]) implements [`Variant`] for it, and finds these implementations for an object of any type.

use alloc::boxed::Box;

use abi::{Signals, Status};

use crate::containers::name::Name;
use crate::containers::slab::Key;
use crate::core::account::QueueCharge;
use crate::core::object::{DrainStep, Id, ObjectId, Users};
use crate::kernel::Kernel;
use crate::kernel::nouns::Body;
use crate::machine::Machine;

/// A type whose values can be the type-specific part of an object ([`Body`]). The kernel's list of nouns implements it.
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
    /// The type-specific part of a new object.
    fn into_body(self: Box<Self>) -> Body;
    /// Takes the type-specific part of a destroyed object, if it was of this type.
    fn from_body(body: Body) -> Option<Box<Self>>;
}

/// What a type of object says about itself and its objects.
pub trait Noun: Variant {
    /// `ZX_OBJ_TYPE_*`.
    const TYPE: u32;
    /// Bytes for which an object is charged from its creation, in addition to those that every object takes.
    const BYTES: u64 = 128;
    /// Whether its objects are tasks, which are found by their koids.
    const IS_TASK: bool = false;
    /// The signals that programs may set and clear.
    const USER_SIGNALS: Signals = Signals::USER_ALL;

    /// Bytes that an object has when it is charged for the first time.
    fn held_bytes(&self) -> u64 {
        0
    }

    /// The account that a new object is charged to; `creator` is the account of the process that gets its first handle.
    ///
    /// # Errors
    /// `BAD_STATE`: the root job is charged to no account.
    #[inline(always)]
    fn paying_account<M: Machine>(_: &Kernel<M>, _: Id<Self>, creator: Key) -> Result<Key, Status> {
        Ok(creator)
    }

    /// The name, if objects of this type have one.
    fn name(&self) -> Option<Name> {
        None
    }

    /// The peer, if objects of this type come in pairs.
    fn peer(&self) -> Option<Peer> {
        None
    }

    /// The job or process that a task is in.
    fn parent(&self) -> Option<ObjectId> {
        None
    }

    /// Whether the parent lists the task as a child.
    fn is_child(&self) -> bool {
        false
    }
}

/// The other object of a pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    /// The object, while it exists.
    pub object: Option<ObjectId>,
    /// Its koid, also after its end.
    pub koid: u64,
}

impl Peer {
    pub(crate) fn new<T>(object: Option<Id<T>>, koid: u64) -> Option<Peer> {
        Some(Peer { object: object.map(Id::object), koid })
    }
}

/// What the kernel does to an object of any type. Only the dispatch over the list of nouns calls these
/// operations, and they are inlined there: the end of an object must not pay for a call.
pub(crate) trait ObjectOps: Noun {
    /// An object has nothing to release, so that it can be destroyed without the reaper.
    const OWNS_NOTHING: bool = false;

    /// Sets the name.
    ///
    /// # Errors
    /// `WRONG_TYPE`: objects of this type have no name, or keep the one they were created with.
    fn rename<M: Machine>(_: &mut Kernel<M>, _: Id<Self>, _: Name) -> Result<(), Status> {
        Err(Status::WRONG_TYPE)
    }

    /// Fast path for the close of the last handle: does everything that is to be done, or returns false to leave it to
    /// [`Kernel::close_last`].
    #[inline(always)]
    fn close_fast<M: Machine>(_: &mut Kernel<M>, _: Id<Self>) -> bool {
        false
    }

    /// The last handle is closed. Other references may keep the object alive.
    #[inline(always)]
    fn last_handle_closed<M: Machine>(_: &mut Kernel<M>, _: Id<Self>) {}

    /// Whether the object has something to release in steps ([`ObjectOps::drain`]) before it can be destroyed.
    #[inline(always)]
    fn needs_drain(&self) -> bool {
        false
    }

    /// The reaper's next step with an object that has ended, lost its last handle, or is not needed any more.
    #[inline(always)]
    fn drain<M: Machine>(_: &mut Kernel<M>, _: Id<Self>, _: Users) -> DrainStep {
        DrainStep::Nothing
    }

    /// Removes an object that is about to be destroyed from the lists of other objects.
    #[inline(always)]
    fn leave_lists<M: Machine>(_: &mut Kernel<M>, _: Id<Self>) {}

    /// What the object's account counts for queued data.
    #[inline(always)]
    fn queue_charge(&self) -> Option<QueueCharge> {
        None
    }

    /// The object is destroyed: releases what it held.
    #[inline(always)]
    fn destroyed<M: Machine>(self: Box<Self>, _: &mut Kernel<M>, _: Id<Self>) {}

    /// Whether a deadline that was set with this number is still in force.
    #[inline(always)]
    fn has_deadline(&self, _: u32) -> bool {
        false
    }

    /// That deadline is reached.
    #[inline(always)]
    fn deadline_reached<M: Machine>(_: &mut Kernel<M>, _: Id<Self>) {}
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
