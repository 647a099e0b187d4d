//! UDP: datagrams from one client's data socket to another's.
//!
//! On the loopback device no packets are needed: the service reads a client's datagram, finds the receiver by address,
//! and writes the datagram to it. So nothing is buffered in between. Unread data is charged to the reader's job, which
//! created the data socket. A datagram that comes over the card reaches its receiver in the same way; one that leaves
//! over the card waits in a smoltcp socket until the hardware address of its receiver is known.

use std::net::{IpAddr, SocketAddr};

use network_protocol::{DATAGRAM_MAX, ERROR, Error, Family, HEADER, Kind, decode_header, encode_header};

use smoltcp::time::Duration;

use crate::card::SENDS;
use crate::datagrams::HEADERS;
use crate::packets::Side;
use crate::ports::{self, Id};
use crate::socket::{Body, Choices, Datagrams, End, ReadOutcome, Socket, WriteOutcome};
use crate::stack::{DataSockets, Stack, shown, unspecified};

/// Where a datagram begins in the buffer: its data begins where that of a frame does.
const FRONT: usize = HEADERS - HEADER;
/// How long a datagram waits for its receiver's hardware address.
const NO_NEIGHBOUR: Duration = Duration::from_secs(3);
/// Maximum number of datagrams that a socket sends in one turn. One to a group counts as often as it has members here.
pub(crate) const TURN: usize = SENDS;

impl<W: DataSockets> Stack<W> {
    /// Checks that this socket may send to an address; returns the effective address and the way there.
    pub(crate) fn check_target(&self, socket: &Socket<W::End>, to: SocketAddr) -> Result<(SocketAddr, Side), Error> {
        Self::check_family(socket, to)?;
        let scope = if let SocketAddr::V6(to) = to { to.scope_id() } else { 0 };
        let mut to = ports::target(to);
        if socket.kind == Kind::Echo {
            to.set_port(0);
        } else if to.port() == 0 {
            return Err(Error::Invalid);
        }
        socket.check_reach(to)?;
        if self.is_broadcast(to.ip()) && !socket.choices.broadcast {
            return Err(Error::Denied);
        }
        let side = match group_of(to) {
            Some((group, _)) if socket.kind == Kind::Datagram => self.side_of_groups(socket, group, scope),
            _ => self.side_of(to.ip()),
        };
        let side = side.ok_or(Error::Unreachable)?;
        self.check_way(socket, to, side)?;
        Ok((to, side))
    }

    /// Checks that this socket's address and options allow traffic to `to`.
    pub(crate) fn check_way(&self, socket: &Socket<W::End>, to: SocketAddr, side: Side) -> Result<(), Error> {
        let fits = |local: SocketAddr| {
            let (ip, loops) = (local.ip(), local.ip().is_loopback());
            ip.is_unspecified() || local.is_ipv4() == to.is_ipv4() && !(loops && side == Side::Card)
        };
        let is_lost = |ip: IpAddr| !ip.is_unspecified() && !ip.is_multicast() && !self.is_own(ip);
        if socket.local.is_some_and(|local| is_lost(local.ip())) {
            return Err(Error::AddressNotAvailable);
        }
        let only_v6 = to.is_ipv4() && socket.family == Family::V6 && socket.choices.only_v6;
        if only_v6 || !socket.local.is_none_or(fits) { Err(Error::Unreachable) } else { Ok(()) }
    }

    /// Protocol step 7: prepares a destination.
    pub(crate) fn prepare(&mut self, id: Id, to: SocketAddr) -> Result<(), Error> {
        let socket = self.sockets.get(&id).ok_or(Error::Invalid)?;
        if socket.kind == Kind::Stream {
            return Err(Error::Invalid);
        }
        self.check_target(socket, to)?;
        self.bind_any(id)
    }

    pub(crate) fn bind_any(&mut self, id: Id) -> Result<(), Error> {
        match self.sockets.get(&id) {
            Some(Socket { bound: None, family, .. }) => {
                let any = unspecified(*family);
                self.bind_to(id, any)
            }
            Some(_) => Ok(()),
            None => Err(Error::Invalid),
        }
    }

