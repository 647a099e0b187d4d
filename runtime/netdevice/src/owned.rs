//! Which descriptors one side has (5).

use alloc::vec;
use alloc::vec::Vec;

use crate::Fault;

/// The numbers of descriptors that a side has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    has: Vec<bool>,
    count: usize,
}

impl Owned {
    /// None of `count` descriptors.
    pub fn new(count: u16) -> Owned {
        Owned { has: vec![false; count.into()], count: 0 }
    }

    /// The other side gives a descriptor.
    ///
    /// # Errors
    /// [`Fault::Number`]: there is no such descriptor, or this side has it already.
    pub fn take(&mut self, number: u16) -> Result<(), Fault> {
        let has = self.has.get_mut(usize::from(number)).ok_or(Fault::Number)?;
        if core::mem::replace(has, true) {
            return Err(Fault::Number);
        }
        self.count += 1;
        Ok(())
    }

    /// This side gives a descriptor back.
    ///
    /// # Errors
    /// [`Fault::Number`]: this side does not have it.
    pub fn give(&mut self, number: u16) -> Result<(), Fault> {
        let has = self.has.get_mut(usize::from(number)).ok_or(Fault::Number)?;
        if !core::mem::replace(has, false) {
            return Err(Fault::Number);
        }
        self.count -= 1;
        Ok(())
    }

    /// Number of descriptors that this side has.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether this side has none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}
