//! Virtual processors: code in other address spaces, and what happens there told to the thread that owns them
//! (`docs/virtual-processors.md`).
//!
//! What happens comes from the kernel beneath, past the server, and so does the answer by which the code goes on. What comes
//! is what code that nobody trusts has done, or says that it has.

mod events;

pub use events::{Events, Handler, Vectors};

use core::arch::asm;
use core::marker::PhantomData;
use core::ptr;

use abi::{
    HAFNON_VPROC_REASON_EXCEPTION, HAFNON_VPROC_REASON_FOREIGN_CALL, HAFNON_VPROC_REASON_KICK,
    HAFNON_VPROC_REASON_NONE, HAFNON_VPROC_REASON_PAGE_FAULT, HAFNON_VPROC_REASON_SYSCALL, Status, ZX_VM_PERM_READ,
    ZX_VM_PERM_WRITE, hafnon_vproc_page_t, hafnon_vproc_run_t, hafnon_vproc_state_t,
};

use crate::endpoint::{label_of, number, tag, trap};
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
    slot: u64,
    of_one_thread: PhantomData<*const ()>,
}

const PAGE: usize = 4096;

/// Labels of the kernel's messages.
mod label {
    pub const FOREIGN_CALL: u64 = 1;
    pub const SYSCALL: u64 = 2;
    pub const EXCEPTION: u64 = 3;
    pub const PAGE_FAULT: u64 = 5;
}

/// Words of the message of a system call, and of its answer.
const SYSCALL_WORDS: u64 = 18;
/// Words of the answer to an exception.
const EXCEPTION_WORDS: u64 = 3;
/// Bytes of a `syscall` instruction.
const SYSCALL_LENGTH: u64 = 2;

/// Copies the words of a system call's message that do not travel in registers from the state to the IPC buffer.
macro_rules! put_words {
    ($state:expr, $($index:literal)*) => {
        asm!(
            $(concat!("mov {word}, [{state} + 8*", $index, "]"), concat!("mov gs:[8 + 8*", $index, "], {word}"),)*
            state = in(reg) $state, word = out(reg) _, options(nostack, preserves_flags)
        )
    };
}

/// Copies them back.
macro_rules! take_words {
    ($state:expr, $($index:literal)*) => {
        asm!(
            $(concat!("mov {word}, gs:[8 + 8*", $index, "]"), concat!("mov [{state} + 8*", $index, "], {word}"),)*
            state = in(reg) $state, word = out(reg) _, options(nostack, preserves_flags)
        )
    };
}

impl<'v> VirtualProcessor<'v> {
    /// Makes one of the calling thread, and maps its page in this process's own region.
    ///
    /// # Errors
    /// `ALREADY_BOUND`: the thread has one. `NO_RESOURCES`: it has no free slot. `NO_MEMORY`.
    pub fn create(vmar: &'v Vmar) -> Result<Self> {
        let (mut out, mut page, mut slot) = (0, 0, 0);
        // SAFETY: all three are places of what is told.
        check(unsafe { sys::zx_vproc_create(0, &mut out, &mut page, &mut slot) })?;
        let (handle, page) = (Vproc(Handle::from_call(out)?), Vmo::from(Handle::from_call(page)?));
        let address = vmar.map(ZX_VM_PERM_READ | ZX_VM_PERM_WRITE, 0, &page, 0, PAGE)?;
        let page = ptr::with_exposed_provenance_mut(address);
        Ok(Self { handle, vmar, page, slot: slot.into(), of_one_thread: PhantomData })
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
        &mut self.page_mut().state
    }

    fn page_mut(&mut self) -> &mut hafnon_vproc_page_t {
        // SAFETY: as above, and this is borrowed to change.
        unsafe { &mut *self.page }
    }

    /// Runs the code of a process from its state on, until it stops. What it was in the midst of is given up.
    ///
    /// # Errors
    /// `BAD_STATE`: the process has ended, or another thread asks. `INVALID_ARGS`: the state cannot be. `NO_RESOURCES`, `NO_MEMORY`.
    pub fn enter(&mut self, process: &Process) -> Result<Exit> {
        self.page_mut().reason = HAFNON_VPROC_REASON_NONE;
        // SAFETY: the system reads the page, which is there.
        check(unsafe { sys::zx_vproc_enter(self.handle.raw_handle(), process.raw_handle()) })?;
        self.stopped(trap(number::RECV, self.slot, 0, [0; 4]))
    }

