//! A neighbour: a process that does ordinary work, checks each of its answers, and counts.
//!
//! It is started as a child of an attacker's program, `PROGRAM --child neighbour`, outside of the attacker's job. Three
//! threads work: one echoes messages with handles over channels, one writes, clones and maps VMOs and checks their
//! content, one sets timers and takes packets from a port. A *busy* neighbour has a fourth thread, which only computes
//! and never waits. A *served* one does work that needs services instead: it writes and reads files, connects sockets,
//! and starts programs (`crate::served`). A line on its standard input asks how often each thread has done its work; an
//! error ends the process with a message.

use std::hint::black_box;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use abi::{ZX_VM_PERM_READ, ZX_VM_PERM_WRITE, ZX_VMO_CHILD_SNAPSHOT};
use conformance::check::{Failure, Outcome, ensure, equal};
use zx::{AsHandleRef, Channel, Event, Handle, MonotonicInstant, Port, Signals, Timer, Vmo};

use crate::Dice;

/// The argument after `--child` that makes a program a neighbour.
pub const NAME: &str = "neighbour";
/// The argument for a busy neighbour.
pub const BUSY: &str = "busy-neighbour";

/// The argument for a calm neighbour, which works less often: for runs in which others do most of the work.
pub const CALM: &str = "calm-neighbour";
/// The argument for a served neighbour.
pub const SERVED: &str = "served-neighbour";

/// The number of threads that make calls.
const CALLS: usize = 3;
/// The number of kinds of threads.
const KINDS: usize = CALLS + 1;
/// How often each thread has done its work.
static DONE: [AtomicU64; KINDS] = [const { AtomicU64::new(0) }; KINDS];
/// The pause of each thread between two pieces of work, and that of a calm or served neighbour.
const PAUSE: Duration = Duration::from_millis(2);
const LONG_PAUSE: Duration = Duration::from_millis(20);
/// How long a neighbour may make no progress, beside attackers of its own priority.
const PATIENCE: Duration = Duration::from_secs(20);

/// One piece of work, which a neighbour repeats.
pub type Work = fn(&mut Dice) -> Outcome;

/// The neighbour's own side: works until its input ends.
pub fn work(busy: bool) -> ExitCode {
    if busy {
        thread::spawn(compute);
    }
    work_at([echoes, memory, time], PAUSE)
}

/// The same for a calm neighbour.
pub fn work_calmly() -> ExitCode {
    work_at([echoes, memory, time], LONG_PAUSE)
}

/// The same for a served neighbour.
pub fn work_served() -> ExitCode {
    work_at(crate::served::WORK, LONG_PAUSE)
}

fn work_at(work: [Work; CALLS], pause: Duration) -> ExitCode {
    for (kind, work) in work.into_iter().enumerate() {
        thread::spawn(move || {
            let mut dice = Dice::new(kind as u64);
            loop {
                if let Err(failure) = work(&mut dice) {
                    // The next request for the counts gets this line instead of an answer.
                    println!("wrong: {failure}");
                    std::process::exit(1);
                }
                DONE[kind].fetch_add(1, Relaxed);
                // Leaves time for the attackers, too.
                thread::sleep(pause);
            }
        });
    }
    for _ in io::stdin().lock().lines() {
        let counts: Vec<String> = DONE.iter().map(|count| count.load(Relaxed).to_string()).collect();
        println!("done {}", counts.join(" "));
    }
    ExitCode::SUCCESS
}

/// Computes without end, and checks the result.
fn compute() {
    const STEPS: u64 = 20_000;
    let result = || {
        let mut dice = Dice::new(black_box(1));
        (0..STEPS).fold(0, |sum: u64, _| sum.rotate_left(5) ^ dice.word())
    };
    let right = result();
    while result() == right {
        DONE[CALLS].fetch_add(1, Relaxed);
    }
    println!("wrong: a sum");
    std::process::exit(1);
}

/// Sends messages back and forth between two threads.
fn echoes(dice: &mut Dice) -> Outcome {
    let (here, there) = Channel::create()?;
    let echo = thread::spawn(move || {
        let (mut bytes, mut handle) = ([0; 512], [None]);
        loop {
            let Ok(size) = there.read_wait(&mut bytes, &mut handle, MonotonicInstant::INFINITE) else { return };
            bytes[..size.bytes].reverse();
            if there.write_handles(&bytes[..size.bytes], handle[0].take()).is_err() {
                return;
            }
        }
    });
    for _ in 0..8 {
        let message: Vec<u8> = (0..1 + dice.below(500)).map(|_| dice.word() as u8).collect();
        let event = Event::create()?;
        let koid = zx::Info::koid(&event)?;
        here.write_handles(&message, [Handle::from(event)])?;
        let (mut bytes, mut handle) = ([0; 512], [None]);
        let size = here.read_wait(&mut bytes, &mut handle, MonotonicInstant::INFINITE)?;
        bytes[..size.bytes].reverse();
        ensure(bytes[..size.bytes] == message, "an echo is not what was sent")?;
        let event = Event::from(handle[0].take().ok_or("an echo without its handle")?);
        equal(zx::Info::koid(&event)?, koid)?;
    }
    drop(here);
    echo.join().map_err(|_| "the echo panicked".into())
}

