//! Results of the calls: how often each was made, what it returned, and which is drawn next.

use std::collections::{BTreeMap, HashMap};

use abi::{Support, Via};
use conformance::check::{Failure, Outcome, ensure};
use hostile::Dice;

use crate::grammar::{ArgumentHints, known};

/// How often a call must have been made before chance alone decides.
const OFTEN: u64 = 4;
/// From this number of calls on, each call must have been made and have succeeded.
const ENOUGH: u64 = 50_000;
/// The part of all calls that must succeed, in percent.
const SUCCEED: u64 = 30;
/// The part of each call that must succeed if it was made [`SEVERAL`] times, in percent.
const EACH: u64 = 5;
/// From this number on, [`EACH`] counts.
const SEVERAL: u64 = 20;

/// A call and its results.
pub struct Entry {
    /// Its definition.
    pub info: &'static abi::SyscallInfo,
    /// What is known about its arguments.
    pub known: Vec<ArgumentHints>,
    /// Its address.
    pub function: u64,
    /// How often it is drawn, relative to others.
    weight: u64,
    /// The sum of the weights up to this call, adjusted by the results so far.
    upto: u64,
    reached: u64,
    succeeded: u64,
    /// The same for an attacker that tries to exhaust something.
    wanted: u64,
    got: u64,
    /// How often each status was returned; `None` if the call did not return.
    answers: BTreeMap<Option<i32>, u64>,
}

impl Entry {
    /// Whether the call seldom succeeds with arguments from what is there.
    pub fn is_rare(&self) -> bool {
        self.succeeded * 5 < self.reached
    }
}

/// The counts of a run.
pub struct Counts {
    /// All calls.
    pub table: Vec<Entry>,
    names: HashMap<&'static str, usize>,
    weights: u64,
    /// The number of calls made.
    pub made: u64,
    succeeded: u64,
    /// Hash over all results, in the order in which they are read (FNV-1a).
    digest: u64,
    /// The number of processes that made them.
    pub attackers: u64,
}

