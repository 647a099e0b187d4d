//! Tests of the stack, with correct and incorrect clients.

mod card;
mod carrier;
mod checksum;
mod costs;
mod dhcp;
mod echo;
mod ending;
mod forged;
mod groups;
mod groups_v6;
mod idle;
mod ipv6;
mod lookup_stream;
mod losses;
mod lost;
mod machine;
mod options;
mod path;
mod patterns;
mod rules;
mod shortcuts;

use std::net::SocketAddr;

use chacha20::ChaCha20Rng;
use network_protocol::{CONNECTED, Choice, DATAGRAM_MAX, ERROR, Error, Family, HEADER, INCOMING, Kind, Reply, Request};
use proptest::prelude::*;
use rand_core::SeedableRng;
use service::Program;
use smoltcp::time::Duration;

use crate::frames::{self, Frame};
use crate::ports::{Binding, Id, Ports};
use crate::stack::{HOLDERS, SOCKETS_OF_PROGRAM, STEPS};
use crate::udp::TURN;
use machine::Machine;

#[test]
fn bytes_there_and_back() {
    for direct in [false, true] {
        let mut machine = Machine::new(direct);
        let (client, server) = machine.connection();
        assert_ne!(machine.signals(client) & CONNECTED, 0);
        machine.write(client, b"hello");
        assert_eq!(machine.read(server), b"hello");
        machine.write(server, b"you");
        assert_eq!(machine.read(client), b"you");
        // An idle connection needs no timer.
        assert_eq!(machine.settle(), None);
    }
}

/// Ports that nobody can predict: no port is free right after the one before more often than chance has it.
#[test]
fn ephemeral_ports_are_random_and_all_are_used() {
    let mut ports = Ports::new(ChaCha20Rng::from_seed([3; 32]));
    let mut binding =
        Binding { id: 1, address: SocketAddr::from(([127, 0, 0, 1], 0)), both: false, reuse: false, listens: false };
    let mut bound: Vec<u16> = Vec::new();
    while let Ok(port) = ports.bind(Kind::Stream, binding) {
        binding.id += 1;
        bound.push(port);
    }
    let early = &bound[..1000];
    let next = early.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) == 1).count();
    assert!(next < 10, "{next} of 1000 ports follow the one before");
    bound.sort_unstable();
    assert!(bound.into_iter().eq(32_768..=60_999));
}

#[test]
fn more_than_all_buffers_hold() {
    let mut machine = Machine::new(false);
    let (client, server) = machine.connection();
    let sent: Vec<u8> = (0..1_000_000u32).map(|at| (at % 251) as u8).collect();
    machine.write(client, &sent);
    let mut received = Vec::new();
    while received.len() < sent.len() {
        let part = machine.read(server);
        // If the reader was slow, the sender probes from time to time whether there is room.
        if part.is_empty() {
            machine.pass(Duration::from_secs(1));
        }
        received.extend(part);
    }
    assert!(received == sent);
}

#[test]
fn one_direction_closes_and_the_other_continues() {
    for direct in [false, true] {
        let mut machine = Machine::new(direct);
        let (client, server) = machine.connection();
        machine.write(client, b"last words");
        machine.pipe(client).client().stopped = true;
        machine.settle();
        assert_eq!(machine.read(server), b"last words");
        assert!(machine.pipe(server).service().stopped);
        machine.write(server, b"answer");
        assert_eq!(machine.read(client), b"answer");
        machine.stack.close(server);
        machine.settle();
        assert!(machine.pipe(client).service().stopped);
        assert_eq!(machine.signals(client) & ERROR, 0);
        machine.stack.close(client);
        machine.settle();
        assert!(machine.stack.is_empty() && machine.stack.flows.is_empty());
        assert!(machine.stack.packets.is_empty() && machine.stack.timers.is_empty());
    }
}

#[test]
fn a_clients_data_is_sent_after_it_has_closed() {
    for direct in [false, true] {
        let mut machine = Machine::new(direct);
        let (client, server) = machine.connection();
        let sent = vec![3; 400_000];
        machine.pipe(client).service().inbox.push_back(sent.clone());
        machine.stack.close(client);
        let mut received = Vec::new();
        while received.len() < sent.len() {
            machine.pass(Duration::from_millis(500));
            received.extend(machine.read(server));
        }
        machine.settle();
        assert!(machine.pipe(server).service().stopped);
        assert_eq!(machine.signals(server) & ERROR, 0);
    }
}

