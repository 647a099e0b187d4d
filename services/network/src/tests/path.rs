//! Routers say that the path carries smaller packets only; or somebody else says so.

use network_protocol::{Choice, Reply, Request};
use proptest::prelude::*;
use smoltcp::time::Duration;
use smoltcp::wire::{Icmpv4Packet, Ipv4Packet};

use super::card::{Ethernet, ip};
use super::ipv6::{self, ROUTER, global, sent};
use super::machine::Machine;
use crate::ports::Id;
use crate::segments::Segment;

const LEN: usize = 20_000;

/// Bytes of the IP header of a frame.
fn ip_header(frame: &[u8]) -> usize {
    if frame[12..14] == [8, 0] { 20 } else { 40 }
}

/// A router's message to machine 1: it has not passed on `packet`, because the next network carries `mtu` bytes only.
fn too_big(packet: &[u8], mtu: u32) -> Vec<u8> {
    let quoted = &packet[..packet.len().min(200)];
    if packet[0] >> 4 == 6 {
        let message = [&[2, 0, 0, 0][..], &mtu.to_be_bytes(), quoted].concat();
        return ipv6::icmp(ROUTER, global(1), 64, &[], &message);
    }
    let mut message = [&[3, 4, 0, 0, 0, 0][..], &(mtu as u16).to_be_bytes(), quoted].concat();
    Icmpv4Packet::new_unchecked(&mut message[..]).fill_checksum();
    let len = (20 + message.len() as u16).to_be_bytes();
    let mut header =
        [&[0x45, 0, len[0], len[1], 0, 0, 0, 0, 64, 1, 0, 0][..], &ip(9).octets(), &ip(1).octets()].concat();
    Ipv4Packet::new_unchecked(&mut header[..]).fill_checksum();
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 0][..], &header, &message].concat()
}

/// A connection of machine 1 over a path that turns out to be narrow.
struct Narrow {
    ethernet: Ethernet,
    server: Id,
    client: Id,
    /// Bytes of the IP header and of that of TCP.
    headers: usize,
}

impl Narrow {
    fn new(is_v6: bool) -> Narrow {
        let (mut ethernet, server, client);
        if is_v6 {
            ethernet = ipv6::routed();
            (server, client) = ipv6::connection(&mut ethernet, global(1));
        } else {
            ethernet = Ethernet::new();
            (server, client) = ethernet.connection();
        }
        // Several segments may be on their way.
        ethernet.transfer(server, client);
        ethernet.frames.clear();
        Narrow { ethernet, server, client, headers: if is_v6 { 60 } else { 40 } }
    }

    fn machine(&mut self) -> &mut Machine {
        &mut self.ethernet.machines[0]
    }

    /// Machine 1 writes bytes. Returns the frames that leave.
    fn write(&mut self) -> Vec<Vec<u8>> {
        let id = self.server;
        self.machine().write(id, &[5; LEN]);
        let frames = sent(self.machine());
        self.machine().stack.set_room(64);
        assert!(frames.len() > 3 && frames[0].len() == 1514, "{} frames", frames.len());
        frames
    }

    /// A frame comes to machine 1. Returns the frames that leave.
    fn put(&mut self, frame: Vec<u8>) -> Vec<Vec<u8>> {
        let machine = self.machine();
        machine.stack.wire().unwrap().put(frame);
        machine.settle();
        let frames = sent(machine);
        machine.stack.set_room(64);
        frames
    }

    /// The largest segment that machine 1 sends.
    fn segment(&mut self) -> usize {
        let id = self.server;
        match self.machine().ask(id, Request::Get(Choice::MaxSegment)) {
            Ok(Reply::Value(value)) => value as usize,
            other => panic!("{other:?}"),
        }
    }

