//! Clocks: linear functions of time that their owners can adjust.
//!
//! A clock maps a *reference* (monotonic or boot time, which are the same here) to a *synthetic* time by a line:
//! `synthetic + floor((now - reference) * rate)`; the rate deviates from 1 by a number of parts per million. An update
//! starts a new line at its own time. The clock's options restrict updates: a monotonic clock never goes back, a
//! continuous one never jumps, and no clock is below its backstop.
//!
//! All arithmetic is exact in 128 bits; results outside the range of a time saturate.
//!
//! A mappable clock also keeps its details in a page, which programs read without a system call. The vDSO knows the
//! format: a sequence number that is odd while the page changes and different after each change, and the details as
//! `clock_get_details` returns them. A page that is mapped outlives its clock, which then runs on unchanged.

use alloc::boxed::Box;

use abi::{
    Signals, Status, ZX_CLOCK_OPT_CONTINUOUS, ZX_CLOCK_OPT_MAPPABLE, ZX_CLOCK_OPT_MONOTONIC, ZX_CLOCK_UNKNOWN_ERROR,
    ZX_CLOCK_UPDATE_MAX_RATE_ADJUST, ZX_CLOCK_UPDATE_MIN_RATE_ADJUST, zx_clock_details_v1_t, zx_clock_rate_t,
    zx_clock_transformation_t,
};

use crate::containers::name::Name;
use crate::core::account::AccountOwner;
use crate::core::noun::{Noun, ObjectOps};
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::{Conversion, Machine, PAGE};
use crate::memory::vmo::Vmo;
use zerocopy::IntoBytes;

const MILLION: u32 = 1_000_000;
/// Size of a clock's mapping in bytes.
pub const MAPPED_SIZE: u64 = PAGE;
/// Offset of the details in its page.
const DETAILS: u64 = 8;

/// A clock.
pub struct Clock {
    /// `ZX_CLOCK_OPT_*`, as created.
    pub options: u64,
    /// Lower bound of all readings.
    pub backstop: i64,
    /// Its line, once it is started.
    pub line: Option<ClockLine>,
    /// The error bound set by its owner, in nanoseconds, or `ZX_CLOCK_UNKNOWN_ERROR`.
    error_bound: u64,
    /// Times of the last updates of value, rate and error bound, in ticks.
    updated: [i64; 3],
    /// Number of updates.
    generation: u32,
    /// The page for mapping it, if it is mappable.
    pub page: Option<Id<Vmo>>,
}

impl Noun for Clock {
    const TYPE: u32 = abi::ZX_OBJ_TYPE_CLOCK;
}

impl ObjectOps for Clock {
    #[inline(always)]
    fn destroyed<M: Machine>(self: Box<Self>, kernel: &mut Kernel<M>, _: Id<Self>) {
        if let Some(page) = self.page {
            kernel.drop_ref(page.object());
        }
    }
}

/// The function of a started clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockLine {
    /// Reference time at which the reading was `reading`.
    pub reference: i64,
    /// The reading at that time.
    pub reading: i64,
    /// Deviation of its rate, in parts per million, at most 1,000 either way.
    pub ppm: i32,
}

/// The given values of a clock update.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct ClockUpdate {
    /// The new reading ...
    pub value: Option<i64>,
    /// ... at this reference time; if not given, now.
    pub reference: Option<i64>,
    /// The new deviation of its rate, in parts per million.
    pub ppm: Option<i32>,
    /// The new error bound, in nanoseconds.
    pub error_bound: Option<u64>,
}