#[test]
fn closing_with_unread_data_sends_a_reset() {
    for direct in [false, true] {
        let mut machine = Machine::new(direct);
        let (client, server) = machine.connection();
        machine.write(client, b"unread");
        machine.stack.close(server);
        machine.settle();
        assert_ne!(machine.signals(client) & ERROR, 0);
        assert!(machine.pipe(client).client().stopped);
        assert_ne!(machine.pipe(client).client().at_cut & ERROR, 0, "the end was there before the error");
        assert_eq!(machine.ask(client, Request::Get(Choice::Error)), Ok(Reply::Value(Error::Reset as u32)));
        assert_eq!(machine.ask(client, Request::Get(Choice::Error)), Ok(Reply::Value(0)));
        assert_eq!(machine.signals(client) & ERROR, 0);
    }
}

#[test]
fn an_orphan_ends_in_time() {
    let mut machine = Machine::new(false);
    let (client, server) = machine.connection();
    machine.stack.close(client);
    machine.settle();
    // The other side never closes.
    assert_eq!(machine.stack.len(), 2);
    machine.pass(Duration::from_secs(61));
    assert_eq!(machine.stack.len(), 1);
    machine.stack.close(server);
    machine.settle();
    assert!(machine.stack.is_empty());
}

#[test]
fn refused() {
    for direct in [false, true] {
        let mut machine = Machine::new(direct);
        let (listener, at) = machine.listener(1);
        machine.stack.close(listener);
        let client = machine.open(Family::V4, Kind::Stream);
        assert_eq!(machine.ask(client, Request::Connect { to: at, wait: true }), Err(Error::Refused));
        assert_eq!(machine.signals(client) & ERROR, 0);
        assert_eq!(machine.ask(client, Request::Connect { to: at, wait: false }), Err(Error::InProgress));
        assert_ne!(machine.signals(client) & ERROR, 0);
        assert_eq!(machine.ask(client, Request::Get(Choice::Error)), Ok(Reply::Value(Error::Refused as u32)));
    }
}

#[test]
fn a_full_queue_makes_others_wait() {
    for direct in [false, true] {
        let mut machine = Machine::new(direct);
        let (listener, at) = machine.listener(1);
        let clients: Vec<Id> = (0..4).map(|_| machine.open(Family::V4, Kind::Stream)).collect();
        for client in &clients {
            let _ = machine.ask(*client, Request::Connect { to: at, wait: false });
        }
        let connected =
            |machine: &Machine| clients.iter().filter(|client| machine.signals(**client) & CONNECTED != 0).count();
        assert_eq!(connected(&machine), 2);
        for accepted in 0..4 {
            assert!(machine.signals(listener) & INCOMING != 0, "{accepted}");
            machine.stack.accept(listener).unwrap();
            machine.pass(Duration::from_secs(30));
        }
        assert_eq!(connected(&machine), 4);
        assert_eq!(machine.signals(listener) & INCOMING, 0);
        assert_eq!(machine.stack.accept(listener), Err(Error::Again));
    }
}

#[test]
fn a_queue_that_stays_full() {
    for direct in [false, true] {
        let mut machine = Machine::new(direct);
        let (_listener, at) = machine.listener(0);
        let clients: Vec<Id> = (0..2).map(|_| machine.open(Family::V4, Kind::Stream)).collect();
        for client in &clients {
            let _ = machine.ask(*client, Request::Connect { to: at, wait: false });
        }
        for _ in 0..200 {
            machine.pass(Duration::from_secs(1));
        }
        assert_eq!(machine.ask(clients[1], Request::Get(Choice::Error)), Ok(Reply::Value(Error::TimedOut as u32)));
    }
}

#[test]
fn limits_of_a_program() {
    let mut machine = Machine::new(false);
    for _ in 0..SOCKETS_OF_PROGRAM {
        machine.open(Family::V4, Kind::Stream);
    }
    assert_eq!(machine.stack.open(Program(1), Family::V4, Kind::Stream, ()), Err(Error::TooMany));
    let other = machine.stack.open(Program(2), Family::V6, Kind::Stream, ()).unwrap();
    for _ in 1..HOLDERS {
        machine.stack.share(other).unwrap();
    }
    assert_eq!(machine.stack.share(other), Err(Error::TooMany));
    for _ in 0..HOLDERS {
        machine.stack.close(other);
    }
    assert!(machine.stack.end(other).is_none());
}

