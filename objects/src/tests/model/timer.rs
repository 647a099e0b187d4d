//! Timers: the time when it fires, and whether it has.

use abi::Signals;
use proptest::prelude::*;

use super::{Kind, World};
use crate::core::object::Id;

#[derive(Default)]
pub(super) struct Model {
    due: Option<i64>,
    fired: bool,
}

impl Model {
    pub(super) fn signals(&self) -> Signals {
        if self.fired { Signals::TIMER_SIGNALED } else { Signals::NONE }
    }

    pub(super) fn pass(&mut self, now: i64) {
        if self.due.is_some_and(|due| due <= now) {
            self.due = None;
            self.fired = true;
        }
    }
}

impl World {
    pub(super) fn timer(&mut self, number: usize, what: u8, amount: usize) -> Result<(), TestCaseError> {
        let now = self.kernel.machine.time;
        let Some(thing) = self.things.get_mut(&number) else { return Ok(()) };
        let (id, Kind::Timer(model)) = (Id::new(thing.object), &mut thing.kind) else { return Ok(()) };
        if what.is_multiple_of(3) {
            *model = Model::default();
            prop_assert_eq!(self.kernel.timer_cancel(id), Ok(()));
        } else {
            let due = (now + amount as i64 % 24 - 2) & !1;
            *model = if due <= now { Model { due: None, fired: true } } else { Model { due: Some(due), fired: false } };
            prop_assert_eq!(self.kernel.timer_set(id, due, 0), Ok(()));
        }
        Ok(())
    }
}
