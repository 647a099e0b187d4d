//! Multicast groups: who receives, what routers are told, and limits.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use network_protocol::{Choice, Error, Family, Kind, Reply, Request, decode_header, encode_header};
use proptest::prelude::*;
use service::Program;
use smoltcp::time::Duration;
use smoltcp::wire::{EthernetAddress, IgmpPacket, Ipv4Cidr, Ipv4Packet};

use super::card::{Ethernet, ip};
use super::machine::Machine;
use crate::groups::{GROUPS_OF_SOCKET, MEMBERS, MEMBERS_OF_PROGRAM, MEMBERSHIPS_OF_PROGRAM, REPORT, message};
use crate::ports::Id;
use crate::stack::STEPS;

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);
const OTHER: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 4);
const PORT: u16 = 7000;

fn group(machine: &mut Machine, id: Id, join: bool, group: Ipv4Addr, interface: Ipv4Addr) -> Result<Reply, Error> {
    machine.ask(id, Request::Group { join, group, interface })
}

/// A socket at [`PORT`], which others may share, in these groups.
fn member(machine: &mut Machine, at: Ipv4Addr, groups: &[Ipv4Addr], interface: Ipv4Addr) -> Id {
    let id = machine.open(Family::V4, Kind::Datagram);
    machine.ask(id, Request::Set(Choice::ReuseAddress, 1)).unwrap();
    machine.ask(id, Request::Bind(SocketAddrV4::new(at, PORT).into())).unwrap();
    groups.iter().for_each(|one| assert_eq!(group(machine, id, true, *one, interface), Ok(Reply::Done)));
    id
}

fn send(machine: &mut Machine, id: Id, to: Ipv4Addr, bytes: &[u8]) {
    let to: SocketAddr = SocketAddrV4::new(to, PORT).into();
    machine.ask(id, Request::Prepare(to)).unwrap();
    machine.write(id, &[&encode_header(Some(to))[..], bytes].concat());
}

/// The datagrams that a client can read, with their senders.
fn received(machine: &mut Machine, id: Id) -> Vec<(SocketAddr, Vec<u8>)> {
    let all: Vec<Vec<u8>> = machine.pipe(id).client().inbox.drain(..).collect();
    let open = |one: &Vec<u8>| {
        let (from, bytes) = decode_header(one).unwrap();
        (from.unwrap(), bytes.to_vec())
    };
    all.iter().map(open).collect()
}

#[test]
fn members_on_the_loopback() {
    let mut machine = Machine::new(true);
    let any = Ipv4Addr::UNSPECIFIED;
    let both = member(&mut machine, any, &[GROUP, OTHER], Ipv4Addr::LOCALHOST);
    let one = member(&mut machine, any, &[GROUP], Ipv4Addr::LOCALHOST);
    let bound = member(&mut machine, OTHER, &[GROUP, OTHER], Ipv4Addr::LOCALHOST);
    let none = member(&mut machine, any, &[], Ipv4Addr::LOCALHOST);
    let sender = machine.open(Family::V4, Kind::Datagram);
    machine.ask(sender, Request::Bind("127.0.0.1:0".parse().unwrap())).unwrap();
    let from = machine.address(sender);
    send(&mut machine, sender, GROUP, b"one");
    send(&mut machine, sender, OTHER, b"other");
    let (first, second) = ((from, b"one".to_vec()), (from, b"other".to_vec()));
    assert_eq!(received(&mut machine, both), [first.clone(), second.clone()]);
    assert_eq!(received(&mut machine, one), [first]);
    assert_eq!(received(&mut machine, bound), [second]);
    assert!(received(&mut machine, none).is_empty());
    assert_eq!(group(&mut machine, one, false, GROUP, Ipv4Addr::LOCALHOST), Ok(Reply::Done));
    assert_eq!(group(&mut machine, one, false, GROUP, Ipv4Addr::LOCALHOST), Err(Error::AddressNotAvailable));
    assert_eq!(group(&mut machine, both, true, GROUP, Ipv4Addr::LOCALHOST), Err(Error::AddressInUse));
    send(&mut machine, sender, GROUP, b"again");
    assert!(received(&mut machine, one).is_empty());
    // Without a card there is no other interface.
    assert_eq!(group(&mut machine, one, true, GROUP, any), Err(Error::AddressNotAvailable));
    let other = machine.open(Family::V4, Kind::Datagram);
    let to = SocketAddrV4::new(GROUP, PORT).into();
    assert_eq!(machine.ask(other, Request::Prepare(to)), Err(Error::Unreachable));
    let loopback = Request::Set(Choice::MulticastInterface, Ipv4Addr::LOCALHOST.to_bits());
    machine.ask(other, loopback).unwrap();
    assert_eq!(machine.ask(other, Request::Prepare(to)), Ok(Reply::Done));
    let chosen = machine.ask(other, Request::Get(Choice::MulticastInterface));
    assert_eq!(chosen, Ok(Reply::Value(Ipv4Addr::LOCALHOST.to_bits())));
}