    /// The bytes that machine 1 has written come, over a path that loses longer packets than this, without a timer that fires.
    fn arrives(&mut self, mtu: usize, frames: Vec<Vec<u8>>) {
        let mut count = 0;
        let mut next = frames;
        for _ in 0..40 {
            for frame in std::mem::take(&mut next) {
                if frame.len() - 14 <= mtu {
                    self.ethernet.machines[1].stack.wire().unwrap().put(frame);
                }
            }
            self.ethernet.machines[1].settle();
            count += self.ethernet.machines[1].read(self.client).len();
            for frame in sent(&mut self.ethernet.machines[1]) {
                self.machine().stack.wire().unwrap().put(frame);
            }
            self.ethernet.machines[1].stack.set_room(64);
            self.machine().pass(Duration::from_millis(1));
            next = sent(self.machine());
            self.machine().stack.set_room(64);
            self.ethernet.machines[1].pass(Duration::from_millis(1));
        }
        assert_eq!(count, LEN);
    }
}

#[test]
fn segments_get_smaller_and_are_sent_again() {
    for (is_v6, mtu) in [(false, 1400), (false, 576), (true, 1400), (true, 1280)] {
        let mut narrow = Narrow::new(is_v6);
        let lost = narrow.write();
        let first = Segment::read(&lost[0]).unwrap();
        let again = narrow.put(too_big(&lost[0][14..], mtu));
        // At once, and from the beginning.
        assert_eq!(Segment::read(&again[0]).unwrap().seq, first.seq);
        assert_eq!(again[0].len() - 14, mtu as usize);
        assert_eq!(narrow.segment(), mtu as usize - narrow.headers);
        let id = narrow.server;
        let Ok(Reply::Information(told)) = narrow.machine().ask(id, Request::Information) else { panic!() };
        assert_eq!(told.mtu, mtu);
        // The same is said of the others that were lost. That changes nothing any more.
        for frame in &lost[1..] {
            assert!(narrow.put(too_big(&frame[14..], mtu)).is_empty());
        }
        narrow.arrives(mtu as usize, again);
        // Later segments are as small, and the other direction is as before.
        let (server, client) = (narrow.server, narrow.client);
        narrow.ethernet.transfer(server, client);
        let frames = |number: u8| narrow.ethernet.frames.iter().filter(move |frame| frame[11] == number);
        assert!(frames(1).all(|frame| frame.len() - 14 <= mtu as usize));
        assert!(frames(2).any(|frame| frame.len() == 1514));
    }
}

/// The path gets narrower in steps, and never wider.
#[test]
fn a_limit_is_not_raised() {
    for is_v6 in [false, true] {
        let mut narrow = Narrow::new(is_v6);
        let mut frames = narrow.write();
        for (mtu, segment) in [(1400, 1400), (1300, 1300), (1450, 1300), (1301, 1300), (1290, 1290)] {
            let again = narrow.put(too_big(&frames[0][14..], mtu));
            assert_eq!(again.is_empty(), segment != mtu as usize);
            assert_eq!(narrow.segment(), segment - narrow.headers);
            if !again.is_empty() {
                frames = again;
            }
        }
    }
}

