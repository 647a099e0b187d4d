//! Components: programs for the bare kernel that the root task starts beside the instances.

use serde::{Deserialize, Serialize};

use super::{Restart, Trial};

/// The most components that a root task watches.
pub const COMPONENTS: usize = 8;
/// The most endpoints that a component offers.
pub const OFFERS: usize = 4;

/// A native component: a program with one thread, and what it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Component<'a> {
    /// Its name in messages. No instance has it.
    #[serde(borrow)]
    pub name: &'a str,
    /// Bytes of memory beside its image and its stack, a multiple of 4096.
    pub memory: u64,
    /// The names under which programs find its endpoint; no two components offer one name.
    #[serde(borrow)]
    pub offers: [Option<&'a str>; OFFERS],
    /// The instances whose programs may find it: bit `n` for the one of that number.
    pub offers_to: u8,
    /// The number of the instance that it may be a client of.
    pub client_of: Option<u8>,
    /// Whether it is started again.
    pub restart: Restart,
    /// Whether it is ended, to see that it is.
    pub trial: Option<Trial>,
}

impl<'a> Component<'a> {
    /// The number of the offer of a name to an instance, if there is one.
    pub fn offer(&self, name: &str, instance: usize) -> Option<usize> {
        let may = 1u8.checked_shl(instance as u32).is_some_and(|bit| self.offers_to & bit != 0);
        self.offers.iter().position(|offer| *offer == Some(name)).filter(|_| may)
    }
}
