//! Endpoints of the kernel below, in the fake machine.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::{FakeMachine, ask};
use crate::containers::failure_injection::MemoryRequest;
use crate::containers::growth::OutOfMemory;
use crate::machine::{
    AddressSpaces, Aspace, EndpointError, EndpointUse, Endpoints, MachineEndpoint, MachineThread, NativeComponents,
};

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

impl Endpoints for FakeMachine {
    fn has_endpoints(&self) -> bool {
        !self.is_bare
    }

    fn endpoint_create(&mut self) -> Result<MachineEndpoint, OutOfMemory> {
        ask(MemoryRequest::Unit)?;
        self.endpoints.create()
    }

    fn endpoint_find(&mut self, name: &[u8]) -> Result<MachineEndpoint, EndpointError> {
        self.endpoints.find(name)
    }

    fn endpoint_destroy(&mut self, endpoint: MachineEndpoint) {
        self.endpoints.destroy(endpoint);
    }

    fn endpoint_mint(
        &mut self,
        endpoint: MachineEndpoint,
        thread: MachineThread,
        slot: u8,
        badge: u32,
        for_what: EndpointUse,
    ) -> Result<(), EndpointError> {
        ask(MemoryRequest::Slot)?;
        assert!(self.threads.contains_key(&thread.0), "thread in use");
        self.endpoints.mint(endpoint, (thread.0, slot), badge, for_what)
    }

    fn endpoint_unmint(&mut self, thread: MachineThread, slot: u8) {
        self.endpoints.minted.remove(&(thread.0, slot));
    }
}

impl NativeComponents for FakeMachine {
    fn component_take(&mut self, component: u8) -> Result<(Aspace, [u8; 32]), OutOfMemory> {
        if !self.endpoints.waiting.remove(&component) {
            return Err(OutOfMemory);
        }
        let mut name = [0; 32];
        name[..9].copy_from_slice(b"component");
        Ok((self.aspace_create()?, name))
    }

    fn component_refuse(&mut self, component: u8) {
        self.endpoints.waiting.remove(&component);
    }
}
