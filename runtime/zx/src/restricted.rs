//! Restricted mode: other code in this thread, with registers of its own (`docs/virtual-processors.md`).

#[cfg(feature = "probe")]
use core::arch::asm;
use core::arch::naked_asm;
use core::marker::PhantomData;
use core::{mem, ptr};

use abi::{
    Status, ZX_RESTRICTED_REASON_EXCEPTION, ZX_RESTRICTED_REASON_KICK, ZX_RESTRICTED_REASON_SYSCALL, ZX_VM_PERM_READ,
    ZX_VM_PERM_WRITE, zx_exception_report_t, zx_restricted_exception_t, zx_restricted_state_t,
};

use crate::{AsHandleRef, Handle, Result, Thread, Vmar, Vmo, check, sys};

/// Why a thread is back from restricted mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// The code made a system call: `ip` is behind it, `rcx` and `r11` are 0.
    Syscall,
    /// It did something that it must not: [`Restricted::exception`] tells what.
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

/// x87 and SSE registers, as FXSAVE writes them.
#[cfg(feature = "probe")]
#[repr(C, align(16))]
pub struct FxRegisters(pub [u8; 512]);

/// The state that a thread has bound, mapped in its process; it is unbound when this goes.
pub struct Restricted<'v> {
    vmo: Vmo,
    vmar: &'v Vmar,
    page: *mut zx_restricted_exception_t,
    of_one_thread: PhantomData<*const ()>,
}

const PAGE: usize = 4096;

impl<'v> Restricted<'v> {
    /// Binds state to the calling thread, in place of what it has bound.
    ///
    /// # Errors
    /// `NOT_SUPPORTED`: the kernel beneath cannot. `ALREADY_BOUND`: the thread has a virtual processor. `NO_RESOURCES`, `NO_MEMORY`.
    pub fn bind(vmar: &'v Vmar) -> Result<Self> {
        let mut out = 0;
        // SAFETY: `out` is one handle's place.
        check(unsafe { sys::zx_restricted_bind_state(0, &mut out, ptr::null_mut()) })?;
        let vmo = Vmo::from(Handle::from_call(out)?);
        let address = vmar.map(ZX_VM_PERM_READ | ZX_VM_PERM_WRITE, 0, &vmo, 0, PAGE)?;
        Ok(Self { vmo, vmar, page: ptr::with_exposed_provenance_mut(address), of_one_thread: PhantomData })
    }

    /// The VMO.
    pub fn vmo(&self) -> &Vmo {
        &self.vmo
    }

    /// The registers.
    pub fn state(&mut self) -> &mut zx_restricted_state_t {
        // SAFETY: it is mapped as long as this lives, and the system writes there only when this is borrowed to change.
        unsafe { &mut (*self.page).state }
    }

    /// What happened, after [`Reason::Exception`].
    pub fn exception(&self) -> zx_exception_report_t {
        // SAFETY: as above.
        unsafe { (*self.page).exception }
    }

    /// Runs the code from its state on. It runs in this process, so it is as trusted as whoever gave the state.
    ///
    /// # Errors
    /// `BAD_STATE`: the state cannot be, or this thread has bound another, or none.
    pub fn enter(&mut self) -> Result<Reason> {
        let mut reason = u64::MAX;
        // SAFETY: what the code does to this process's memory is told above. The wrapper comes back like any function, whatever the code
        // has in its registers.
        check(unsafe { enter(0, &mut reason) })?;
        Reason::of(reason)
    }

    /// The same with these x87 and SSE registers, which are then those that the code has left.
    ///
    /// # Errors
    /// As [`Self::enter`].
    #[cfg(feature = "probe")]
    pub fn enter_with(&mut self, registers: &mut FxRegisters) -> Result<Reason> {
        let (mut reason, mut own) = (u64::MAX, FxRegisters([0; 512]));
        let status: i32;
        // SAFETY: as above. Both areas are as FXSAVE wants them; what is loaded last is what was there.
        unsafe {
            asm!(
                "fxsave [r13]",
                "fxrstor [r12]",
                "call {enter}",
                "fxsave [r12]",
                "fxrstor [r13]",
                enter = sym enter,
                in("r12") &raw mut registers.0,
                in("r13") &raw mut own.0,
                inout("edi") 0 => _,
                inout("rsi") &raw mut reason => _,
                lateout("eax") status,
                clobber_abi("C"),
            );
        }
        check(status)?;
        Reason::of(reason)
    }

    /// Keeps it bound when this goes, until the thread ends or unbinds it.
    pub fn keep(self) {
        mem::forget(self);
    }
}

impl Drop for Restricted<'_> {
    fn drop(&mut self) {
        let _ = unbind_restricted_state();
        // It may have been unmapped by whoever has a handle to the region, too.
        let _ = self.vmar.unmap(self.page.addr(), PAGE);
    }
}

/// The calling thread has no state bound from now on.
///
/// # Errors
/// None that a caller can cause.
pub fn unbind_restricted_state() -> Result<()> {
    // SAFETY: no memory involved.
    check(unsafe { sys::zx_restricted_unbind_state(0) })
}

impl Thread {
    /// Has the thread come back from restricted mode, now or as soon as it enters.
    ///
    /// # Errors
    /// `BAD_STATE`: it ends or has ended. `ACCESS_DENIED`.
    pub fn restricted_kick(&self) -> Result<()> {
        // SAFETY: no memory involved.
        check(unsafe { sys::zx_restricted_kick(self.raw_handle(), 0) })
    }
}

/// `zx_restricted_enter` as a function that returns: it goes on below with its stack pointer, which is the context. How this process
/// calculates (the control words of x87 and SSE) is what the code must not change for it.
#[unsafe(naked)]
unsafe extern "C" fn enter(options: u32, reason: *mut u64) -> sys::zx_status_t {
    naked_asm!(
        "push rbx",
        "push rbp",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "push rsi",
        "sub rsp, 8",
        "stmxcsr [rsp]",
        "fnstcw [rsp + 4]",
        "lea rsi, [rip + 2f]",
        "mov rdx, rsp",
        "call {enter}",
        "add rsp, 16",
        "jmp 3f",
        "2:",
        "mov rsp, rdi",
        "ldmxcsr [rsp]",
        "fldcw [rsp + 4]",
        "add rsp, 8",
        "pop rdi",
        "mov [rdi], rsi",
        "xor eax, eax",
        "3:",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbp",
        "pop rbx",
        "ret",
        enter = sym sys::zx_restricted_enter,
    )
}
