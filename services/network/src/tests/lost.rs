//! The card loses its address, or gets another one.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use network_protocol::{CONNECTED, Choice, ERROR, Error, Family, HEADER, Kind, Reply, Request};
use smoltcp::time::Duration;
use smoltcp::wire::{Ipv4Cidr, TcpControl};

use super::card::{Ethernet, PORT, datagram, ip, segment};
use super::machine::Machine;
use crate::ports::Id;

/// Machine 1 gets this address, or has none any more.
fn give(ethernet: &mut Ethernet, address: Option<Ipv4Addr>) {
    ethernet.machines[0].stack.set_address(address.map(|ip| Ipv4Cidr::new(ip, 24)), None);
    ethernet.settle();
}

fn error(machine: &mut Machine, id: Id) -> Option<Error> {
    match machine.ask(id, Request::Get(Choice::Error)) {
        Ok(Reply::Value(0)) => None,
        Ok(Reply::Value(value)) => Error::ALL.iter().find(|error| **error as u32 == value).copied(),
        other => panic!("{other:?}"),
    }
}

fn listener(machine: &mut Machine, at: SocketAddr) -> Id {
    let id = machine.open(Family::V4, Kind::Stream);
    machine.ask(id, Request::Bind(at)).unwrap();
    machine.ask(id, Request::Listen(8)).unwrap();
    id
}

fn connect(machine: &mut Machine, to: SocketAddr) -> Id {
    let id = machine.open(Family::V4, Kind::Stream);
    let _ = machine.ask(id, Request::Connect { to, wait: true });
    id
}

/// The sender of a packet of IPv4, and of a question for a hardware address.
fn source(frame: &[u8]) -> Option<Ipv4Addr> {
    let at = match frame.get(12..14)? {
        [8, 0] => 26,
        [8, 6] => 28,
        _ => return None,
    };
    frame.get(at..at + 4)?.first_chunk::<4>().map(|octets| Ipv4Addr::from(*octets))
}

/// Machine 1 gets 192.0.2.3 instead of 192.0.2.1.
#[test]
fn connections_of_a_lost_address_end() {
    for other in [Some(ip(3)), None] {
        let mut ethernet = Ethernet::new();
        let (accepted, peer) = ethernet.connection();
        // A client's, one that waits to be accepted, one that is not open yet, and those within the machine.
        let far = listener(&mut ethernet.machines[1], SocketAddrV4::new(ip(2), 90).into());
        let client = connect(&mut ethernet.machines[0], SocketAddrV4::new(ip(2), 90).into());
        let any = listener(&mut ethernet.machines[0], SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 91).into());
        let own = connect(&mut ethernet.machines[0], SocketAddrV4::new(ip(1), 91).into());
        let (own_server, _) = ethernet.machines[0].stack.accept(any).unwrap();
        let waiting = connect(&mut ethernet.machines[1], SocketAddrV4::new(ip(1), 91).into());
        let opening = connect(&mut ethernet.machines[0], SocketAddrV4::new(ip(77), 90).into());
        ethernet.settle();
        let local = connect(&mut ethernet.machines[0], SocketAddrV4::new(Ipv4Addr::LOCALHOST, 91).into());
        assert_ne!(ethernet.machines[1].signals(waiting) & CONNECTED, 0);
        ethernet.machines[0].write(accepted, b"on the way");
        let orphan = connect(&mut ethernet.machines[0], SocketAddrV4::new(ip(2), 90).into());
        ethernet.settle();
        ethernet.machines[0].stack.close(orphan);
        let before = ethernet.frames.len();
        give(&mut ethernet, other);
        for id in [accepted, client, own, own_server, opening] {
            assert_ne!(ethernet.machines[0].signals(id) & ERROR, 0);
            assert_eq!(error(&mut ethernet.machines[0], id), Some(Error::Aborted));
        }
        assert!(ethernet.machines[0].stack.end(orphan).is_none());
        for id in [accepted, client, own, own_server] {
            assert_ne!(ethernet.machines[0].pipe(id).client().at_cut & ERROR, 0, "the end was there before the error");
        }
        let (waiting, _) = ethernet.machines[0].stack.accept(any).unwrap();
        assert_eq!(error(&mut ethernet.machines[0], waiting), Some(Error::Aborted));
        // Nothing was sent from the old address, then and later.
        for _ in 0..100 {
            ethernet.pass(Duration::from_secs(2));
        }
        assert!(ethernet.frames[before..].iter().all(|frame| source(frame) != Some(ip(1)) || frame[11] != 1));
        // The one over 127.0.0.1 goes on.
        let (local_server, _) = ethernet.machines[0].stack.accept(any).unwrap();
        ethernet.machines[0].write(local, b"hello");
        assert_eq!(ethernet.machines[0].read(local_server), b"hello");
        for (machine, ids) in [
            (0, vec![accepted, client, own, own_server, opening, waiting, local, local_server, any]),
            (1, vec![peer, far]),
        ] {
            ids.into_iter().for_each(|id| ethernet.machines[machine].stack.close(id));
        }
        ethernet.settle();
        assert!(ethernet.machines[0].stack.is_empty() && ethernet.machines[0].stack.flows.is_empty());
        assert!(ethernet.machines[0].stack.timers.is_empty());
    }
}

