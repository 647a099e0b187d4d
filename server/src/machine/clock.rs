//! Time: the processor's time-stamp counter as the clock, the HPET as the alarm, the real-time clock for the date.
//!
//! **The clock** is the scaled time-stamp counter. The server measures its rate against the HPET during the boot: the
//! root task reads both counters early, the server reads them again when it is ready.
//!
//! **The alarm** is the server's own comparator of the HPET, in one-shot mode. Programming it is expensive: each access
//! leaves the emulator's fast path, and on a PC goes to the chip set. So the server programs it only for a deadline
//! earlier than the one that is set, and ignores an alarm that is no longer needed.

use core::ptr;

use objects::machine::Conversion;
use server_boot::BootInfo;
use server_boot::layout::HPET;

use super::arch::counter;
use super::{Sel4, sys};

const CAPABILITIES: usize = 0x00;
const COUNTER: usize = 0xf0;
/// Offset of the first comparator's registers. Each comparator has [`TIMER_SIZE`] bytes.
const TIMERS: usize = 0x100;
const TIMER_SIZE: usize = 0x20;
/// Offset of the comparator's value from its configuration.
const COMPARATOR: usize = 8;

const TIMER_ENABLE: u64 = 1 << 2;
const TIMER_ROUTE_SHIFT: u32 = 9;

/// Shortest delay of the alarm, in nanoseconds. With a shorter one the counter could pass the comparator before it is
/// written.
const SHORTEST: i64 = 2_000;

/// No deadline is set.
const NEVER: i64 = i64::MAX;

fn read(register: usize) -> u64 {
    // SAFETY: the root task mapped the HPET's registers here.
    unsafe { ptr::read_volatile(ptr::with_exposed_provenance(HPET as usize + register)) }
}

fn write(register: usize, value: u64) {
    // SAFETY: as in `read`; none of the registers makes the device access memory.
    unsafe { ptr::write_volatile(ptr::with_exposed_provenance_mut(HPET as usize + register), value) }
}

/// See the module's description.
pub struct Clock {
    /// The counter's value at time 0.
    start: u64,
    /// Nanoseconds per count, times 2^`shift`.
    scale: u32,
    shift: u32,
    /// Counts per second.
    rate: u64,
    /// HPET counts per nanosecond, times 2^32.
    hpet_scale: u64,
    /// Offset of the comparator's registers.
    timer: usize,
    /// Nanoseconds from 1970 to the start.
    utc_offset: i64,
    /// Time of the alarm, or [`NEVER`].
    alarm: i64,
}

impl Clock {
    /// Measures the counter's rate from the root task's readings, and initialises the comparator.
    pub fn new(boot: &BootInfo) -> Self {
        let (tsc0, hpet0) = (boot.tsc, boot.hpet);
        let timer = TIMERS + boot.comparator as usize % 32 * TIMER_SIZE;
        // Femtoseconds per count; the HPET's specification allows up to 100 nanoseconds.
        let period = (read(CAPABILITIES) >> 32).clamp(1, 100_000_000);
        // The shortest of several readings has the least delay between the two counters.
        let (mut best, mut tsc1, mut hpet1) = (u64::MAX, 0, 0);
        for _ in 0..8 {
            let before = counter();
            let count = read(COUNTER);
            let after = counter();
            if after - before < best {
                (best, tsc1, hpet1) = (after - before, before + (after - before) / 2, count);
            }
        }
        let counts = u128::from(tsc1.wrapping_sub(tsc0).max(1));
        let elapsed = u128::from(hpet1.wrapping_sub(hpet0).max(1)) * u128::from(period); // femtoseconds
        let rate = (counts * 1_000_000_000_000_000 / elapsed) as u64;
        let (scale, shift) = scale(rate);
        let hpet_scale = ((1_000_000u128 << 32) / u128::from(period)) as u64;
        write(timer, boot.timer_pin << TIMER_ROUTE_SHIFT);
        Clock { start: tsc0, scale, shift, rate, hpet_scale, timer, utc_offset: 0, alarm: NEVER }
    }

