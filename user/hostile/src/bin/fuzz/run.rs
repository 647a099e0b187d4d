//! A run: attackers, neighbours, counts, and what is found in the end.

use std::process::{Command, ExitCode, Stdio};

use abi::{Rights, Support, Via};
use conformance::census::Counter;
use conformance::check::{Failure, Outcome, ensure};
use conformance::tiny::OwnJob;
use hostile::Dice;
use hostile::neighbour::{Done, Neighbour};
use zx::{
    AsHandleRef, Channel, Clock, Counter as CounterObject, Duration, Event, EventPair, Fifo, Handle, MonotonicInstant,
    Pager, Port, Resource, Signals, Socket, Timer, Vmo,
};

use crate::attacker::{Attacker, BATCH, Came, Laid, SCRIBBLE};
use crate::grammar::{Drawer, Known, known};

/// Hostile processes at a time.
const ATTACKERS: usize = 3;
/// Ordinary ones beside them.
const NEIGHBOURS: usize = 2;
/// What the hostile ones may have of memory, together.
const MEMORY: u64 = 64 << 20;
/// How long a call may wait before its thread is fetched.
const PATIENCE: Duration = Duration::from_millis(4);
/// Batches between two looks at the neighbours.
const LOOK: u64 = 1000;
/// Batches between two weighings of the calls.
const WEIGH: u64 = 50;
/// Batches between two lines on how far it is.
const PROGRESS: u64 = 1000;
/// How many of a hundred calls must succeed, where there are enough to count.
const SUCCEED: u64 = 30;
/// Calls from which on every call must have been reached.
const ENOUGH: u64 = 50_000;

/// How often a call must have been made before chance alone decides.
const OFTEN: u64 = 4;

/// A call, and what came of it.
struct Entry {
    info: &'static abi::SyscallInfo,
    known: Vec<Known>,
    function: u64,
    /// How often it is drawn, against others.
    weight: u64,
    /// The sum of the weights up to its own, as they are by what has come of the calls so far.
    upto: u64,
    reached: u64,
    succeeded: u64,
}

/// The counts of a run.
struct Counts {
    table: Vec<Entry>,
    weights: u64,
    made: u64,
    succeeded: u64,
    /// Over all results, in the order in which they are looked at (FNV-1a).
    digest: u64,
    attackers: u64,
}

impl Counts {
    fn new() -> Result<Counts, Failure> {
        let entry = |info: &'static abi::SyscallInfo| {
            let function = zx::sys::address(info.name).ok_or_else(|| format!("{} is not in the vDSO", info.name))?;
            let (known, weight, function) = (known(info), weight(info), function as u64);
            Ok(Entry { info, known, function, weight, upto: 0, reached: 0, succeeded: 0 })
        };
        let table = abi::SYSCALLS.iter().map(entry).collect::<Result<Vec<_>, Failure>>()?;
        let digest = 0xcbf2_9ce4_8422_2325;
        let mut counts = Counts { table, weights: 0, made: 0, succeeded: 0, digest, attackers: 0 };
        counts.weigh();
        Ok(counts)
    }

    /// What succeeds leads further into the system, so it is drawn up to seven times as often.
    fn weigh(&mut self) {
        self.weights = 0;
        for entry in &mut self.table {
            let gain = 6 * entry.weight * entry.succeeded / entry.reached.max(1);
            self.weights += entry.weight + gain;
            entry.upto = self.weights;
        }
    }

    fn draw(&self, dice: &mut Dice) -> usize {
        // Left to chance alone, one of the rare ones would now and then be missing.
        if dice.one_in(16)
            && let Some((rarest, entry)) = self.table.iter().enumerate().min_by_key(|(_, entry)| entry.reached)
            && entry.reached < OFTEN
        {
            return rarest;
        }
        let drawn = dice.below(self.weights);
        self.table.partition_point(|entry| entry.upto <= drawn)
    }

    fn note(&mut self, which: u64, call: usize, result: Option<u64>) {
        let entry = &mut self.table[call];
        let succeeded = match result {
            Some(result) => entry.info.returns != "status" || result as i32 >= 0,
            None => entry.info.noreturn,
        };
        entry.reached += 1;
        entry.succeeded += u64::from(succeeded);
        self.made += 1;
        self.succeeded += u64::from(succeeded);
        for word in [which, call as u64, result.unwrap_or(u64::MAX)] {
            for byte in word.to_le_bytes() {
                self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
            }
        }
    }
}

