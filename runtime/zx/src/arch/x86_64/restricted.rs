//! Entering restricted mode.

#[cfg(feature = "probe")]
use core::arch::asm;
use core::arch::naked_asm;

use crate::sys;

/// x87 and SSE registers, as FXSAVE writes them.
#[cfg(feature = "probe")]
#[repr(C, align(16))]
pub struct FxRegisters(pub [u8; 512]);

/// Wraps `zx_restricted_enter` in a function that returns. The context is this function's stack pointer, with which the
/// thread continues at label 2. The control words of x87 and SSE are saved, because the code may change them.
#[unsafe(naked)]
pub unsafe extern "C" fn enter(options: u32, reason: *mut u64) -> sys::zx_status_t {
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

/// [`enter`] with these x87 and SSE registers. Afterwards they hold the values that the code has left.
///
/// # Safety
/// As for [`enter`].
#[cfg(feature = "probe")]
pub unsafe fn enter_with(reason: &mut u64, registers: &mut FxRegisters) -> sys::zx_status_t {
    let mut own = FxRegisters([0; 512]);
    let status: i32;
    // SAFETY: the caller's, as for `enter`. Both areas have the size and alignment that FXSAVE requires; the last FXRSTOR
    // restores the registers that this function saved first.
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
            inout("rsi") &raw mut *reason => _,
            lateout("eax") status,
            clobber_abi("C"),
        );
    }
    status
}