/// Writes memory, clones it, maps it.
fn memory(dice: &mut Dice) -> Outcome {
    const PAGES: u64 = 8;
    let vmo = Vmo::create(PAGES * 4096, 0)?;
    let (first, second) = (dice.word(), dice.word());
    for page in 0..PAGES {
        vmo.write(&(first ^ page).to_le_bytes(), page * 4096 + dice.below(500) * 8)?;
    }
    let mut before = vec![0; (PAGES * 4096) as usize];
    vmo.read(&mut before, 0)?;
    let copy = vmo.create_child(ZX_VMO_CHILD_SNAPSHOT, 0, PAGES * 4096)?;
    let root = zx::startup::vmar_root_self();
    let mapping = root.map_here(ZX_VM_PERM_READ | ZX_VM_PERM_WRITE, &vmo, 0, before.len())?;
    for page in 0..PAGES as usize {
        mapping.write(page * 4096 + 8, &second.to_le_bytes())?;
    }
    let mut after = vec![0; before.len()];
    mapping.read(0, &mut after)?;
    let (words, written) = (after.chunks(4096), second.to_le_bytes());
    ensure(words.into_iter().all(|page| page[8..16] == written), "memory does not hold what was stored")?;
    copy.read(&mut after, 0)?;
    ensure(after == before, "a copy has changed")
}

/// Waits for timers.
fn time(dice: &mut Dice) -> Outcome {
    let (timer, port) = (Timer::create(0)?, Port::create()?);
    let key = dice.word();
    timer.wait_async(&port, key, Signals::TIMER_SIGNALED, 0)?;
    let deadline = MonotonicInstant::after(zx::Duration::from_micros(200 + dice.below(2000) as i64));
    timer.set(deadline, zx::Duration::from_nanos(0))?;
    let packet = port.wait(MonotonicInstant::INFINITE)?;
    equal(packet.key, key)?;
    ensure(MonotonicInstant::now() >= deadline, "a timer rang before its time")
}

/// A neighbour, as its attacker sees it.
pub struct Neighbour {
    /// Whether it also computes.
    busy: bool,
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// How often a neighbour has done its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done(pub [u64; KINDS]);

impl Done {
    /// What was done since: work that consists of calls, and computing.
    pub fn since(self, before: Done) -> [u64; 2] {
        let done: [u64; KINDS] = std::array::from_fn(|kind| self.0[kind] - before.0[kind]);
        [done[..CALLS].iter().sum(), done[CALLS]]
    }
}

impl Neighbour {
    /// Starts a neighbour.
    pub fn start() -> Result<Neighbour, Failure> {
        Neighbour::start_as(NAME)
    }

    /// Starts a calm neighbour.
    pub fn start_calm() -> Result<Neighbour, Failure> {
        Neighbour::start_as(CALM)
    }

    /// Starts a served neighbour.
    pub fn start_served() -> Result<Neighbour, Failure> {
        Neighbour::start_as(SERVED)
    }

    /// Starts a busy neighbour.
    pub fn start_busy() -> Result<Neighbour, Failure> {
        Neighbour::start_as(BUSY)
    }

    fn start_as(name: &str) -> Result<Neighbour, Failure> {
        let program = std::env::args().next().ok_or("this program does not know its name")?;
        let mut command = Command::new(program);
        let mut process = command.args(["--child", name]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (input, output) = (process.stdin.take(), process.stdout.take());
        let (input, output) = input.zip(output).ok_or("a neighbour without pipes")?;
        Ok(Neighbour { busy: name == BUSY, process, input, output: BufReader::new(output) })
    }

    /// How often each of its threads has done its work.
    ///
    /// # Errors The neighbour found an error, or it has ended.
    pub fn done(&mut self) -> Result<Done, Failure> {
        let mut line = String::new();
        // It may have ended because of the error that it reports.
        let _ = self.input.write_all(b"\n");
        self.output.read_line(&mut line)?;
        let counts = line.strip_prefix("done ").map(|counts| counts.split_whitespace().map(str::parse));
        match counts.map(Iterator::collect::<Result<Vec<u64>, _>>) {
            Some(Ok(counts)) if counts.len() == KINDS => Ok(Done(std::array::from_fn(|kind| counts[kind]))),
            _ => Err(format!("a neighbour says {:?}", line.trim_end()).into()),
        }
    }

    /// Checks that each of its threads makes progress.
    ///
    /// # Errors A thread makes no progress, the neighbour found an error, or it has ended.
    pub fn goes_on(&mut self) -> Outcome {
        let (before, start) = (self.done()?, Instant::now());
        loop {
            let now = self.done()?;
            let standing = (0..if self.busy { KINDS } else { CALLS }).find(|&kind| now.0[kind] <= before.0[kind]);
            match standing {
                None => return Ok(()),
                Some(kind) if start.elapsed() > PATIENCE => {
                    return Err(format!("a neighbour stands still: its work number {kind}").into());
                }
                Some(_) => thread::sleep(Duration::from_millis(2)),
            }
        }
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