/// How often a call is drawn: what is not built, what waits and what ends its caller less often.
fn weight(call: &abi::SyscallInfo) -> u64 {
    let ends = ["task_kill", "process_exit", "thread_exit", "vmar_destroy", "close_thread_exit"];
    match (call.via, call.support) {
        _ if call.noreturn || ends.iter().any(|name| call.name.ends_with(name)) => 2,
        (_, Support::Unsupported(_)) => 1,
        (Via::Vdso, _) => 3,
        _ if call.blocking => 15,
        _ => 40,
    }
}

/// What attackers are given beside what they make.
struct Supplies {
    resources: Vec<Resource>,
    /// Other ends of what earlier ones were given, and handles to those themselves.
    others: Vec<Handle>,
}

impl Supplies {
    fn new() -> Result<Supplies, Failure> {
        let root = zx::startup::resource().ok_or("this program was not given the root resource")?;
        let system = abi::ZX_RSRC_KIND_SYSTEM;
        // What can be held only by who is trusted with the machine is left out: power, tracing, the host's line.
        let parts = [
            (system, abi::ZX_RSRC_SYSTEM_VMEX_BASE, 1),
            (system, abi::ZX_RSRC_SYSTEM_INFO_BASE, 1),
            (system, abi::ZX_RSRC_SYSTEM_CPU_BASE, 1),
            (system, abi::ZX_RSRC_SYSTEM_IOMMU_BASE, 1),
            (system, abi::ZX_RSRC_SYSTEM_MSI_BASE, 1),
            (system, abi::ZX_RSRC_SYSTEM_DEBUGLOG_BASE, 1),
            (abi::ZX_RSRC_KIND_IOPORT, 0x300, 16),
        ];
        let create = |(kind, base, size)| root.create_child(kind, base, size, "hostile");
        let resources = parts.into_iter().map(create).collect::<Result<Vec<_>, _>>()?;
        Ok(Supplies { resources, others: Vec::new() })
    }

