//! Many programs in one boot: for the length of one `hafnon cargo`, a machine is kept that runs its tests one after
//! the other, or several at once (rustdoc runs documentation tests in parallel).
//!
//! Cargo starts this tool as the *runner* of each program. A runner finds the *keeper*, which lives in `hafnon cargo`, by a
//! socket that a variable names. The keeper has the machine, and hands programs over to it (the crate `batch` says how).
//!
//! 1. The runner sends a [`Request`], and its input as [`Feed`] while there is credit.
//! 2. The keeper makes a parcel of the program and hands it to the machine, which it boots where none runs.
//! 3. Output, taken input and end come back as the machine's own words ([`Said`]).
//!
//! A machine that dies, or does not kill a program that is over its limit, is ended, and the next program gets another.
//! Programs that ran in it and had not written anything are run once more, each alone; the others are reported. Each second try is
//! said with its cause and counted: more than one in [`RARE`] programs fails the run ([`Keeper::check`]).

mod machine;
mod parcel;
mod runner;

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use ::batch::{Decoder, End, Order, Said, Start, encode};
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::build::Built;
use crate::elf;
use crate::qemu;
use crate::run::check_program;
use crate::threads::{Thread, Watcher};
use crate::ui::Ui;
use machine::{BatchMachine, Handed};
use parcel::Folder;

pub use runner::run;

/// The variable by which runners find the keeper.
pub const SOCKET: &str = "HAFNON_BATCH";
/// How much longer than its limit a program may take before its machine is taken for dead.
const GRACE: Duration = Duration::from_secs(15);

/// Of so many programs one may lose its machine and be run again.
const RARE: usize = 1000;

/// What a runner wants.
#[derive(Debug, Serialize, Deserialize)]
struct Request {
    /// The program's file.
    program: PathBuf,
    /// How to start it.
    start: Start,
    /// The package's folder, of which it sees a copy.
    folder: Option<PathBuf>,
    /// The folder in which the package's programs are built: it sees those.
    built: Option<PathBuf>,
    /// It is killed after this time.
    limit: Option<Duration>,
}

/// What a runner sends afterwards: input for its program; without bytes: its end.
#[derive(Debug, Serialize, Deserialize)]
struct Feed(Vec<u8>);

/// The machine's keeper; machine and socket go away with it.
#[derive(Debug)]
pub struct Keeper {
    folder: TempDir,
    /// Ends the thread that has the machine.
    wanted: Option<Sender<Wanted>>,
    thread: Option<Thread<()>>,
    tally: Arc<Tally>,
}

/// How many programs were run, and those that were run again.
#[derive(Debug, Default)]
struct Tally {
    programs: AtomicUsize,
    again: Mutex<Vec<String>>,
}

/// Somebody who wants a machine that lives.
type Wanted = Sender<Result<Arc<BatchMachine>, String>>;

/// What the threads that serve runners share.
struct Service {
    built: Built,
    memory: u64,
    wanted: Sender<Wanted>,
    /// Programs are run by readers; one that may have taken its machine down is run by the writer.
    alone: RwLock<()>,
    tally: Arc<Tally>,
}

impl Keeper {
    /// Begins to listen. The machine is booted for the first program.
    ///
    /// # Errors
    /// There is no room for its socket.
    pub fn start(built: &Built, memory: u64) -> Result<Keeper> {
        let folder = qemu::runtime_folder()?;
        let listener = UnixListener::bind(folder.path().join("batch")).context("cannot make a socket")?;
        let (wanted, who) = channel();
        let of_machines = built.clone();
        // QEMU ends with the thread that started it: so one thread starts them all, and lives as long as they.
        // Whoever waits for one of these threads sees its end by that of a channel or a socket.
        let thread = Watcher::none().start("keeper", move || keep(&of_machines, memory, &who))?;
        let tally = Arc::<Tally>::default();
        let service = Arc::new(Service {
            built: built.clone(),
            memory,
            wanted: wanted.clone(),
            alone: RwLock::default(),
            tally: tally.clone(),
        });
        Watcher::none().start("runners", move || {
            for stream in listener.incoming().flatten() {
                let service = service.clone();
                // A runner whose thread cannot be made sees the end of its connection.
                let _ = Watcher::none().start("runner", move || service.serve(stream));
            }
        })?;
        Ok(Keeper { folder, wanted: Some(wanted), thread: Some(thread), tally })
    }

