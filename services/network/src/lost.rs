//! Addresses that the card has lost: DHCP gave another one or none, or an advertised prefix has ended.
//!
//! A connection with such an address can get no answer any more, and another machine may have the address. So it ends with
//! [`Error::Aborted`], and nothing more is sent. As on Linux, a socket that is bound to the address stays so: its listener
//! answers nobody, its datagrams are refused, and it works again when the card gets the address back.

use std::net::IpAddr;

use network_protocol::{ERROR, Error};

use crate::ports::{Ends, Id};
use crate::socket::{Body, Datagrams, End, Flow, Phase, Socket, Transport};
use crate::stack::{DataSockets, Stack};

impl<W: DataSockets> Stack<W> {
    /// These addresses were the card's and are not any more. Their connections end, each in its turn.
    pub(crate) fn lose_addresses(&mut self, lost: &[IpAddr]) {
        if lost.is_empty() {
            return;
        }
        let is_lost = |ip: IpAddr| lost.contains(&ip);
        // Of a connection within the machine, either end may have the address.
        let ends = self.flows.iter().filter(|(Ends(local, peer), _)| is_lost(local.ip()) || is_lost(peer.ip()));
        let flows: Vec<Id> = ends.map(|(_, id)| *id).collect();
        for id in flows {
            if let Some(socket) = self.sockets.get_mut(&id) {
                socket.lost = true;
            }
            self.touch(id);
        }
        if let Some(card) = &mut self.card {
            card.half_open.lose(is_lost);
        }
        // Datagrams that wait for the card may have the address, too.
        self.lose_waiting_datagrams();
    }

    /// The turn of a connection with a lost address.
    pub(crate) fn lose_flow(&mut self, id: Id) {
        let Some(Socket { body: Body::Flow(flow), lost, .. }) = self.sockets.get_mut(&id) else { return };
        *lost = false;
        match (flow.way, flow.phase) {
            (Transport::Gone, _) => {}
            (_, Phase::Orphan | Phase::Arriving(_)) => self.abort(id),
            (_, Phase::Connecting(_)) => {
                self.forget_flow(id);
                self.drop_packets(id);
                self.not_connected(id, Error::Aborted);
            }
            (way, _) => {
                for id in [Some(id), way.other()].into_iter().flatten() {
                    self.forget_flow(id);
                    self.drop_packets(id);
                    self.connection_lost(id, Error::Aborted);
                }
            }
        }
    }

    /// A datagram was refused because its socket's address is lost. Only a connected socket is told.
    pub(crate) fn datagram_refused(&mut self, id: Id) {
        if let Some(Socket { body: Body::Datagrams(Datagrams { peer: Some(_), .. }), end, error, .. }) =
            self.sockets.get_mut(&id)
        {
            *error = Some(Error::AddressNotAvailable);
            end.tell(0, ERROR);
        }
    }

    /// An open connection has no way any more: its client gets this error, and then the end.
    pub(crate) fn connection_lost(&mut self, id: Id, why: Error) {
        let Some(Socket { end, body: Body::Flow(flow), error, .. }) = self.sockets.get_mut(&id) else { return };
        // A client that sees the end must see the error, so the error is reported first.
        *error = Some(why);
        end.tell(0, ERROR);
        end.cut();
        flow.end();
    }
}

impl Flow {
    /// It has ended. A connection that waits to be accepted stays in its queue; the client that accepts it gets the error.
    pub(crate) fn end(&mut self) {
        if !matches!(self.phase, Phase::Waiting(_)) {
            self.phase = Phase::Over;
        }
    }
}

impl Transport {
    /// The other end of a direct connection.
    fn other(self) -> Option<Id> {
        match self {
            Transport::Direct(other) => Some(other),
            _ => None,
        }
    }
}