#[test]
fn other_sockets_and_addresses() {
    let mut ethernet = Ethernet::new();
    let machine = &mut ethernet.machines[0];
    let any = Ipv4Addr::UNSPECIFIED;
    let id = machine.open(Family::V4, Kind::Datagram);
    assert_eq!(group(machine, id, true, ip(2), any), Err(Error::Invalid));
    assert_eq!(group(machine, id, true, GROUP, ip(2)), Err(Error::AddressNotAvailable));
    for (family, kind) in [(Family::V4, Kind::Stream), (Family::V4, Kind::Echo), (Family::V6, Kind::Datagram)] {
        let id = machine.open(family, kind);
        assert_eq!(group(machine, id, true, GROUP, any), Err(Error::NoOption));
    }
    let stream = machine.open(Family::V4, Kind::Stream);
    let to: SocketAddr = SocketAddrV4::new(GROUP, PORT).into();
    assert_eq!(machine.ask(stream, Request::Connect { to, wait: true }), Err(Error::Unreachable));
    assert_eq!(machine.ask(stream, Request::Bind(to)), Err(Error::AddressNotAvailable));
    let echo = machine.open(Family::V4, Kind::Echo);
    assert_eq!(machine.ask(echo, Request::Prepare(to)), Err(Error::Unreachable));
}

#[test]
fn limits() {
    let mut machine = Machine::new(true);
    let of = |number: u32| Ipv4Addr::from_bits(GROUP.to_bits() + number);
    let lo = Ipv4Addr::LOCALHOST;
    let first = machine.open(Family::V4, Kind::Datagram);
    for number in 0..GROUPS_OF_SOCKET as u32 {
        group(&mut machine, first, true, of(number), lo).unwrap();
    }
    assert_eq!(group(&mut machine, first, true, of(99), lo), Err(Error::TooMany));
    // One program cannot take all places of a group.
    let join = |machine: &mut Machine, program: u64| {
        let id = machine.stack.open(Program(program), Family::V4, Kind::Datagram, ()).unwrap();
        (id, group(machine, id, true, GROUP, lo))
    };
    for number in 1..MEMBERS {
        let program = 1 + (number / MEMBERS_OF_PROGRAM) as u64;
        assert_eq!(join(&mut machine, program).1, Ok(Reply::Done));
        if (number + 1) % MEMBERS_OF_PROGRAM == 0 {
            assert_eq!(join(&mut machine, program).1, Err(Error::TooMany));
        }
    }
    let (one_more, joined) = join(&mut machine, 99);
    assert_eq!(joined, Err(Error::TooMany));
    let mut count = GROUPS_OF_SOCKET as u64 + MEMBERS_OF_PROGRAM as u64 - 1;
    'all: loop {
        let id = machine.open(Family::V4, Kind::Datagram);
        for number in 0..GROUPS_OF_SOCKET as u32 {
            // Groups of its own, so that no group has too many members.
            match group(&mut machine, id, true, of(1000 + count as u32 * 32 + number), lo) {
                Ok(_) => count += 1,
                Err(error) => break 'all assert_eq!(error, Error::TooMany),
            }
        }
    }
    assert_eq!(count, MEMBERSHIPS_OF_PROGRAM);
    // A socket that closes leaves its groups.
    machine.stack.close(first);
    machine.settle();
    assert_eq!(group(&mut machine, one_more, true, GROUP, lo), Ok(Reply::Done));
}

