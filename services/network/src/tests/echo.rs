//! Echo requests: over the loopback, between two machines, and what strangers send.

use std::net::{IpAddr, SocketAddr};

use network_protocol::{Choice, ERROR, Error, Family, Kind, Reply, Request, decode_header, encode_header};
use proptest::prelude::*;
use smoltcp::time::Duration;
use smoltcp::wire::Ipv4Packet;

use super::card::{Ethernet, ip};
use super::machine::Machine;
use crate::lookup::DNS;
use crate::ports::Id;

fn message(kind: u8, sequence: u8, len: usize) -> Vec<u8> {
    [&[kind, 0, 0, 0, 0xab, 0xcd, 0, sequence][..], &vec![sequence; len]].concat()
}

fn request(to: Option<SocketAddr>, message: &[u8]) -> Vec<u8> {
    [&encode_header(to)[..], message].concat()
}

fn at(text: &str) -> SocketAddr {
    SocketAddr::new(text.parse().unwrap(), 0)
}

/// The identifier of a socket.
fn ident(machine: &mut Machine, id: Id) -> u16 {
    machine.address(id).port()
}

/// The messages that a client can read, with their senders.
fn answers(machine: &mut Machine, id: Id) -> Vec<(IpAddr, Vec<u8>)> {
    let all: Vec<Vec<u8>> = machine.pipe(id).client().inbox.drain(..).collect();
    all.iter()
        .map(|one| {
            let (from, message) = decode_header(one).unwrap();
            (from.unwrap().ip(), message.to_vec())
        })
        .collect()
}

/// The sum of ICMP over IPv4: of a whole message it is zero.
fn sum(message: &[u8]) -> u16 {
    let words = message.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let sum = words.sum::<u32>();
    let sum = (sum & 0xffff) + (sum >> 16);
    !(((sum & 0xffff) + (sum >> 16)) as u16)
}

#[test]
fn the_loopback_answers() {
    for direct in [false, true] {
        let mut machine = Machine::new(direct);
        for (family, to, kinds) in [(Family::V4, "127.0.0.9", [8, 0]), (Family::V6, "::1", [128, 129])] {
            let id = machine.open(family, Kind::Echo);
            assert_eq!(machine.ask(id, Request::Prepare(at(to))), Ok(Reply::Done));
            machine.write(id, &request(Some(at(to)), &message(kinds[0], 7, 3)));
            let own = ident(&mut machine, id).to_be_bytes();
            let found = answers(&mut machine, id);
            assert_eq!(found.len(), 1);
            assert_eq!(found[0].0, to.parse::<IpAddr>().unwrap());
            let echo = &found[0].1;
            assert_eq!((echo[..2].to_vec(), &echo[4..]), (vec![kinds[1], 0], &[own[0], own[1], 0, 7, 7, 7, 7][..]));
            assert!(family == Family::V6 || sum(echo) == 0);
        }
    }
}

#[test]
fn nothing_but_echo_requests_is_sent() {
    let mut ethernet = Ethernet::new();
    let id = ethernet.machines[0].open(Family::V4, Kind::Echo);
    for to in [SocketAddr::new(ip(2).into(), 0), at("127.0.0.1")] {
        // Answers, errors, redirects, other codes, and what is too short.
        for kind in [0, 3, 5, 13, 128] {
            ethernet.machines[0].write(id, &request(Some(to), &message(kind, 1, 20)));
        }
        let mut other = message(8, 1, 20);
        other[1] = 1;
        ethernet.machines[0].write(id, &request(Some(to), &other));
        ethernet.machines[0].write(id, &request(Some(to), &message(8, 1, 0)[..7]));
        ethernet.machines[0].write(id, &request(Some(to), &message(8, 1, 70_000)));
    }
    ethernet.settle();
    assert!(answers(&mut ethernet.machines[0], id).is_empty());
    assert!(ethernet.frames.is_empty());
    // Neither addresses of the other family, nor IPv4 by a mapped address.
    let ask = |machine: &mut Machine, id, to| machine.ask(id, Request::Prepare(at(to)));
    assert_eq!(ask(&mut ethernet.machines[0], id, "::1"), Err(Error::WrongFamily));
    let v6 = ethernet.machines[0].open(Family::V6, Kind::Echo);
    assert_eq!(ask(&mut ethernet.machines[0], v6, "::ffff:127.0.0.1"), Err(Error::Unreachable));
    assert_eq!(ask(&mut ethernet.machines[0], id, "192.0.2.255"), Err(Error::Denied));
    assert_eq!(ethernet.machines[0].ask(id, Request::Listen(1)), Err(Error::NotSupported));
}

