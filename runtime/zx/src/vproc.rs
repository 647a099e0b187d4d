//! Virtual processors: they run code in other address spaces. The owner thread receives that code's system calls and
//! faults (`docs/virtual-processors.md`).
//!
//! The vDSO receives them and replies without the server. It writes to the page what the code has done, or claims to
//! have done; the owner must not trust that code.

mod events;

pub use events::{Events, Handler, Vectors};

use core::marker::PhantomData;
use core::ptr;

use abi::{
    HAFNON_VPROC_REASON_EXCEPTION, HAFNON_VPROC_REASON_FOREIGN_CALL, HAFNON_VPROC_REASON_KICK,
    HAFNON_VPROC_REASON_PAGE_FAULT, HAFNON_VPROC_REASON_SYSCALL, ZX_VM_PERM_READ, ZX_VM_PERM_WRITE,
    hafnon_vproc_page_t, hafnon_vproc_run_t, hafnon_vproc_state_t,
};

use crate::handle::object;
use crate::{AsHandleRef, Handle, Process, Result, Vmar, Vmo, check, sys};

object! {
    /// A handle to a virtual processor.
    Vproc
}

impl Vproc {
    /// Makes an event. If events are enabled ([`Events`]), an upcall reports it. Otherwise the owner's current
    /// [`VirtualProcessor::enter`] or [`VirtualProcessor::resume`] returns, or its next one if the owner is in neither.
    ///
    /// # Errors
    /// `BAD_STATE`: the owner has ended. `NO_MEMORY`.
    pub fn kick(&self) -> Result<()> {
        // SAFETY: no memory involved.
        check(unsafe { sys::zx_vproc_kick(self.raw_handle()) })
    }
}

/// Why the code of a virtual processor has stopped. Details are in its page ([`VirtualProcessor::page`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// A system call: all general registers are in the state; `ip` is behind it.
    Syscall,
    /// A page fault at this address.
    PageFault(u64),
    /// Another exception, with this number: `ip`, `rsp` and `flags` are in the state.
    Exception(u64),
    /// A system call with a number of seL4; it had no effect.
    ForeignCall,
    /// An event ([`Vproc::kick`], [`Vproc::bind`]), which this exit takes. All general registers are in the state;
    /// [`VirtualProcessor::enter`] resumes the code.
    Kick,
    /// The page contains a reason that this crate does not know.
    Unknown,
}

/// A virtual processor. The thread that made it owns it.
pub struct VirtualProcessor<'v> {
    handle: Vproc,
    vmar: &'v Vmar,
    page: *mut hafnon_vproc_page_t,
    of_one_thread: PhantomData<*const ()>,
}

const PAGE: usize = 4096;

impl<'v> VirtualProcessor<'v> {
    /// Makes a virtual processor of the calling thread, and maps its page in a VMAR of this process.
    ///
    /// # Errors
    /// `ALREADY_BOUND`: the thread already has one. `NO_RESOURCES`: the thread has no free slot. `NO_MEMORY`.
    pub fn create(vmar: &'v Vmar) -> Result<Self> {
        Self::create_with_options(vmar, 0)
    }

    /// As [`Self::create`], with `HAFNON_VPROC_SHARED_VECTORS` or no option.
    ///
    /// # Errors
    /// In addition `NOT_SUPPORTED`: the kernel cannot share vector registers. `INVALID_ARGS`: an unknown option.
    pub fn create_with_options(vmar: &'v Vmar, options: u32) -> Result<Self> {
        let (mut out, mut page) = (0, 0);
        // SAFETY: both outputs have room for one handle.
        check(unsafe { sys::zx_vproc_create(options, &mut out, &mut page) })?;
        let (handle, page) = (Vproc(Handle::from_call(out)?), Vmo::from(Handle::from_call(page)?));
        let address = vmar.map(ZX_VM_PERM_READ | ZX_VM_PERM_WRITE, 0, &page, 0, PAGE)?;
        let page = ptr::with_exposed_provenance_mut(address);
        Ok(Self { handle, vmar, page, of_one_thread: PhantomData })
    }

    /// Its handle.
    pub fn handle(&self) -> &Vproc {
        &self.handle
    }

    /// The page that the virtual processor shares with its owner.
    pub fn page(&self) -> &hafnon_vproc_page_t {
        // SAFETY: the page is mapped as long as this value lives, and the system writes to it only in calls that borrow
        // this value mutably.
        unsafe { &*self.page }
    }

    /// The registers with which [`Self::enter`] runs the code.
    pub fn state(&mut self) -> &mut hafnon_vproc_state_t {
        // SAFETY: as in `page`, and this value is borrowed mutably.
        unsafe { &mut (*self.page).state }
    }