/// Buffers of connections in packets are the service's: there are as many as it has memory for, and a program gets half.
#[test]
fn limits_of_buffers() {
    let mut machine = Machine::new(false);
    machine.stack.limit_buffers(16 * 2 * (64 << 10));
    let (_, at) = machine.listener(100);
    let clients: Vec<Id> =
        (0..20).map(|_| machine.stack.open(Program(2), Family::V4, Kind::Stream, ()).unwrap()).collect();
    let results: Vec<_> = clients.iter().map(|id| machine.ask(*id, Request::Connect { to: at, wait: false })).collect();
    let begun = results.iter().filter(|result| **result == Err(Error::InProgress)).count();
    assert!((5..=8).contains(&begun), "{begun}");
    assert!(results.iter().all(|result| matches!(result, Err(Error::InProgress | Error::NoMemory))));
    for id in clients {
        machine.stack.close(id);
    }
    machine.settle();
    machine.pass(Duration::from_secs(130));
    let again = machine.stack.open(Program(2), Family::V4, Kind::Stream, ()).unwrap();
    assert_eq!(machine.ask(again, Request::Connect { to: at, wait: false }), Err(Error::InProgress));
}

/// A datagram with this many bytes to an address.
fn datagram(to: SocketAddr, len: usize) -> Vec<u8> {
    [&network_protocol::encode_header(Some(to))[..], &vec![7; len]].concat()
}

/// A program's socket with unprocessed datagrams.
fn sender(machine: &mut Machine, program: Program, to: SocketAddr, count: usize) -> Id {
    let id = machine.stack.open(program, Family::V4, Kind::Datagram, ()).unwrap();
    let pipe = machine.pipe(id);
    pipe.service().inbox.extend((0..count).map(|_| datagram(to, 1)));
    id
}

#[test]
fn a_thousand_senders_of_one_program_keep_another_for_a_turn() {
    let mut machine = Machine::new(true);
    let nobody: SocketAddr = "127.0.0.1:9".parse().unwrap();
    let senders: Vec<Id> = (0..1000).map(|_| sender(&mut machine, Program(1), nobody, 50)).collect();
    let waiting = |machine: &Machine| -> usize {
        senders.iter().filter_map(|id| Some(machine.stack.end(*id)?.service().inbox.len())).sum()
    };
    machine.packets();
    assert!(machine.poll());
    let before = waiting(&machine);
    assert!(50_000 - before <= STEPS * TURN, "one poll sent {}", 50_000 - before);
    // A request that comes now waits for one step of the other program.
    let receiver = machine.stack.open(Program(2), Family::V4, Kind::Datagram, ()).unwrap();
    machine.stack.request(receiver, Request::Bind("127.0.0.1:40000".parse().unwrap())).unwrap();
    sender(&mut machine, Program(2), "127.0.0.1:40000".parse().unwrap(), 1);
    machine.packets();
    assert!(machine.poll());
    assert_eq!(machine.pipe(receiver).client().inbox.len(), 1);
    // When all its clients close, one poll does not do more.
    for id in &senders {
        machine.stack.close(*id);
    }
    let before = waiting(&machine);
    assert!(before > 0 && machine.poll());
    assert!(before - waiting(&machine) <= STEPS * TURN);
    while machine.poll() {}
    assert_eq!(machine.stack.len(), 2);
}

#[test]
fn the_longest_datagrams() {
    for ip in ["127.0.0.1", "::1"] {
        let mut machine = Machine::new(true);
        let family = if ip == "::1" { Family::V6 } else { Family::V4 };
        let (a, b) = (machine.open(family, Kind::Datagram), machine.open(family, Kind::Datagram));
        machine.ask(b, Request::Bind(SocketAddr::new(ip.parse().unwrap(), 0))).unwrap();
        let to = machine.address(b);
        machine.write(a, &datagram(to, DATAGRAM_MAX));
        assert_eq!(machine.read(b).len(), HEADER + DATAGRAM_MAX, "{ip}");
        machine.write(a, &datagram(to, DATAGRAM_MAX + 1));
        assert!(machine.read(b).is_empty());
    }
}

