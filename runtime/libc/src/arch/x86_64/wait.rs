//! A wait that another thread can end.

use core::arch::naked_asm;

use abi::zx_thread_state_general_regs_t;

use crate::loader::{self, System};
use crate::sys::{ERR_CANCELED, Status};
use crate::thread::cancel::{NOT_NOW, PENDING, end_here};
use crate::thread::{CANCEL, WINDOW};

unsafe extern "C" {
    /// The place in [`__libc_wait`] behind its call. A cancelled thread continues there, with the stack pointer that is
    /// in its window.
    fn __libc_wait_end();
}

/// Flags that a function does not expect: the direction of string instructions, and the check of alignment.
const UNEXPECTED: u64 = 1 << 10 | 1 << 18;
/// The value of MXCSR with which programs start.
const MXCSR: u32 = 0x1f80;

/// How far a thread with a window has come.
pub enum Progress {
    /// It has not made its call, or is in it.
    Before,
    /// It is in the vDSO, shortly before or behind its call.
    Between,
    /// The call is over.
    After,
}

/// Whether there is a system call's instruction at an address in the vDSO.
fn is_call(place: usize) -> bool {
    let all = |place| loader::system_at(place) == System::Vdso;
    // SAFETY: the bytes are code of the vDSO, which can be read and stays mapped.
    all(place) && all(place.wrapping_add(1)) && unsafe { (place as *const [u8; 2]).read() } == [0x0f, 0x05]
}

/// Whether a thread is in a system call.
pub fn is_in_call(registers: &zx_thread_state_general_regs_t) -> bool {
    is_call(place(registers))
}

/// How far a suspended thread with a window has come (step 5). A thread in a call is at the call's instruction. As soon
/// as the call is over it is behind that, even if it has not run since (docs/tasks.md).
pub fn progress_of_wait(registers: &zx_thread_state_general_regs_t) -> Progress {
    let place = place(registers);
    let (start, end) = (__libc_wait as *const () as usize, __libc_wait_end as *const () as usize);
    if (start..end).contains(&place) || is_in_call(registers) {
        Progress::Before
    } else if loader::system_at(place) != System::Vdso || is_call(place.wrapping_sub(2)) {
        Progress::After
    } else {
        Progress::Between
    }
}

/// Lets a thread that waits in [`__libc_wait`] continue at its end, with `ZX_ERR_CANCELED` (step 5). `window`: the
/// stack pointer in its window.
pub fn end_wait(registers: &mut zx_thread_state_general_regs_t, window: usize) {
    registers.rsp = window as u64;
    registers.rip = __libc_wait_end as *const () as u64;
    registers.rax = ERR_CANCELED as u64;
}

/// Lets a thread end where it is, below the red zone (step 7).
pub fn call_instead(registers: &mut zx_thread_state_general_regs_t) {
    registers.rsp = registers.rsp.wrapping_sub(128);
    registers.rip = end as *const () as u64;
    registers.rflags &= !UNEXPECTED;
}

/// Gives the processor the state that a function expects, and ends the thread. Unwinders stop here.
#[unsafe(naked)]
unsafe extern "C" fn end() -> ! {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined rip",
        "xor ebp, ebp",
        "and rsp, -16",
        "fninit",
        "push {mxcsr}",
        "ldmxcsr [rsp]",
        "and rsp, -16",
        "call {end_here}",
        "ud2",
        ".cfi_endproc",
        mxcsr = const MXCSR,
        end_here = sym end_here,
    )
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
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset rbp, 0",
        "push rbx",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset rbx, 0",
        "push r12",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset r12, 0",
        "push r13",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset r13, 0",
        "push r14",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset r14, 0",
        "push r15",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset r15, 0",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 8",
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
        // Step 6; a cancelled thread comes from step 3 or 5.
        "mov qword ptr fs:[{window}], 0",
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -8",
        "pop r15",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_restore r15",
        "pop r14",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_restore r14",
        "pop r13",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_restore r13",
        "pop r12",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_restore r12",
        "pop rbx",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_restore rbx",
        "pop rbp",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_restore rbp",
        "ret",
        ".cfi_endproc",
        window = const WINDOW,
        cancel = const CANCEL,
        bits = const PENDING | NOT_NOW,
        pending = const PENDING,
        canceled = const ERR_CANCELED,
    )
}
