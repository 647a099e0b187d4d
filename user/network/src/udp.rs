//! UDP: datagrams between smoltcp's sockets and clients' data sockets.

use std::net::SocketAddr;

use network_protocol::{DATAGRAM_MAX, ERROR, Error, Family, HEADER, Kind, decode_header, encode_header};
use smoltcp::socket::udp::{self, PacketBuffer, PacketMetadata};
use smoltcp::wire::IpListenEndpoint;

use crate::ports::{self, Id};
use crate::socket::{Body, Choices, Datagrams, End, Given, Socket, Taken};
use crate::stack::{Stack, World, shown, unspecified};
use crate::tcp::endpoint;

/// Bytes of datagrams that smoltcp holds in each direction: the longest must fit beside another.
const BUFFER: usize = 128 << 10;
/// Datagrams that it holds.
const PACKETS: usize = 64;
/// Datagrams that a socket sends before others have their turn.
const TURN: usize = 16;

impl<W: World> Stack<W> {
    pub(crate) fn bind_datagrams(&mut self, id: Id, address: SocketAddr) -> Result<(), Error> {
        let socket = self.sockets.get_mut(&id).ok_or(Error::Invalid)?;
        let Body::Datagrams(datagrams) = &mut socket.body else { return Err(Error::Invalid) };
        let buffer = || PacketBuffer::new(vec![PacketMetadata::EMPTY; PACKETS], vec![0; BUFFER]);
        let mut udp = udp::Socket::new(buffer(), buffer());
        let ip = address.ip();
        let listen = IpListenEndpoint { addr: (!ip.is_unspecified()).then(|| ip.into()), port: address.port() };
        udp.bind(listen).map_err(|_| Error::Invalid)?;
        datagrams.udp = Some(self.set.add(udp));
        Ok(())
    }

    /// Whether this socket may send to an address; gives it as it is meant.
    fn check_target(socket: &Socket<W::End>, to: SocketAddr) -> Result<SocketAddr, Error> {
        Self::check_family(socket, to)?;
        let to = ports::target(to);
        if to.port() == 0 {
            return Err(Error::Invalid);
        }
        if ports::is_broadcast(to.ip()) && !socket.choices.broadcast {
            return Err(Error::Denied);
        }
        let mixed = socket.local.is_some_and(|local| !local.ip().is_unspecified() && local.is_ipv4() != to.is_ipv4());
        // Broadcast to all networks needs one to begin with.
        if !ports::is_loop(to.ip()) || mixed || to.is_ipv4() && socket.family == Family::V6 && socket.choices.only_v6 {
            return Err(Error::Unreachable);
        }
        Ok(to)
    }

    /// Protocol step 7.
    pub(crate) fn prepare(&mut self, id: Id, to: SocketAddr) -> Result<(), Error> {
        let socket = self.sockets.get(&id).ok_or(Error::Invalid)?;
        if socket.kind != Kind::Datagram {
            return Err(Error::Invalid);
        }
        Self::check_target(socket, to)?;
        self.bind_any(id)
    }

    fn bind_any(&mut self, id: Id) -> Result<(), Error> {
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
        let to = Self::check_target(socket, to)?;
        self.bind_any(id)?;
        if let Some(Socket { body: Body::Datagrams(datagrams), end, error, .. }) = self.sockets.get_mut(&id) {
            datagrams.peer = Some(to);
            *error = None;
            end.tell(ERROR, network_protocol::CONNECTED);
        }
        Ok(())
    }

    /// Sends what the client wrote, and gives it what came.
    pub(crate) fn pump_datagrams(&mut self, id: Id) {
        for _ in 0..TURN {
            match self.send_one(id, false) {
                Some(true) => {}
                Some(false) => return self.receive(id),
                None => break,
            }
        }
        // The client may have written more.
        self.touched.insert(id);
        self.receive(id);
    }

