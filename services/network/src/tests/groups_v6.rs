//! Multicast groups over IPv6: who receives, what routers are told, and limits.

use std::collections::BTreeMap;
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};

use network_protocol::{
    CARD, Choice, Error, Family, HEADER, Kind, LOOPBACK, Reply, Request, decode_header, encode_header,
};
use smoltcp::time::Duration;

use super::ipv6::{ALL, ROUTER, global, icmp, local, reports, routed, sent};
use super::machine::Machine;
use crate::groups::GROUPS_OF_SOCKET;
use crate::ports::Id;

/// Groups of the network, and of a site.
const NEAR: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 0x4d);
const FAR: Ipv6Addr = Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 1, 0x4d);
const PORT: u16 = 7000;

fn group(machine: &mut Machine, id: Id, join: bool, group: Ipv6Addr, interface: u32) -> Result<Reply, Error> {
    machine.ask(id, Request::GroupV6 { join, group, interface })
}

fn at(ip: Ipv6Addr, scope: u32) -> SocketAddr {
    SocketAddrV6::new(ip, PORT, 0, scope).into()
}

/// A socket at [`PORT`], which others may share, in these groups.
fn member(machine: &mut Machine, bound: Ipv6Addr, groups: &[Ipv6Addr], interface: u32) -> Id {
    let id = machine.open(Family::V6, Kind::Datagram);
    machine.ask(id, Request::Set(Choice::ReuseAddress, 1)).unwrap();
    machine.ask(id, Request::Bind(at(bound, 0))).unwrap();
    groups.iter().for_each(|one| assert_eq!(group(machine, id, true, *one, interface), Ok(Reply::Done)));
    id
}

fn send(machine: &mut Machine, id: Id, to: SocketAddr, bytes: &[u8]) {
    machine.ask(id, Request::Prepare(to)).unwrap();
    machine.write(id, &[&encode_header(Some(to))[..], bytes].concat());
}

/// The datagrams that a client can read, with their senders' addresses.
fn received(machine: &mut Machine, id: Id) -> Vec<(Ipv6Addr, Vec<u8>)> {
    let all: Vec<Vec<u8>> = machine.pipe(id).client().inbox.drain(..).collect();
    let open = |one: &Vec<u8>| match decode_header(one).unwrap() {
        (Some(SocketAddr::V6(from)), bytes) => (*from.ip(), bytes.to_vec()),
        other => panic!("{other:?}"),
    };
    all.iter().map(open).collect()
}

#[test]
fn members_on_the_loopback() {
    let mut machine = Machine::new(true);
    let any = Ipv6Addr::UNSPECIFIED;
    let both = member(&mut machine, any, &[NEAR, FAR], LOOPBACK);
    let one = member(&mut machine, any, &[NEAR], LOOPBACK);
    let bound = member(&mut machine, FAR, &[NEAR, FAR], LOOPBACK);
    let none = member(&mut machine, any, &[], LOOPBACK);
    let sender = machine.open(Family::V6, Kind::Datagram);
    // The address names the interface, or the option does, or the sender's own address.
    send(&mut machine, sender, at(NEAR, LOOPBACK), b"near");
    machine.ask(sender, Request::Set(Choice::MulticastInterfaceV6, LOOPBACK)).unwrap();
    assert_eq!(machine.ask(sender, Request::Get(Choice::MulticastInterfaceV6)), Ok(Reply::Value(LOOPBACK)));
    send(&mut machine, sender, at(FAR, 0), b"far");
    let (first, second) = ((Ipv6Addr::LOCALHOST, b"near".to_vec()), (Ipv6Addr::LOCALHOST, b"far".to_vec()));
    assert_eq!(received(&mut machine, both), [first.clone(), second.clone()]);
    assert_eq!(received(&mut machine, one), std::slice::from_ref(&first));
    assert_eq!(received(&mut machine, bound), [second]);
    assert!(received(&mut machine, none).is_empty());
    let own = machine.open(Family::V6, Kind::Datagram);
    machine.ask(own, Request::Bind(SocketAddr::new(Ipv6Addr::LOCALHOST.into(), 0))).unwrap();
    send(&mut machine, own, at(NEAR, 0), b"near");
    assert_eq!(received(&mut machine, one), [first]);
    assert_eq!(group(&mut machine, one, false, NEAR, LOOPBACK), Ok(Reply::Done));
    assert_eq!(group(&mut machine, one, false, NEAR, LOOPBACK), Err(Error::AddressNotAvailable));
    assert_eq!(group(&mut machine, both, true, NEAR, LOOPBACK), Err(Error::AddressInUse));
    send(&mut machine, sender, at(NEAR, 0), b"again");
    assert!(received(&mut machine, one).is_empty());
    // Without a card there is no other interface.
    for interface in [0, CARD, 3] {
        assert_eq!(group(&mut machine, one, true, NEAR, interface), Err(Error::AddressNotAvailable));
    }
    let other = machine.open(Family::V6, Kind::Datagram);
    for scope in [0, CARD, 3] {
        assert_eq!(machine.ask(other, Request::Prepare(at(NEAR, scope))), Err(Error::Unreachable));
    }
}

