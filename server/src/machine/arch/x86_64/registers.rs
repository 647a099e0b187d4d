//! Registers in the kernel's format, and the bases of segments that the server owns.

use objects::arch::{DebugRegisters, Registers, UserRegisters};
use objects::general_registers;
use sel4::{Message, UserContext};

/// From the kernel's format.
pub fn from_context(c: UserContext) -> Registers {
    general_registers!(c => Registers { rip: c.rip, rflags: c.rflags })
}

/// In the kernel's format.
pub fn user_context(registers: &UserRegisters) -> UserContext {
    let r = registers.get();
    general_registers!(r => UserContext { rip: r.rip, rflags: r.rflags })
}

/// Registers of a program's thread, with the GS base at its IPC buffer, where calls expect it. Some kernels set the GS
/// base themselves; for those it is 0.
pub fn of_program(registers: &Registers, buffer: u64) -> UserRegisters {
    let gs_base = if sel4::KERNEL_KEEPS_GS { 0 } else { buffer };
    UserRegisters::new(Registers { gs_base, ..*registers })
}

/// Registers of a program's thread as the program knows them.
pub fn seen_by_program(registers: Registers) -> Registers {
    Registers { gs_base: if sel4::KERNEL_KEEPS_GS { registers.gs_base } else { 0 }, ..registers }
}

/// Puts an answer of one word where the kernel puts it.
pub fn answered(registers: &mut Registers, answer: &Message) {
    registers.rsi = answer.info.word();
    registers.r10 = answer.mr[0];
}

/// The base that some kernels do not report.
pub fn hidden_base(registers: &UserRegisters) -> u64 {
    registers.get().gs_base
}

/// Registers that the kernel reported, with the base that it may not have reported.
pub fn with_hidden_base(registers: Registers, base: u64) -> Registers {
    if sel4::KERNEL_KEEPS_GS { Registers { gs_base: base, ..registers } } else { registers }
}

/// Debug registers from the kernel's words.
pub fn debug_from_words([a, b, c, d, status, control]: [u64; 6]) -> DebugRegisters {
    DebugRegisters { addresses: [a, b, c, d], status, control }
}

/// The kernel's words for debug registers.
pub fn debug_words(registers: &DebugRegisters) -> [u64; 6] {
    let [a, b, c, d] = registers.addresses;
    [a, b, c, d, registers.status, registers.control]
}
