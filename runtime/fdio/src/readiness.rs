//! The signals of a network socket that `poll` waits for, and the events that they stand for.

use core::sync::atomic::Ordering;

use abi::Signals;

use crate::c::Result;
use crate::network::{CONNECTED, CONNECTING, ERROR, FRESH, INCOMING, LISTENS, Network, OPEN, READABLE, WRITABLE};

impl Network {
    /// The signals to wait for before the socket has one of these events. Each of them stands for one of these, or for
    /// an event that `poll` reports unasked: else a wait would end without an event, and the next one at once.
    ///
    /// # Errors
    /// Errors of the kernel for the data socket.
    pub fn wanted(&self, asked: Asked) -> Result<Signals> {
        let state = if self.is_datagram() { OPEN } else { self.state()? };
        let mut signals = Signals::SOCKET_PEER_CLOSED;
        signals.set(ERROR, state != LISTENS);
        let (readable, writable) = match state {
            LISTENS => (INCOMING, Signals::NONE),
            CONNECTING => (READABLE, CONNECTED),
            OPEN if self.is_datagram() => (READABLE, Signals::SOCKET_WRITE_THRESHOLD | Signals::SOCKET_WRITE_DISABLED),
            // The socket is neither connected nor connecting: there is nothing to wait for.
            FRESH => return Ok(Signals::NONE),
            _ => (READABLE, WRITABLE),
        };
        signals.set(readable, asked.read);
        signals.set(writable, asked.write);
        // Only the end of a stream is an event of its own.
        let stream = matches!(state, CONNECTING | OPEN) && !self.is_datagram();
        if asked.ended && stream {
            signals |= Signals::SOCKET_PEER_WRITE_DISABLED;
        }
        Ok(signals)
    }

    /// The events that these signals stand for.
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
                // After an error, the service shuts down both directions; reporting that at once saves the caller
                // another `poll`.
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

/// The events that a caller of `poll` asks for.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// A read does not block.
    pub read: bool,
    /// A write does not block.
    pub write: bool,
    /// The peer has shut down writing.
    pub ended: bool,
}

/// Events of a socket, for `poll`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Events {
    /// A read does not block.
    pub read: bool,
    /// A write does not block.
    pub write: bool,
    /// An error is pending.
    pub error: bool,
    /// The peer has shut down writing.
    pub ended: bool,
    /// Both sides have shut down writing.
    pub hung_up: bool,
}
