//! Buffer sizes, sizes of segments, and what a client learns about its connection.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use network_protocol::{CONNECTED, Choice, Error, Family, Information, Kind, Reply, Request, encode_header, tcp_state};
use service::Program;
use smoltcp::time::Duration;
use smoltcp::wire::TcpControl;

use super::card::{Ethernet, PORT, ip, segment};
use super::machine::Machine;
use crate::ports::Id;
use crate::segments::Segment;
use crate::udp::TURN;

fn set(machine: &mut Machine, id: Id, choice: Choice, value: u32) -> Result<Reply, Error> {
    machine.ask(id, Request::Set(choice, value))
}

fn get(machine: &mut Machine, id: Id, choice: Choice) -> u32 {
    match machine.ask(id, Request::Get(choice)) {
        Ok(Reply::Value(value)) => value,
        other => panic!("{other:?}"),
    }
}

fn information(machine: &mut Machine, id: Id) -> Information {
    match machine.ask(id, Request::Information) {
        Ok(Reply::Information(information)) => information,
        other => panic!("{other:?}"),
    }
}

const BUFFERS: [Choice; 2] = [Choice::ReceiveBuffer, Choice::SendBuffer];

#[test]
fn sizes_of_buffers_have_bounds() {
    let mut machine = Machine::new(true);
    let id = machine.open(Family::V4, Kind::Stream);
    for choice in BUFFERS {
        assert_eq!(get(&mut machine, id, choice), 64 << 10);
        for (asked, got) in [(0, 4096), (5000, 5000), (u32::MAX, 256 << 10)] {
            assert_eq!(set(&mut machine, id, choice, asked), Ok(Reply::Done));
            assert_eq!(get(&mut machine, id, choice), got);
        }
    }
    // Datagrams and direct connections have those of their data socket, whatever was asked.
    let datagrams = machine.open(Family::V4, Kind::Datagram);
    set(&mut machine, datagrams, Choice::ReceiveBuffer, 4096).unwrap();
    let (listener, at) = machine.listener(1);
    // It is too late for these, which is no error.
    assert_eq!(set(&mut machine, listener, Choice::ReceiveBuffer, 8192), Ok(Reply::Done));
    assert_eq!(get(&mut machine, listener, Choice::ReceiveBuffer), 64 << 10);
    assert_eq!(machine.ask(id, Request::Connect { to: at, wait: true }), Ok(Reply::Done));
    assert_eq!(set(&mut machine, id, Choice::SendBuffer, 8192), Ok(Reply::Done));
    for id in [datagrams, id] {
        assert_eq!(get(&mut machine, id, Choice::ReceiveBuffer), 256 << 10);
    }
}

/// A smaller buffer costs less of the service's memory.
#[test]
fn buffers_are_charged_by_their_size() {
    let connections = |size: u32| {
        let mut machine = Machine::new(false);
        machine.stack.limit_buffers(1 << 20);
        let (_, at) = machine.listener(100);
        let mut clients = Vec::new();
        for _ in 0..40 {
            let id = machine.stack.open(Program(2), Family::V4, Kind::Stream, ()).unwrap();
            for choice in BUFFERS {
                set(&mut machine, id, choice, size).unwrap();
            }
            let begun = machine.ask(id, Request::Connect { to: at, wait: false });
            assert!(matches!(begun, Err(Error::InProgress | Error::NoMemory)), "{begun:?}");
            clients.push(id);
        }
        clients.into_iter().filter(|id| machine.signals(*id) & CONNECTED != 0).count()
    };
    let [large, usual, small] = [256 << 10, 64 << 10, 4 << 10].map(connections);
    assert!((1..=2).contains(&large) && usual > large && small > usual, "{large} {usual} {small}");
}

/// Machine 1 listens with these options.
fn listener(ethernet: &mut Ethernet, options: &[(Choice, u32)]) -> Id {
    let machine = &mut ethernet.machines[0];
    let listener = machine.open(Family::V4, Kind::Stream);
    for (choice, value) in options {
        set(machine, listener, *choice, *value).unwrap();
    }
    machine.ask(listener, Request::Bind(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, PORT).into())).unwrap();
    machine.ask(listener, Request::Listen(4)).unwrap();
    listener
}

