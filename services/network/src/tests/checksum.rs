//! The checksum of smoltcp, which one of our patches changes.

use proptest::prelude::*;
use smoltcp::wire::{IpAddress, UdpPacket};

/// The sum of RFC 1071, two bytes at a time.
fn sum(bytes: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Bytes of all kinds, among them many with carries.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(0xff_u8), Just(0), any::<u8>()];
    prop_oneof![proptest::collection::vec(byte, 0..200), proptest::collection::vec(0xfe_u8.., 0..3000)]
}

proptest! {
    #[test]
    fn a_datagram_has_the_checksum_of_its_bytes(data in bytes(), from: [u8; 4], to: [u8; 4]) {
        let len = 8 + data.len();
        let mut frame = vec![0; len];
        frame[8..].copy_from_slice(&data);
        let mut datagram = UdpPacket::new_unchecked(&mut frame[..]);
        datagram.set_src_port(1);
        datagram.set_dst_port(2);
        datagram.set_len(len as u16);
        let [from_ip, to_ip] = [from, to].map(|ip| IpAddress::Ipv4(ip.into()));
        datagram.fill_checksum(&from_ip, &to_ip);
        let pseudo = [&from[..], &to, &[0, 17], &(len as u16).to_be_bytes()].concat();
        prop_assert_eq!(sum(&[&pseudo[..], &frame].concat()), 0xffff);
        prop_assert!(UdpPacket::new_checked(&frame[..]).unwrap().verify_checksum(&from_ip, &to_ip));
    }
}
