//! Events: objects with nothing but signals.

use abi::{Signals, Status};

use alloc::boxed::Box;

use crate::core::noun::Noun;
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::kernel::nouns::Body;
use crate::machine::Machine;

/// An event.
pub struct Event;

impl Noun for Event {
    const TYPE: u32 = abi::ZX_OBJ_TYPE_EVENT;
}

impl<M: Machine> Kernel<M> {
    /// `event_create`.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn event_create(&mut self) -> Result<Id<Event>, Status> {
        self.create(Signals::NONE, Body::Event(Box::new(Event)))
    }
}
