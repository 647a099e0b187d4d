//! Unpredictable random bytes.
//!
//! A ChaCha20 stream. Its key comes from the processor's random number generator, if it has one, and from the jitter of
//! its time-stamp counter. New entropy is mixed into the key. Output cannot be recovered from the state: bytes come
//! from a buffer in which they are erased, and the stream replaces the key whenever the buffer is refilled.

use core::arch::x86_64::{__cpuid, __cpuid_count};

use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

use super::Sel4;
use super::clock::tsc;

/// See the module's description.
pub struct Random {
    stream: ChaCha20Rng,
    /// Bytes of the stream that have not been used yet: the first `left`.
    stock: [u8; STOCK],
    left: usize,
}

/// Together with the next key, as much as the cipher makes at a time.
const STOCK: usize = 256 - 32;

impl Random {
    /// A generator seeded from the hardware.
    pub fn new() -> Self {
        let mut random = Random { stream: ChaCha20Rng::from_seed([0; 32]), stock: [0; STOCK], left: 0 };
        let (rdrand, rdseed) = available();
        for _ in 0..16 {
            let mut word = jitter();
            if rdseed {
                word ^= hardware(rdseed_step).unwrap_or(0);
            }
            if rdrand {
                word = word.rotate_left(31) ^ hardware(rdrand_step).unwrap_or(0);
            }
            random.add(&word.to_le_bytes());
        }
        random
    }

    /// Fills `out`.
    pub fn fill(&mut self, out: &mut [u8]) {
        for part in out.chunks_mut(STOCK) {
            if part.len() > self.left {
                self.stream.fill_bytes(&mut self.stock);
                self.rekey([0; 32]);
                self.left = STOCK;
            }
            let from = self.left - part.len();
            let stock = &mut self.stock[from..self.left];
            part.copy_from_slice(stock);
            stock.fill(0);
            self.left = from;
        }
    }

    /// Mixes `data` into the key. Drops the buffer, which does not depend on it.
    pub fn add(&mut self, data: &[u8]) {
        (self.stock, self.left) = ([0; STOCK], 0);
        let mut block = [0; 32];
        block[..8].copy_from_slice(&tsc().to_le_bytes());
        self.rekey(block);
        for part in data.chunks(32) {
            let mut block = [0; 32];
            block[..part.len()].copy_from_slice(part);
            self.rekey(block);
        }
    }

    /// Sets the next key: the stream's next bytes, XORed with `with`.
    fn rekey(&mut self, with: [u8; 32]) {
        let mut key = [0; 32];
        self.stream.fill_bytes(&mut key);
        for (byte, other) in key.iter_mut().zip(with) {
            *byte ^= other;
        }
        self.stream = ChaCha20Rng::from_seed(key);
    }
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
fn jitter() -> u64 {
    let mut word = 0u64;
    for _ in 0..32 {
        let before = tsc();
        let _ = __cpuid(0);
        word = word.rotate_left(2) ^ tsc().wrapping_sub(before) ^ before;
    }
    word
}

impl objects::machine::Random for Sel4 {
    fn random(&mut self, out: &mut [u8]) {
        self.random.fill(out);
    }

    fn add_entropy(&mut self, data: &[u8]) {
        self.random.add(data);
    }
}
