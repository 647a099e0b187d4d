//! Counters: signed numbers whose sign is signalled.

use alloc::boxed::Box;

use abi::{Signals, Status};

use crate::core::noun::{Noun, ObjectOps};
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::Machine;

/// A counter.
pub struct Counter {
    value: i64,
}

impl Noun for Counter {
    const TYPE: u32 = abi::ZX_OBJ_TYPE_COUNTER;
    const USER_SIGNALS: Signals = Signals::USER_ALL.union(Signals::SIGNALED);
}

impl ObjectOps for Counter {
    const OWNS_NOTHING: bool = true;
}

fn sign(value: i64) -> Signals {
    if value > 0 { Signals::COUNTER_POSITIVE } else { Signals::COUNTER_NON_POSITIVE }
}

impl<M: Machine> Kernel<M> {
    /// `counter_create`: the initial value is 0.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn counter_create(&mut self) -> Result<Id<Counter>, Status> {
        self.create(sign(0), Box::new(Counter { value: 0 }))
    }

    /// `counter_add`.
    ///
    /// # Errors
    /// `OUT_OF_RANGE`: the sum overflows; the counter keeps its value.
    pub fn counter_add(&mut self, counter: Id<Counter>, n: i64) -> Result<(), Status> {
        let sum = self.objects.get(counter)?.value.checked_add(n).ok_or(Status::OUT_OF_RANGE)?;
        self.counter_write(counter, sum)
    }

    /// `counter_read`.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn counter_read(&self, counter: Id<Counter>) -> Result<i64, Status> {
        Ok(self.objects.get(counter)?.value)
    }

    /// `counter_write`.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn counter_write(&mut self, counter: Id<Counter>, value: i64) -> Result<(), Status> {
        self.objects.get_mut(counter)?.value = value;
        self.signal(counter.object(), Signals::COUNTER_POSITIVE | Signals::COUNTER_NON_POSITIVE, sign(value));
        Ok(())
    }
}
