//! Endpoints for programs: the system's own, and those of native components.
//!
//! The server holds no capability to a component's endpoint. For each slot of a thread it asks the root task, which
//! badges the capability with the instance's number, so that no server can pass for another. The capability arrives in
//! an empty slot of the server, which moves it to the thread's slot. None of them lets capabilities be passed along. In
//! 5.0.0 the right to be replied to is the same as the right to pass capabilities on; see `docs/native.md`.

use alloc::vec::Vec;

use objects::containers::growth::OutOfMemory;
use objects::machine::{EndpointError, EndpointUse, MachineEndpoint, MachineThread};
use server_boot::service::{self, Offered};

use super::Sel4;
use super::memory::{Memory, Unit};
use super::sys::{self, Object};

/// The system's own endpoints.
#[derive(Default)]
pub struct Endpoints {
    list: Vec<Option<(Unit, u64)>>,
    free: Vec<u32>,
}

impl Endpoints {
    fn create(&mut self, memory: &mut Memory) -> Result<u32, OutOfMemory> {
        self.list.try_reserve(1).map_err(|_| OutOfMemory)?;
        self.free.try_reserve((self.list.len() + 1).saturating_sub(self.free.len())).map_err(|_| OutOfMemory)?;
        let made = Some(memory.unit_object(Object::Endpoint)?);
        match self.free.pop() {
            Some(number) => {
                self.list[number as usize] = made;
                Ok(number)
            }
            None => {
                self.list.push(made);
                Ok(self.list.len() as u32 - 1)
            }
        }
    }

    fn destroy(&mut self, memory: &mut Memory, number: u32) {
        if let Some((unit, _)) = self.list.get_mut(number as usize).and_then(Option::take) {
            memory.unit_free(unit);
            self.free.push(number);
        }
    }

    pub(super) fn slot(&self, number: u32) -> Option<u64> {
        self.list.get(number as usize)?.map(|(_, slot)| slot)
    }
}

impl Sel4 {
    pub(super) fn own_endpoint(&mut self) -> Result<MachineEndpoint, OutOfMemory> {
        self.endpoints.create(&mut self.memory).map(MachineEndpoint::Own)
    }

    pub(super) fn end_endpoint(&mut self, endpoint: MachineEndpoint) {
        if let MachineEndpoint::Own(number) = endpoint {
            self.endpoints.destroy(&mut self.memory, number);
        }
    }

    pub(super) fn find_endpoint(&mut self, name: &[u8]) -> Result<MachineEndpoint, EndpointError> {
        let mut padded = [0; 32];
        for (to, from) in padded.iter_mut().zip(name) {
            *to = *from;
        }
        let (words, _) = padded.as_chunks();
        let (status, value) = sys::ask_root(service::FIND, core::array::from_fn(|i| u64::from_le_bytes(words[i])));
        let Offered { component, offer, life } = Offered::decode(value);
        match status {
            service::OK => Ok(MachineEndpoint::Found { component, offer, life }),
            service::AWAY => Err(EndpointError::Away),
            _ => Err(EndpointError::NotFound),
        }
    }

    pub(super) fn mint(
        &mut self,
        endpoint: MachineEndpoint,
        thread: MachineThread,
        slot: u8,
        badge: u32,
        for_what: EndpointUse,
    ) -> Result<(), EndpointError> {
        let cnode = self.threads.cnode_for(thread, slot).ok_or(EndpointError::OutOfMemory)?;
        match endpoint {
            MachineEndpoint::Own(number) => {
                let from = self.endpoints.slot(number).ok_or(EndpointError::Away)?;
                sys::mint_own(cnode, slot.into(), from, badge.into(), for_what).map_err(|_| EndpointError::OutOfMemory)
            }
            MachineEndpoint::Found { component, offer, life } => {
                let between = self.memory.slot_alloc()?;
                let what = Offered { component, offer, life }.encode();
                let call = if for_what.call { service::TO_CALL } else { 0 };
                let minted = match sys::ask_root(service::MINT, [what, between, badge.into(), call]) {
                    (service::OK, _) => {
                        let moved = sys::move_to(cnode, slot.into(), between);
                        moved.map_err(|_| EndpointError::OutOfMemory)
                    }
                    _ => Err(EndpointError::Away),
                };
                if minted.is_err() {
                    sys::delete(between);
                }
                self.memory.slot_free(between);
                minted
            }
        }
    }

    /// The components that have ended since the last query, and those that wait to become clients, one bit for each.
    pub fn component_events(&self) -> (u64, u64) {
        let (_, component_events) = sys::ask_root(service::COMPONENT_EVENTS, [0; 4]);
        (component_events % (1 << service::WAITING), component_events >> service::WAITING)
    }
}

impl objects::machine::Endpoints for Sel4 {
    fn has_endpoints(&self) -> bool {
        true
    }

    fn endpoint_create(&mut self) -> Result<MachineEndpoint, OutOfMemory> {
        self.with_all(Self::own_endpoint)
    }

    fn endpoint_find(&mut self, name: &[u8]) -> Result<MachineEndpoint, EndpointError> {
        self.find_endpoint(name)
    }

    fn endpoint_destroy(&mut self, endpoint: MachineEndpoint) {
        self.end_endpoint(endpoint);
    }

    fn endpoint_mint(
        &mut self,
        endpoint: MachineEndpoint,
        thread: MachineThread,
        slot: u8,
        badge: u32,
        for_what: EndpointUse,
    ) -> Result<(), EndpointError> {
        self.mint(endpoint, thread, slot, badge, for_what)
    }

    fn endpoint_unmint(&mut self, thread: MachineThread, slot: u8) {
        self.threads.empty_slot(thread, slot);
    }
}
