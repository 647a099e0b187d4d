//! IPv6 on the card: two machines, routers that advertise, and whoever else writes to the network.

use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};

use network_protocol::{
    CARD, CONNECTED, Choice, Error, Family, HEADER, Kind, Name, Reply, Request, decode_header, encode_header,
};
use proptest::prelude::*;
use smoltcp::time::Duration;
use smoltcp::wire::{EthernetAddress, Icmpv6Packet, TcpControl};

use super::card::{Ethernet, PORT};
use super::machine::Machine;
use crate::half_open::MOST;
use crate::ipv6::Plan;
use crate::ports::Id;
use crate::segments::{Options, Segment};

pub const ALL: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
pub const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9);
const PREFIX: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, 0);
const FAR: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 9, 9, 0, 0, 0, 9);

/// The link-local address of a machine.
pub fn local(number: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, number)
}

/// The address of a machine that has [`PREFIX`].
pub fn global(number: u16) -> Ipv6Addr {
    Ipv6Addr::from_bits(PREFIX.to_bits() | local(number).to_bits() & u128::from(u64::MAX))
}

fn at(ip: Ipv6Addr, port: u16) -> SocketAddr {
    let scope = if network_protocol::is_link_local(ip) { CARD } else { 0 };
    SocketAddrV6::new(ip, port, 0, scope).into()
}

/// A frame with an ICMPv6 message to machine 1 or to a group.
pub fn icmp(from: Ipv6Addr, to: Ipv6Addr, hops: u8, extension: &[u8], message: &[u8]) -> Vec<u8> {
    let mut message = message.to_vec();
    Icmpv6Packet::new_unchecked(&mut message[..]).fill_checksum(&from, &to);
    let [.., a, b, c, d] = to.octets();
    let mac = if to.is_multicast() { [0x33, 0x33, a, b, c, d] } else { [2, 0, 0, 0, 0, 1] };
    let len = ((extension.len() + message.len()) as u16).to_be_bytes();
    let next = if extension.is_empty() { 58 } else { 0 };
    let head = [0x86, 0xdd, 0x60, 0, 0, 0, len[0], len[1], next, hops];
    [&mac[..], &[2, 0, 0, 0, 0, 9], &head, &from.octets(), &to.octets(), extension, &message].concat()
}

/// An advertisement of a router with this lifetime, and options.
fn router(lifetime: u16, options: &[&[u8]]) -> Vec<u8> {
    [&[134, 0, 0, 0, 64, 0][..], &lifetime.to_be_bytes(), &[0; 8], &options.concat()].concat()
}

fn prefix(ip: Ipv6Addr, flags: u8, valid: u32, preferred: u32) -> Vec<u8> {
    [&[3, 4, 64, flags][..], &valid.to_be_bytes(), &preferred.to_be_bytes(), &[0; 4], &ip.octets()].concat()
}

fn name_server(ip: Ipv6Addr, lifetime: u32) -> Vec<u8> {
    [&[25, 3, 0, 0][..], &lifetime.to_be_bytes(), &ip.octets()].concat()
}

const BOTH: u8 = 0xc0;

/// Two machines with IPv6, whose link-local addresses are theirs.
pub fn ethernet() -> Ethernet {
    let mut ethernet = Ethernet::new();
    ethernet.machines.iter_mut().for_each(|machine| machine.stack.enable_ipv6(&Plan::default()));
    ethernet.settle();
    ethernet.pass(Duration::from_secs(2));
    ethernet
}

/// The same, with a router's prefix and a name server.
pub fn routed() -> Ethernet {
    let mut ethernet = ethernet();
    let told = router(1800, &[&prefix(PREFIX, BOTH, 86_400, 14_400), &name_server(global(2), 1800)]);
    for machine in &mut ethernet.machines {
        machine.stack.wire().unwrap().put(icmp(ROUTER, ALL, 255, &[], &told));
    }
    ethernet.settle();
    ethernet.pass(Duration::from_secs(2));
    ethernet
}

/// Gives machine 1 a frame. Returns what it sends.
fn put(ethernet: &mut Ethernet, frame: Vec<u8>) -> Vec<Vec<u8>> {
    let machine = &mut ethernet.machines[0];
    machine.stack.wire().unwrap().put(frame);
    machine.settle();
    machine.stack.set_room(64);
    sent(machine)
}

pub fn sent(machine: &mut Machine) -> Vec<Vec<u8>> {
    let wire = machine.stack.wire().unwrap();
    std::iter::from_fn(|| wire.take()).collect()
}

fn addresses(machine: &Machine) -> Vec<Ipv6Addr> {
    machine.stack.card_addresses_v6().into_iter().map(|(ip, _)| ip).collect()
}

fn datagram(to: SocketAddr, len: usize) -> Vec<u8> {
    [&encode_header(Some(to))[..], &vec![7; len]].concat()
}

/// Machine 1 listens at a port of both families, and machine 2 connects to it. Returns the two ends.
pub fn connection(ethernet: &mut Ethernet, to: Ipv6Addr) -> (Id, Id) {
    let listener = ethernet.machines[0].open(Family::V6, Kind::Stream);
    ethernet.machines[0].ask(listener, Request::Bind(at(Ipv6Addr::UNSPECIFIED, PORT))).unwrap();
    ethernet.machines[0].ask(listener, Request::Listen(1)).unwrap();
    let client = ethernet.machines[1].open(Family::V6, Kind::Stream);
    let asked = ethernet.machines[1].ask(client, Request::Connect { to: at(to, PORT), wait: true });
    assert_eq!(asked, Err(Error::InProgress));
    ethernet.settle();
    ethernet.pass(Duration::from_secs(2));
    assert_ne!(ethernet.machines[1].signals(client) & CONNECTED, 0);
    let (server, _) = ethernet.machines[0].stack.accept(listener).unwrap();
    ethernet.machines[0].stack.close(listener);
    (server, client)
}

