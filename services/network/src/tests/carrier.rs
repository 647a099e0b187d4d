//! A cable that goes out and comes in again, and a driver that starts again.

use std::net::SocketAddrV4;

use network_protocol::{Choice, Error, Family, Kind, Name, Reply, Request};
use smoltcp::time::Duration;
use smoltcp::wire::TcpControl;

use super::card::{Ethernet, PORT, datagram, ip, segment};

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

/// Machine 1's driver starts again with another limit of frames.
fn restart(ethernet: &mut Ethernet, mtu: usize) {
    ethernet.machines[0].stack.attach([2, 0, 0, 0, 0, 1], mtu, &crate::card::Addressing::Dhcp);
}

/// The lengths of the longest frame that each machine has sent since the last time.
fn longest(ethernet: &mut Ethernet) -> [usize; 2] {
    let frames = std::mem::take(&mut ethernet.frames);
    [1, 2].map(|number| frames.iter().filter(|frame| frame[11] == number).map(Vec::len).max().unwrap_or(0))
}

#[test]
fn a_driver_that_starts_again_has_another_limit_of_frames() {
    let mut ethernet = Ethernet::new();
    let (server, client) = ethernet.connection();
    ethernet.transfer(server, client);
    assert_eq!(longest(&mut ethernet), [1514; 2]);
    for (mtu, allowed) in [(1294, 1294), (1514, 1514), (9014, 1514), (1300, 1300)] {
        // Some segments are on their way, and some bytes wait.
        ethernet.machines[0].write(server, &[7; 50_000]);
        restart(&mut ethernet, mtu);
        assert_eq!(ethernet.machines[0].stack.card_state().unwrap().mtu, (mtu - 14) as u16);
        let mut count = 0;
        while count < 50_000 {
            ethernet.pass(Duration::from_millis(10));
            count += ethernet.machines[1].read(client).len();
        }
        // The peer goes on with the segments that it was asked for, and asked for no longer ones.
        ethernet.transfer(server, client);
        assert_eq!(longest(&mut ethernet), [allowed, 1514]);
        let told = ethernet.machines[0].ask(server, Request::Get(Choice::MaxSegment));
        assert_eq!(told, Ok(Reply::Value(allowed as u32 - 54)));
        // New connections ask for others.
        let (server, client) = ethernet.connection();
        ethernet.transfer(server, client);
        assert_eq!(longest(&mut ethernet), [allowed, mtu.min(1514)]);
        // So do datagrams.
        let receiver = ethernet.machines[1].open(Family::V4, Kind::Datagram);
        let to = SocketAddrV4::new(ip(2), 5000);
        ethernet.machines[1].ask(receiver, Request::Bind(to.into())).unwrap();
        let sender = ethernet.machines[0].open(Family::V4, Kind::Datagram);
        for len in [mtu - 42, mtu - 41] {
            ethernet.machines[0].write(sender, &datagram(to, len));
            ethernet.settle();
        }
        assert_eq!(ethernet.machines[1].read(receiver).len(), network_protocol::HEADER + mtu - 42);
        longest(&mut ethernet);
        ethernet.machines[1].stack.close(receiver);
        ethernet.pass(Duration::from_secs(61));
    }
}

/// A peer that was asked for the former segments while its connection was not open yet.
#[test]
fn a_half_open_connection_outlives_a_driver() {
    for (before, after) in [(1514, 1294), (1294, 1514)] {
        let mut ethernet = Ethernet::new();
        restart(&mut ethernet, before);
        let listener = ethernet.listener(1);
        let peer = SocketAddrV4::new(ip(7), 1234);
        let answers = ethernet.put(segment(peer, 100, None, TcpControl::Syn).write());
        assert_eq!(answers[0].options.max_segment, Some((before - 54) as u16));
        restart(&mut ethernet, after);
        ethernet.put(segment(peer, 101, Some(answers[0].seq + 1), TcpControl::None).write());
        assert!(ethernet.machines[0].stack.accept(listener).is_ok());
    }
}

/// Datagrams that wait for a neighbour's hardware address while the limit becomes smaller.
#[test]
fn waiting_datagrams_are_not_longer_than_the_card_takes() {
    let mut ethernet = Ethernet::new();
    let sender = ethernet.machines[0].open(Family::V4, Kind::Datagram);
    let to = SocketAddrV4::new(ip(2), 5000);
    ethernet.machines[0].write(sender, &datagram(to, 1472));
    restart(&mut ethernet, 1294);
    ethernet.pass(Duration::from_secs(1));
    ethernet.machines[0].write(sender, &datagram(to, 1252));
    ethernet.pass(Duration::from_secs(1));
    assert_eq!(longest(&mut ethernet)[0], 1294);
}
