//! Samples of the time-stamp counter, and their conversion to instructions.

use core::hint::black_box;

use crate::arch::{count_down, tsc_in_order as counter};
use crate::console::info;

/// Rounds that are not counted, and rounds that are.
const WARM_UP: usize = 64;
const TIMES: usize = 1_000;
/// Maximum number of figures.
const MOST: usize = 24;
/// Iterations of the loop that relates the counter to instructions, and instructions per iteration.
const TURNS: u64 = 10_000;
const OF_A_TURN: u64 = 2;

/// The samples of one operation.
#[derive(Clone, Copy)]
pub struct Samples {
    overhead: u64,
    count: u64,
    sum: u64,
    least: u64,
    most: u64,
}

impl Samples {
    const fn new(overhead: u64) -> Self {
        Samples { overhead, count: 0, sum: 0, least: u64::MAX, most: 0 }
    }

    /// Measures one operation.
    #[inline(always)]
    pub fn time<T>(&mut self, operation: impl FnOnce() -> T) -> T {
        let start = counter();
        let result = operation();
        let end = counter();
        self.add(start, end);
        result
    }

    /// Adds the time between two readings of the counter. Never inlined; otherwise the compiler could move some of it
    /// between the readings.
    #[inline(never)]
    pub fn add(&mut self, start: u64, end: u64) {
        let sample = end.wrapping_sub(start).saturating_sub(self.overhead);
        self.count = black_box(self.count + 1);
        self.sum += sample;
        self.least = self.least.min(sample);
        self.most = self.most.max(sample);
    }
}

impl Samples {
    /// As [`Samples::add`], for an operation that was done twice in between.
    pub fn add_half(&mut self, start: u64, end: u64) {
        self.add(start, start + (end.wrapping_sub(start) + self.overhead) / 2);
    }
}

/// All figures.
pub struct Meter {
    figures: [Option<(&'static str, Samples)>; MOST],
    /// The cost of two readings of the counter.
    overhead: u64,
    /// Counts for [`TURNS`] iterations.
    ticks: u64,
}

impl Meter {
    /// Measures the cost of a reading, and the counts per instruction.
    pub fn new() -> Self {
        let mut nothing = Samples::new(0);
        for _ in 0..WARM_UP {
            nothing.time(|| ());
        }
        let [mut once, mut twice] = [Samples::new(nothing.least); 2];
        for _ in 0..WARM_UP {
            once.time(|| count_down(TURNS));
            twice.time(|| count_down(2 * TURNS));
        }
        // The minimum, because nothing interrupted it.
        let ticks = (twice.least - once.least).max(1);
        Meter { figures: [None; MOST], overhead: nothing.least, ticks }
    }

    /// Measures operations that belong together: `round` does each of them once, with separate samples.
    pub fn measure<const N: usize>(&mut self, names: [&'static str; N], mut round: impl FnMut(&mut [Samples; N])) {
        let mut samples = [Samples::new(self.overhead); N];
        for _ in 0..WARM_UP {
            round(&mut samples);
        }
        samples = [Samples::new(self.overhead); N];
        for _ in 0..TIMES {
            round(&mut samples);
        }
        let free = self.figures.iter_mut().filter(|place| place.is_none());
        for (place, figure) in free.zip(names.into_iter().zip(samples)) {
            *place = Some(figure);
        }
    }

    /// Prints everything.
    pub fn print(&self) {
        let instructions = |ticks: u64| ticks * TURNS * OF_A_TURN / self.ticks;
        for (name, samples) in self.figures.iter().flatten() {
            let mean = instructions(samples.sum * 100) / samples.count.max(1);
            info!(
                "figure {name} instructions {}.{:02} {} {} {}",
                mean / 100,
                mean % 100,
                instructions(samples.least),
                instructions(samples.most),
                samples.count
            );
        }
    }
}
