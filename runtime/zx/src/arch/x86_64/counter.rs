//! The processor's counter.

/// The processor's time-stamp counter. The compiler moves no code across this read.
#[inline(always)]
pub fn counter() -> u64 {
    let (low, high): (u64, u64);
    // SAFETY: reads a counter into two registers.
    unsafe { core::arch::asm!("rdtsc", out("rax") low, out("rdx") high, options(nostack)) };
    high << 32 | low
}
