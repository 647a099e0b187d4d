//! What goes past smoltcp is what smoltcp would have made of it: plain datagrams, and joined segments.

use std::net::{Ipv4Addr, SocketAddr};

use network_protocol::{Choice, Family, HEADER, Kind, Request};
use proptest::prelude::*;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::time::Duration;
use smoltcp::wire::{
    EthernetAddress, EthernetFrame, IpAddress, IpProtocol, Ipv4Packet, Ipv4Repr, TcpPacket, UdpPacket, UdpRepr,
};

use crate::datagrams;
use crate::frames::{self, Frame};
use crate::segments::Segment;
use crate::socket::{Body, Datagrams};
use crate::tests::card::{self, Ethernet};
use crate::wire::Wire;

const MAC: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 1]);
const PEER: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 2]);
const HERE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const THERE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);

/// An Ethernet frame with an IPv4 packet to here.
fn packet(protocol: IpProtocol, payload: &[u8]) -> Vec<u8> {
    let ip =
        Ipv4Repr { src_addr: THERE, dst_addr: HERE, next_header: protocol, payload_len: payload.len(), hop_limit: 64 };
    let mut bytes = [&MAC.0[..], &PEER.0, &[8, 0], &[0; 20], payload].concat();
    ip.emit(&mut Ipv4Packet::new_unchecked(&mut bytes[14..]), &ChecksumCapabilities::default());
    bytes
}

fn datagram(data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 8 + data.len()];
    let udp = UdpRepr { src_port: 7, dst_port: 9 };
    let checksums = ChecksumCapabilities::default();
    let (from, to) = (IpAddress::Ipv4(THERE), IpAddress::Ipv4(HERE));
    let fill = |place: &mut [u8]| place.copy_from_slice(data);
    udp.emit(&mut UdpPacket::new_unchecked(&mut bytes[..]), &from, &to, data.len(), fill, &checksums);
    packet(IpProtocol::Udp, &bytes)
}

/// A segment with these flags, options and data.
fn segment(seq: u32, flags: u8, options: &[u8], data: &[u8]) -> Vec<u8> {
    let mut bytes = [&[0; 20][..], options, data].concat();
    bytes[..4].copy_from_slice(&[0, 7, 0, 9]);
    bytes[4..8].copy_from_slice(&seq.to_be_bytes());
    bytes[8..12].copy_from_slice(&77_u32.to_be_bytes());
    bytes[12..16].copy_from_slice(&[((5 + options.len() / 4) as u8) << 4, flags, 1, 0]);
    TcpPacket::new_unchecked(&mut bytes[..]).fill_checksum(&IpAddress::Ipv4(THERE), &IpAddress::Ipv4(HERE));
    packet(IpProtocol::Tcp, &bytes)
}

/// The frames that the stack gets when these come in.
fn joined(frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut wire = Wire::card(1514);
    for frame in frames {
        let read = |at: usize, into: &mut [u8]| {
            into.copy_from_slice(&frame[at..at + into.len()]);
            Ok::<(), ()>(())
        };
        wire.put_from(frame.len(), read).unwrap();
    }
    let mut all = Vec::new();
    while let Some(frame) = wire.next() {
        if wire.is_checked() {
            opened(frame);
        }
        all.push(frame.to_vec());
        wire.lose();
    }
    all
}

/// The sequence number, the flags and the data of a frame's segment, whose checksums are right.
fn opened(frame: &[u8]) -> (u32, u8, Vec<u8>) {
    let ethernet = EthernetFrame::new_checked(frame).unwrap();
    let ip = Ipv4Packet::new_checked(ethernet.payload()).unwrap();
    assert!(ip.verify_checksum());
    assert_eq!(usize::from(ip.total_len()), frame.len() - 14);
    let tcp = TcpPacket::new_checked(ip.payload()).unwrap();
    assert!(tcp.verify_checksum(&IpAddress::Ipv4(THERE), &IpAddress::Ipv4(HERE)));
    (tcp.seq_number().0 as u32, ip.payload()[13], tcp.payload().to_vec())
}