#[test]
fn bytes_there_and_back() {
    for (to, from) in [(local(1), local(2)), (global(1), global(2))] {
        let mut ethernet = routed();
        let (server, client) = connection(&mut ethernet, to);
        let peer = ethernet.machines[0].ask(server, Request::PeerAddress);
        assert!(matches!(peer, Ok(Reply::Address(peer)) if peer == at(from, peer.port())), "{peer:?}");
        ethernet.transfer(server, client);
        assert!(ethernet.frames.iter().all(|frame| frame.len() <= 1514));
        assert!(ethernet.frames.iter().any(|frame| frame.len() == 1514 && frame[12..14] == [0x86, 0xdd]));
        // Ends on both sides, and a late segment is answered.
        for (machine, id) in [(0, server), (1, client)] {
            ethernet.machines[machine].stack.close(id);
            ethernet.settle();
            ethernet.pass(Duration::from_secs(1));
        }
        let is_end = |frame: &&Vec<u8>| {
            Segment::read(frame).is_some_and(|end| end.control == TcpControl::Fin && end.from.ip() == from)
        };
        let end = ethernet.frames.iter().rfind(is_end).unwrap().clone();
        assert_eq!(ethernet.put(end)[0].control, TcpControl::None);
    }
}

#[test]
fn datagrams_echoes_and_errors() {
    let mut ethernet = routed();
    for ip in [local(1), global(1)] {
        let [receiver, sender] = [0, 1].map(|at| ethernet.machines[at].open(Family::V6, Kind::Datagram));
        ethernet.machines[0].ask(receiver, Request::Bind(at(ip, 5000))).unwrap();
        // smoltcp asks for one neighbour in a second.
        ethernet.pass(Duration::from_secs(1));
        for len in [0, 1, 1452] {
            ethernet.machines[1].write(sender, &datagram(at(ip, 5000), len));
            ethernet.settle();
            let received = ethernet.machines[0].read(receiver);
            assert_eq!(received.len(), HEADER + len);
            let from = decode_header(&received).unwrap().0.unwrap();
            assert_eq!(from, at(if ip == local(1) { local(2) } else { global(2) }, from.port()));
        }
        ethernet.machines[1].write(sender, &datagram(at(ip, 5000), 1453));
        ethernet.settle();
        assert!(ethernet.machines[0].read(receiver).is_empty());
        // Nobody has the port.
        let to = at(ip, 5001);
        ethernet.machines[1].ask(sender, Request::Connect { to, wait: true }).unwrap();
        ethernet.machines[1].write(sender, &datagram(to, 9));
        ethernet.settle();
        let error = ethernet.machines[1].ask(sender, Request::Get(Choice::Error));
        assert_eq!(error, Ok(Reply::Value(Error::Refused as u32)));
        ethernet.machines[0].stack.close(receiver);
        // An echo.
        let echo = ethernet.machines[1].open(Family::V6, Kind::Echo);
        ethernet.machines[1].ask(echo, Request::Connect { to: at(ip, 0), wait: true }).unwrap();
        let request = [&encode_header(None)[..], &[128, 0, 0, 0, 0, 0, 0, 5, 1, 2, 3]].concat();
        ethernet.machines[1].write(echo, &request);
        ethernet.settle();
        let answer = ethernet.machines[1].read(echo);
        let (from, message) = decode_header(&answer).unwrap();
        assert_eq!((from, message[0], &message[6..]), (Some(at(ip, 0)), 129, &[0, 5, 1, 2, 3][..]));
    }
}

#[test]
fn scopes() {
    let mut ethernet = ethernet();
    let machine = &mut ethernet.machines[1];
    for kind in [Kind::Stream, Kind::Datagram, Kind::Echo] {
        let id = machine.open(Family::V6, kind);
        for scope in [0, 1, 3] {
            let to: SocketAddr = SocketAddrV6::new(local(1), PORT, 0, scope).into();
            assert_eq!(machine.ask(id, Request::Connect { to, wait: true }), Err(Error::Invalid), "{kind:?} {scope}");
            let own = SocketAddrV6::new(local(2), PORT, 0, scope).into();
            assert_eq!(machine.ask(id, Request::Bind(own)), Err(Error::Invalid));
        }
        // Another machine's, and this one's.
        assert_eq!(machine.ask(id, Request::Bind(at(local(1), PORT))), Err(Error::AddressNotAvailable));
        machine.ask(id, Request::Bind(at(local(2), PORT))).unwrap();
        assert_eq!(machine.address(id), at(local(2), PORT));
    }
    // There is no router.
    let id = machine.open(Family::V6, Kind::Stream);
    for to in [FAR, global(1), ALL, "::ffff:192.0.2.77".parse().unwrap()] {
        let asked = machine.ask(id, Request::Connect { to: at(to, PORT), wait: false });
        let expected = if to.to_ipv4_mapped().is_some() { Error::InProgress } else { Error::Unreachable };
        assert_eq!(asked, Err(expected), "{to}");
    }
}

#[test]
fn a_prefix_comes_is_renewed_and_goes() {
    let mut ethernet = ethernet();
    assert_eq!(addresses(&ethernet.machines[0]), [local(1)]);
    let say = |ethernet: &mut Ethernet, lifetime: u16, valid: u32, preferred: u32| {
        put(ethernet, icmp(ROUTER, ALL, 255, &[], &router(lifetime, &[&prefix(PREFIX, BOTH, valid, preferred)])));
    };
    let pass = |ethernet: &mut Ethernet, seconds: u64| ethernet.machines[0].pass(Duration::from_secs(seconds));
    say(&mut ethernet, 1800, 9000, 9000);
    // It counts when nobody has said for a second that it is taken.
    assert_eq!(addresses(&ethernet.machines[0]), [local(1)]);
    pass(&mut ethernet, 1);
    assert_eq!(addresses(&ethernet.machines[0]), [local(1), global(1)]);
    assert!(ethernet.machines[0].stack.has_far_v6());
    // The router stops to be one.
    say(&mut ethernet, 0, 9000, 9000);
    assert!(!ethernet.machines[0].stack.has_far_v6());
    // A short time does not end it at once, but in two hours.
    say(&mut ethernet, 1800, 5, 5);
    pass(&mut ethernet, 7100);
    assert_eq!(addresses(&ethernet.machines[0]).len(), 2);
    // Nor does another one shorten what is left.
    say(&mut ethernet, 1800, 0, 0);
    pass(&mut ethernet, 90);
    assert_eq!(addresses(&ethernet.machines[0]).len(), 2);
    pass(&mut ethernet, 20);
    assert_eq!(addresses(&ethernet.machines[0]), [local(1)]);
    // The router was one for half an hour.
    say(&mut ethernet, 1800, u32::MAX, 1);
    pass(&mut ethernet, 1);
    pass(&mut ethernet, 1800);
    assert_eq!(addresses(&ethernet.machines[0]).len(), 2);
    assert!(!ethernet.machines[0].stack.has_far_v6());
}

