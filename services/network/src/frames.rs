//! Determines the receiver of a frame before smoltcp handles it. So a listener needs no sockets in advance, and a frame
//! reaches its socket by a table.

mod icmpv6;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;

use network_protocol::Error;

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::time::Duration;
use smoltcp::wire::{
    EthernetAddress, EthernetFrame, EthernetProtocol, Icmpv4DstUnreachable, Icmpv4Message, Icmpv4Packet, IgmpPacket,
    IpProtocol, IpVersion, Ipv4Packet, Ipv6Packet, TcpPacket, UdpPacket, UdpRepr,
};

/// What a frame means to the stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A connection request.
    Syn {
        /// Its sender.
        from: SocketAddr,
        /// Its receiver.
        to: SocketAddr,
    },
    /// Another segment of a connection.
    Segment {
        /// Its sender.
        from: SocketAddr,
        /// Its receiver.
        to: SocketAddr,
    },
    /// A whole datagram with a correct checksum.
    Datagram {
        /// Its sender.
        from: SocketAddr,
        /// Its receiver.
        to: SocketAddr,
        /// Where its data is in the frame.
        data: Range<usize>,
    },
    /// A datagram that this machine sent had no receiver (ICMP).
    Unreceived {
        /// Its sender.
        from: SocketAddr,
        /// The receiver that is not there.
        to: SocketAddr,
    },
    /// An echo request over IPv6.
    EchoRequest {
        /// Its sender.
        from: Ipv6Addr,
        /// Its receiver.
        to: Ipv6Addr,
    },
    /// An answer to an echo request, with a correct checksum.
    Echo {
        /// Its sender.
        from: IpAddr,
        /// Its receiver.
        to: IpAddr,
        /// The identifier.
        ident: u16,
        /// Where the ICMP message is in the frame.
        message: Range<usize>,
    },
    /// An echo request that this machine sent did not arrive (ICMP).
    NoEcho {
        /// Its sender.
        from: IpAddr,
        /// The host that it was for.
        to: IpAddr,
        /// The identifier.
        ident: u16,
        /// Why.
        why: Error,
    },
    /// A router has not passed on a segment that this machine sent: it was too long for the path (ICMP).
    TooBig {
        /// The segment's sender.
        from: SocketAddr,
        /// Its receiver.
        to: SocketAddr,
        /// Its sequence number.
        seq: i32,
        /// The longest packet that the path carries in bytes.
        mtu: usize,
    },
    /// A router asks for members of this group, or of all.
    Query {
        /// The group.
        group: Option<Ipv4Addr>,
        /// The time for the answer.
        within: Duration,
    },
    /// A router of the network advertises itself and prefixes of addresses.
    RouterAdvertisement {
        /// Its link-local address.
        from: Ipv6Addr,
        /// Where the ICMP message is in the frame.
        message: Range<usize>,
    },
    /// Another machine asks for the owner of an address, or says that it is.
    Neighbor {
        /// Its sender; `::` asks for an address that it wants to have itself.
        from: Ipv6Addr,
        /// The address.
        target: Ipv6Addr,
        /// It says that it is the owner.
        advertises: bool,
        /// It comes from this machine's hardware address, as what a switch sends back.
        is_like_own: bool,
    },
    /// A router asks for members of this IPv6 group, or of all.
    QueryV6 {
        /// The group.
        group: Option<Ipv6Addr>,
        /// The time for the answer.
        within: Duration,
    },
    /// A frame that no socket waits for.
    Other,
    /// A frame that is not for this machine, or is none.
    Foreign,
}

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;
/// Bytes of an IPv4 header without options.
const IPV4: usize = 20;
/// Bytes of a UDP header.
const UDP: usize = 8;
/// Nobody makes segments over IPv4 smaller than they are in packets of this size.
const LEAST_MTU: usize = 576;
/// The type of an IGMP query.
const QUERY: u8 = 0x11;

/// Parses an IP frame of the loopback device.
pub fn look(frame: &[u8]) -> Frame {
    if frame.is_empty() { Frame::Other } else { inside(frame, 0, true).unwrap_or(Frame::Other) }
}

