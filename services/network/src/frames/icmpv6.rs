//! ICMPv6, and what else comes over IPv6 beside TCP and UDP. Extension headers, and so fragments, are for nobody here; a
//! query of a multicast router is the one packet that must have one.

use std::net::{Ipv6Addr, SocketAddr};

use network_protocol::{Error, is_link_local};
use smoltcp::time::Duration;
use smoltcp::wire::{Icmpv6Packet, IpProtocol};

use super::Frame;

/// Bytes of an IPv6 header.
const IPV6: usize = 40;
/// The smallest limit of packets that a network has, in bytes.
const LEAST_MTU: usize = 1280;
/// The hop limit of messages that no router has passed on.
const FRESH: u8 = 255;

/// Types of messages.
const UNREACHABLE: u8 = 1;
const TOO_BIG: u8 = 2;
const TIME_EXCEEDED: u8 = 3;
const ECHO_REQUEST: u8 = 128;
const ECHO_REPLY: u8 = 129;
const QUERY: u8 = 130;
const ROUTER_ADVERTISEMENT: u8 = 134;
const NEIGHBOR_SOLICITATION: u8 = 135;
const NEIGHBOR_ADVERTISEMENT: u8 = 136;

/// The codes of [`UNREACHABLE`] for a network without a route, and for a port.
const NO_ROUTE: u8 = 0;
const NO_PORT: u8 = 4;

/// Bytes of a router's advertisement and of a neighbor's message without options, and of a query without sources.
const ADVERTISEMENT_LEN: usize = 16;
const NEIGHBOR_LEN: usize = 24;
const QUERY_LEN: usize = 28;

/// A packet.
pub(super) struct Packet<'a> {
    pub source: Ipv6Addr,
    pub target: Ipv6Addr,
    /// What follows the IP header.
    pub protocol: IpProtocol,
    pub hops: u8,
    pub payload: &'a [u8],
    /// Where the payload is in the frame.
    pub at: usize,
    /// It was sent to this machine alone.
    pub only_here: bool,
}

/// Parses a packet.
pub(super) fn look(packet: &Packet<'_>) -> Option<Frame> {
    match packet.protocol {
        IpProtocol::Icmpv6 => {}
        IpProtocol::HopByHop => return query(packet),
        _ => return None,
    }
    let message = packet.payload;
    let (kind, code) = (*message.first()?, *message.get(1)?);
    if !has_correct_sum(packet, message) {
        return None;
    }
    let range = packet.at..packet.at + message.len();
    let is_near = packet.hops == FRESH && code == 0;
    match kind {
        ECHO_REQUEST if packet.only_here && code == 0 => {
            Some(Frame::EchoRequest { from: packet.source, to: packet.target })
        }
        ECHO_REPLY if packet.only_here => {
            let ident = u16::from_be_bytes([*message.get(4)?, *message.get(5)?]);
            message.get(7)?;
            Some(Frame::Echo { from: packet.source.into(), to: packet.target.into(), ident, message: range })
        }
        UNREACHABLE | TOO_BIG | TIME_EXCEEDED if packet.only_here => error(packet, kind, code),
        ROUTER_ADVERTISEMENT if is_near && is_link_local(packet.source) && message.len() >= ADVERTISEMENT_LEN => {
            Some(Frame::RouterAdvertisement { from: packet.source, message: range })
        }
        NEIGHBOR_SOLICITATION | NEIGHBOR_ADVERTISEMENT if is_near => {
            let target = address(message.get(8..NEIGHBOR_LEN)?)?;
            let advertises = kind == NEIGHBOR_ADVERTISEMENT;
            Some(Frame::Neighbor { from: packet.source, target, advertises, is_like_own: false })
        }
        _ => None,
    }
}

/// Parses an error. It carries the beginning of what was sent.
fn error(packet: &Packet<'_>, kind: u8, code: u8) -> Option<Frame> {
    let sent = packet.payload.get(8..)?;
    let (header, rest) = sent.split_first_chunk::<IPV6>()?;
    let begin = rest.first_chunk::<8>()?;
    let (from, to) = (address(&header[8..24])?, address(&header[24..])?);
    // An error is for the sender.
    if header[0] >> 4 != 6 || packet.target != from {
        return None;
    }
    let number = |at: usize| u16::from_be_bytes([begin[at], begin[at + 1]]);
    match (IpProtocol::from(header[6]), kind) {
        (IpProtocol::Udp, UNREACHABLE) if code == NO_PORT => {
            let from = SocketAddr::new(from.into(), number(0));
            Some(Frame::Unreceived { from, to: SocketAddr::new(to.into(), number(2)) })
        }
        (IpProtocol::Tcp, TOO_BIG) => {
            let mtu = u32::from_be_bytes(*packet.payload.get(4..)?.first_chunk()?) as usize;
            let is_longer = IPV6 + usize::from(u16::from_be_bytes([header[4], header[5]])) > mtu;
            let (from, to) = (SocketAddr::new(from.into(), number(0)), SocketAddr::new(to.into(), number(2)));
            let seq = i32::from_be_bytes(*begin.last_chunk()?);
            // Every network carries packets of that size (RFC 8201, 4).
            (mtu >= LEAST_MTU && is_longer).then_some(Frame::TooBig { from, to, seq, mtu })
        }
        (IpProtocol::Icmpv6, UNREACHABLE | TIME_EXCEEDED) if begin[0] == ECHO_REQUEST => {
            let is_net = kind == UNREACHABLE && code == NO_ROUTE;
            let why = if is_net { Error::Unreachable } else { Error::HostUnreachable };
            Some(Frame::NoEcho { from: from.into(), to: to.into(), ident: number(4), why })
        }
        _ => None,
    }
}

/// Parses a query of a multicast router (MLD). The header before it says that routers must look at it (RFC 3810, 5).
fn query(packet: &Packet<'_>) -> Option<Frame> {
    let (head, _) = packet.payload.split_first_chunk::<8>()?;
    let [next, len, options @ ..] = *head;
    // The option, and two bytes of padding in either of its forms, before it or behind it.
    let alert = [5, 2, 0, 0];
    let is_plain = options[..4] == alert && (options[4..] == [0, 0] || options[4..] == [1, 0])
        || options[2..] == alert && (options[..2] == [0, 0] || options[..2] == [1, 0]);
    if !is_plain || len != 0 || IpProtocol::from(next) != IpProtocol::Icmpv6 {
        return None;
    }
    let message = &packet.payload[8..];
    let is_query = message.first() == Some(&QUERY) && message.len() >= QUERY_LEN;
    if !is_query || packet.hops != 1 || !is_link_local(packet.source) || !has_correct_sum(packet, message) {
        return None;
    }
    let group = Some(address(&message[8..24])?).filter(|group| !group.is_unspecified());
    let code = u16::from_be_bytes([message[4], message[5]]);
    // From 32,768 on it is a small floating-point number.
    let millis = match code {
        0..0x8000 => u64::from(code),
        _ => u64::from(code & 0xfff | 0x1000) << ((code >> 12 & 7) + 3),
    };
    Some(Frame::QueryV6 { group, within: Duration::from_millis(millis) })
}

fn has_correct_sum(packet: &Packet<'_>, message: &[u8]) -> bool {
    let checked = Icmpv6Packet::new_checked(message);
    checked.is_ok_and(|checked| checked.verify_checksum(&packet.source, &packet.target))
}

fn address(bytes: &[u8]) -> Option<Ipv6Addr> {
    bytes.first_chunk::<16>().map(|octets| Ipv6Addr::from(*octets))
}
