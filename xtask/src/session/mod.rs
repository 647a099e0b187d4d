//! One boot, from QEMU's start to its end: passes input, output and exit code between the program and its caller.
//!
//! A thread each waits for the link, the console, the caller's input and signals; they send [`Happening`]s to the
//! session, which alone decides. Output is written by the link's thread, so that everything that came before the exit
//! code is out when the exit code is seen.
//!
//! A machine with a third serial port has a terminal: from the event `console` on, input goes to that port and what
//! comes from there is output. Before that event and after it `init` speaks over the link, as it always does.

pub mod beside;
pub mod console;
mod input;

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGWINCH};
use signal_hook::iterator::Signals;

use beside::Follower;
use console::{Console, Shown, watch_console};
use input::{Window, pump_input};

use crate::line::Line;
use crate::link::{Decoder, Frame, ToSystem, exit_code};
use crate::qemu::{Machine, Running};
use crate::symbols::Files;
use crate::terminal::{self, Raw};
use crate::trace::{Trace, Wanted};

/// Where the program's output goes and its input comes from.
#[derive(Debug)]
pub enum Streams {
    /// This process' own.
    Ours(Shows),
    /// Output is collected; this is the input.
    Captured(Vec<u8>),
    /// Output is collected; nothing is sent, not even the end of the input, so that nothing comes from outside at a time
    /// that is another in each run.
    Overheard,
    /// The same, and standard output is sent here as it comes.
    Followed(Sender<Vec<u8>>),
    /// For a machine with a terminal: each time that its output holds the first, the second is typed.
    Dialogue(Vec<(&'static str, &'static str)>),
}

/// What is shown beside output as it is.
#[derive(Clone, Debug, Default)]
pub struct Shows {
    /// Backtraces in the output get names from these files.
    pub names: Option<Files>,
    /// What becomes of the kernel's trace.
    pub trace: Option<Wanted>,
}

/// How to run a session.
#[derive(Debug)]
pub struct Session<'a> {
    /// The machine.
    pub machine: Machine<'a>,
    /// After this the machine is ended.
    pub timeout: Option<Duration>,
    /// After this time without a word over the link, too.
    pub quiet: Option<Duration>,
    /// Show the boot messages.
    pub verbose: bool,
    /// Input and output.
    pub streams: Streams,
    /// End it when the program has written something.
    pub until_first_output: bool,
}

/// How a session ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The program ended with this code.
    Exit(i64),
    /// The time given ran out.
    TimedOut,
    /// The program wrote, and that was all that was wanted.
    Output,
    /// A signal with this number ended it.
    Signal(i32),
    /// Whoever read our output went away.
    OutputClosed,
    /// The machine stopped without an exit code; why, as far as it can be told.
    Stopped(String),
}

impl End {
    /// The exit code of this process for it.
    pub fn exit_code(&self) -> u8 {
        match self {
            End::Exit(code) => exit_code(*code),
            End::Output => 0,
            End::TimedOut => 124,
            End::Stopped(_) => 125,
            End::Signal(signal) => u8::try_from(128 + signal).unwrap_or(255),
            End::OutputClosed => 141,
        }
    }
}

/// What a session gave.
#[derive(Debug)]
pub struct Outcome {
    /// How it ended.
    pub end: End,
    /// What came over the link, in its order; output is in it only where it was to be captured.
    pub transcript: Vec<Frame>,
    /// Warnings and errors of the system, as `who: text`.
    pub warnings: Vec<String>,
    /// The last lines that kernel, root task and server said.
    pub said: VecDeque<String>,
    /// From QEMU's start to the first output.
    pub first_output: Option<Duration>,
    /// What came from the third serial port; nothing where it went to our own output.
    pub terminal: Vec<u8>,
    /// All that the root task said.
    pub root: Vec<String>,
    /// What others said beside it, as `who: text`: components, and the servers.
    pub others: Vec<String>,
    /// What the instances beside the main one said.
    pub beside: Vec<beside::Heard>,
}

impl Outcome {
    /// All captured standard output.
    pub fn stdout(&self) -> Vec<u8> {
        let output =
            self.transcript.iter().filter_map(|frame| if let Frame::Stdout(b) = frame { Some(b) } else { None });
        output.flatten().copied().collect()
    }

    /// All captured standard error; the system's own warnings are not in it.
    pub fn stderr(&self) -> Vec<u8> {
        let output =
            self.transcript.iter().filter_map(|frame| if let Frame::Stderr(b) = frame { Some(b) } else { None });
        output.flatten().copied().collect()
    }
}

