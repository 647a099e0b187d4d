//! Two machines on one Ethernet, and whoever else writes to it.

use std::net::{Ipv4Addr, SocketAddrV4};

use network_protocol::{
    Addresses, CONNECTED, Choice, ERROR, Error, Family, HEADER, Kind, Name, Reply, Request, decode_header,
};
use proptest::prelude::*;
use smoltcp::time::Duration;
use smoltcp::wire::{EthernetAddress, TcpControl};

use super::machine::Machine;
use crate::card::Addressing;
use crate::half_open::MOST;
use crate::lookup::{DNS, LOOKUPS};
use crate::ports::Id;
use crate::segments::{Options, Segment};

const FRAME: usize = 1514;
pub const PORT: u16 = 80;

fn mac(number: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, number]
}

pub fn ip(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, number)
}

/// Machine 1 and machine 2, at 192.0.2.1 and 192.0.2.2.
pub struct Ethernet {
    pub machines: [Machine; 2],
    /// All frames that were sent.
    pub frames: Vec<Vec<u8>>,
    /// The next frames of this machine are lost, as many as this.
    pub loses: [usize; 2],
    /// After as many frames of a machine, its next one is lost.
    pub every: usize,
    /// Whenever frames come in, machine 1's card has no room at first.
    pub busy: bool,
}

impl Ethernet {
    pub fn new() -> Ethernet {
        let machines = [1, 2].map(|number| {
            let mut machine = Machine::new(true);
            let address = smoltcp::wire::Ipv4Cidr::new(ip(number), 24);
            let addressing = Addressing::Static { address, gateway: None, name_servers: vec![ip(2)] };
            machine.stack.attach(mac(number), FRAME, &addressing);
            machine.stack.set_room(64);
            machine
        });
        Ethernet { machines, frames: Vec::new(), loses: [0; 2], every: usize::MAX, busy: false }
    }

    /// Carries frames until none is left.
    pub fn settle(&mut self) {
        for _ in 0..100_000 {
            let mut moved = false;
            for at in 0..2 {
                if self.busy && at == 0 {
                    self.machines[at].stack.set_room(0);
                    self.machines[at].settle();
                    self.machines[at].stack.set_room(64);
                }
                self.machines[at].settle();
                while let Some(frame) = self.machines[at].stack.wire().unwrap().take() {
                    moved = true;
                    if self.loses[at] > 0 {
                        self.loses[at] -= 1;
                        continue;
                    }
                    self.frames.push(frame.clone());
                    if self.frames.len().is_multiple_of(self.every) {
                        continue;
                    }
                    bring(&mut self.machines[1 - at], &frame);
                }
                moved |= self.machines[at].stack.set_room(64);
            }
            if !moved {
                return;
            }
        }
        panic!("it never comes to rest");
    }

    pub fn pass(&mut self, time: Duration) {
        for machine in &mut self.machines {
            machine.pass(time);
        }
        self.settle();
    }

    /// A frame comes to machine 1. Returns what it answers.
    pub fn put(&mut self, frame: Vec<u8>) -> Vec<Segment> {
        let machine = &mut self.machines[0];
        machine.stack.wire().unwrap().put(frame);
        machine.settle();
        machine.stack.set_room(64);
        let wire = machine.stack.wire().unwrap();
        std::iter::from_fn(|| wire.take()).filter_map(|frame| Segment::read(&frame)).collect()
    }

    /// The segments that machine 1 sends. Machine 2 gets all other frames, and answers them.
    pub fn sent(&mut self) -> Vec<Segment> {
        let [machine, other] = &mut self.machines;
        let mut segments = Vec::new();
        machine.settle();
        machine.stack.set_room(64);
        while let Some(frame) = machine.stack.wire().unwrap().take() {
            match Segment::read(&frame) {
                Some(segment) => segments.push(segment),
                None => {
                    other.stack.wire().unwrap().put(frame);
                    other.settle();
                    let answers = std::iter::from_fn(|| other.stack.wire().unwrap().take());
                    answers.for_each(|frame| machine.stack.wire().unwrap().put(frame));
                }
            }
        }
        segments
    }

