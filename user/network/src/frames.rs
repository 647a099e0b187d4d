//! Whom a frame is for: looked at before smoltcp takes it, so that a listener needs no sockets in advance, and only the
//! sockets that something happened to are asked.

use std::net::{IpAddr, SocketAddr};

use smoltcp::wire::{
    Icmpv4Message, Icmpv4Packet, Icmpv6Message, Icmpv6Packet, IpProtocol, IpVersion, Ipv4Packet, Ipv6Packet, TcpPacket,
    UdpPacket,
};

/// What a frame is to the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A connection is asked for.
    Syn {
        /// By whom.
        from: SocketAddr,
        /// Of whom.
        to: SocketAddr,
    },
    /// Something else of a connection.
    Segment {
        /// By whom.
        from: SocketAddr,
        /// To whom.
        to: SocketAddr,
    },
    /// A datagram.
    Datagram {
        /// To whom.
        to: SocketAddr,
    },
    /// A datagram that one of ours sent met nobody.
    Unreachable {
        /// Who sent it.
        from: SocketAddr,
        /// To whom.
        to: SocketAddr,
    },
    /// Nothing that a socket waits for.
    Other,
}

/// Looks at a frame of IP.
pub fn look(frame: &[u8]) -> Frame {
    if frame.is_empty() { Frame::Other } else { inside(frame).unwrap_or(Frame::Other) }
}

fn inside(frame: &[u8]) -> Option<Frame> {
    let (source, target, protocol, payload) = open(frame)?;
    match protocol {
        IpProtocol::Tcp => {
            let segment = TcpPacket::new_checked(payload).ok()?;
            let from = SocketAddr::new(source, segment.src_port());
            let to = SocketAddr::new(target, segment.dst_port());
            let asks = segment.syn() && !segment.ack() && !segment.rst();
            Some(if asks { Frame::Syn { from, to } } else { Frame::Segment { from, to } })
        }
        IpProtocol::Udp => {
            let datagram = UdpPacket::new_checked(payload).ok()?;
            Some(Frame::Datagram { to: SocketAddr::new(target, datagram.dst_port()) })
        }
        IpProtocol::Icmp => {
            let told = Icmpv4Packet::new_checked(payload).ok()?;
            (told.msg_type() == Icmpv4Message::DstUnreachable).then(|| unreachable(told.data()))?
        }
        IpProtocol::Icmpv6 => {
            let told = Icmpv6Packet::new_checked(payload).ok()?;
            (told.msg_type() == Icmpv6Message::DstUnreachable).then(|| unreachable(told.payload()))?
        }
        _ => None,
    }
}

/// Addresses, protocol and contents of a packet.
fn open(frame: &[u8]) -> Option<(IpAddr, IpAddr, IpProtocol, &[u8])> {
    match IpVersion::of_packet(frame).ok()? {
        IpVersion::Ipv4 => {
            let packet = Ipv4Packet::new_checked(frame).ok()?;
            Some((packet.src_addr().into(), packet.dst_addr().into(), packet.next_header(), packet.payload()))
        }
        IpVersion::Ipv6 => {
            let packet = Ipv6Packet::new_checked(frame).ok()?;
            Some((packet.src_addr().into(), packet.dst_addr().into(), packet.next_header(), packet.payload()))
        }
    }
}

/// The addresses in the beginning of a packet that came back.
fn unreachable(packet: &[u8]) -> Option<Frame> {
    // Cut off, so its length does not fit what is there.
    packet.first()?;
    let (source, target, protocol, start): (IpAddr, IpAddr, _, _) = match IpVersion::of_packet(packet).ok()? {
        IpVersion::Ipv4 => {
            let ip = Ipv4Packet::new_unchecked(packet);
            let header = usize::from(packet.first()? & 0xf) * 4;
            let start = packet.get(header..).filter(|_| header >= 20)?;
            (ip.src_addr().into(), ip.dst_addr().into(), ip.next_header(), start)
        }
        IpVersion::Ipv6 => {
            let start = packet.get(40..)?;
            let ip = Ipv6Packet::new_unchecked(packet);
            (ip.src_addr().into(), ip.dst_addr().into(), ip.next_header(), start)
        }
    };
    let [a, b, c, d] = *start.first_chunk()?;
    let from = SocketAddr::new(source, u16::from_be_bytes([a, b]));
    let to = SocketAddr::new(target, u16::from_be_bytes([c, d]));
    (protocol == IpProtocol::Udp).then_some(Frame::Unreachable { from, to })
}