/// A connection of machine 2, with these options, to a listener with those. Returns the ends in machine 1 and 2.
fn connection(ethernet: &mut Ethernet, theirs: &[(Choice, u32)], ours: &[(Choice, u32)]) -> (Id, Id) {
    let listener = listener(ethernet, theirs);
    let client = ethernet.machines[1].open(Family::V4, Kind::Stream);
    for (choice, value) in ours {
        set(&mut ethernet.machines[1], client, *choice, *value).unwrap();
    }
    let to: SocketAddr = SocketAddrV4::new(ip(1), PORT).into();
    assert_eq!(ethernet.machines[1].ask(client, Request::Connect { to, wait: true }), Err(Error::InProgress));
    ethernet.settle();
    let (server, _) = ethernet.machines[0].stack.accept(listener).unwrap();
    ethernet.machines[0].stack.close(listener);
    (server, client)
}

/// Sends bytes from a machine's socket to the other machine's.
fn transfer(ethernet: &mut Ethernet, from: (usize, Id), to: Id, len: usize) {
    let sent: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
    ethernet.machines[from.0].write(from.1, &sent);
    let mut received = Vec::new();
    for _ in 0..10_000 {
        ethernet.settle();
        received.extend(ethernet.machines[1 - from.0].read(to));
        if received.len() >= len {
            break;
        }
        ethernet.pass(Duration::from_millis(5));
    }
    assert!(received == sent, "{} of {len}", received.len());
}

#[test]
fn buffers_of_all_sizes_carry_bytes() {
    for (size, window, scale) in [(4096, 4096, 0), (10_000, 10_000, 0), (65_536, 65_535, 1), (262_144, 65_535, 3)] {
        let mut ethernet = Ethernet::new();
        let both = BUFFERS.map(|choice| (choice, size));
        let (server, client) = connection(&mut ethernet, &both, &both);
        let answers = ethernet.frames.iter().filter_map(|frame| Segment::read(frame));
        for syn in answers.filter(|segment| segment.control == TcpControl::Syn) {
            assert_eq!((u32::from(syn.window), syn.options.scale), (window, Some(scale)), "{size}");
        }
        for (machine, id) in [(0, server), (1, client)] {
            assert_eq!(get(&mut ethernet.machines[machine], id, Choice::ReceiveBuffer), size);
            assert_eq!(information(&mut ethernet.machines[machine], id).receive_space, size);
            // What the peer may send is never more than the peer's buffer.
            assert!(information(&mut ethernet.machines[machine], id).peer_window <= size);
        }
        transfer(&mut ethernet, (1, client), server, 300_000);
        transfer(&mut ethernet, (0, server), client, 300_000);
    }
}

/// A record of a half-open connection is of the listener that was asked, and of no later one.
#[test]
fn another_listener_with_other_buffers() {
    let mut ethernet = Ethernet::new();
    let first = listener(&mut ethernet, &[(Choice::ReceiveBuffer, 8192)]);
    let peer = SocketAddrV4::new(ip(9), 5000);
    // The answer must find the peer's hardware address in the frame.
    let answers = ethernet.put(segment(peer, 100, None, TcpControl::Syn).write());
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].window, 8192);
    ethernet.machines[0].stack.close(first);
    ethernet.settle();
    let second = listener(&mut ethernet, &[]);
    let ours = answers[0].seq.wrapping_add(1);
    ethernet.put(segment(peer, 101, Some(ours), TcpControl::None).write());
    assert_eq!(ethernet.machines[0].stack.accept(second), Err(Error::Again));
    assert_eq!(ethernet.machines[0].stack.len(), 1);
}

