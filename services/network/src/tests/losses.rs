//! What a connection over the card does when segments are lost: a peer that answers as Linux does, without smoltcp.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;

use smoltcp::time::Duration;
use smoltcp::wire::{IpProtocol, Ipv4Packet, TcpControl, TcpPacket};

use super::card::{Ethernet, ip, segment};
use crate::ports::Id;
use crate::segments::{Options, Segment};

pub const FIRST: i32 = 100;

/// The peer. Its window grows with each segment.
pub struct Peer {
    pub address: SocketAddrV4,
    /// The machine's next sequence number.
    pub next: i32,
    /// What came behind a hole: sequence numbers and lengths.
    behind: BTreeMap<i32, usize>,
    window: u16,
    /// The sequence numbers that have come or were lost, with the number of times.
    seen: BTreeMap<i32, usize>,
}

impl Peer {
    /// A connection, and the machine's end of it.
    pub fn connected(ethernet: &mut Ethernet) -> (Peer, Id) {
        let listener = ethernet.listener(1);
        // Machine 2 answers the question for its hardware address.
        let address = SocketAddrV4::new(ip(2), 1234);
        let options = Options { max_segment: Some(1460), scale: None, selective: true };
        let first = Segment { options, ..segment(address, FIRST, None, TcpControl::Syn) };
        let next = ethernet.put(first.write())[0].seq + 1;
        let peer = Peer { address, next, behind: BTreeMap::new(), window: 40_000, seen: BTreeMap::new() };
        ethernet.put(peer.answer());
        let (server, _) = ethernet.machines[0].stack.accept(listener).unwrap();
        (peer, server)
    }

    /// The acknowledgement of what has come, with the first range behind a hole.
    pub fn answer(&self) -> Vec<u8> {
        let plain =
            Segment { window: self.window, ..segment(self.address, FIRST + 1, Some(self.next), TcpControl::None) };
        let mut frame = plain.write();
        let Some((start, mut end)) = self.behind.first_key_value().map(|(seq, len)| (*seq, *seq + *len as i32)) else {
            return frame;
        };
        while let Some(len) = self.behind.get(&end) {
            end += *len as i32;
        }
        // Two bytes of nothing, and one range.
        frame.extend([1, 1, 5, 10]);
        frame.extend(start.to_be_bytes().into_iter().chain(end.to_be_bytes()));
        let mut packet = Ipv4Packet::new_unchecked(&mut frame[14..]);
        packet.set_total_len(20 + 32);
        packet.fill_checksum();
        let (from, to) = (packet.src_addr().into(), packet.dst_addr().into());
        assert_eq!(packet.next_header(), IpProtocol::Tcp);
        let mut tcp = TcpPacket::new_unchecked(packet.payload_mut());
        tcp.set_header_len(32);
        tcp.fill_checksum(&from, &to);
        assert!(TcpPacket::new_checked(&frame[34..]).unwrap().verify_checksum(&from, &to));
        frame
    }

    /// A segment comes. `false`: it is lost on the way.
    pub fn receive(&mut self, segment: &Segment, lost: impl Fn(usize) -> bool) -> bool {
        let (seq, count) = (segment.seq, self.seen.len());
        let times = self.seen.entry(seq).or_insert(0);
        *times += 1;
        if *times == 1 && lost(count) {
            return false;
        }
        self.behind.insert(seq, segment.len);
        while let Some(len) = self.behind.remove(&self.next) {
            self.next += len as i32;
        }
        self.behind = self.behind.split_off(&self.next);
        self.window = self.window.saturating_add(3);
        true
    }
}

/// Sends bytes to the peer while segments are lost; returns the time that this takes.
fn time_with(lost: impl Fn(usize) -> bool) -> Duration {
    let mut ethernet = Ethernet::new();
    let (mut peer, server) = Peer::connected(&mut ethernet);
    let start = peer.next;
    let bytes = vec![7; 200_000];
    ethernet.machines[0].write(server, &bytes);
    let begin = ethernet.machines[0].now();
    for _ in 0..10_000 {
        for segment in ethernet.sent() {
            if segment.len > 0 && peer.receive(&segment, &lost) {
                ethernet.machines[0].stack.wire().unwrap().put(peer.answer());
            }
        }
        let machine = &mut ethernet.machines[0];
        if (peer.next - start) as usize == bytes.len() {
            return machine.now() - begin;
        }
        machine.pass(Duration::from_millis(1));
    }
    panic!("{} of {} bytes", peer.next - start, bytes.len());
}

/// No loss in the midst of a stream waits for the timer.
#[test]
fn losses_are_found_without_the_timer() {
    let whole = time_with(|_| false);
    assert!(whole < Duration::from_millis(100), "{whole}");
    let one = time_with(|number| number == 40);
    assert!(one < Duration::from_millis(200), "one: {one}");
    let several = time_with(|number| [40, 42, 45, 46].contains(&number));
    assert!(several < Duration::from_millis(200), "several: {several}");
    let often = time_with(|number| number > 20 && number % 25 == 0);
    assert!(often < Duration::from_millis(400), "often: {often}");
}

/// The last segment has no successors: the timer finds its loss, a fifth of a second later.
#[test]
fn the_last_loss_is_found_by_the_timer() {
    let last = time_with(|number| number == 200_000 / 1460);
    assert!(last > Duration::from_millis(200) && last < Duration::from_millis(400), "{last}");
}

/// A receiver that joins segments acknowledges all that came behind a hole at once. That is enough.
#[test]
fn a_loss_is_found_by_one_answer() {
    let mut ethernet = Ethernet::new();
    let (mut peer, server) = Peer::connected(&mut ethernet);
    let end = peer.next + 100_000;
    ethernet.machines[0].write(server, &[7; 100_000]);
    while peer.next < end {
        for segment in ethernet.sent().iter().filter(|segment| segment.len > 0) {
            peer.receive(segment, |_| false);
            ethernet.machines[0].stack.wire().unwrap().put(peer.answer());
        }
    }
    ethernet.sent();
    ethernet.machines[0].write(server, &[8; 20_000]);
    let segments = ethernet.sent();
    assert!(segments.len() > 4, "{} segments", segments.len());
    for segment in &segments[1..] {
        peer.receive(segment, |_| false);
    }
    ethernet.machines[0].stack.wire().unwrap().put(peer.answer());
    let again = ethernet.sent();
    assert!(again.iter().any(|segment| segment.seq == segments[0].seq && segment.len > 0), "it waits for the timer");
}

/// Duplicate acknowledgements while only the end of the stream is in flight do not stop its timer.
#[test]
fn an_end_is_sent_again_after_duplicates() {
    let mut ethernet = Ethernet::new();
    let (peer, server) = Peer::connected(&mut ethernet);
    // The answer to the question for the peer's hardware address.
    ethernet.machines[0].stack.close(server);
    assert!(ethernet.sent().is_empty());
    let ends =
        |ethernet: &mut Ethernet| ethernet.sent().iter().filter(|segment| segment.control == TcpControl::Fin).count();
    assert_eq!(ends(&mut ethernet), 1);
    for _ in 0..3 {
        ethernet.machines[0].stack.wire().unwrap().put(peer.answer());
        assert_eq!(ends(&mut ethernet), 0);
    }
    ethernet.machines[0].pass(Duration::from_secs(2));
    assert_ne!(ends(&mut ethernet), 0);
}
