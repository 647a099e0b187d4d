//! ICMP echo: sockets of the kind [`Kind::Echo`], as Linux' "ping sockets".
//!
//! A client writes echo requests and reads the answers to them. Each begins with the header of ICMP, without an IP
//! header. The identifier belongs to the socket like a port: the service writes it into each request, and an answer goes
//! only to the socket that has its identifier. A client can send nothing but echo requests. Unread answers are charged
//! to the reader's job, which created the data socket; an answer for which it has no room is dropped and counted.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use network_protocol::{DATAGRAM_MAX, ERROR, Error, HEADER, Kind, decode_header, encode_header};
use smoltcp::socket::icmp;
use smoltcp::wire::{Icmpv4Packet, Icmpv6Packet};

use crate::card::{SENDS, V6_MORE};
use crate::packets::{Packets, Side};
use crate::ports::Id;
use crate::socket::{Body, Datagrams, End, Socket, WriteOutcome};
use crate::stack::{DataSockets, Stack, shown};

/// Bytes of the header of an echo request.
pub(crate) const ECHO_HEADER: usize = 8;
/// Bytes of the headers below it on the card: Ethernet and IPv4.
const HEADERS: usize = 14 + 20;

/// The types of an echo request and of its answer, over IPv4 and IPv6.
const TYPES_V4: [u8; 2] = [8, 0];
const TYPES_V6: [u8; 2] = [128, 129];

impl<W: DataSockets> Stack<W> {
    /// Sends an echo request. Its header contains the destination. A request to this machine is answered at once.
    pub(crate) fn send_echo(&mut self, id: Id, datagram: &mut [u8]) -> Result<(), Error> {
        let (to, message) = decode_header(datagram).ok_or(Error::Malformed)?;
        let len = message.len();
        let socket = self.sockets.get(&id).ok_or(Error::Invalid)?;
        let Body::Datagrams(datagrams) = &socket.body else { return Err(Error::Invalid) };
        let to = to.or(datagrams.peer).ok_or(Error::NoDestination)?;
        let (to, side) = self.check_target(socket, shown(socket.family, to))?;
        let [request, answer] = if to.is_ipv4() { TYPES_V4 } else { TYPES_V6 };
        if !(ECHO_HEADER..=DATAGRAM_MAX).contains(&len) || message[..2] != [request, 0] {
            return Err(Error::Invalid);
        }
        self.bind_any(id)?;
        let local = self.sockets.get(&id).and_then(|socket| socket.local).ok_or(Error::Invalid)?;
        let message = &mut datagram[HEADER..];
        message[4..6].copy_from_slice(&local.port().to_be_bytes());
        match side {
            Side::Card => {
                sum(message, to.ip(), to.ip());
                self.send_echo_over_card(id, to.ip(), message)
            }
            Side::Loop => {
                message[0] = answer;
                let here = if local.ip().is_unspecified() { self.source(to.ip()) } else { local.ip() };
                sum(message, to.ip(), here);
                datagram[..HEADER].copy_from_slice(&encode_header(Some(to)));
                let Some(Socket { end, .. }) = self.sockets.get_mut(&id) else { return Err(Error::Invalid) };
                // If the reader has no room, the answer is dropped, as on any network.
                let _: WriteOutcome = end.give(datagram);
                Ok(())
            }
        }
    }

