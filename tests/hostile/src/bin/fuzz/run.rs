//! A run: attackers, neighbours, counts, and the final check.

use std::process::{Command, ExitCode, Stdio};

use conformance::census::Counter;
use conformance::check::{Failure, Outcome, ensure};
use conformance::test_process::OwnJob;
use hostile::Dice;
use hostile::neighbour::{Done, Neighbour};
use zx::{AsHandleRef, Duration, MonotonicInstant, Signals};

use crate::attacker::{Attacker, ExceptionMeaning};
use crate::counts::Counts;
use crate::drawing::{self, GREEDY};
use crate::supplies::Supplies;

/// Hostile processes at a time.
const ATTACKERS: usize = 3;
/// Ordinary processes beside them.
const NEIGHBOURS: usize = 2;
/// The memory limit of all hostile processes together.
const MEMORY: u64 = 64 << 20;
/// The memory limit of one that tries to exhaust something.
const SHARE: u64 = 24 << 20;
/// How long a call may wait before its thread is fetched.
const PATIENCE: Duration = Duration::from_millis(4);
/// Batches between two checks of the neighbours.
const LOOK: u64 = 1000;
/// Batches between two adjustments of the weights.
const WEIGH: u64 = 50;
/// Batches between two progress lines.
const PROGRESS: u64 = 1000;
/// Calls of one worker: leaks show at its end.
const CALLS_OF_ONE: u64 = 500_000;
/// Frames that services may keep after many workers, because they held more at once than ever before.
const FRAMES_OF_SERVICES: u64 = 16;
/// One round of attacks.
struct Round<'v> {
    dice: Dice,
    job: OwnJob,
    vmar: &'v zx::Vmar,
    supplies: Supplies,
    attackers: Vec<Attacker<'v>>,
    neighbours: Vec<Neighbour>,
}