    /// Machine 1 listens.
    pub fn listener(&mut self, backlog: u32) -> Id {
        let listener = self.machines[0].open(Family::V4, Kind::Stream);
        let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, PORT).into();
        self.machines[0].ask(listener, Request::Bind(any)).unwrap();
        self.machines[0].ask(listener, Request::Listen(backlog)).unwrap();
        listener
    }

    /// Machine 2 connects to it.
    fn connect(&mut self) -> Id {
        let client = self.machines[1].open(Family::V4, Kind::Stream);
        let to = SocketAddrV4::new(ip(1), PORT).into();
        assert_eq!(self.machines[1].ask(client, Request::Connect { to, wait: true }), Err(Error::InProgress));
        self.settle();
        client
    }

    /// Bytes go from machine 1's end of a connection to machine 2's, and back.
    pub fn transfer(&mut self, server: Id, client: Id) {
        let sent: Vec<u8> = (0..200_000_u32).map(|at| (at % 251) as u8).collect();
        for (from, from_id, to, to_id) in [(0, server, 1, client), (1, client, 0, server)] {
            self.machines[from].write(from_id, &sent);
            let mut received = Vec::new();
            while received.len() < sent.len() {
                self.settle();
                let part = self.machines[to].read(to_id);
                if part.is_empty() {
                    self.pass(Duration::from_millis(10));
                }
                received.extend(part);
            }
            assert!(received == sent);
        }
    }

    /// A connection: its ends in machine 1 and in machine 2.
    pub fn connection(&mut self) -> (Id, Id) {
        let listener = self.listener(1);
        let client = self.connect();
        assert_ne!(self.machines[1].signals(client) & CONNECTED, 0);
        let (server, peer) = self.machines[0].stack.accept(listener).unwrap();
        assert_eq!(peer.ip(), ip(2));
        self.machines[0].stack.close(listener);
        (server, client)
    }

    /// The same, after machine 2 has sent so much that several segments may be on their way.
    pub fn used_connection(&mut self) -> (Id, Id) {
        const LEN: usize = 100_000;
        let (server, client) = self.connection();
        self.machines[1].write(client, &[3; LEN]);
        let mut received = 0;
        while received < LEN {
            self.pass(Duration::from_millis(20));
            received += self.machines[0].read(server).len();
        }
        self.pass(Duration::from_millis(20));
        (server, client)
    }
}

/// Whether a machine has no socket, and smoltcp has none but the DNS client.
fn rests(machine: &Machine) -> bool {
    machine.stack.is_empty() && machine.stack.packets.keys().all(|id| *id == DNS)
}

/// A frame comes to a machine. Segments are joined.
pub fn bring(machine: &mut Machine, frame: &[u8]) {
    let read = |at: usize, into: &mut [u8]| {
        into.copy_from_slice(&frame[at..at + into.len()]);
        Ok::<(), ()>(())
    };
    machine.stack.wire().unwrap().put_from(frame.len(), read).unwrap();
}

/// A segment from a machine that is not there, to machine 1.
pub fn segment(from: SocketAddrV4, seq: i32, ack: Option<i32>, control: TcpControl) -> Segment {
    Segment {
        macs: [EthernetAddress(mac(9)), EthernetAddress(mac(1))],
        from: from.into(),
        to: SocketAddrV4::new(ip(1), PORT).into(),
        seq,
        ack,
        control,
        window: 1000,
        options: Options::default(),
        len: 0,
    }
}

#[test]
fn bytes_there_and_back() {
    let mut ethernet = Ethernet::new();
    let (server, client) = ethernet.connection();
    ethernet.transfer(server, client);
    // No frame is longer than the card's, and an idle connection needs no timer.
    assert!(ethernet.frames.iter().all(|frame| frame.len() <= FRAME));
    ethernet.pass(Duration::from_secs(1));
    assert_eq!(ethernet.machines[0].settle(), None);
}