#[test]
fn who_speaks_to_one_hears_one() {
    let mut machine = Machine::new(true);
    let [a, b, c] = [(); 3].map(|()| machine.open(Family::V4, Kind::Datagram));
    for id in [a, b, c] {
        machine.ask(id, Request::Bind("127.0.0.1:0".parse().unwrap())).unwrap();
    }
    let [to_a, to_b] = [a, b].map(|id| machine.address(id));
    machine.ask(a, Request::Connect { to: to_b, wait: true }).unwrap();
    machine.write(c, &datagram(to_a, 1));
    assert!(machine.read(a).is_empty());
    machine.write(b, &datagram(to_a, 1));
    assert_eq!(machine.read(a).len(), HEADER + 1);
    // The receiver is gone: only a connected socket gets the error.
    machine.stack.close(b);
    machine.settle();
    machine.write(a, &datagram(to_b, 1));
    machine.write(c, &datagram(to_b, 1));
    assert_ne!(machine.signals(a) & ERROR, 0);
    assert_eq!(machine.signals(c) & ERROR, 0);
    assert_eq!(machine.ask(a, Request::Get(Choice::Error)), Ok(Reply::Value(Error::Refused as u32)));
}

#[test]
fn a_closed_listener_refuses_connections_in_slices() {
    let mut machine = Machine::new(true);
    let (listener, at) = machine.listener(100);
    let clients: Vec<Id> = (0..300)
        .map(|_| {
            let id = machine.stack.open(Program(2), Family::V4, Kind::Stream, ()).unwrap();
            let _ = machine.stack.request(id, Request::Connect { to: at, wait: false });
            id
        })
        .collect();
    machine.settle();
    assert_eq!(machine.stack.len(), 1 + 300 + 101);
    machine.stack.close(listener);
    let told = |machine: &Machine| clients.iter().filter(|id| machine.signals(**id) & ERROR != 0).count();
    assert_eq!(told(&machine), 0);
    assert!(machine.poll());
    assert!((1..=STEPS).contains(&told(&machine)));
    machine.settle();
    assert_eq!((told(&machine), machine.stack.len()), (300, 300));
    assert!(machine.stack.asking.is_empty());
}

#[test]
fn datagrams() {
    for direct in [false, true] {
        let mut machine = Machine::new(direct);
        let (a, b) = (machine.open(Family::V4, Kind::Datagram), machine.open(Family::V6, Kind::Datagram));
        machine.ask(b, Request::Bind("[::]:0".parse().unwrap())).unwrap();
        let port = machine.address(b).port();
        let to: SocketAddr = ([127, 0, 0, 1], port).into();
        machine.ask(a, Request::Prepare(to)).unwrap();
        let header = network_protocol::encode_header(Some(to));
        machine.write(a, &[&header[..], b"hello"].concat());
        let received = machine.read(b);
        let (from, bytes) = network_protocol::decode_header(&received).unwrap();
        assert_eq!(bytes, b"hello");
        assert_eq!(from, Some(network_protocol::mapped(SocketAddr::from(([127, 0, 0, 1], machine.address(a).port())))));
        // An invalid datagram is dropped.
        for wrong in [&b""[..], &[1; 3], &[9; 100]] {
            machine.write(a, wrong);
        }
        assert!(machine.read(b).is_empty());
        // Datagrams that were written before the end are still sent.
        machine.pipe(a).service().inbox.push_back([&header[..], b"bye"].concat());
        machine.stack.close(a);
        machine.settle();
        assert!(machine.read(b).ends_with(b"bye"));
    }
}

#[test]
fn places_that_are_not_here() {
    let mut machine = Machine::new(false);
    let stream = machine.open(Family::V4, Kind::Stream);
    let connect = |to: &str| Request::Connect { to: to.parse().unwrap(), wait: true };
    assert_eq!(machine.ask(stream, connect("192.0.2.1:1")), Err(Error::Unreachable));
    assert_eq!(machine.ask(stream, connect("[::1]:1")), Err(Error::WrongFamily));
    assert_eq!(machine.ask(stream, connect("127.0.0.1:0")), Err(Error::Refused));
    assert_eq!(machine.ask(stream, Request::Bind("192.0.2.1:1".parse().unwrap())), Err(Error::AddressNotAvailable));
    assert_eq!(machine.ask(stream, Request::PeerAddress), Err(Error::NotConnected));
    assert_eq!(machine.stack.accept(stream), Err(Error::Invalid));
}

