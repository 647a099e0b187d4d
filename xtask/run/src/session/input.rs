//! Input for the program.

use std::io::{ErrorKind, Read};
use std::sync::{Condvar, Mutex, PoisonError};

use super::Streams;
use super::control::ToLink;
use crate::link::ToSystem;

/// Sends the input, then its end, never more than the system has room for, so that an interrupt always gets through.
pub fn pump_input(streams: Streams, link: &ToLink, window: &Window) {
    let send = |bytes: &[u8]| {
        window.wait_for_room(bytes.len());
        link.write(ToSystem::Stdin(bytes))
    };
    match streams {
        Streams::Overheard | Streams::Followed(_) => return,
        // A dialogue needs a terminal, and there is none.
        Streams::Dialogue(_) => {}
        Streams::Captured(input) => {
            if !input.chunks(4096).all(send) {
                return;
            }
        }
        Streams::Ours(_) => {
            let mut buffer = [0; 4096];
            let mut stdin = std::io::stdin().lock();
            loop {
                match stdin.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(count) if send(&buffer[..count]) => {}
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Ok(_) => return,
                    Err(_) => break,
                }
            }
        }
    }
    send(&[]);
}

/// Limits the input that was sent and not yet taken by the program.
#[derive(Debug, Default)]
pub struct Window {
    under_way: Mutex<usize>,
    less: Condvar,
}

impl Window {
    /// Number of bytes that `init` buffers for a program.
    const ROOM: usize = 64 << 10;

    fn wait_for_room(&self, count: usize) {
        let under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |under_way: &mut usize| *under_way > 0 && *under_way + count > Window::ROOM;
        let mut under_way = self.less.wait_while(under_way, fits).unwrap_or_else(PoisonError::into_inner);
        *under_way += count;
    }

    /// The program has taken this many bytes.
    pub fn taken(&self, count: usize) {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        *under_way = under_way.saturating_sub(count);
        self.less.notify_all();
    }
}
