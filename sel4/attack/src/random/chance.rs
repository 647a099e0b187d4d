//! Pseudo-random numbers from a seed, most of them near limits.

use crate::world::{FIELD, PAGE};

/// The state of the generator (SplitMix64).
#[derive(Clone, Copy)]
pub struct Chance(pub u64);

impl Chance {
    /// Any number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below this one.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// True once in so many times on average.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of these.
    pub fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    /// The address of a page in the field, where threads write.
    pub fn page(&mut self) -> u64 {
        FIELD + self.below(16) * PAGE
    }

    /// An address: mostly a page of the field; sometimes one with a flipped bit, one near a limit, or an invalid one.
    pub fn address(&mut self) -> u64 {
        match self.below(8) {
            0..5 => self.page(),
            5 => self.page() ^ 1 << self.below(64),
            6 => self.edge(),
            _ => self.of(&[
                0,
                1 << 30,
                1 << 39,
                1 << 47,
                (1 << 47) - PAGE,
                !0 << 47,
                !0 << 39,
                !0 << 31,
                PAGE.wrapping_neg(),
            ]),
        }
    }

    /// A number near a limit.
    pub fn edge(&mut self) -> u64 {
        let near = self.below(5).wrapping_sub(2);
        match self.below(6) {
            0 => self.below(4),
            1 => self.below(300),
            2 => (1_u64 << self.below(64)).wrapping_add(near),
            3 => (!0_u64 << self.below(64)).wrapping_add(near),
            4 => 0xffff_ffff_8000_0000 | self.below(1 << 24),
            _ => self.next(),
        }
    }
}
