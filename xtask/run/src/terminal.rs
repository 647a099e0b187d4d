//! The user's terminal while a program inside has the third serial port: every key is sent there at once. The driver
//! inside does editing, echo and history, as on any machine at the end of a serial line.
//!
//! This tool handles two keys itself. Ctrl-C is passed on, but twice within two seconds it ends the machine; Ctrl-Z
//! stops the tool as usual.

use std::io::{ErrorKind, Read, Write};
use std::sync::mpsc::Sender;

use rustix::process::{Signal, kill_current_process_group};
use rustix::stdio::stdin;
use rustix::termios::{InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use signal_hook::consts::SIGINT;

use crate::line::Line;
use crate::session::{SerialCapture, SessionEvent, Streams};

/// What Ctrl-C sends.
pub const INTERRUPT: u8 = 3;
/// What Ctrl-D sends, also used for the end of input.
pub const END: u8 = 4;
/// What Ctrl-Z sends.
const SUSPEND: u8 = 26;

/// A terminal in raw mode; dropping it restores the previous mode. It does nothing without a terminal.
#[derive(Debug)]
pub struct Raw {
    before: Option<Termios>,
}

impl Raw {
    /// Sets raw mode on standard input.
    pub fn take() -> Raw {
        let raw = Raw { before: tcgetattr(stdin()).ok() };
        raw.again();
        raw
    }

    /// Sets it again after the tool was stopped and continued.
    pub fn again(&self) {
        let Some(mut mode) = self.before.clone() else { return };
        mode.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN);
        mode.input_modes.remove(InputModes::ICRNL | InputModes::INLCR | InputModes::IXON);
        // Output processing stays on: other programs write lines to this terminal.
        mode.special_codes[SpecialCodeIndex::VMIN] = 1;
        mode.special_codes[SpecialCodeIndex::VTIME] = 0;
        let _ = tcsetattr(stdin(), OptionalActions::Now, &mode);
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = tcsetattr(stdin(), OptionalActions::Now, before);
        }
    }
}

/// Sends the input to the serial port, then its end.
pub fn pump(streams: Streams, mut to: Line, sender: &Sender<SessionEvent>, heard: &SerialCapture) {
    match streams {
        Streams::Overheard | Streams::Followed(_) => {}
        Streams::Dialogue(lines) => {
            let mut at = 0;
            for (wait, typed) in lines {
                match heard.wait_for(wait, at) {
                    Some(end) => at = end,
                    None => return,
                }
                if to.write_all(typed.as_bytes()).is_err() {
                    return;
                }
            }
            // The program decides what to do with the rest.
            return;
        }
        Streams::Captured(input) => {
            let _ = to.write_all(&input);
        }
        Streams::Ours(_) => {
            let mut buffer = [0; 4096];
            let mut input = std::io::stdin().lock();
            loop {
                match input.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(count) => {
                        if !buffer[..count].iter().all(|byte| key(*byte, &mut to, sender)) {
                            return;
                        }
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
        }
    }
    let _ = to.write_all(&[END]);
}

/// Passes a key on; returns whether the other end is open.
fn key(byte: u8, to: &mut Line, sender: &Sender<SessionEvent>) -> bool {
    match byte {
        INTERRUPT => sender.send(SessionEvent::Signal(SIGINT)).is_ok(),
        SUSPEND => sender.send(SessionEvent::Suspend).is_ok(),
        _ => to.write_all(&[byte]).is_ok(),
    }
}

/// Stops this tool, as Ctrl-Z does.
pub fn suspend() {
    let _ = kill_current_process_group(Signal::TSTP);
}
