//! What a session does about what happens: the one thread that decides.

use std::io::Write;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGWINCH};
use signal_hook::iterator::Signals;

use super::input::{Window, pump_input};
use super::output::Heard;
use super::{End, Happening, PATIENCE, Streams};
use crate::line::Line;
use crate::link::ToSystem;
use crate::qemu::Running;
use crate::terminal::{self, Raw};
use crate::threads::Watcher;

/// What decides over a session.
pub struct Control<'a> {
    /// The machine.
    pub running: &'a Running,
    /// What the threads tell, and where they tell it.
    pub happenings: Receiver<Happening>,
    /// For threads that are started later.
    pub sender: Sender<Happening>,
    /// Whom their failure is told.
    pub watcher: Watcher,
    /// When the machine is ended.
    pub deadline: Option<Instant>,
    /// After how long without a word it is ended, too.
    pub quiet: Option<Duration>,
    /// What has come from the terminal's port.
    pub heard: Arc<Heard>,
}

/// Frames to the system; those of several threads must not mix.
#[derive(Clone)]
pub struct ToLink {
    line: Arc<Mutex<Line>>,
    watcher: Watcher,
}

impl ToLink {
    /// Sends a frame, waiting for room. Says whether the other end is there.
    pub fn write(&self, frame: ToSystem<'_>) -> bool {
        self.line.lock().is_ok_and(|mut line| line.write_all(&frame.encode()).is_ok())
    }

    /// Sends without waiting: the link may be full of input that nobody reads, and then only a second Ctrl-C helps.
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

impl Control<'_> {
    /// Waits until something ends the session.
    ///
    /// # Errors
    /// There is no room for what this tool needs.
    pub fn run(self, streams: Streams) -> Result<End> {
        let Control { running, happenings, sender, watcher, deadline, quiet, heard: heard_terminal } = self;
        let ours = matches!(streams, Streams::Ours(_));
        let line = running.link.try_clone().context("cannot share a serial port")?;
        let to_system = ToLink { line: Arc::new(Mutex::new(line)), watcher: watcher.clone() };
        let window = Arc::new(Window::default());
        let mut input = Some(streams);
        let pump = |streams: Streams| {
            let (to_system, window) = (to_system.clone(), window.clone());
            watcher.start("input", move || pump_input(streams, &to_system, &window))
        };
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
                        pump(streams)?;
                    }
                    if ours {
                        to_system.send_window_size()?;
                    }
                }
                Happening::Console => {
                    attached = true;
                    if let (Some(streams), Some(stream)) = (input.take(), &running.terminal) {
                        raw = ours.then(Raw::take);
                        let stream = stream.try_clone().context("cannot share a serial port")?;
                        let (sender, heard) = (sender.clone(), heard_terminal.clone());
                        watcher.start("keys", move || terminal::pump(streams, stream, &sender, &heard))?;
                    }
                }
                Happening::NoConsole => {
                    attached = false;
                    raw = None;
                    if running.terminal.is_some()
                        && let Some(streams) = input.take()
                    {
                        pump(streams)?;
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
                Happening::Failed(failed) => return Ok(End::Stopped(failed.to_string())),
                Happening::Signal(SIGWINCH) if ready => to_system.send_window_size()?,
                Happening::Signal(SIGWINCH) => {}
                Happening::Signal(SIGINT) if ready && interrupted.is_none_or(|at| at.elapsed() > PATIENCE) => {
                    interrupted = Some(Instant::now());
                    match &running.terminal {
                        Some(stream) if attached => {
                            let mut stream = stream.try_clone().context("cannot share a serial port")?;
                            watcher.start("interrupt", move || stream.write_all(&[terminal::INTERRUPT]))?;
                        }
                        _ => to_system.send(ToSystem::Interrupt)?,
                    }
                }
                Happening::Signal(signal) => return Ok(End::Signal(signal)),
            }
        }
    }
}

/// Tells of signals from now on.
///
/// # Errors
/// They cannot be watched.
pub fn watch_signals(sender: Sender<Happening>, watcher: &Watcher) -> Result<signal_hook::iterator::Handle> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGCONT]).context("cannot watch signals")?;
    let handle = signals.handle();
    watcher.start("signals", move || {
        for signal in signals.forever() {
            if sender.send(Happening::Signal(signal)).is_err() {
                break;
            }
        }
    })?;
    Ok(handle)
}
