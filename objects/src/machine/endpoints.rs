//! Optional: endpoints of the kernel below.

use super::MachineThread;
use crate::containers::growth::OutOfMemory;

/// An endpoint of the kernel below.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum MachineEndpoint {
    /// Created by this system.
    Own(u32),
    /// Offered by a native component.
    Found {
        /// The component's number.
        component: u8,
        /// The number of the offer within the component.
        offer: u8,
        /// The component's life in which it was looked up.
        life: u32,
    },
}

/// What a capability to an endpoint allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EndpointUse {
    /// To send and receive a reply.
    pub call: bool,
    /// To send.
    pub send: bool,
    /// To receive.
    pub receive: bool,
}

/// Why an endpoint is not available. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndpointError {
    /// No component offers it.
    NotFound,
    /// The component that offered it has ended.
    Away,
    /// There is not enough memory for it.
    OutOfMemory,
}

impl From<OutOfMemory> for EndpointError {
    fn from(_: OutOfMemory) -> Self {
        EndpointError::OutOfMemory
    }
}

/// Endpoints of the kernel below, over which programs exchange messages without the server.
pub trait Endpoints {
    /// Whether the kernel below has endpoints for programs.
    fn has_endpoints(&self) -> bool {
        false
    }
    /// Creates an endpoint.
    fn endpoint_create(&mut self) -> Result<MachineEndpoint, OutOfMemory> {
        Err(OutOfMemory)
    }
    /// Finds the endpoint that a native component offers under a name. It need not be returned.
    fn endpoint_find(&mut self, _name: &[u8]) -> Result<MachineEndpoint, EndpointError> {
        Err(EndpointError::NotFound)
    }
    /// Destroys an endpoint that this system created. No thread's slot holds it any more.
    fn endpoint_destroy(&mut self, _endpoint: MachineEndpoint) {}
    /// Puts a capability to an endpoint into an empty slot of a thread, numbered from
    /// [`abi::HAFNON_ENDPOINT_SLOTS_FROM`]. The receiver sees the badge. Only endpoints that this system created allow
    /// receiving.
    fn endpoint_mint(
        &mut self,
        _endpoint: MachineEndpoint,
        _thread: MachineThread,
        _slot: u8,
        _badge: u32,
        _for_what: EndpointUse,
    ) -> Result<(), EndpointError> {
        Err(EndpointError::NotFound)
    }
    /// Empties such a slot, if it is not empty already. The thread's operations through it then fail.
    fn endpoint_unmint(&mut self, _thread: MachineThread, _slot: u8) {}
}
