//! The thread that controls a session and handles its events.

use std::io::Write;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGWINCH};
use signal_hook::iterator::Signals;

use super::input::{Window, pump_input};
use super::output::SerialCapture;
use super::{End, PATIENCE, SessionEvent, Streams};
use crate::line::Line;
use crate::link::ToSystem;
use crate::qemu::Running;
use crate::terminal::{self, Raw};
use xtask_common::threads::Watcher;
use xtask_common::words;

/// The controller of a session.
pub struct Control<'a> {
    /// The machine.
    pub running: &'a Running,
    /// Events from the threads, and the channel on which they are sent.
    pub happenings: Receiver<SessionEvent>,
    /// For threads that are started later.
    pub sender: Sender<SessionEvent>,
    /// Gets the failures of threads.
    pub watcher: Watcher,
    /// The time limit of the machine.
    pub deadline: Option<Instant>,
    /// Maximum time without any output.
    pub quiet: Option<Duration>,
    /// Output from the terminal's port.
    pub heard: Arc<SerialCapture>,
}

/// Sends frames to the system; frames of several threads must not mix.
#[derive(Clone)]
pub struct ToLink {
    line: Arc<Mutex<Line>>,
    watcher: Watcher,
}

impl ToLink {
    /// Sends a frame, waiting for room. Returns whether the other end is open.
    pub fn write(&self, frame: ToSystem<'_>) -> bool {
        self.line.lock().is_ok_and(|mut line| line.write_all(&frame.encode()).is_ok())
    }

    /// Sends without waiting: the link may be full of input that no program reads, and then only a second Ctrl-C helps.
    fn send(&self, frame: ToSystem<'static>) -> Result<()> {
        let link = self.clone();
        self.watcher.start("frame", move || link.write(frame)).map(drop)
    }

    fn send_window_size(&self) -> Result<()> {
        match rustix::termios::tcgetwinsize(rustix::stdio::stdout()) {
            Ok(size) => self.send(ToSystem::WindowSize(size.ws_col, size.ws_row)),
            Err(_) => Ok(()),
        }
    }
}

/// Maximum time for an orderly shutdown of the system.
const SETTLING: Duration = Duration::from_secs(10);

/// The end of the machine: its meaning for this process, and whether the machine is turning itself off.
pub struct Ended {
    /// How it ended.
    pub end: End,
    /// All data was written, and the machine is about to turn off.
    pub in_order: bool,
}

impl Ended {
    fn at_once(end: End) -> Ended {
        Ended { end, in_order: false }
    }
}

/// A running session.
struct State<'a> {
    control: &'a Control<'a>,
    to_system: ToLink,
    window: Arc<Window>,
    /// Set until a thread sends it.
    input: Option<Streams>,
    /// The session uses this process' own streams, and the machine may have a disk that must be left in order.
    ours: bool,
    /// `init` receives frames.
    ready: bool,
    /// A program has the terminal.
    attached: bool,
    raw: Option<Raw>,
    interrupted: Option<Instant>,
    /// Time of the last output.
    heard: Instant,
    /// The reason for which the system was asked to shut down, and the deadline.
    ending: Option<(End, Instant)>,
}

impl Control<'_> {
    /// Waits until something ends the session.
    ///
    /// # Errors
    /// There is no room for the resources that this tool needs.
    pub fn run(self, streams: Streams) -> Result<Ended> {
        let line = self.running.link.try_clone().context("cannot share a serial port")?;
        let mut state = State {
            to_system: ToLink { line: Arc::new(Mutex::new(line)), watcher: self.watcher.clone() },
            window: Arc::new(Window::default()),
            ours: matches!(streams, Streams::Ours(_)),
            input: Some(streams),
            ready: false,
            attached: false,
            raw: None,
            interrupted: None,
            heard: self.running.started,
            ending: None,
            control: &self,
        };
        loop {
            let deadline = state.deadline();
            let wait = deadline.map_or(Duration::from_secs(3600), |at| at.saturating_duration_since(Instant::now()));
            let ended = match self.happenings.recv_timeout(wait) {
                Ok(happening) => state.happened(happening)?,
                Err(RecvTimeoutError::Timeout) if deadline.is_some_and(|at| at <= Instant::now()) => state.late()?,
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => {
                    Some(Ended::at_once(End::Stopped("the connection to QEMU broke".into())))
                }
            };
            if let Some(ended) = ended {
                return Ok(ended);
            }
        }
    }
}

