//! Components: programs directly on seL4 that the root task starts beside the instances.

use serde::{Deserialize, Serialize};

use super::{Restart, Trial};

/// Maximum number of components.
pub const COMPONENTS: usize = 8;
/// Maximum number of endpoints that a component offers.
pub const OFFERS: usize = 4;

/// A native component: a program with one thread, and its resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Component<'a> {
    /// Its name in messages. No instance has the same name.
    #[serde(borrow)]
    pub name: &'a str,
    /// Bytes of memory in addition to its image and its stack, a multiple of 4096.
    pub memory: u64,
    /// The names under which programs find its endpoint. No two components offer the same name.
    #[serde(borrow)]
    pub offers: [Option<&'a str>; OFFERS],
    /// The instances whose programs may find it: bit `n` stands for instance `n`.
    pub offers_to: u8,
    /// The number of the instance whose client it may be.
    pub client_of: Option<u8>,
    /// Its restart policy.
    pub restart: Restart,
    /// Its trial, for tests.
    pub trial: Option<Trial>,
}

impl<'a> Component<'a> {
    /// The index of a name among those offered to an instance, if it is offered.
    pub fn offer(&self, name: &str, instance: usize) -> Option<usize> {
        let may = 1u8.checked_shl(instance as u32).is_some_and(|bit| self.offers_to & bit != 0);
        self.offers.iter().position(|offer| *offer == Some(name)).filter(|_| may)
    }
}
