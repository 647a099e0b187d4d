//! What tests and benchmarks do that no program should, as in `zx::probe`: it is not checked, and not marked `unsafe`.

use abi::zx_port_packet_t;
use zx::{Duration, Port, Result, Rights, VirtualProcessor};

use crate::{TICK, Threads};

/// As [`crate::run`].
///
/// # Errors
/// As there.
pub fn run<'env, T>(
    processor: &VirtualProcessor<'_>,
    quantum: Duration,
    first: impl FnOnce(&Threads<'env>) -> T,
) -> Result<T> {
    // SAFETY: not checked, as the head of the module says.
    unsafe { crate::run(processor, quantum, first) }
}

/// What has the thread that runs preempted.
pub struct Ticks(Port);

impl Ticks {
    /// Does so, as the timer would.
    ///
    /// # Errors
    /// `SHOULD_WAIT` when too many were not taken yet.
    pub fn tick(&self) -> Result<()> {
        self.0.queue(&zx_port_packet_t { key: TICK, ..Default::default() })
    }
}

impl Threads<'_> {
    /// For another thread of the system's to preempt these.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn ticks(&self) -> Result<Ticks> {
        self.quietly(|| Ok(Ticks(self.inner.state().port.duplicate(Rights::SAME_RIGHTS)?)))
    }
}