/// The messages of IGMP among frames: type, group, receiver.
fn igmp(frames: &[Vec<u8>]) -> Vec<(u8, Ipv4Addr, Ipv4Addr)> {
    let parse = |frame: &Vec<u8>| {
        let packet = Ipv4Packet::new_checked(&frame[14..]).ok()?;
        if frame[12..14] != [8, 0] || frame[14 + 9] != 2 {
            return None;
        }
        assert!(packet.verify_checksum() && packet.hop_limit() == 1);
        let message = IgmpPacket::new_checked(packet.payload()).unwrap();
        assert!(message.verify_checksum());
        let to = packet.dst_addr();
        assert_eq!(frame[..3], [1, 0, 0x5e]);
        assert_eq!(frame[4..6], to.octets()[2..]);
        Some((packet.payload()[0], message.group_addr(), to))
    };
    frames.iter().filter_map(parse).collect()
}

#[test]
fn members_over_the_card() {
    let mut ethernet = Ethernet::new();
    let any = Ipv4Addr::UNSPECIFIED;
    let there = member(&mut ethernet.machines[0], any, &[GROUP], any);
    let here = member(&mut ethernet.machines[1], any, &[GROUP], ip(2));
    let sender = ethernet.machines[1].open(Family::V4, Kind::Datagram);
    ethernet.machines[1].ask(sender, Request::Bind(SocketAddrV4::new(any, 5000).into())).unwrap();
    send(&mut ethernet.machines[1], sender, GROUP, b"hello");
    ethernet.settle();
    let wanted = [(SocketAddr::from((ip(2), 5000)), b"hello".to_vec())];
    assert_eq!(received(&mut ethernet.machines[0], there), wanted);
    assert_eq!(received(&mut ethernet.machines[1], here), wanted);
    let frame = ethernet.frames.iter().find(|frame| frame.ends_with(b"hello")).unwrap().clone();
    assert_eq!((&frame[..6], frame[22]), (&[1, 0, 0x5e, 1, 2, 3][..], 1));
    // Without a loop only the other machine hears it, and without hops only this one.
    for (choice, [there_hears, here_hears]) in [(Choice::MulticastLoop, [1, 0]), (Choice::MulticastTtl, [0, 1])] {
        ethernet.machines[1].ask(sender, Request::Set(choice, 0)).unwrap();
        send(&mut ethernet.machines[1], sender, GROUP, b"more");
        ethernet.settle();
        assert_eq!(received(&mut ethernet.machines[0], there).len(), there_hears);
        assert_eq!(received(&mut ethernet.machines[1], here).len(), here_hears);
        ethernet.machines[1].ask(sender, Request::Set(choice, 1)).unwrap();
    }
    // Another group, and one whose members are on the loopback.
    let looped = member(&mut ethernet.machines[0], any, &[OTHER], Ipv4Addr::LOCALHOST);
    let ignored = |ethernet: &Ethernet| ethernet.machines[0].stack.card_state().unwrap().ignored;
    let before = ignored(&ethernet);
    send(&mut ethernet.machines[1], sender, OTHER, b"other");
    ethernet.settle();
    assert!(
        received(&mut ethernet.machines[0], looped).is_empty() && received(&mut ethernet.machines[0], there).is_empty()
    );
    assert_eq!(ignored(&ethernet), before + 1);
    // No sender can be a group, or this machine.
    for from in [GROUP, ip(1), Ipv4Addr::LOCALHOST] {
        let mut forged = frame.clone();
        forged[26..30].copy_from_slice(&from.octets());
        ethernet.put(forged);
        assert!(received(&mut ethernet.machines[0], there).is_empty());
    }
}

/// A frame with an IP header of 24 bytes and a message of IGMP, with a change, and right sums.
fn changed(frame: &[u8], change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut frame = frame.to_vec();
    change(&mut frame);
    Ipv4Packet::new_unchecked(&mut frame[14..]).fill_checksum();
    IgmpPacket::new_unchecked(&mut frame[38..]).fill_checksum();
    frame
}