#[test]
fn other_sockets_and_addresses() {
    let mut ethernet = routed();
    let machine = &mut ethernet.machines[0];
    let id = machine.open(Family::V6, Kind::Datagram);
    assert_eq!(group(machine, id, true, global(2), CARD), Err(Error::Invalid));
    assert_eq!(group(machine, id, true, NEAR, 3), Err(Error::AddressNotAvailable));
    assert_eq!(machine.ask(id, Request::Set(Choice::MulticastInterfaceV6, 3)), Err(Error::AddressNotAvailable));
    for (family, kind) in [(Family::V6, Kind::Stream), (Family::V6, Kind::Echo), (Family::V4, Kind::Datagram)] {
        let id = machine.open(family, kind);
        assert_eq!(group(machine, id, true, NEAR, CARD), Err(Error::NoOption));
    }
    let stream = machine.open(Family::V6, Kind::Stream);
    assert_eq!(machine.ask(stream, Request::Connect { to: at(NEAR, CARD), wait: true }), Err(Error::Unreachable));
    assert_eq!(machine.ask(stream, Request::Bind(at(NEAR, 0))), Err(Error::AddressNotAvailable));
    for number in 0..GROUPS_OF_SOCKET as u128 {
        group(machine, id, true, Ipv6Addr::from_bits(FAR.to_bits() + number), 0).unwrap();
    }
    assert_eq!(group(machine, id, true, NEAR, 0), Err(Error::TooMany));
}

#[test]
fn members_over_the_card() {
    let mut ethernet = routed();
    let any = Ipv6Addr::UNSPECIFIED;
    let there = member(&mut ethernet.machines[0], any, &[NEAR, FAR], 0);
    let here = member(&mut ethernet.machines[1], any, &[NEAR], CARD);
    let none = member(&mut ethernet.machines[0], any, &[], 0);
    let looped = member(&mut ethernet.machines[0], any, &[NEAR], LOOPBACK);
    let sender = ethernet.machines[1].open(Family::V6, Kind::Datagram);
    ethernet.frames.clear();
    send(&mut ethernet.machines[1], sender, at(NEAR, CARD), b"near");
    send(&mut ethernet.machines[1], sender, at(FAR, 0), b"far");
    ethernet.settle();
    let (near, far) = ((local(2), b"near".to_vec()), (global(2), b"far".to_vec()));
    assert_eq!(received(&mut ethernet.machines[0], there), [near.clone(), far]);
    assert_eq!(received(&mut ethernet.machines[1], here), [near]);
    for id in [none, looped] {
        assert!(received(&mut ethernet.machines[0], id).is_empty());
    }
    let frames: Vec<_> = ethernet.frames.iter().filter(|frame| frame[20] == 17).collect();
    assert_eq!(frames.len(), 2);
    // To the group's hardware address, and not farther than this network.
    assert_eq!((&frames[0][..6], frames[0][21]), (&[0x33, 0x33, 0, 1, 0, 0x4d][..], 1));
    ethernet.machines[1].ask(sender, Request::Set(Choice::MulticastHops, 7)).unwrap();
    ethernet.machines[1].ask(sender, Request::Set(Choice::MulticastLoopV6, 0)).unwrap();
    send(&mut ethernet.machines[1], sender, at(NEAR, 0), b"again");
    ethernet.settle();
    assert_eq!(ethernet.frames.last().unwrap()[21], 7);
    assert_eq!(received(&mut ethernet.machines[0], there).len(), 1);
    assert!(received(&mut ethernet.machines[1], here).is_empty());
    // A group within a machine does not leave it, and comes from no other.
    let inside: Ipv6Addr = "ff01::4d".parse().unwrap();
    assert_eq!(ethernet.machines[1].ask(sender, Request::Prepare(at(inside, CARD))), Err(Error::Unreachable));
    // The longest, and one that is too long.
    for len in [1452, 1453] {
        send(&mut ethernet.machines[1], sender, at(NEAR, 0), &vec![1; len]);
        ethernet.settle();
        let came = ethernet.machines[0].read(there).len();
        assert_eq!(came, if len == 1452 { HEADER + len } else { 0 });
    }
    // Nobody has joined.
    let ignored = ethernet.machines[0].stack.card_state().unwrap().ignored;
    send(&mut ethernet.machines[1], sender, at("ff02::1:99".parse().unwrap(), 0), b"nobody");
    ethernet.settle();
    assert_eq!(ethernet.machines[0].stack.card_state().unwrap().ignored, ignored + 1);
}