#[test]
fn an_identifier_belongs_to_one_socket() {
    let mut machine = Machine::new(true);
    let [one, other] = [(); 2].map(|()| machine.open(Family::V4, Kind::Echo));
    for id in [one, other] {
        machine.ask(id, Request::Set(Choice::ReuseAddress, 1)).unwrap();
    }
    machine.ask(one, Request::Bind("127.0.0.1:77".parse().unwrap())).unwrap();
    let again = machine.ask(other, Request::Bind("127.0.0.2:77".parse().unwrap()));
    assert_eq!(again, Err(Error::AddressInUse));
    // It is another number space than ports.
    let datagrams = machine.open(Family::V4, Kind::Datagram);
    machine.ask(datagrams, Request::Bind("127.0.0.1:77".parse().unwrap())).unwrap();
    assert_eq!(machine.ask(one, Request::Get(Choice::Protocol)), Ok(Reply::Value(1)));
    machine.stack.close(one);
    machine.settle();
    machine.ask(other, Request::Bind("127.0.0.2:77".parse().unwrap())).unwrap();
}

/// A program closes a socket and binds another one to its identifier: the service handles both before it sends anything.
#[test]
fn an_identifier_is_free_once_its_socket_is_closed() {
    let mut ethernet = Ethernet::new();
    let machine = &mut ethernet.machines[0];
    // Without requests, with some, with more than a turn sends, and with one that waits for a neighbour who is not there.
    for (to, count) in [(at("127.0.0.1"), 0), (at("127.0.0.1"), 3), (at("127.0.0.1"), 100), (at("192.0.2.77"), 1)] {
        let [one, other] = [(); 2].map(|()| machine.open(Family::V4, Kind::Echo));
        let own = Request::Bind("0.0.0.0:77".parse().unwrap());
        machine.ask(one, own).unwrap();
        assert_eq!(machine.ask(other, own), Err(Error::AddressInUse));
        let pipe = machine.pipe(one);
        pipe.service().inbox.extend((0..count).map(|sequence| request(Some(to), &message(8, sequence, 4))));
        if to != at("127.0.0.1") {
            machine.settle();
        }
        machine.stack.close(one);
        assert_eq!(machine.stack.request(other, own), Ok(Reply::Done), "{to} {count}");
        // What could be sent was.
        let answers = pipe.client().inbox.len();
        assert_eq!(answers, if to == at("127.0.0.1") { count.min(8).into() } else { 0 });
        machine.settle();
        assert!(machine.stack.end(one).is_none());
        machine.stack.close(other);
        machine.settle();
        assert!(machine.stack.is_empty() && machine.stack.packets.keys().all(|id| *id <= DNS));
    }
}

/// An echo socket of machine 1 that is connected with machine 2.
fn connected(ethernet: &mut Ethernet) -> Id {
    let id = ethernet.machines[0].open(Family::V4, Kind::Echo);
    let to = SocketAddr::new(ip(2).into(), 0);
    ethernet.machines[0].ask(id, Request::Connect { to, wait: true }).unwrap();
    id
}