/// smoltcp forgot a fast retransmission for which the card had no room: nothing was sent any more, and no timer ran.
#[test]
fn a_full_card_forgets_no_retransmission() {
    for every in [10, 20, 40, 80, 160] {
        let mut ethernet = Ethernet::new();
        let (server, client) = ethernet.connection();
        (ethernet.busy, ethernet.every) = (true, every);
        let sent: Vec<u8> = (0..300_000_u32).map(|at| (at % 251) as u8).collect();
        ethernet.machines[0].write(server, &sent);
        let mut received = Vec::new();
        for _ in 0..5_000 {
            ethernet.pass(Duration::from_millis(100));
            received.extend(ethernet.machines[1].read(client));
            if received.len() == sent.len() {
                break;
            }
        }
        assert!(received == sent, "every {every}: {} of {} bytes", received.len(), sent.len());
    }
}

/// Connections that all have bytes to send share a card that takes few frames at a time.
#[test]
fn connections_share_a_full_card() {
    let mut ethernet = Ethernet::new();
    let connections: Vec<(Id, Id)> = (0..8).map(|_| ethernet.connection()).collect();
    let mut received = vec![0; connections.len()];
    for _ in 0..2_000 {
        for ((server, client), received) in connections.iter().zip(&mut received) {
            ethernet.machines[0].write(*server, &[7; 2000]);
            *received += ethernet.machines[1].read(*client).len();
        }
        let (machine, other) = ethernet.machines.split_at_mut(1);
        machine[0].stack.set_room(4);
        machine[0].pass(Duration::from_millis(1));
        machine[0].settle();
        while let Some(frame) = machine[0].stack.wire().unwrap().take() {
            other[0].stack.wire().unwrap().put(frame);
        }
        other[0].pass(Duration::from_millis(1));
        other[0].settle();
        while let Some(frame) = other[0].stack.wire().unwrap().take() {
            machine[0].stack.wire().unwrap().put(frame);
        }
        other[0].stack.set_room(64);
    }
    let (least, most) = (received.iter().min().unwrap(), received.iter().max().unwrap());
    assert!(*least > 100_000 && *most < 2 * *least, "{received:?}");
}

#[test]
fn a_connection_ends_and_late_segments_are_answered() {
    let mut ethernet = Ethernet::new();
    let (server, client) = ethernet.connection();
    ethernet.machines[0].write(server, b"last words");
    ethernet.machines[0].stack.close(server);
    ethernet.settle();
    assert_eq!(ethernet.machines[1].read(client), b"last words");
    ethernet.machines[1].stack.close(client);
    ethernet.settle();
    ethernet.pass(Duration::from_secs(1));
    assert!(ethernet.machines.iter().all(rests));
    let end = |frame: &Vec<u8>| {
        Segment::read(frame).is_some_and(|segment| segment.control == TcpControl::Fin && segment.from.ip() == ip(2))
    };
    let end = ethernet.frames.iter().rfind(|frame| end(frame)).unwrap().clone();
    let sent = Segment::read(&end).unwrap();
    // Machine 1 closed first. It acknowledges the end of machine 2 again.
    let answers = ethernet.put(end.clone());
    assert_eq!(answers.len(), 1);
    assert_eq!((answers[0].control, answers[0].ack), (TcpControl::None, Some(sent.seq + 1)));
    assert_eq!(answers[0].seq, sent.ack.unwrap());
    // After a minute it does not know the connection any more.
    ethernet.pass(Duration::from_secs(61));
    let (_, other) = ethernet.connection();
    ethernet.machines[1].stack.close(other);
    ethernet.pass(Duration::from_secs(1));
    assert_eq!(ethernet.put(end)[0].control, TcpControl::Rst);
}