/// Parses a card's Ethernet frame, with smoltcp's parsers. Plain datagrams need none of it (`datagrams.rs`).
pub(crate) fn look_ethernet_by_smoltcp(frame: &[u8], mac: EthernetAddress) -> Frame {
    let Ok(ethernet) = EthernetFrame::new_checked(frame) else { return Frame::Foreign };
    let to = ethernet.dst_addr();
    if to != mac && to.is_unicast() || !ethernet.src_addr().is_unicast() {
        return Frame::Foreign;
    }
    match ethernet.ethertype() {
        EthernetProtocol::Ipv4 | EthernetProtocol::Ipv6 => match frame.get(ETHERNET..) {
            Some(packet) if !packet.is_empty() && has_correct_header(packet) => {
                match inside(packet, ETHERNET, to == mac) {
                    Some(Frame::Neighbor { from, target, advertises, .. }) => {
                        Frame::Neighbor { from, target, advertises, is_like_own: ethernet.src_addr() == mac }
                    }
                    seen => seen.unwrap_or(Frame::Foreign),
                }
            }
            _ => Frame::Foreign,
        },
        EthernetProtocol::Arp => Frame::Other,
        _ => Frame::Foreign,
    }
}

/// Parses an IP packet that begins at `offset` of its frame. Connections are for one machine, so a segment that was sent
/// to several is `None`, as is a packet that is not well-formed.
fn inside(packet: &[u8], offset: usize, only_here: bool) -> Option<Frame> {
    let Packet { source, target, protocol, hops, header, payload } = open(packet)?;
    match protocol {
        IpProtocol::Tcp if only_here => {
            let segment = TcpPacket::new_checked(payload).ok()?;
            let from = SocketAddr::new(source, segment.src_port());
            let to = SocketAddr::new(target, segment.dst_port());
            let asks = segment.syn() && !segment.ack() && !segment.rst();
            Some(if asks { Frame::Syn { from, to } } else { Frame::Segment { from, to } })
        }
        IpProtocol::Tcp => None,
        IpProtocol::Udp => {
            let datagram = UdpPacket::new_checked(payload).ok()?;
            let checksums = ChecksumCapabilities::default();
            UdpRepr::parse(&datagram, &source.into(), &target.into(), &checksums).ok()?;
            // Only over IPv4 a datagram can do without a checksum.
            if datagram.checksum() == 0 && source.is_ipv6() {
                return None;
            }
            let from = SocketAddr::new(source, datagram.src_port());
            let to = SocketAddr::new(target, datagram.dst_port());
            let start = offset + header + UDP;
            Some(Frame::Datagram { from, to, data: start..start + datagram.payload().len() })
        }
        IpProtocol::Icmp if only_here && source.is_ipv4() => {
            let start = offset + header;
            Some(icmp(source, target, payload, start).unwrap_or(Frame::Other))
        }
        // As on Linux, no question to all machines is answered: the answers would go to whoever its sender names.
        IpProtocol::Icmp if source.is_ipv4() => None,
        // Routers ask the machines of their own network, all at once.
        IpProtocol::Igmp if source.is_ipv4() && target.is_multicast() && hops == 1 => query(payload),
        IpProtocol::Igmp => None,
        _ => match (source, target) {
            (IpAddr::V6(source), IpAddr::V6(target)) => icmpv6::look(&icmpv6::Packet {
                source,
                target,
                protocol,
                hops,
                payload,
                at: offset + header,
                only_here,
            }),
            _ => Some(Frame::Other),
        },
    }
}

/// Parses a query of a multicast router.
fn query(message: &[u8]) -> Option<Frame> {
    let is_query = message.first() == Some(&QUERY);
    let message = IgmpPacket::new_checked(message).ok()?;
    if !is_query || !message.verify_checksum() {
        return None;
    }
    let group = Some(message.group_addr()).filter(|group| !group.is_unspecified());
    Some(Frame::Query { group, within: Duration::from_millis(100 * u64::from(message.max_resp_code())) })
}