#[test]
fn another_machine_answers_the_owner_only() {
    let mut ethernet = Ethernet::new();
    let (id, other) = (connected(&mut ethernet), connected(&mut ethernet));
    // More than wait for the card at a time.
    for sequence in 0..20 {
        ethernet.machines[0].write(id, &request(None, &message(8, sequence, 1472)));
        ethernet.settle();
    }
    let found = answers(&mut ethernet.machines[0], id);
    assert_eq!(found.len(), 20);
    for (sequence, (from, echo)) in found.iter().enumerate() {
        assert_eq!((*from, echo[0], sum(echo), echo.len()), (ip(2).into(), 0, 0, 1480));
        assert_eq!(usize::from(echo[7]), sequence);
        assert_eq!(echo[4..6], ident(&mut ethernet.machines[0], id).to_be_bytes());
    }
    assert!(answers(&mut ethernet.machines[0], other).is_empty());
    // A longer one is dropped: requests are not split.
    ethernet.machines[0].write(id, &request(None, &message(8, 1, 1473)));
    ethernet.settle();
    assert!(answers(&mut ethernet.machines[0], id).is_empty());
    ethernet.machines[0].stack.close(id);
    ethernet.machines[0].stack.close(other);
    ethernet.settle();
    assert!(ethernet.machines[0].stack.is_empty());
}

/// A frame with an ICMP message from machine 2 to machine 1, whose headers are right.
fn frame(ethernet: &Ethernet, from: u8, message: &[u8]) -> Vec<u8> {
    let like = ethernet.frames.iter().rfind(|frame| frame[12..14] == [8, 0] && frame[23] == 1).unwrap();
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 1, 0, 0, 192, 0, 2, from, 192, 0, 2, 1];
    packet[2..4].copy_from_slice(&((20 + message.len()) as u16).to_be_bytes());
    let check = sum(&packet).to_be_bytes();
    packet[10..12].copy_from_slice(&check);
    let mut message = message.to_vec();
    let check = sum(&message).to_be_bytes();
    message[2..4].copy_from_slice(&check);
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], &like[12..14], &packet, &message].concat()
}

/// A question to all machines is not answered, whatever address is in it: its sender's can be invented.
#[test]
fn all_machines_are_asked() {
    let mut ethernet = Ethernet::new();
    let id = connected(&mut ethernet);
    ethernet.machines[0].write(id, &request(None, &message(8, 1, 4)));
    ethernet.settle();
    let question = frame(&ethernet, 2, &message(8, 9, 4));
    let answers = |ethernet: &mut Ethernet, frame: Vec<u8>| {
        ethernet.frames.clear();
        ethernet.machines[0].stack.wire().unwrap().put(frame);
        ethernet.settle();
        ethernet.frames.len()
    };
    assert_eq!(answers(&mut ethernet, question.clone()), 1);
    let mut to_all = question.clone();
    to_all[..6].fill(0xff);
    assert_eq!(answers(&mut ethernet, to_all.clone()), 0);
    to_all[33] = 255;
    Ipv4Packet::new_unchecked(&mut to_all[14..]).fill_checksum();
    assert_eq!(answers(&mut ethernet, to_all), 0);
}