#[test]
fn nobody_listens() {
    let mut ethernet = Ethernet::new();
    let client = ethernet.connect();
    let error = ethernet.machines[1].ask(client, Request::Get(Choice::Error));
    assert_eq!(error, Ok(Reply::Value(Error::Refused as u32)));
}

#[test]
fn the_first_answer_is_lost_and_comes_again() {
    let mut ethernet = Ethernet::new();
    let listener = ethernet.listener(1);
    // Its answer to the question for its hardware address, then the one to the request.
    let client = ethernet.machines[1].open(Family::V4, Kind::Stream);
    let to = SocketAddrV4::new(ip(1), PORT).into();
    let _ = ethernet.machines[1].ask(client, Request::Connect { to, wait: true });
    ethernet.loses[0] = 2;
    ethernet.settle();
    for _ in 0..6 {
        ethernet.pass(Duration::from_secs(1));
    }
    assert_ne!(ethernet.machines[1].signals(client) & CONNECTED, 0);
    assert!(ethernet.machines[0].stack.accept(listener).is_ok());
}

/// The peer's acknowledgement is lost, and the peer waits for the server to speak first.
#[test]
fn a_lost_acknowledgement_is_asked_for_again() {
    let mut ethernet = Ethernet::new();
    let listener = ethernet.listener(1);
    let peer = SocketAddrV4::new(ip(7), 1234);
    let answers = ethernet.put(segment(peer, 100, None, TcpControl::Syn).write());
    assert_eq!((answers[0].control, answers[0].ack), (TcpControl::Syn, Some(101)));
    // The same again: at once for the same request, and later by itself.
    assert_eq!(ethernet.put(segment(peer, 100, None, TcpControl::Syn).write()), answers);
    let machine = &mut ethernet.machines[0];
    machine.pass(Duration::from_millis(1001));
    let again = machine.stack.wire().unwrap().take().and_then(|frame| Segment::read(&frame));
    assert_eq!(again, Some(answers[0]));
    // A wrong number opens nothing, and is not answered.
    let wrong = ethernet.put(segment(peer, 101, Some(answers[0].seq + 2), TcpControl::None).write());
    assert!(wrong.is_empty() && ethernet.machines[0].stack.accept(listener).is_err());
    ethernet.put(segment(peer, 101, Some(answers[0].seq + 1), TcpControl::None).write());
    assert!(ethernet.machines[0].stack.accept(listener).is_ok());
    assert_eq!(ethernet.machines[0].stack.card.as_ref().unwrap().half_open.len(), 0);
}

#[test]
fn a_request_that_nobody_follows_is_forgotten() {
    let mut ethernet = Ethernet::new();
    ethernet.listener(1);
    let peer = SocketAddrV4::new(ip(7), 1234);
    ethernet.put(segment(peer, 100, None, TcpControl::Syn).write());
    let machine = &mut ethernet.machines[0];
    // It is no socket.
    assert_eq!(machine.stack.len(), 1);
    for _ in 0..20 {
        machine.pass(Duration::from_secs(1));
    }
    let answers = std::iter::from_fn(|| machine.stack.wire().unwrap().take()).count();
    assert_eq!((answers, machine.stack.card.as_ref().unwrap().half_open.len()), (3, 0));
    assert_eq!(machine.settle(), None);
}

/// Of a million requests in the name of others each costs a record, and only so many are kept. A real client still
/// connects.
#[test]
fn a_flood_of_requests() {
    let mut ethernet = Ethernet::new();
    let listener = ethernet.listener(8);
    for number in 0..1_000_000_u32 {
        let [.., a, b, c] = number.to_be_bytes();
        let peer = SocketAddrV4::new(Ipv4Addr::new(198, a, b, c), 1024 + number as u16 % 60_000);
        ethernet.put(segment(peer, number as i32, None, TcpControl::Syn).write());
        assert!(ethernet.machines[0].stack.card.as_ref().unwrap().half_open.len() <= MOST);
    }
    assert_eq!(ethernet.machines[0].stack.len(), 1);
    let client = ethernet.connect();
    assert_ne!(ethernet.machines[1].signals(client) & CONNECTED, 0);
    assert!(ethernet.machines[0].stack.accept(listener).is_ok());
}

