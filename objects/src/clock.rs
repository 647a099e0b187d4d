//! Clocks: a line in time. `reading = offset + (now - reference) * rate`, with monotonic time as the reference.

use alloc::boxed::Box;

use abi::{Signals, Status};

use crate::kernel::Kernel;
use crate::machine::Machine;
use crate::object::{Body, Id};

/// A clock.
pub struct Clock {
    /// `ZX_CLOCK_OPT_*`, as created.
    pub options: u64,
    /// No reading is below this one.
    pub backstop: i64,
    /// Set once it has been started.
    pub line: Option<ClockLine>,
}

/// What a started clock shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockLine {
    /// Monotonic time at which `reading` was right.
    pub reference: i64,
    /// The reading then.
    pub reading: i64,
    /// Deviation of its rate, in parts per million.
    pub ppm: i32,
    /// The error bound that its keeper stated, in nanoseconds.
    pub error_bound: u64,
    /// When it was updated last.
    pub updated: i64,
}

impl ClockLine {
    /// The reading at a monotonic time.
    pub fn at(&self, now: i64) -> i64 {
        let passed = i128::from(now) - i128::from(self.reference);
        let scaled = passed * (1_000_000 + i128::from(self.ppm)) / 1_000_000;
        (i128::from(self.reading) + scaled).clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }
}

impl<M: Machine> Kernel<M> {
    /// `clock_create`. With `started` it shows `started` plus the monotonic time from the outset.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn clock_create(&mut self, options: u64, backstop: i64, started: Option<i64>) -> Result<Id<Clock>, Status> {
        let line =
            started.map(|reading| ClockLine { reference: 0, reading, ppm: 0, error_bound: u64::MAX, updated: 0 });
        let signals = if line.is_some() { Signals::CLOCK_STARTED } else { Signals::NONE };
        self.create(signals, Body::Clock(Box::new(Clock { options, backstop, line })))
    }

    /// `clock_read`.
    ///
    /// # Errors
    /// None that a caller can cause: a clock not started shows its backstop.
    pub fn clock_read(&self, id: Id<Clock>) -> Result<i64, Status> {
        let clock = self.objects.get(id)?;
        let now = self.machine.now();
        Ok(clock.line.map_or(clock.backstop, |line| line.at(now).max(clock.backstop)))
    }
}