proptest! {
    #[test]
    fn a_plain_datagram_is_what_the_long_way_reads(
        data in proptest::collection::vec(any::<u8>(), 0..1473),
        padding in 0..20_usize,
        change in proptest::option::of((0..60_usize, 1..=255_u8)),
    ) {
        let mut frame = datagram(&data);
        frame.resize(frame.len() + padding, 0);
        if let Some((at, bits)) = change
            && let Some(byte) = frame.get_mut(at)
        {
            *byte ^= bits;
        }
        let long = frames::look_ethernet_by_smoltcp(&frame, MAC);
        match datagrams::read(&frame, MAC) {
            Some((from, to, data)) => prop_assert_eq!(long, Frame::Datagram { from, to, data }),
            // What is changed may be right, and of another form.
            None => prop_assert!(change.is_some(), "{:?}", long),
        }
    }

    #[test]
    fn a_frame_that_is_written_is_read(data in proptest::collection::vec(any::<u8>(), 0..1473), hops: u8) {
        let mut frame = [&[0; datagrams::HEADERS][..], &data].concat();
        let (from, to) = (std::net::SocketAddrV4::new(THERE, 7), std::net::SocketAddrV4::new(HERE, 9));
        datagrams::write(&mut frame, [PEER, MAC], from, to, hops).unwrap();
        let seen = frames::look_ethernet_by_smoltcp(&frame, MAC);
        let (from, to) = (SocketAddr::V4(from), SocketAddr::V4(to));
        prop_assert_eq!(seen, Frame::Datagram { from, to, data: datagrams::HEADERS..frame.len() });
        prop_assert_eq!(Ipv4Packet::new_checked(&frame[14..]).unwrap().hop_limit(), hops);
        // To the bit what smoltcp writes.
        if hops == 64 {
            prop_assert_eq!(frame, datagram(&data));
        }
    }

    #[test]
    fn joined_segments_carry_the_same_bytes(
        parts in proptest::collection::vec((0..40_usize, any::<bool>(), 0..8_u8), 1..20),
        options in prop_oneof![Just(vec![]), Just(vec![1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8])],
        start: u32,
    ) {
        // Lengths are mostly equal; some segments have a gap before them, or a wrong checksum.
        let (mut seq, mut sent, mut wrong) = (start, Vec::new(), 0);
        let mut frames = Vec::new();
        for (number, (len, pushes, what)) in parts.iter().enumerate() {
            let len = if *what < 5 { 33 } else { *len };
            let data: Vec<u8> = (0..len).map(|at| (number * 41 + at) as u8).collect();
            seq = if *what == 6 { seq.wrapping_add(1) } else { seq };
            let mut frame = segment(seq, if *pushes { 0x18 } else { 0x10 }, &options, &data);
            if *what == 7 {
                *frame.last_mut().unwrap() ^= 1;
                wrong += 1;
            } else {
                sent.extend(data.iter().enumerate().map(|(at, byte)| (seq.wrapping_add(at as u32), *byte)));
            }
            seq = seq.wrapping_add(len as u32);
            frames.push(frame);
        }
        let (mut received, mut refused) = (Vec::new(), 0);
        for frame in joined(&frames) {
            let ip = Ipv4Packet::new_checked(&frame[14..]).unwrap();
            let tcp = TcpPacket::new_checked(ip.payload()).unwrap();
            if tcp.verify_checksum(&IpAddress::Ipv4(THERE), &IpAddress::Ipv4(HERE)) {
                let (seq, _, data) = opened(&frame);
                received.extend(data.iter().enumerate().map(|(at, byte)| (seq.wrapping_add(at as u32), *byte)));
            } else {
                refused += 1;
            }
        }
        prop_assert_eq!(received, sent);
        prop_assert_eq!(refused, wrong);
    }
}

#[test]
fn segments_in_order_are_one() {
    let data = [5; 1460];
    let frames: Vec<_> = (0..10).map(|at| segment(at * 1460, 0x10, &[], &data)).collect();
    let all = joined(&frames);
    assert_eq!(all.len(), 1);
    assert_eq!(opened(&all[0]), (0, 0x10, vec![5; 14_600]));
    // More than a packet can hold.
    let frames: Vec<_> = (0..45).map(|at| segment(at * 1460, 0x10, &[], &data)).collect();
    let lens: Vec<_> = joined(&frames).iter().map(|frame| opened(frame).2.len()).collect();
    assert_eq!(lens, [44 * 1460, 1460]);
}

