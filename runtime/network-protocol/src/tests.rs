//! Every message survives encoding and decoding; invalid bytes cause no harm.

use core::net::SocketAddr;
use std::string::ToString;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use crate::{
    Addresses, CardState, CardStateV6, Choice, Error, Family, Information, Kind, Name, Reply, Request, canonical,
    decode_header, encode_header, mapped, tcp_state,
};

fn address() -> impl Strategy<Value = SocketAddr> {
    prop_oneof![
        any::<(core::net::Ipv4Addr, u16)>().prop_map(SocketAddr::from),
        any::<(core::net::Ipv6Addr, u16)>().prop_map(SocketAddr::from),
    ]
}

fn request() -> impl Strategy<Value = Request<'static>> {
    let choice = || prop::sample::select(Choice::ALL);
    prop_oneof![
        (any::<bool>(), prop::sample::select(&[Kind::Stream, Kind::Datagram, Kind::Echo][..]))
            .prop_map(|(v4, kind)| Request::Open(if v4 { Family::V4 } else { Family::V6 }, kind)),
        Just(Request::Clone),
        Just(Request::Card),
        Just(Request::Settle),
        Just(Request::Information),
        Just(Request::CountErrors),
        any::<(bool, core::net::Ipv4Addr, core::net::Ipv4Addr)>().prop_map(|(join, group, interface)| Request::Group {
            join,
            group,
            interface
        }),
        any::<(bool, core::net::Ipv6Addr, u32)>().prop_map(|(join, group, interface)| Request::GroupV6 {
            join,
            group,
            interface
        }),
        Just(Request::Accept),
        Just(Request::LocalAddress),
        Just(Request::PeerAddress),
        address().prop_map(Request::Bind),
        address().prop_map(Request::Prepare),
        "[a-z0-9_-]{1,63}([.][A-Z]{1,20}){0,3}"
            .prop_map(|name| Request::Lookup(Name::new(name.leak()).expect("a name"))),
        (address(), any::<bool>()).prop_map(|(to, wait)| Request::Connect { to, wait }),
        any::<u32>().prop_map(Request::Listen),
        (choice(), any::<u32>()).prop_map(|(choice, value)| Request::Set(choice, value)),
        choice().prop_map(Request::Get),
    ]
}

proptest! {
    #[test]
    fn requests_are_understood(transaction: u32, request in request()) {
        let message = request.encode(transaction);
        prop_assert_eq!(Request::decode(message.as_bytes()), Some((transaction, Some(request))));
        // Neither a shorter nor a longer message decodes to the same request.
        let bytes = message.as_bytes();
        prop_assert_ne!(Request::decode(&bytes[..bytes.len() - 1]), Some((transaction, Some(request))));
        let longer: Vec<u8> = bytes.iter().copied().chain([0]).collect();
        prop_assert_eq!(Request::decode(&longer), Some((transaction, None)));
    }

    #[test]
    fn replies_are_understood(
        transaction: u32, address in address(), value: u32, error in prop::sample::select(Error::ALL),
        addresses in prop::collection::vec(address().prop_map(|address| address.ip().to_canonical()), 1..20),
    ) {
        let addresses = Addresses::new(addresses).map(Reply::Addresses);
        let replies = [Ok(Reply::Done), Ok(Reply::Address(address)), Ok(Reply::Value(value)), Err(error)];
        for reply in replies.into_iter().chain(addresses.map(Ok)) {
            prop_assert_eq!(Reply::decode(Reply::encode(transaction, reply).as_bytes()), Some(reply));
        }
    }

    #[test]
    fn headers_are_understood(address in prop::option::of(address()), bytes: Vec<u8>) {
        let datagram: Vec<u8> = encode_header(address).into_iter().chain(bytes.iter().copied()).collect();
        prop_assert_eq!(decode_header(&datagram), Some((address, &bytes[..])));
    }

    #[test]
    fn any_bytes_do_no_harm(bytes in prop::collection::vec(prop_oneof![any::<u8>(), 0..12u8], 0..80)) {
        let _ = (Request::decode(&bytes), Reply::decode(&bytes), decode_header(&bytes));
    }
}

#[test]
fn addresses_change_their_clothes() {
    let v4: SocketAddr = "127.0.0.1:80".parse().expect("an address");
    assert_eq!(mapped(v4).to_string(), "[::ffff:127.0.0.1]:80");
    assert_eq!(canonical(mapped(v4)), v4);
    let v6: SocketAddr = "[::1]:80".parse().expect("an address");
    assert_eq!((mapped(v6), canonical(v6)), (v6, v6));
}

#[test]
fn the_state_of_a_card() {
    let ip = |last: u8| core::net::Ipv4Addr::new(192, 0, 2, last);
    let state = CardState {
        mac: [1, 2, 3, 4, 5, 6],
        online: true,
        mtu: 1500,
        address: Some((ip(1), 24)),
        gateway: None,
        name_servers: [Some(ip(3)), None, Some(ip(4))],
        received: u64::MAX,
        sent: 2,
        ignored: 3,
        no_room: 4,
        v6: CardStateV6::default(),
    };
    let v6 = |last: u16| core::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last);
    let mut more = CardStateV6 { gateway: Some(v6(9)), name_servers: [Some(v6(1)), None, Some(v6(2))], ..state.v6 };
    more.addresses[..2].copy_from_slice(&[Some((v6(3), 64)), Some((v6(4), 128))]);
    more.addresses[5] = Some((v6(5), 0));
    for state in [state, CardState { address: None, gateway: Some(ip(9)), ..state }, CardState { v6: more, ..state }] {
        let reply = Ok(Reply::Card(state));
        assert_eq!(Reply::decode(Reply::encode(7, reply).as_bytes()), Some(reply));
    }
}

#[test]
fn what_is_known_about_a_connection() {
    let all = Information {
        state: tcp_state::CLOSING,
        timeouts: 2,
        scales: Some((14, 1)),
        selective: true,
        retransmission_timeout: 4,
        send_segment: 5,
        receive_segment: 6,
        in_flight: 7,
        round_trip: 8,
        round_trip_variance: 9,
        congestion_window: 10,
        retransmissions: 11,
        unacknowledged: 12,
        peer_window: 13,
        receive_space: 14,
        mtu: u32::MAX,
    };
    for information in [all, Information { scales: None, ..all }, Information::default()] {
        let reply = Ok(Reply::Information(information));
        assert_eq!(Reply::decode(Reply::encode(7, reply).as_bytes()), Some(reply));
    }
}

#[test]
fn names() {
    let long = ["a".repeat(63), "b".repeat(63), "c".repeat(63), "d".repeat(61)].join(".");
    for good in ["a", "a.example", "A-1._x.example.", &long] {
        assert_eq!(Name::new(good).expect("a name").as_str(), good.trim_end_matches('.'));
    }
    let longer = [&long, "e"].concat();
    for bad in ["", ".", "..", "a..b", ".a", "a b", "\u{e4}", "a/b", &"a".repeat(64), &longer] {
        assert_eq!(Name::new(bad), None, "{bad}");
    }
    assert_eq!(Addresses::new([]), None);
}