#[test]
fn answers_of_strangers_are_ignored() {
    let mut ethernet = Ethernet::new();
    let id = connected(&mut ethernet);
    ethernet.machines[0].write(id, &request(None, &message(8, 1, 4)));
    ethernet.settle();
    assert_eq!(answers(&mut ethernet.machines[0], id).len(), 1);
    let own = ident(&mut ethernet.machines[0], id).to_be_bytes();
    let echo = |ident: [u8; 2]| [&[0, 0, 0, 0, ident[0], ident[1], 0, 2][..], b"data"].concat();
    let right = frame(&ethernet, 2, &echo(own));
    for (what, bytes, arrives) in [
        ("right", right.clone(), 1),
        ("another identifier", frame(&ethernet, 2, &echo([own[0], own[1] ^ 1])), 0),
        ("another sender than the peer", frame(&ethernet, 3, &echo(own)), 0),
        ("from this machine", frame(&ethernet, 1, &echo(own)), 0),
        ("a wrong sum", [&right[..right.len() - 1], b"x"].concat(), 0),
        ("too short", frame(&ethernet, 2, &echo(own)[..6]), 0),
    ] {
        ethernet.put(bytes);
        assert_eq!(answers(&mut ethernet.machines[0], id).len(), arrives, "{what}");
    }
    // Not more than the reader's socket holds, and what it does not hold is counted.
    let long = frame(&ethernet, 2, &[&echo(own)[..], &[0; 1400]].concat());
    for _ in 0..300 {
        ethernet.put(long.clone());
    }
    let held = answers(&mut ethernet.machines[0], id).len();
    assert!(held < 300, "{held}");
    assert_eq!(ethernet.machines[0].stack.card_state().unwrap().no_room as usize, 300 - held);
}

#[test]
fn a_host_that_is_not_there_is_told() {
    let mut ethernet = Ethernet::new();
    let id = connected(&mut ethernet);
    ethernet.machines[0].write(id, &request(None, &message(8, 1, 4)));
    ethernet.settle();
    answers(&mut ethernet.machines[0], id);
    let own = ident(&mut ethernet.machines[0], id).to_be_bytes();
    let quoted = |from: u8, to: u8, ident: [u8; 2], kind: u8| {
        let head = [0x45, 0, 0, 32, 0, 0, 0, 0, 64, 1, 0, 0, 192, 0, 2, from, 192, 0, 2, to];
        [&head[..], &[kind, 0, 0, 0, ident[0], ident[1], 0, 1]].concat()
    };
    let error = |kind: u8, code: u8, sent: Vec<u8>| [&[kind, code, 0, 0, 0, 0, 0, 0][..], &sent].concat();
    for (what, bytes, told) in [
        ("no host", error(3, 1, quoted(1, 2, own, 8)), Some(Error::HostUnreachable)),
        ("no network", error(3, 0, quoted(1, 2, own, 8)), Some(Error::Unreachable)),
        ("too many hops", error(11, 0, quoted(1, 2, own, 8)), Some(Error::HostUnreachable)),
        ("another socket's", error(3, 1, quoted(1, 2, [own[0] ^ 1, own[1]], 8)), None),
        ("another peer's", error(3, 1, quoted(1, 3, own, 8)), None),
        ("another machine's", error(3, 1, quoted(2, 2, own, 8)), None),
        ("an answer's", error(3, 1, quoted(1, 2, own, 0)), None),
        ("cut", error(3, 1, quoted(1, 2, own, 8)[..24].to_vec()), None),
    ] {
        // It may be of a router.
        let bytes = frame(&ethernet, 9, &bytes);
        ethernet.put(bytes);
        assert_eq!(ethernet.machines[0].signals(id) & ERROR != 0, told.is_some(), "{what}");
        let number = told.map_or(0, |error| error as u32);
        assert_eq!(ethernet.machines[0].ask(id, Request::Get(Choice::Error)), Ok(Reply::Value(number)), "{what}");
    }
}

#[test]
fn errors_that_no_router_sends() {
    let mut ethernet = Ethernet::new();
    let id = connected(&mut ethernet);
    ethernet.machines[0].write(id, &request(None, &message(8, 1, 4)));
    ethernet.settle();
    let own = ident(&mut ethernet.machines[0], id).to_be_bytes();
    let sent =
        [&[0x45, 0, 0, 32, 0, 0, 0, 0, 64, 1, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2][..], &[8, 0, 0, 0], &own, &[0, 1]];
    let error = [&[3, 1, 0, 0, 0, 0, 0, 0][..], &sent.concat()].concat();
    let right = frame(&ethernet, 9, &error);
    // For another address, and in a packet of IPv6.
    let mut elsewhere = right.clone();
    elsewhere[33] = 8;
    Ipv4Packet::new_unchecked(&mut elsewhere[14..]).fill_checksum();
    let (ethertype, len) = ([0x86, 0xdd], (right.len() - 34) as u8);
    let header = [&[0x60, 0, 0, 0, 0, len, 1, 64][..], &[0xfe; 16], &[0xfd; 16]].concat();
    let inside = [&right[..12], &ethertype, &header, &right[34..]].concat();
    for (frame, told) in [(elsewhere, false), (inside, false), (right, true)] {
        ethernet.put(frame);
        assert_eq!(ethernet.machines[0].signals(id) & ERROR != 0, told);
    }
}