    /// Sends one datagram of a client, the `last` ones when it has gone. Says whether there was one; none: there is no room.
    fn send_one(&mut self, id: Id, last: bool) -> Option<bool> {
        let socket = self.sockets.get_mut(&id)?;
        if socket.reads && !last {
            return Some(false);
        }
        if let Body::Datagrams(Datagrams { udp: Some(handle), .. }) = &socket.body {
            let udp = self.set.get::<udp::Socket<'static>>(*handle);
            if !udp.can_send() || udp.payload_send_capacity() - udp.send_queue() < DATAGRAM_MAX {
                return None;
            }
        }
        let count = match socket.end.take(&mut self.scratch) {
            Taken::Bytes(count) => count,
            Taken::Nothing if !last => {
                socket.reads = true;
                socket.end.watch_readable();
                return Some(false);
            }
            // There will be nothing to ask for.
            Taken::Nothing | Taken::End => {
                socket.reads = true;
                return Some(false);
            }
        };
        // What a client has not prepared, or what is none, goes nowhere, as on any network.
        let datagram = std::mem::take(&mut self.scratch);
        if let Some((to, bytes)) = decode_header(&datagram[..count]) {
            let _ = self.send(id, to, bytes);
        }
        self.scratch = datagram;
        Some(true)
    }

    fn send(&mut self, id: Id, to: Option<SocketAddr>, bytes: &[u8]) -> Result<(), Error> {
        let socket = self.sockets.get(&id).ok_or(Error::Invalid)?;
        let Body::Datagrams(datagrams) = &socket.body else { return Err(Error::Invalid) };
        let to = match to {
            Some(to) => Self::check_target(socket, to)?,
            None => datagrams.peer.ok_or(Error::NoDestination)?,
        };
        if bytes.len() > DATAGRAM_MAX {
            return Err(Error::Invalid);
        }
        self.bind_any(id)?;
        let Some(Socket { body: Body::Datagrams(Datagrams { udp: Some(handle), .. }), choices, .. }) =
            self.sockets.get(&id)
        else {
            return Err(Error::Invalid);
        };
        let udp = self.set.get_mut::<udp::Socket<'static>>(*handle);
        let hops = if to.is_ipv4() { choices.ttl } else { choices.hops };
        udp.set_hop_limit(Some(hops.max(1)));
        udp.send_slice(bytes, endpoint(to)).map_err(|_| Error::Unreachable)
    }

    /// Gives a client what came. What it has no room for is lost, as on any network.
    fn receive(&mut self, id: Id) {
        let Some(Socket { body: Body::Datagrams(datagrams), end, family, choices, .. }) = self.sockets.get_mut(&id)
        else {
            return;
        };
        let Some(handle) = datagrams.udp else { return };
        let udp = self.set.get_mut::<udp::Socket<'static>>(handle);
        while let Ok((bytes, about)) = udp.recv() {
            let from = SocketAddr::new(about.endpoint.addr.into(), about.endpoint.port);
            if !hears(*family, choices, from) || datagrams.peer.is_some_and(|peer| peer != from) {
                continue;
            }
            let len = HEADER + bytes.len();
            let Some(place) = self.scratch.get_mut(..len) else { continue };
            place[..HEADER].copy_from_slice(&encode_header(Some(shown(*family, from))));
            place[HEADER..].copy_from_slice(bytes);
            let _: Given = end.give(place);
        }
    }

    /// A datagram that was sent `to` met nobody. Only a socket that speaks to nobody else can make use of that.
    pub(crate) fn unreachable(&mut self, from: SocketAddr, to: SocketAddr) {
        for binding in self.ports.at(Kind::Datagram, from.port()) {
            if let Some(Socket { body: Body::Datagrams(datagrams), end, error, .. }) = self.sockets.get_mut(&binding.id)
                && datagrams.peer == Some(to)
            {
                *error = Some(Error::Refused);
                end.tell(0, ERROR);
            }
        }
    }

    /// The client has gone. What it wrote before is sent.
    pub(crate) fn close_datagrams(&mut self, id: Id) {
        // The data socket holds no more than a few hundred kilobytes; smaller datagrams than these are lost.
        for _ in 0..TURN * TURN {
            match self.send_one(id, true) {
                Some(true) => {}
                Some(false) => break,
                None => {
                    self.round();
                }
            }
        }
        // smoltcp's last ones.
        while let Some(Socket { body: Body::Datagrams(Datagrams { udp: Some(handle), .. }), .. }) =
            self.sockets.get(&id)
            && self.set.get::<udp::Socket<'static>>(*handle).send_queue() > 0
            && self.round()
        {}
        if let Some(Socket { body: Body::Datagrams(Datagrams { udp: Some(handle), .. }), .. }) = self.sockets.get(&id) {
            self.set.remove(*handle);
        }
        self.remove(id);
    }
}

fn hears(family: Family, choices: &Choices, from: SocketAddr) -> bool {
    match family {
        Family::V4 => from.is_ipv4(),
        Family::V6 => from.is_ipv6() || !choices.only_v6,
    }
}
