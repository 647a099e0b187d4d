//! The entry point, and the end.

use core::arch::{asm, naked_asm};

use crate::machine::run::start;

/// The root task starts the server's thread here, with the boot pages' address in rdi and the stack set up.
// SAFETY: the linker takes this name as the entry point, and no other symbol has it.
#[unsafe(no_mangle)]
#[unsafe(naked)]
extern "C" fn _start() -> ! {
    naked_asm!("xor ebp, ebp", "call {start}", "ud2", start = sym start)
}

/// Faults, so that the root task reports this server's death.
pub fn crash() -> ! {
    // SAFETY: the instruction is undefined on purpose; nothing after it runs.
    unsafe { asm!("ud2", options(noreturn, nostack)) }
}