impl State<'_> {
    /// The next deadline.
    fn deadline(&self) -> Option<Instant> {
        if let Some((_, until)) = self.ending {
            return Some(until);
        }
        [self.control.deadline, self.control.quiet.map(|quiet| self.heard + quiet)].into_iter().flatten().min()
    }

    /// A deadline has passed.
    fn late(&mut self) -> Result<Option<Ended>> {
        let Some((end, _)) = self.ending.take() else { return self.end(End::TimedOut) };
        let seconds = SETTLING.as_secs();
        words::say(&format!("hafnon: the system did not end within {seconds} s; what was written last may be lost"));
        Ok(Some(Ended::at_once(end)))
    }

    /// Ends the session for this reason: the system gets some time to write its data. If it cannot be asked to, or was
    /// asked before, the session ends now.
    fn end(&mut self, end: End) -> Result<Option<Ended>> {
        if !self.ours || !self.ready || self.ending.is_some() {
            return Ok(Some(Ended::at_once(end)));
        }
        self.to_system.send(ToSystem::End)?;
        self.ending = Some((end, Instant::now() + SETTLING));
        Ok(None)
    }

    /// The system has ended by itself. The reason is the one for which it was asked to shut down, if it was.
    fn over(&mut self, end: End) -> Option<Ended> {
        let in_order = self.ending.is_some() || matches!(end, End::Exit(_));
        Some(Ended { end: self.ending.take().map_or(end, |(reason, _)| reason), in_order })
    }

    /// Sends the input over the link.
    fn send_input(&mut self) -> Result<()> {
        let Some(streams) = self.input.take() else { return Ok(()) };
        let (to_system, window) = (self.to_system.clone(), self.window.clone());
        self.control.watcher.start("input", move || pump_input(streams, &to_system, &window)).map(drop)
    }

    /// A program has the terminal now.
    fn attach(&mut self) -> Result<()> {
        self.attached = true;
        let Control { running, sender, watcher, heard, .. } = self.control;
        if let (Some(streams), Some(stream)) = (self.input.take(), &running.terminal) {
            self.raw = self.ours.then(Raw::take);
            let stream = stream.try_clone().context("cannot share a serial port")?;
            let (sender, heard) = (sender.clone(), heard.clone());
            watcher.start("keys", move || terminal::pump(streams, stream, &sender, &heard))?;
        }
        Ok(())
    }

    /// Ctrl-C: the first one is for the program; a second one soon after it ends the machine. If a shell has the
    /// terminal, the first one was only a key. Then the second one is the first that is reported to the system.
    fn interrupt(&mut self) -> Result<Option<Ended>> {
        if self.ending.is_some() || self.interrupted.is_some_and(|at| at.elapsed() <= PATIENCE) {
            return if self.attached {
                self.end(End::Signal(SIGINT))
            } else {
                Ok(Some(Ended::at_once(End::Signal(SIGINT))))
            };
        }
        self.interrupted = Some(Instant::now());
        match &self.control.running.terminal {
            Some(stream) if self.attached => {
                let mut stream = stream.try_clone().context("cannot share a serial port")?;
                self.control.watcher.start("interrupt", move || stream.write_all(&[terminal::INTERRUPT]))?;
            }
            _ => self.to_system.send(ToSystem::Interrupt)?,
        }
        Ok(None)
    }

    fn happened(&mut self, happening: SessionEvent) -> Result<Option<Ended>> {
        match happening {
            SessionEvent::Word => self.heard = Instant::now(),
            SessionEvent::FirstFrame => {
                // Before `init` listens, the serial port would lose the bytes.
                self.ready = true;
                if self.control.running.terminal.is_none() {
                    self.send_input()?;
                }
                if self.ours {
                    self.to_system.send_window_size()?;
                }
            }
            SessionEvent::Console => self.attach()?,
            SessionEvent::NoConsole => {
                self.attached = false;
                self.raw = None;
                if self.control.running.terminal.is_some() {
                    self.send_input()?;
                }
            }
            SessionEvent::Suspend => terminal::suspend(),
            SessionEvent::InputTaken(count) => self.window.taken(count),
            SessionEvent::FirstOutput => return Ok(Some(Ended::at_once(End::Output))),
            SessionEvent::Exit(code) => return Ok(self.over(End::Exit(code))),
            SessionEvent::OutputClosed => return self.end(End::OutputClosed),
            SessionEvent::LinkEnded(why) => {
                return Ok(self.over(End::Stopped(why.unwrap_or_else(|| "the machine turned off".into()))));
            }
            SessionEvent::Failed(failed) => return Ok(Some(Ended::at_once(End::Stopped(failed.to_string())))),
            SessionEvent::Signal(SIGCONT) => self.raw.iter().for_each(Raw::again),
            SessionEvent::Signal(SIGWINCH) if self.ready => self.to_system.send_window_size()?,
            SessionEvent::Signal(SIGWINCH) => {}
            SessionEvent::Signal(SIGINT) if self.ready => return self.interrupt(),
            SessionEvent::Signal(signal) => return self.end(End::Signal(signal)),
        }
        Ok(None)
    }
}

/// Reports signals from now on.
///
/// # Errors
/// They cannot be watched.
pub fn watch_signals(sender: Sender<SessionEvent>, watcher: &Watcher) -> Result<signal_hook::iterator::Handle> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGCONT]).context("cannot watch signals")?;
    let handle = signals.handle();
    watcher.start("signals", move || {
        for signal in signals.forever() {
            if sender.send(SessionEvent::Signal(signal)).is_err() {
                break;
            }
        }
    })?;
    Ok(handle)
}