#[test]
fn advertisements_that_do_not_count() {
    let mut ethernet = ethernet();
    let good = router(1800, &[&prefix(PREFIX, BOTH, 9000, 9000), &name_server(global(2), 1800)]);
    let global_router = "2001:db8::9".parse().unwrap();
    for (from, hops, message) in [
        (ROUTER, 254, good.clone()),
        (global_router, 255, good.clone()),
        (Ipv6Addr::UNSPECIFIED, 255, good.clone()),
        (ROUTER, 255, good[..15].to_vec()),
        (ROUTER, 255, good[..good.len() - 1].to_vec()),
        (ROUTER, 255, [&[134, 1], &good[2..]].concat()),
        (ROUTER, 255, [&good[..], &[1, 0, 0, 0, 0, 0, 0, 0]].concat()),
    ] {
        put(&mut ethernet, icmp(from, ALL, hops, &[], &message));
        ethernet.pass(Duration::from_secs(2));
        assert_eq!(addresses(&ethernet.machines[0]), [local(1)]);
        assert_eq!(ethernet.machines[0].stack.card_state_v6().gateway, None);
    }
    // Prefixes that no address can be made of.
    let odd = |ip: &str, flags, valid, preferred| prefix(ip.parse().unwrap(), flags, valid, preferred);
    let mut long = prefix(PREFIX, BOTH, 9000, 9000);
    long[2] = 80;
    let none = [
        odd("2001:db8::", 0x80, 9000, 9000),
        odd("fe80::", BOTH, 9000, 9000),
        odd("ff02::", BOTH, 9000, 9000),
        odd("fe90::", BOTH, 9000, 9000),
        odd("::", BOTH, 9000, 9000),
        odd("2001:db8::", BOTH, 1, 2),
        odd("2001:db8::", BOTH, 1, u32::MAX),
        odd("2001:db8::", BOTH, 0, 0),
        long,
    ];
    let none: Vec<&[u8]> = none.iter().map(Vec::as_slice).collect();
    put(&mut ethernet, icmp(ROUTER, ALL, 255, &[], &router(1800, &none)));
    ethernet.pass(Duration::from_secs(2));
    assert_eq!(addresses(&ethernet.machines[0]), [local(1)]);
}

/// Whoever advertises, there are few addresses, routers and name servers.
#[test]
fn a_flood_of_advertisements() {
    let mut ethernet = ethernet();
    for number in 0..2000_u16 {
        let from = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 1, number);
        let ip = Ipv6Addr::new(0x2001, 0xdb8, 0, number, 0, 0, 0, 0);
        let told = router(9000, &[&prefix(ip, BOTH, 9000, 9000), &name_server(ip, 9000)]);
        put(&mut ethernet, icmp(from, ALL, 255, &[], &told));
    }
    ethernet.machines[0].pass(Duration::from_secs(2));
    assert_eq!(addresses(&ethernet.machines[0]).len(), 6);
    let state = ethernet.machines[0].stack.card_state_v6();
    assert_eq!(state.gateway, Some(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 1, 0)));
    assert!(state.name_servers.iter().all(Option::is_some));
}

#[test]
fn an_address_that_is_taken() {
    let message = |kind: u8, ip: Ipv6Addr| [&[kind, 0, 0, 0, 0, 0, 0, 0][..], &ip.octets()].concat();
    let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 1);
    let mut told = [
        // The owner says so, and another machine wants it, too.
        (icmp(global(1), ALL, 255, &[], &message(136, global(1))), 1),
        (icmp(Ipv6Addr::UNSPECIFIED, group, 255, &[], &message(135, global(1))), 1),
        // These say nothing about it.
        (icmp(local(2), group, 255, &[], &message(135, global(1))), 2),
        (icmp(global(1), ALL, 254, &[], &message(136, global(1))), 2),
    ]
    .into_iter();
    for (frame, count) in &mut told {
        let mut ethernet = ethernet();
        put(&mut ethernet, icmp(ROUTER, ALL, 255, &[], &router(9000, &[&prefix(PREFIX, BOTH, 9000, 9000)])));
        ethernet.machines[0].settle();
        put(&mut ethernet, frame);
        ethernet.machines[0].pass(Duration::from_secs(1));
        assert_eq!(addresses(&ethernet.machines[0]).len(), count);
    }
    // Two machines with the same hardware address have no IPv6.
    let mut ethernet = Ethernet::new();
    ethernet.machines[0].stack.enable_ipv6(&Plan::default());
    ethernet.machines[0].settle();
    put(&mut ethernet, icmp(local(1), ALL, 255, &[], &message(136, local(1))));
    put(&mut ethernet, icmp(ROUTER, ALL, 255, &[], &router(9000, &[&prefix(PREFIX, BOTH, 9000, 9000)])));
    ethernet.machines[0].pass(Duration::from_secs(2));
    assert!(addresses(&ethernet.machines[0]).is_empty());
    // One that has its address says so to who wants it.
    let mut ethernet = self::ethernet();
    let said = put(&mut ethernet, icmp(Ipv6Addr::UNSPECIFIED, group, 255, &[], &message(135, local(1))));
    assert_eq!(said.len(), 1);
    assert_eq!((&said[0][..6], said[0][54]), (&[0x33, 0x33, 0, 0, 0, 1][..], 136));
    assert_eq!(addresses(&ethernet.machines[0]), [local(1)]);
    // So it does to one with the same hardware address. Its own question that comes back says nothing.
    let mut question = icmp(Ipv6Addr::UNSPECIFIED, group, 255, &[], &message(135, local(1)));
    question[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    assert_eq!(put(&mut ethernet, question.clone()).len(), 1);
    let mut ethernet = Ethernet::new();
    ethernet.machines[0].stack.enable_ipv6(&Plan::default());
    ethernet.machines[0].settle();
    put(&mut ethernet, question);
    ethernet.machines[0].pass(Duration::from_secs(1));
    assert_eq!(addresses(&ethernet.machines[0]), [local(1)]);
}

