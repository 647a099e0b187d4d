//! Endpoints of the kernel below, as objects with handles (`docs/native.md`).
//!
//! An endpoint was created by this system or is offered by a native component. Capabilities to it are *minted* into
//! slots of threads, which then communicate through it without the server. Each thread has a few slots for that
//! ([`Slots`]); the lowest empty one is used. Both sides record what is where:
//!
//! 1. A thread's slot stores the endpoint; the endpoint's list stores the thread and the slot.
//! 2. A slot is emptied by a call, or when the last handle to its endpoint is closed; a thread that is in a call
//!    through it is interrupted.
//! 3. A thread that ends leaves all lists; the machine destroys its capabilities.
//! 4. When a component ends, the machine's capabilities to its endpoints are revoked already: the slots are emptied
//!    here, and threads that wait for the component's reply are interrupted (2). The endpoint gets a signal, and can no
//!    longer be minted.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use abi::{HAFNON_ENDPOINT_SLOTS_END, HAFNON_ENDPOINT_SLOTS_FROM, Signals, Status};

use crate::core::noun::{Noun, ObjectOps};
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::{EndpointError, EndpointUse, Machine, MachineEndpoint};
use crate::task::thread::{Thread, ThreadState};

/// Number of slots of a thread.
const SLOTS: usize = (HAFNON_ENDPOINT_SLOTS_END - HAFNON_ENDPOINT_SLOTS_FROM) as usize;
/// Maximum number of slots that hold one endpoint: all of them are emptied at once.
pub const MINTED: usize = 512;

/// The endpoints in the slots of a thread.
pub type Slots = [Option<Id<Endpoint>>; SLOTS];

/// See the module's description.
pub struct Endpoint {
    machine: MachineEndpoint,
    /// The component that offered it has ended.
    closed: bool,
    minted: BTreeSet<(Id<Thread>, u8)>,
}

impl Noun for Endpoint {
    const TYPE: u32 = abi::HAFNON_OBJ_TYPE_ENDPOINT;
}

impl ObjectOps for Endpoint {
    #[inline(always)]
    fn last_handle_closed<M: Machine>(kernel: &mut Kernel<M>, id: Id<Self>) {
        kernel.endpoint_unreachable(id);
    }

    #[inline(always)]
    fn destroyed<M: Machine>(self: Box<Self>, kernel: &mut Kernel<M>, _: Id<Self>) {
        match self.machine {
            MachineEndpoint::Own(_) => kernel.machine.endpoint_destroy(self.machine),
            MachineEndpoint::Found { .. } if !self.closed => drop(kernel.found.remove(&self.machine)),
            MachineEndpoint::Found { .. } => {}
        }
    }
}

impl From<EndpointError> for Status {
    fn from(error: EndpointError) -> Status {
        match error {
            EndpointError::NotFound => Status::NOT_FOUND,
            EndpointError::Away => Status::UNAVAILABLE,
            EndpointError::OutOfMemory => Status::NO_MEMORY,
        }
    }
}

impl Endpoint {
    /// The component that offers it, and the number of the offer.
    ///
    /// # Errors
    /// `NOT_SUPPORTED`: it is not a component's. `PEER_CLOSED`: the component has ended.
    pub(crate) fn offered(&self) -> Result<(u8, u8), Status> {
        match self.machine {
            _ if self.closed => Err(Status::PEER_CLOSED),
            MachineEndpoint::Found { component, offer, .. } => Ok((component, offer)),
            MachineEndpoint::Own(_) => Err(Status::NOT_SUPPORTED),
        }
    }

    /// The machine's endpoint.
    pub(crate) fn of_machine(&self) -> MachineEndpoint {
        self.machine
    }

    /// Whether a native component offers it.
    pub fn is_found(&self) -> bool {
        matches!(self.machine, MachineEndpoint::Found { .. })
    }
}

/// Converts an index in [`Slots`] to a slot number.
fn number(place: usize) -> u8 {
    place as u8 + HAFNON_ENDPOINT_SLOTS_FROM as u8
}

impl<M: Machine> Kernel<M> {
    fn endpoint_of(&mut self, machine: MachineEndpoint) -> Result<Id<Endpoint>, Status> {
        let endpoint = Endpoint { machine, closed: false, minted: BTreeSet::new() };
        self.create(Signals::NONE, Box::new(endpoint))
    }

    /// `endpoint_create`.
    ///
    /// # Errors
    /// `NOT_SUPPORTED`: the kernel below has none. `NO_MEMORY`.
    pub fn endpoint_create(&mut self) -> Result<Id<Endpoint>, Status> {
        if !self.machine.has_endpoints() {
            return Err(Status::NOT_SUPPORTED);
        }
        let machine = self.machine.endpoint_create().map_err(|_| Status::NO_MEMORY)?;
        self.endpoint_of(machine).inspect_err(|_| self.machine.endpoint_destroy(machine))
    }

