//! The end of the machine: what the clients have written is still sent.

use smoltcp::socket::tcp::{self, State};

use crate::packets::Side;
use crate::ports::Id;
use crate::socket::Socket;
use crate::stack::{DataSockets, Stack};

impl<W: DataSockets> Stack<W> {
    /// Closes all sockets, as their clients end with the machine.
    pub fn close_all(&mut self) {
        let ids: Vec<Id> = self.sockets.keys().copied().collect();
        for id in ids {
            if let Some(socket) = self.sockets.get_mut(&id) {
                socket.holders = 1;
            }
            self.close(id);
        }
    }

    /// Whether, after that, something is still to be sent over the card, or to be acknowledged by a peer.
    pub fn has_unsent(&mut self) -> bool {
        if !self.is_online() {
            return false;
        }
        // A closed socket for datagrams stays only for those.
        let waits = |(id, Socket { closing, .. }): (&Id, &Socket<W::End>)| *closing && !self.packets.contains_key(id);
        if self.sockets.iter().any(waits) {
            return true;
        }
        let Stack { packets, sockets, .. } = self;
        packets.iter_mut().any(|(id, packets)| {
            let is_closed = packets.side == Side::Card && sockets.contains_key(id);
            is_closed
                && match packets.datagrams {
                    Some(waiting) => waiting > 0,
                    None => {
                        let state = packets.socket::<tcp::Socket<'static>>().state();
                        // Before the end of our data is acknowledged.
                        !matches!(state, State::Closed | State::Listen | State::FinWait2 | State::TimeWait)
                    }
                }
        })
    }
}
