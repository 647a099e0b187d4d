//! A cable that goes out and comes in again.

use std::net::SocketAddrV4;

use network_protocol::{Choice, Error, Family, Kind, Name, Reply, Request};
use smoltcp::time::Duration;

use super::card::{Ethernet, PORT, datagram, ip};

/// Machine 1's cable.
fn cable(ethernet: &mut Ethernet, is_in: bool) {
    ethernet.machines[0].stack.set_online(is_in);
}

#[test]
fn connections_outlive_a_cable_that_is_out() {
    let mut ethernet = Ethernet::new();
    let (server, client) = ethernet.connection();
    cable(&mut ethernet, false);
    assert!(!ethernet.machines[0].stack.card_state().unwrap().online);
    let sent = ethernet.frames.len();
    // This asks for room in vain, again and again.
    ethernet.machines[0].write(server, b"wait");
    for _ in 0..300 {
        ethernet.pass(Duration::from_secs(1));
    }
    assert_eq!(ethernet.frames.len(), sent);
    assert!(ethernet.machines[1].read(client).is_empty());
    cable(&mut ethernet, true);
    ethernet.settle();
    assert_eq!(ethernet.machines[1].read(client), b"wait");
    ethernet.transfer(server, client);
}

/// A timer that has fired while there is no room must not keep the service busy.
#[test]
fn without_a_link_nothing_is_due() {
    let mut ethernet = Ethernet::new();
    let (server, _) = ethernet.connection();
    cable(&mut ethernet, false);
    ethernet.machines[0].write(server, b"wait");
    for _ in 0..100 {
        ethernet.machines[0].pass(Duration::from_secs(60));
    }
    assert!(ethernet.machines[0].settle().is_none_or(|at| at > ethernet.machines[0].now()));
}

#[test]
fn an_attempt_to_connect_waits_two_minutes_for_a_link() {
    let mut ethernet = Ethernet::new();
    let listener = ethernet.listener(1);
    for wait in [60, 121] {
        ethernet.machines[1].stack.set_online(false);
        let client = ethernet.machines[1].open(Family::V4, Kind::Stream);
        let to = SocketAddrV4::new(ip(1), PORT).into();
        assert_eq!(ethernet.machines[1].ask(client, Request::Connect { to, wait: true }), Err(Error::InProgress));
        for _ in 0..wait {
            ethernet.pass(Duration::from_secs(1));
        }
        // As long as the next look takes.
        if wait > 120 {
            ethernet.pass(crate::carrier::LIMITS);
        }
        let failed = ethernet.machines[1].signals(client) & network_protocol::ERROR;
        ethernet.machines[1].stack.set_online(true);
        ethernet.settle();
        if wait > 120 {
            assert_ne!(failed, 0);
            let error = ethernet.machines[1].ask(client, Request::Get(Choice::Error));
            assert_eq!(error, Ok(Reply::Value(Error::TimedOut as u32)));
        } else {
            assert_eq!(failed, 0);
            assert!(ethernet.machines[0].stack.accept(listener).is_ok());
        }
    }
}

#[test]
fn datagrams_without_a_link_are_lost() {
    let mut ethernet = Ethernet::new();
    let receiver = ethernet.machines[1].open(Family::V4, Kind::Datagram);
    let at = SocketAddrV4::new(ip(2), PORT);
    ethernet.machines[1].ask(receiver, Request::Bind(at.into())).unwrap();
    let sender = ethernet.machines[0].open(Family::V4, Kind::Datagram);
    ethernet.machines[0].ask(sender, Request::Connect { to: at.into(), wait: false }).unwrap();
    // One waits for the other machine's hardware address, and more are written than wait for the card.
    ethernet.machines[0].write(sender, &datagram(at, 1));
    cable(&mut ethernet, false);
    for _ in 0..100 {
        ethernet.machines[0].write(sender, &datagram(at, 10));
    }
    ethernet.pass(Duration::from_secs(10));
    // The program is not held up, and hears of no error.
    assert!(ethernet.machines[0].pipe(sender).service().inbox.is_empty());
    assert_eq!(ethernet.machines[0].signals(sender) & network_protocol::ERROR, 0);
    cable(&mut ethernet, true);
    ethernet.machines[0].write(sender, &datagram(at, 20));
    ethernet.settle();
    let got: Vec<usize> = ethernet.machines[1].pipe(receiver).client().inbox.iter().map(Vec::len).collect();
    assert_eq!(got, [network_protocol::HEADER + 20]);
}

#[test]
fn names_cannot_be_looked_up_without_a_link() {
    let mut ethernet = Ethernet::new();
    let stack = &mut ethernet.machines[0].stack;
    let name = || Name::new("host.example").unwrap();
    let begun = stack.look_up(name()).unwrap();
    stack.set_online(false);
    assert_eq!(stack.looked_up(), [(begun, Err(Error::NoNameServer))]);
    assert_eq!(stack.look_up(name()), Err(Error::NoNameServer));
    stack.set_online(true);
    stack.look_up(name()).unwrap();
    assert!(stack.looked_up().is_empty());
}