    /// `endpoint_find`: all look-ups of the same endpoint return the same object.
    ///
    /// # Errors
    /// `NOT_SUPPORTED`: the kernel below has none. `NOT_FOUND`: no component offers it. `UNAVAILABLE`: the component has
    /// ended. `NO_MEMORY`.
    pub fn endpoint_find(&mut self, name: &[u8]) -> Result<Id<Endpoint>, Status> {
        if !self.machine.has_endpoints() {
            return Err(Status::NOT_SUPPORTED);
        }
        let machine = self.machine.endpoint_find(name)?;
        if let Some(known) = self.found.get(&machine) {
            return Ok(*known);
        }
        let id = self.endpoint_of(machine)?;
        self.found.insert(machine, id);
        Ok(id)
    }

    /// `endpoint_mint`: returns the slot.
    ///
    /// # Errors
    /// `BAD_STATE`: the thread does not run. `PEER_CLOSED`: the component that offers it has ended. `NO_RESOURCES`:
    /// there is no free slot. `NOT_SUPPORTED`: the thread is a component's. `NO_MEMORY`.
    pub fn endpoint_mint(
        &mut self,
        id: Id<Endpoint>,
        thread: Id<Thread>,
        badge: u32,
        for_what: EndpointUse,
    ) -> Result<u8, Status> {
        self.no_component_thread(thread)?;
        let t = self.objects.get_mut(thread)?;
        let (ThreadState::Running, Some(machine)) = (t.state, t.machine) else { return Err(Status::BAD_STATE) };
        let slots = t.endpoints.get_or_insert_with(|| Box::new([None; SLOTS]));
        let place = slots.iter().position(Option::is_none).ok_or(Status::NO_RESOURCES)?;
        let endpoint = self.objects.get(id)?;
        if endpoint.closed {
            return Err(Status::PEER_CLOSED);
        }
        if endpoint.minted.len() >= MINTED {
            return Err(Status::NO_RESOURCES);
        }
        let slot = number(place);
        match self.machine.endpoint_mint(endpoint.machine, machine, slot, badge, for_what) {
            Ok(()) => {}
            Err(EndpointError::OutOfMemory) => return Err(Status::NO_MEMORY),
            // The component has ended; its end will be reported soon.
            Err(_) => return Err(Status::PEER_CLOSED),
        }
        self.objects.get_mut(id)?.minted.insert((thread, slot));
        if let Some(slots) = &mut self.objects.get_mut(thread)?.endpoints
            && let Some(at) = slots.get_mut(place)
        {
            *at = Some(id);
        }
        Ok(slot)
    }

    /// `endpoint_delete` (2).
    ///
    /// # Errors
    /// `NOT_FOUND`: the slot is empty.
    pub fn endpoint_delete(&mut self, thread: Id<Thread>, slot: u32) -> Result<(), Status> {
        let place = slot.checked_sub(HAFNON_ENDPOINT_SLOTS_FROM).ok_or(Status::NOT_FOUND)? as usize;
        let slots = self.objects.get(thread)?.endpoints.as_ref().ok_or(Status::NOT_FOUND)?;
        let id = slots.get(place).copied().flatten().ok_or(Status::NOT_FOUND)?;
        if let Ok(endpoint) = self.objects.get_mut(id) {
            endpoint.minted.remove(&(thread, number(place)));
        }
        self.slot_empty(thread, number(place));
        Ok(())
    }

    fn slot_empty(&mut self, thread: Id<Thread>, slot: u8) {
        let Ok(t) = self.objects.get_mut(thread) else { return };
        let place = usize::from(slot).checked_sub(HAFNON_ENDPOINT_SLOTS_FROM as usize);
        if let Some(at) = place.and_then(|place| t.endpoints.as_mut()?.get_mut(place)) {
            *at = None;
        }
        if let Some(machine) = t.machine {
            self.machine.endpoint_unmint(machine, slot);
        }
    }

    fn endpoint_revoke(&mut self, id: Id<Endpoint>) {
        let Ok(endpoint) = self.objects.get_mut(id) else { return };
        for (thread, slot) in core::mem::take(&mut endpoint.minted) {
            self.slot_empty(thread, slot);
        }
    }

    /// Step 3: a thread ends.
    pub(crate) fn endpoints_leave(&mut self, thread: Id<Thread>) {
        let slots = self.objects.get_mut(thread).ok().and_then(|t| t.endpoints.take());
        for (id, place) in slots.iter().flat_map(|slots| slots.iter()).zip(0..) {
            if let Some(endpoint) = id.and_then(|id| self.objects.get_mut(id).ok()) {
                endpoint.minted.remove(&(thread, number(place)));
            }
        }
    }