/// Addresses that cannot be another machine's, and frames that are not for this one.
#[test]
fn segments_with_impossible_addresses() {
    let mut ethernet = Ethernet::new();
    ethernet.listener(8);
    let syn = |from: Ipv4Addr, to: Ipv4Addr, to_mac: u8| {
        let syn = segment(SocketAddrV4::new(from, 1000), 5, None, TcpControl::Syn);
        let macs = [syn.macs[0], EthernetAddress(mac(to_mac))];
        Segment { macs, to: SocketAddrV4::new(to, PORT).into(), ..syn }.write()
    };
    assert_eq!(ethernet.put(syn(ip(7), ip(1), 1)).len(), 1);
    let loopback = Ipv4Addr::LOCALHOST;
    for (from, to, to_mac) in [
        (loopback, ip(1), 1),
        (ip(1), ip(1), 1),
        (Ipv4Addr::BROADCAST, ip(1), 1),
        (Ipv4Addr::UNSPECIFIED, ip(1), 1),
        (Ipv4Addr::new(224, 0, 0, 1), ip(1), 1),
        (ip(7), loopback, 1),
        (ip(7), ip(255), 1),
        (ip(255), ip(1), 1),
        (ip(7), Ipv4Addr::BROADCAST, 1),
        (ip(7), ip(3), 1),
        (ip(7), ip(1), 3),
        (ip(7), ip(1), 255),
    ] {
        assert!(ethernet.put(syn(from, to, to_mac)).is_empty(), "{from} {to} {to_mac}");
    }
}

pub fn datagram(to: SocketAddrV4, len: usize) -> Vec<u8> {
    [&network_protocol::encode_header(Some(to.into()))[..], &vec![7; len]].concat()
}

#[test]
fn datagrams() {
    let mut ethernet = Ethernet::new();
    let [receiver, sender] = [0, 1].map(|at| ethernet.machines[at].open(Family::V4, Kind::Datagram));
    let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 5000);
    ethernet.machines[0].ask(receiver, Request::Bind(any.into())).unwrap();
    let to = SocketAddrV4::new(ip(1), 5000);
    for len in [0, 1, 1472] {
        ethernet.machines[1].write(sender, &datagram(to, len));
        ethernet.settle();
        assert_eq!(ethernet.machines[0].read(receiver).len(), HEADER + len);
    }
    // More than a frame holds.
    ethernet.machines[1].write(sender, &datagram(to, 1473));
    ethernet.settle();
    assert!(ethernet.machines[0].read(receiver).is_empty());
    // Many at once, also when the card has no room for a while: those behind wait for room.
    for len in [1000, 1, 0, 1472] {
        ethernet.machines[1].stack.set_room(0);
        for _ in 0..100 {
            ethernet.machines[1].pipe(sender).service().inbox.push_back(datagram(to, len));
        }
        ethernet.machines[1].settle();
        ethernet.settle();
        assert_eq!(ethernet.machines[0].read(receiver).len(), 100 * (HEADER + len), "{len} bytes");
    }
    // To all, if the sender says so.
    let to_all = SocketAddrV4::new(ip(255), 5000);
    assert_eq!(ethernet.machines[1].ask(sender, Request::Prepare(to_all.into())), Err(Error::Denied));
    ethernet.machines[1].ask(sender, Request::Set(Choice::Broadcast, 1)).unwrap();
    for to in [to_all, SocketAddrV4::new(Ipv4Addr::BROADCAST, 5000)] {
        ethernet.machines[1].write(sender, &datagram(to, 10));
        ethernet.settle();
        assert_eq!(ethernet.machines[0].read(receiver).len(), HEADER + 10);
    }
}

