//! What is known of the lives of one server or component, and what its policy says of the next.

use description::{Restart, Trial};
use sel4::Tcb;

use crate::console::{counts, micros, tsc};
use crate::error::{Context, Error};

/// Microseconds after which a trial of which nothing came is made again.
const AGAIN: u64 = 10_000;

/// Where its owner stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It runs; since this reading of the processor's counter.
    Runs(u64),
    /// It waits for its next life, which begins then.
    Waits(u64),
    /// There is no next life.
    Gone,
}

/// See the module's description.
#[derive(Clone, Copy)]
pub struct Watch {
    /// See [`State`].
    pub state: State,
    /// Lives so far, this one among them.
    pub lives: u32,
    /// Ends since the first that counts.
    pub ends: u32,
    /// When that was.
    first_end: u64,
    /// When it ended last.
    pub ended: u64,
    /// How long taking back took then, in microseconds.
    pub reclaimed: u64,
    /// Trials that are left.
    trials: u32,
    /// The age at which the next ends this life, if it does.
    trial_age: Option<u64>,
    /// Where the trial that is going on ended it.
    trial: Option<u64>,
    /// The source of chance.
    chance: u64,
}

impl Watch {
    /// Of nobody.
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

    /// Of somebody who has just been started.
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

    /// Ends the life of its thread where it is, if a trial is due.
    ///
    /// A server that has just stopped a component, its client, lets it go on with the registers that it read: then nothing comes of
    /// it, and it is tried again.
    pub fn try_it(&mut self, now: u64, tcb: Tcb) -> Result<(), Error> {
        let State::Runs(since) = self.state else { return Ok(()) };
        let lived = micros(since, now);
        if self.trial_age.is_none_or(|age| lived < age) {
            return Ok(());
        }
        self.trial_age = Some(lived.saturating_add(AGAIN));
        // Its next instruction is where there is none: what follows is what follows any fault.
        let mut registers = tcb.read_registers(true).context("ending a life")?;
        if registers.rip != 0 {
            self.trial = Some(registers.rip);
        }
        registers.rip = 0;
        tcb.write_registers(&registers, true).context("ending a life")
    }

    /// Where a trial ended it, if one did.
    pub fn was_on_trial(&mut self) -> Option<u64> {
        let place = self.trial.take()?;
        self.trials = self.trials.saturating_sub(1);
        Some(place)
    }

    /// It has ended at that reading of the processor's counter. Gives how many counts the next life has to wait, if there
    /// is one.
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

    /// In how many microseconds something of it is due.
    pub fn due(&self, now: u64) -> Option<u64> {
        match self.state {
            State::Runs(since) => Some(self.trial_age?.saturating_sub(micros(since, now))),
            State::Waits(until) => Some(micros(now, until.max(now))),
            State::Gone => None,
        }
    }
}