    /// Nanoseconds since the start.
    #[inline]
    pub fn now(&self) -> i64 {
        self.at(counter())
    }

    /// Nanoseconds since the start at a reading of the counter.
    #[inline]
    pub fn at(&self, count: u64) -> i64 {
        self.duration(count.wrapping_sub(self.start))
    }

    /// Nanoseconds of a number of counts.
    #[inline]
    pub fn duration(&self, counts: u64) -> i64 {
        ((u128::from(counts) * u128::from(self.scale)) >> self.shift) as i64
    }

    /// The parameters with which a program computes [`Clock::now`] itself.
    pub fn conversion(&self) -> Conversion {
        Conversion {
            per_second: self.rate,
            offset: self.start.wrapping_neg(),
            numerator: self.scale,
            denominator: 1 << self.shift,
        }
    }

    /// Nanoseconds from 1970 to the start.
    pub fn utc_offset(&self) -> i64 {
        self.utc_offset
    }

    /// Sets the date: `seconds` since 1970, now.
    pub fn set_date(&mut self, seconds: i64) {
        self.utc_offset = seconds.saturating_mul(1_000_000_000).saturating_sub(self.now());
    }

    /// Requests an alarm at `deadline`.
    pub fn set_alarm(&mut self, deadline: i64) {
        if deadline < self.alarm {
            self.program(deadline);
        }
    }

    /// Must be called when the alarm fires. Afterwards the alarm is off.
    pub fn fired(&mut self) {
        self.alarm = NEVER;
    }

    fn program(&mut self, deadline: i64) {
        self.alarm = deadline;
        let mut delay = deadline.saturating_sub(self.now()).max(SHORTEST);
        loop {
            let counts = ((delay as u128 * u128::from(self.hpet_scale)) >> 32) as u64 + 1;
            let target = read(COUNTER).wrapping_add(counts);
            let configuration = read(self.timer) & (0x1f << TIMER_ROUTE_SHIFT);
            write(self.timer, configuration | TIMER_ENABLE);
            write(self.timer + COMPARATOR, target);
            // If the counter has not reached the target, the comparator will match. Otherwise, on some chips, it would
            // match only after the counter has wrapped around.
            if (read(COUNTER).wrapping_sub(target) as i64) < 0 || delay > i64::MAX / 2 {
                return;
            }
            delay *= 2;
        }
    }
}

/// Nanoseconds per count at `rate` counts per second, times the highest power of two for which it fits into 32 bits;
/// and that power's exponent.
fn scale(rate: u64) -> (u32, u32) {
    let exact = |shift: u32| (1_000_000_000u128 << shift) / u128::from(rate.max(1));
    let fits = (0..32).rev().find_map(|shift| Some((u32::try_from(exact(shift)).ok()?, shift)));
    fits.unwrap_or((1_000_000_000, 0))
}

/// Seconds from 1970 to a date of the Gregorian calendar.
pub fn seconds_from_date(year: i64, month: i64, day: i64, hour: i64, minute: i64, second: i64) -> i64 {
    // Counting years from March makes the leap day the last of a year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * month + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    days * 86_400 + hour * 3_600 + minute * 60 + second
}

impl objects::machine::Time for Sel4 {
    #[inline]
    fn now(&self) -> i64 {
        self.clock.now()
    }

    #[inline]
    fn ticks(&self) -> i64 {
        counter() as i64
    }

    fn conversion(&self) -> Conversion {
        self.clock.conversion()
    }

    fn utc_offset(&self) -> i64 {
        self.clock.utc_offset()
    }

    fn set_deadline(&mut self, deadline: i64) {
        self.clock.set_alarm(deadline);
    }

    fn idle_time(&self) -> Option<i64> {
        Some(self.clock.duration(sys::idle_counts()?))
    }
}
