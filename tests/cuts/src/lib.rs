//! Shows that synced content survives a power cut, for any file system.
//!
//! A test carries out [random](plan) operations and [logs](log) the writes that reach the disk, with a mark after each
//! answered sync. From the log it derives all states that a cut can [leave](replay): after each write, with a torn
//! write, with any subset of the writes that were not flushed, and with a second cut while the system repairs the
//! first. It reads each state, and a [judge] decides whether that state is allowed.
//!
//! The program `churn` carries the operations out in the system; the tests of the package `files` do it in memory.
#![forbid(unsafe_code)]

pub mod fat;
pub mod image;
pub mod judge;
pub mod log;
pub mod plan;
pub mod replay;
pub mod saves;

/// A generator of pseudo-random numbers that are the same in each run.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator whose numbers all follow from the seed.
    pub fn new(seed: u64) -> Random {
        let mut lot = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        // The first numbers of small seeds are similar.
        for _ in 0..8 {
            lot.next();
        }
        lot
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `most`. `most` must not be 0.
    pub fn below(&mut self, most: usize) -> usize {
        ((self.next() >> 16) % most as u64) as usize
    }
}
