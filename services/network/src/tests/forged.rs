//! Segments of somebody who knows the ends of a connection, but not its numbers: they change nothing.

use proptest::prelude::*;
use smoltcp::time::Duration;
use smoltcp::wire::TcpControl;

use super::card::{Ethernet, segment};
use super::losses::{FIRST, Peer};
use crate::ports::Id;
use crate::segments::Segment;

/// The connection works: the peer gets a byte.
fn works(ethernet: &mut Ethernet, peer: &mut Peer, server: Id) {
    let before = peer.next;
    ethernet.machines[0].write(server, b"x");
    for _ in 0..3 {
        for segment in ethernet.sent().iter().filter(|segment| segment.len > 0) {
            peer.receive(segment, |_| false);
            ethernet.machines[0].stack.wire().unwrap().put(peer.answer());
        }
    }
    assert_eq!(peer.next, before + 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn numbers_out_of_the_window(
        seq in any::<i32>(),
        ack in proptest::option::of(any::<i32>()),
        control in prop_oneof![Just(TcpControl::Rst), Just(TcpControl::None), Just(TcpControl::Syn), Just(TcpControl::Fin)],
    ) {
        let mut ethernet = Ethernet::new();
        let (mut peer, server) = Peer::connected(&mut ethernet);
        works(&mut ethernet, &mut peer, server);
        // A reset counts with the next number only (RFC 5961), an end with a number in the window and an
        // acknowledgement of what was sent.
        let next = FIRST + 1;
        let exact = match control {
            TcpControl::Rst => seq == next,
            _ => (0..1 << 20).contains(&seq.wrapping_sub(next)) && ack.is_some_and(|ack| ack == peer.next),
        };
        prop_assume!(!exact);
        ethernet.put(segment(peer.address, seq, ack, control).write());
        works(&mut ethernet, &mut peer, server);
    }
}

/// A reset in the window is answered with a challenge, and only the one with the next number ends the connection.
#[test]
fn a_reset_needs_the_next_number() {
    let mut ethernet = Ethernet::new();
    let (mut peer, server) = Peer::connected(&mut ethernet);
    works(&mut ethernet, &mut peer, server);
    for distance in [1, 1000, 30_000] {
        for control in [TcpControl::Rst, TcpControl::Syn] {
            ethernet.put(segment(peer.address, FIRST + 1 + distance, Some(peer.next), control).write());
            works(&mut ethernet, &mut peer, server);
        }
    }
    ethernet.put(segment(peer.address, FIRST + 1, None, TcpControl::Rst).write());
    assert_ne!(ethernet.machines[0].signals(server) & network_protocol::ERROR, 0);
}

/// A request on a connection is answered with a challenge. A peer that has lost the connection resets it then, and its next
/// request makes a new one.
#[test]
fn a_restarted_peer_connects_again() {
    let mut ethernet = Ethernet::new();
    let (mut peer, server) = Peer::connected(&mut ethernet);
    works(&mut ethernet, &mut peer, server);
    let request = segment(peer.address, 77_777, None, TcpControl::Syn);
    let challenge = ethernet.put(request.write());
    assert_eq!(challenge.len(), 1);
    assert_eq!((challenge[0].control, challenge[0].ack), (TcpControl::None, Some(FIRST + 1)));
    ethernet.put(segment(peer.address, FIRST + 1, None, TcpControl::Rst).write());
    assert_ne!(ethernet.machines[0].signals(server) & network_protocol::ERROR, 0);
    let answer = ethernet.put(request.write());
    assert_eq!((answer[0].control, answer[0].ack), (TcpControl::Syn, Some(77_778)));
}

/// An acknowledgement of any number that was not sent is answered, and changes nothing, however far it is off.
#[test]
fn acknowledgements_that_are_far_off() {
    for off in [i32::MIN, i32::MIN + 1, i32::MAX, -1_000_000, 1_000_000] {
        let mut ethernet = Ethernet::new();
        let (mut peer, server) = Peer::connected(&mut ethernet);
        works(&mut ethernet, &mut peer, server);
        let acknowledged = peer.next.wrapping_add(off);
        let answers = ethernet.put(segment(peer.address, FIRST + 1, Some(acknowledged), TcpControl::None).write());
        assert!(answers.len() <= 1, "{off}: {answers:?}");
        works(&mut ethernet, &mut peer, server);
    }
}

/// An acknowledgement of bytes that were written, but not sent, is answered and changes nothing. Otherwise those bytes would
/// never be sent.
#[test]
fn bytes_that_were_not_sent_cannot_be_acknowledged() {
    const LEN: i32 = 50_000;
    for beyond in [1, 1000, 30_000] {
        let mut ethernet = Ethernet::new();
        let (mut peer, server) = Peer::connected(&mut ethernet);
        works(&mut ethernet, &mut peer, server);
        let end = peer.next + LEN;
        ethernet.machines[0].write(server, &[7; LEN as usize]);
        let segments = ethernet.sent();
        let sent = segments.iter().map(|segment| segment.seq + segment.len as i32).max().unwrap();
        assert!(sent < end - 30_000, "nothing is left to be sent");
        let answers = ethernet.put(segment(peer.address, FIRST + 1, Some(sent + beyond), TcpControl::None).write());
        let is_answer = |answer: &Segment| answer.len == 0 && answer.ack == Some(FIRST + 1);
        assert!(answers.len() == 1 && is_answer(&answers[0]), "{answers:?}");
        for segment in segments {
            peer.receive(&segment, |_| false);
        }
        for _ in 0..100 {
            ethernet.machines[0].stack.wire().unwrap().put(peer.answer());
            ethernet.sent().iter().filter(|segment| segment.len > 0).for_each(|segment| {
                peer.receive(segment, |_| false);
            });
            ethernet.machines[0].pass(Duration::from_millis(10));
        }
        assert_eq!(peer.next, end);
        works(&mut ethernet, &mut peer, server);
    }
}
