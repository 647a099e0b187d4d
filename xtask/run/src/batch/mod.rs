//! Many programs in one boot: for the duration of one `hafnon cargo`, one machine runs all its tests, one after the
//! other or several at once (rustdoc runs documentation tests in parallel).
//!
//! Cargo starts this tool as the *runner* of each program. A runner finds the *keeper*, which is part of
//! `hafnon cargo`, through a socket that a variable names. The keeper has the machine, and hands programs over to it
//! (the crate `batch` defines how).
//!
//! 1. The runner sends a [`Request`], and its input as [`StdinMessage`] while it has credit.
//! 2. The keeper makes a parcel of the program and hands it to the machine. It boots one if none runs.
//! 3. Output, credit for input, and the end come back as the machine's own messages ([`BatchMessage`]).
//!
//! The keeper ends a machine that dies or does not kill a program after its time limit. The next program gets a new
//! machine. Programs that ran in it without any output so far are run again, each alone; the others are reported as
//! failed. Each retry is printed with its cause and counted: more than one in [`RARE`] programs fails the run
//! ([`Keeper::check`]).

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

use ::batch::{BatchMessage, Decoder, End, Order, Start, encode};
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::args::Accel;
use crate::{check_program, qemu};
use machine::{BatchMachine, StartedProgram};
use parcel::Folder;
use xtask_build::{Built, elf};
use xtask_common::threads::{Thread, Watcher};
use xtask_common::ui::Ui;

pub use runner::run;

/// The variable through which runners find the keeper.
pub const SOCKET: &str = "HAFNON_BATCH";
/// How long a program may exceed its limit before its machine is considered dead.
const GRACE: Duration = Duration::from_secs(15);

/// One program in this many may lose its machine and be run again.
const RARE: usize = 1000;

/// A runner's request.
#[derive(Debug, Serialize, Deserialize)]
struct Request {
    /// The program's file.
    program: PathBuf,
    /// How to start it.
    start: Start,
    /// The package's folder. The program sees a copy.
    folder: Option<PathBuf>,
    /// The folder in which the package's programs are built. The program sees those programs.
    built: Option<PathBuf>,
    /// The program is killed after this time.
    limit: Option<Duration>,
}

/// Further messages of a runner: input for its program; no bytes for its end.
#[derive(Debug, Serialize, Deserialize)]
struct StdinMessage(Vec<u8>);

/// The keeper. Machine and socket end with it.
#[derive(Debug)]
pub struct Keeper {
    folder: TempDir,
    /// Dropping this ends the thread that has the machine.
    wanted: Option<Sender<Wanted>>,
    thread: Option<Thread<()>>,
    tally: Arc<Tally>,
}

/// The number of programs, and the programs that were run again.
#[derive(Debug, Default)]
struct Tally {
    programs: AtomicUsize,
    again: Mutex<Vec<String>>,
}

/// A request for a live machine.
type Wanted = Sender<Result<Arc<BatchMachine>, String>>;

/// State shared by the threads that serve runners.
struct Service {
    built: Built,
    memory: u64,
    wanted: Sender<Wanted>,
    /// Threads that run programs are readers; a thread that runs a program again, alone, is the writer.
    alone: RwLock<()>,
    tally: Arc<Tally>,
}

