//! Connections that do nothing.

use std::net::SocketAddrV4;

use super::card::{Ethernet, PORT, ip};
use network_protocol::{Error, Family, Kind, Request};
use smoltcp::time::Duration;

/// They need no timer, and nothing is sent.
#[test]
fn a_thousand_idle_connections_wake_nobody() {
    let mut ethernet = Ethernet::new();
    let listener = ethernet.listener(16);
    let to = SocketAddrV4::new(ip(1), PORT).into();
    for number in 0..1000 {
        let client = ethernet.machines[1].open(Family::V4, Kind::Stream);
        assert_eq!(ethernet.machines[1].ask(client, Request::Connect { to, wait: true }), Err(Error::InProgress));
        ethernet.settle();
        let (server, _) = ethernet.machines[0].stack.accept(listener).unwrap();
        let byte = [number as u8];
        ethernet.machines[1].write(client, &byte);
        ethernet.settle();
        assert_eq!(ethernet.machines[0].read(server), byte);
    }
    assert_eq!(ethernet.machines[0].stack.len(), 1001);
    // Until the last byte is acknowledged, and no request is remembered as half-open.
    for _ in 0..200 {
        ethernet.pass(Duration::from_millis(100));
    }
    let frames = ethernet.frames.len();
    assert_eq!(ethernet.machines.each_mut().map(|machine| machine.settle()), [None, None]);
    ethernet.pass(Duration::from_secs(3600));
    assert_eq!(ethernet.frames.len(), frames);
}
