//! Unpredictable random bytes.
//!
//! A ChaCha20 stream. Its key comes from the processor's random number generator, if it has one, and from the jitter of
//! its time-stamp counter. New entropy is mixed into the key. Output cannot be recovered from the state: bytes come
//! from a buffer in which they are erased, and the stream replaces the key whenever the buffer is refilled.

use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

use super::Sel4;
use super::arch::{counter, generators, jitter};

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
        for _ in 0..16 {
            let mut word = jitter();
            for number in generators().into_iter().flatten() {
                word = word.rotate_left(31) ^ number;
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
        block[..8].copy_from_slice(&counter().to_le_bytes());
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

impl objects::machine::Random for Sel4 {
    fn random(&mut self, out: &mut [u8]) {
        self.random.fill(out);
    }

    fn add_entropy(&mut self, data: &[u8]) {
        self.random.add(data);
    }
}
