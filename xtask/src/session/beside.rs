//! The instances beside the main one: what they say is shown with their names before it, or collected.

use std::io::{ErrorKind, Read, Write};

use anyhow::Result;

use super::console::{Console, Listener};
use crate::line::Line;
use crate::link::{Decoder, Frame, Mark};
use crate::qemu::Lines;
use crate::threads::{Failed, Thread};
use crate::words;

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
    console: Option<Thread<Console>>,
    link: Option<Thread<Vec<Frame>>>,
}

impl Follower {
    /// Follows its console and its link.
    ///
    /// # Errors
    /// There is no room for the threads.
    pub fn new(lines: Lines, mark: Mark, listener: &Listener) -> Result<Follower> {
        let (who, ours) = (format!("{}: ", lines.name), listener.ours);
        let console = lines.console.map(|console| listener.watch(console, who.clone())).transpose()?;
        let link = lines.link.map(|link| listener.watcher.start("beside", move || follow(link, mark, &who, ours)));
        Ok(Follower { name: lines.name, console, link: link.transpose()? })
    }

    /// Waits until the machine has ended.
    ///
    /// # Errors
    /// A thread has failed.
    pub fn end(self) -> Result<Heard, Failed> {
        let console = self.console.map(Thread::join).transpose()?.unwrap_or_default();
        let transcript = self.link.map(Thread::join).transpose()?.unwrap_or_default();
        Ok(Heard { name: self.name, console, transcript })
    }
}

/// The most bytes of output that are kept of an instance; what is over that is left out.
const MOST: usize = 64 << 20;

fn follow(mut link: Line, mark: Mark, who: &str, ours: bool) -> Vec<Frame> {
    let (mut transcript, mut size) = (Vec::new(), 0_usize);
    let (mut stdout, mut stderr) = (words::Lines::default(), words::Lines::default());
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
                size = size.saturating_add(64 + frame.size());
                if size <= MOST {
                    transcript.push(frame);
                }
                continue;
            }
            // Behind the name of its instance, what a program says is a word like others'. Nobody need be there to read it.
            match frame {
                Frame::Stdout(bytes) => stdout.push(&bytes, |line| {
                    let _ = writeln!(std::io::stdout(), "{who}{}", words::visible(line));
                }),
                Frame::Stderr(bytes) => {
                    stderr.push(&bytes, |line| words::say(&format!("{who}{}", words::visible(line))))
                }
                Frame::Exit(code) => words::say(&format!("{who}its program ended with {code}")),
                Frame::Trace(_) | Frame::Event(_) => {}
            }
        }
    }
}
