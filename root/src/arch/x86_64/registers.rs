//! General registers, as the kernel reads and writes them.

use sel4::{NO_BASES, UserContext};

use crate::console::error;

/// The registers of a thread that starts at `entry`, in a function that gets one argument.
pub fn at_start(entry: u64, stack: u64, argument: u64) -> UserContext {
    UserContext { rip: entry, rsp: stack, rdi: argument, ..UserContext::default() }
}

/// The same registers for a thread without thread-local data. With segment bases, the kernel would set them twice at
/// each call.
pub fn without_bases(registers: UserContext) -> UserContext {
    UserContext { fs_base: NO_BASES, ..registers }
}

/// The instruction pointer.
pub fn ip(registers: &UserContext) -> u64 {
    registers.rip
}

/// The same registers with another instruction pointer.
pub fn with_ip(registers: UserContext, ip: u64) -> UserContext {
    UserContext { rip: ip, ..registers }
}

/// The register with the address of the newest stack frame.
pub fn frame_pointer(registers: &UserContext) -> u64 {
    registers.rbp
}

/// Writes the registers to the console.
pub fn report(r: &UserContext) {
    error!("  rip {:016x}  rsp {:016x}  rbp {:016x}  flags {:x}", r.rip, r.rsp, r.rbp, r.rflags);
    error!("  rax {:016x}  rbx {:016x}  rcx {:016x}  rdx {:016x}", r.rax, r.rbx, r.rcx, r.rdx);
    error!("  rsi {:016x}  rdi {:016x}  r8  {:016x}  r9  {:016x}", r.rsi, r.rdi, r.r8, r.r9);
    error!("  r10 {:016x}  r11 {:016x}  r12 {:016x}  r13 {:016x}", r.r10, r.r11, r.r12, r.r13);
    error!("  r14 {:016x}  r15 {:016x}", r.r14, r.r15);
}
