//! Entropy from the processor.

use core::arch::x86_64::{__cpuid, __cpuid_count};

use super::counter;

/// A number from each of the processor's generators, RDSEED and RDRAND, if it has them and they are not exhausted.
pub fn generators() -> [Option<u64>; 2] {
    let (rdrand, rdseed) = available();
    [rdseed.then(|| hardware(rdseed_step)).flatten(), rdrand.then(|| hardware(rdrand_step)).flatten()]
}

/// Whether the processor has RDRAND and RDSEED.
fn available() -> (bool, bool) {
    let leaves = __cpuid(0).eax;
    let rdrand = __cpuid(1).ecx >> 30 & 1 != 0;
    let rdseed = leaves >= 7 && __cpuid_count(7, 0).ebx >> 18 & 1 != 0;
    (rdrand, rdseed)
}

fn rdrand_step() -> (u64, bool) {
    let (word, ok): (u64, u8);
    // SAFETY: only called when the processor has the instruction; it changes only the two registers.
    unsafe { core::arch::asm!("rdrand {}", "setc {}", out(reg) word, out(reg_byte) ok, options(nomem, nostack)) };
    (word, ok != 0)
}

fn rdseed_step() -> (u64, bool) {
    let (word, ok): (u64, u8);
    // SAFETY: as for `rdrand_step`.
    unsafe { core::arch::asm!("rdseed {}", "setc {}", out(reg) word, out(reg_byte) ok, options(nomem, nostack)) };
    (word, ok != 0)
}

/// The generators may be exhausted for a moment; the processor's manufacturer recommends some retries.
fn hardware(step: fn() -> (u64, bool)) -> Option<u64> {
    (0..10).map(|_| step()).find(|(_, ok)| *ok).map(|(word, _)| word)
}

/// The low bits of the time-stamp counter around instructions of varying duration.
pub fn jitter() -> u64 {
    let mut word = 0u64;
    for _ in 0..32 {
        let before = counter();
        let _ = __cpuid(0);
        word = word.rotate_left(2) ^ counter().wrapping_sub(before) ^ before;
    }
    word
}
