//! Entering restricted mode.

use core::arch::naked_asm;

use crate::sys;

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
