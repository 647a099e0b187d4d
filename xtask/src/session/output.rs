//! What comes out of the machine's ports: over the link, and from the terminal's port.

use std::io::{ErrorKind, Read};
use std::sync::mpsc::Sender;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

use super::Happening;
use super::console::Shown;
use crate::line::Line;
use crate::link::{Decoder, Frame};
use crate::symbols::Files;
use crate::trace::Trace;
use crate::words;

/// The most bytes of a machine's words that are kept. One that says more is ended: this tool's memory is not its.
const MOST: usize = 512 << 20;
/// What keeping a frame takes beside its bytes.
const FRAME: usize = 64;

/// What came over the link.
#[derive(Debug, Default)]
pub struct Collected {
    /// Where it is to be collected; otherwise nothing.
    pub transcript: Vec<Frame>,
    /// When there was output first.
    pub first_output: Option<Instant>,
    /// What the transcript takes.
    size: usize,
}

impl Collected {
    /// Keeps a frame; says whether there is room for more.
    fn keep(&mut self, frame: Frame) -> bool {
        self.size = self.size.saturating_add(FRAME + frame.size());
        self.transcript.push(frame);
        self.size <= MOST
    }
}

/// What becomes of output.
pub struct Output {
    /// It is this process' own.
    pub ours: bool,
    /// Nothing more is wanted than the first.
    pub until_first: bool,
    /// Backtraces get names from these.
    pub files: Option<Files>,
    /// What becomes of the kernel's trace.
    pub trace: Option<Trace>,
    /// Who follows standard output.
    pub follower: Option<Sender<Vec<u8>>>,
}

/// Follows the link to its end.
pub fn follow_link(mut link: Line, sender: &Sender<Happening>, shown: Output) -> Collected {
    let Output { ours, until_first, files, mut trace, follower } = shown;
    let (mut stdout, mut stderr) = (Shown::new(files.clone()), Shown::new(files));
    let mut collected = Collected::default();
    let mut decoder = Decoder::default();
    let mut buffer = vec![0; 1 << 16];
    let (mut first, mut closed) = (true, false);
    let end = 'link: loop {
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
                    if ours && !closed && stdout.write(std::io::stdout(), bytes).is_err() {
                        closed = true;
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
            if !ours && !collected.keep(frame) {
                break 'link Happening::LinkEnded(Some(format!("it said more than {} MiB", MOST >> 20)));
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

/// What has come from the third serial port, where it is collected.
#[derive(Debug, Default)]
pub struct Heard {
    bytes: Mutex<(Vec<u8>, bool)>,
    more: Condvar,
}

impl Heard {
    /// Keeps some more, as far as there is room; says whether there is.
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
pub fn follow_terminal(mut stream: Line, sender: &Sender<Happening>, ours: bool, heard: &Heard, files: Option<Files>) {
    let mut shown = Shown::new(files);
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(count) if count > 0 && !ours => {
                if !heard.add(&buffer[..count]) {
                    let _ = sender.send(Happening::LinkEnded(Some(format!("it said more than {} MiB", MOST >> 20))));
                    break;
                }
            }
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
}