/// A request that waits for a neighbour stays after its client has gone, and keeps its identifier from those that get any.
#[test]
fn a_request_outlives_its_client() {
    let mut ethernet = Ethernet::new();
    let machine = &mut ethernet.machines[0];
    let own: SocketAddr = "0.0.0.0:77".parse().unwrap();
    let id = machine.open(Family::V4, Kind::Echo);
    machine.ask(id, Request::Bind(own)).unwrap();
    machine.write(id, &request(Some(SocketAddr::new(ip(99).into(), 0)), &message(8, 1, 4)));
    machine.stack.close(id);
    machine.settle();
    assert!(machine.stack.packets.contains_key(&id) && machine.stack.ports.at(Kind::Echo, 77).len() == 1);
    for _ in 0..5 {
        ethernet.pass(Duration::from_secs(1));
    }
    assert!(ethernet.machines[0].stack.is_empty());
}

/// ICMP over IPv6 is another protocol: such a socket cannot take IPv4.
#[test]
fn a_socket_has_one_family() {
    let mut machine = Machine::new(true);
    let id = machine.open(Family::V6, Kind::Echo);
    assert_eq!(machine.ask(id, Request::Set(Choice::OnlyV6, 0)), Err(Error::Invalid));
    assert_eq!(machine.ask(id, Request::Set(Choice::OnlyV6, 1)), Ok(Reply::Done));
}

#[test]
fn a_neighbour_that_does_not_answer_is_told() {
    let mut ethernet = Ethernet::new();
    let id = ethernet.machines[0].open(Family::V4, Kind::Echo);
    let to = SocketAddr::new(ip(77).into(), 0);
    ethernet.machines[0].ask(id, Request::Connect { to, wait: true }).unwrap();
    for sequence in 0..20 {
        ethernet.machines[0].write(id, &request(None, &message(8, sequence, 4)));
    }
    for _ in 0..20 {
        ethernet.pass(Duration::from_secs(1));
    }
    let told = ethernet.machines[0].ask(id, Request::Get(Choice::Error));
    assert_eq!(told, Ok(Reply::Value(Error::HostUnreachable as u32)));
    ethernet.machines[0].stack.close(id);
    for _ in 0..5 {
        ethernet.pass(Duration::from_secs(1));
    }
    assert!(ethernet.machines[0].stack.is_empty());
}

proptest! {
    /// Whatever a client writes, the service goes on, and only echo requests with the socket's identifier leave.
    #[test]
    fn any_bytes_of_a_client(all in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..20)) {
        let mut ethernet = Ethernet::new();
        let id = connected(&mut ethernet);
        let own = ident(&mut ethernet.machines[0], id);
        for bytes in &all {
            ethernet.machines[0].write(id, bytes);
            ethernet.machines[0].write(id, &request(None, &[&[8, 0], &bytes[..]].concat()));
        }
        ethernet.settle();
        for frame in ethernet.frames.iter().filter(|frame| frame[12..14] == [8, 0] && frame[29] == 1) {
            prop_assert_eq!(frame[23], 1);
            prop_assert_eq!(&frame[34..36], &[8, 0]);
            prop_assert_eq!(&frame[38..40], &own.to_be_bytes());
        }
    }
}