/// What a thread tells the session.
#[derive(Debug)]
pub enum Happening {
    /// The first word of `init`.
    FirstFrame,
    /// A program has the third serial port now.
    Console,
    /// It cannot: input goes over the link.
    NoConsole,
    /// Ctrl-Z.
    Suspend,
    /// Something came, where nobody else is told of it.
    Word,
    /// The program has written something.
    FirstOutput,
    /// It ended.
    Exit(i64),
    /// It took so much of its input.
    InputTaken(usize),
    /// Whoever read our output went away.
    OutputClosed,
    /// The machine is gone; why, if it told.
    LinkEnded(Option<String>),
    /// A signal.
    Signal(i32),
}

#[derive(Debug, Default)]
struct Collected {
    transcript: Vec<Frame>,
    first_output: Option<Instant>,
}

/// What becomes of output.
struct Output {
    /// It is this process' own.
    ours: bool,
    /// Nothing more is wanted than the first.
    until_first: bool,
    files: Option<Files>,
    trace: Option<Trace>,
    follower: Option<Sender<Vec<u8>>>,
}

/// How long the machine may take to turn off after the program's end, and how soon a second Ctrl-C ends it.
const PATIENCE: Duration = Duration::from_secs(2);

impl Session<'_> {
    /// Boots, and waits for the end.
    ///
    /// # Errors
    /// The machine cannot be started.
    pub fn run(self) -> Result<Outcome> {
        let ours = matches!(self.streams, Streams::Ours(_));
        let Shows { names: files, trace } = match &self.streams {
            Streams::Ours(shows) => shows.clone(),
            _ => Shows::default(),
        };
        let trace = trace.as_ref().map(Trace::new).transpose()?;
        let follower = if let Streams::Followed(follower) = &self.streams { Some(follower.clone()) } else { None };
        let (sender, happenings) = channel();
        let signals = if ours { Some(watch_signals(sender.clone())?) } else { None };
        let mut running = self.machine.start()?;
        let clone = |stream: &Line| stream.try_clone().context("cannot share a serial port");
        let (verbose, beside) = (self.verbose, std::mem::take(&mut running.beside));
        let beside: Vec<Follower> =
            beside.into_iter().map(|lines| Follower::new(lines, running.mark, verbose, ours, files.clone())).collect();
        let console = watch_console(clone(&running.console)?, String::new(), verbose, ours, files.clone());
        let terminal = running.terminal.as_ref().map(clone).transpose()?;
        let heard = Arc::new(Heard::default());
        let terminal =
            terminal.map(|stream| watch_terminal(stream, sender.clone(), ours, heard.clone(), files.clone()));
        let shown = Output { ours, until_first: self.until_first_output, files, trace, follower };
        let output = watch_link(clone(&running.link)?, sender.clone(), shown);
        let deadline = self.timeout.map(|timeout| running.started + timeout);
        let mut end = control(&happenings, &sender, deadline, self.quiet, &running, self.streams, &heard)?;
        let complaints = running.end(if matches!(end, End::Exit(_)) { PATIENCE } else { Duration::ZERO });
        if let Some(signals) = signals {
            signals.close();
        }
        let Console { warnings, root, others, last } = console.join().unwrap_or_default();
        let collected = output.join().unwrap_or_default();
        let terminal = terminal.map(|thread| thread.join().is_ok()).map(|_| heard.all()).unwrap_or_default();
        if let End::Stopped(why) = &mut end {
            if !complaints.is_empty() {
                why.push_str(&format!("\n  QEMU: {complaints}"));
            }
            if !self.verbose && !last.is_empty() {
                why.push_str("\n  the last lines on the console:");
                last.iter().for_each(|line| why.push_str(&format!("\n  | {line}")));
            }
        }
        Ok(Outcome {
            end,
            transcript: collected.transcript,
            warnings,
            said: last,
            first_output: collected.first_output.map(|at| at - running.started),
            terminal,
            root,
            others,
            beside: beside.into_iter().map(Follower::end).collect(),
        })
    }
}

