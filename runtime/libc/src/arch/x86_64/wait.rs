//! A wait that another thread can end.

use core::arch::naked_asm;

use abi::zx_thread_state_general_regs_t;

use crate::sys::{ERR_CANCELED, Status};
use crate::thread::cancel::{BUSY, DISABLED, PENDING};
use crate::thread::{CANCEL, WINDOW};

unsafe extern "C" {
    /// The place in [`__libc_wait`] where a cancelled thread continues, with the stack pointer that is in its window.
    fn __libc_wait_end();
}

/// Lets a thread that waits in [`__libc_wait`] continue at its end, with `ZX_ERR_CANCELED`. `window`: the stack pointer
/// in its window.
pub fn end_wait(registers: &mut zx_thread_state_general_regs_t, window: usize) {
    registers.rsp = window as u64;
    registers.rip = __libc_wait_end as *const () as u64;
    registers.rax = ERR_CANCELED as u64;
}

/// Lets a thread continue in a function that does not return, as if it had been called, below the red zone.
pub fn call_instead(registers: &mut zx_thread_state_general_regs_t, function: extern "C" fn() -> !) {
    registers.rsp = (registers.rsp.wrapping_sub(128) & !15).wrapping_sub(8);
    registers.rip = function as *const () as u64;
}

/// Where a thread is in its code.
pub fn place(registers: &zx_thread_state_general_regs_t) -> usize {
    registers.rip as usize
}

/// Makes the system call `call`, which waits and has no other effect, with four arguments. Returns its status, or
/// `ZX_ERR_CANCELED` if the thread is to be cancelled. The steps are those of `thread/cancel.rs`.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn __libc_wait(call: usize, a: usize, b: usize, c: usize, d: usize) -> Status {
    naked_asm!(
        ".cfi_startproc",
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "sub rsp, 8",
        ".cfi_def_cfa_offset 64",
        ".cfi_offset rbp, -16",
        ".cfi_offset rbx, -24",
        ".cfi_offset r12, -32",
        ".cfi_offset r13, -40",
        ".cfi_offset r14, -48",
        ".cfi_offset r15, -56",
        // Step 2.
        "mov fs:[{window}], rsp",
        // Step 3.
        "mov r9d, fs:[{cancel}]",
        "and r9d, {bits}",
        "cmp r9d, {pending}",
        "mov eax, {canceled}",
        "je __libc_wait_end",
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov rcx, r8",
        "call rax",
        ".hidden __libc_wait_end",
        ".globl __libc_wait_end",
        "__libc_wait_end:",
        // Step 6.
        "mov qword ptr fs:[{window}], 0",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        ".cfi_def_cfa_offset 8",
        "ret",
        ".cfi_endproc",
        window = const WINDOW,
        cancel = const CANCEL,
        bits = const PENDING | DISABLED | BUSY,
        pending = const PENDING,
        canceled = const ERR_CANCELED,
    )
}