    /// Lets the code go on where it has stopped, until it stops again. After a system call it goes on with the general registers
    /// of the state, as a system call does: `rcx` is `ip` and `r11` are the flags. After an exception it takes `ip`, `rsp`
    /// and `flags` from there. After a page fault it does the instruction again, with the registers that it had. What else is
    /// to be changed takes an [`Self::enter`], and so does going on after a kick or [`Self::fill_state`].
    ///
    /// # Errors
    /// `BAD_STATE`: there is nothing to be answered. As [`Self::fill_state`].
    pub fn resume(&mut self) -> Result<Exit> {
        let page = self.page_mut();
        let state = &page.state;
        let (words, first) = match page.reason {
            HAFNON_VPROC_REASON_SYSCALL => {
                // SAFETY: GS lies at the thread's IPC buffer; its words of the message are the state's fields, in their order.
                unsafe { put_words!(ptr::from_ref(state), 4 5 6 7 8 9 10 11 12 13 14 15 16 17) };
                (SYSCALL_WORDS, [state.rax, state.rbx, state.rcx, state.rdx])
            }
            HAFNON_VPROC_REASON_EXCEPTION => (EXCEPTION_WORDS, [state.ip, state.rsp, state.flags, 0]),
            HAFNON_VPROC_REASON_PAGE_FAULT => (0, [0; 4]),
            _ => return Err(Status::BAD_STATE),
        };
        self.stopped(trap(number::REPLY_RECV, self.slot, tag(0, words), first))
    }

    /// Notes what has come in the page.
    #[inline(always)]
    fn stopped(&mut self, mut came: (u64, u64, [u64; 4])) -> Result<Exit> {
        while came.0 != 0 {
            if self.events().take() {
                return self.kicked();
            }
            // The owner has taken that event before.
            came = trap(number::RECV, self.slot, 0, [0; 4]);
        }
        let (_, info, first) = came;
        let page = self.page_mut();
        Ok(match label_of(info) {
            label::SYSCALL => {
                let state = &mut page.state;
                [state.rax, state.rbx, state.rcx, state.rdx] = first;
                // SAFETY: as in `resume`; the pointer is to all of the state.
                unsafe { take_words!(ptr::from_mut(state), 4 5 6 7 8 9 10 11 12 13 14 15 16 17) };
                state.ip = state.ip.wrapping_add(SYSCALL_LENGTH);
                // What the processor has put there, the kernel has not kept.
                (state.rcx, state.r11) = (state.ip, state.flags);
                page.reason = HAFNON_VPROC_REASON_SYSCALL;
                Exit::Syscall
            }
            label::PAGE_FAULT => {
                let [ip, address, _, code] = first;
                (page.ip, page.address, page.code) = (ip, address, code);
                page.reason = HAFNON_VPROC_REASON_PAGE_FAULT;
                Exit::PageFault(address)
            }
            label::EXCEPTION => {
                let [ip, rsp, flags, vector] = first;
                (page.state.ip, page.state.rsp, page.state.flags) = (ip, rsp, flags);
                (page.ip, page.vector, page.code) = (ip, vector, fifth_word());
                page.reason = HAFNON_VPROC_REASON_EXCEPTION;
                Exit::Exception(vector)
            }
            label::FOREIGN_CALL => {
                page.ip = first[0];
                page.reason = HAFNON_VPROC_REASON_FOREIGN_CALL;
                Exit::ForeignCall
            }
            _ => {
                page.reason = HAFNON_VPROC_REASON_NONE;
                Exit::Unknown
            }
        })
    }

    /// The code may run on: it is stopped, wherever that is, and is to do what it has not done when it is entered.
    #[cold]
    fn kicked(&mut self) -> Result<Exit> {
        self.fill_state()?;
        self.page_mut().reason = HAFNON_VPROC_REASON_KICK;
        Ok(Exit::Kick)
    }

    /// Has all registers with which the code has stopped written to the state; `ip` is the instruction that it has not done. It goes on by
    /// [`Self::enter`].
    ///
    /// # Errors
    /// `BAD_STATE`: it was not entered yet, or another thread asks. `NO_MEMORY`.
    pub fn fill_state(&mut self) -> Result<()> {
        // SAFETY: the system writes to the page, which nobody else has borrowed.
        check(unsafe { sys::zx_vproc_state(self.handle.raw_handle()) })?;
        self.page_mut().reason = HAFNON_VPROC_REASON_NONE;
        Ok(())
    }
}

/// The fifth word of the message that has come.
fn fifth_word() -> u64 {
    let word;
    // SAFETY: GS lies at the thread's IPC buffer, of which this is a word.
    unsafe { asm!("mov {word}, gs:[8 + 8*4]", word = out(reg) word, options(nostack, readonly, preserves_flags)) };
    word
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