#[test]
fn segments_are_not_longer_than_asked() {
    let limit = [(Choice::MaxSegment, 500)];
    for (theirs, ours) in [(&limit[..], &[][..]), (&[], &limit)] {
        let mut ethernet = Ethernet::new();
        let (server, client) = connection(&mut ethernet, theirs, ours);
        for (machine, id) in [(0, server), (1, client)] {
            assert_eq!(get(&mut ethernet.machines[machine], id, Choice::MaxSegment), 500);
            assert_eq!(information(&mut ethernet.machines[machine], id).send_segment, 500);
        }
        transfer(&mut ethernet, (1, client), server, 20_000);
        transfer(&mut ethernet, (0, server), client, 20_000);
        let segments: Vec<Segment> = ethernet.frames.iter().filter_map(|frame| Segment::read(frame)).collect();
        assert_eq!(segments.iter().map(|segment| segment.len).max(), Some(500));
        let told = segments.iter().filter_map(|segment| segment.options.max_segment).min();
        assert_eq!(told, Some(500));
        let machine = &mut ethernet.machines[1];
        assert_eq!(set(machine, client, Choice::MaxSegment, 600), Err(Error::Invalid));
    }
}

#[test]
fn limits_on_segments() {
    let mut machine = Machine::new(true);
    let id = machine.open(Family::V4, Kind::Stream);
    assert_eq!(get(&mut machine, id, Choice::MaxSegment), 536);
    for wrong in [1, 87, 32_768, u32::MAX] {
        assert_eq!(set(&mut machine, id, Choice::MaxSegment, wrong), Err(Error::Invalid));
    }
    set(&mut machine, id, Choice::MaxSegment, 88).unwrap();
    assert_eq!(get(&mut machine, id, Choice::MaxSegment), 88);
    set(&mut machine, id, Choice::MaxSegment, 0).unwrap();
    assert_eq!(get(&mut machine, id, Choice::MaxSegment), 536);
    let datagrams = machine.open(Family::V4, Kind::Datagram);
    assert_eq!(set(&mut machine, datagrams, Choice::MaxSegment, 88), Err(Error::NoOption));
    assert_eq!(machine.ask(datagrams, Request::Get(Choice::MaxSegment)), Err(Error::NoOption));
    assert_eq!(machine.ask(datagrams, Request::Information), Err(Error::NoOption));
    // A direct connection has no segments: the value is that of the loopback.
    let (client, _) = machine.connection();
    assert_eq!(get(&mut machine, client, Choice::MaxSegment), 65_495);
}

#[test]
fn a_client_learns_about_its_connection() {
    let mut machine = Machine::new(true);
    let fresh = machine.open(Family::V4, Kind::Stream);
    let (listener, _) = machine.listener(1);
    let (direct, _) = machine.connection();
    for (id, state) in [(fresh, tcp_state::CLOSED), (listener, tcp_state::LISTEN), (direct, tcp_state::ESTABLISHED)] {
        assert_eq!(information(&mut machine, id), Information { state, ..Information::default() });
    }
    let mut ethernet = Ethernet::new();
    let (server, client) = connection(&mut ethernet, &[], &[]);
    let before = information(&mut ethernet.machines[1], client);
    assert_eq!((before.state, before.retransmissions, before.in_flight), (tcp_state::ESTABLISHED, 0, 0));
    assert_eq!((before.mtu, before.send_segment, before.receive_segment), (1500, 1460, 1460));
    assert_eq!(before.scales, Some((1, 1)));
    // A frame is lost, and comes again.
    ethernet.loses[1] = 1;
    ethernet.machines[1].write(client, b"lost");
    ethernet.settle();
    let lost = information(&mut ethernet.machines[1], client);
    assert_eq!((lost.in_flight, lost.unacknowledged), (4, 4));
    for _ in 0..50 {
        ethernet.pass(Duration::from_millis(100));
    }
    assert_eq!(ethernet.machines[0].read(server), b"lost");
    let after = information(&mut ethernet.machines[1], client);
    assert_eq!((after.in_flight, after.unacknowledged), (0, 0));
    assert!(after.retransmissions >= 1 && after.congestion_window > 0);
    ethernet.machines[0].stack.close(server);
    ethernet.settle();
    assert_eq!(information(&mut ethernet.machines[1], client).state, tcp_state::CLOSE_WAIT);
}