    pub(crate) fn connect_datagrams(&mut self, id: Id, to: SocketAddr) -> Result<(), Error> {
        let socket = self.sockets.get(&id).ok_or(Error::Invalid)?;
        let (to, _) = self.check_target(socket, to)?;
        self.bind_any(id)?;
        if let Some(Socket { body: Body::Datagrams(datagrams), end, error, .. }) = self.sockets.get_mut(&id) {
            datagrams.peer = Some(to);
            *error = None;
            end.tell(ERROR, network_protocol::CONNECTED);
        }
        Ok(())
    }

    /// Sends some of the client's datagrams; the rest follows in later turns. When the client has gone and everything
    /// is sent, the socket is removed.
    pub(crate) fn pump_datagrams(&mut self, id: Id) {
        let mut work = 0;
        while work < TURN {
            if self.packets.get(&id).is_some_and(|packets| packets.datagrams >= Some(SENDS)) {
                // The socket gets a turn when the card has taken them.
                return;
            }
            if let Some(writes) = self.send_one(id) {
                work += writes;
            } else {
                let waits = self.packets.get(&id).is_some_and(|packets| packets.datagrams > Some(0));
                if !waits && self.sockets.get(&id).is_some_and(|socket| socket.closing) {
                    self.remove(id);
                }
                return;
            }
        }
        self.touch(id);
    }

    /// The card has taken this many of a datagram socket's frames. Datagrams whose receiver's hardware address nobody
    /// tells are dropped.
    pub(crate) fn datagrams_sent(&mut self, id: Id, frames: usize) {
        let Some(packets) = self.packets.get_mut(&id) else { return };
        let waits = match packets.datagrams {
            None => return,
            Some(0) => false,
            Some(_) => true,
        };
        if !waits || frames > 0 {
            packets.waits_since = None;
        }
        if waits && self.now - *packets.waits_since.get_or_insert(self.now) >= NO_NEIGHBOUR {
            self.drop_packets(id);
            if let Some(Socket { body: Body::Datagrams(Datagrams { peer: Some(_), .. }), kind, end, error, .. }) =
                self.sockets.get_mut(&id)
            {
                *error = Some(if *kind == Kind::Echo { Error::HostUnreachable } else { Error::Unreachable });
                end.tell(0, ERROR);
            }
            self.touch(id);
        } else if frames > 0 && self.sockets.get(&id).is_some_and(|socket| socket.closing || !socket.reads) {
            self.touch(id);
        }
    }

    /// Sends one datagram of a client. Returns how often it was sent or given to a receiver, at least one, or `None` if
    /// there was no datagram.
    fn send_one(&mut self, id: Id) -> Option<usize> {
        let socket = self.sockets.get_mut(&id)?;
        if socket.reads {
            return None;
        }
        match socket.end.take(&mut self.scratch[FRONT..]) {
            ReadOutcome::Bytes(count) => Some(self.send_taken(id, count)),
            ReadOutcome::Nothing if !socket.closing => {
                socket.reads = true;
                socket.end.watch_readable();
                None
            }
            // Nothing more can come.
            ReadOutcome::Nothing | ReadOutcome::End => {
                socket.reads = true;
                None
            }
        }
    }

    /// Sends what a client has written before a request that changes where or how its datagrams leave: as many as in a
    /// turn, and as wait for the card at most.
    pub(crate) fn send_earlier(&mut self, id: Id) {
        let mut work = 0;
        while work < TURN
            && self.packets.get(&id).is_none_or(|packets| packets.datagrams < Some(SENDS))
            && let Some(Socket { end, body: Body::Datagrams(_), .. }) = self.sockets.get_mut(&id)
            && let ReadOutcome::Bytes(count) = end.take(&mut self.scratch[FRONT..])
        {
            work += self.send_taken(id, count);
        }
        if work > 0 {
            self.touch(id);
        }
    }