#[test]
fn routers_are_told() {
    let mut ethernet = Ethernet::new();
    let any = Ipv4Addr::UNSPECIFIED;
    let report = (0x16, GROUP, GROUP);
    let first = member(&mut ethernet.machines[0], any, &[GROUP, Ipv4Addr::new(224, 0, 0, 1)], any);
    let second = member(&mut ethernet.machines[0], any, &[GROUP], any);
    ethernet.settle();
    assert_eq!(igmp(&ethernet.frames), [report]);
    ethernet.pass(Duration::from_secs(2));
    ethernet.pass(Duration::from_secs(100));
    assert_eq!(igmp(&ethernet.frames), [report, report]);
    // A general query, one for this group, and one for another; a wrong sum; and a flood.
    let like = ethernet.frames.iter().find(|frame| frame[23] == 2 && frame[12..14] == [8, 0]).unwrap().clone();
    let query = |group: Ipv4Addr, right: bool| {
        let mut frame = like.clone();
        frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
        frame[38] = 0x11;
        frame[39] = 10;
        frame[42..46].copy_from_slice(&group.octets());
        let mut message = IgmpPacket::new_unchecked(&mut frame[38..]);
        message.fill_checksum();
        frame[40] ^= u8::from(!right);
        frame
    };
    let queries = [(query(any, true), 1), (query(GROUP, true), 1), (query(OTHER, true), 0), (query(any, false), 0)];
    for (query, answers) in queries {
        ethernet.frames.clear();
        for _ in 0..100 {
            ethernet.machines[0].stack.wire().unwrap().put(query.clone());
        }
        ethernet.settle();
        ethernet.pass(Duration::from_secs(2));
        assert_eq!(igmp(&ethernet.frames), vec![report; answers]);
    }
    // Further queries with the same time do not hasten a report: it comes within the first of ten seconds by chance.
    let slow = changed(&query(any, true), |frame| frame[39] = 100);
    let mut early = 0;
    for _ in 0..10 {
        ethernet.frames.clear();
        for _ in 0..100 {
            ethernet.put(slow.clone());
        }
        ethernet.pass(Duration::from_secs(1));
        early += igmp(&ethernet.frames).len();
        ethernet.pass(Duration::from_secs(10));
        assert_eq!(igmp(&ethernet.frames), [report]);
    }
    assert!(early < 5, "{early}");
    // One with less time does.
    ethernet.frames.clear();
    ethernet.put(slow);
    ethernet.put(query(any, true));
    ethernet.pass(Duration::from_secs(1));
    assert_eq!(igmp(&ethernet.frames), [report]);
    // Queries that no router of this network sends: to this machine alone, and from afar.
    ethernet.frames.clear();
    let to_one = changed(&query(any, true), |frame| frame[30..34].copy_from_slice(&ip(1).octets()));
    let from_afar = changed(&query(any, true), |frame| frame[22] = 2);
    for frame in [to_one, from_afar] {
        ethernet.put(frame);
        ethernet.pass(Duration::from_secs(20));
        assert_eq!(igmp(&ethernet.frames), []);
    }
    ethernet.frames.clear();
    ethernet.machines[0].stack.close(first);
    ethernet.settle();
    assert!(igmp(&ethernet.frames).is_empty());
    ethernet.machines[0].stack.close(second);
    ethernet.settle();
    assert_eq!(igmp(&ethernet.frames), [(0x17, GROUP, Ipv4Addr::new(224, 0, 0, 2))]);
    assert_eq!(ethernet.machines[0].settle(), None);
}

/// The hop limits of the frames with this protocol that machine 1 has sent.
fn hop_limits(ethernet: &Ethernet, protocol: u8) -> Vec<u8> {
    let is = |frame: &&Vec<u8>| frame[11] == 1 && frame[12..14] == [8, 0] && frame[23] == protocol;
    ethernet.frames.iter().filter(is).map(|frame| frame[22]).collect()
}

/// A datagram that waits for a neighbour leaves with its own hop limit, not with that of a later one.
#[test]
fn each_datagram_has_its_own_hop_limit() {
    let mut ethernet = Ethernet::new();
    let machine = &mut ethernet.machines[0];
    let id = machine.open(Family::V4, Kind::Datagram);
    machine.ask(id, Request::Bind(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, PORT).into())).unwrap();
    for to in [ip(2), GROUP, ip(2)] {
        let datagram = encode_header(Some(SocketAddrV4::new(to, PORT).into())).to_vec();
        machine.pipe(id).service().inbox.push_back(datagram);
    }
    ethernet.settle();
    assert_eq!(hop_limits(&ethernet, 17), [64, 1, 64]);
    // The same with echo requests.
    let mut ethernet = Ethernet::new();
    let machine = &mut ethernet.machines[0];
    let id = machine.open(Family::V4, Kind::Echo);
    for ttl in [10, 20] {
        machine.ask(id, Request::Set(Choice::Ttl, ttl)).unwrap();
        let to = encode_header(Some(SocketAddrV4::new(ip(2), 0).into()));
        machine.write(id, &[&to[..], &[8, 0, 0, 0, 0, 0, 0, 0]].concat());
    }
    ethernet.settle();
    assert_eq!(hop_limits(&ethernet, 1), [10, 20]);
}