/// Another address of the same machine may be its sender.
#[test]
fn an_advertisement_is_about_its_target() {
    let mut ethernet = routed();
    let machine = &mut ethernet.machines[0];
    let id = machine.open(Family::V6, Kind::Datagram);
    machine.write(id, &datagram(at(global(3), 7), 5));
    assert!(sent(machine).iter().any(|frame| frame[54] == 135));
    let said = [&[136, 0, 0, 0, 0x60, 0, 0, 0][..], &global(3).octets(), &[2, 1, 2, 0, 0, 0, 0, 9]].concat();
    let sent = put(&mut ethernet, icmp(local(3), global(1), 255, &[], &said));
    assert_eq!(sent.len(), 1);
    assert_eq!((&sent[0][..6], sent[0][20], &sent[0][38..54]), (&[2, 0, 0, 0, 0, 9][..], 17, &global(3).octets()[..]));
}

/// As docs/network.md says.
#[test]
fn an_advertisement_that_nobody_asked_for_counts() {
    let mut ethernet = routed();
    let said = [&[136, 0, 0, 0, 0x20, 0, 0, 0][..], &global(3).octets(), &[2, 1, 2, 0, 0, 0, 0, 9]].concat();
    assert!(put(&mut ethernet, icmp(local(3), ALL, 255, &[], &said)).is_empty());
    let machine = &mut ethernet.machines[0];
    let id = machine.open(Family::V6, Kind::Datagram);
    machine.write(id, &datagram(at(global(3), 7), 5));
    let sent = sent(machine);
    assert_eq!(sent.len(), 1);
    assert_eq!((&sent[0][..6], sent[0][20]), (&[2, 0, 0, 0, 0, 9][..], 17));
}

#[test]
fn a_question_that_cannot_be_sent_waits() {
    let mut ethernet = Ethernet::new();
    let machine = &mut ethernet.machines[0];
    machine.stack.set_room(0);
    machine.stack.enable_ipv6(&Plan::default());
    machine.pass(Duration::from_secs(9));
    // Some room is not enough: the question would be lost behind the report.
    assert!(!machine.stack.set_room(1));
    machine.pass(Duration::from_secs(9));
    assert!(!machine.stack.ipv6_is_settled() && addresses(machine).is_empty() && sent(machine).is_empty());
    assert!(machine.stack.set_room(64));
    machine.settle();
    let kinds: Vec<u8> = sent(machine).iter().map(|frame| frame[if frame[20] == 0 { 62 } else { 54 }]).collect();
    assert_eq!(kinds, [143, 135, 133]);
    machine.pass(Duration::from_secs(1));
    assert_eq!(addresses(machine), [local(1)]);
    // A router has had time enough.
    machine.pass(Duration::from_secs(1));
    assert!(machine.stack.ipv6_is_settled());
    machine.pass(Duration::from_secs(9));
    machine.pass(Duration::from_secs(9));
    let asked = sent(machine).iter().filter(|frame| frame[20] == 58 && frame[54] == 133).count();
    assert_eq!((asked, machine.settle()), (2, None));
}

/// Reports of groups: of a frame, the kinds of its records and the groups.
pub fn reports(frames: &[Vec<u8>]) -> Vec<(u8, Ipv6Addr)> {
    let records = |frame: &Vec<u8>| {
        let is_report = frame[20] == 0 && frame[21] == 1 && frame[54..62] == [58, 0, 5, 2, 0, 0, 1, 0];
        let body: &[u8] = if is_report && frame[62] == 143 { &frame[70..] } else { &[] };
        let all = body.chunks_exact(20).map(|one| (one[0], Ipv6Addr::from(*one[4..].first_chunk::<16>().unwrap())));
        all.collect::<Vec<_>>()
    };
    frames.iter().flat_map(records).collect()
}

#[test]
fn routers_learn_about_groups() {
    let mut ethernet = ethernet();
    let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 1);
    // Each machine has said it twice.
    let joined = reports(&ethernet.frames).iter().filter(|one| **one == (4, group)).count();
    assert_eq!(joined, 2);
    let query = |group: Ipv6Addr| [&[130, 0, 0, 0, 3, 0xe8, 0, 0][..], &group.octets(), &[2, 125, 0, 0]].concat();
    let alert = [58, 0, 5, 2, 0, 0, 1, 0];
    let all = query(Ipv6Addr::UNSPECIFIED);
    for (frame, answers) in [
        (icmp(ROUTER, ALL, 1, &alert, &all), 1),
        (icmp(ROUTER, ALL, 1, &[58, 0, 1, 0, 5, 2, 0, 0], &query(group)), 1),
        (icmp(ROUTER, ALL, 1, &alert, &query(ALL)), 0),
        (icmp(ROUTER, ALL, 2, &alert, &all), 0),
        (icmp(ROUTER, ALL, 1, &[], &all), 0),
        (icmp(ROUTER, ALL, 1, &[58, 0, 1, 4, 0, 0, 0, 0], &all), 0),
        (icmp("2001:db8::9".parse().unwrap(), ALL, 1, &alert, &all), 0),
    ] {
        put(&mut ethernet, frame.clone());
        put(&mut ethernet, frame);
        ethernet.machines[0].pass(Duration::from_secs(1));
        let told = reports(&sent(&mut ethernet.machines[0]));
        assert_eq!(told, vec![(2, group); answers]);
    }
}

/// What neighbours may say: not those of other networks, and nothing about this machine.
#[test]
fn neighbors_that_are_none() {
    let mut ethernet = ethernet();
    let message = |ip: Ipv6Addr| [&[135, 0, 0, 0, 0, 0, 0, 0][..], &ip.octets(), &[1, 1, 2, 0, 0, 0, 0, 9]].concat();
    assert_eq!(put(&mut ethernet, icmp(ROUTER, local(1), 255, &[], &message(local(1)))).len(), 1);
    for (from, hops, target) in [
        (FAR, 255, local(1)),
        (ROUTER, 64, local(1)),
        (ROUTER, 255, local(3)),
        (local(1), 255, local(1)),
        (Ipv6Addr::LOCALHOST, 255, local(1)),
        (ALL, 255, local(1)),
    ] {
        let sent = put(&mut ethernet, icmp(from, local(1), hops, &[], &message(target)));
        assert!(sent.is_empty(), "{from} {hops} {target}");
    }
    // A wrong checksum.
    let mut frame = icmp(ROUTER, local(1), 255, &[], &message(local(1)));
    frame[56] ^= 1;
    assert!(put(&mut ethernet, frame).is_empty());
}

