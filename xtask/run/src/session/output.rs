//! Output of the machine: over the link, and from the terminal's port.

use std::io::{ErrorKind, Read};
use std::sync::mpsc::Sender;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

use super::SessionEvent;
use super::console::ProgramStream;
use crate::line::Line;
use crate::link::{Decoder, Frame};
use crate::symbols::Files;
use crate::trace::Trace;
use xtask_common::words;

/// Maximum size of a machine's output that is kept, in bytes. A machine with more output is ended, to protect this
/// tool's memory.
const MOST: usize = 512 << 20;
/// Memory for keeping a frame in addition to its bytes.
const FRAME: usize = 64;

/// What was received over the link.
#[derive(Debug, Default)]
pub struct Collected {
    /// The frames, if they are collected.
    pub transcript: Vec<Frame>,
    /// Time of the first output.
    pub first_output: Option<Instant>,
    /// Memory that the transcript takes.
    size: usize,
}

impl Collected {
    /// Keeps a frame; returns whether there is room for more.
    fn keep(&mut self, frame: Frame) -> bool {
        self.size = self.size.saturating_add(FRAME + frame.size());
        self.transcript.push(frame);
        self.size <= MOST
    }
}

/// What to do with output.
pub struct Output {
    /// It goes to this process' own streams.
    pub ours: bool,
    /// Only the first output is wanted.
    pub until_first: bool,
    /// Backtraces get names from these.
    pub files: Option<Files>,
    /// What to do with the system-call trace.
    pub trace: Option<Trace>,
    /// Gets standard output as it comes.
    pub follower: Option<Sender<Vec<u8>>>,
}

/// Follows the link to its end.
pub fn follow_link(mut link: Line, sender: &Sender<SessionEvent>, shown: Output) -> Collected {
    let Output { ours, until_first, files, mut trace, follower } = shown;
    let (mut stdout, mut stderr) = (ProgramStream::new(files.clone()), ProgramStream::new(files));
    let mut collected = Collected::default();
    let mut decoder = Decoder::default();
    let mut buffer = vec![0; 1 << 16];
    let (mut first, mut closed) = (true, false);
    let end = 'link: loop {
        let count = match link.read(&mut buffer) {
            Ok(0) => break SessionEvent::LinkEnded(None),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => break SessionEvent::LinkEnded(None),
        };
        let frames = match decoder.push(&buffer[..count]) {
            Ok(frames) => frames,
            Err(error) => break SessionEvent::LinkEnded(Some(error.to_string())),
        };
        if first && !frames.is_empty() {
            first = false;
            let _ = sender.send(SessionEvent::FirstFrame);
        }
        if !ours {
            let _ = sender.send(SessionEvent::Word);
        }
        for frame in frames {
            let happening = match &frame {
                Frame::Stdout(bytes) => {
                    collected.first_output.get_or_insert_with(Instant::now);
                    if let Some(follower) = &follower {
                        // If the follower has gone, nothing is lost: the output is also collected.
                        let _ = follower.send(bytes.clone());
                    }
                    if ours && !closed && stdout.write(std::io::stdout(), bytes).is_err() {
                        closed = true;
                        Some(SessionEvent::OutputClosed)
                    } else {
                        until_first.then_some(SessionEvent::FirstOutput)
                    }
                }
                Frame::Stderr(bytes) => {
                    if ours {
                        // The program continues if standard error cannot be written.
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
                Frame::Exit(code) => Some(SessionEvent::Exit(*code)),
                Frame::Event(text) if text == "console" => Some(SessionEvent::Console),
                Frame::Event(text) if text == "no-console" => Some(SessionEvent::NoConsole),
                Frame::Event(text) => text
                    .strip_prefix("stdin\t")
                    .and_then(|count| Some(SessionEvent::InputTaken(count.trim().parse().ok()?))),
            };
            if !ours && !collected.keep(frame) {
                break 'link SessionEvent::LinkEnded(Some(format!("it said more than {} MiB", MOST >> 20)));
            }
            if happening.is_some_and(|happening| sender.send(happening).is_err()) {
                return collected;
            }
        }
    };
    for note in trace.map(Trace::end).unwrap_or_default() {
        words::say(&format!("hafnon: {note}"));
    }
    if ours {
        let _ = stdout.end(std::io::stdout());
        let _ = stderr.end(std::io::stderr());
    }
    let _ = sender.send(end);
    collected
}

/// Output of the third serial port, if it is collected.
#[derive(Debug, Default)]
pub struct SerialCapture {
    bytes: Mutex<(Vec<u8>, bool)>,
    more: Condvar,
}

impl SerialCapture {
    /// Keeps more bytes up to the limit; returns whether there is room for more.
    fn add(&self, bytes: &[u8]) -> bool {
        let mut all = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MOST.saturating_sub(all.0.len()).min(bytes.len());
        all.0.extend_from_slice(&bytes[..room]);
        self.more.notify_all();
        room == bytes.len()
    }

    fn end(&self) {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).1 = true;
        self.more.notify_all();
    }

    /// All of it.
    pub fn all(&self) -> Vec<u8> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// Waits until `text` has arrived after the byte `from`; returns where it ends. `None`: the output has ended
    /// without it.
    pub fn wait_for(&self, text: &str, from: usize) -> Option<usize> {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut from = from;
        loop {
            let behind = bytes.0.get(from..).unwrap_or_default();
            if let Some(at) = behind.windows(text.len().max(1)).position(|part| part == text.as_bytes()) {
                return Some(from + at + text.len());
            }
            // Only new bytes are searched, and old ones that may be the beginning of the text.
            from = from.max((bytes.0.len() + 1).saturating_sub(text.len()));
            if bytes.1 {
                return None;
            }
            bytes = self.more.wait(bytes).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Shows the output of the third serial port, or collects it.
pub fn follow_terminal(
    mut stream: Line,
    sender: &Sender<SessionEvent>,
    ours: bool,
    heard: &SerialCapture,
    files: Option<Files>,
) {
    let mut shown = ProgramStream::new(files);
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(count) if count > 0 && !ours => {
                if !heard.add(&buffer[..count]) {
                    let _ = sender.send(SessionEvent::LinkEnded(Some(format!("it said more than {} MiB", MOST >> 20))));
                    break;
                }
            }
            Ok(count) if count > 0 => {
                if shown.write(std::io::stdout(), &buffer[..count]).is_err() {
                    let _ = sender.send(SessionEvent::OutputClosed);
                    break;
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            _ => break,
        }
    }
    heard.end();
}