/// Nobody has the receiver's address: the datagrams are dropped, and no timer remains.
#[test]
fn a_receiver_that_is_not_there() {
    let mut ethernet = Ethernet::new();
    let sender = ethernet.machines[1].open(Family::V4, Kind::Datagram);
    let to = SocketAddrV4::new(ip(77), 5000);
    ethernet.machines[1].ask(sender, Request::Connect { to: to.into(), wait: true }).unwrap();
    for len in [10, 0] {
        ethernet.machines[1].write(sender, &datagram(to, len));
    }
    ethernet.settle();
    for _ in 0..5 {
        ethernet.pass(Duration::from_secs(1));
    }
    assert_ne!(ethernet.machines[1].signals(sender) & ERROR, 0);
    assert_eq!(ethernet.machines[1].settle(), None);
    // The next one, to a machine that is there, goes out.
    let receiver = ethernet.machines[0].open(Family::V4, Kind::Datagram);
    ethernet.machines[0].ask(receiver, Request::Bind(SocketAddrV4::new(ip(1), 5000).into())).unwrap();
    ethernet.machines[1].write(sender, &datagram(SocketAddrV4::new(ip(1), 5000), 10));
    ethernet.settle();
    assert_eq!(ethernet.machines[0].read(receiver).len(), HEADER + 10);
}

/// A question for a neighbour who does not answer delays none for others.
#[test]
fn a_silent_neighbour_delays_no_other() {
    let mut ethernet = Ethernet::new();
    let receiver = ethernet.machines[0].open(Family::V4, Kind::Datagram);
    ethernet.machines[0].ask(receiver, Request::Bind(SocketAddrV4::new(ip(1), 5000).into())).unwrap();
    // More than are remembered.
    for number in (100..200).chain([1]) {
        let sender = ethernet.machines[1].open(Family::V4, Kind::Datagram);
        ethernet.machines[1].write(sender, &datagram(SocketAddrV4::new(ip(number), 5000), 10));
        ethernet.settle();
    }
    assert_eq!(ethernet.machines[0].read(receiver).len(), HEADER + 10);
}

/// The other machine says that nobody has the port. Only a socket that is connected to it gets the error.
#[test]
fn a_port_that_nobody_has() {
    let mut ethernet = Ethernet::new();
    let [connected, other] = [(); 2].map(|()| ethernet.machines[1].open(Family::V4, Kind::Datagram));
    let to = SocketAddrV4::new(ip(1), 5000);
    ethernet.machines[1].ask(connected, Request::Connect { to: to.into(), wait: true }).unwrap();
    for id in [connected, other] {
        ethernet.machines[1].write(id, &datagram(to, 100));
        ethernet.settle();
    }
    assert_ne!(ethernet.machines[1].signals(connected) & ERROR, 0);
    assert_eq!(ethernet.machines[1].signals(other) & ERROR, 0);
    let error = ethernet.machines[1].ask(connected, Request::Get(Choice::Error));
    assert_eq!(error, Ok(Reply::Value(Error::Refused as u32)));
}

/// The driver has no room for a while.
#[test]
fn a_card_without_room() {
    let mut ethernet = Ethernet::new();
    let (server, client) = ethernet.connection();
    ethernet.machines[0].stack.set_room(0);
    ethernet.machines[0].write(server, b"later");
    assert!(ethernet.machines[0].stack.wire().unwrap().take().is_none());
    assert!(ethernet.machines[0].stack.set_room(1));
    ethernet.settle();
    assert_eq!(ethernet.machines[1].read(client), b"later");
}