/// With a new address, routers are told again, from that one.
#[test]
fn a_new_address_reports_the_groups() {
    let mut ethernet = Ethernet::new();
    let any = Ipv4Addr::UNSPECIFIED;
    member(&mut ethernet.machines[0], any, &[GROUP, Ipv4Addr::new(224, 0, 0, 1)], any);
    ethernet.pass(Duration::from_secs(2));
    let network = |number: u8| Some(Ipv4Cidr::new(ip(number), 24));
    // The same address says nothing, and none cannot.
    for (number, reports) in [(network(1), 0), (network(7), 1), (None, 0), (network(8), 1)] {
        ethernet.frames.clear();
        ethernet.machines[0].stack.set_address(number, None);
        ethernet.pass(Duration::from_secs(2));
        assert_eq!(igmp(&ethernet.frames), vec![(REPORT, GROUP, GROUP); reports]);
        for frame in &ethernet.frames {
            assert_eq!(frame[26..30], number.unwrap().address().octets());
        }
    }
}

/// A datagram to a group counts as often as it is written.
#[test]
fn a_group_that_is_left_is_not_due() {
    let mut ethernet = Ethernet::new();
    let any = Ipv4Addr::UNSPECIFIED;
    let id = member(&mut ethernet.machines[0], any, &[GROUP, OTHER], any);
    ethernet.settle();
    let machine = &mut ethernet.machines[0];
    for (at, left) in [GROUP, OTHER].into_iter().enumerate() {
        assert!(machine.stack.groups.deadline().is_some(), "{at} left");
        group(machine, id, false, left, any).unwrap();
    }
    assert_eq!(machine.stack.groups.deadline(), None);
}

#[test]
fn many_members_make_short_turns() {
    let mut machine = Machine::new(true);
    let any: SocketAddr = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, PORT).into();
    for number in 0..MEMBERS {
        let program = Program(1 + (number / MEMBERS_OF_PROGRAM) as u64);
        let id = machine.stack.open(program, Family::V4, Kind::Datagram, ()).unwrap();
        machine.ask(id, Request::Set(Choice::ReuseAddress, 1)).unwrap();
        machine.ask(id, Request::Bind(any)).unwrap();
        group(&mut machine, id, true, GROUP, Ipv4Addr::LOCALHOST).unwrap();
    }
    let sender = machine.open(Family::V4, Kind::Datagram);
    let loopback = Request::Set(Choice::MulticastInterface, Ipv4Addr::LOCALHOST.to_bits());
    machine.ask(sender, loopback).unwrap();
    let to = encode_header(Some(SocketAddrV4::new(GROUP, PORT).into())).to_vec();
    machine.pipe(sender).service().inbox.extend(std::iter::repeat_n(to, 10 * STEPS));
    machine.packets();
    assert!(machine.poll());
    assert_eq!(machine.pipe(sender).service().inbox.len(), 9 * STEPS);
    machine.settle();
    assert!(machine.pipe(sender).service().inbox.is_empty());
}

/// Whether a report's sums are right.
fn has_right_sums(from: Ipv4Addr, group: Ipv4Addr) -> bool {
    let frame = message(EthernetAddress([2; 6]), from, REPORT, group, group);
    let packet = Ipv4Packet::new_checked(&frame[14..]).unwrap();
    packet.verify_checksum() && IgmpPacket::new_checked(packet.payload()).unwrap().verify_checksum()
}

/// Groups for which the sum carries twice: of the message, and of the header.
#[test]
fn sums_that_carry_twice() {
    let from = Ipv4Addr::new(10, 0, 2, 15);
    assert!(has_right_sums(from, Ipv4Addr::new(239, 255, 250, 0)));
    assert!(has_right_sums(from, Ipv4Addr::new(239, 255, 232, 11)));
}

proptest! {
    #[test]
    fn sums_of_all_groups(from in any::<u32>(), group in 0xe000_0000..0xf000_0000u32) {
        prop_assert!(has_right_sums(Ipv4Addr::from_bits(from), Ipv4Addr::from_bits(group)));
    }
}
