//! Step 1 of [`crate::client::copy`]: the code that copies, between two addresses that the root task knows.

use core::arch::naked_asm;

unsafe extern "C" {
    /// The first instruction that may fault.
    pub safe static CATCH_FROM: u8;
    /// The first instruction behind those.
    pub safe static CATCH_TO: u8;
}

/// Copies `len` bytes, eight at a time as long as possible; returns how many are left.
///
/// # Safety
/// The address outside of the window is valid for the access.
#[unsafe(naked)]
pub unsafe extern "C" fn copy(to: u64, from: u64, len: usize) -> usize {
    naked_asm!(
        "lea rax, [rdi + rdx]",
        "mov rcx, rdx",
        "shr rcx, 3",
        "and edx, 7",
        ".globl CATCH_FROM",
        "CATCH_FROM:",
        "rep movsq",
        "mov ecx, edx",
        "rep movsb",
        ".globl CATCH_TO",
        "CATCH_TO:",
        "sub rax, rdi",
        "ret",
    )
}