/// Waits until something ends the session.
fn control(
    happenings: &Receiver<Happening>,
    sender: &Sender<Happening>,
    deadline: Option<Instant>,
    quiet: Option<Duration>,
    running: &Running,
    streams: Streams,
    heard_terminal: &Arc<Heard>,
) -> Result<End> {
    let ours = matches!(streams, Streams::Ours(_));
    let to_system = Arc::new(Mutex::new(running.link.try_clone().context("cannot share a serial port")?));
    let mut input = Some(streams);
    let window = Arc::new(Window::default());
    let mut interrupted: Option<Instant> = None;
    let mut ready = false;
    let mut raw = None;
    let mut attached = false;
    let mut heard = running.started;
    loop {
        let silent = quiet.map(|quiet| heard + quiet);
        let deadline = [deadline, silent].into_iter().flatten().min();
        let wait = deadline.map_or(Duration::from_secs(3600), |at| at.saturating_duration_since(Instant::now()));
        let happening = match happenings.recv_timeout(wait) {
            Ok(happening) => happening,
            Err(RecvTimeoutError::Timeout) if deadline.is_some_and(|at| at <= Instant::now()) => {
                return Ok(End::TimedOut);
            }
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return Ok(End::Stopped("the connection to QEMU broke".into())),
        };
        match happening {
            Happening::Word => heard = Instant::now(),
            Happening::FirstFrame => {
                // Before `init` listens the serial port would lose what is sent.
                ready = true;
                if running.terminal.is_none()
                    && let Some(streams) = input.take()
                {
                    let (to_system, window) = (to_system.clone(), window.clone());
                    thread::spawn(move || pump_input(streams, &to_system, &window));
                }
                if ours {
                    send_window_size(&to_system);
                }
            }
            Happening::Console => {
                attached = true;
                if let (Some(streams), Some(stream)) = (input.take(), &running.terminal) {
                    raw = ours.then(Raw::take);
                    let (stream, sender) = (stream.try_clone().context("cannot share a serial port")?, sender.clone());
                    let heard = heard_terminal.clone();
                    thread::spawn(move || terminal::pump(streams, stream, &sender, &heard));
                }
            }
            Happening::NoConsole => {
                attached = false;
                raw = None;
                if running.terminal.is_some()
                    && let Some(streams) = input.take()
                {
                    let (to_system, window) = (to_system.clone(), window.clone());
                    thread::spawn(move || pump_input(streams, &to_system, &window));
                }
            }
            Happening::Suspend => terminal::suspend(),
            Happening::Signal(SIGCONT) => {
                if let Some(raw) = &raw {
                    raw.again();
                }
            }
            Happening::InputTaken(count) => window.taken(count),
            Happening::FirstOutput => return Ok(End::Output),
            Happening::Exit(code) => return Ok(End::Exit(code)),
            Happening::OutputClosed => return Ok(End::OutputClosed),
            Happening::LinkEnded(why) => {
                return Ok(End::Stopped(why.unwrap_or_else(|| "the machine turned off".into())));
            }
            Happening::Signal(SIGWINCH) if ready => send_window_size(&to_system),
            Happening::Signal(SIGWINCH) => {}
            Happening::Signal(SIGINT) if ready && interrupted.is_none_or(|at| at.elapsed() > PATIENCE) => {
                interrupted = Some(Instant::now());
                match &running.terminal {
                    Some(stream) if attached => {
                        let mut stream = stream.try_clone().context("cannot share a serial port")?;
                        thread::spawn(move || stream.write_all(&[terminal::INTERRUPT]));
                    }
                    _ => send(&to_system, ToSystem::Interrupt),
                }
            }
            Happening::Signal(signal) => return Ok(End::Signal(signal)),
        }
    }
}

fn watch_signals(sender: Sender<Happening>) -> Result<signal_hook::iterator::Handle> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGCONT]).context("cannot watch signals")?;
    let handle = signals.handle();
    thread::spawn(move || {
        for signal in signals.forever() {
            if sender.send(Happening::Signal(signal)).is_err() {
                break;
            }
        }
    });
    Ok(handle)
}

/// Sends without waiting: the link may be full of input that nobody reads, and then only a second Ctrl-C helps.
fn send(link: &Arc<Mutex<Line>>, frame: ToSystem<'static>) {
    let link = link.clone();
    thread::spawn(move || write_frame(&link, frame));
}

/// Frames of several threads must not mix. Says whether the other end is there.
fn write_frame(link: &Mutex<Line>, frame: ToSystem<'_>) -> bool {
    link.lock().is_ok_and(|mut link| link.write_all(&frame.encode()).is_ok())
}

fn send_window_size(link: &Arc<Mutex<Line>>) {
    if let Ok(size) = rustix::termios::tcgetwinsize(rustix::stdio::stdout()) {
        send(link, ToSystem::WindowSize(size.ws_col, size.ws_row));
    }
}