#[test]
fn initial_sequence_numbers_do_not_follow_from_each_other() {
    let ethernet = Ethernet::new();
    let machine = &ethernet.machines[0];
    let card = machine.stack.card.as_ref().unwrap();
    let number = |port: u16| {
        let peer = SocketAddrV4::new(ip(2), port).into();
        card.initial_number(SocketAddrV4::new(ip(1), PORT).into(), peer, machine.now())
    };
    let near = (1..1000).filter(|port| number(*port).wrapping_sub(number(port + 1)).unsigned_abs() < 1 << 16).count();
    assert!(near < 5, "{near} of 999 numbers are near the next one");
    // The same addresses get greater numbers later.
    let later = card.initial_number(
        SocketAddrV4::new(ip(1), PORT).into(),
        SocketAddrV4::new(ip(2), 1).into(),
        machine.now() + Duration::from_secs(1),
    );
    assert_eq!(later.wrapping_sub(number(1)), 250_000);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Changed copies of a connection's frames: nothing panics, and all comes to rest.
    #[test]
    fn any_frames(
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..80, any::<u8>(), 0_usize..1600), 1..60),
    ) {
        let mut ethernet = Ethernet::new();
        let (server, client) = ethernet.connection();
        ethernet.machines[0].write(server, &[1; 5000]);
        ethernet.settle();
        ethernet.machines[1].read(client);
        ethernet.settle();
        let frames = ethernet.frames.clone();
        for (frame, at, byte, len) in changes {
            let mut frame = frame.get(&frames).clone();
            if let Some(place) = frame.get_mut(at) {
                *place = byte;
            }
            frame.resize(if len < 100 { len } else { frame.len() }, byte);
            for machine in &mut ethernet.machines {
                machine.stack.wire().unwrap().put(frame.clone());
            }
            ethernet.settle();
        }
        for machine in &mut ethernet.machines {
            let ids: Vec<Id> = machine.stack.sockets.keys().copied().collect();
            ids.into_iter().for_each(|id| machine.stack.close(id));
        }
        for _ in 0..20 {
            ethernet.pass(Duration::from_secs(20));
        }
        for machine in &mut ethernet.machines {
            prop_assert!(rests(machine) && machine.stack.flows.is_empty());
            prop_assert_eq!(machine.settle(), None);
        }
    }
}