    /// Sends the datagram that was read. Returns as [`Stack::send_one`].
    fn send_taken(&mut self, id: Id, count: usize) -> usize {
        let is_echo = self.sockets.get(&id).is_some_and(|socket| socket.kind == Kind::Echo);
        // A datagram to a destination that the client has not prepared, or an invalid one, is dropped, as on any
        // network.
        let mut frame = std::mem::take(&mut self.scratch);
        let sent = frame.get_mut(..FRONT + count).map_or(Ok(1), |frame| {
            if is_echo { self.send_echo(id, &mut frame[FRONT..]).map(|()| 1) } else { self.send(id, frame) }
        });
        self.scratch = frame;
        if sent == Err(Error::AddressNotAvailable) {
            self.datagram_refused(id);
        }
        sent.map_or(1, |writes| writes.max(1))
    }

    /// Sends a datagram, which begins at [`FRONT`]. Its header contains the destination, which is replaced by the source, or
    /// by a frame's header. Returns how often it was sent or given to a receiver.
    fn send(&mut self, id: Id, frame: &mut [u8]) -> Result<usize, Error> {
        let datagram = &mut frame[FRONT..];
        let (to, bytes) = decode_header(datagram).ok_or(Error::Malformed)?;
        if bytes.len() > DATAGRAM_MAX {
            return Err(Error::Invalid);
        }
        let socket = self.sockets.get(&id).ok_or(Error::Invalid)?;
        let Body::Datagrams(datagrams) = &socket.body else { return Err(Error::Invalid) };
        let to = to.or(datagrams.peer).ok_or(Error::NoDestination)?;
        if let (Some(card), Some(way)) = (&mut self.card, &datagrams.way)
            && card.goes(way, to, self.now)
            && card.send_datagram(way, frame)
        {
            return Ok(1);
        }
        let named = to;
        let datagram = &mut frame[FRONT..];
        let (to, side) = self.check_target(socket, shown(socket.family, to))?;
        self.bind_any(id)?;
        let local = self.sockets.get(&id).and_then(|socket| socket.local).ok_or(Error::Invalid)?;
        if let Some(group) = group_of(to) {
            return self.send_to_group(id, local, group, side, datagram);
        }
        let ip =
            if local.ip().is_unspecified() || local.ip().is_multicast() { self.source(to.ip()) } else { local.ip() };
        let from = SocketAddr::new(ip, local.port());
        if side == Side::Card {
            if self.find_way(id, named, from, to)
                && let (Some(card), Some(socket)) = (&mut self.card, self.sockets.get(&id))
                && let Body::Datagrams(Datagrams { way: Some(way), .. }) = &socket.body
                && card.send_datagram(way, frame)
            {
                return Ok(1);
            }
            return self.send_over_card(id, from, to, &frame[HEADERS..]).map(|()| 1);
        }
        let Some(receiver) = self.receiver(from, to) else {
            self.unreachable(id, to);
            return Err(Error::Refused);
        };
        let Socket { end, family, .. } = self.sockets.get_mut(&receiver).ok_or(Error::Refused)?;
        datagram[..HEADER].copy_from_slice(&encode_header(Some(shown(*family, from))));
        // If the reader has no room, the datagram is dropped, as on any network.
        let _: WriteOutcome = end.give(datagram);
        Ok(1)
    }

    /// Finds the way over the card, for this datagram to `to`, which the client calls `named`, and for those after it.
    /// Returns whether there is one: the neighbour's hardware address is known, and no datagram of the socket waits.
    fn find_way(&mut self, id: Id, named: SocketAddr, from: SocketAddr, to: SocketAddr) -> bool {
        let waits = self.packets.get(&id).is_some_and(|packets| packets.datagrams > Some(0));
        if let (false, Some(card)) = (waits, &self.card)
            && let Some(Socket { body: Body::Datagrams(datagrams), choices, .. }) = self.sockets.get_mut(&id)
        {
            datagrams.way = card.way(named, from, to, choices.ttl.max(1), self.now);
            return datagrams.way.is_some();
        }
        false
    }