/// Actions of clients, with small numbers so that several act on the same objects.
#[derive(Clone, Debug)]
enum Act {
    Open(bool, bool),
    Ask(usize, Request<'static>),
    Accept(usize),
    Share(usize),
    Close(usize),
    Write(usize, Vec<u8>),
    Stop(usize),
    Read(usize),
    Pass(u16),
}

fn act() -> impl Strategy<Value = Act> {
    let which = || 0..12usize;
    let port = prop::sample::select(vec![0, 1, 2, 40_000]);
    let ip =
        prop::sample::select(vec!["127.0.0.1", "0.0.0.0", "::1", "::", "127.0.0.9", "::ffff:127.0.0.1", "10.0.0.1"]);
    let address = move || (ip.clone(), port.clone()).prop_map(|(ip, port)| SocketAddr::new(ip.parse().unwrap(), port));
    let choice = || prop::sample::select(Choice::ALL);
    let request = prop_oneof![
        address().prop_map(Request::Bind),
        address().prop_map(Request::Prepare),
        (address(), any::<bool>()).prop_map(|(to, wait)| Request::Connect { to, wait }),
        (0..3u32).prop_map(Request::Listen),
        Just(Request::LocalAddress),
        Just(Request::PeerAddress),
        (choice(), prop_oneof![0..3u32, any::<u32>()]).prop_map(|(choice, value)| Request::Set(choice, value)),
        choice().prop_map(Request::Get),
    ];
    prop_oneof![
        2 => (any::<bool>(), any::<bool>()).prop_map(|(v4, stream)| Act::Open(v4, stream)),
        8 => (which(), request).prop_map(|(which, request)| Act::Ask(which, request)),
        3 => which().prop_map(Act::Accept),
        1 => which().prop_map(Act::Share),
        2 => which().prop_map(Act::Close),
        3 => (which(), prop::collection::vec(any::<u8>(), 1..200)).prop_map(|(which, bytes)| Act::Write(which, bytes)),
        1 => which().prop_map(Act::Stop),
        2 => which().prop_map(Act::Read),
        1 => any::<u16>().prop_map(Act::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever clients do, in any order: nothing panics, the stack comes to rest, and when they have gone, nothing is
    /// left.
    #[test]
    fn any_clients(direct: bool, acts in prop::collection::vec(act(), 1..60)) {
        let mut machine = Machine::new(direct);
        let mut held: Vec<Id> = Vec::new();
        for act in acts {
            let pick = |which: usize| (!held.is_empty()).then(|| held[which % held.len()]);
            match act {
                Act::Open(v4, stream) => {
                    let family = if v4 { Family::V4 } else { Family::V6 };
                    held.push(machine.open(family, if stream { Kind::Stream } else { Kind::Datagram }));
                }
                Act::Ask(which, request) => if let Some(id) = pick(which) { let _ = machine.ask(id, request); },
                Act::Accept(which) => if let Some(id) = pick(which) && let Ok((accepted, _)) = machine.stack.accept(id) {
                    held.push(accepted);
                },
                Act::Share(which) => if let Some(id) = pick(which) && machine.stack.share(id).is_ok() { held.push(id); },
                Act::Close(which) => if !held.is_empty() {
                    let id = held.swap_remove(which % held.len());
                    machine.stack.close(id);
                },
                Act::Write(which, bytes) => if let Some(id) = pick(which) { machine.write(id, &bytes); },
                Act::Stop(which) => if let Some(id) = pick(which) {
                    machine.pipe(id).client().stopped = true;
                },
                Act::Read(which) => if let Some(id) = pick(which) { machine.read(id); },
                Act::Pass(milliseconds) => machine.pass(Duration::from_millis(milliseconds.into())),
            }
            machine.settle();
        }
        for id in held {
            machine.stack.close(id);
        }
        machine.settle();
        machine.pass(Duration::from_secs(100));
        machine.pass(Duration::from_secs(100));
        prop_assert!(machine.stack.is_empty());
        prop_assert!(machine.stack.flows.is_empty() && machine.stack.timers.is_empty());
        prop_assert!(machine.stack.asking.is_empty());
        prop_assert!(machine.stack.packets.is_empty());
        prop_assert_eq!(machine.settle(), None);
    }

    #[test]
    fn any_frame_is_looked_at(bytes in prop::collection::vec(prop_oneof![any::<u8>(), 0x40..0x70u8], 0..120)) {
        let _: Frame = frames::look(&bytes);
    }
}