    /// Handles for a new attacker.
    fn draw(&mut self, dice: &mut Dice) -> Result<Vec<Handle>, Failure> {
        let mut handles: Vec<Handle> = Vec::new();
        for resource in &self.resources {
            if dice.one_in(2) {
                handles.push(resource.duplicate(Rights::SAME_RIGHTS)?.into());
            }
        }
        handles.extend([Vmo::create(8 * 4096, 0)?.into(), Vmo::create(16 * 4096, abi::ZX_VMO_RESIZABLE)?.into()]);
        handles.extend([Port::create()?.into(), Event::create()?.into(), Timer::create(0)?.into()]);
        handles.extend([Pager::create()?.into(), CounterObject::create()?.into()]);
        handles.extend([Clock::create(abi::ZX_CLOCK_OPT_MAPPABLE)?.into(), Port::create_for_interrupts()?.into()]);
        let (a, b) = Channel::create()?;
        handles.extend([a.into(), b.into()]);
        let (a, b) = Socket::create(0)?;
        handles.extend([a.into(), b.into()]);
        // One end of each, the other is somebody else's.
        let (a, b) = Channel::create()?;
        let (c, d) = EventPair::create()?;
        let (e, f) = Fifo::create(8, 8)?;
        let (g, h) = Socket::create(abi::ZX_SOCKET_DATAGRAM)?;
        let near: [Handle; 4] = [a.into(), c.into(), e.into(), g.into()];
        let far: [Handle; 4] = [b.into(), d.into(), f.into(), h.into()];
        handles.extend(near);
        let shared = Vmo::create(8 * 4096, 0)?;
        handles.push(shared.duplicate(Rights::SAME_RIGHTS)?.into());
        handles.append(&mut self.others);
        self.others.extend(far);
        self.others.push(shared.into());
        handles.truncate(56);
        Ok(handles)
    }
}

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
        let neighbours = (0..NEIGHBOURS).map(|_| Neighbour::start()).collect::<Result<_, _>>()?;
        let (dice, supplies) = (Dice::new(seed), Supplies::new()?);
        Ok(Round { dice, job, vmar, supplies, attackers: Vec::new(), neighbours })
    }

    /// Makes calls until there are so many.
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
                while let Came::Ready(which) = self.attackers[number].receive(&mut self.dice)? {
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
            self.bury(counts);
        }
        for (neighbour, before) in self.neighbours.iter_mut().zip(before) {
            neighbour.goes_on()?;
            ensure(neighbour.done()?.since(before)[0] > 0, "a neighbour did nothing all the while")?;
        }
        Ok(())
    }

    /// One more attacker.
    fn recruit(&mut self, counts: &mut Counts) -> Outcome {
        let handles = self.supplies.draw(&mut self.dice)?;
        let mut attacker = Attacker::new(&self.job, self.vmar, handles, &mut self.dice)?;
        counts.attackers += 1;
        for which in 0..attacker.workers() {
            attacker.look();
            let batch = draw(&mut self.dice, counts, &attacker, which);
            attacker.post(which, batch)?;
        }
        self.attackers.push(attacker);
        Ok(())
    }

    /// A worker has come to the end of its batch: here is the next one.
    fn next(&mut self, counts: &mut Counts, number: usize, which: usize) -> Outcome {
        let attacker = &mut self.attackers[number];
        let tag = counts.attackers << 8 | (number as u64) << 4 | which as u64;
        let made = attacker.collect(which);
        let helpless = !made.is_empty() && made.iter().all(|made| made.result.is_none());
        made.into_iter().for_each(|made| counts.note(tag, made.call, made.result));
        attacker.look();
        let batch = draw(&mut self.dice, counts, attacker, which);
        attacker.post(which, batch)?;
        attacker.lives = attacker.lives.saturating_sub(1);
        if attacker.lives == 0 || helpless {
            // In the midst of its calls; or it has unmapped the code that makes them.
            attacker.kill();
        }
        Ok(())
    }

    /// Now and then a line on how far it is.
    fn progress(counts: &Counts, batches: u64) {
        if batches.is_multiple_of(PROGRESS) {
            println!("fuzz: {} calls made, {} succeeded", counts.made, counts.succeeded);
        }
    }

    /// Lets go of those that have ended.
    fn bury(&mut self, counts: &mut Counts) {
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
                attacker.collect(which).into_iter().for_each(|made| counts.note(tag, made.call, made.result));
            }
        }
    }
}

fn waits_for(attacker: &Attacker<'_>) -> abi::zx_wait_item_t {
    let waitfor = Signals::CHANNEL_READABLE | Signals::CHANNEL_PEER_CLOSED;
    abi::zx_wait_item_t { handle: attacker.exceptions.raw_handle(), waitfor: waitfor.bits(), pending: 0 }
}

