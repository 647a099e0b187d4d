//! Functions of TLS descriptors, which have a calling convention of their own.

use core::arch::naked_asm;

/// Function of a TLS descriptor: returns the offset from the thread pointer, its argument, in `rax`, and preserves all
/// other registers.
#[unsafe(naked)]
pub extern "C" fn descriptor_offset() {
    naked_asm!("mov rax, [rax + 8]", "ret")
}

/// Function of a TLS descriptor for an undefined weak variable: returns an offset that makes the address 0.
#[unsafe(naked)]
pub extern "C" fn descriptor_undefined() {
    naked_asm!("xor eax, eax", "sub rax, fs:0", "ret")
}
