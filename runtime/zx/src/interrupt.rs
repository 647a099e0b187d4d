//! Interrupts: of devices, and virtual ones.

use crate::handle::object;
use crate::{AsHandleRef, Handle, MonotonicInstant, Port, Resource, Result, check, sys};

object! {
    /// An interrupt.
    Interrupt
}

impl Interrupt {
    /// Makes an interrupt that programs raise.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn create_virtual() -> Result<Interrupt> {
        let mut out = 0;
        // SAFETY: `out` is one handle's place.
        check(unsafe { sys::zx_interrupt_create(0, 0, abi::ZX_INTERRUPT_VIRTUAL, &mut out) })?;
        Ok(Interrupt(Handle::from_call(out)?))
    }

    /// Makes an object for a device's interrupt; the options (`ZX_INTERRUPT_MODE_*`) say how the device raises it.
    ///
    /// # Errors
    /// `WRONG_TYPE`, `OUT_OF_RANGE` for a resource that is not for it, `ALREADY_BOUND`.
    pub fn create(resource: &Resource, number: u32, options: u32) -> Result<Interrupt> {
        let mut out = 0;
        // SAFETY: `out` is one handle's place.
        check(unsafe { sys::zx_interrupt_create(resource.raw_handle(), number, options, &mut out) })?;
        Ok(Interrupt(Handle::from_call(out)?))
    }

    /// Waits until it comes; gives when that was. Says at the same time that the last one has been dealt with.
    ///
    /// # Errors
    /// `BAD_STATE` when it is bound to a port, `CANCELED` when it is destroyed.
    pub fn wait(&self) -> Result<MonotonicInstant> {
        let mut time = 0;
        // SAFETY: `time` is one time's place.
        check(unsafe { sys::zx_interrupt_wait(self.raw_handle(), &mut time) })?;
        Ok(MonotonicInstant(time))
    }

    /// Has it come as packets of a port that was made for interrupts.
    ///
    /// # Errors
    /// `WRONG_TYPE` for another port, `ALREADY_BOUND`, `BAD_STATE` while a thread waits, `CANCELED`.
    pub fn bind(&self, port: &Port, key: u64) -> Result<()> {
        // SAFETY: no memory involved.
        check(unsafe { sys::zx_interrupt_bind(self.raw_handle(), port.raw_handle(), key, abi::ZX_INTERRUPT_BIND) })
    }

    /// Undoes that.
    ///
    /// # Errors
    /// `NOT_FOUND` for a port that it is not bound to, `CANCELED`.
    pub fn unbind(&self, port: &Port) -> Result<()> {
        // SAFETY: no memory involved.
        check(unsafe { sys::zx_interrupt_bind(self.raw_handle(), port.raw_handle(), 0, abi::ZX_INTERRUPT_UNBIND) })
    }

    /// Says that the one that came by a packet has been dealt with.
    ///
    /// # Errors
    /// `BAD_STATE` when it is not bound, `CANCELED`.
    pub fn ack(&self) -> Result<()> {
        // SAFETY: no memory involved.
        check(unsafe { sys::zx_interrupt_ack(self.raw_handle()) })
    }

    /// Raises a virtual interrupt that came at `time`.
    ///
    /// # Errors
    /// `BAD_STATE` for a device's, `CANCELED`.
    pub fn trigger(&self, time: MonotonicInstant) -> Result<()> {
        // SAFETY: no memory involved.
        check(unsafe { sys::zx_interrupt_trigger(self.raw_handle(), 0, time.0) })
    }

    /// Ends it: whoever waits is told.
    ///
    /// # Errors
    /// `NOT_FOUND` when its packet was taken and not acknowledged; it is destroyed all the same.
    pub fn destroy(&self) -> Result<()> {
        // SAFETY: no memory involved.
        check(unsafe { sys::zx_interrupt_destroy(self.raw_handle()) })
    }
}
