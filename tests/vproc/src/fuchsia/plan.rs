//! The length of random cases, and the seed from which all their random numbers follow.

use abi::{ZX_PRIORITY_HIGHEST, ZX_PROFILE_INFO_FLAG_PRIORITY, zx_profile_info_t};
use conformance::check::{Failure, Outcome};
use zx::{MonotonicInstant, Profile};

/// The file in the image with the number of steps and the seed.
const FILE: &str = "/boot/config/random";

/// The plan of a run.
#[derive(Clone, Copy)]
pub struct Plan {
    /// The number of stops that the owner of one case answers, and of numbers that the threads of the other case pass
    /// on.
    pub steps: u64,
    seed: u64,
}

impl Plan {
    fn read() -> Result<Self, Failure> {
        let text = std::fs::read_to_string(FILE)?;
        let mut words = text.split_whitespace().map(str::parse);
        match (words.next(), words.next()) {
            (Some(Ok(steps)), Some(Ok(seed))) => Ok(Self { steps, seed }),
            _ => Err(format!("{FILE}: {text:?}").into()),
        }
    }

    /// Random numbers that are always the same for the same purpose and seed.
    pub fn dice(self, purpose: u64) -> Dice {
        // Neighbouring seeds give unrelated numbers.
        let mut mixed = self.seed.wrapping_add(purpose << 32).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        Dice((mixed ^ mixed >> 27).max(1))
    }
}

/// A case that runs with this plan.
pub fn planned(case: fn(Plan) -> Outcome) -> impl Fn() -> Outcome {
    move || case(Plan::read()?)
}

/// Pseudo-random numbers.
pub struct Dice(u64);

impl Dice {
    /// A number below `sides`.
    pub fn roll(&mut self, sides: u64) -> u64 {
        (self.word() >> 11) % sides
    }

    /// True once in `times` times on average.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.roll(times) == 0
    }

    /// One of these.
    pub fn choose<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.roll(from.len() as u64) as usize]
    }

    /// Any word.
    pub fn word(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Gives this thread a higher priority than all others, so that it wakes in the middle of their work.
pub fn comes_first() -> zx::Result<()> {
    let resource = zx::startup::resource().ok_or(zx::Status::NOT_FOUND)?;
    let parameters = [ZX_PRIORITY_HIGHEST as u64, 0, 0];
    let info = zx_profile_info_t { flags: ZX_PROFILE_INFO_FLAG_PRIORITY, parameters, ..Default::default() };
    zx::startup::thread_self().set_profile(&Profile::create(&resource, 0, &info)?, 0)
}

/// Sleeps for fewer than `most` nanoseconds.
pub fn sleep(dice: &mut Dice, most: u64) -> zx::Result<()> {
    zx::nanosleep(MonotonicInstant::after(zx::Duration::from_nanos(dice.roll(most) as i64)))
}