impl Keeper {
    /// Starts to listen. The first program boots the machine; `choose` says then how it executes instructions, and may
    /// change its kernel.
    ///
    /// # Errors
    /// There is no room for its socket.
    pub fn start(
        built: &Built,
        memory: u64,
        choose: impl Fn(&mut Built) -> Result<Accel> + Send + 'static,
    ) -> Result<Keeper> {
        let folder = qemu::runtime_folder()?;
        let listener = UnixListener::bind(folder.path().join("batch")).context("cannot make a socket")?;
        let (wanted, who) = channel();
        let of_machines = built.clone();
        // QEMU ends with the thread that started it, so one thread starts all machines and lives as long as they do. A
        // thread that waits for it sees its end by a closed channel or socket.
        let thread = Watcher::none().start("keeper", move || keep(of_machines, memory, choose, &who))?;
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
                // If its thread cannot be created, the runner sees its connection close.
                let _ = Watcher::none().start("runner", move || service.serve(stream));
            }
        })?;
        Ok(Keeper { folder, wanted: Some(wanted), thread: Some(thread), tally })
    }

    /// The address of the socket for runners.
    pub fn socket(&self) -> OsString {
        self.folder.path().join("batch").into()
    }

    /// Whether machines were stable enough.
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
            // The serving threads hold senders too, so a message ends the thread: a request whose receiver is gone.
            let (nobody, gone) = channel();
            drop(gone);
            let _ = wanted.send(nobody);
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Gives each request the live machine, or boots one.
fn keep(mut built: Built, memory: u64, choose: impl Fn(&mut Built) -> Result<Accel>, who: &Receiver<Wanted>) {
    let mut machine: Option<Arc<BatchMachine>> = None;
    while let Ok(wanted) = who.recv() {
        if machine.as_ref().is_none_or(|machine| !machine.is_alive()) {
            drop(machine.take());
            match choose(&mut built).and_then(|accel| BatchMachine::start(&built, memory, accel)) {
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

/// Why a program did not run to its end.
enum LostProgram {
    /// Its machine died; whether the program had sent anything before.
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
            Err(LostProgram::Runner) => return,
            Err(LostProgram::NotStarted(why)) => End::NotStarted(why),
            Err(LostProgram::Machine(why, _)) => End::NotStarted(format!("its machine died: {why}")),
        };
        let _ = send(&mut stream, &BatchMessage::Ended { id: 0, end });
    }

    fn run(
        &self,
        request: &Request,
        program: &[u8],
        stream: &UnixStream,
        decoder: Decoder,
    ) -> Result<End, LostProgram> {
        self.tally.programs.fetch_add(1, Ordering::Relaxed);
        let mut decoder = Some(decoder);
        let first = {
            let _others = self.alone.read().unwrap_or_else(PoisonError::into_inner);
            self.try_once(request, program, stream, &mut decoder)
        };
        match first {
            // A program that takes input is not run again, because its input cannot be sent twice.
            Err(LostProgram::Machine(why, false)) if !request.start.input => {
                let text = format!("{}: its machine died ({why})", request.program.display());
                Ui::new(false).note(&format!("{text}; it is run again, alone"));
                self.tally.again.lock().unwrap_or_else(PoisonError::into_inner).push(text);
                let _alone = self.alone.write().unwrap_or_else(PoisonError::into_inner);
                self.try_once(request, program, stream, &mut decoder)
            }
            other => other,
        }
    }

    /// Checks a program, so that a faulty one is refused on the host.
    fn program(&self, request: &Request) -> Result<Vec<u8>, String> {
        let read = || -> Result<Vec<u8>> {
            let file = elf::read(&request.program)?;
            let has = |library: &str| self.built.libraries.iter().any(|(path, _)| path.ends_with(library));
            check_program(&request.program, &file, has, self.memory)?;
            Ok(file.stripped())
        };
        read().map_err(|error| format!("{error:#}"))
    }

    fn hand_over(&self, machine: &BatchMachine, request: &Request, program: &[u8]) -> Result<StartedProgram> {
        let mut start = request.start.clone();
        // The program runs without them, as it may not need them.
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
    ) -> Result<End, LostProgram> {
        let (sender, answer) = channel();
        let _ = self.wanted.send(sender);
        let machine = answer.recv().map_err(|_| LostProgram::Runner)?.map_err(LostProgram::NotStarted)?;
        let handed = self.hand_over(&machine, request, program);
        let handed = handed.map_err(|error| LostProgram::NotStarted(format!("{error:#}")))?;
        let id = handed.id;
        if let (true, Some(decoder), Ok(stream)) = (request.start.input, decoder.take(), stream.try_clone()) {
            let machine = machine.clone();
            // If the thread for its input fails, the program is killed, so that it does not wait for ever.
            let ended = machine.clone();
            let watcher = Watcher::new(move |_| drop(ended.order(&Order::Kill { id })));
            let started = watcher.start("input", move || pass_input_on(stream, decoder, &machine, id));
            started.map_err(|error| LostProgram::NotStarted(format!("{error:#}")))?;
        }
        let deadline = request.limit.map(|limit| Instant::now() + limit + GRACE);
        let mut heard = false;
        loop {
            let wait = deadline.map_or(Duration::from_secs(3600), |at| at.saturating_duration_since(Instant::now()));
            match handed.news.recv_timeout(wait) {
                Ok(BatchMessage::Ended { end, .. }) => return Ok(end),
                Ok(said) => {
                    heard = true;
                    if send(&mut &*stream, &said).is_err() {
                        let _ = machine.order(&Order::Kill { id });
                        return Err(LostProgram::Runner);
                    }
                }
                Err(RecvTimeoutError::Timeout) if deadline.is_some_and(|at| at <= Instant::now()) => {
                    let why = "a program was over its limit and could not be ended";
                    return Err(LostProgram::Machine(machine.end(why), heard));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(LostProgram::Machine(machine.end("it ended"), heard));
                }
            }
        }
    }
}

fn pass_input_on(mut stream: UnixStream, mut decoder: Decoder, machine: &BatchMachine, id: u32) {
    while let Ok(Some(StdinMessage(bytes))) = next(&mut stream, &mut decoder) {
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

/// The first message of a connection, and a decoder with the bytes after it.
fn receive(stream: &mut UnixStream) -> Result<Option<(Request, Decoder)>> {
    let mut decoder = Decoder::default();
    Ok(next(stream, &mut decoder)?.map(|request| (request, decoder)))
}

/// The next message; `None` at the end.
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
