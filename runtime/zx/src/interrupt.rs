//! Interrupts of devices, and virtual interrupts.

use crate::handle::object;
use crate::{AsHandleRef, Handle, MonotonicInstant, Port, Resource, Result, check, sys};

object! {
    /// An interrupt.
    Interrupt
}

impl Interrupt {
    /// Makes a virtual interrupt, which programs trigger.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn create_virtual() -> Result<Interrupt> {
        let mut out = 0;
        // SAFETY: `out` has room for one handle.
        check(unsafe { sys::zx_interrupt_create(0, 0, abi::ZX_INTERRUPT_VIRTUAL, &mut out) })?;
        Ok(Interrupt(Handle::from_call(out)?))
    }

    /// Makes an object for a device's interrupt; the options (`ZX_INTERRUPT_MODE_*`) select trigger mode and polarity.
    ///
    /// # Errors
    /// `WRONG_TYPE`, `OUT_OF_RANGE`: the resource does not allow it. `ALREADY_BOUND`.
    pub fn create(resource: &Resource, number: u32, options: u32) -> Result<Interrupt> {
        let mut out = 0;
        // SAFETY: `out` has room for one handle.
        check(unsafe { sys::zx_interrupt_create(resource.raw_handle(), number, options, &mut out) })?;
        Ok(Interrupt(Handle::from_call(out)?))
    }

    /// Waits for the interrupt; returns the time at which it occurred. This also acknowledges the previous one.
    ///
    /// # Errors
    /// `BAD_STATE`: it is bound to a port. `CANCELED`: it is destroyed.
    pub fn wait(&self) -> Result<MonotonicInstant> {
        let mut time = 0;
        // SAFETY: `time` has room for one time.
        check(unsafe { sys::zx_interrupt_wait(self.raw_handle(), &mut time) })?;
        Ok(MonotonicInstant(time))
    }

    /// Binds it to a port for interrupts, which then receives its packets.
    ///
    /// # Errors
    /// `WRONG_TYPE`: the port is not for interrupts. `ALREADY_BOUND`. `BAD_STATE`: a thread waits for it. `CANCELED`.
    pub fn bind(&self, port: &Port, key: u64) -> Result<()> {
        // SAFETY: no memory involved.
        check(unsafe { sys::zx_interrupt_bind(self.raw_handle(), port.raw_handle(), key, abi::ZX_INTERRUPT_BIND) })
    }

    /// Unbinds it from a port.
    ///
    /// # Errors
    /// `NOT_FOUND`: it is not bound to this port. `CANCELED`.
    pub fn unbind(&self, port: &Port) -> Result<()> {
        // SAFETY: no memory involved.
        check(unsafe { sys::zx_interrupt_bind(self.raw_handle(), port.raw_handle(), 0, abi::ZX_INTERRUPT_UNBIND) })
    }

    /// Acknowledges the interrupt of the last packet.
    ///
    /// # Errors
    /// `BAD_STATE`: it is not bound. `CANCELED`.
    pub fn ack(&self) -> Result<()> {
        // SAFETY: no memory involved.
        check(unsafe { sys::zx_interrupt_ack(self.raw_handle()) })
    }

    /// Triggers a virtual interrupt that occurred at `time`.
    ///
    /// # Errors
    /// `BAD_STATE`: it is a device's interrupt. `CANCELED`.
    pub fn trigger(&self, time: MonotonicInstant) -> Result<()> {
        // SAFETY: no memory involved.
        check(unsafe { sys::zx_interrupt_trigger(self.raw_handle(), 0, time.0) })
    }

    /// Destroys it: waiting threads return with `CANCELED`.
    ///
    /// # Errors
    /// `NOT_FOUND`: a packet was taken and not acknowledged; the interrupt is destroyed nonetheless.
    pub fn destroy(&self) -> Result<()> {
        // SAFETY: no memory involved.
        check(unsafe { sys::zx_interrupt_destroy(self.raw_handle()) })
    }
}