    /// Runs code in the address space of `process`, with the registers in the state, until it stops. The code that the
    /// virtual processor ran before is abandoned; its last exit can no longer be answered.
    ///
    /// # Errors
    /// `BAD_STATE`: the process has ended, or the caller is not the owner. `INVALID_ARGS`: `ip`, `fs_base` or `gs_base`
    /// of the state is no address of a program. `NO_RESOURCES`, `NO_MEMORY`.
    pub fn enter(&mut self, process: &Process) -> Result<Exit> {
        // SAFETY: the page is mapped, and this value is borrowed mutably.
        check(unsafe { sys::zx_vproc_enter(self.handle.raw_handle(), process.raw_handle(), self.page) })?;
        Ok(self.exit())
    }

    /// Like [`Self::enter`], with these x87 and SSE registers in the owner. Afterwards they hold the owner's, which are
    /// the code's with `HAFNON_VPROC_SHARED_VECTORS`.
    ///
    /// # Errors
    /// As [`Self::enter`].
    #[cfg(feature = "probe")]
    pub fn enter_with(&mut self, process: &Process, registers: &mut crate::FxRegisters) -> Result<Exit> {
        let words =
            [self.handle.raw_handle().into(), process.raw_handle().into(), self.page.expose_provenance() as u64];
        // SAFETY: as in `enter`.
        unsafe { registers.around(sys::zx_vproc_enter as *const (), words) }?;
        Ok(self.exit())
    }

    /// Like [`Self::resume`], as [`Self::enter_with`].
    ///
    /// # Errors
    /// As [`Self::resume`].
    #[cfg(feature = "probe")]
    pub fn resume_with(&mut self, registers: &mut crate::FxRegisters) -> Result<Exit> {
        let words = [self.handle.raw_handle().into(), self.page.expose_provenance() as u64, 0];
        // SAFETY: as in `resume`.
        unsafe { registers.around(sys::zx_vproc_resume as *const (), words) }?;
        Ok(self.exit())
    }

    /// Resumes the code where it stopped, until it stops again:
    ///
    /// - After a system call it continues with the general registers of the state, like after any system call: `rcx` is
    ///   `ip`, and `r11` contains the flags.
    /// - After an exception it continues with `ip`, `rsp` and `flags` of the state.
    /// - After a page fault it repeats the instruction, with the registers that it had.
    ///
    /// To change other registers, or to resume after a kick or [`Self::fill_state`], call [`Self::enter`].
    ///
    /// # Errors
    /// `BAD_STATE`: the code has not stopped at something that can be answered. And those of [`Self::fill_state`].
    pub fn resume(&mut self) -> Result<Exit> {
        // SAFETY: the page is mapped, and this value is borrowed mutably.
        check(unsafe { sys::zx_vproc_resume(self.handle.raw_handle(), self.page) })?;
        Ok(self.exit())
    }

    /// The exit that the page describes.
    #[inline(always)]
    fn exit(&self) -> Exit {
        let page = self.page();
        match page.reason {
            HAFNON_VPROC_REASON_SYSCALL => Exit::Syscall,
            HAFNON_VPROC_REASON_PAGE_FAULT => Exit::PageFault(page.address),
            HAFNON_VPROC_REASON_EXCEPTION => Exit::Exception(page.vector),
            // A second read, so that the compiler tests the frequent reasons one after the other, and makes no jump
            // table for all of them.
            // SAFETY: as in `page`.
            _ => match unsafe { (&raw const (*self.page).reason).read_volatile() } {
                HAFNON_VPROC_REASON_KICK => Exit::Kick,
                HAFNON_VPROC_REASON_FOREIGN_CALL => Exit::ForeignCall,
                _ => Exit::Unknown,
            },
        }
    }

    /// Stops the code and writes all its general registers to the state; `ip` is the next instruction to execute.
    /// [`Self::enter`] resumes the code.
    ///
    /// # Errors
    /// `BAD_STATE`: it was never entered, or the caller is not the owner. `NO_MEMORY`.
    pub fn fill_state(&mut self) -> Result<()> {
        // SAFETY: the page is mapped, and this value is borrowed mutably.
        check(unsafe { sys::zx_vproc_state(self.handle.raw_handle(), self.page) })
    }
}

impl Drop for VirtualProcessor<'_> {
    fn drop(&mut self) {
        // This fails if another holder of a handle to the VMAR has already unmapped the page.
        let _ = self.vmar.unmap(self.page.addr(), PAGE);
    }
}

/// Maps runs of a VMO's pages in a VMAR, replacing the mappings there. A run without permissions unmaps its range.
///
/// # Errors
/// `INVALID_ARGS`, `OUT_OF_RANGE`, `ACCESS_DENIED`, `NOT_SUPPORTED`, `NO_MEMORY`.
pub fn map_runs(vmar: &Vmar, vmo: &Vmo, runs: &[hafnon_vproc_run_t]) -> Result<()> {
    // SAFETY: the runs are valid for their number. The caller is responsible for the contents of the VMAR, as the
    // crate's documentation says.
    check(unsafe { sys::zx_vproc_map(vmar.raw_handle(), vmo.raw_handle(), runs.as_ptr(), runs.len()) })
}
