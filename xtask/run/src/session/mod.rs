//! One boot, from QEMU's start to its end: transfers input, output and exit code between the program and its caller.
//!
//! One thread each waits for the link, the console, the caller's input and signals. They send [`SessionEvent`]s to the
//! session's thread, which makes all decisions. The link's thread writes the output, so that all output before the exit
//! code is written when the session sees the exit code.
//!
//! A machine with a third serial port has a terminal: from the event `console` on, input goes to that port and its
//! output comes from there. Before that event and after the session, `init` uses the link as always.

pub mod console;
mod control;
mod input;
mod monitor;
pub mod other_instances;
mod output;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use anyhow::{Context, Result};

use console::{Console, Listener};
use control::{Control, Ended, watch_signals};
use monitor::follow_monitor;
use other_instances::Follower;
pub use output::SerialCapture;
use output::{Output, follow_link, follow_terminal};

use crate::line::Line;
use crate::link::{Frame, exit_code};
use crate::qemu::Machine;
use crate::symbols::Files;
use crate::trace::{Trace, Wanted};
use xtask_common::threads::{Failed, Watcher};

/// The source of the program's input and the destination of its output.
#[derive(Debug)]
pub enum Streams {
    /// This process' own streams.
    Ours(OutputOptions),
    /// Output is collected; this is the input.
    Captured(Vec<u8>),
    /// Output is collected; nothing is sent, not even the end of the input, because input would arrive at a different
    /// time in each run.
    Overheard,
    /// The same, and standard output is also sent to this channel as it comes.
    Followed(Sender<Vec<u8>>),
    /// For a machine with a terminal: each time its output contains the first text, the second is typed.
    Dialogue(Vec<(&'static str, &'static str)>),
}

/// How output is shown.
#[derive(Clone, Debug, Default)]
pub struct OutputOptions {
    /// Backtraces in the output get names from these files.
    pub names: Option<Files>,
    /// What to do with the system-call trace.
    pub trace: Option<Wanted>,
}

/// The parameters of a session.
#[derive(Debug)]
pub struct Session<'a> {
    /// The machine.
    pub machine: Machine<'a>,
    /// Time limit of the machine.
    pub timeout: Option<Duration>,
    /// Maximum time without a message over the link.
    pub quiet: Option<Duration>,
    /// Show the boot messages.
    pub verbose: bool,
    /// Input and output.
    pub streams: Streams,
    /// End at the program's first output.
    pub until_first_output: bool,
}

/// How a session ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The program ended with this code.
    Exit(i64),
    /// The time limit expired.
    TimedOut,
    /// The program wrote its first output, and nothing more was wanted.
    Output,
    /// This signal to this process ended it.
    Signal(i32),
    /// The reader of our output has closed it.
    OutputClosed,
    /// The machine stopped without an exit code; the reason, if it is known.
    Stopped(String),
}

impl End {
    /// The exit code of this process for this end.
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

/// The result of a session.
#[derive(Debug)]
pub struct Outcome {
    /// How it ended.
    pub end: End,
    /// The frames from the link, in order; output is included only if it is captured.
    pub transcript: Vec<Frame>,
    /// Warnings and errors of the system, as `who: text`.
    pub warnings: Vec<String>,
    /// The last messages of kernel, root task and server.
    pub said: VecDeque<String>,
    /// Time from QEMU's start to the first output.
    pub first_output: Option<Duration>,
    /// Output of the third serial port; empty if it went to our own output.
    pub terminal: Vec<u8>,
    /// All messages of the root task.
    pub root: Vec<String>,
    /// Messages of components and servers, as `who: text`.
    pub others: Vec<String>,
    /// The output of the additional instances.
    pub beside: Vec<other_instances::InstanceOutput>,
}

impl Outcome {
    /// All captured standard output.
    pub fn stdout(&self) -> Vec<u8> {
        let output =
            self.transcript.iter().filter_map(|frame| if let Frame::Stdout(b) = frame { Some(b) } else { None });
        output.flatten().copied().collect()
    }