#[test]
fn what_differs_is_not_joined() {
    let first = segment(0, 0x10, &[], &[1; 100]);
    let count = |second: Vec<u8>| joined(&[first.clone(), second]).len();
    assert_eq!(count(segment(100, 0x10, &[], &[2; 100])), 1);
    assert_eq!(count(segment(100, 0x18, &[], &[2; 50])), 1);
    // A FIN, a RST, urgent data, a longer one, one without data, another place, options.
    for flags in [0x11, 0x14, 0x30, 0x12, 0x50] {
        assert_eq!(count(segment(100, flags, &[], &[2; 100])), 2, "{flags:#x}");
    }
    assert_eq!(count(segment(100, 0x10, &[], &[2; 101])), 2);
    assert_eq!(count(segment(100, 0x10, &[], &[])), 2);
    assert_eq!(count(segment(99, 0x10, &[], &[2; 100])), 2);
    assert_eq!(count(segment(100, 0x10, &[1; 4], &[2; 100])), 2);
    // Each other byte of the headers, if the checksums are made to fit.
    for at in [0, 6, 15, 22, 26, 30, 34, 36, 42, 48, 52] {
        let mut other = segment(100, 0x10, &[], &[2; 100]);
        other[at] ^= 4;
        let mut ip = Ipv4Packet::new_unchecked(&mut other[14..]);
        ip.fill_checksum();
        let (from, to) = (IpAddress::Ipv4(ip.src_addr()), IpAddress::Ipv4(ip.dst_addr()));
        TcpPacket::new_unchecked(ip.payload_mut()).fill_checksum(&from, &to);
        assert_eq!(count(other), 2, "{at}");
    }
    // A short segment and one with PSH are the last.
    let after = |second: Vec<u8>, third: Vec<u8>| joined(&[first.clone(), second, third]).len();
    assert_eq!(after(segment(100, 0x10, &[], &[2; 50]), segment(150, 0x10, &[], &[2; 50])), 2);
    assert_eq!(after(segment(100, 0x18, &[], &[2; 100]), segment(200, 0x10, &[], &[2; 100])), 2);
    assert_eq!(opened(&joined(&[first.clone(), segment(100, 0x18, &[], &[2; 9])])[0]).1, 0x18);
}

#[test]
fn any_bytes_are_read() {
    for len in 0..120 {
        for byte in [0, 0x45, 0xff] {
            assert_eq!(joined(&[vec![byte; len]]), [vec![byte; len]]);
        }
    }
}

#[test]
fn buffers_for_joined_segments_are_few() {
    // Pairs of as many connections; each pair would be joined.
    let frames: Vec<_> = (0..10)
        .flat_map(|pair| {
            let of = move |at: u32| segment(pair * 10_000 + at, 0x10, &[], &[1; 1460]);
            [of(0), of(1460)]
        })
        .collect();
    assert_eq!(joined(&frames).len(), 4 + 2 * 6);
}

/// A joined segment waited for the timer of delayed acknowledgements, however long it was.
#[test]
fn a_joined_segment_is_acknowledged_at_once() {
    let mut ethernet = Ethernet::new();
    let (_, client) = ethernet.used_connection();
    ethernet.frames.clear();
    ethernet.machines[1].write(client, &[3; 4 * 1460]);
    ethernet.settle();
    let segments: Vec<Segment> = ethernet.frames.iter().filter_map(|frame| Segment::read(frame)).collect();
    let (sent, answers): (Vec<&Segment>, Vec<&Segment>) = segments.iter().partition(|segment| segment.len > 0);
    assert_eq!(sent.len(), 4);
    // No time has passed. One acknowledgement is for all.
    let end = sent[3].seq.wrapping_add(sent[3].len as i32);
    assert_eq!(answers.iter().map(|answer| answer.ack).collect::<Vec<_>>(), [Some(end)]);
}

#[test]
fn a_known_neighbour_gets_datagrams_at_once() {
    let mut ethernet = Ethernet::new();
    let [receiver, sender] = [0, 1].map(|at| ethernet.machines[at].open(Family::V4, Kind::Datagram));
    ethernet.machines[0].ask(receiver, Request::Bind("0.0.0.0:5000".parse().unwrap())).unwrap();
    let to = std::net::SocketAddrV4::new(HERE, 5000);
    let has_way = |ethernet: &Ethernet| {
        let socket = ethernet.machines[1].stack.sockets.get(&sender).unwrap();
        matches!(socket.body, Body::Datagrams(Datagrams { way: Some(_), .. }))
    };
    let send = |ethernet: &mut Ethernet, len: usize| {
        ethernet.frames.clear();
        ethernet.machines[1].write(sender, &card::datagram(to, len));
        ethernet.settle();
        let received = ethernet.machines[0].read(receiver);
        // The sender's address is the same on both ways.
        assert_eq!(received[HEADER..].len(), len);
        ethernet.frames.last().unwrap().clone()
    };
    // The first one waits for the neighbour's answer.
    let first = send(&mut ethernet, 5);
    assert!(!has_way(&ethernet));
    let second = send(&mut ethernet, 5);
    assert!(has_way(&ethernet));
    assert_eq!(first, second);
    assert_eq!(send(&mut ethernet, 1472).len(), 1514);
    // A request may change where datagrams go, and how.
    ethernet.machines[1].ask(sender, Request::Set(Choice::Ttl, 9)).unwrap();
    assert!(!has_way(&ethernet));
    assert_eq!(send(&mut ethernet, 5)[22], 9);
    // So does another address of the card.
    let other = smoltcp::wire::Ipv4Cidr::new(Ipv4Addr::new(192, 0, 2, 3), 24);
    ethernet.machines[1].stack.set_address(Some(other), None);
    // Until then the neighbour is not asked again.
    ethernet.pass(Duration::from_secs(1));
    assert_eq!(send(&mut ethernet, 5)[26..30], [192, 0, 2, 3]);
}
