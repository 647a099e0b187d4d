//! A host that stands still now and then, for tests: [`VARIABLE`] makes the tool stop each machine at random moments.
//!
//! A busy host may not run a machine for a tenth of a second, at any instruction, while the machine's clocks go on. No
//! test may depend on that.

use std::env;
use std::process::Child;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process};

use xtask_common::threads::{Thread, Watcher};

/// The variable: the seed of the random times.
pub const VARIABLE: &str = "HAFNON_STALLS";

/// How long a machine runs between two stops, and how long it stands still, in microseconds. Short times are as likely
/// as long ones on a logarithmic scale: on average a machine stands still for three fifths of the time.
const RUNS: (f64, f64) = (1_000.0, 500_000.0);
const STANDS: (f64, f64) = (20_000.0, 400_000.0);

/// Stops a machine now and then until it is dropped; then the machine runs.
#[derive(Debug)]
pub struct Stalls {
    /// Is closed to end the thread.
    end: Option<Sender<()>>,
    thread: Option<Thread<()>>,
}

impl Stalls {
    /// Stalls for this machine, if the environment asks for them.
    ///
    /// # Errors
    /// The variable is no number, or the thread cannot be started.
    pub fn wanted(machine: &Child) -> Result<Option<Stalls>> {
        static MACHINES: AtomicU64 = AtomicU64::new(0);
        let Some(seed) = env::var_os(VARIABLE) else { return Ok(None) };
        let seed = seed.to_str().and_then(|seed| seed.parse::<u64>().ok());
        let seed = seed.with_context(|| format!("{VARIABLE} must be a number, the seed of the stalls"))?;
        let machine = Pid::from_child(machine);
        // The machines of one run stand still at different times.
        let times = RandomTimes(seed.wrapping_add(MACHINES.fetch_add(1, Ordering::Relaxed) << 32));
        Stalls::start(times, move |signal| {
            // The machine may have ended; it has not been waited for.
            let _ = kill_process(machine, signal);
        })
        .map(Some)
    }

    fn start(mut times: RandomTimes, signal: impl Fn(Signal) + Send + 'static) -> Result<Stalls> {
        let (end, ended) = channel::<()>();
        let thread = Watcher::none().start("stalls", move || {
            let mut passes = |range| ended.recv_timeout(times.next(range)) == Err(RecvTimeoutError::Timeout);
            let mut goes_on = true;
            while goes_on && passes(RUNS) {
                signal(Signal::STOP);
                goes_on = passes(STANDS);
                signal(Signal::CONT);
            }
        })?;
        Ok(Stalls { end: Some(end), thread: Some(thread) })
    }
}

impl Drop for Stalls {
    fn drop(&mut self) {
        drop(self.end.take());
        let _ = self.thread.take().map(Thread::join);
    }
}

/// Random times (SplitMix64), the same for the same seed.
struct RandomTimes(u64);

impl RandomTimes {
    fn next(&mut self, (shortest, longest): (f64, f64)) -> Duration {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let part = ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64;
        Duration::from_micros((shortest * (longest / shortest).powf(part)) as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_machine_stands_still_for_more_than_half_of_the_time() {
        let (mut times, mut same) = (RandomTimes(1), RandomTimes(1));
        let mut sum = |range: (f64, f64)| {
            let all = (0..10_000).map(|_| times.next(range));
            let in_range =
                |time: Duration| time.as_micros() as f64 >= range.0 - 1.0 && time.as_micros() as f64 <= range.1;
            all.map(|time| if in_range(time) { time.as_secs_f64() } else { f64::NAN }).sum::<f64>()
        };
        let (runs, stands) = (sum(RUNS), sum(STANDS));
        assert!((0.55..0.67).contains(&(stands / (runs + stands))), "{runs} {stands}");
        assert_eq!(same.next(RUNS), RandomTimes(1).next(RUNS));
        assert_ne!(same.next(RUNS), RandomTimes(2).next(RUNS));
    }

    #[test]
    fn a_machine_runs_after_the_end_of_its_stalls() {
        let (sender, signals) = channel();
        let stalls = Stalls::start(RandomTimes(7), move |signal| sender.send(signal).unwrap()).unwrap();
        let heard: Vec<Signal> = signals.iter().take(3).collect();
        assert_eq!(heard, [Signal::STOP, Signal::CONT, Signal::STOP]);
        drop(stalls);
        assert_eq!(signals.iter().last(), Some(Signal::CONT));
    }
}