    /// Gives a request to the smoltcp socket of an echo socket. That only sends: answers that come in need none.
    fn send_echo_over_card(&mut self, id: Id, to: IpAddr, message: &[u8]) -> Result<(), Error> {
        if !self.is_online() {
            return Err(Error::Unreachable);
        }
        let longest = self.card.as_ref().map_or(0, |card| card.link.wire.mtu().saturating_sub(HEADERS));
        let choices = &self.sockets.get(&id).ok_or(Error::Invalid)?.choices;
        let (hops, more) = if to.is_ipv6() { (choices.hops, V6_MORE) } else { (choices.ttl, 0) };
        let hops = hops.max(1);
        if message.len() > longest.saturating_sub(more) {
            return Err(Error::Invalid);
        }
        let packets = self.packets.entry(id).or_insert_with(|| {
            let none = icmp::PacketBuffer::new(Vec::new(), Vec::new());
            // A request lies in one piece, so one that does not fit before the end leaves a gap there.
            let room = (vec![icmp::PacketMetadata::EMPTY; SENDS + 1], vec![0; (SENDS + 1) * longest]);
            Packets::new(icmp::Socket::new(none, icmp::PacketBuffer::new(room.0, room.1)), Side::Card)
        });
        let waiting = packets.datagrams.unwrap_or_default();
        if waiting >= SENDS {
            return Err(Error::NoMemory);
        }
        let icmp = packets.socket::<icmp::Socket<'static>>();
        icmp.set_hop_limit(Some(hops));
        icmp.send_slice(message, to.into()).map_err(|_| Error::NoMemory)?;
        packets.datagrams = Some(waiting + 1);
        Ok(())
    }

    /// Another socket is about to bind this identifier. If the one that has it is closed, its requests leave now, as many
    /// as in a turn; the others are lost. Afterwards no request has that identifier, and it is free.
    pub(crate) fn end_closed_echo(&mut self, ident: u16) {
        if let Some(id) = self.ports.at(Kind::Echo, ident).first().map(|binding| binding.id)
            && self.sockets.get(&id).is_some_and(|socket| socket.closing)
        {
            self.send_earlier(id);
            self.remove(id);
        }
    }

    /// The socket that has this identifier, if an answer from `from` is for it.
    fn echo_owner(&self, ident: u16, here: IpAddr, from: IpAddr) -> Option<Id> {
        let binding = self.ports.at(Kind::Echo, ident).first().filter(|binding| binding.takes(here))?;
        let socket = self.sockets.get(&binding.id).filter(|socket| !socket.closing)?;
        match &socket.body {
            _ if !socket.may_hear(SocketAddr::new(from, 0)) => None,
            Body::Datagrams(Datagrams { peer, .. }) if peer.is_none_or(|peer| peer.ip() == from) => Some(binding.id),
            _ => None,
        }
    }

    /// Gives the answer in the card's next frame to its owner, and drops the frame.
    pub(crate) fn deliver_echo(&mut self, from: IpAddr, to: IpAddr, ident: u16, message: Range<usize>) {
        let owner = if self.owns(to) && self.can_be_there(from) { self.echo_owner(ident, to, from) } else { None };
        let Some(owner) = owner else { return self.ignore_frame() };
        if let Some(card) = &mut self.card
            && let Some(Socket { end, family, .. }) = self.sockets.get_mut(&owner)
            && let Some(bytes) = card.link.wire.next().and_then(|frame| frame.get(message))
        {
            let len = HEADER + bytes.len();
            if let Some(datagram) = self.scratch.get_mut(..len) {
                datagram[..HEADER].copy_from_slice(&encode_header(Some(shown(*family, SocketAddr::new(from, 0)))));
                datagram[HEADER..].copy_from_slice(bytes);
                if end.give(datagram) != WriteOutcome::Bytes(len) {
                    card.counts.no_room += 1;
                }
            }
        }
        self.lose_frame();
    }

    /// An echo request that left over the card did not reach `to`. Only a socket that is connected to `to` gets that
    /// error.
    pub(crate) fn echo_failed(&mut self, from: IpAddr, to: IpAddr, ident: u16, why: Error) {
        if self.owns(from)
            && self.can_be_there(to)
            && let Some(owner) = self.echo_owner(ident, from, to)
            && let Some(Socket { body: Body::Datagrams(Datagrams { peer: Some(_), .. }), end, error, .. }) =
                self.sockets.get_mut(&owner)
        {
            *error = Some(why);
            end.tell(0, ERROR);
        }
    }
}

/// Writes the checksum of an echo message, which over IPv6 covers the addresses.
fn sum(message: &mut [u8], from: IpAddr, to: IpAddr) {
    match (from, to) {
        (IpAddr::V6(from), IpAddr::V6(to)) => Icmpv6Packet::new_unchecked(message).fill_checksum(&from, &to),
        _ => Icmpv4Packet::new_unchecked(message).fill_checksum(),
    }
}
