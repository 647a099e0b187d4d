//! Determines the receiver of a frame before smoltcp handles it. So a listener needs no sockets in advance, and only
//! sockets with events are polled.

use std::net::{IpAddr, SocketAddr};

use smoltcp::wire::{IpProtocol, IpVersion, Ipv4Packet, Ipv6Packet, TcpPacket};

/// What a frame means to the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// A frame that no socket waits for.
    Other,
}

/// Parses an IP frame.
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

/// Addresses, protocol and payload of a packet.
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