#[test]
fn listeners_of_a_lost_address_do_not_answer() {
    let mut ethernet = Ethernet::new();
    let bound = listener(&mut ethernet.machines[0], SocketAddrV4::new(ip(1), PORT).into());
    let any = listener(&mut ethernet.machines[0], SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 81).into());
    // A half-open connection, whose answer would be repeated.
    let peer = SocketAddrV4::new(ip(7), 1234);
    let request = segment(peer, 100, None, TcpControl::Syn).write();
    assert_eq!(ethernet.put(request.clone()).len(), 1);
    give(&mut ethernet, Some(ip(3)));
    assert_eq!(ethernet.machines[0].stack.card.as_ref().unwrap().half_open.len(), 0);
    for _ in 0..20 {
        ethernet.pass(Duration::from_secs(1));
    }
    let frames = ethernet.frames.len();
    assert!(ethernet.put(request.clone()).is_empty());
    assert_eq!(ethernet.frames.len(), frames);
    // At the new address, only the unbound one listens.
    let to_bound = connect(&mut ethernet.machines[1], SocketAddrV4::new(ip(3), PORT).into());
    let to_any = connect(&mut ethernet.machines[1], SocketAddrV4::new(ip(3), 81).into());
    ethernet.settle();
    assert_eq!(error(&mut ethernet.machines[1], to_bound), Some(Error::Refused));
    assert_ne!(ethernet.machines[1].signals(to_any) & CONNECTED, 0);
    assert!(ethernet.machines[0].stack.accept(any).is_ok());
    // With the old address, the bound one listens again.
    give(&mut ethernet, Some(ip(1)));
    assert_eq!(ethernet.put(request).len(), 1);
    assert_eq!(ethernet.machines[0].stack.accept(bound), Err(Error::Again));
}

#[test]
fn datagrams_of_a_lost_address_are_refused() {
    let mut ethernet = Ethernet::new();
    let receiver = ethernet.machines[1].open(Family::V4, Kind::Datagram);
    let to = SocketAddrV4::new(ip(2), 5000);
    ethernet.machines[1].ask(receiver, Request::Bind(to.into())).unwrap();
    let [bound, any, connected, echo, stream] =
        [Kind::Datagram, Kind::Datagram, Kind::Datagram, Kind::Echo, Kind::Stream]
            .map(|kind| ethernet.machines[0].open(Family::V4, kind));
    for id in [bound, connected, echo, stream] {
        ethernet.machines[0].ask(id, Request::Bind(SocketAddrV4::new(ip(1), 0).into())).unwrap();
    }
    let connect = Request::Connect { to: to.into(), wait: true };
    ethernet.machines[0].ask(connected, connect).unwrap();
    for id in [bound, any, connected] {
        ethernet.machines[0].write(id, &datagram(to, 5));
        ethernet.settle();
        assert_eq!(ethernet.machines[1].read(receiver).len(), HEADER + 5);
    }
    // This one waits for a neighbour's hardware address.
    let nobody = SocketAddrV4::new(ip(77), 5000);
    ethernet.machines[0].write(any, &datagram(nobody, 5));
    ethernet.settle();
    let before = ethernet.frames.len();
    give(&mut ethernet, Some(ip(3)));
    for id in [bound, connected] {
        ethernet.machines[0].write(id, &datagram(to, 5));
    }
    ethernet.settle();
    assert!(ethernet.machines[1].read(receiver).is_empty());
    assert_eq!(error(&mut ethernet.machines[0], connected), Some(Error::AddressNotAvailable));
    assert_eq!(error(&mut ethernet.machines[0], bound), None);
    for id in [bound, echo] {
        let asked = ethernet.machines[0].ask(id, Request::Prepare(to.into()));
        assert_eq!(asked, Err(Error::AddressNotAvailable));
    }
    for id in [bound, stream] {
        assert_eq!(ethernet.machines[0].ask(id, connect), Err(Error::AddressNotAvailable));
    }
    ethernet.machines[0].write(any, &datagram(to, 5));
    // The neighbour was asked for a moment ago.
    ethernet.pass(Duration::from_secs(1));
    assert_eq!(ethernet.machines[1].read(receiver).len(), HEADER + 5);
    assert!(ethernet.frames[before..].iter().all(|frame| source(frame) != Some(ip(1))));
}

/// Another card takes the place of the one before.
#[test]
fn another_card_has_other_addresses() {
    let mut ethernet = Ethernet::new();
    let (server, _) = ethernet.connection();
    ethernet.machines[0].stack.attach([2, 0, 0, 0, 0, 7], 1514, &crate::card::Addressing::Dhcp);
    ethernet.settle();
    assert_eq!(error(&mut ethernet.machines[0], server), Some(Error::Aborted));
}

/// Whoever changes addresses all the time: nothing is left.
#[test]
fn addresses_that_flutter() {
    let mut ethernet = Ethernet::new();
    let any = listener(&mut ethernet.machines[0], SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, PORT).into());
    for round in 0..20_u8 {
        let to = SocketAddrV4::new(ip(10 + round), PORT).into();
        give(&mut ethernet, Some(ip(10 + round)));
        let clients: Vec<Id> = (0..20).map(|_| connect(&mut ethernet.machines[1], to)).collect();
        ethernet.settle();
        clients.into_iter().for_each(|id| ethernet.machines[1].stack.close(id));
        give(&mut ethernet, None);
    }
    while let Ok((id, _)) = ethernet.machines[0].stack.accept(any) {
        ethernet.machines[0].stack.close(id);
    }
    for _ in 0..40 {
        ethernet.pass(Duration::from_secs(5));
    }
    assert_eq!((ethernet.machines[0].stack.len(), ethernet.machines[0].stack.flows.len()), (1, 0));
}
