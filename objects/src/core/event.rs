//! Events: objects with nothing but signals.

use abi::{Signals, Status};

use alloc::boxed::Box;

use crate::core::noun::{Noun, ObjectOps};
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::Machine;

/// An event.
pub struct Event;

impl Noun for Event {
    const TYPE: u32 = abi::ZX_OBJ_TYPE_EVENT;
    const USER_SIGNALS: Signals = Signals::USER_ALL.union(Signals::SIGNALED);
}

impl ObjectOps for Event {
    const OWNS_NOTHING: bool = true;
}

impl<M: Machine> Kernel<M> {
    /// `event_create`.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn event_create(&mut self) -> Result<Id<Event>, Status> {
        self.create(Signals::NONE, Box::new(Event))
    }
}