/// Parses an ICMP message for a socket: an answer to an echo request, or an error. An error carries the beginning of
/// what was sent.
fn icmp(source: IpAddr, target: IpAddr, payload: &[u8], start: usize) -> Option<Frame> {
    let message = Icmpv4Packet::new_checked(payload).ok()?;
    let kind = message.msg_type();
    let is_known =
        matches!(kind, Icmpv4Message::EchoReply | Icmpv4Message::DstUnreachable | Icmpv4Message::TimeExceeded);
    if !is_known || !message.verify_checksum() {
        return None;
    }
    if kind == Icmpv4Message::EchoReply {
        let ident = message.echo_ident();
        return Some(Frame::Echo { from: source, to: target, ident, message: start..start + payload.len() });
    }
    // The rest of what was sent is not there, so its length is not checked.
    let sent = message.data();
    let packet = Ipv4Packet::new_unchecked(sent);
    let header = usize::from(sent.first()? & 0xf) * 4;
    let begin: &[u8; 8] = sent.get(header..)?.first_chunk()?;
    if header < IPV4 || packet.version() != 4 {
        return None;
    }
    let (from, to): (IpAddr, IpAddr) = (packet.src_addr().into(), packet.dst_addr().into());
    // An error is for the sender.
    if target != from {
        return None;
    }
    let number = |at: usize| u16::from_be_bytes([begin[at], begin[at + 1]]);
    let code = Icmpv4DstUnreachable::from(message.msg_code());
    match (packet.next_header(), kind) {
        (IpProtocol::Tcp, Icmpv4Message::DstUnreachable) if code == Icmpv4DstUnreachable::FragRequired => {
            // A router that does not name the limit is not heard.
            let mtu = usize::from(u16::from_be_bytes([*payload.get(6)?, *payload.get(7)?]));
            let is_longer = usize::from(packet.total_len()) > mtu;
            let (from, to) = (SocketAddr::new(from, number(0)), SocketAddr::new(to, number(2)));
            let seq = i32::from_be_bytes(*begin.last_chunk()?);
            (mtu > 0 && is_longer).then_some(Frame::TooBig { from, to, seq, mtu: mtu.max(LEAST_MTU) })
        }
        (IpProtocol::Udp, Icmpv4Message::DstUnreachable) if code == Icmpv4DstUnreachable::PortUnreachable => {
            Some(Frame::Unreceived { from: SocketAddr::new(from, number(0)), to: SocketAddr::new(to, number(2)) })
        }
        (IpProtocol::Icmp, _) if Icmpv4Message::from(begin[0]) == Icmpv4Message::EchoRequest => {
            let is_net = kind == Icmpv4Message::DstUnreachable && code == Icmpv4DstUnreachable::NetUnreachable;
            let why = if is_net { Error::Unreachable } else { Error::HostUnreachable };
            Some(Frame::NoEcho { from, to, ident: number(4), why })
        }
        _ => None,
    }
}

struct Packet<'a> {
    source: IpAddr,
    target: IpAddr,
    protocol: IpProtocol,
    hops: u8,
    /// Length of the IP header in bytes.
    header: usize,
    payload: &'a [u8],
}

/// The parts of an IP packet. A fragment is `None`.
fn open(packet: &[u8]) -> Option<Packet<'_>> {
    match IpVersion::of_packet(packet).ok()? {
        IpVersion::Ipv4 => {
            let packet = Ipv4Packet::new_checked(packet).ok()?;
            if packet.more_frags() || packet.frag_offset() != 0 {
                return None;
            }
            Some(Packet {
                source: packet.src_addr().into(),
                target: packet.dst_addr().into(),
                protocol: packet.next_header(),
                hops: packet.hop_limit(),
                header: packet.header_len().into(),
                payload: packet.payload(),
            })
        }
        IpVersion::Ipv6 => {
            let packet = Ipv6Packet::new_checked(packet).ok()?;
            Some(Packet {
                source: packet.src_addr().into(),
                target: packet.dst_addr().into(),
                protocol: packet.next_header(),
                hops: packet.hop_limit(),
                header: packet.header_len(),
                payload: packet.payload(),
            })
        }
    }
}

/// Whether the header of an IPv4 packet has a correct checksum. IPv6 has none.
fn has_correct_header(packet: &[u8]) -> bool {
    match IpVersion::of_packet(packet) {
        Ok(IpVersion::Ipv4) => Ipv4Packet::new_checked(packet).is_ok_and(|packet| packet.verify_checksum()),
        other => other.is_ok(),
    }
}