/// A connection request from a machine that is not there.
fn syn(from: SocketAddr, to: SocketAddr, seq: i32) -> Segment {
    Segment {
        macs: [EthernetAddress([2, 0, 0, 0, 0, 9]), EthernetAddress([2, 0, 0, 0, 0, 1])],
        from,
        to,
        seq,
        ack: None,
        control: TcpControl::Syn,
        window: 1000,
        options: Options::default(),
        len: 0,
    }
}

#[test]
fn a_flood_of_requests() {
    let mut ethernet = routed();
    let listener = ethernet.machines[0].open(Family::V6, Kind::Stream);
    ethernet.machines[0].ask(listener, Request::Bind(at(Ipv6Addr::UNSPECIFIED, PORT))).unwrap();
    ethernet.machines[0].ask(listener, Request::Listen(8)).unwrap();
    let to = SocketAddr::new(global(1).into(), PORT);
    let far = |number: u32| SocketAddr::new(Ipv6Addr::from_bits(FAR.to_bits() + u128::from(number)).into(), 1000);
    let answers = ethernet.put(syn(far(0), to, 5).write());
    assert_eq!((answers[0].ack, answers[0].options.max_segment), (Some(6), Some(1440)));
    let near = SocketAddr::new(global(7).into(), 1000);
    assert_eq!(ethernet.put(syn(near, to, 5).write())[0].options.max_segment, Some(1440));
    for number in 1..50_000 {
        ethernet.put(syn(far(number), to, number as i32).write());
        assert!(ethernet.machines[0].stack.card.as_ref().unwrap().half_open.len() <= MOST);
    }
    assert_eq!(ethernet.machines[0].stack.len(), 1);
    // A real one still connects.
    let answers = ethernet.put(syn(far(0), to, 5).write());
    let ack = Segment { seq: 6, ack: Some(answers[0].seq + 1), control: TcpControl::None, ..syn(far(0), to, 5) };
    ethernet.put(ack.write());
    assert!(ethernet.machines[0].stack.accept(listener).is_ok());
    // Addresses that cannot be another machine's.
    for from in ["::1", "::", "ff02::1", "::ffff:192.0.2.9", "fe80:1::1", &global(1).to_string()] {
        let from = SocketAddr::new(from.parse().unwrap(), 1000);
        assert!(ethernet.put(syn(from, to, 5).write()).is_empty(), "{from}");
    }
    for other in ["::1", "ff02::1", "2001:db8:0:1::77", "::ffff:192.0.2.1"] {
        let other = SocketAddr::new(other.parse().unwrap(), PORT);
        assert!(ethernet.put(syn(near, other, 5).write()).is_empty(), "{other}");
    }
}

#[test]
fn addresses_as_configured() {
    let plan = |arguments: &[&str]| {
        let mut plan = Plan::default();
        let taken = arguments.iter().map(|argument| plan.take(argument)).collect::<Result<Vec<bool>, String>>();
        taken.map(|taken| (plan, taken))
    };
    let own: Ipv6Addr = "2001:db8::5".parse().unwrap();
    let (good, taken) = plan(&[
        "address=2001:db8::5/64",
        "gateway=fe80::9",
        "name-server=2001:db8::3",
        "address=192.0.2.1/24",
        "gateway=192.0.2.2",
        "dhcp",
    ])
    .unwrap();
    assert_eq!(taken, [true, true, true, false, false, false]);
    for wrong in [
        "ipv6=on",
        "address=2001:db8::5",
        "address=::1/64",
        "address=ff02::1/64",
        "address=2001:db8::5/129",
        "gateway=::",
        "name-server=::ffff:192.0.2.3",
        "gateway=2001:db8::z",
    ] {
        assert!(plan(&[wrong]).is_err(), "{wrong}");
    }
    assert!(plan(&["address=2001:db8::5/64"; 6]).is_err());
    let mut ethernet = Ethernet::new();
    let machine = &mut ethernet.machines[0];
    machine.stack.enable_ipv6(&good);
    machine.settle();
    machine.pass(Duration::from_secs(1));
    assert_eq!(addresses(machine), [local(1), own]);
    assert!(machine.stack.ipv6_is_settled() && machine.stack.has_far_v6());
    // Nobody asks routers, and none is heard.
    assert!(sent(machine).iter().all(|frame| frame[20] == 0 || frame[54] != 133));
    let told = router(0, &[&prefix(PREFIX, BOTH, 9000, 9000)]);
    put(&mut ethernet, icmp(ROUTER, ALL, 255, &[], &told));
    ethernet.machines[0].pass(Duration::from_secs(2));
    assert_eq!(addresses(&ethernet.machines[0]), [local(1), own]);
    // Without IPv6 there is none.
    let mut ethernet = Ethernet::new();
    let off = plan(&["ipv6=off"]).unwrap().0;
    ethernet.machines[0].stack.enable_ipv6(&off);
    ethernet.machines[0].pass(Duration::from_secs(2));
    assert!(addresses(&ethernet.machines[0]).is_empty() && sent(&mut ethernet.machines[0]).is_empty());
}

/// An answer of a name server with one record.
fn answer(query: &[u8], kind: u8, data: &[u8]) -> Vec<u8> {
    let mut bytes = query.to_vec();
    (bytes[2], bytes[3], bytes[7]) = (0x81, 0x80, 1);
    bytes.extend([0xc0, 12, 0, kind, 0, 1, 0, 0, 0, 9, 0, data.len() as u8]);
    [&bytes[..], data].concat()
}