fn watch_link(mut link: Line, sender: Sender<Happening>, shown: Output) -> JoinHandle<Collected> {
    let Output { ours, until_first, files, mut trace, follower } = shown;
    thread::spawn(move || {
        let (mut stdout, mut stderr) = (Shown::new(files.clone()), Shown::new(files));
        let mut collected = Collected::default();
        let mut decoder = Decoder::default();
        let mut buffer = vec![0; 1 << 16];
        let mut first = true;
        let end = loop {
            let count = match link.read(&mut buffer) {
                Ok(0) => break Happening::LinkEnded(None),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => break Happening::LinkEnded(None),
            };
            let frames = match decoder.push(&buffer[..count]) {
                Ok(frames) => frames,
                Err(error) => break Happening::LinkEnded(Some(error.to_string())),
            };
            if first && !frames.is_empty() {
                first = false;
                let _ = sender.send(Happening::FirstFrame);
            }
            if !ours {
                let _ = sender.send(Happening::Word);
            }
            for frame in frames {
                let happening = match &frame {
                    Frame::Stdout(bytes) => {
                        collected.first_output.get_or_insert_with(Instant::now);
                        if let Some(follower) = &follower {
                            // Whoever follows no longer misses nothing: it is collected, too.
                            let _ = follower.send(bytes.clone());
                        }
                        if ours && stdout.write(std::io::stdout(), bytes).is_err() {
                            Some(Happening::OutputClosed)
                        } else {
                            until_first.then_some(Happening::FirstOutput)
                        }
                    }
                    Frame::Stderr(bytes) => {
                        if ours {
                            // Where complaints cannot be written, the program goes on without.
                            let _ = stderr.write(std::io::stderr(), bytes);
                        }
                        None
                    }
                    Frame::Trace(bytes) => {
                        if let Some(trace) = &mut trace {
                            trace.push(bytes);
                        }
                        None
                    }
                    Frame::Exit(code) => Some(Happening::Exit(*code)),
                    Frame::Event(text) if text == "console" => Some(Happening::Console),
                    Frame::Event(text) if text == "no-console" => Some(Happening::NoConsole),
                    Frame::Event(text) => text
                        .strip_prefix("stdin\t")
                        .and_then(|count| Some(Happening::InputTaken(count.trim().parse().ok()?))),
                };
                if !ours || matches!(frame, Frame::Event(_)) {
                    collected.transcript.push(frame);
                }
                if happening.is_some_and(|happening| sender.send(happening).is_err()) {
                    return collected;
                }
            }
        };
        for note in trace.map(Trace::end).unwrap_or_default() {
            eprintln!("hafnon: {note}");
        }
        if ours {
            let _ = stdout.end(std::io::stdout());
            let _ = stderr.end(std::io::stderr());
        }
        let _ = sender.send(end);
        collected
    })
}

/// What has come from the third serial port, where it is collected.
#[derive(Debug, Default)]
pub struct Heard {
    bytes: Mutex<(Vec<u8>, bool)>,
    more: Condvar,
}

impl Heard {
    fn add(&self, bytes: &[u8]) {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).0.extend_from_slice(bytes);
        self.more.notify_all();
    }

    fn end(&self) {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).1 = true;
        self.more.notify_all();
    }

    fn all(&self) -> Vec<u8> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// Waits until `text` has come behind the byte `from`; gives where it ends. `None`: it will not.
    pub fn wait_for(&self, text: &str, from: usize) -> Option<usize> {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut from = from;
        loop {
            let behind = bytes.0.get(from..).unwrap_or_default();
            if let Some(at) = behind.windows(text.len().max(1)).position(|part| part == text.as_bytes()) {
                return Some(from + at + text.len());
            }
            // What was looked at is not looked at again, but for what may be the beginning of it.
            from = from.max((bytes.0.len() + 1).saturating_sub(text.len()));
            if bytes.1 {
                return None;
            }
            bytes = self.more.wait(bytes).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Shows what comes from the third serial port, or collects it.
fn watch_terminal(
    mut stream: Line,
    sender: Sender<Happening>,
    ours: bool,
    heard: Arc<Heard>,
    files: Option<Files>,
) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut shown = Shown::new(files);
        let mut buffer = [0; 4096];
        loop {
            match stream.read(&mut buffer) {
                Ok(count) if count > 0 && !ours => heard.add(&buffer[..count]),
                Ok(count) if count > 0 => {
                    if shown.write(std::io::stdout(), &buffer[..count]).is_err() {
                        let _ = sender.send(Happening::OutputClosed);
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        heard.end();
    })
}
