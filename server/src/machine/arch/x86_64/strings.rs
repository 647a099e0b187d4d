//! The processor's string instructions.

use core::arch::asm;

/// Copies bytes: 4 or 8 bytes by one move, other lengths by the processor's string instructions.
///
/// # Safety
/// As for [`ptr::copy_nonoverlapping`].
#[inline(always)]
pub unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: it copies exactly the caller's bytes: `len / 8` words and `len % 8` bytes. The direction flag is clear,
    // as the calling convention requires.
    unsafe {
        match len {
            4 => to.cast::<u32>().write_unaligned(from.cast::<u32>().read_unaligned()),
            8 => to.cast::<u64>().write_unaligned(from.cast::<u64>().read_unaligned()),
            _ => asm!(
                "rep movsq",
                "mov ecx, {rest:e}",
                "rep movsb",
                rest = in(reg) len % 8,
                inout("rcx") len / 8 => _,
                inout("rsi") from => _,
                inout("rdi") to => _,
                options(nostack, preserves_flags),
            ),
        }
    }
}

/// Zeroes a page of the window.
pub fn zero_page(address: u64) {
    // SAFETY: the page belongs to the caller, which got it from the allocator, and is mapped for writing.
    unsafe {
        asm!(
            "rep stosq",
            inout("rcx") 512u64 => _,
            inout("rdi") address => _,
            in("rax") 0u64,
            options(nostack, preserves_flags)
        );
    }
}