/// A name has addresses of both families, those of IPv6 first where that leads farther than this network.
#[test]
fn names() {
    for (both, exists) in [(true, true), (false, true), (false, false)] {
        let mut ethernet = routed();
        let server = ethernet.machines[1].open(Family::V6, Kind::Datagram);
        ethernet.machines[1].ask(server, Request::Bind(at(Ipv6Addr::UNSPECIFIED, 53))).unwrap();
        ethernet.machines[0].stack.look_up(Name::new("host.example").unwrap()).unwrap();
        for _ in 0..3 {
            ethernet.pass(Duration::from_secs(1));
        }
        let all: Vec<Vec<u8>> = ethernet.machines[1].pipe(server).client().inbox.drain(..).collect();
        assert!(ethernet.machines[0].stack.looked_up().is_empty());
        let host: Ipv6Addr = "2001:db8::33".parse().unwrap();
        let mut kinds = Vec::new();
        for query in &all {
            let (from, query) = decode_header(query).unwrap();
            let kind = query[query.len() - 3];
            if kinds.contains(&kind) || !both && kind == 28 {
                continue;
            }
            kinds.push(kind);
            let data = if kind == 28 { host.octets().to_vec() } else { vec![192, 0, 2, 33] };
            let mut told = [&encode_header(from)[..], &answer(query, kind, &data)].concat();
            if !exists {
                told[HEADER + 3] |= 3;
            }
            ethernet.machines[1].write(server, &told);
        }
        ethernet.settle();
        let mut found = ethernet.machines[0].stack.looked_up();
        if !both {
            assert!(found.is_empty());
            for _ in 0..3 {
                ethernet.pass(Duration::from_secs(1));
                found.extend(ethernet.machines[0].stack.looked_up());
            }
        }
        if !exists {
            assert_eq!(found[0].1, Err(Error::NoName));
            continue;
        }
        let ips: Vec<String> = found[0].1.unwrap().as_slice().iter().map(ToString::to_string).collect();
        assert_eq!(ips, if both { vec!["2001:db8::33", "192.0.2.33"] } else { vec!["192.0.2.33"] });
    }
}

/// That a name has no addresses of one kind is not the last word: the answer for the other kind may take its time.
#[test]
fn an_empty_answer_is_not_the_last_word() {
    for answers in [true, false] {
        let mut ethernet = routed();
        let server = ethernet.machines[1].open(Family::V6, Kind::Datagram);
        ethernet.machines[1].ask(server, Request::Bind(at(Ipv6Addr::UNSPECIFIED, 53))).unwrap();
        ethernet.machines[0].stack.look_up(Name::new("host.example").unwrap()).unwrap();
        for _ in 0..3 {
            ethernet.pass(Duration::from_secs(1));
        }
        let all: Vec<Vec<u8>> = ethernet.machines[1].pipe(server).client().inbox.drain(..).collect();
        let of_kind = |wanted: u8| {
            all.iter().find_map(|query| {
                let (from, query) = decode_header(query).unwrap();
                (query[query.len() - 3] == wanted).then(|| (from, query.to_vec()))
            })
        };
        let (from, query) = of_kind(28).unwrap();
        let mut empty = answer(&query, 28, &[0; 16]);
        empty[6..8].fill(0);
        ethernet.machines[1].write(server, &[&encode_header(from)[..], &empty].concat());
        let mut found = Vec::new();
        for _ in 0..4 {
            ethernet.pass(Duration::from_secs(1));
            found.extend(ethernet.machines[0].stack.looked_up());
        }
        assert!(found.is_empty());
        if answers {
            let (from, query) = of_kind(1).unwrap();
            let told = answer(&query, 1, &[192, 0, 2, 33]);
            ethernet.machines[1].write(server, &[&encode_header(from)[..], &told].concat());
        }
        while found.is_empty() {
            ethernet.pass(Duration::from_secs(1));
            found.extend(ethernet.machines[0].stack.looked_up());
        }
        match answers {
            true => assert_eq!(found[0].1.unwrap().as_slice()[0].to_string(), "192.0.2.33"),
            false => assert_eq!(found[0].1, Err(Error::NoNameServer)),
        }
    }
}

/// What a router adds later counts, and a router that leaves takes nothing that is configured.
#[test]
fn advertisements_that_change_something() {
    let mut ethernet = ethernet();
    let told = |options: &[&[u8]], lifetime: u16| icmp(ROUTER, ALL, 255, &[], &router(lifetime, options));
    let networks = |ethernet: &Ethernet| {
        let card = ethernet.machines[0].stack.card.as_ref().unwrap();
        card.link.interface.ip_addrs().iter().map(|cidr| cidr.prefix_len()).collect::<Vec<_>>()
    };
    // Without the flag "on link", only the address itself is near.
    put(&mut ethernet, told(&[&prefix(PREFIX, 0x40, 9000, 9000)], 1800));
    ethernet.pass(Duration::from_secs(2));
    assert_eq!(networks(&ethernet), [24, 64, 128]);
    put(&mut ethernet, told(&[&prefix(PREFIX, BOTH, 9000, 9000)], 1800));
    assert_eq!(networks(&ethernet), [24, 64, 64]);

    let mut ethernet = Ethernet::new();
    let plan = Plan { gateway: Some(ROUTER), name_servers: vec![FAR], ..Plan::default() };
    ethernet.machines[0].stack.enable_ipv6(&plan);
    ethernet.pass(Duration::from_secs(2));
    put(&mut ethernet, told(&[&name_server(FAR, 0), &prefix(PREFIX, BOTH, 9000, 9000)], 0));
    ethernet.pass(Duration::from_secs(2));
    let state = ethernet.machines[0].stack.card_state_v6();
    assert_eq!((state.gateway, state.name_servers[0]), (Some(ROUTER), Some(FAR)));
    assert_eq!(addresses(&ethernet.machines[0]), [local(1), global(1)]);
}

/// Routers are still asked after one that leaves, or whose prefix gives no address.
#[test]
fn a_router_that_leaves_is_not_all() {
    let mut ethernet = Ethernet::new();
    ethernet.machines[0].stack.enable_ipv6(&Plan::default());
    put(&mut ethernet, icmp(ROUTER, ALL, 255, &[], &router(0, &[])));
    put(&mut ethernet, icmp(ROUTER, ALL, 255, &[], &router(0, &[&prefix(PREFIX, BOTH, 0, 0)])));
    assert!(!ethernet.machines[0].stack.ipv6_is_settled());
    ethernet.machines[0].pass(Duration::from_secs(4));
    let asks = |frame: &Vec<u8>| frame[20] == 58 && frame[54] == 133;
    assert!(sent(&mut ethernet.machines[0]).iter().any(asks));
}

