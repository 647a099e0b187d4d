//! The list of all types of objects.
//!
//! Everything else that depends on the type of an object is in the noun's own file ([`Noun`], [`ObjectOps`]). Only this
//! file sees the variants of a [`Body`], so no other file can match over them; what it generates from the list finds
//! a noun's own implementation. That is a match and not an indirect call, because a look-up must not cost one.

use alloc::boxed::Box;

use abi::{Signals, Status};

use crate::containers::name::Name;
use crate::core::account::QueueCharge;
use crate::core::noun::{Noun, ObjectOps, Peer, Variant};
use crate::core::object::{DrainStep, Id, ObjectId, Users};
use crate::kernel::Kernel;
use crate::machine::Machine;

/// The part of an object that depends on its type.
pub struct Body(AnyNoun);

macro_rules! nouns {
    ($dollar:tt $($(#[$attribute:meta])* $name:ident $family:ident::$module:ident,)*) => {
        enum AnyNoun {
            $($(#[$attribute])* $name(Box<crate::$family::$module::$name>),)*
        }

        $(
            $(#[$attribute])*
            impl Variant for crate::$family::$module::$name {
                #[inline]
                fn of(body: &Body) -> Option<&Self> {
                    match &body.0 {
                        AnyNoun::$name(x) => Some(x),
                        _ => None,
                    }
                }
                #[inline]
                fn of_mut(body: &mut Body) -> Option<&mut Self> {
                    match &mut body.0 {
                        AnyNoun::$name(x) => Some(x),
                        _ => None,
                    }
                }
                #[inline]
                fn is(body: &Body) -> bool {
                    matches!(body.0, AnyNoun::$name(_))
                }
                #[inline]
                fn own(body: &Body) -> Result<&Self, Status> {
                    match &body.0 {
                        AnyNoun::$name(x) => Ok(x),
                        _ => Err(Status::INTERNAL),
                    }
                }
                #[inline]
                fn own_mut(body: &mut Body) -> Result<&mut Self, Status> {
                    match &mut body.0 {
                        AnyNoun::$name(x) => Ok(x),
                        _ => Err(Status::INTERNAL),
                    }
                }
                #[inline]
                fn into_body(self: Box<Self>) -> Body {
                    Body(AnyNoun::$name(self))
                }
                #[inline]
                fn from_body(body: Body) -> Option<Box<Self>> {
                    match body.0 {
                        AnyNoun::$name(x) => Some(x),
                        _ => None,
                    }
                }
            }
        )*

        /// Evaluates an expression for the type of a body: `dispatch!(body, content, Type => expression)`.
        macro_rules! dispatch {
            ($dollar body:expr, $dollar content:pat, $dollar type:ident => $dollar value:expr) => {
                match $dollar body {
                    $(
                        $(#[$attribute])*
                        AnyNoun::$name($dollar content) => {
                            #[allow(dead_code)]
                            type $dollar type = crate::$family::$module::$name;
                            $dollar value
                        }
                    )*
                }
            };
        }
    };
}

nouns! { $
    Job task::job,
    Process task::process,
    Thread task::thread,
    Vmo memory::vmo,
    Vmar memory::vmar,
    Channel ipc::channel,
    Socket ipc::socket,
    Fifo ipc::fifo,
    Event core::event,
    EventPair ipc::eventpair,
    Stream ipc::stream,
    Iob ipc::iob,
    IobSharedRegion ipc::iob,
    Port core::port,
    Timer time::timer,
    Clock time::clock,
    Counter core::counter,
    Debuglog core::debuglog,
    Resource device::resource,
    Endpoint task::endpoint,
    Vproc guest::vproc,
    Profile task::profile,
    SuspendToken task::suspend_token,
    Exception task::exception,
    Interrupt device::interrupt,
    Pager memory::pager,
    Msi device::msi,
    Iommu device::iommu,
    Bti device::bti,
    Pmt device::bti,
    #[cfg(test)]
    Group tests::new_noun,
}

impl Body {
    /// `ZX_OBJ_TYPE_*`.
    pub fn object_type(&self) -> u32 {
        dispatch!(&self.0, _, T => T::TYPE)
    }

    /// [`Noun::name`].
    pub fn name(&self) -> Option<Name> {
        dispatch!(&self.0, noun, T => noun.name())
    }

    /// [`Noun::USER_SIGNALS`].
    #[inline]
    pub fn user_signals(&self) -> Signals {
        dispatch!(&self.0, _, T => T::USER_SIGNALS)
    }

    /// [`Noun::peer`].
    pub fn peer(&self) -> Option<Peer> {
        dispatch!(&self.0, noun, T => noun.peer())
    }

    /// [`Noun::parent`].
    pub fn parent(&self) -> Option<ObjectId> {
        dispatch!(&self.0, noun, T => noun.parent())
    }

    /// [`Noun::is_child`].
    pub(crate) fn is_child(&self) -> bool {
        dispatch!(&self.0, noun, T => noun.is_child())
    }

    /// [`Noun::IS_TASK`].
    #[inline(always)]
    pub(crate) fn is_task(&self) -> bool {
        dispatch!(&self.0, _, T => T::IS_TASK)
    }

    /// [`ObjectOps::OWNS_NOTHING`].
    #[inline(always)]
    pub(crate) fn owns_nothing(&self) -> bool {
        dispatch!(&self.0, _, T => T::OWNS_NOTHING)
    }

    /// [`ObjectOps::needs_drain`].
    #[inline(always)]
    pub(crate) fn needs_drain(&self) -> bool {
        dispatch!(&self.0, noun, T => noun.needs_drain())
    }

    /// [`ObjectOps::queue_charge`].
    #[inline(always)]
    pub(crate) fn queue_charge(&self) -> Option<QueueCharge> {
        dispatch!(&self.0, noun, T => noun.queue_charge())
    }

    /// [`ObjectOps::has_deadline`].
    pub(crate) fn has_deadline(&self, number: u32) -> bool {
        dispatch!(&self.0, noun, T => noun.has_deadline(number))
    }

    /// [`ObjectOps::destroyed`].
    #[inline(always)]
    pub(crate) fn destroyed<M: Machine>(self, kernel: &mut Kernel<M>, id: ObjectId) {
        dispatch!(self.0, noun, T => noun.destroyed(kernel, Id::new(id)))
    }
}

/// Operations on an object of any type, each by its own [`ObjectOps`].
impl<M: Machine> Kernel<M> {
    pub(super) fn object_rename(&mut self, id: ObjectId, name: Name) -> Result<(), Status> {
        dispatch!(&self.objects.any(id)?.body.0, _, T => T::rename(self, Id::new(id), name))
    }

    #[inline(always)]
    pub(super) fn object_close_fast(&mut self, id: ObjectId) -> bool {
        let Ok(object) = self.objects.any(id) else { return true };
        dispatch!(&object.body.0, _, T => T::close_fast(self, Id::new(id)))
    }

    #[inline(always)]
    pub(super) fn object_last_handle_closed(&mut self, id: ObjectId) {
        let Ok(object) = self.objects.any(id) else { return };
        dispatch!(&object.body.0, _, T => T::last_handle_closed(self, Id::new(id)))
    }

    #[inline(always)]
    pub(super) fn object_drain(&mut self, id: ObjectId, users: Users) -> DrainStep {
        let Ok(object) = self.objects.any(id) else { return DrainStep::Nothing };
        dispatch!(&object.body.0, _, T => T::drain(self, Id::new(id), users))
    }

    #[inline(always)]
    pub(super) fn object_leave_lists(&mut self, id: ObjectId) {
        let Ok(object) = self.objects.any(id) else { return };
        dispatch!(&object.body.0, _, T => T::leave_lists(self, Id::new(id)))
    }

    pub(crate) fn object_deadline_reached(&mut self, id: ObjectId) {
        let Ok(object) = self.objects.any(id) else { return };
        dispatch!(&object.body.0, _, T => T::deadline_reached(self, Id::new(id)))
    }
}
