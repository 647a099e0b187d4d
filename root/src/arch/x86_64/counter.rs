//! The time-stamp counter.

/// The processor's time-stamp counter.
pub fn tsc() -> u64 {
    // SAFETY: the instruction only reads a counter, and the kernel allows it in user mode.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// The time-stamp counter. The compiler moves no code across it.
#[cfg(feature = "measure")]
#[inline(always)]
pub fn tsc_in_order() -> u64 {
    let (low, high): (u64, u64);
    // SAFETY: reads a counter into two registers.
    unsafe { core::arch::asm!("rdtsc", out("rax") low, out("rdx") high, options(nostack)) };
    high << 32 | low
}

/// A loop of two instructions.
#[cfg(feature = "measure")]
pub fn count_down(turns: u64) {
    // SAFETY: changes only its register and the flags.
    unsafe { core::arch::asm!("2: dec {0}", "jnz 2b", inout(reg) turns => _, options(nomem, nostack)) };
}