/// A batch of calls for a worker.
fn draw(dice: &mut Dice, counts: &Counts, attacker: &Attacker<'_>, which: usize) -> Vec<Laid> {
    let mut batch = Vec::with_capacity(BATCH);
    // What it holds is not to grow without end.
    let mut to_close = attacker.view.handles.len().saturating_sub(200);
    for n in 0..BATCH {
        if dice.one_in(12) {
            // It writes over its own memory, arguments of calls that are under way among it.
            let mask = dice.pick(&[0xff8, 0xfff8, 0x1fff8]);
            let words = [attacker.view.arena.0, 1 + dice.below(64), dice.word(), mask, 0, 0, 0, 0];
            batch.push(Laid { call: None, function: SCRIBBLE, words, room: Vec::new() });
            continue;
        }
        if to_close > 0 && dice.one_in(2) {
            to_close -= 1;
            let call = counts.table.iter().position(|entry| entry.info.nr == abi::nr::HANDLE_CLOSE);
            let (value, ..) = dice.pick(&attacker.view.handles);
            let words = [value.into(), 0, 0, 0, 0, 0, 0, 0];
            let function = call.map_or(0, |call| counts.table[call].function);
            batch.push(Laid { call, function, words, room: Vec::new() });
            continue;
        }
        let call = counts.draw(dice);
        let entry = &counts.table[call];
        let drawn = Drawer::new(dice, &attacker.view, attacker.places(which, n)).draw(entry.info, &entry.known);
        batch.push(Laid { call: Some(call), function: entry.function, words: drawn.words, room: drawn.room });
    }
    batch
}

/// Attacks until so many calls are made, and lets go of everything.
fn round(seed: u64, counts: &mut Counts, calls: u64) -> Outcome {
    let vmar = zx::startup::vmar_root_self();
    let mut round = Round::new(seed, &vmar)?;
    let attacked = round.attack(counts, calls);
    round.attackers.iter().for_each(Attacker::kill);
    attacked
}

/// What a worker does: makes the calls, beside neighbours, and says what it found.
pub fn work(calls: u64, seed: u64) -> ExitCode {
    let whole = || -> Outcome {
        let mut counts = Counts::new()?;
        let attacked = round(seed, &mut counts, calls);
        tell(&counts);
        attacked?;
        if calls >= ENOUGH {
            let missing: Vec<_> = counts.table.iter().filter(|entry| entry.reached == 0).map(|e| e.info.name).collect();
            ensure(missing.is_empty(), &format!("never reached: {}", missing.join(", ")))?;
            ensure(counts.succeeded * 100 >= counts.made * SUCCEED, "too few calls succeeded")?;
        }
        Ok(())
    };
    verdict(whole())
}

/// What the first process does: has a worker make the calls, and sees whether everything comes back with its end.
pub fn supervise(calls: u64, seed: u64) -> ExitCode {
    let whole = || -> Outcome {
        let counter = Counter::new().ok_or("the kernel does not tell its counts")?;
        // What this process and the system use for good when they do something for the first time.
        worker(1000, seed, false)?;
        let before = counter.take().ok_or("the kernel does not tell its counts")?;
        worker(calls, seed, true)?;
        counter.returned(&before).map_err(|what| format!("not everything has come back: {what}"))?;
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

/// Runs a worker to its end; its words go where this process's go, or nowhere.
fn worker(calls: u64, seed: u64, is_heard: bool) -> Outcome {
    let program = std::env::args().next().ok_or("this program does not know its name")?;
    let mut command = Command::new(program);
    command.arg("--work").arg(calls.to_string()).arg(seed.to_string());
    let output = if is_heard { Stdio::inherit() } else { Stdio::null() };
    let status = command.stdin(Stdio::null()).stdout(output).status()?;
    ensure(status.success(), &format!("the calls ended with {status}"))
}

fn tell(counts: &Counts) {
    for entry in &counts.table {
        println!("call {} {} {}", entry.info.name, entry.reached, entry.succeeded);
    }
    let percent = counts.succeeded as f64 * 100.0 / counts.made.max(1) as f64;
    println!(
        "fuzz: {} calls by {} processes, {} succeeded ({percent:.1} %), digest {:016x}",
        counts.made, counts.attackers, counts.succeeded, counts.digest
    );
}
