//! The lives of one server or component, and the restart policy for the next one.

use description::{Restart, Trial};
use sel4::Tcb;

use crate::arch::{ip, tsc, with_ip};
use crate::console::{counts, micros};
use crate::error::{Context, Error};

/// Microseconds after which an unsuccessful trial is repeated.
const AGAIN: u64 = 10_000;

/// State of a server or component.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It runs since this value of the time-stamp counter.
    Runs(u64),
    /// It waits for its next life, which begins at this value.
    Waits(u64),
    /// There is no next life.
    Gone,
}

/// See the module's description.
#[derive(Clone, Copy)]
pub struct Watch {
    /// See [`State`].
    pub state: State,
    /// Number of lives so far, including the current one.
    pub lives: u32,
    /// Number of ends since the first one that counts.
    pub ends: u32,
    /// Time of the first end that counts.
    first_end: u64,
    /// Time of the last end.
    pub ended: u64,
    /// Microseconds that the last reclaim took.
    pub reclaimed: u64,
    /// Number of trials left.
    trials: u32,
    /// The age at which a trial ends this life, if one does.
    trial_age: Option<u64>,
    /// The instruction at which the current trial ended it.
    trial: Option<u64>,
    /// State of the random number generator.
    chance: u64,
}

impl Watch {
    /// The state of an unused entry.
    pub const ABSENT: Watch = Watch {
        state: State::Gone,
        lives: 0,
        ends: 0,
        first_end: 0,
        ended: 0,
        reclaimed: 0,
        trials: 0,
        trial_age: None,
        trial: None,
        chance: 0,
    };

    /// The state of a server or component that has just been started.
    pub fn new(trial: Option<Trial>) -> Self {
        let mut watch = Watch::ABSENT;
        if let Some(trial) = trial {
            watch.trials = trial.times;
            watch.chance = u64::from(trial.seed) << 1 | 1;
        }
        watch.begin(trial);
        watch
    }

    /// A life begins.
    pub fn begin(&mut self, trial: Option<Trial>) {
        self.state = State::Runs(tsc());
        self.lives += 1;
        self.trial_age = None;
        if let Some(trial) = trial.filter(|_| self.trials > 0) {
            self.chance ^= self.chance << 13;
            self.chance ^= self.chance >> 7;
            self.chance ^= self.chance << 17;
            let span = u64::from(trial.to - trial.from) + 1;
            self.trial_age = Some(u64::from(trial.from) + (self.chance >> 16) % span);
        }
    }

    /// Ends the life of its thread at its current instruction, if a trial is due.
    ///
    /// A server that has just stopped a component, its client, resumes it with the registers that it read before. Then
    /// the trial has no effect, and is repeated.
    pub fn run_trial(&mut self, now: u64, tcb: Tcb) -> Result<(), Error> {
        let State::Runs(since) = self.state else { return Ok(()) };
        let lived = micros(since, now);
        if self.trial_age.is_none_or(|age| lived < age) {
            return Ok(());
        }
        self.trial_age = Some(lived.saturating_add(AGAIN));
        // It continues at an unmapped address, so the following steps are those of any fault.
        let registers = tcb.read_registers(true).context("ending a life")?;
        if ip(&registers) != 0 {
            self.trial = Some(ip(&registers));
        }
        tcb.write_registers(&with_ip(registers, 0), true).context("ending a life")
    }

    /// Where a trial ended it, if one did.
    pub fn take_trial(&mut self) -> Option<u64> {
        let place = self.trial.take()?;
        self.trials = self.trials.saturating_sub(1);
        Some(place)
    }

    /// It has ended at this value of the time-stamp counter. Returns how many counts the next life has to wait, if
    /// there is one.
    pub fn end(&mut self, ended: u64, policy: &Restart) -> Option<u64> {
        let millis = |count: u32| counts(u64::from(count) * 1000);
        self.ended = ended;
        if self.ends == 0 || ended.wrapping_sub(self.first_end) > millis(policy.within) {
            (self.ends, self.first_end) = (0, ended);
        }
        self.ends += 1;
        let doublings = self.ends - 1;
        let wait = (self.ends <= policy.times).then(|| millis(policy.after).saturating_mul(1 << doublings.min(20)));
        self.state = wait.map_or(State::Gone, |wait| State::Waits(ended.saturating_add(wait)));
        wait
    }

    /// Whether it has waited long enough for its next life.
    pub fn is_due(&self, now: u64) -> bool {
        matches!(self.state, State::Waits(until) if until <= now)
    }

    /// Microseconds until something is due.
    pub fn due(&self, now: u64) -> Option<u64> {
        match self.state {
            State::Runs(since) => Some(self.trial_age?.saturating_sub(micros(since, now))),
            State::Waits(until) => Some(micros(now, until.max(now))),
            State::Gone => None,
        }
    }
}
