//! The machine ends while connections have something to send.

use std::net::SocketAddrV4;

use network_protocol::{Family, Kind, Request};
use smoltcp::time::Duration;

use super::card::{Ethernet, PORT, datagram, ip};
use super::machine::Machine;

#[test]
fn what_was_written_is_sent() {
    let mut ethernet = Ethernet::new();
    let (server, client) = ethernet.connection();
    let sent = vec![7; 200_000];
    ethernet.machines[0].pipe(server).service().inbox.push_back(sent.clone());
    // A copy of its handle is in another process, which ends, too.
    ethernet.machines[0].stack.share(server).unwrap();
    ethernet.machines[0].stack.close_all();
    assert!(ethernet.machines[0].stack.has_unsent());
    ethernet.loses[0] = 3;
    let mut got = Vec::new();
    while ethernet.machines[0].stack.has_unsent() {
        ethernet.pass(Duration::from_millis(100));
        got.extend(ethernet.machines[1].read(client));
    }
    assert_eq!(got.len(), sent.len());
    // The end came, too, and the peer has not ended its side.
    assert!(ethernet.machines[1].pipe(client).service().stopped);
}

#[test]
fn a_peer_that_does_not_answer() {
    let mut ethernet = Ethernet::new();
    ethernet.connection();
    ethernet.machines[0].stack.close_all();
    ethernet.loses[0] = usize::MAX;
    ethernet.pass(Duration::from_secs(2));
    assert!(ethernet.machines[0].stack.has_unsent());
    // Without a link nobody answers.
    ethernet.machines[0].stack.set_online(false);
    assert!(!ethernet.machines[0].stack.has_unsent());
}

#[test]
fn datagrams_that_wait() {
    let mut ethernet = Ethernet::new();
    let to = SocketAddrV4::new(ip(2), PORT);
    let sender = ethernet.machines[0].open(Family::V4, Kind::Datagram);
    ethernet.machines[0].ask(sender, Request::Connect { to: to.into(), wait: false }).unwrap();
    ethernet.machines[0].pipe(sender).service().inbox.push_back(datagram(to, 10));
    ethernet.machines[0].stack.close_all();
    assert!(ethernet.machines[0].stack.has_unsent());
    ethernet.machines[0].settle();
    // It waits for the receiver's hardware address.
    assert!(ethernet.machines[0].stack.has_unsent());
    ethernet.settle();
    assert!(!ethernet.machines[0].stack.has_unsent());
}

#[test]
fn without_a_card_nothing_waits() {
    let mut machine = Machine::new(false);
    let (client, _) = machine.connection();
    machine.write(client, &[7; 100_000]);
    machine.stack.close_all();
    assert!(!machine.stack.has_unsent());
    machine.settle();
}
