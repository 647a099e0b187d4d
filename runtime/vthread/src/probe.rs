//! Functions for tests and benchmarks only, as in `zx::probe`: they do not check their conditions and are not `unsafe`.

use abi::zx_port_packet_t;
use zx::{Duration, Port, Result, Rights, VirtualProcessor};

use crate::{TICK, Threads};

/// The same as [`crate::run`].
///
/// # Errors
/// As [`crate::run`].
pub fn run<'env, T>(
    processor: &VirtualProcessor<'_>,
    quantum: Duration,
    first: impl FnOnce(&Threads<'env>) -> T,
) -> Result<T> {
    // SAFETY: not checked, as the module's documentation says.
    unsafe { crate::run(processor, quantum, first) }
}

/// Preempts the running thread.
pub struct Ticks(Port);

impl Ticks {
    /// Preempts the running thread, as the timer would.
    ///
    /// # Errors
    /// `SHOULD_WAIT`: too many earlier events are pending.
    pub fn tick(&self) -> Result<()> {
        self.0.queue(&zx_port_packet_t { key: TICK, ..Default::default() })
    }
}

impl Threads<'_> {
    /// A handle with which another Zircon thread can preempt these threads.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn ticks(&self) -> Result<Ticks> {
        self.quietly(|| Ok(Ticks(self.inner.state().port.duplicate(Rights::SAME_RIGHTS)?)))
    }
}