/// Another host says that a datagram on the loopback did not arrive.
#[test]
fn errors_of_the_loopback_do_not_come_over_the_card() {
    let mut ethernet = routed();
    let loopback = Ipv6Addr::LOCALHOST;
    let client = ethernet.machines[0].open(Family::V6, Kind::Datagram);
    ethernet.machines[0].ask(client, Request::Bind(at(Ipv6Addr::UNSPECIFIED, 7))).unwrap();
    ethernet.machines[0].ask(client, Request::Connect { to: at(loopback, 7), wait: true }).unwrap();
    for (from, to, refused) in [(global(1), loopback, false), (loopback, loopback, false), (global(1), FAR, true)] {
        if refused {
            ethernet.machines[0].ask(client, Request::Connect { to: at(to, 7), wait: true }).unwrap();
        }
        let sent =
            [&[0x60, 0, 0, 0, 0, 8, 17, 64][..], &from.octets(), &to.octets(), &[0, 7, 0, 7, 0, 8, 0, 0]].concat();
        put(&mut ethernet, icmp(FAR, global(1), 60, &[], &[&[1, 4, 0, 0, 0, 0, 0, 0][..], &sent].concat()));
        let error = ethernet.machines[0].ask(client, Request::Get(Choice::Error));
        assert_eq!(error, Ok(Reply::Value(if refused { Error::Refused as u32 } else { 0 })), "{from} {to}");
    }
}

/// Frames of all kinds that IPv6 has, to change.
fn seeds() -> (Ethernet, Vec<Vec<u8>>) {
    let mut ethernet = routed();
    let (server, _client) = connection(&mut ethernet, global(1));
    ethernet.machines[0].write(server, &[1; 5000]);
    ethernet.settle();
    let mut frames = ethernet.frames.clone();
    let told = router(1800, &[&prefix(PREFIX, BOTH, 9000, 9000), &name_server(FAR, 900), &[5, 1, 0, 0, 0, 0, 5, 0xdc]]);
    let ask = [&[135, 0, 0, 0, 0, 0, 0, 0][..], &global(1).octets(), &[1, 1, 2, 0, 0, 0, 0, 9]].concat();
    let say = [&[136, 0, 0, 0, 0x60, 0, 0, 0][..], &local(3).octets(), &[2, 1, 2, 0, 0, 0, 0, 9]].concat();
    let query = [&[130, 0, 0, 0, 0x90, 0, 0, 0][..], &[0; 16], &[2, 125, 0, 0]].concat();
    let sent = [&[0x60, 0, 0, 0, 0, 8, 17, 64][..], &global(1).octets(), &FAR.octets(), &[0, 7, 0, 7, 0, 8, 0, 0]];
    let error = [&[1, 4, 0, 0, 0, 0, 0, 0][..], &sent.concat()].concat();
    frames.extend([
        icmp(ROUTER, ALL, 255, &[], &told),
        icmp(ROUTER, local(1), 255, &[], &ask),
        icmp(local(3), ALL, 255, &[], &say),
        icmp(ROUTER, ALL, 1, &[58, 0, 5, 2, 0, 0, 1, 0], &query),
        icmp(FAR, global(1), 60, &[], &error),
        icmp(FAR, global(1), 60, &[], &[128, 0, 0, 0, 0, 7, 0, 1, 5]),
        icmp(FAR, global(1), 60, &[], &[129, 0, 0, 0, 0, 7, 0, 1, 5]),
        // A fragment, and other headers.
        icmp(FAR, global(1), 60, &[58, 0, 0, 1, 0, 0, 0, 9], &[128, 0, 0, 0, 0, 7, 0, 1]),
    ]);
    (ethernet, frames)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Changed frames, whose sums are right again: nothing panics, and all comes to rest.
    #[test]
    fn any_frames(
        changes in prop::collection::vec(
            (any::<prop::sample::Index>(), prop::collection::vec((14_usize..140, any::<u8>()), 0..3), 0_usize..1600), 1..40,
        ),
    ) {
        let (mut ethernet, frames) = seeds();
        for (frame, bytes, len) in changes {
            let mut frame = frame.get(&frames).clone();
            for (at, byte) in bytes {
                if let Some(place) = frame.get_mut(at) {
                    *place = byte;
                }
            }
            frame.resize(if len < 200 { len } else { frame.len() }, 3);
            let at = if frame.get(20) == Some(&0) { 62 } else { 54 };
            if frame.len() > at + 4 && frame[12..14] == [0x86, 0xdd] {
                let ip = |at: usize| Ipv6Addr::from(*frame[at..].first_chunk::<16>().unwrap());
                let (from, to) = (ip(22), ip(38));
                Icmpv6Packet::new_unchecked(&mut frame[at..]).fill_checksum(&from, &to);
            }
            for machine in &mut ethernet.machines {
                machine.stack.wire().unwrap().put(frame.clone());
            }
            ethernet.settle();
        }
        for machine in &mut ethernet.machines {
            let ids: Vec<Id> = machine.stack.sockets.keys().copied().collect();
            ids.into_iter().for_each(|id| machine.stack.close(id));
        }
        for _ in 0..20 {
            ethernet.pass(Duration::from_secs(20));
        }
        for machine in &mut ethernet.machines {
            prop_assert!(machine.stack.is_empty() && machine.stack.flows.is_empty());
            prop_assert!(addresses(machine).len() <= 6);
        }
    }
}

/// The advertised prefix ends: connections with its address end with an error, those with the link-local one go on.
#[test]
fn connections_of_a_prefix_that_ends() {
    let mut ethernet = ethernet();
    for machine in &mut ethernet.machines {
        let told = router(9000, &[&prefix(PREFIX, BOTH, 9000, 9000)]);
        machine.stack.wire().unwrap().put(icmp(ROUTER, ALL, 255, &[], &told));
    }
    ethernet.settle();
    ethernet.pass(Duration::from_secs(2));
    let (ending, _) = connection(&mut ethernet, global(1));
    let (staying, peer) = connection(&mut ethernet, local(1));
    for _ in 0..90 {
        ethernet.pass(Duration::from_secs(100));
    }
    assert_eq!(addresses(&ethernet.machines[0]), [local(1)]);
    let error = ethernet.machines[0].ask(ending, Request::Get(Choice::Error));
    assert_eq!(error, Ok(Reply::Value(Error::Aborted as u32)));
    ethernet.transfer(staying, peer);
}

