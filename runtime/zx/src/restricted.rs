//! Restricted mode: this thread runs other code, with a separate set of registers (`docs/virtual-processors.md`).

use core::marker::PhantomData;
use core::{mem, ptr};

use abi::{
    Status, ZX_RESTRICTED_REASON_EXCEPTION, ZX_RESTRICTED_REASON_KICK, ZX_RESTRICTED_REASON_SYSCALL, ZX_VM_PERM_READ,
    ZX_VM_PERM_WRITE, zx_exception_report_t, zx_restricted_exception_t, zx_restricted_state_t,
};

use crate::arch::enter;
use crate::{AsHandleRef, Handle, Result, Thread, Vmar, Vmo, check, sys};

/// Why a thread has left restricted mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// The code made a system call: `ip` is behind it, `rcx` and `r11` are 0.
    Syscall,
    /// The code raised an exception, which [`Restricted::exception`] describes.
    Exception,
    /// The thread was kicked ([`Thread::restricted_kick`]).
    Kick,
}

impl Reason {
    fn of(reason: u64) -> Result<Self> {
        match reason {
            ZX_RESTRICTED_REASON_SYSCALL => Ok(Self::Syscall),
            ZX_RESTRICTED_REASON_EXCEPTION => Ok(Self::Exception),
            ZX_RESTRICTED_REASON_KICK => Ok(Self::Kick),
            _ => Err(Status::INTERNAL),
        }
    }
}

/// The restricted state that is bound to a thread, mapped into its process. Dropping this value unbinds the state.
pub struct Restricted<'v> {
    vmo: Vmo,
    vmar: &'v Vmar,
    page: *mut zx_restricted_exception_t,
    of_one_thread: PhantomData<*const ()>,
}

const PAGE: usize = 4096;

impl<'v> Restricted<'v> {
    /// Binds a new state to the calling thread; it replaces a state that is bound already.
    ///
    /// # Errors
    /// `NOT_SUPPORTED`: this version of seL4 cannot run such code. `ALREADY_BOUND`: the thread has a virtual processor.
    /// `NO_RESOURCES`, `NO_MEMORY`.
    pub fn bind(vmar: &'v Vmar) -> Result<Self> {
        let mut out = 0;
        // SAFETY: `out` has room for one handle.
        check(unsafe { sys::zx_restricted_bind_state(0, &mut out, ptr::null_mut()) })?;
        let vmo = Vmo::from(Handle::from_call(out)?);
        let address = vmar.map(ZX_VM_PERM_READ | ZX_VM_PERM_WRITE, 0, &vmo, 0, PAGE)?;
        Ok(Self { vmo, vmar, page: ptr::with_exposed_provenance_mut(address), of_one_thread: PhantomData })
    }

    /// The VMO that contains the state.
    pub fn vmo(&self) -> &Vmo {
        &self.vmo
    }

    /// The registers.
    pub fn state(&mut self) -> &mut zx_restricted_state_t {
        // SAFETY: the page is mapped as long as this value lives, and the system writes to it only in calls that borrow
        // this value mutably.
        unsafe { &mut (*self.page).state }
    }

    /// The report of the exception, after [`Reason::Exception`].
    pub fn exception(&self) -> zx_exception_report_t {
        // SAFETY: as above.
        unsafe { (*self.page).exception }
    }

    /// Runs the code from its state on, until it leaves restricted mode. The code can access all memory of this
    /// process, so the caller must trust the program that provides the state.
    ///
    /// # Errors
    /// `BAD_STATE`: the state is invalid, or no state is bound to this thread.
    pub fn enter(&mut self) -> Result<Reason> {
        let mut reason = u64::MAX;
        // SAFETY: the caller is responsible for what the code does to this process's memory, as documented above. The
        // wrapper returns like any function, whatever the code has in its registers.
        check(unsafe { enter(0, &mut reason) })?;
        Reason::of(reason)
    }

    /// Like [`Self::enter`], with these vector registers. Afterwards they hold the values that the code has left.
    ///
    /// # Errors
    /// As [`Self::enter`].
    #[cfg(feature = "probe")]
    pub fn enter_with(&mut self, registers: &mut crate::FxRegisters) -> Result<Reason> {
        let mut reason = u64::MAX;
        // SAFETY: as in `enter`.
        unsafe { registers.around(enter as *const (), [0, (&raw mut reason).expose_provenance() as u64, 0]) }?;
        Reason::of(reason)
    }

    /// Leaves the state bound, until the thread ends or unbinds it.
    pub fn keep(self) {
        mem::forget(self);
    }
}

impl Drop for Restricted<'_> {
    fn drop(&mut self) {
        let _ = unbind_restricted_state();
        // This fails if another holder of a handle to the VMAR has already unmapped the page.
        let _ = self.vmar.unmap(self.page.addr(), PAGE);
    }
}

/// Unbinds the restricted state of the calling thread, if one is bound.
///
/// # Errors
/// None for any caller.
pub fn unbind_restricted_state() -> Result<()> {
    // SAFETY: no memory involved.
    check(unsafe { sys::zx_restricted_unbind_state(0) })
}

impl Thread {
    /// Makes the thread leave restricted mode, now or as soon as it enters.
    ///
    /// # Errors
    /// `BAD_STATE`: the thread is ending or has ended. `ACCESS_DENIED`.
    pub fn restricted_kick(&self) -> Result<()> {
        // SAFETY: no memory involved.
        check(unsafe { sys::zx_restricted_kick(self.raw_handle(), 0) })
    }
}