    /// Step 4: native components have ended, given as a bitmap.
    pub fn components_ended(&mut self, components: u64) {
        (0..u64::BITS as u8).filter(|n| components >> n & 1 != 0).for_each(|component| self.component_ends(component));
        let gone = |endpoint: &MachineEndpoint| matches!(endpoint, MachineEndpoint::Found { component, .. } if components >> *component & 1 != 0);
        let gone: Vec<MachineEndpoint> = self.found.keys().filter(|endpoint| gone(endpoint)).copied().collect();
        for machine in gone {
            let Some(id) = self.found.remove(&machine) else { continue };
            if let Ok(endpoint) = self.objects.get_mut(id) {
                endpoint.closed = true;
            }
            self.endpoint_revoke(id);
            self.signal(id.object(), Signals::NONE, Signals::ENDPOINT_PEER_CLOSED);
        }
    }

    pub(crate) fn endpoint_unreachable(&mut self, id: Id<Endpoint>) {
        self.endpoint_revoke(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::containers::name::Name;
    use crate::fake::FakeMachine;
    use crate::machine::Registers;

    const CALL: EndpointUse = EndpointUse { call: true, send: true, receive: false };

    fn system() -> (Kernel<FakeMachine>, Id<Thread>) {
        let mut kernel = Kernel::new(FakeMachine::new(64)).unwrap();
        let job = kernel.root_job().unwrap();
        let (process, _) = kernel.process_create(job, Name::new(b"p")).unwrap();
        let thread = kernel.thread_create(process, Name::new(b"t")).unwrap();
        kernel.process_begin(process, None).unwrap();
        kernel.thread_start(thread, &Registers::default()).unwrap();
        (kernel, thread)
    }

    #[test]
    fn slots_come_back_with_the_last_handle_and_with_the_thread() {
        let (mut kernel, thread) = system();
        let id = kernel.endpoint_create().unwrap();
        let rights = abi::HAFNON_DEFAULT_ENDPOINT_RIGHTS;
        let handle = kernel.dup_handle(crate::core::handle::Handle { object: id.object(), rights });
        assert_eq!(kernel.endpoint_mint(id, thread, 1, CALL), Ok(3));
        assert_eq!(kernel.endpoint_mint(id, thread, 2, CALL), Ok(4));
        assert_eq!(kernel.endpoint_delete(thread, 3), Ok(()));
        assert_eq!(kernel.endpoint_delete(thread, 3), Err(Status::NOT_FOUND));
        assert_eq!(kernel.endpoint_mint(id, thread, 3, CALL), Ok(3));
        kernel.close(handle);
        kernel.reap();
        assert!(kernel.machine.endpoints.own.is_empty() && kernel.machine.endpoints.minted.is_empty());
        assert_eq!(kernel.endpoint_delete(thread, 4), Err(Status::NOT_FOUND));

        let id = kernel.endpoint_create().unwrap();
        let handle = kernel.dup_handle(crate::core::handle::Handle { object: id.object(), rights });
        kernel.endpoint_mint(id, thread, 1, CALL).unwrap();
        kernel.thread_kill(thread);
        kernel.reap();
        assert!(kernel.objects.get(id).unwrap().minted.is_empty());
        kernel.close(handle);
        kernel.reap();
        assert!(kernel.machine.endpoints.own.is_empty());
    }

    #[test]
    fn the_end_of_a_component_closes_its_endpoints() {
        let (mut kernel, thread) = system();
        kernel.machine.endpoints.offered = alloc::vec![("keys", 1)];
        assert_eq!(kernel.endpoint_find(b"other").unwrap_err(), Status::NOT_FOUND);
        let id = kernel.endpoint_find(b"keys").unwrap();
        assert_eq!(kernel.endpoint_find(b"keys"), Ok(id));
        let rights = abi::HAFNON_DEFAULT_ENDPOINT_RIGHTS;
        let handle = kernel.dup_handle(crate::core::handle::Handle { object: id.object(), rights });
        kernel.endpoint_mint(id, thread, 1, CALL).unwrap();
        kernel.machine.endpoints.offered = alloc::vec![("keys", 0)];
        kernel.components_ended(1);
        assert!(kernel.machine.endpoints.minted.is_empty());
        assert!(kernel.objects.any(id.object()).unwrap().signals.contains(Signals::ENDPOINT_PEER_CLOSED));
        assert_eq!(kernel.endpoint_mint(id, thread, 1, CALL), Err(Status::PEER_CLOSED));
        assert_eq!(kernel.endpoint_find(b"keys").unwrap_err(), Status::UNAVAILABLE);
        kernel.machine.endpoints.offered = alloc::vec![("keys", 2)];
        assert_ne!(kernel.endpoint_find(b"keys"), Ok(id));
        kernel.close(handle);
        kernel.reap();
    }
}
