//! TCP segments that the stack reads and writes itself, for connections that are not smoltcp's yet or any more.

use std::net::{IpAddr, SocketAddr};

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr, IpProtocol, IpRepr, Ipv4Packet, Ipv4Repr,
    Ipv6Packet, Ipv6Repr, TcpControl, TcpPacket, TcpRepr, TcpSeqNumber,
};

/// Hop limit of these segments.
const HOPS: u8 = 64;

/// An address and a port. Records of connections have them in this form: `SocketAddr` takes 12 bytes more, for a flow
/// label and a scope.
pub type Short = (IpAddr, u16);

/// A segment without data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Sender and receiver on the card's network.
    pub macs: [EthernetAddress; 2],
    /// Its sender.
    pub from: SocketAddr,
    /// Its receiver.
    pub to: SocketAddr,
    /// Its sequence number.
    pub seq: i32,
    /// Its acknowledgement.
    pub ack: Option<i32>,
    /// SYN, FIN, RST, or none.
    pub control: TcpControl,
    /// The receive window.
    pub window: u16,
    /// With SYN: the options.
    pub options: Options,
    /// Bytes of data. A segment that is written has none.
    pub len: usize,
}

/// The options of a SYN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Largest segment in bytes.
    pub max_segment: Option<u16>,
    /// Window scale.
    pub scale: Option<u8>,
    /// Selective acknowledgements.
    pub selective: bool,
}

impl Segment {
    /// Reads a segment from a frame. `None`: it is none, or a checksum is wrong.
    pub fn read(frame: &[u8]) -> Option<Segment> {
        let ethernet = EthernetFrame::new_checked(frame).ok()?;
        let checksums = ChecksumCapabilities::default();
        let (ip, payload) = match ethernet.ethertype() {
            EthernetProtocol::Ipv4 => {
                let packet = Ipv4Packet::new_checked(ethernet.payload()).ok()?;
                (IpRepr::Ipv4(Ipv4Repr::parse(&packet, &checksums).ok()?), packet.payload())
            }
            EthernetProtocol::Ipv6 => {
                let packet = Ipv6Packet::new_checked(ethernet.payload()).ok()?;
                (IpRepr::Ipv6(Ipv6Repr::parse(&packet).ok()?), packet.payload())
            }
            _ => return None,
        };
        if ip.next_header() != IpProtocol::Tcp {
            return None;
        }
        let segment = TcpPacket::new_checked(payload).ok()?;
        let tcp = TcpRepr::parse(&segment, &ip.src_addr(), &ip.dst_addr(), &checksums).ok()?;
        Some(Segment {
            macs: [ethernet.src_addr(), ethernet.dst_addr()],
            from: SocketAddr::new(ip.src_addr().into(), tcp.src_port),
            to: SocketAddr::new(ip.dst_addr().into(), tcp.dst_port),
            seq: tcp.seq_number.0,
            ack: tcp.ack_number.map(|number| number.0),
            control: tcp.control,
            window: tcp.window_len,
            options: Options { max_segment: tcp.max_seg_size, scale: tcp.window_scale, selective: tcp.sack_permitted },
            len: tcp.payload.len(),
        })
    }

    /// The sender and the receiver, as records have them.
    pub fn ends(&self) -> (Short, Short) {
        ((self.from.ip(), self.from.port()), (self.to.ip(), self.to.port()))
    }

    /// Writes the segment as a frame. Both addresses are of the same family.
    pub fn write(&self) -> Vec<u8> {
        let [from, to] = self.macs;
        let ethertype = if self.from.is_ipv4() { EthernetProtocol::Ipv4 } else { EthernetProtocol::Ipv6 };
        let ethernet = EthernetRepr { src_addr: from, dst_addr: to, ethertype };
        let tcp = TcpRepr {
            src_port: self.from.port(),
            dst_port: self.to.port(),
            control: self.control,
            seq_number: TcpSeqNumber(self.seq),
            ack_number: self.ack.map(TcpSeqNumber),
            window_len: self.window,
            window_scale: self.options.scale,
            max_seg_size: self.options.max_segment,
            sack_permitted: self.options.selective,
            sack_ranges: [None; 3],
            timestamp: None,
            payload: &[],
        };
        let (from, to) = (self.from.ip().into(), self.to.ip().into());
        let ip = IpRepr::new(from, to, IpProtocol::Tcp, tcp.buffer_len(), HOPS);
        let checksums = ChecksumCapabilities::default();
        let mut bytes = vec![0; ethernet.buffer_len() + ip.header_len() + tcp.buffer_len()];
        ethernet.emit(&mut EthernetFrame::new_unchecked(&mut bytes));
        let packet = &mut bytes[ethernet.buffer_len()..];
        ip.emit(&mut *packet, &checksums);
        let mut segment = TcpPacket::new_unchecked(&mut packet[ip.header_len()..]);
        tcp.emit(&mut segment, &from, &to, &checksums);
        bytes
    }
}