/// Who was told what, by groups.
fn told(machine: &mut Machine) -> BTreeMap<Ipv6Addr, Vec<u8>> {
    let mut told: BTreeMap<Ipv6Addr, Vec<u8>> = BTreeMap::new();
    for frame in sent(machine) {
        let records = reports(&[frame]);
        assert!(records.len() <= 60);
        records.into_iter().for_each(|(kind, group)| told.entry(group).or_default().push(kind));
    }
    machine.stack.set_room(64);
    told
}

#[test]
fn routers_are_told() {
    let mut ethernet = routed();
    ethernet.pass(Duration::from_secs(9));
    let machine = &mut ethernet.machines[0];
    told(machine);
    let one = member(machine, Ipv6Addr::UNSPECIFIED, &[NEAR, ALL, "ff01::9".parse().unwrap()], 0);
    let other = member(machine, Ipv6Addr::UNSPECIFIED, &[NEAR], 0);
    assert_eq!(told(machine), [(NEAR, vec![4])].into());
    machine.pass(Duration::from_secs(1));
    assert_eq!(told(machine), [(NEAR, vec![4])].into());
    // A query is answered with all groups.
    let query = [&[130, 0, 0, 0, 3, 0xe8, 0, 0][..], &[0; 16], &[2, 125, 0, 0]].concat();
    machine.stack.wire().unwrap().put(icmp(ROUTER, ALL, 1, &[58, 0, 5, 2, 0, 0, 1, 0], &query));
    machine.settle();
    machine.pass(Duration::from_secs(1));
    let all = told(machine);
    assert!(all.len() == 2 && all[&NEAR] == [2], "{all:?}");
    // Not before the last one has left.
    machine.stack.close(one);
    machine.pass(Duration::from_secs(2));
    assert!(told(machine).is_empty());
    machine.stack.close(other);
    machine.settle();
    machine.pass(Duration::from_secs(1));
    machine.pass(Duration::from_secs(1));
    assert_eq!(told(machine), [(NEAR, vec![3, 3])].into());
}

/// More groups than a report holds: each is told twice, also while the card has little room.
#[test]
fn many_groups_are_told_in_pieces() {
    for room in [64, 12] {
        let mut ethernet = routed();
        ethernet.pass(Duration::from_secs(9));
        let machine = &mut ethernet.machines[0];
        told(machine);
        let mut expected = BTreeMap::new();
        for socket in 0..10 {
            let id = machine.open(Family::V6, Kind::Datagram);
            for number in 0..GROUPS_OF_SOCKET as u128 {
                let one = Ipv6Addr::from_bits(FAR.to_bits() + socket * 100 + number);
                assert_eq!(
                    machine.stack.request(id, Request::GroupV6 { join: true, group: one, interface: 0 }),
                    Ok(Reply::Done)
                );
                expected.insert(one, vec![4, 4]);
            }
        }
        let mut all: BTreeMap<Ipv6Addr, Vec<u8>> = BTreeMap::new();
        for _ in 0..30 {
            machine.stack.set_room(room);
            machine.pass(Duration::from_millis(100));
            for (group, kinds) in told(machine) {
                all.entry(group).or_default().extend(kinds);
            }
        }
        assert!(all == expected, "{} of {}", all.len(), expected.len());
        // A query is answered with all of them.
        let query = [&[130, 0, 0, 0, 3, 0xe8, 0, 0][..], &[0; 16], &[2, 125, 0, 0]].concat();
        machine.stack.wire().unwrap().put(icmp(ROUTER, ALL, 1, &[58, 0, 5, 2, 0, 0, 1, 0], &query));
        machine.settle();
        machine.pass(Duration::from_secs(1));
        assert_eq!(told(machine).values().filter(|kinds| **kinds == [2]).count(), 201);
    }
}

/// The link has come again, or another card: the groups are told again.
#[test]
fn groups_are_told_again() {
    let mut ethernet = routed();
    let machine = &mut ethernet.machines[0];
    member(machine, Ipv6Addr::UNSPECIFIED, &[NEAR], 0);
    machine.pass(Duration::from_secs(9));
    told(machine);
    machine.stack.set_online(false);
    machine.stack.set_online(true);
    machine.stack.set_room(64);
    machine.settle();
    assert_eq!(told(machine)[&NEAR], [4]);
    machine.stack.attach([2, 0, 0, 0, 0, 7], 1514, &crate::card::Addressing::Dhcp);
    machine.stack.enable_ipv6(&crate::ipv6::Plan::default());
    machine.stack.set_room(64);
    machine.settle();
    assert_eq!(told(machine)[&NEAR], [4]);
}