    /// Where runners find it.
    pub fn socket(&self) -> OsString {
        self.folder.path().join("batch").into()
    }

    /// Whether machines lived as they should.
    ///
    /// # Errors
    /// More than one in [`RARE`] programs had to be run again: which, and why.
    pub fn check(&self) -> Result<()> {
        let again = self.tally.again.lock().unwrap_or_else(PoisonError::into_inner);
        let programs = self.tally.programs.load(Ordering::Relaxed);
        if again.len() * RARE > programs {
            bail!("{} of {programs} programs were run again as their machine died:\n{}", again.len(), again.join("\n"));
        }
        Ok(())
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if let Some(wanted) = self.wanted.take() {
            // The serving threads hold senders too, so the end is a message: nobody wants anything any more.
            let (nobody, gone) = channel();
            drop(gone);
            let _ = wanted.send(nobody);
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Gives those who want a machine the one that lives, or boots one.
fn keep(built: &Built, memory: u64, who: &Receiver<Wanted>) {
    let mut machine: Option<Arc<BatchMachine>> = None;
    while let Ok(wanted) = who.recv() {
        if machine.as_ref().is_none_or(|machine| !machine.is_alive()) {
            drop(machine.take());
            match BatchMachine::start(built, memory) {
                Ok(new) => machine = Some(Arc::new(new)),
                Err(error) => {
                    let _ = wanted.send(Err(format!("{error:#}")));
                    continue;
                }
            }
        }
        let Some(machine) = &machine else { continue };
        if wanted.send(Ok(machine.clone())).is_err() {
            break;
        }
    }
    if let Some(machine) = machine {
        machine.end("nobody wants it any more");
    }
}

/// Why a program did not come to its end.
enum Lost {
    /// Its machine died; whether the program had been heard of before.
    Machine(String, bool),
    /// Its runner has gone.
    Runner,
    /// It could not be handed over.
    NotStarted(String),
}

impl Service {
    fn serve(&self, mut stream: UnixStream) {
        let Ok(Some((request, decoder))) = receive(&mut stream) else { return };
        let end = match self.program(&request) {
            Err(refusal) => Ok(End::NotStarted(refusal)),
            Ok(program) => self.run(&request, &program, &stream, decoder),
        };
        let end = match end {
            Ok(end) => end,
            Err(Lost::Runner) => return,
            Err(Lost::NotStarted(why)) => End::NotStarted(why),
            Err(Lost::Machine(why, _)) => End::NotStarted(format!("its machine died: {why}")),
        };
        let _ = send(&mut stream, &Said::Ended { id: 0, end });
    }

    fn run(&self, request: &Request, program: &[u8], stream: &UnixStream, decoder: Decoder) -> Result<End, Lost> {
        self.tally.programs.fetch_add(1, Ordering::Relaxed);
        let mut decoder = Some(decoder);
        let first = {
            let _others = self.alone.read().unwrap_or_else(PoisonError::into_inner);
            self.try_once(request, program, stream, &mut decoder)
        };
        match first {
            // Input that is gone cannot be given a second time.
            Err(Lost::Machine(why, false)) if !request.start.input => {
                let text = format!("{}: its machine died ({why})", request.program.display());
                Ui::new(false).note(&format!("{text}; it is run again, alone"));
                self.tally.again.lock().unwrap_or_else(PoisonError::into_inner).push(text);
                let _alone = self.alone.write().unwrap_or_else(PoisonError::into_inner);
                self.try_once(request, program, stream, &mut decoder)
            }
            other => other,
        }
    }

    /// Looks at a program, as what can be refused is refused here.
    fn program(&self, request: &Request) -> Result<Vec<u8>, String> {
        let read = || -> Result<Vec<u8>> {
            let file = elf::read(&request.program)?;
            let has = |library: &str| self.built.libraries.iter().any(|(path, _)| path.ends_with(library));
            check_program(&request.program, &file, has, self.memory)?;
            Ok(file.stripped())
        };
        read().map_err(|error| format!("{error:#}"))
    }

    fn hand_over(&self, machine: &BatchMachine, request: &Request, program: &[u8]) -> Result<Handed> {
        let mut start = request.start.clone();
        // A program that does not look at them runs without, too.
        let missing = |what, error| Ui::new(false).note(&format!("the package's {what} are not there: {error:#}"));
        if let Some(folder) = &request.folder {
            match machine.keep(Folder::Files(folder.clone())) {
                Ok(id) => start.files = Some((id, folder.to_string_lossy().into_owned())),
                Err(error) => missing("files", error),
            }
        }
        if let (Some(package), Some(built)) = (&request.folder, &request.built) {
            let folder = Folder::programs(built, package);
            match folder.and_then(|folder| folder.map(|folder| machine.keep(folder)).transpose()) {
                Ok(Some(id)) => start.programs = Some((id, built.to_string_lossy().into_owned())),
                Ok(None) => {}
                Err(error) => missing("programs", error),
            }
        }
        machine.hand_over(&parcel::of_program(&start, program)?, request.limit)
    }

    fn try_once(
        &self,
        request: &Request,
        program: &[u8],
        stream: &UnixStream,
        decoder: &mut Option<Decoder>,
    ) -> Result<End, Lost> {
        let (sender, answer) = channel();
        let _ = self.wanted.send(sender);
        let machine = answer.recv().map_err(|_| Lost::Runner)?.map_err(Lost::NotStarted)?;
        let handed = self.hand_over(&machine, request, program);
        let handed = handed.map_err(|error| Lost::NotStarted(format!("{error:#}")))?;
        let id = handed.id;
        if let (true, Some(decoder), Ok(stream)) = (request.start.input, decoder.take(), stream.try_clone()) {
            let machine = machine.clone();
            // A program whose input is lost must not wait for it.
            let ended = machine.clone();
            let watcher = Watcher::new(move |_| drop(ended.order(&Order::Kill { id })));
            let started = watcher.start("input", move || pass_input_on(stream, decoder, &machine, id));
            started.map_err(|error| Lost::NotStarted(format!("{error:#}")))?;
        }
        let deadline = request.limit.map(|limit| Instant::now() + limit + GRACE);
        let mut heard = false;
        loop {
            let wait = deadline.map_or(Duration::from_secs(3600), |at| at.saturating_duration_since(Instant::now()));
            match handed.news.recv_timeout(wait) {
                Ok(Said::Ended { end, .. }) => return Ok(end),
                Ok(said) => {
                    heard = true;
                    if send(&mut &*stream, &said).is_err() {
                        let _ = machine.order(&Order::Kill { id });
                        return Err(Lost::Runner);
                    }
                }
                Err(RecvTimeoutError::Timeout) if deadline.is_some_and(|at| at <= Instant::now()) => {
                    let why = "a program was over its limit and could not be ended";
                    return Err(Lost::Machine(machine.end(why), heard));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Lost::Machine(machine.end("it ended"), heard));
                }
            }
        }
    }
}

fn pass_input_on(mut stream: UnixStream, mut decoder: Decoder, machine: &BatchMachine, id: u32) {
    while let Ok(Some(Feed(bytes))) = next(&mut stream, &mut decoder) {
        let end = bytes.is_empty();
        if machine.order(&Order::Input { id, bytes }).is_err() || end {
            return;
        }
    }
}

/// Sends one message.
fn send(stream: &mut impl Write, message: &impl Serialize) -> Result<()> {
    stream.write_all(&encode(message).context("cannot encode a message")?).context("the other end is gone")
}

/// The first message of a connection, and what has come behind it.
fn receive(stream: &mut UnixStream) -> Result<Option<(Request, Decoder)>> {
    let mut decoder = Decoder::default();
    Ok(next(stream, &mut decoder)?.map(|request| (request, decoder)))
}

/// The next message; nothing at the end.
fn next<T: serde::de::DeserializeOwned>(stream: &mut UnixStream, decoder: &mut Decoder) -> Result<Option<T>> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        if let Some(message) = decoder.message().context("not a message")? {
            return Ok(Some(message));
        }
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(None),
            Ok(count) => decoder.push(&buffer[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error).context("the other end is gone"),
        }
    }
}
