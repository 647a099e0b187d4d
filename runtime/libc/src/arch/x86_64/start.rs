//! Entry points.

use core::arch::naked_asm;

use crate::start::{Program, link, relocate_self, run};
use crate::thread::run as run_thread;

/// The entry point of the image: loads the program, then jumps to the program's entry point with the registers and the
/// stack that this entry point started with.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn _dl_start() -> ! {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined rip",
        "xor ebp, ebp",
        "mov rbx, rdi",
        "mov r12, rsi",
        "mov r13, rsp",
        "and rsp, -16",
        "lea rdx, [rip + __ehdr_start]",
        "lea rcx, [rip + _DYNAMIC]",
        "call {relocate}",
        "mov rdi, rbx",
        "mov rsi, r12",
        "lea rdx, [rip + __ehdr_start]",
        "call {link}",
        "mov rdi, rbx",
        "mov rsi, r12",
        "mov rsp, r13",
        "jmp rax",
        ".cfi_endproc",
        relocate = sym relocate_self,
        link = sym link,
    )
}

/// Calls [`run`] on another stack. It is the outermost frame there: unwinders stop here.
#[unsafe(naked)]
pub unsafe extern "C" fn run_on(program: *mut Program, stack: usize) -> ! {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined rip",
        "mov rsp, rsi",
        "xor ebp, ebp",
        "call {run}",
        "ud2",
        ".cfi_endproc",
        run = sym run,
    )
}

/// The first instructions of a thread: `rdi` = its structure. Marks the end of the stack for unwinders.
#[unsafe(naked)]
pub extern "C" fn entry() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined rip",
        "xor ebp, ebp",
        "and rsp, -16",
        "call {run}",
        "ud2",
        ".cfi_endproc",
        run = sym run_thread,
    )
}
