//! Copies of memory that other programs can access meanwhile.

use core::arch::asm;

/// Bytes that [`copy_blocks`] copies at a time.
pub const BLOCK: usize = 64;

/// Copies blocks of [`BLOCK`] bytes.
///
/// It is assembly because other programs can access the pages on either side meanwhile: the compiler must not read a byte
/// twice, and makes ten times as many instructions of volatile accesses to bytes.
///
/// # Safety
/// Both sides are valid for `blocks * BLOCK` bytes, and do not overlap.
pub unsafe fn copy_blocks(to: *mut u8, from: *const u8, blocks: usize) {
    if blocks == 0 {
        return;
    }
    // SAFETY: as the caller says; only these registers and these bytes change. The direction is upwards, as the ABI says.
    unsafe {
        asm!(
            "rep movsq",
            inout("rcx") blocks * (BLOCK / 8) => _,
            inout("rdi") to => _,
            inout("rsi") from => _,
            options(nostack, preserves_flags),
        );
    }
}
