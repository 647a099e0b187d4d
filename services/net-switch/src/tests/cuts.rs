//! Large segments that are cut.

use proptest::prelude::*;

use super::{Driver, dropped, mac, ports, turn};
use crate::frame::{DropReason, HEADER, LONGEST_FRAME};
use crate::offload::Offers;
use crate::switch::{Budget, Switch};
use vhost_user::net;

/// FIN, PSH, CWR and ACK.
const FLAGS: u8 = 0x99;
const SEQUENCE: u32 = 0xffff_f000;

/// A segment from port 1 to port 0, with options of TCP, and its header of virtio's.
fn segment(six: bool, options: usize, data: &[u8], size: u16) -> ([u8; HEADER], Vec<u8>) {
    let mut frame = [&mac(0)[..], &mac(1), if six { &[0x86, 0xdd] } else { &[8, 0] }].concat();
    let of_tcp = 20 + options;
    let behind = (of_tcp + data.len()) as u16;
    if six {
        frame.extend([0x60, 0, 0, 0]);
        frame.extend(behind.to_be_bytes());
        frame.extend([6, 64]);
        frame.extend([0xfe; 32]);
    } else {
        frame.extend([0x45, 0]);
        frame.extend(behind.wrapping_add(20).to_be_bytes());
        frame.extend([0xff, 0xfe, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    }
    let tcp = frame.len() as u16;
    frame.extend([1, 2, 3, 4]);
    frame.extend(SEQUENCE.to_be_bytes());
    frame.extend([9, 9, 9, 9, (of_tcp as u8) << 2, FLAGS, 1, 0, 0xab, 0xcd, 0, 0]);
    frame.extend(vec![1; options]);
    let mut header = [0; HEADER];
    header[..2].copy_from_slice(&[1, if six { 4 } else { 1 }]);
    for (at, value) in [(2, frame.len() as u16), (4, size), (6, tcp), (8, 16)] {
        header[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }
    frame.extend(data);
    (header, frame)
}

/// The sum of all 16-bit words, as it is defined.
fn sum(parts: &[&[u8]]) -> u16 {
    let mut bytes = parts.concat();
    bytes.resize(bytes.len().next_multiple_of(2), 0);
    let words = bytes.chunks(2).map(|word| u64::from(word[0]) << 8 | u64::from(word[1]));
    let mut sum: u64 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Checks a segment as a receiver does. Returns its sequence number, flags and data.
fn check(frame: &[u8], six: bool) -> (u32, u8, Vec<u8>) {
    let tcp = if six { 54 } else { 34 };
    let behind = &frame[tcp..];
    let len = u16::from_be_bytes([frame[if six { 18 } else { 16 }], frame[if six { 19 } else { 17 }]]);
    assert_eq!(usize::from(len), if six { behind.len() } else { 20 + behind.len() });
    let addresses = if six { &frame[22..54] } else { &frame[26..34] };
    if !six {
        assert_eq!(sum(&[&frame[14..34]]), 0xffff, "IPv4's checksum");
    }
    let len = (behind.len() as u32).to_be_bytes();
    assert_eq!(sum(&[addresses, &[0, 6], &len, behind]), 0xffff, "TCP's checksum");
    let header = usize::from(behind[12] >> 4) * 4;
    (u32::from_be_bytes(*behind[4..].first_chunk().unwrap()), behind[13], behind[header..].to_vec())
}

fn with_offers(switch: &mut Switch<super::Shared>, port: usize) {
    switch.guest(port).unwrap().offers = Offers::of(net::CSUM | net::HOST_TSO4 | net::HOST_TSO6);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// What comes out is what went in, in segments that a receiver takes.
    #[test]
    fn segments_are_whole(
        six: bool,
        options in (0..=10_usize).prop_map(|words| words * 4),
        len in prop_oneof![1..200_usize, 1..20_000_usize],
        size in 200..1500_u16,
        lens in proptest::collection::vec(1..300_usize, 0..5),
    ) {
        let mut switch = Switch::new(ports());
        let [mut a, mut b] = [0, 1].map(|port| Driver::new(&mut switch, port, true));
        with_offers(&mut switch, 1);
        let data: Vec<u8> = (0..len).map(|at| (at * 31 + at / 256) as u8).collect();
        let (header, frame) = segment(six, options, &data, size);
        a.refill(&[2048; 60]);
        b.send_behind(header, &frame, &lens);
        turn(&mut switch, 1);
        let count = len.div_ceil(size.into());
        if count > 60 {
            // There were no more buffers; it waited for some once.
            turn(&mut switch, 1);
            prop_assert_eq!(std::iter::from_fn(|| a.receive()).count(), 60);
            prop_assert_eq!(dropped(&switch, 1, DropReason::NoBuffer), 1);
        } else {
            let mut all = Vec::new();
            for index in 0..count {
                let (sequence, flags, part) = check(&a.receive().expect("a segment"), six);
                prop_assert_eq!(sequence, SEQUENCE.wrapping_add(all.len() as u32));
                let wanted = (index == 0, index + 1 == count);
                prop_assert_eq!((flags & 0x80 != 0, flags & 9 == 9, flags & 0x10), (wanted.0, wanted.1, 0x10));
                prop_assert_eq!(part.len(), usize::from(size).min(len - all.len()));
                all.extend(part);
            }
            prop_assert!(all == data);
        }
        prop_assert!(a.receive().is_none());
        prop_assert_eq!(b.sent(), 1);
    }

    /// No header has the switch write or read anything that is not the frame.
    #[test]
    fn no_headers_make_it_panic(
        six: bool,
        len in 0..3000_usize,
        size in 1..2000_u16,
        changes in proptest::collection::vec((0..HEADER + 80, any::<u8>()), 0..6),
    ) {
        let mut switch = Switch::new(ports());
        let [mut a, mut b] = [0, 1].map(|port| Driver::new(&mut switch, port, true));
        with_offers(&mut switch, 1);
        let (header, frame) = segment(six, 12, &vec![7; len], size);
        let mut bytes = [&header[..], &frame].concat();
        for (at, value) in changes {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        a.refill(&[2048; 60]);
        b.send_behind(*bytes.first_chunk().unwrap(), &bytes[HEADER..], &[50, 60]);
        // It waits for buffers once.
        turn(&mut switch, 1);
        turn(&mut switch, 1);
        let got = std::iter::from_fn(|| a.receive()).count() as u64;
        prop_assert!(got <= 60);
        prop_assert_eq!((b.sent(), switch.counters(0).received), (1, got));
    }
}

/// What cannot be cut is dropped: too many segments, or headers that do not fit each other.
#[test]
fn what_is_not_cut() {
    let mut switch = Switch::new(ports());
    let [mut a, mut b] = [0, 1].map(|port| Driver::new(&mut switch, port, true));
    with_offers(&mut switch, 1);
    a.refill(&[2048; 60]);
    let (header, frame) = segment(false, 0, &[7; 200], 100);
    let with = |at: usize, value: u8| {
        let mut frame = frame.clone();
        frame[at] = value;
        frame
    };
    let mut short = header;
    short[4..6].copy_from_slice(&1_u16.to_le_bytes());
    let wrong = [
        (short, frame.clone()),
        // The length of IPv4's header, and of TCP's.
        (header, with(14, 0x46)),
        (header, with(14, 0x40)),
        (header, with(46, 0x60)),
        (header, with(46, 0x40)),
    ];
    let mut count = 0;
    // One segment that is as long as the longest frame has no length that IPv4 can say.
    let (one, longest) = segment(false, 0, &vec![7; LONGEST_FRAME - 54], u16::MAX);
    for (header, frame) in wrong.into_iter().chain([(one, longest)]) {
        b.send_behind(header, &frame, &[]);
        turn(&mut switch, 1);
        count += 1;
        assert_eq!(dropped(&switch, 1, DropReason::Offload), count);
    }
    b.send_behind(header, &frame, &[]);
    turn(&mut switch, 1);
    assert_eq!(switch.counters(0).received, 2);
}

/// The receiver has no buffers for the last segments: they wait, and no segment comes twice.
#[test]
fn a_part_waits() {
    let mut switch = Switch::new(ports());
    let [mut a, mut b] = [0, 1].map(|port| Driver::new(&mut switch, port, true));
    with_offers(&mut switch, 1);
    let (header, frame) = segment(false, 0, &[7; 4000], 100);
    a.refill(&[2048; 37]);
    b.send_behind(header, &frame, &[]);
    let first = switch.turn(1, Budget::of(64));
    assert_eq!((first.waits_for, first.frames), (Some(0), 0));
    switch.tell(|_, _, _| {});
    assert_eq!(std::iter::from_fn(|| a.receive()).count(), 37);
    a.refill(&[2048; 10]);
    turn(&mut switch, 1);
    let sequences: Vec<u32> =
        std::iter::from_fn(|| a.receive()).map(|frame| check(&frame, false).0.wrapping_sub(SEQUENCE)).collect();
    assert_eq!((sequences, b.sent()), (vec![3700, 3800, 3900], 1));
}
