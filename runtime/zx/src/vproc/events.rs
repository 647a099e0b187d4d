//! Events of a virtual processor: upcalls to its owner's code, and going back to what they interrupt
//! (`docs/virtual-processors.md`, "Upcalls").
//!
//! All of this is for the owner's thread alone. It works on the page that thread and system share, by loads and stores
//! between which an upcall may come at any instruction; so nothing here makes a reference to what stands there.

use core::arch::asm;
use core::sync::atomic::{Ordering, compiler_fence};

use abi::{
    HAFNON_VPROC_BIND, HAFNON_VPROC_EVENTS_OFFSET, HAFNON_VPROC_UNBIND, hafnon_vproc_events_t, hafnon_vproc_page_t,
    hafnon_vproc_state_t, hafnon_vproc_vectors_t,
};

use super::{VirtualProcessor, Vproc};
use crate::{AsHandleRef, Port, Result, check, sys};

/// What an upcall calls: with what was given beside it. What it interrupted is in [`Events::saved`], and goes on when it returns.
pub type Handler = extern "C" fn(*mut ());

/// The events of a virtual processor, for the thread that owns it; good as long as the [`VirtualProcessor`] is.
#[derive(Clone, Copy)]
pub struct Events {
    page: *mut hafnon_vproc_page_t,
    words: *mut hafnon_vproc_events_t,
}

/// Where an upcall keeps what it interrupts uses, and what is called then may use too.
#[repr(C, align(64))]
pub struct Vectors(hafnon_vproc_vectors_t);

impl Vectors {
    /// Those of a program that has not used them.
    pub const INITIAL: Vectors = {
        let mut lower = [0; 512];
        // The control words of x87 and SSE.
        (lower[0], lower[1]) = (0x7f, 0x03);
        (lower[24], lower[25]) = (0x80, 0x1f);
        Vectors(hafnon_vproc_vectors_t { lower, upper: [[0; 2]; 16], arguments: [0; 4] })
    };
}

impl VirtualProcessor<'_> {
    /// Its events.
    pub fn events(&self) -> Events {
        let words = self.page.wrapping_byte_add(HAFNON_VPROC_EVENTS_OFFSET as usize).cast();
        Events { page: self.page, words }
    }
}

impl Vproc {
    /// Makes events of a port's packets.
    ///
    /// # Errors
    /// `ALREADY_BOUND`: it is. `BAD_STATE`: the owner has ended.
    pub fn bind(&self, port: &Port) -> Result<()> {
        // SAFETY: no memory involved.
        check(unsafe { sys::zx_vproc_bind(self.raw_handle(), port.raw_handle(), HAFNON_VPROC_BIND) })
    }

    /// Undoes that.
    ///
    /// # Errors
    /// `NOT_FOUND`: it is not bound to this one.
    pub fn unbind(&self, port: &Port) -> Result<()> {
        // SAFETY: no memory involved.
        check(unsafe { sys::zx_vproc_bind(self.raw_handle(), port.raw_handle(), HAFNON_VPROC_UNBIND) })
    }
}

macro_rules! load {
    ($events:expr, $field:ident) => {{
        compiler_fence(Ordering::SeqCst);
        // SAFETY: the page is mapped, and the field a number in it.
        let value = unsafe { (&raw const (*$events.words).$field).read_volatile() };
        compiler_fence(Ordering::SeqCst);
        value
    }};
}

macro_rules! store {
    ($events:expr, $field:ident, $value:expr) => {{
        compiler_fence(Ordering::SeqCst);
        // SAFETY: as for `load`.
        unsafe { (&raw mut (*$events.words).$field).write_volatile($value) };
        compiler_fence(Ordering::SeqCst);
    }};
}

impl Events {
    /// No upcalls from here on: events stay pending.
    #[inline(always)]
    pub fn disable(self) {
        store!(self, enabled, 0);
    }

    /// Upcalls from here on. Says whether an event is pending, which the caller takes itself then: [`Self::disable`],
    /// [`Self::take`].
    #[inline(always)]
    #[must_use]
    pub fn enable(self) -> bool {
        store!(self, enabled, 1);
        load!(self, pending) != 0
    }

    /// Whether events are told by upcalls.
    #[inline(always)]
    pub fn are_enabled(self) -> bool {
        load!(self, enabled) != 0
    }

    /// Whether an event is pending.
    #[inline(always)]
    pub fn is_pending(self) -> bool {
        load!(self, pending) != 0
    }

    /// Takes the event that is pending, if there is one: it is for whoever takes it to look for what has happened. Says whether there was.
    #[inline(always)]
    pub fn take(self) -> bool {
        let was: u64;
        compiler_fence(Ordering::SeqCst);
        // SAFETY: the page is mapped. One instruction, so an event comes before or after; nobody else's processor is there.
        unsafe {
            asm!("xchg [{at}], {was}", at = in(reg) &raw mut (*self.words).pending, was = inout(reg) 0_u64 => was,
                options(nostack, preserves_flags));
        }
        compiler_fence(Ordering::SeqCst);
        was != 0
    }

    /// Waits, with events disabled, until one is pending. A right to answer the code that has stopped last is given up: it goes on
    /// by [`VirtualProcessor::enter`].
    pub fn wait(self) {
        compiler_fence(Ordering::SeqCst);
        // SAFETY: the page is mapped. There is nothing that could be wrong.
        let _ = unsafe { sys::zx_vproc_wait(self.page) };
        compiler_fence(Ordering::SeqCst);
    }

    /// Where the last upcall found the owner.
    pub fn interrupted(self) -> u64 {
        load!(self, interrupted)
    }

    /// What the last upcall interrupted; good while events are disabled.
    pub fn saved(self) -> *mut hafnon_vproc_state_t {
        // SAFETY: a place in the page.
        unsafe { &raw mut (*self.words).saved }
    }

    /// Where the vector registers of what an upcall interrupts are kept.
    pub fn set_vectors(self, vectors: *mut Vectors) {
        store!(self, vectors, vectors as u64);
    }

    /// Where upcalls go: a stack, and what is called on it. To be called with events disabled, which they are at first. Gives what an
    /// upcall's stack pointer is.
    ///
    /// # Safety
    /// As long as events are enabled, nobody else uses the stack, the handler may be called with the context, and
    /// [`Self::set_vectors`] was given a place for what is interrupted.
    pub unsafe fn set_handler(self, stack: &mut [u128], handler: Handler, context: *mut ()) -> u64 {
        let top = stack.as_mut_ptr_range().end.expose_provenance();
        compiler_fence(Ordering::SeqCst);
        // SAFETY: the page is mapped, and the stack is the caller's.
        unsafe { sys::zx_vproc_set_upcall(self.page, top, handler as usize, context.expose_provenance()) };
        load!(self, entry_sp)
    }

    /// Leaves whatever this is for what [`Self::saved`] says, with the vector registers of [`Self::set_vectors`], and
    /// enables events.
    ///
    /// # Safety
    /// Events are disabled, and what is left is never gone on with. Both are as an upcall has left them, or as something that
    /// can go on.
    pub unsafe fn leave(self) -> ! {
        // SAFETY: the same.
        unsafe { sys::zx_vproc_leave(self.page) }
    }
}
