//! vhost-user over a channel: how the driver of a guest (the *front end*) and the process that implements its device (the
//! *back end*) agree on features, memory and queues.
//!
//! The messages are those of the vhost-user specification, byte for byte. A channel takes the place of the UNIX socket:
//!
//! 1. **Connect.** A front end connects to the service `switch` with the name of its port: `/svc/switch/PORT`
//!    (`zx::startup::connect("switch/PORT")`). The system description says which program may have which port; for all
//!    others the channel closes. A port has one front end at a time.
//! 2. **Messages.** A channel message is one vhost-user message: a header of 12 bytes ([`Header`]) and the payload. Handles
//!    take the place of file descriptors, in the same order. Requests that have an answer, and with [`REPLY_ACK`] those that
//!    ask for one, are answered by a message of the same form. With [`BACKEND_REQ`], the front end sends the end of another
//!    channel for requests of the back end, which needs the rights to read, write and wait. When the back end has gone, both
//!    channels close.
//! 3. **Memory.** Each region of [`Request::SetMemTable`] comes with a VMO, which the back end maps once. It must be an
//!    ordinary VMO: neither resizable nor discardable, without a parent and without a pager. Its handle
//!    needs the rights to read, write and map.
//! 4. **Kicks and calls.** Each is an event ([`Request::SetVringKick`], [`Request::SetVringCall`]), by its level: the
//!    sender sets `ZX_EVENT_SIGNALED`; the receiver clears it, and then looks at the ring. The kick's handle needs the
//!    rights to wait and to signal, the call's the right to signal. A queue without a call ([`NO_HANDLE`]) is looked at by
//!    its driver; a queue without a kick is refused.
//! 5. **Run.** A queue runs when features, memory, size, addresses and kick are set, and, if
//!    [`PROTOCOL_FEATURES`] was negotiated, it was enabled. While it runs, its parameters and the memory cannot change: a
//!    front end disables it first, or takes its index ([`Request::GetVringBase`]).
//! 6. **Faults.** A message that breaks a rule gets the answer 1 if it asked for one, and ends the connection: the
//!    channel closes, and the back end accesses the memory no more. A front end that connects again starts anew.
//!
//! [`Request::parse`] checks a message's form, [`Session`] the order of messages. Neither accesses memory or handles: the
//! back end does what the returned [`Step`] says.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod message;
mod session;
#[cfg(test)]
mod tests;

pub use message::{
    Fault, HEADER, Header, LONGEST, MAX_CONFIG, MAX_REGIONS, MessageKind, NEED_REPLY, NO_HANDLE, REPLY, Region,
    Request, VERSION, VringAddress, VringState, reply, reply_config, reply_u64, reply_vring,
};
pub use session::{Queue, Session, Settings, Step};

/// Feature: the device obeys version 1 of the virtio specification.
pub const VERSION_1: u64 = 1 << 32;
/// Feature: each side says at which index it wants to be notified.
pub const EVENT_IDX: u64 = 1 << 29;
/// Feature: a descriptor may refer to a table of descriptors.
pub const INDIRECT_DESC: u64 = 1 << 28;
/// Feature of vhost-user: there are protocol features, and queues are enabled one by one.
pub const PROTOCOL_FEATURES: u64 = 1 << 30;

/// Protocol feature: the back end supports several queue pairs, and says how many.
pub const MQ: u64 = 1;
/// Protocol feature: a message can ask for an answer.
pub const REPLY_ACK: u64 = 1 << 3;
/// Protocol feature: the back end can make requests, on a channel of its own ([`Request::SetBackendReqFd`]).
pub const BACKEND_REQ: u64 = 1 << 5;
/// Protocol feature: the front end reads the device's configuration.
pub const CONFIG: u64 = 1 << 9;

/// Features of network devices.
pub mod net {
    /// The device takes frames whose checksum is not complete.
    pub const CSUM: u64 = 1;
    /// The driver takes frames whose checksum is not complete.
    pub const GUEST_CSUM: u64 = 1 << 1;
    /// The device has a hardware address.
    pub const MAC: u64 = 1 << 5;
    /// The driver takes large segments of TCP over IPv4.
    pub const GUEST_TSO4: u64 = 1 << 7;
    /// The same over IPv6.
    pub const GUEST_TSO6: u64 = 1 << 8;
    /// The device takes large segments of TCP over IPv4.
    pub const HOST_TSO4: u64 = 1 << 11;
    /// The same over IPv6.
    pub const HOST_TSO6: u64 = 1 << 12;
    /// The driver merges receive buffers.
    pub const MRG_RXBUF: u64 = 1 << 15;
    /// The device tells whether there is a link.
    pub const STATUS: u64 = 1 << 16;
}
