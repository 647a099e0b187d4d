//! The additional instances: their output is shown, prefixed with their names, or collected.

use std::io::{ErrorKind, Read, Write};

use anyhow::Result;

use super::console::{Console, Listener};
use crate::line::Line;
use crate::link::{Decoder, Frame, Mark};
use crate::qemu::Lines;
use xtask_common::threads::{Failed, Thread};
use xtask_common::words;

/// The output of an additional instance.
#[derive(Debug, Default)]
pub struct InstanceOutput {
    /// Its name.
    pub name: String,
    /// From its console.
    pub console: Console,
    /// From its link.
    pub transcript: Vec<Frame>,
}

/// Follows the output of an instance.
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
    pub fn end(self) -> Result<InstanceOutput, Failed> {
        let console = self.console.map(Thread::join).transpose()?.unwrap_or_default();
        let transcript = self.link.map(Thread::join).transpose()?.unwrap_or_default();
        Ok(InstanceOutput { name: self.name, console, transcript })
    }
}

/// Maximum size of the output that is kept of an instance, in bytes. The rest is dropped.
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
        // Bytes that are not a frame are the rest of one that the end of a life has cut: the mark follows.
        let frames = decoder.push(&buffer[..count]).unwrap_or_default();
        for frame in frames {
            if !ours {
                size = size.saturating_add(64 + frame.size());
                if size <= MOST {
                    transcript.push(frame);
                }
                continue;
            }
            // A program's output is prefixed with the name of its instance and escaped like other text. If standard
            // error is closed, the error is ignored.
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