impl<'v> Round<'v> {
    fn new(seed: u64, vmar: &'v zx::Vmar) -> Result<Round<'v>, Failure> {
        let job = OwnJob::new()?;
        job.set_property(abi::HAFNON_PROP_JOB_MEMORY_LIMIT, &MEMORY.to_le_bytes())?;
        let neighbours = (0..NEIGHBOURS).map(|_| Neighbour::start_calm()).collect::<Result<_, _>>()?;
        let (dice, supplies) = (Dice::new(seed), Supplies::new()?);
        Ok(Round { dice, job, vmar, supplies, attackers: Vec::new(), neighbours })
    }

    /// Makes calls until `calls` have been made.
    fn attack(&mut self, counts: &mut Counts, calls: u64) -> Outcome {
        let before: Vec<Done> = self.neighbours.iter_mut().map(Neighbour::done).collect::<Result<_, _>>()?;
        let mut batches: u64 = 0;
        while counts.made < calls {
            while self.attackers.len() < ATTACKERS {
                self.recruit(counts)?;
            }
            let mut items: Vec<_> = self.attackers.iter().map(waits_for).collect();
            let found = zx::wait_many(&mut items, MonotonicInstant::after(PATIENCE));
            let now = MonotonicInstant::now();
            for number in 0..self.attackers.len() {
                while let ExceptionMeaning::Ready(which) = self.attackers[number].receive(&mut self.dice)? {
                    self.next(counts, number, which)?;
                    batches += 1;
                    if batches.is_multiple_of(WEIGH) {
                        counts.weigh();
                    }
                    Self::progress(counts, batches);
                    if batches.is_multiple_of(LOOK) {
                        self.neighbours.iter_mut().try_for_each(Neighbour::goes_on)?;
                    }
                }
                if found.is_err() {
                    self.attackers[number].fetch(MonotonicInstant(now.0 - PATIENCE.into_nanos()));
                }
            }
            self.bury(counts)?;
        }
        for (neighbour, before) in self.neighbours.iter_mut().zip(before) {
            neighbour.goes_on()?;
            ensure(neighbour.done()?.since(before)[0] > 0, "a neighbour did nothing all the while")?;
        }
        Ok(())
    }

    /// Creates one more attacker.
    fn recruit(&mut self, counts: &mut Counts) -> Outcome {
        let (gifts, handles) = (self.supplies.gifts()?, self.supplies.draw(&mut self.dice)?);
        let mut attacker = Attacker::new(&self.job, self.vmar, gifts, handles, &mut self.dice)?;
        counts.attackers += 1;
        if self.dice.one_in(GREEDY) {
            attacker.be_greedy(Some(counts.draw_exhausting(&mut self.dice)), SHARE)?;
        }
        for which in 0..attacker.workers() {
            attacker.look();
            let batch = drawing::draw(&mut self.dice, counts, &attacker, which);
            attacker.post(which, batch)?;
        }
        self.attackers.push(attacker);
        Ok(())
    }

    /// A worker has finished its batch: gives it the next one.
    fn next(&mut self, counts: &mut Counts, number: usize, which: usize) -> Outcome {
        let attacker = &mut self.attackers[number];
        let tag = counts.attackers << 8 | (number as u64) << 4 | which as u64;
        let made = attacker.collect(which);
        let helpless = !made.is_empty() && made.iter().all(|made| made.result.is_none());
        let greed = attacker.greed;
        made.into_iter().for_each(|made| counts.note(tag, made.call, made.result, greed == Some(made.call)));
        attacker.look();
        let batch = drawing::draw(&mut self.dice, counts, attacker, which);
        attacker.post(which, batch)?;
        attacker.lives = attacker.lives.saturating_sub(1);
        if attacker.lives == 0 || helpless {
            // In the middle of its calls, or after it has unmapped the code that makes them.
            attacker.kill();
        }
        Ok(())
    }

    /// Prints the progress now and then.
    fn progress(counts: &Counts, batches: u64) {
        if batches.is_multiple_of(PROGRESS) {
            counts.progress();
        }
    }

    /// Removes the attackers that have ended.
    fn bury(&mut self, counts: &mut Counts) -> Outcome {
        let mut number = 0;
        while number < self.attackers.len() {
            if !self.attackers[number].has_ended() {
                number += 1;
                continue;
            }
            let mut attacker = self.attackers.remove(number);
            attacker.kill();
            let tag = counts.attackers << 8 | (number as u64) << 4;
            for which in 0..attacker.workers() {
                for made in attacker.collect(which) {
                    counts.note(tag, made.call, made.result, attacker.greed == Some(made.call));
                }
            }
            self.supplies.release()?;
        }
        Ok(())
    }
}

fn waits_for(attacker: &Attacker<'_>) -> abi::zx_wait_item_t {
    let waitfor = Signals::CHANNEL_READABLE | Signals::CHANNEL_PEER_CLOSED;
    abi::zx_wait_item_t { handle: attacker.exceptions.raw_handle(), waitfor: waitfor.bits(), pending: 0 }
}

/// Attacks until `calls` have been made, and releases everything.
fn round(seed: u64, counts: &mut Counts, calls: u64) -> Outcome {
    let vmar = zx::startup::vmar_root_self();
    let mut round = Round::new(seed, &vmar)?;
    let attacked = round.attack(counts, calls);
    round.attackers.iter().for_each(Attacker::kill);
    attacked.and(round.supplies.await_unpinned())
}

/// A worker: makes the calls beside neighbours, and reports what it found.
pub fn work(calls: u64, seed: u64) -> ExitCode {
    let whole = || -> Outcome {
        let mut counts = Counts::new()?;
        let attacked = round(seed, &mut counts, calls);
        counts.tell();
        attacked?;
        counts.check()
    };
    verdict(whole())
}

/// The first process: runs workers that make the calls, and checks that everything comes back at their end.
pub fn supervise(calls: u64, seed: u64) -> ExitCode {
    let whole = || -> Outcome {
        let counter = Counter::new().ok_or("the kernel does not tell its counts")?;
        // What this process and the system allocate for good when they do something for the first time.
        worker(1000, seed, false)?;
        let before = counter.take().ok_or("the kernel does not tell its counts")?;
        let workers = calls.div_ceil(CALLS_OF_ONE).max(1);
        let before = before.allowing("frames", if workers > 1 { FRAMES_OF_SERVICES } else { 0 });
        for number in 0..workers {
            let (calls, seed) = (calls.div_ceil(workers), seed.wrapping_add(number << 41));
            worker(calls, seed, true)?;
            let lost = |what| format!("not everything has come back after {calls} calls of seed {seed}: {what}");
            counter.returned(&before).map_err(lost)?;
        }
        println!("fuzz: all is well");
        Ok(())
    };
    verdict(whole())
}

fn verdict(outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            println!("fuzz: FAILED: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a worker to its end; its output goes to this process's output, or nowhere.
fn worker(calls: u64, seed: u64, is_heard: bool) -> Outcome {
    let program = std::env::args().next().ok_or("this program does not know its name")?;
    let mut command = Command::new(program);
    command.arg("--work").arg(calls.to_string()).arg(seed.to_string());
    let output = if is_heard { Stdio::inherit() } else { Stdio::null() };
    let status = command.stdin(Stdio::null()).stdout(output).status()?;
    ensure(status.success(), &format!("the calls ended with {status}"))
}
