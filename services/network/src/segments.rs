//! TCP segments that the stack reads and writes itself, for connections that are not smoltcp's yet or any more.

use std::net::SocketAddrV4;

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr, IpProtocol, Ipv4Packet, Ipv4Repr, TcpControl,
    TcpPacket, TcpRepr, TcpSeqNumber,
};

/// Hop limit of these segments.
const HOPS: u8 = 64;

/// A segment without data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Sender and receiver on the card's network.
    pub macs: [EthernetAddress; 2],
    /// Its sender.
    pub from: SocketAddrV4,
    /// Its receiver.
    pub to: SocketAddrV4,
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
    /// Reads a segment from a frame. `None`: it is none over IPv4, or a checksum is wrong.
    pub fn read(frame: &[u8]) -> Option<Segment> {
        let ethernet = EthernetFrame::new_checked(frame).ok()?;
        let checksums = ChecksumCapabilities::default();
        let packet = Ipv4Packet::new_checked(ethernet.payload()).ok()?;
        let ip = Ipv4Repr::parse(&packet, &checksums).ok()?;
        let segment = TcpPacket::new_checked(packet.payload()).ok()?;
        let tcp = TcpRepr::parse(&segment, &ip.src_addr.into(), &ip.dst_addr.into(), &checksums).ok()?;
        Some(Segment {
            macs: [ethernet.src_addr(), ethernet.dst_addr()],
            from: SocketAddrV4::new(ip.src_addr, tcp.src_port),
            to: SocketAddrV4::new(ip.dst_addr, tcp.dst_port),
            seq: tcp.seq_number.0,
            ack: tcp.ack_number.map(|number| number.0),
            control: tcp.control,
            window: tcp.window_len,
            options: Options { max_segment: tcp.max_seg_size, scale: tcp.window_scale, selective: tcp.sack_permitted },
            len: tcp.payload.len(),
        })
    }

    /// Writes the segment as a frame.
    pub fn write(&self) -> Vec<u8> {
        let [from, to] = self.macs;
        let ethernet = EthernetRepr { src_addr: from, dst_addr: to, ethertype: EthernetProtocol::Ipv4 };
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
        let ip = Ipv4Repr {
            src_addr: *self.from.ip(),
            dst_addr: *self.to.ip(),
            next_header: IpProtocol::Tcp,
            payload_len: tcp.buffer_len(),
            hop_limit: HOPS,
        };
        let checksums = ChecksumCapabilities::default();
        let mut bytes = vec![0; ethernet.buffer_len() + ip.buffer_len() + tcp.buffer_len()];
        ethernet.emit(&mut EthernetFrame::new_unchecked(&mut bytes));
        let packet = &mut bytes[ethernet.buffer_len()..];
        ip.emit(&mut Ipv4Packet::new_unchecked(&mut *packet), &checksums);
        let mut segment = TcpPacket::new_unchecked(&mut packet[ip.buffer_len()..]);
        tcp.emit(&mut segment, &ip.src_addr.into(), &ip.dst_addr.into(), &checksums);
        bytes
    }
}
