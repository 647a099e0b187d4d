//! The processor's counter.

/// The processor's time-stamp counter.
#[inline(always)]
pub fn counter() -> u64 {
    // SAFETY: the instruction only reads a counter, and the kernel allows it in user mode.
    unsafe { core::arch::x86_64::_rdtsc() }
}
