//! Growth of the heap's containers, which may fail.

use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec::Vec;

use abi::Status;

use crate::containers::failure_injection::{MemoryRequest, should_fail};

/// There is no memory (or, in the machine, no slot or address-space number) left. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfMemory;

impl From<OutOfMemory> for Status {
    fn from(_: OutOfMemory) -> Self {
        Status::NO_MEMORY
    }
}

/// Containers that can reserve room and may fail to.
pub trait Grows {
    /// Reserves room for `more` elements, and some to spare.
    ///
    /// # Errors
    /// There is no memory.
    fn room(&mut self, more: usize) -> Result<(), OutOfMemory>;
    /// Reserves room for exactly `more` elements.
    ///
    /// # Errors
    /// There is no memory.
    fn room_exact(&mut self, more: usize) -> Result<(), OutOfMemory>;
}

macro_rules! grows {
    ($($container:ident<$T:ident $(: $bound:ident)?>)*) => {$(
        impl<$T $(: $bound)?> Grows for $container<$T> {
            #[inline]
            fn room(&mut self, more: usize) -> Result<(), OutOfMemory> {
                if self.capacity() - self.len() >= more {
                    return Ok(());
                }
                if should_fail(MemoryRequest::Heap) {
                    return Err(OutOfMemory);
                }
                self.try_reserve(more).map_err(|_| OutOfMemory)
            }

            #[inline]
            fn room_exact(&mut self, more: usize) -> Result<(), OutOfMemory> {
                if self.capacity() - self.len() >= more {
                    return Ok(());
                }
                if should_fail(MemoryRequest::Heap) {
                    return Err(OutOfMemory);
                }
                self.try_reserve_exact(more).map_err(|_| OutOfMemory)
            }
        }
    )*};
}

grows! { Vec<T> VecDeque<T> BinaryHeap<T: Ord> }

#[cfg(test)]
mod tests {
    use super::*;
    use crate::containers::failure_injection::{Plan, arm, plan};

    #[test]
    fn containers_that_have_room_do_not_ask() {
        plan(Plan { want: Some(MemoryRequest::Heap), first: 0, count: u64::MAX, on: false });
        let mut list: Vec<u8> = Vec::with_capacity(1);
        arm(true);
        assert_eq!(list.room(1), Ok(()));
        assert_eq!(list.room(2), Err(OutOfMemory));
        assert_eq!(list.room_exact(2), Err(OutOfMemory));
        arm(false);
        assert_eq!(list.room(2), Ok(()));
    }
}
