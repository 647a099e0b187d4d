//! What a connection over the card does when segments are lost: a peer that answers as Linux does, without smoltcp.

use std::collections::{BTreeMap, VecDeque};
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
    /// The segment that has come twice, which the next answer tells of, if the peer does that (D-SACK).
    twice: Option<(i32, i32)>,
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
        let peer = Peer { address, next, behind: BTreeMap::new(), window: 40_000, seen: BTreeMap::new(), twice: None };
        ethernet.put(peer.answer());
        let (server, _) = ethernet.machines[0].stack.accept(listener).unwrap();
        (peer, server)
    }

    /// The acknowledgement of what has come, with the first range behind a hole.
    pub fn answer(&self) -> Vec<u8> {
        let plain =
            Segment { window: self.window, ..segment(self.address, FIRST + 1, Some(self.next), TcpControl::None) };
        let mut frame = plain.write();
        let behind = self.behind.first_key_value().map(|(seq, len)| (*seq, *seq + *len as i32));
        let Some((start, mut end)) = self.twice.or(behind) else { return frame };
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

/// Sends bytes to the peer over a path that takes 10 ms in each direction. `later` tells by how many milliseconds more a
/// segment is late; `None`: it is lost. Returns how many segments were sent again, and the time that all took.
fn sent_again(later: impl Fn(usize) -> Option<u64>, tells_twice: bool) -> (usize, Duration) {
    const LEN: i32 = 1_000_000;
    let mut ethernet = Ethernet::new();
    let (mut peer, server) = Peer::connected(&mut ethernet);
    peer.window = u16::MAX;
    let end = peer.next + LEN;
    ethernet.machines[0].write(server, &[7; LEN as usize]);
    let begin = ethernet.machines[0].now();
    // What is on its way, with the time of its arrival.
    let mut there: Vec<(u64, Segment)> = Vec::new();
    let mut back: VecDeque<(u64, Vec<u8>)> = VecDeque::new();
    let (mut numbers, mut again) = (BTreeMap::new(), 0);
    for now in 0..60_000_u64 {
        for segment in ethernet.sent().into_iter().filter(|segment| segment.len > 0) {
            let count = numbers.len();
            let mut delay = Some(0);
            if numbers.insert(segment.seq, ()).is_none() {
                delay = later(count)
            } else {
                again += 1
            }
            there.extend(delay.map(|delay| (now + 10 + delay, segment)));
        }
        there.sort_by_key(|(at, _)| *at);
        while there.first().is_some_and(|(at, _)| *at <= now) {
            let (_, segment) = there.remove(0);
            let has_come = segment.seq < peer.next || peer.behind.contains_key(&segment.seq);
            peer.twice = (tells_twice && has_come).then_some((segment.seq, segment.seq + segment.len as i32));
            peer.receive(&segment, |_| false);
            back.push_back((now + 10, peer.answer()));
            peer.twice = None;
        }
        while back.front().is_some_and(|(at, _)| *at <= now) {
            let frame = back.pop_front().unwrap().1;
            ethernet.machines[0].stack.wire().unwrap().put(frame);
        }
        if peer.next == end {
            return (again, ethernet.machines[0].now() - begin);
        }
        ethernet.machines[0].pass(Duration::from_millis(1));
    }
    panic!("{} of {LEN} bytes", LEN - (end - peer.next));
}

/// Segments that are late are not sent again and again: the first one may be, then more duplicates are waited for.
#[test]
fn late_segments_are_not_lost() {
    let (again, whole) = sent_again(|_| Some(0), false);
    assert_eq!(again, 0);
    for tells_twice in [false, true] {
        for late in [1, 3, 5] {
            // Every twentieth one, behind as many milliseconds of others.
            let (again, time) =
                sent_again(|number| Some(if number > 60 && number % 20 == 0 { late } else { 0 }), tells_twice);
            assert!(again <= 3, "{late} ms late: {again} sent again");
            assert!(time < whole * 2, "{late} ms late: {time} for {whole}");
        }
    }
}

/// A loss among late segments is found without the timer.
#[test]
fn losses_among_late_segments_are_found() {
    let lost = [200, 330, 331, 334, 500];
    let loses = |number: usize| (!lost.contains(&number)).then_some(0);
    let (again, whole) = sent_again(loses, false);
    assert_eq!(again, lost.len());
    let path = |number: usize| loses(number).map(|_| if number > 60 && number.is_multiple_of(20) { 3 } else { 0 });
    for tells_twice in [false, true] {
        let (again, time) = sent_again(path, tells_twice);
        assert!((lost.len()..lost.len() + 3).contains(&again), "{again} sent again");
        assert!(time < whole + Duration::from_millis(200), "{time} for {whole}");
    }
}

/// A round trip of no time tells nothing. The peer tells that it has got a segment twice, so that one was not lost.
#[test]
fn a_second_copy_proves_that_a_segment_was_late() {
    for tells_twice in [false, true] {
        let mut ethernet = Ethernet::new();
        let (mut peer, server) = Peer::connected(&mut ethernet);
        peer.window = u16::MAX;
        let end = peer.next + 100_000;
        ethernet.machines[0].write(server, &[7; 100_000]);
        while peer.next < end {
            for segment in ethernet.sent().iter().filter(|segment| segment.len > 0) {
                peer.receive(segment, |_| false);
                ethernet.machines[0].stack.wire().unwrap().put(peer.answer());
            }
        }
        ethernet.sent();
        let mut put = |ethernet: &mut Ethernet, segment: &Segment, is_copy: bool| {
            peer.twice = (is_copy && tells_twice).then_some((segment.seq, segment.seq + segment.len as i32));
            peer.receive(segment, |_| false);
            let answer = peer.answer();
            peer.twice = None;
            ethernet.machines[0].stack.wire().unwrap().put(answer);
            ethernet.sent().into_iter().filter(|segment| segment.len > 0).collect::<Vec<_>>()
        };
        ethernet.machines[0].write(server, &[8; 20_000]);
        let segments = ethernet.sent();
        assert!(segments.len() > 10, "{} segments", segments.len());
        let mut copies = Vec::new();
        for segment in &segments[1..6] {
            copies.extend(put(&mut ethernet, segment, false));
        }
        assert_eq!(copies, [segments[0]]);
        // The first one comes, then its copy.
        put(&mut ethernet, &segments[0], false);
        put(&mut ethernet, &segments[0], true);
        let mut again = 0;
        for segment in &segments[6..] {
            again += put(&mut ethernet, segment, false).iter().filter(|copy| segments.contains(copy)).count();
        }
        assert!(if tells_twice { again == 0 } else { again > 3 }, "{again} sent again");
    }
}

/// A segment with data that is late has an older acknowledgement than one before it. Its data counts.
#[test]
fn late_data_counts() {
    let mut ethernet = Ethernet::new();
    let (mut peer, server) = Peer::connected(&mut ethernet);
    let data = |peer: &Peer, seq: i32, ack: i32, bytes: &[u8]| {
        let mut frame = Segment { window: 40_000, ..segment(peer.address, seq, Some(ack), TcpControl::Psh) }.write();
        frame.extend(bytes);
        let mut packet = Ipv4Packet::new_unchecked(&mut frame[14..]);
        packet.set_total_len((40 + bytes.len()) as u16);
        packet.fill_checksum();
        let (from, to) = (packet.src_addr().into(), packet.dst_addr().into());
        TcpPacket::new_unchecked(packet.payload_mut()).fill_checksum(&from, &to);
        frame
    };
    let before = peer.next;
    ethernet.machines[0].write(server, &[9; 1000]);
    for segment in ethernet.sent() {
        peer.receive(&segment, |_| false);
    }
    for segment in ethernet.sent() {
        peer.receive(&segment, |_| false);
    }
    assert_eq!(peer.next, before + 1000);
    // The second one comes first.
    ethernet.put(data(&peer, FIRST + 1 + 5, peer.next, b"world"));
    assert!(ethernet.machines[0].read(server).is_empty());
    let answers = ethernet.put(data(&peer, FIRST + 1, before, b"hello"));
    assert_eq!(answers[0].ack, Some(FIRST + 11));
    assert_eq!(ethernet.machines[0].read(server), b"helloworld");
    // An acknowledgement that is far too old is a guess: the buffer holds 64 KiB.
    ethernet.machines[0].pass(Duration::from_secs(2));
    let answers = ethernet.put(data(&peer, FIRST + 11, peer.next - (64 << 10) - 1, b"guess"));
    assert_eq!((answers.len(), answers[0].ack), (1, Some(FIRST + 11)));
    assert!(ethernet.machines[0].read(server).is_empty());
    // Without data it is none, and its window does not count.
    assert!(ethernet.put(segment(peer.address, FIRST + 11, Some(before), TcpControl::None).write()).is_empty());
    ethernet.machines[0].write(server, &[9; 30_000]);
    assert!(ethernet.sent().iter().map(|segment| segment.len).sum::<usize>() > 2000);
}
