//! Ports: queues of packets, which come from programs and from objects whose signals are waited for.

use abi::zx_port_packet_t;

use crate::handle::object;
use crate::{AsHandleRef, Handle, MonotonicInstant, Result, check, sys};

object! {
    /// A queue of packets.
    Port
}

impl Port {
    /// Makes a port.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn create() -> Result<Port> {
        let mut out = 0;
        // SAFETY: `out` has room for one handle.
        check(unsafe { sys::zx_port_create(0, &mut out) })?;
        Ok(Port(Handle::from_call(out)?))
    }

    /// Makes a port that interrupts can be bound to.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn create_for_interrupts() -> Result<Port> {
        let mut out = 0;
        // SAFETY: `out` has room for one handle.
        check(unsafe { sys::zx_port_create(abi::ZX_PORT_BIND_TO_INTERRUPT, &mut out) })?;
        Ok(Port(Handle::from_call(out)?))
    }

    /// Queues a user packet.
    ///
    /// # Errors
    /// `SHOULD_WAIT`: too many packets are queued.
    pub fn queue(&self, packet: &zx_port_packet_t) -> Result<()> {
        // SAFETY: the packet is valid.
        check(unsafe { sys::zx_port_queue(self.raw_handle(), packet) })
    }

    /// Takes a packet; waits for one until the deadline.
    ///
    /// # Errors
    /// `TIMED_OUT`.
    pub fn wait(&self, deadline: MonotonicInstant) -> Result<zx_port_packet_t> {
        let mut packet = core::mem::MaybeUninit::zeroed();
        // SAFETY: `packet` has room for one packet.
        check(unsafe { sys::zx_port_wait(self.raw_handle(), deadline.0, packet.as_mut_ptr()) })?;
        // SAFETY: plain numbers, zeroed before and written by the call.
        Ok(unsafe { packet.assume_init() })
    }

    /// Cancels a wait on `source` with `key`, and removes its packet.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub fn cancel(&self, source: &impl AsHandleRef, key: u64) -> Result<()> {
        // SAFETY: no memory involved.
        check(unsafe { sys::zx_port_cancel(self.raw_handle(), source.raw_handle(), key) })
    }

    /// Cancels all waits with `key`, and removes their packets.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub fn cancel_key(&self, key: u64) -> Result<()> {
        // SAFETY: no memory involved.
        check(unsafe { sys::zx_port_cancel_key(self.raw_handle(), 0, key) })
    }
}
