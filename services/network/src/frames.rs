//! Whom a frame is for: looked at before smoltcp takes it, so that a listener needs no sockets in advance, and only the
//! sockets that something happened to are asked.

use std::net::{IpAddr, SocketAddr};

use smoltcp::wire::{IpProtocol, IpVersion, Ipv4Packet, Ipv6Packet, TcpPacket};

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
