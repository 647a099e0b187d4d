//! Code that the attackers share: dice, the neighbours that check the consequences, and a thread whose every kernel
//! entry is chosen.
//!
//! An attacking program's own results prove nothing: the damage would show in other programs. So a [`neighbour`] runs
//! beside each attacker, does ordinary work, and checks each of its own answers.
#![forbid(unsafe_code)]

#[cfg(target_os = "fuchsia")]
pub mod attack;
#[cfg(target_os = "fuchsia")]
pub mod hand;
#[cfg(target_os = "fuchsia")]
pub mod neighbour;
#[cfg(target_os = "fuchsia")]
pub mod served;
#[cfg(target_os = "fuchsia")]
pub mod usage;

/// Pseudo-random numbers (xorshift64*), the same for the same seed.
#[derive(Clone)]
pub struct Dice(u64);

impl Dice {
    /// Dice with this seed.
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Any number below 2^56.
    pub fn word(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 8
    }

    /// A number below `n`. `n` must not be 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.word() % n
    }

    /// True once in `n` times on average.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// A random element of `from`, which must not be empty.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::Dice;

    #[test]
    fn dice_fall_alike_for_one_seed_only() {
        let throw = |seed| {
            let mut dice = Dice::new(seed);
            [(); 8].map(|()| dice.below(6))
        };
        assert_eq!(throw(3), throw(3));
        assert_ne!(throw(3), throw(4));
    }
}