fn saturate(time: i128) -> i64 {
    time.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

impl ClockLine {
    /// Nanoseconds that the clock advances per million nanoseconds of the reference.
    fn rate(&self) -> u32 {
        MILLION.saturating_add_signed(self.ppm)
    }

    fn exact(&self, reference: i128) -> i128 {
        let passed = reference - i128::from(self.reference);
        i128::from(self.reading) + (passed * i128::from(self.rate())).div_euclid(i128::from(MILLION))
    }

    /// The reading at a reference time.
    pub fn at(&self, reference: i64) -> i64 {
        saturate(self.exact(i128::from(reference)))
    }

    fn transformation(&self) -> zx_clock_transformation_t {
        zx_clock_transformation_t {
            reference_offset: self.reference,
            synthetic_offset: self.reading,
            rate: zx_clock_rate_t { synthetic_ticks: self.rate(), reference_ticks: MILLION },
        }
    }

    /// The same line as a function of the tick counter. It begins at the first tick at or after the reference time.
    fn transformation_of_ticks(&self, ticks: &Conversion) -> zx_clock_transformation_t {
        let (numerator, denominator) = (u128::from(ticks.numerator.max(1)), u128::from(ticks.denominator.max(1)));
        let (n, d) = (numerator as i128, denominator as i128);
        let first = saturate((i128::from(self.reference) * d + n - 1).div_euclid(n));
        let reading = saturate(self.exact((i128::from(first) * n).div_euclid(d)));
        let (synthetic_ticks, reference_ticks) =
            nearest_ratio(numerator * u128::from(self.rate()), denominator * u128::from(MILLION));
        zx_clock_transformation_t {
            reference_offset: first,
            synthetic_offset: reading,
            rate: zx_clock_rate_t { synthetic_ticks, reference_ticks },
        }
    }
}

/// The last convergent of a fraction's continued fraction whose parts fit in 32 bits: the fraction itself if that fits,
/// otherwise with an error below the inverse product of two successive denominators.
fn nearest_ratio(mut numerator: u128, mut denominator: u128) -> (u32, u32) {
    let (mut last, mut this) = ((0, 1), (1, 0));
    while denominator != 0 {
        let (whole, rest) = (numerator / denominator, numerator % denominator);
        let next = |this: u128, last: u128| whole.checked_mul(this)?.checked_add(last).filter(|&x| x <= 0xffff_ffff);
        let (Some(n), Some(d)) = (next(this.0, last.0), next(this.1, last.1)) else { break };
        (last, this) = (this, (n, d));
        (numerator, denominator) = (denominator, rest);
    }
    if this.1 == 0 { (u32::MAX, 1) } else { (this.0 as u32, this.1 as u32) }
}

impl Clock {
    /// The reading at a reference time.
    pub fn at(&self, reference: i64) -> i64 {
        self.line.map_or(self.backstop, |line| line.at(reference).max(self.backstop))
    }

    /// The line after an update.
    fn next_line(&self, update: &ClockUpdate, now: i64) -> Result<Option<ClockLine>, Status> {
        let bounds = ZX_CLOCK_UPDATE_MIN_RATE_ADJUST..=ZX_CLOCK_UPDATE_MAX_RATE_ADJUST;
        if update.ppm.is_some_and(|ppm| !bounds.contains(&ppm)) {
            return Err(Status::INVALID_ARGS);
        }
        if update.reference.is_some() && update.value.is_none() && update.ppm.is_none() {
            return Err(Status::INVALID_ARGS);
        }
        let Some(old) = self.line else {
            let reading = update.value.ok_or(Status::BAD_STATE)?;
            let line = ClockLine { reference: update.reference.unwrap_or(now), reading, ppm: update.ppm.unwrap_or(0) };
            return self.checked(line, now).map(Some);
        };
        let has = |option| self.options & option != 0;
        if has(ZX_CLOCK_OPT_CONTINUOUS) && (update.value.is_some() || update.reference.is_some()) {
            return Err(Status::INVALID_ARGS);
        }
        // Whether these are allowed could depend on how long the call takes, so they never are.
        if has(ZX_CLOCK_OPT_MONOTONIC) && update.reference.is_some() != update.value.is_some() {
            return Err(Status::INVALID_ARGS);
        }
        if has(ZX_CLOCK_OPT_MONOTONIC) && update.reference.is_some() && update.ppm.is_some() {
            return Err(Status::INVALID_ARGS);
        }
        if update.value.is_none() && update.ppm.is_none() {
            return Ok(Some(old));
        }
        let reference = update.reference.unwrap_or(now);
        let reading = update.value.unwrap_or_else(|| old.at(reference));
        let line = self.checked(ClockLine { reference, reading, ppm: update.ppm.unwrap_or(old.ppm) }, now)?;
        if has(ZX_CLOCK_OPT_MONOTONIC) && line.at(now) < self.at(now) {
            return Err(Status::INVALID_ARGS);
        }
        Ok(Some(line))
    }

    /// Checks that a line does not begin below the backstop.
    fn checked(&self, line: ClockLine, now: i64) -> Result<ClockLine, Status> {
        if line.at(now) < self.backstop { Err(Status::INVALID_ARGS) } else { Ok(line) }
    }
}

impl<M: Machine> Kernel<M> {
    /// `clock_create`. The process's job, if a process is given, is charged for the page. If `started` is given, the
    /// clock runs from the start and shows the monotonic time plus `started`.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn clock_create<P: AccountOwner>(
        &mut self,
        process: Option<Id<P>>,
        options: u64,
        backstop: i64,
        started: Option<i64>,
    ) -> Result<Id<Clock>, Status> {
        let line = started.map(|reading| ClockLine { reference: 0, reading, ppm: 0 });
        let signals = if line.is_some() { Signals::CLOCK_STARTED } else { Signals::NONE };
        let error_bound = ZX_CLOCK_UNKNOWN_ERROR;
        let updated = if line.is_some() { [self.ticks(); 3] } else { [0; 3] };
        let page = match options & ZX_CLOCK_OPT_MAPPABLE {
            0 => None,
            _ => Some(self.clock_page(process)?),
        };
        let clock = Clock { options, backstop, line, error_bound, updated, generation: 0, page };
        let id = self.create(signals, Box::new(clock)).inspect_err(|_| {
            if let Some(page) = page {
                self.drop_ref(page.object());
            }
        })?;
        self.clock_publish(id)?;
        Ok(id)
    }

    /// Allocates a committed page for a clock.
    fn clock_page<P: AccountOwner>(&mut self, process: Option<Id<P>>) -> Result<Id<Vmo>, Status> {
        let page = self.vmo_create(MAPPED_SIZE, false)?;
        let charged = process.map_or(Ok(()), |process| self.charge_to(process, page));
        charged.inspect_err(|_| self.reaper_enqueue(page.object()))?;
        self.add_ref(page.object());
        let there = self.vmo_commit(page, 0, MAPPED_SIZE);
        if there.is_err() {
            self.drop_ref(page.object());
        }
        self.objects.get_mut(page)?.name = Name::new(b"kernel-clock");
        there.map(|()| page)
    }

    /// Publishes the details of a mapped clock, so that each reader sees either all old or all new values; the vDSO's
    /// code describes the steps.
    fn clock_publish(&mut self, id: Id<Clock>) -> Result<(), Status> {
        let Some(page) = self.objects.get(id)?.page else { return Ok(()) };
        let details = self.clock_details(id)?;
        let number = details.generation_counter.wrapping_mul(2);
        self.vmo_write(page, 0, &number.wrapping_sub(1).to_le_bytes())?;
        self.vmo_write(page, DETAILS, details.as_bytes())?;
        self.vmo_write(page, 0, &number.to_le_bytes())
    }

    /// The tick counter as programs read it.
    fn ticks(&self) -> i64 {
        self.machine.ticks().wrapping_add_unsigned(self.machine.conversion().offset)
    }

    /// `clock_read`. A clock that is not started shows its backstop.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn clock_read(&self, id: Id<Clock>) -> Result<i64, Status> {
        Ok(self.objects.get(id)?.at(self.machine.now()))
    }

    /// `clock_update`: takes effect now, as a whole or not at all.
    ///
    /// # Errors
    /// `INVALID_ARGS`: the rate is out of range, or the update violates the clock's options. `BAD_STATE`: the clock has
    /// not been started and no value is given.
    pub fn clock_update(&mut self, id: Id<Clock>, update: &ClockUpdate) -> Result<(), Status> {
        let (now, ticks) = (self.machine.now(), self.ticks());
        let clock = self.objects.get_mut(id)?;
        clock.line = clock.next_line(update, now)?;
        clock.error_bound = update.error_bound.unwrap_or(clock.error_bound);
        clock.generation = clock.generation.wrapping_add(1);
        let given = [update.value.is_some(), update.ppm.is_some(), update.error_bound.is_some()];
        for (updated, given) in clock.updated.iter_mut().zip(given) {
            if given {
                *updated = ticks;
            }
        }
        self.clock_publish(id)?;
        // A pulse: observers see each update, but the signal does not stay set.
        self.signal(id.object(), Signals::NONE, Signals::CLOCK_STARTED | Signals::CLOCK_UPDATED);
        self.signal(id.object(), Signals::CLOCK_UPDATED, Signals::NONE);
        Ok(())
    }

    /// `clock_get_details`.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn clock_details(&self, id: Id<Clock>) -> Result<zx_clock_details_v1_t, Status> {
        let clock = self.objects.get(id)?;
        // A clock that is not started: its reading does not depend on the reference.
        let stands = zx_clock_transformation_t {
            reference_offset: 0,
            synthetic_offset: clock.backstop,
            rate: zx_clock_rate_t { synthetic_ticks: 0, reference_ticks: 1 },
        };
        let [value, rate, error] = clock.updated;
        Ok(zx_clock_details_v1_t {
            options: clock.options,
            backstop_time: clock.backstop,
            reference_ticks_to_synthetic: clock
                .line
                .map_or(stands, |line| line.transformation_of_ticks(&self.machine.conversion())),
            reference_to_synthetic: clock.line.map_or(stands, |line| line.transformation()),
            error_bound: clock.error_bound,
            query_ticks: self.ticks(),
            last_value_update_ticks: value,
            last_rate_adjust_update_ticks: rate,
            last_error_bounds_update_ticks: error,
            generation_counter: clock.generation,
            ..Default::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line() -> impl Strategy<Value = ClockLine> {
        (any::<i64>(), any::<i64>(), -1000..=1000).prop_map(|(reference, reading, ppm)| ClockLine {
            reference,
            reading,
            ppm,
        })
    }

    fn update() -> impl Strategy<Value = ClockUpdate> {
        let time = || prop::option::of(-10_000_i64..10_000);
        (time(), time(), prop::option::of(-1001..=1001), prop::option::of(any::<u64>()))
            .prop_map(|(value, reference, ppm, error_bound)| ClockUpdate { value, reference, ppm, error_bound })
    }

    /// Compares a line's readings, `later` ticks after its beginning, by ticks and by the reference.
    fn agreement_of_ticks(line: ClockLine, per_second: u64, later: i64) -> Result<(), TestCaseError> {
        let numerator = ((1_000_000_000_u128 << 31) / u128::from(per_second)).min(0xffff_ffff) as u32;
        let ticks = Conversion { per_second, offset: 0, numerator, denominator: 1 << 31 };
        let t = line.transformation_of_ticks(&ticks);
        let at = t.reference_offset + later;
        let nanoseconds = (i128::from(at) * i128::from(numerator)).div_euclid(1 << 31);
        let direct = line.exact(nanoseconds);
        let (p, q) = (i128::from(t.rate.synthetic_ticks), i128::from(t.rate.reference_ticks));
        let by_ticks = i128::from(t.synthetic_offset) + (i128::from(later) * p).div_euclid(q);
        // The exact ratio, and how much p / q gains on it. The next convergent does not fit in 32 bits, so the error of
        // p / q is below 2^-32 / q, or that times the ratio where it is the numerator that does not fit.
        let (n, d) = (i128::from(numerator) * i128::from(line.rate()), i128::from(MILLION) << 31);
        let error = p * d - n * q;
        prop_assert!(error.abs() << 32 <= n.max(d), "{}/{} is not the best ratio for {}/{}", p, q, n, d);
        let gained = (i128::from(later) * error).div_euclid(d * q);
        // The line begins up to a nanosecond into a tick.
        prop_assert!((direct + gained - by_ticks).abs() <= 3, "{} + {}, {}", direct, gained, by_ticks);
        Ok(())
    }

    /// The best ratio here is 147/638, because the next convergent has parts of over 32 bits: 3.9 ns wrong in two hours.
    #[test]
    fn ticks_agree_at_a_rare_ratio() {
        let line = ClockLine { reference: 0, reading: 0, ppm: 519 };
        agreement_of_ticks(line, 4_342_388_577, 33_875_035_634_574).unwrap();
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// The reading is the floor of the exact value, or saturates.
        #[test]
        fn a_line_is_exact(line in line(), now: i64) {
            let passed = (i128::from(now) - i128::from(line.reference)) * i128::from(1_000_000 + line.ppm);
            let found = i128::from(line.at(now)) - i128::from(line.reading);
            if line.at(now) != i64::MAX {
                prop_assert!(passed < (found + 1) * 1_000_000);
            }
            if line.at(now) != i64::MIN {
                prop_assert!(found * 1_000_000 <= passed);
            }
        }

        /// Readings never decrease.
        #[test]
        fn a_line_rises(line in line(), a: i64, b: i64) {
            prop_assert!(line.at(a.min(b)) <= line.at(a.max(b)));
        }

        /// A ratio that fits is only reduced; any other is approximated closely.
        #[test]
        fn ratios_are_near(n in 1_u64..1 << 52, d in 1_u64..1 << 52) {
            let (n, d) = (u128::from(n), u128::from(d));
            let (p, q) = nearest_ratio(n, d);
            let (p, q) = (u128::from(p), u128::from(q));
            prop_assert!(q > 0);
            if n / d < 0xffff_ffff && p > 0 {
                // |n/d - p/q| <= 1/q, and far less unless the fraction is extreme.
                prop_assert!((n * q).abs_diff(p * d) <= d);
            }
            if n <= 0xffff_ffff && d <= 0xffff_ffff {
                prop_assert_eq!(n * q, p * d);
            }
        }

        /// The reading from ticks equals that from the reference, up to a nanosecond and the error of the ratio.
        #[test]
        fn ticks_agree(
            reference in 0_i64..1 << 50, reading in 0_i64..1 << 60, ppm in -1000..=1000,
            per_second in 100_000_000_u64..6_000_000_000, later in 0_i64..1 << 46,
        ) {
            agreement_of_ticks(ClockLine { reference, reading, ppm }, per_second, later)?;
        }

        /// Whatever the updates, a clock stays within the limits of its options.
        #[test]
        fn promises_hold(
            options in prop::sample::select([0, ZX_CLOCK_OPT_MONOTONIC, ZX_CLOCK_OPT_MONOTONIC | ZX_CLOCK_OPT_CONTINUOUS].as_slice()),
            backstop in 0_i64..100,
            updates in prop::collection::vec((update(), 0_i64..1000), 1..30),
        ) {
            let mut clock =
                Clock { options, backstop, line: None, error_bound: 0, updated: [0; 3], generation: 0, page: None };
            let mut now = 0;
            for (update, passed) in updates {
                now += passed;
                let (before, started) = (clock.at(now), clock.line.is_some());
                let Ok(line) = clock.next_line(&update, now) else { continue };
                clock.line = line;
                prop_assert!(clock.line.is_some_and(|line| line.ppm.abs() <= 1000));
                prop_assert!(clock.at(now) >= backstop);
                if options & ZX_CLOCK_OPT_MONOTONIC != 0 {
                    prop_assert!(clock.at(now) >= before);
                }
                if options & ZX_CLOCK_OPT_CONTINUOUS != 0 && started {
                    prop_assert_eq!(clock.at(now), before);
                }
                if let (Some(value), Some(line)) = (update.value, clock.line) {
                    prop_assert_eq!(line.at(update.reference.unwrap_or(now)), value);
                }
            }
        }
    }

    #[test]
    fn what_an_update_may_not_do() {
        let clock = |options, line| Clock {
            options,
            backstop: 100,
            line,
            error_bound: 0,
            updated: [0; 3],
            generation: 0,
            page: None,
        };
        let running = Some(ClockLine { reference: 0, reading: 1000, ppm: 0 });
        let value = |value| ClockUpdate { value: Some(value), ..Default::default() };
        let both =
            |value, reference| ClockUpdate { value: Some(value), reference: Some(reference), ..Default::default() };
        let (plain, monotonic) = (clock(0, running), clock(ZX_CLOCK_OPT_MONOTONIC, running));
        let refused = Err(Status::INVALID_ARGS);
        assert_eq!(
            clock(0, None).next_line(&ClockUpdate { ppm: Some(1), ..Default::default() }, 5),
            Err(Status::BAD_STATE)
        );
        assert_eq!(clock(0, None).next_line(&value(99), 5), refused);
        assert_eq!(plain.next_line(&value(99), 5), refused);
        assert_eq!(plain.next_line(&value(100), 5).unwrap().unwrap().at(6), 101);
        assert_eq!(monotonic.next_line(&value(5000), 5), refused);
        assert_eq!(monotonic.next_line(&both(1004, 5), 5), refused);
        assert_eq!(monotonic.next_line(&both(1005, 5), 5).unwrap().unwrap().at(6), 1006);
        let rate = ClockUpdate { ppm: Some(-1000), ..Default::default() };
        assert_eq!(monotonic.next_line(&rate, 5).unwrap().unwrap().at(1_000_005), 1005 + 999_000);
        assert_eq!(monotonic.next_line(&ClockUpdate { reference: Some(5), ..rate }, 5), refused);
        assert_eq!(plain.next_line(&ClockUpdate { reference: Some(5), ..Default::default() }, 5), refused);
        assert_eq!(plain.next_line(&ClockUpdate { ppm: Some(1001), ..Default::default() }, 5), refused);
        // The new rate applies from an earlier point of the old line.
        let bent = plain.next_line(&ClockUpdate { reference: Some(0), ..rate }, 1_000_000).unwrap().unwrap();
        assert_eq!(bent.at(1_000_000), 1000 + 999_000);
    }
}
