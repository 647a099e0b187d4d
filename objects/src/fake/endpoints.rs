//! Endpoints of the kernel below, in the fake machine.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::containers::growth::OutOfMemory;
use crate::machine::{EndpointError, EndpointUse, MachineEndpoint};

/// See the module's description.
#[derive(Default)]
pub struct FakeEndpoints {
    /// The offer of each native component, and its life.
    pub offered: Vec<(&'static str, u32)>,
    /// Components that wait to become clients.
    pub waiting: BTreeSet<u8>,
    /// Endpoints created by the system.
    pub own: BTreeSet<u32>,
    next: u32,
    /// Endpoints in the slots of threads, with the badge.
    pub minted: BTreeMap<(u32, u8), (MachineEndpoint, u32)>,
}

impl FakeEndpoints {
    pub(super) fn create(&mut self) -> Result<MachineEndpoint, OutOfMemory> {
        self.next += 1;
        self.own.insert(self.next);
        Ok(MachineEndpoint::Own(self.next))
    }

    pub(super) fn find(&self, name: &[u8]) -> Result<MachineEndpoint, EndpointError> {
        let component = self.offered.iter().position(|(offered, _)| offered.as_bytes() == name);
        let component = component.ok_or(EndpointError::NotFound)?;
        match self.offered[component].1 {
            0 => Err(EndpointError::Away),
            life => Ok(MachineEndpoint::Found { component: component as u8, offer: 0, life }),
        }
    }

    pub(super) fn destroy(&mut self, endpoint: MachineEndpoint) {
        let MachineEndpoint::Own(number) = endpoint else { panic!("{endpoint:?} is another's") };
        assert!(self.own.remove(&number), "{endpoint:?} is in use");
        assert!(self.minted.values().all(|(minted, _)| *minted != endpoint), "{endpoint:?} stands in a slot");
    }

    pub(super) fn mint(
        &mut self,
        endpoint: MachineEndpoint,
        at: (u32, u8),
        badge: u32,
        for_what: EndpointUse,
    ) -> Result<(), EndpointError> {
        match endpoint {
            MachineEndpoint::Own(number) => assert!(self.own.contains(&number), "{endpoint:?} is in use"),
            MachineEndpoint::Found { component, life, .. } => {
                assert!(!for_what.receive, "what a component offers is received from");
                if self.offered.get(usize::from(component)).is_none_or(|(_, now)| *now != life) {
                    return Err(EndpointError::Away);
                }
            }
        }
        assert!(self.minted.insert(at, (endpoint, badge)).is_none(), "the slot {at:?} is empty");
        Ok(())
    }
}
