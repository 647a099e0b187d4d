//! How long random cases are, and what all that is random in them follows from.

use abi::{ZX_PRIORITY_HIGHEST, ZX_PROFILE_INFO_FLAG_PRIORITY, zx_profile_info_t};
use conformance::check::{Failure, Outcome};
use zx::{MonotonicInstant, Profile};

/// Steps and seed, in the image.
const FILE: &str = "/boot/config/random";

/// What a run is to do.
#[derive(Clone, Copy)]
pub struct Plan {
    /// Stops that the owner of the one case answers, numbers that the threads of the other one hand on.
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

    /// The same numbers for the same purpose and seed.
    pub fn dice(self, purpose: u64) -> Dice {
        // Seeds that are next to each other give numbers that are not.
        let mut mixed = self.seed.wrapping_add(purpose << 32).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        Dice((mixed ^ mixed >> 27).max(1))
    }
}

/// A case by that plan.
pub fn planned(case: fn(Plan) -> Outcome) -> impl Fn() -> Outcome {
    move || case(Plan::read()?)
}

/// Numbers that look like none.
pub struct Dice(u64);

impl Dice {
    /// One of so many, from 0 on.
    pub fn roll(&mut self, sides: u64) -> u64 {
        (self.word() >> 11) % sides
    }

    /// Once in so many times.
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

/// Has this thread come before all others, so that it wakes in the midst of what they do.
pub fn comes_first() -> zx::Result<()> {
    let resource = zx::startup::resource().ok_or(zx::Status::NOT_FOUND)?;
    let parameters = [ZX_PRIORITY_HIGHEST as u64, 0, 0];
    let info = zx_profile_info_t { flags: ZX_PROFILE_INFO_FLAG_PRIORITY, parameters, ..Default::default() };
    zx::startup::thread_self().set_profile(&Profile::create(&resource, 0, &info)?, 0)
}

/// Sleeps for fewer than so many nanoseconds.
pub fn sleep(dice: &mut Dice, most: u64) -> zx::Result<()> {
    zx::nanosleep(MonotonicInstant::after(zx::Duration::from_nanos(dice.roll(most) as i64)))
}
