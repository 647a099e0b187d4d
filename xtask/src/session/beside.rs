//! The instances beside the main one: what they say is shown with their names before it, or collected.

use std::io::{ErrorKind, Read};
use std::thread::{self, JoinHandle};

use super::console::{Console, watch_console};
use crate::line::Line;
use crate::link::{Decoder, Frame, Mark};
use crate::qemu::Lines;
use crate::symbols::Files;

/// What an instance beside the main one said.
#[derive(Debug, Default)]
pub struct Heard {
    /// Its name.
    pub name: String,
    /// On its console.
    pub console: Console,
    /// Over its link.
    pub transcript: Vec<Frame>,
}

/// Follows an instance.
pub struct Follower {
    name: String,
    console: Option<JoinHandle<Console>>,
    link: Option<JoinHandle<Vec<Frame>>>,
}

impl Follower {
    /// Shows what it says on our own output, where `ours`.
    pub fn new(lines: Lines, mark: Mark, verbose: bool, ours: bool, files: Option<Files>) -> Follower {
        let who = format!("{}: ", lines.name);
        let console = lines.console.map(|console| watch_console(console, who.clone(), verbose, ours, files));
        let link = lines.link.map(|link| thread::spawn(move || watch(link, mark, &who, ours)));
        Follower { name: lines.name, console, link }
    }

    /// Waits until the machine has ended.
    pub fn end(self) -> Heard {
        let console = self.console.and_then(|console| console.join().ok()).unwrap_or_default();
        let transcript = self.link.and_then(|link| link.join().ok()).unwrap_or_default();
        Heard { name: self.name, console, transcript }
    }
}

fn watch(mut link: Line, mark: Mark, who: &str, ours: bool) -> Vec<Frame> {
    let mut transcript = Vec::new();
    let (mut stdout, mut stderr) = (Lined::default(), Lined::default());
    let mut decoder = Decoder::with_mark(mark);
    let mut buffer = vec![0; 1 << 16];
    loop {
        let count = match link.read(&mut buffer) {
            Ok(count) if count > 0 => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            _ => return transcript,
        };
        // What is no frame is what is left of one that an end has cut: the mark follows.
        let frames = decoder.push(&buffer[..count]).unwrap_or_default();
        for frame in frames {
            if !ours {
                transcript.push(frame);
                continue;
            }
            match frame {
                Frame::Stdout(bytes) => stdout.push(&bytes, |line| println!("{who}{line}")),
                Frame::Stderr(bytes) => stderr.push(&bytes, |line| eprintln!("{who}{line}")),
                Frame::Exit(code) => eprintln!("{who}its program ended with {code}"),
                Frame::Trace(_) | Frame::Event(_) => {}
            }
        }
    }
}

/// Makes lines of pieces.
#[derive(Default)]
struct Lined(Vec<u8>);

impl Lined {
    fn push(&mut self, bytes: &[u8], show: impl Fn(&str)) {
        self.0.extend_from_slice(bytes);
        while let Some(end) = self.0.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.0.drain(..=end).collect();
            show(&String::from_utf8_lossy(&line[..end]));
        }
    }
}