/// What forged messages say.
#[test]
fn forged_messages_change_nothing() {
    for is_v6 in [false, true] {
        let mut narrow = Narrow::new(is_v6);
        let frames = narrow.write();
        let packet = frames[1][14..].to_vec();
        let (head, whole) = (ip_header(&frames[1]), narrow.segment());
        let changed = |at: usize, by: u8| {
            let mut packet = packet.clone();
            packet[at] = packet[at].wrapping_add(by);
            packet
        };
        let with_seq = |seq: i32| {
            let mut packet = packet.clone();
            packet[head + 4..head + 8].copy_from_slice(&seq.to_be_bytes());
            packet
        };
        let [first, last] = [&frames[0], frames.last().unwrap()].map(|frame| Segment::read(frame).unwrap());
        let end = last.seq.wrapping_add(last.len as i32);
        let (from, to) = if is_v6 { (8, 24) } else { (12, 16) };
        let mut forged = vec![
            ("another port here", too_big(&changed(head + 1, 1), 1300)),
            ("another port there", too_big(&changed(head + 3, 1), 1300)),
            ("another address here", too_big(&changed(from + 3, 1), 1300)),
            ("another address there", too_big(&changed(to + 3, 1), 1300)),
            ("another protocol", too_big(&changed(if is_v6 { 6 } else { 9 }, 11), 1300)),
            ("another version", too_big(&changed(0, 0x30), 1300)),
            ("acknowledged before", too_big(&with_seq(first.seq.wrapping_sub(1)), 1300)),
            ("not sent yet", too_big(&with_seq(end), 1300)),
            ("far away", too_big(&with_seq(first.seq.wrapping_add(1 << 30)), 1300)),
            ("fits", too_big(&packet, 1500)),
            ("fits, and more", too_big(&packet, 9000)),
            ("no limit", too_big(&packet, 0)),
            ("too short", too_big(&packet[..head + 7], 1300)),
            ("only a header", too_big(&packet[..head], 1300)),
            ("nothing", too_big(&packet[..1], 1300)),
        ];
        if is_v6 {
            forged.push(("less than each network carries", too_big(&packet, 1279)));
            forged.push(("very little", too_big(&packet, 68)));
            forged.push(("very much", too_big(&packet, u32::MAX)));
        }
        let mut wrong_sum = too_big(&packet, 1300);
        *wrong_sum.last_mut().unwrap() ^= 1;
        forged.push(("a wrong checksum", wrong_sum));
        let mut to_all = too_big(&packet, 1300);
        to_all[..6].fill(0xff);
        forged.push(("to all machines", to_all));
        for (what, frame) in forged {
            assert!(narrow.put(frame).is_empty(), "{is_v6} {what}");
            assert_eq!(narrow.segment(), whole, "{is_v6} {what}");
        }
        narrow.arrives(1500, frames);
        // A quiet connection has nothing in flight.
        assert!(narrow.put(too_big(&packet, 1300)).is_empty());
        assert_eq!(narrow.segment(), whole);
    }
}

/// Over IPv4 nobody makes segments smaller than that, however little a message says.
#[test]
fn segments_have_a_least_size() {
    let mut narrow = Narrow::new(false);
    let frames = narrow.write();
    let again = narrow.put(too_big(&frames[0][14..], 68));
    assert_eq!(narrow.segment(), 536);
    assert!(narrow.put(too_big(&again[0][14..], 60)).is_empty());
    narrow.arrives(576, again);
}

/// A closed connection has no sequence numbers, a window that is closed is probed, and the end is sent again, too.
#[test]
fn a_narrow_path_at_the_end_of_a_connection() {
    let mut narrow = Narrow::new(false);
    let frames = narrow.write();
    let id = narrow.server;
    narrow.machine().stack.close(id);
    narrow.machine().settle();
    // What was left, and the end.
    assert_eq!(sent(narrow.machine()).len(), 1);
    let again = narrow.put(too_big(&frames[0][14..], 1000));
    assert_eq!(again[0].len(), 1014);
    narrow.arrives(1000, again);
    let (client, ethernet) = (narrow.client, &mut narrow.ethernet);
    ethernet.machines[1].stack.close(client);
    ethernet.settle();
    ethernet.pass(Duration::from_secs(1));
    assert!(ethernet.machines.iter().all(|machine| machine.stack.is_empty()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Any number in any place: the bytes come, whatever was believed.
    #[test]
    fn any_messages(
        is_v6 in any::<bool>(),
        messages in prop::collection::vec((any::<prop::sample::Index>(), any::<u16>(), 0_usize..70, any::<u8>()), 1..20),
    ) {
        let mut narrow = Narrow::new(is_v6);
        let frames = narrow.write();
        for (frame, mtu, at, byte) in messages {
            let mut packet = frame.get(&frames)[14..].to_vec();
            if at < 60 {
                packet[at] = byte;
            }
            for sent in narrow.put(too_big(&packet, mtu.into())) {
                narrow.ethernet.machines[1].stack.wire().unwrap().put(sent);
            }
        }
        let least = if is_v6 { 1220 } else { 536 };
        prop_assert!(narrow.segment() >= least);
        let mut count = 0;
        for _ in 0..20 {
            narrow.ethernet.pass(Duration::from_millis(500));
            count += narrow.ethernet.machines[1].read(narrow.client).len();
        }
        prop_assert_eq!(count, LEN);
    }
}
