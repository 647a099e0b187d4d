//! Virtual processors: code in other address spaces, whose system calls and faults come to the thread that owns them
//! (`docs/virtual-processors.md`).
//!
//! The vDSO receives them, and replies, past the server. What it writes to the page is what code that the owner does not trust
//! has done, or claims to have done.

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
    /// Makes an event: an upcall where events are enabled ([`Events`]); otherwise it has the owner's [`VirtualProcessor::enter`] or
    /// [`VirtualProcessor::resume`] come back, the next one if it is in none.
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
    /// Another exception, of this number: `ip`, `rsp` and `flags` are in the state.
    Exception(u64),
    /// A system call by one of the kernel's own numbers, which did nothing.
    ForeignCall,
    /// An event, which is taken by that ([`Vproc::kick`], [`Vproc::bind`]): all general registers are in the state, and it goes on when it is entered.
    Kick,
    /// What nobody knows.
    Unknown,
}

/// A virtual processor of the thread that made it.
pub struct VirtualProcessor<'v> {
    handle: Vproc,
    vmar: &'v Vmar,
    page: *mut hafnon_vproc_page_t,
    of_one_thread: PhantomData<*const ()>,
}

const PAGE: usize = 4096;

impl<'v> VirtualProcessor<'v> {
    /// Makes one of the calling thread, and maps its page in this process's own region.
    ///
    /// # Errors
    /// `ALREADY_BOUND`: the thread has one. `NO_RESOURCES`: it has no free slot. `NO_MEMORY`.
    pub fn create(vmar: &'v Vmar) -> Result<Self> {
        let (mut out, mut page) = (0, 0);
        // SAFETY: both are places of handles.
        check(unsafe { sys::zx_vproc_create(0, &mut out, &mut page) })?;
        let (handle, page) = (Vproc(Handle::from_call(out)?), Vmo::from(Handle::from_call(page)?));
        let address = vmar.map(ZX_VM_PERM_READ | ZX_VM_PERM_WRITE, 0, &page, 0, PAGE)?;
        let page = ptr::with_exposed_provenance_mut(address);
        Ok(Self { handle, vmar, page, of_one_thread: PhantomData })
    }

    /// Its handle.
    pub fn handle(&self) -> &Vproc {
        &self.handle
    }

    /// The page that it shares with its owner.
    pub fn page(&self) -> &hafnon_vproc_page_t {
        // SAFETY: it is mapped as long as this lives, and the system writes there only when this is borrowed to change.
        unsafe { &*self.page }
    }

    /// The state that it runs with when it is entered.
    pub fn state(&mut self) -> &mut hafnon_vproc_state_t {
        // SAFETY: as above, and this is borrowed to change.
        unsafe { &mut (*self.page).state }
    }

    /// Runs the code of a process from its state on, until it stops. What it was in the midst of is given up.
    ///
    /// # Errors
    /// `BAD_STATE`: the process has ended, or another thread asks. `INVALID_ARGS`: the state cannot be. `NO_RESOURCES`, `NO_MEMORY`.
    pub fn enter(&mut self, process: &Process) -> Result<Exit> {
        // SAFETY: the page is there, and borrowed to change.
        check(unsafe { sys::zx_vproc_enter(self.handle.raw_handle(), process.raw_handle(), self.page) })?;
        Ok(self.exit())
    }

    /// Lets the code go on where it has stopped, until it stops again. After a system call it goes on with the general registers
    /// of the state, as a system call does: `rcx` is `ip` and `r11` are the flags. After an exception it takes `ip`, `rsp`
    /// and `flags` from there. After a page fault it does the instruction again, with the registers that it had. What else is
    /// to be changed takes an [`Self::enter`], and so does going on after a kick or [`Self::fill_state`].
    ///
    /// # Errors
    /// `BAD_STATE`: there is nothing to be answered. As [`Self::fill_state`].
    pub fn resume(&mut self) -> Result<Exit> {
        // SAFETY: the page is there, and borrowed to change.
        check(unsafe { sys::zx_vproc_resume(self.handle.raw_handle(), self.page) })?;
        Ok(self.exit())
    }

    /// What the page says.
    #[inline(always)]
    fn exit(&self) -> Exit {
        let page = self.page();
        match page.reason {
            HAFNON_VPROC_REASON_SYSCALL => Exit::Syscall,
            HAFNON_VPROC_REASON_PAGE_FAULT => Exit::PageFault(page.address),
            HAFNON_VPROC_REASON_EXCEPTION => Exit::Exception(page.vector),
            // Read again, so that the compiler looks at the frequent ones one after the other, and does not make a table of all.
            // SAFETY: as for `page`.
            _ => match unsafe { (&raw const (*self.page).reason).read_volatile() } {
                HAFNON_VPROC_REASON_KICK => Exit::Kick,
                HAFNON_VPROC_REASON_FOREIGN_CALL => Exit::ForeignCall,
                _ => Exit::Unknown,
            },
        }
    }

    /// Has all registers with which the code has stopped written to the state; `ip` is the instruction that it has not done. It goes on by
    /// [`Self::enter`].
    ///
    /// # Errors
    /// `BAD_STATE`: it was not entered yet, or another thread asks. `NO_MEMORY`.
    pub fn fill_state(&mut self) -> Result<()> {
        // SAFETY: the page is there, and borrowed to change.
        check(unsafe { sys::zx_vproc_state(self.handle.raw_handle(), self.page) })
    }
}

impl Drop for VirtualProcessor<'_> {
    fn drop(&mut self) {
        // Its page may have been unmapped by whoever has a handle to the region, too.
        let _ = self.vmar.unmap(self.page.addr(), PAGE);
    }
}

/// Maps runs of a VMO's pages in a region, in place of what is there, and unmaps those without permissions.
///
/// # Errors
/// `INVALID_ARGS`, `OUT_OF_RANGE`, `ACCESS_DENIED`, `NOT_SUPPORTED`, `NO_MEMORY`.
pub fn map_runs(vmar: &Vmar, vmo: &Vmo, runs: &[hafnon_vproc_run_t]) -> Result<()> {
    // SAFETY: the runs are as many as is said. What lies in the region is the caller's, as the crate's head says.
    check(unsafe { sys::zx_vproc_map(vmar.raw_handle(), vmo.raw_handle(), runs.as_ptr(), runs.len()) })
}
