//! What `poll` waits for and tells of a socket of the network.

use core::sync::atomic::Ordering;

use abi::Signals;

use crate::c::Result;
use crate::network::{CONNECTED, CONNECTING, ERROR, FRESH, INCOMING, LISTENS, Network, OPEN, READABLE, WRITABLE};

impl Network {
    /// What to wait for when somebody wants to read or write.
    ///
    /// # Errors
    /// As what the data socket answers.
    pub fn wanted(&self, read: bool, write: bool) -> Result<Signals> {
        let state = if self.is_datagram() { OPEN } else { self.state()? };
        let mut signals = ERROR | Signals::SOCKET_PEER_CLOSED;
        let (readable, writable) = match state {
            LISTENS => (INCOMING, Signals::NONE),
            CONNECTING => (READABLE, CONNECTED),
            OPEN if self.is_datagram() => (READABLE, Signals::SOCKET_WRITE_THRESHOLD | Signals::SOCKET_WRITE_DISABLED),
            // Neither connected nor about to be: there is nothing to wait for.
            FRESH => return Ok(Signals::NONE),
            _ => (READABLE, WRITABLE),
        };
        signals.set(readable, read);
        signals.set(writable, write);
        Ok(signals)
    }

    /// What these signals say.
    pub fn events(&self, signals: Signals) -> Events {
        let gone = signals.contains(Signals::SOCKET_PEER_CLOSED);
        let error = signals.contains(ERROR);
        if self.is_datagram() {
            let write = signals.intersects(Signals::SOCKET_WRITE_THRESHOLD | Signals::SOCKET_WRITE_DISABLED);
            let read = signals.intersects(READABLE) || error;
            return Events { read, write: write || gone, error: error || gone, ended: false, hung_up: gone };
        }
        let state = if signals.contains(CONNECTED) { OPEN } else { self.state.load(Ordering::Relaxed) };
        match state {
            LISTENS => {
                let read = gone || signals.contains(INCOMING);
                Events { read, write: false, error: gone, ended: gone, hung_up: gone }
            }
            OPEN => {
                // The end of both ways follows an error, but nobody has to look again for it.
                let ended = gone || error || signals.contains(Signals::SOCKET_PEER_WRITE_DISABLED);
                let stopped = gone || error || signals.contains(Signals::SOCKET_WRITE_DISABLED);
                Events {
                    read: ended || signals.contains(Signals::SOCKET_READABLE),
                    write: stopped || signals.contains(Signals::SOCKET_WRITABLE),
                    error,
                    ended,
                    hung_up: ended && stopped,
                }
            }
            CONNECTING => {
                let over = error || gone;
                Events { read: over, write: over, error: over, ended: over, hung_up: over }
            }
            _ => Events { read: false, write: true, error: gone, ended: false, hung_up: true },
        }
    }
}

/// What can be told of a socket to who polls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Events {
    /// Reading does not wait.
    pub read: bool,
    /// Writing does not wait.
    pub write: bool,
    /// There is an error.
    pub error: bool,
    /// The peer writes no more.
    pub ended: bool,
    /// Neither side writes any more.
    pub hung_up: bool,
}