    /// All captured standard error, without the system's own warnings.
    pub fn stderr(&self) -> Vec<u8> {
        let output =
            self.transcript.iter().filter_map(|frame| if let Frame::Stderr(b) = frame { Some(b) } else { None });
        output.flatten().copied().collect()
    }
}

/// An event that a thread reports to the session.
#[derive(Debug)]
pub enum SessionEvent {
    /// The first frame from `init`.
    FirstFrame,
    /// A program has the third serial port now.
    Console,
    /// There is no console: input goes over the link.
    NoConsole,
    /// Ctrl-Z.
    Suspend,
    /// A frame arrived that causes no other event.
    Word,
    /// The program has written its first output.
    FirstOutput,
    /// It ended.
    Exit(i64),
    /// The program has taken this many bytes of its input.
    InputTaken(usize),
    /// The reader of our output has closed it.
    OutputClosed,
    /// The machine has stopped; the reason, if it is known.
    LinkEnded(Option<String>),
    /// A signal.
    Signal(i32),
    /// A thread of this tool has failed.
    Failed(Failed),
}

/// Maximum time for the machine to turn off after the program's end, and the time within which a second Ctrl-C ends it.
const PATIENCE: Duration = Duration::from_secs(2);

impl Session<'_> {
    /// Boots, and waits for the end.
    ///
    /// # Errors
    /// The machine cannot be started.
    pub fn run(self) -> Result<Outcome> {
        let ours = matches!(self.streams, Streams::Ours(_));
        let OutputOptions { names: files, trace } = match &self.streams {
            Streams::Ours(shows) => shows.clone(),
            _ => OutputOptions::default(),
        };
        let trace = trace.as_ref().map(Trace::new).transpose()?;
        let follower = if let Streams::Followed(follower) = &self.streams { Some(follower.clone()) } else { None };
        let (sender, happenings) = channel();
        let told = sender.clone();
        let watcher = Watcher::new(move |failed| drop(told.send(SessionEvent::Failed(failed))));
        let signals = if ours { Some(watch_signals(sender.clone(), &watcher)?) } else { None };
        let mut running = self.machine.start()?;
        let clone = |stream: &Line| stream.try_clone().context("cannot share a serial port");
        let (verbose, beside) = (self.verbose, std::mem::take(&mut running.beside));
        let listener = Listener { verbose, ours, files: files.clone(), watcher: watcher.clone() };
        let follow = |lines| Follower::new(lines, running.mark, &listener);
        let beside: Vec<Follower> = beside.into_iter().map(follow).collect::<Result<_>>()?;
        let console = listener.watch(clone(&running.console)?, String::new())?;
        if let Some(monitor) = running.monitor.take() {
            watcher.start("monitor", move || follow_monitor(monitor))?;
        }
        let heard = Arc::new(SerialCapture::default());
        let terminal = match &running.terminal {
            Some(stream) => {
                let (stream, sender, heard, files) = (clone(stream)?, sender.clone(), heard.clone(), files.clone());
                Some(watcher.start("terminal", move || follow_terminal(stream, &sender, ours, &heard, files))?)
            }
            None => None,
        };
        let shown = Output { ours, until_first: self.until_first_output, files, trace, follower };
        let (link, to_control) = (clone(&running.link)?, sender.clone());
        let output = watcher.start("link", move || follow_link(link, &to_control, shown))?;
        let deadline = self.timeout.map(|timeout| running.started + timeout);
        let control = Control {
            running: &running,
            happenings,
            sender,
            watcher,
            deadline,
            quiet: self.quiet,
            heard: heard.clone(),
        };
        let Ended { mut end, in_order } = control.run(self.streams)?;
        let complaints = running.end(if in_order { PATIENCE } else { Duration::ZERO });
        if let Some(signals) = signals {
            signals.close();
        }
        // If a thread of ours failed, its lost output may be what matters.
        let mut lost = None;
        let console = console.join().inspect_err(|failed| lost = Some(*failed)).unwrap_or_default();
        let collected = output.join().inspect_err(|failed| lost = Some(*failed)).unwrap_or_default();
        let terminal = terminal.map(|thread| thread.join().inspect_err(|failed| lost = Some(*failed)));
        let terminal = terminal.map(|_| heard.all()).unwrap_or_default();
        let beside = beside.into_iter().map(|follower| follower.end().inspect_err(|failed| lost = Some(*failed)));
        let beside = beside.map(Result::unwrap_or_default).collect();
        if let Some(failed) = lost {
            end = End::Stopped(failed.to_string());
        }
        let Console { warnings, root, others, last } = console;
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
            beside,
        })
    }
}