impl Counts {
    /// The counts at the beginning of a run.
    pub fn new() -> Result<Counts, Failure> {
        let entry = |info: &'static abi::SyscallInfo| {
            let function = zx::sys::address(info.name).ok_or_else(|| format!("{} is not in the vDSO", info.name))?;
            let (known, weight, function) = (known(info), weight(info), function as u64);
            let answers = BTreeMap::new();
            Ok(Entry { info, known, function, weight, upto: 0, reached: 0, succeeded: 0, wanted: 0, got: 0, answers })
        };
        let table = abi::SYSCALLS.iter().map(entry).collect::<Result<Vec<_>, Failure>>()?;
        let names = table.iter().enumerate().map(|(n, entry)| (entry.info.name, n)).collect();
        let digest = 0xcbf2_9ce4_8422_2325;
        let mut counts = Counts { table, names, weights: 0, made: 0, succeeded: 0, digest, attackers: 0 };
        counts.weigh();
        Ok(counts)
    }

    /// A call's index in the table.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.names.get(name).copied()
    }

    /// A call that succeeds leads further into the system, so it is drawn up to seven times as often.
    pub fn weigh(&mut self) {
        self.weights = 0;
        for entry in &mut self.table {
            let gain = 6 * entry.weight * entry.succeeded / entry.reached.max(1);
            self.weights += entry.weight + gain;
            entry.upto = self.weights;
        }
    }

    /// A call that makes something which can be used up.
    pub fn draw_exhausting(&self, dice: &mut Dice) -> usize {
        let exhausts = self.table.iter().enumerate().filter(|(_, entry)| entry.info.tests().exhausts);
        dice.pick(&exhausts.map(|(place, _)| place).collect::<Vec<_>>())
    }

    /// The next call to make.
    pub fn draw(&self, dice: &mut Dice) -> usize {
        // By chance alone, one of the rare calls would sometimes be missing.
        if dice.one_in(16)
            && let Some((rarest, entry)) = self.table.iter().enumerate().min_by_key(|(_, entry)| entry.reached)
            && entry.reached < OFTEN
        {
            return rarest;
        }
        let drawn = dice.below(self.weights);
        self.table.partition_point(|entry| entry.upto <= drawn)
    }

    /// Records the result of a call. An attacker that exhausts something fails in the end, which says nothing about
    /// others.
    pub fn note(&mut self, which: u64, call: usize, result: Option<u64>, is_greed: bool) {
        let entry = &mut self.table[call];
        let is_status = entry.info.returns == "status";
        let succeeded = match result {
            Some(result) => !is_status || result as i32 >= 0,
            None => ends_caller(entry.info),
        };
        let counted =
            if is_greed { [&mut entry.wanted, &mut entry.got] } else { [&mut entry.reached, &mut entry.succeeded] };
        let [made, well] = counted;
        *made += 1;
        *well += u64::from(succeeded);
        let answer = result.map(|result| if is_status && result as i32 <= 0 { result as i32 } else { 0 });
        *entry.answers.entry(answer).or_default() += 1;
        self.made += 1;
        self.succeeded += u64::from(succeeded);
        for word in [which, call as u64, result.unwrap_or(u64::MAX)] {
            for byte in word.to_le_bytes() {
                self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
            }
        }
    }

    /// Prints the progress.
    pub fn progress(&self) {
        println!("fuzz: {} calls made, {} succeeded", self.made, self.succeeded);
    }

    /// Prints each call's counts and results, and a line about all.
    pub fn tell(&self) {
        for entry in &self.table {
            let Entry { reached, succeeded, wanted, got, .. } = entry;
            println!("call {} {reached} {succeeded} {wanted} {got}", entry.info.name);
            for (answer, count) in &entry.answers {
                match answer {
                    Some(status) => println!("answer {} {} {count}", entry.info.name, zx::Status(*status)),
                    None => println!("answer {} none {count}", entry.info.name),
                }
            }
        }
        let percent = self.succeeded as f64 * 100.0 / self.made.max(1) as f64;
        println!(
            "fuzz: {} calls by {} processes, {} succeeded ({percent:.1} %), digest {:016x}",
            self.made, self.attackers, self.succeeded, self.digest
        );
    }

    /// Checks whether the calls got far enough into the system, if there are enough of them to tell.
    pub fn check(&self) -> Outcome {
        if self.made < ENOUGH {
            return Ok(());
        }
        let names = |which: &dyn Fn(&&Entry) -> bool| {
            self.table.iter().filter(which).map(|entry| entry.info.name).collect::<Vec<_>>().join(", ")
        };
        let missing = names(&|entry| entry.reached == 0);
        ensure(missing.is_empty(), &format!("never made: {missing}"))?;
        let rare = names(&|entry| {
            let supported = !matches!(entry.info.support, Support::Unsupported(_));
            let judged = supported && entry.info.tests().seldom.is_none() && entry.reached >= SEVERAL;
            judged && entry.succeeded * 100 < entry.reached * EACH
        });
        ensure(rare.is_empty(), &format!("fewer than {EACH} % succeeded of {rare}"))?;
        ensure(self.succeeded * 100 >= self.made * SUCCEED, "too few calls succeeded")
    }
}

/// Whether a correct use of the call ends its thread.
fn ends_caller(call: &abi::SyscallInfo) -> bool {
    call.noreturn || call.name.ends_with("close_thread_exit")
}

/// How often a call is drawn. Unsupported calls, calls that wait, and calls that end their caller are drawn less often,
/// except for some of which one in five succeeds: with few of them, chance alone would fail the check in some runs.
fn weight(call: &abi::SyscallInfo) -> u64 {
    let ends = ["task_kill", "process_exit", "thread_exit", "close_thread_exit"];
    match (call.via, call.support) {
        _ if call.noreturn || ends.iter().any(|name| call.name.ends_with(name)) => 2,
        (_, Support::Unsupported(_)) => 1,
        (Via::Vdso, _) => 3,
        _ if call.blocking && !call.name.contains("channel_call") => 15,
        _ => 40,
    }
}
