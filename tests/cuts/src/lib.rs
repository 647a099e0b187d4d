//! The power goes, and what was synced stays: what shows that, whatever file system there is.
//!
//! Operations are drawn by [lot](plan) and carried out; what gets to the disk meanwhile is [logged](log), with a mark behind each sync
//! that was answered. From the log come all the states that a cut can [leave](replay): after each write, with a write torn, with any
//! of what was not flushed, and with a second cut while the first is mended. Each is read, and a [judge] says whether it may be.
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

/// A generator of numbers that are the same in each run.
#[derive(Clone, Debug)]
pub struct Lot(u64);

impl Lot {
    /// All numbers follow from the seed.
    pub fn new(seed: u64) -> Lot {
        let mut lot = Lot(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        // The first numbers of small seeds are like each other.
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

    /// A number below `most`, which is not 0.
    pub fn below(&mut self, most: usize) -> usize {
        ((self.next() >> 16) % most as u64) as usize
    }
}
