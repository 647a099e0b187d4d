//! Who is connected at a port.

use net_switch::{Switch, TX};
use service::{ChannelEnds, Program};
use zx::Channel;

use crate::connection::{Connection, Finish};
use crate::memory::SharedMemory;
use crate::mode::Mode;
use crate::service::{KICK, REFILLED, key};
use crate::session_port::{CardPort, Fifos, ServicePort};

/// Who is connected.
#[derive(Debug)]
pub enum Peer {
    /// A guest's program.
    Guest(Connection),
    /// The TCP/IP service.
    Service(ServicePort),
    /// The driver of the card.
    Card(CardPort),
}

impl Peer {
    pub fn channel(&self) -> &Channel {
        match self {
            Peer::Guest(connection) => &connection.channel,
            Peer::Service(port) => &port.channel,
            Peer::Card(port) => &port.channel,
        }
    }

    /// Its program, if it is a client.
    pub fn program(&self) -> Option<Program> {
        match self {
            Peer::Guest(connection) => Some(connection.program),
            Peer::Service(port) => Some(port.program),
            Peer::Card(_) => None,
        }
    }

    /// The upper part of the keys of its packets.
    pub fn generation(&self) -> u32 {
        match self {
            Peer::Guest(connection) => connection.generation,
            Peer::Service(port) => port.generation,
            Peer::Card(port) => port.generation,
        }
    }

    /// The key of its packets for a queue.
    pub fn key_of(&self, port: usize, queue: usize) -> u64 {
        match self {
            Peer::Guest(connection) => connection.key_of_kick(port, queue),
            _ => key(port, self.generation(), if queue == TX { KICK } else { REFILLED }),
        }
    }

    /// The FIFOs of its session, if it has one.
    pub fn fifos(&mut self) -> Option<&mut Fifos> {
        match self {
            Peer::Guest(_) => None,
            Peer::Service(port) => port.fifos.as_mut(),
            Peer::Card(port) => port.fifos.as_mut(),
        }
    }

    /// Whether frames may come from it.
    pub fn sends(&self) -> bool {
        match self {
            Peer::Guest(connection) => connection.sends(),
            Peer::Service(port) => port.fifos.is_some(),
            Peer::Card(port) => port.fifos.is_some(),
        }
    }

    /// Reads and obeys one message. Returns false if there is none.
    ///
    /// # Errors
    /// The connection ends.
    pub fn message(
        &mut self,
        port: usize,
        keys: [u64; 2],
        switch: &mut Switch<SharedMemory>,
        (mode, ends): (&Mode, &ChannelEnds),
    ) -> Result<bool, Finish> {
        match self {
            Peer::Guest(connection) => connection.message(port, switch, (mode, ends)),
            Peer::Service(peer) => peer.message(port, keys, switch, mode),
            Peer::Card(peer) => peer.message(port, keys, switch, mode),
        }
    }
}