    /// Sends a datagram to a group: over the card, unless it may take no hop, and to the members here. Returns how often
    /// it was sent or given to a receiver.
    fn send_to_group(
        &mut self,
        id: Id,
        local: SocketAddr,
        group: (IpAddr, u16),
        side: Side,
        datagram: &mut [u8],
    ) -> Result<usize, Error> {
        let choices = self.sockets.get(&id).ok_or(Error::Invalid)?.choices;
        let is_own = !local.ip().is_unspecified() && !local.ip().is_multicast();
        let ip = if is_own { local.ip() } else { self.group_source(group.0, side).ok_or(Error::Unreachable)? };
        let from = SocketAddr::new(ip, local.port());
        let (loops, hops) = match group.0 {
            IpAddr::V4(_) => (choices.loop_v4, choices.group_ttl),
            IpAddr::V6(_) => (choices.loop_v6, choices.group_hops),
        };
        let is_heard = loops || side == Side::Loop;
        let mut writes = if is_heard { self.give_to_group(from, group, side, datagram) } else { 0 };
        // The members here have it, whether the card takes it or not.
        if side == Side::Card && hops > 0 && self.send_over_card(id, from, group.into(), &datagram[HEADER..]).is_ok() {
            writes += 1;
        }
        Ok(writes)
    }

    /// The receiver of a datagram: a socket connected to its sender takes precedence over an unconnected one, and one
    /// bound to this address over one bound to all addresses.
    pub(crate) fn receiver(&self, from: SocketAddr, to: SocketAddr) -> Option<Id> {
        let here = self.ports.at(Kind::Datagram, to.port()).iter().filter(|binding| binding.takes(to.ip()));
        let able = here.filter_map(|binding| {
            let socket = self.sockets.get(&binding.id)?;
            let Socket { body: Body::Datagrams(Datagrams { peer, .. }), family, choices, .. } = socket else {
                return None;
            };
            let wanted = hears(*family, choices, from) && peer.is_none_or(|peer| peer == from) && socket.may_hear(from);
            wanted.then_some((binding, peer.is_none()))
        });
        able.min_by_key(|(binding, anybody)| (*anybody, binding.address.ip().is_unspecified()))
            .map(|(found, _)| found.id)
    }

    /// A datagram had no receiver. Only a connected socket gets that error.
    fn unreachable(&mut self, id: Id, to: SocketAddr) {
        if let Some(Socket { body: Body::Datagrams(datagrams), end, error, .. }) = self.sockets.get_mut(&id)
            && datagrams.peer == Some(to)
        {
            *error = Some(Error::Refused);
            end.tell(0, ERROR);
        }
    }

    /// A datagram from `from` that left over the card had no receiver. Only a socket that is connected to `to` gets that
    /// error.
    pub(crate) fn unreceived(&mut self, from: SocketAddr, to: SocketAddr) {
        // What is sent on the loopback does not leave over the card.
        if !self.owns(from.ip()) || !self.can_be_there(to.ip()) {
            return;
        }
        let here = self.ports.at(Kind::Datagram, from.port()).iter().filter(|binding| binding.takes(from.ip()));
        let ids: Vec<Id> = here.map(|binding| binding.id).collect();
        ids.into_iter().for_each(|id| self.unreachable(id, to));
    }

    /// The client has gone. Its remaining datagrams are sent, in turns. The address is free at once, but an identifier
    /// only afterwards, or when another socket wants it: an answer to a late request is for nobody else.
    pub(crate) fn close_datagrams(&mut self, id: Id) {
        let Some(socket) = self.sockets.get_mut(&id) else { return };
        (socket.closing, socket.reads) = (true, false);
        if let Some(port) = socket.bound.filter(|_| socket.kind != Kind::Echo) {
            self.ports.free(socket.kind, id, port);
        }
        self.leave_all(id);
        self.touch(id);
    }
}

/// The group and the port, if the address is a group's.
fn group_of(to: SocketAddr) -> Option<(IpAddr, u16)> {
    to.ip().is_multicast().then(|| (to.ip(), to.port()))
}

pub(crate) fn hears(family: Family, choices: &Choices, from: SocketAddr) -> bool {
    match family {
        Family::V4 => from.is_ipv4(),
        Family::V6 => from.is_ipv6() || !choices.only_v6,
    }
}
