//! Events of a virtual processor: upcalls to its owner's code, and the return to the code that they interrupted
//! (`docs/virtual-processors.md`, "Upcalls").
//!
//! Only the owner thread may use this module. It accesses the page that the thread shares with the system. An upcall
//! can come between any two instructions. So this module uses single loads and stores, and makes no references into the
//! page.

use core::arch::asm;
use core::sync::atomic::{Ordering, compiler_fence};

use abi::{
    HAFNON_VPROC_BIND, HAFNON_VPROC_EVENTS_OFFSET, HAFNON_VPROC_UNBIND, hafnon_vproc_events_t, hafnon_vproc_page_t,
    hafnon_vproc_state_t, hafnon_vproc_vectors_t,
};

use super::{VirtualProcessor, Vproc};
use crate::{AsHandleRef, Port, Result, check, sys};

/// The function that an upcall calls, with the context given to [`Events::set_handler`]. The interrupted state is in
/// [`Events::saved`]; it resumes when the function returns.
pub type Handler = extern "C" fn(*mut ());

/// The events of a virtual processor, for the thread that owns it; valid as long as the [`VirtualProcessor`] exists.
#[derive(Clone, Copy)]
pub struct Events {
    page: *mut hafnon_vproc_page_t,
    words: *mut hafnon_vproc_events_t,
}

/// Where an upcall saves what the interrupted code may be using and the handler may overwrite: vector registers, and
/// the arguments of a system call from the fifth on.
#[repr(C, align(64))]
pub struct Vectors(hafnon_vproc_vectors_t);

impl Vectors {
    /// The values in a program that has not used these registers.
    pub const INITIAL: Vectors = {
        let mut lower = [0; 512];
        // The control words of x87 and SSE.
        (lower[0], lower[1]) = (0x7f, 0x03);
        (lower[24], lower[25]) = (0x80, 0x1f);
        Vectors(hafnon_vproc_vectors_t { lower, upper: [[0; 2]; 16], arguments: [0; 4] })
    };
}

impl VirtualProcessor<'_> {
    /// The events of this virtual processor.
    pub fn events(&self) -> Events {
        let words = self.page.wrapping_byte_add(HAFNON_VPROC_EVENTS_OFFSET as usize).cast();
        Events { page: self.page, words }
    }
}

impl Vproc {
    /// Binds a port: its packets become events.
    ///
    /// # Errors
    /// `ALREADY_BOUND`: the port is already bound. `BAD_STATE`: the owner has ended.
    pub fn bind(&self, port: &Port) -> Result<()> {
        // SAFETY: no memory involved.
        check(unsafe { sys::zx_vproc_bind(self.raw_handle(), port.raw_handle(), HAFNON_VPROC_BIND) })
    }

    /// Unbinds a port: its packets no longer become events.
    ///
    /// # Errors
    /// `NOT_FOUND`: the port is not bound to this virtual processor.
    pub fn unbind(&self, port: &Port) -> Result<()> {
        // SAFETY: no memory involved.
        check(unsafe { sys::zx_vproc_bind(self.raw_handle(), port.raw_handle(), HAFNON_VPROC_UNBIND) })
    }
}

macro_rules! load {
    ($events:expr, $field:ident) => {{
        compiler_fence(Ordering::SeqCst);
        // SAFETY: the page is mapped, and the field is a number in it.
        let value = unsafe { (&raw const (*$events.words).$field).read_volatile() };
        compiler_fence(Ordering::SeqCst);
        value
    }};
}

macro_rules! store {
    ($events:expr, $field:ident, $value:expr) => {{
        compiler_fence(Ordering::SeqCst);
        // SAFETY: as in `load`.
        unsafe { (&raw mut (*$events.words).$field).write_volatile($value) };
        compiler_fence(Ordering::SeqCst);
    }};
}

impl Events {
    /// Disables upcalls: events stay pending from now on.
    #[inline(always)]
    pub fn disable(self) {
        store!(self, enabled, 0);
    }

    /// Enables upcalls. Returns whether an event is pending already; then the caller must handle it itself, by
    /// [`Self::disable`] and [`Self::take`].
    #[inline(always)]
    #[must_use]
    pub fn enable(self) -> bool {
        store!(self, enabled, 1);
        load!(self, pending) != 0
    }

    /// Whether upcalls report events.
    #[inline(always)]
    pub fn are_enabled(self) -> bool {
        load!(self, enabled) != 0
    }

    /// Whether an event is pending.
    #[inline(always)]
    pub fn is_pending(self) -> bool {
        load!(self, pending) != 0
    }

    /// Takes the pending event, if there is one; returns whether there was one. An event does not say what has
    /// happened; the caller must look at all sources of events.
    #[inline(always)]
    pub fn take(self) -> bool {
        let was: u64;
        compiler_fence(Ordering::SeqCst);
        // SAFETY: the page is mapped. This is one instruction, so an event comes before or after it; no other processor
        // accesses the word.
        unsafe {
            asm!("xchg [{at}], {was}", at = in(reg) &raw mut (*self.words).pending, was = inout(reg) 0_u64 => was,
                options(nostack, preserves_flags));
        }
        compiler_fence(Ordering::SeqCst);
        was != 0
    }

    /// Waits, with events disabled, until an event is pending. Afterwards the last exit can no longer be answered;
    /// [`VirtualProcessor::enter`] resumes the code.
    pub fn wait(self) {
        compiler_fence(Ordering::SeqCst);
        // SAFETY: the page is mapped. The call has no other conditions and no errors.
        let _ = unsafe { sys::zx_vproc_wait(self.page) };
        compiler_fence(Ordering::SeqCst);
    }

    /// The instruction at which the last upcall interrupted the owner.
    pub fn interrupted(self) -> u64 {
        load!(self, interrupted)
    }

    /// The registers that the last upcall interrupted; valid while events are disabled.
    pub fn saved(self) -> *mut hafnon_vproc_state_t {
        // SAFETY: the field is in the mapped page.
        unsafe { &raw mut (*self.words).saved }
    }

    /// Sets where upcalls save the vector registers of the interrupted code.
    pub fn set_vectors(self, vectors: *mut Vectors) {
        store!(self, vectors, vectors as u64);
    }

    /// Sets the stack of upcalls, and the function that they call on it. Events must be disabled; they are disabled
    /// initially. Returns the initial stack pointer of an upcall.
    ///
    /// # Safety
    /// As long as events are enabled, no other code uses the stack, the handler may be called with the context, and
    /// [`Self::set_vectors`] has set a place for the interrupted code's registers.
    pub unsafe fn set_handler(self, stack: &mut [u128], handler: Handler, context: *mut ()) -> u64 {
        let top = stack.as_mut_ptr_range().end.expose_provenance();
        compiler_fence(Ordering::SeqCst);
        // SAFETY: the page is mapped, and the stack is the caller's.
        unsafe { sys::zx_vproc_set_upcall(self.page, top, handler as usize, context.expose_provenance()) };
        load!(self, entry_sp)
    }

    /// Abandons the calling code and resumes the state in [`Self::saved`], with the vector registers at the place of
    /// [`Self::set_vectors`]. Enables events in the same step.
    ///
    /// # Safety
    /// Events are disabled, and the abandoned code never resumes. State and vector registers are as an upcall has left
    /// them, or describe other code that can run.
    pub unsafe fn leave(self) -> ! {
        // SAFETY: the caller guarantees the same conditions.
        unsafe { sys::zx_vproc_leave(self.page) }
    }
}
