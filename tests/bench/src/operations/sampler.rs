//! Samples, and their statistics.

use std::hint::black_box;

use zx::probe::counter;

/// Rounds before the measurement.
const WARM_UP: usize = 64;

/// The operations to measure, and the figures so far.
pub struct Suite {
    wanted: Vec<String>,
    /// A rehearsal: everything runs, and no figure is kept.
    pub rehearsal: bool,
    figures: Vec<(&'static str, Samples)>,
    /// The unit of the figures, and the counter's ticks for one unit.
    unit: (&'static str, f64),
    /// What two reads of the counter cost by themselves.
    overhead: i64,
}

/// The samples of one operation.
#[derive(Clone, Copy, Debug)]
pub struct Samples {
    overhead: i64,
    count: i64,
    sum: i64,
    min: i64,
    max: i64,
    last: i64,
}

impl Suite {
    /// A suite for these operations, or for all if none is named. Figures are in nanoseconds if the counter is a clock.
    pub fn new(wanted: Vec<String>, clock: bool) -> Suite {
        let mut nothing = Samples::new(0);
        for _ in 0..WARM_UP {
            nothing.time(|| ());
        }
        // Iterations of a loop give the ticks for one instruction. The least is taken: no interrupt came in between.
        const TURNS: u64 = 10_000;
        let [mut once, mut twice] = [Samples::new(nothing.min); 2];
        for _ in 0..WARM_UP {
            once.time(|| zx::probe::count_down(TURNS));
            twice.time(|| zx::probe::count_down(2 * TURNS));
        }
        let ticks = (twice.min - once.min) as f64;
        let unit = if clock {
            ("ns", zx::ticks_per_second() as f64 / 1e9)
        } else {
            ("instructions", ticks / (TURNS * zx::probe::COUNT_DOWN_INSTRUCTIONS) as f64)
        };
        Suite { wanted, rehearsal: true, figures: Vec::with_capacity(128), unit, overhead: nothing.min }
    }

    /// Whether one of these operations is to be measured.
    pub fn wants(&self, names: &[&str]) -> bool {
        self.wanted.is_empty() || self.wanted.iter().any(|wanted| names.contains(&wanted.as_str()))
    }

    /// No samples yet.
    pub fn samples(&self) -> Samples {
        Samples::new(self.overhead)
    }

    /// Measures operations that belong together: `round` carries out each of them once, with a [`Samples`] for each.
    pub fn measure<const N: usize>(
        &mut self,
        names: [&'static str; N],
        times: usize,
        mut round: impl FnMut(&mut [Samples; N]) -> zx::Result<()>,
    ) -> zx::Result<()> {
        if !self.wants(&names) {
            return Ok(());
        }
        let mut samples = [self.samples(); N];
        for _ in 0..WARM_UP.min(times) {
            round(&mut samples)?;
        }
        if self.rehearsal {
            return Ok(());
        }
        samples = [self.samples(); N];
        for _ in 0..times {
            round(&mut samples)?;
        }
        for (name, samples) in names.into_iter().zip(samples) {
            self.report(name, samples);
        }
        Ok(())
    }

    /// Adds a figure to those that are printed, if it is asked for.
    pub fn report(&mut self, name: &'static str, samples: Samples) {
        if !self.rehearsal && self.wants(&[name]) {
            self.figures.push((name, samples));
        }
    }

    /// Prints everything.
    pub fn print(&self) {
        let (unit, ticks) = self.unit;
        let mut text = format!("calibration {ticks:.6}\n");
        for (name, samples) in &self.figures {
            let value = |sum: i64| sum as f64 / ticks;
            let mean = value(samples.sum) / samples.count.max(1) as f64;
            let (min, max, count) = (value(samples.min), value(samples.max), samples.count);
            text.push_str(&format!("figure {name} {unit} {mean:.2} {min:.0} {max:.0} {count}\n"));
        }
        print!("{text}");
    }
}

impl Samples {
    fn new(overhead: i64) -> Samples {
        Samples { overhead, count: 0, sum: 0, min: i64::MAX, max: i64::MIN, last: 0 }
    }

    /// Measures one operation.
    #[inline(always)]
    pub fn time<T>(&mut self, operation: impl FnOnce() -> T) -> T {
        let start = counter();
        let result = operation();
        let end = counter();
        self.add((end - start) as i64 - self.overhead);
        result
    }

    /// Adds the time between two reads of the counter.
    #[inline(always)]
    pub fn between(&mut self, start: u64, end: u64) {
        self.add((end - start) as i64 - self.overhead);
    }

    /// Adds a sample. It is never inlined: the compiler would move parts of it between the counter's reads of the next
    /// sample. It uses no vector registers, because then the kernel would switch them, and each call would be a little
    /// longer.
    #[inline(never)]
    pub fn add(&mut self, sample: i64) {
        self.count = black_box(self.count + 1);
        self.sum = black_box(self.sum + sample);
        self.min = black_box(self.min.min(sample));
        self.max = black_box(self.max.max(sample));
        self.last = sample;
    }

    /// The latest sample.
    pub fn last(&self) -> i64 {
        self.last
    }
}