/// The last byte of the hardware address of the routers with a number, before it is added.
const ROUTERS: u8 = 0x90;

/// A router with this number.
fn other_router(number: u8) -> Ipv6Addr {
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0xbeef, number.into())
}

/// Machine 1, and as many routers, which have advertised themselves in this order.
fn with_routers(count: u8) -> Ethernet {
    let mut ethernet = ethernet();
    for number in 1..=count {
        says_router(&mut ethernet, number, 9000);
    }
    ethernet.pass(Duration::from_secs(2));
    ethernet.frames.clear();
    ethernet
}

fn says_router(ethernet: &mut Ethernet, number: u8, lifetime: u16) {
    let told = router(lifetime, &[&prefix(PREFIX, BOTH, 86_400, 14_400)]);
    put(ethernet, icmp(other_router(number), ALL, 255, &[], &told));
}

fn gateway(ethernet: &Ethernet) -> Option<u8> {
    let found = ethernet.machines[0].stack.card_state_v6().gateway?;
    (1..=9).find(|number| other_router(*number) == found)
}

/// Machine 1 sends a datagram to a machine of another network each second. These routers answer questions for their
/// hardware addresses. Returns the number of the router that got the last datagram, and how many were sent.
fn send_afar(ethernet: &mut Ethernet, seconds: u64, answers: &[u8]) -> (Option<u8>, usize) {
    let machine = &mut ethernet.machines[0];
    let id = machine.open(Family::V6, Kind::Datagram);
    let (mut last, mut count) = (None, 0);
    for _ in 0..seconds {
        machine.write(id, &datagram(at(FAR, 9), 5));
        machine.pass(Duration::from_secs(1));
        for _ in 0..3 {
            machine.stack.set_room(64);
            machine.settle();
            for frame in sent(machine) {
                if frame[20] == 17 {
                    count += 1;
                    last = Some(frame[5] - ROUTERS);
                } else if frame[54] == 135
                    && let Some(number) = answers.iter().find(|number| other_router(**number).octets() == frame[62..78])
                {
                    let router = other_router(*number);
                    let mac = [2, 0, 0, 0, 0, ROUTERS + number];
                    let said = [&[136, 0, 0, 0, 0xe0, 0, 0, 0][..], &router.octets(), &[2, 1], &mac].concat();
                    machine.stack.wire().unwrap().put(icmp(router, local(1), 255, &[], &said));
                }
            }
        }
    }
    machine.stack.close(id);
    machine.settle();
    (last, count)
}

/// Of several routers the first one is used that answers.
#[test]
fn a_router_that_is_gone_is_passed_over() {
    let mut ethernet = with_routers(2);
    assert_eq!(send_afar(&mut ethernet, 5, &[1, 2]).0, Some(1));
    // The first one is gone. What it was asked last counts for a minute.
    let (last, _) = send_afar(&mut ethernet, 70, &[2]);
    assert_eq!((last, gateway(&ethernet)), (Some(2), Some(2)));
    // A connection attempt goes there, too.
    let id = ethernet.machines[0].open(Family::V6, Kind::Stream);
    let _ = ethernet.machines[0].ask(id, Request::Connect { to: at(FAR, 9), wait: false });
    let frames = sent(&mut ethernet.machines[0]);
    assert!(frames.iter().any(|frame| frame[20] == 6 && frame[5] == ROUTERS + 2));
    // It comes back, and is the first one again.
    says_router(&mut ethernet, 1, 9000);
    assert_eq!((send_afar(&mut ethernet, 5, &[1, 2]).0, gateway(&ethernet)), (Some(1), Some(1)));
    // It says that it is none any more.
    says_router(&mut ethernet, 1, 0);
    assert_eq!((send_afar(&mut ethernet, 5, &[1, 2]).0, gateway(&ethernet)), (Some(2), Some(2)));
    says_router(&mut ethernet, 2, 0);
    assert_eq!(gateway(&ethernet), None);
}

/// While no router answers, each is asked in turn, and whichever answers is used.
#[test]
fn all_routers_are_gone() {
    let mut ethernet = with_routers(3);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..30 {
        assert_eq!(send_afar(&mut ethernet, 1, &[]), (None, 0));
        seen.insert(gateway(&ethernet));
    }
    assert_eq!(seen.len(), 3);
    let (last, count) = send_afar(&mut ethernet, 20, &[2]);
    assert_eq!(last, Some(2));
    assert!(count > 5, "{count}");
    // Nothing is asked while nothing is sent.
    ethernet.machines[0].pass(Duration::from_secs(300));
    assert!(!sent(&mut ethernet.machines[0]).iter().any(|frame| frame[20] == 58 && frame[54] == 135));
}

/// A neighbour that is silent is no router that is.
#[test]
fn a_silent_neighbour_is_no_silent_router() {
    let mut ethernet = with_routers(2);
    let machine = &mut ethernet.machines[0];
    let id = machine.open(Family::V6, Kind::Datagram);
    for _ in 0..10 {
        machine.write(id, &datagram(at(global(77), 9), 5));
        machine.pass(Duration::from_secs(1));
        machine.stack.set_room(64);
    }
    assert_eq!(gateway(&ethernet), Some(1));
}

/// Routers that do not exist are advertised first. The one that exists takes the place of one that did not answer.
#[test]
fn routers_that_do_not_exist() {
    let mut ethernet = with_routers(4);
    says_router(&mut ethernet, 9, 9000);
    assert_eq!(gateway(&ethernet), Some(1));
    send_afar(&mut ethernet, 5, &[9]);
    says_router(&mut ethernet, 9, 9000);
    let (last, _) = send_afar(&mut ethernet, 20, &[9]);
    assert_eq!((last, gateway(&ethernet)), (Some(9), Some(9)));
}