/// Records of an answer of a name server's: the type, and the data.
pub type Records<'a> = &'a [(u16, &'a [u8])];
pub const A: u16 = 1;
pub const CNAME: u16 = 5;

/// A name server's answer to a query. A record behind a CNAME is of the name that this says.
pub fn answer(query: &[u8], code: u8, records: Records<'_>) -> Vec<u8> {
    let mut bytes = query.to_vec();
    (bytes[2], bytes[3]) = (0x81, 0x80 | code);
    bytes[7] = records.len() as u8;
    // The name of the question.
    let mut name = 12_u16;
    for (kind, data) in records {
        bytes.extend((0xc000 | name).to_be_bytes());
        bytes.extend(kind.to_be_bytes());
        bytes.extend([0, 1, 0, 0, 0, 9]);
        bytes.extend((data.len() as u16).to_be_bytes());
        if *kind == CNAME {
            name = bytes.len() as u16;
        }
        bytes.extend(*data);
    }
    bytes
}

/// Machine 1 looks up a name, and machine 2 is its name server.
pub struct NameServer {
    pub ethernet: Ethernet,
    socket: Id,
}

impl NameServer {
    pub fn new() -> NameServer {
        let mut ethernet = Ethernet::new();
        let socket = ethernet.machines[1].open(Family::V4, Kind::Datagram);
        ethernet.machines[1].ask(socket, Request::Bind(SocketAddrV4::new(ip(2), 53).into())).unwrap();
        NameServer { ethernet, socket }
    }

    /// Begins a lookup; returns the query and its sender.
    pub fn query(&mut self, name: &str) -> (Vec<u8>, SocketAddrV4) {
        self.ethernet.machines[0].stack.look_up(Name::new(name).unwrap()).unwrap();
        self.ethernet.settle();
        let received = self.received();
        let (Some(std::net::SocketAddr::V4(from)), query) = decode_header(&received).unwrap() else {
            panic!("no address");
        };
        (query.to_vec(), from)
    }

    /// What has come to it.
    pub fn received(&mut self) -> Vec<u8> {
        self.ethernet.machines[1].read(self.socket)
    }

    /// Sends an answer; returns the result, if there is one.
    pub fn say(&mut self, to: SocketAddrV4, bytes: &[u8]) -> Option<Result<Addresses, Error>> {
        let header = network_protocol::encode_header(Some(to.into()));
        self.ethernet.machines[1].write(self.socket, &[&header[..], bytes].concat());
        self.ethernet.settle();
        self.result()
    }

    pub fn result(&mut self) -> Option<Result<Addresses, Error>> {
        self.ethernet.machines[0].stack.looked_up().pop().map(|(_, result)| result)
    }
}

#[test]
fn names_are_looked_up() {
    let mut server = NameServer::new();
    let found = |ips: &[Ipv4Addr]| Some(Ok(Addresses::new(ips.iter().map(|ip| (*ip).into())).unwrap()));
    let (query, from) = server.query("host.example");
    let good = answer(&query, 0, &[(A, &[192, 0, 2, 33]), (A, &[192, 0, 2, 34])]);
    assert_eq!(server.say(from, &good), found(&[ip(33), ip(34)]));
    // A chain of names.
    let (query, from) = server.query("www.host.example");
    let chain: Records<'_> = &[(CNAME, b"\x05other\x00"), (CNAME, b"\x04last\x00"), (A, &[192, 0, 2, 35])];
    assert_eq!(server.say(from, &answer(&query, 0, chain)), found(&[ip(35)]));
    // No such name, and a name without an address.
    for (code, records) in [(3, &[][..]), (0, &[])] {
        let (query, from) = server.query("nobody.example");
        assert_eq!(server.say(from, &answer(&query, code, records)), Some(Err(Error::NoName)));
    }
    assert!(server.ethernet.machines[0].stack.looked_up().is_empty());
}

#[test]
fn forged_and_late_answers_are_ignored() {
    let mut server = NameServer::new();
    let (query, from) = server.query("host.example");
    let good = answer(&query, 0, &[(A, &[192, 0, 2, 33])]);
    let mut wrong_number = good.clone();
    wrong_number[1] ^= 1;
    assert_eq!(server.say(from, &wrong_number), None);
    let (other, _) = server.query("else.example");
    let mut wrong_question = answer(&other, 0, &[(A, &[192, 0, 2, 66])]);
    wrong_question[..2].copy_from_slice(&good[..2]);
    assert_eq!(server.say(from, &wrong_question), None);
    assert_eq!(server.say(SocketAddrV4::new(ip(1), from.port() ^ 1), &good), None);
    for len in 0..good.len() {
        // Not even the header, or part of a record. The answer may be taken as one without an address.
        let result = server.say(from, &good[..len]);
        assert!(result.is_none() || result == Some(Err(Error::NoName)), "{len} bytes: {result:?}");
        if result.is_some() {
            return;
        }
    }
    assert!(matches!(server.say(from, &good), Some(Ok(_))));
    assert_eq!(server.say(from, &good), None);
}

#[test]
fn a_name_server_that_does_not_answer() {
    let mut server = NameServer::new();
    server.query("host.example");
    let mut result = None;
    for _ in 0..40 {
        server.ethernet.pass(Duration::from_secs(1));
        result = result.or(server.result());
    }
    assert_eq!(result, Some(Err(Error::NoNameServer)));
    // Lookups that nobody waits for any more make room.
    let stack = &mut server.ethernet.machines[0].stack;
    let name = Name::new("host.example").unwrap();
    let ids: Vec<u64> = (0..LOOKUPS).map(|_| stack.look_up(name).unwrap()).collect();
    assert_eq!(stack.look_up(name), Err(Error::TooMany));
    stack.cancel_lookup(ids[3]);
    assert!(stack.look_up(name).is_ok());
}