/// What a client wrote before a request is sent before it.
#[test]
fn requests_do_not_overtake_datagrams() {
    for (kind, data) in [(Kind::Datagram, &b"hello"[..]), (Kind::Echo, &[8, 0, 0, 0, 0, 0, 0, 0])] {
        let mut ethernet = Ethernet::new();
        let machine = &mut ethernet.machines[0];
        let id = machine.open(Family::V4, kind);
        let peer = |number: u8| SocketAddr::from((ip(number), if kind == Kind::Echo { 0 } else { PORT }));
        machine.ask(id, Request::Connect { to: peer(2), wait: true }).unwrap();
        let write = |machine: &mut Machine| {
            let datagram = [&encode_header(None)[..], data].concat();
            machine.pipe(id).service().inbox.push_back(datagram);
        };
        // The service hears of each datagram only after all requests.
        for ttl in [10, 20] {
            machine.stack.request(id, Request::Set(Choice::Ttl, ttl)).unwrap();
            write(machine);
        }
        machine.stack.request(id, Request::Connect { to: peer(3), wait: true }).unwrap();
        ethernet.settle();
        let is = |frame: &&Vec<u8>| frame[11] == 1 && frame[12..14] == [8, 0];
        let sent: Vec<_> = ethernet.frames.iter().filter(is).map(|frame| (frame[22], frame[33])).collect();
        assert_eq!(sent, [(10, 2), (20, 2)]);
    }
    // A member that leaves hears what it said before.
    let mut machine = Machine::new(true);
    let (group, interface) = (Ipv4Addr::new(239, 1, 2, 3), Ipv4Addr::LOCALHOST);
    let id = machine.open(Family::V4, Kind::Datagram);
    machine.ask(id, Request::Bind((interface, PORT).into())).unwrap();
    let loopback = Request::Set(Choice::MulticastInterface, interface.to_bits());
    machine.ask(id, loopback).unwrap();
    let any = machine.open(Family::V4, Kind::Datagram);
    machine.ask(any, Request::Bind((Ipv4Addr::UNSPECIFIED, PORT + 1).into())).unwrap();
    machine.ask(any, loopback).unwrap();
    machine.ask(any, Request::Group { join: true, group, interface }).unwrap();
    machine.pipe(any).service().inbox.push_back(encode_header(Some((group, PORT + 1).into())).to_vec());
    machine.stack.request(any, Request::Group { join: false, group, interface }).unwrap();
    assert_eq!(machine.pipe(any).client().inbox.len(), 1);
    // A request does not do endless work.
    let nobody = encode_header(Some((Ipv4Addr::LOCALHOST, 9).into())).to_vec();
    machine.pipe(id).service().inbox.extend(std::iter::repeat_n(nobody, 100));
    machine.stack.request(id, Request::Set(Choice::Ttl, 1)).unwrap();
    assert_eq!(machine.pipe(id).service().inbox.len(), 100 - TURN);
}

/// An option that is set while a connection begins does not take away the attempt's time limit.
#[test]
fn an_attempt_ends_whatever_is_set() {
    let mut ethernet = Ethernet::new();
    let id = ethernet.machines[0].open(Family::V4, Kind::Stream);
    let to: SocketAddr = SocketAddrV4::new(ip(77), PORT).into();
    assert_eq!(ethernet.machines[0].ask(id, Request::Connect { to, wait: false }), Err(Error::InProgress));
    for choice in [Choice::NoDelay, Choice::KeepAlive] {
        set(&mut ethernet.machines[0], id, choice, 1).unwrap();
    }
    for _ in 0..130 {
        ethernet.pass(Duration::from_secs(1));
    }
    assert_eq!(get(&mut ethernet.machines[0], id, Choice::Error), Error::TimedOut as u32);
}
