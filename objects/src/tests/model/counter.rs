//! Counters: a single number.

use abi::{Signals, Status};
use proptest::prelude::*;

use super::{Kind, World};
use crate::core::object::Id;

pub(super) fn signals(value: i64) -> Signals {
    if value > 0 { Signals::COUNTER_POSITIVE } else { Signals::COUNTER_NON_POSITIVE }
}

impl World {
    pub(super) fn counter(&mut self, number: usize, what: u8, amount: usize) -> Result<(), TestCaseError> {
        let Some(thing) = self.things.get_mut(&number) else { return Ok(()) };
        let (id, Kind::Counter(value)) = (Id::new(thing.object), &mut thing.kind) else { return Ok(()) };
        let n = amount as i64 - 200;
        match what % 4 {
            0 => {
                *value = n;
                prop_assert_eq!(self.kernel.counter_write(id, n), Ok(()));
            }
            1 => {
                let huge = if n < 0 { i64::MIN } else { i64::MAX };
                let expected = value.checked_add(huge).map(|sum| *value = sum).ok_or(Status::OUT_OF_RANGE);
                prop_assert_eq!(self.kernel.counter_add(id, huge), expected);
            }
            _ => {
                let expected = value.checked_add(n).map(|sum| *value = sum).ok_or(Status::OUT_OF_RANGE);
                prop_assert_eq!(self.kernel.counter_add(id, n), expected);
            }
        }
        prop_assert_eq!(self.kernel.counter_read(id), Ok(*value));
        Ok(())
    }
}
