//! Truncated answers of name servers, which are asked again over TCP.

use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};

use network_protocol::{Addresses, Error, Family, Kind, Name, Request};
use smoltcp::time::Duration;

use super::card::{A, CNAME, NameServer, Records, answer, ip};
use super::machine::Machine;
use crate::lookup::{DNS, LOOKUPS};
use crate::ports::Id;

type Outcome = Option<Result<Addresses, Error>>;

fn found(ips: &[Ipv4Addr]) -> Outcome {
    Some(Ok(Addresses::new(ips.iter().map(|ip| IpAddr::V4(*ip))).unwrap()))
}

/// The answer with the flag that it is not all.
fn truncated(mut answer: Vec<u8>) -> Vec<u8> {
    answer[2] |= 2;
    answer
}

/// A message on a stream.
fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes()[..], message].concat()
}

/// A name server that also listens for connections.
struct Server {
    names: NameServer,
    listener: Id,
}

impl Server {
    fn new() -> Server {
        let mut names = NameServer::new();
        let machine = &mut names.ethernet.machines[1];
        let listener = machine.open(Family::V4, Kind::Stream);
        machine.ask(listener, Request::Bind(SocketAddrV4::new(ip(2), 53).into())).unwrap();
        machine.ask(listener, Request::Listen(100)).unwrap();
        Server { names, listener }
    }

    fn machine(&mut self) -> &mut Machine {
        &mut self.names.ethernet.machines[1]
    }

    /// Begins a lookup, and truncates its answer. Returns the question, and the connection with the second one.
    fn asked_again(&mut self, name: &str) -> (Vec<u8>, Id) {
        let (query, from) = self.names.query(name);
        // What is there of it is not taken.
        let part = truncated(answer(&query, 0, &[(A, &[192, 0, 2, 66])]));
        assert_eq!(self.names.say(from, &part), None);
        let listener = self.listener;
        let (connection, _) = self.machine().stack.accept(listener).unwrap();
        self.names.ethernet.settle();
        assert_eq!(self.machine().read(connection), framed(&query));
        (query, connection)
    }

    /// Writes bytes to a connection; returns the result, if there is one.
    fn write(&mut self, connection: Id, bytes: &[u8]) -> Outcome {
        self.machine().write(connection, bytes);
        self.names.ethernet.settle();
        self.names.result()
    }

    /// Closes a connection, without a reset.
    fn close(&mut self, connection: Id) -> Outcome {
        self.machine().stack.close(connection);
        self.names.ethernet.settle();
        self.names.result()
    }

    /// Nothing is left in the machine that asks.
    fn rests(&mut self) -> bool {
        let stack = &mut self.names.ethernet.machines[0].stack;
        stack.packets.keys().all(|id| *id == DNS) && stack.flows.is_empty() && stack.ports.is_empty()
    }
}

#[test]
fn a_truncated_answer_is_asked_for_again() {
    let mut server = Server::new();
    let chain: Records<'_> = &[(CNAME, b"\x05other\x00"), (A, &[192, 0, 2, 35])];
    for (records, ips) in [(&[(A, &[192, 0, 2, 33][..]), (A, &[192, 0, 2, 34])][..], &[33, 34][..]), (chain, &[35])] {
        let (query, connection) = server.asked_again("host.example");
        let ips: Vec<Ipv4Addr> = ips.iter().map(|last| ip(*last)).collect();
        assert_eq!(server.write(connection, &framed(&answer(&query, 0, records))), found(&ips));
        assert!(server.rests());
    }
    // No such name. The flag means nothing here.
    let (query, connection) = server.asked_again("nobody.example");
    assert_eq!(server.write(connection, &framed(&truncated(answer(&query, 3, &[])))), Some(Err(Error::NoName)));
    let (query, connection) = server.asked_again("nothing.example");
    assert_eq!(server.write(connection, &framed(&answer(&query, 0, &[]))), Some(Err(Error::NoName)));
    assert!(server.rests());
}

/// The server that would have to be asked is not among the servers any more: the lookup ends.
#[test]
fn a_truncated_answer_of_a_server_that_is_gone() {
    let mut names = NameServer::new();
    let stack = &mut names.ethernet.machines[0].stack;
    stack.set_name_servers(&[ip(77), ip(2)]);
    stack.look_up(Name::new("host.example").unwrap()).unwrap();
    let query = loop {
        names.ethernet.pass(Duration::from_secs(1));
        let received = names.received();
        if !received.is_empty() {
            break received;
        }
    };
    names.ethernet.machines[0].stack.set_name_servers(&[ip(2)]);
    let (from, query) = network_protocol::decode_header(&query).unwrap();
    let Some(std::net::SocketAddr::V4(from)) = from else { panic!("no address") };
    let part = truncated(answer(query, 0, &[(A, &[192, 0, 2, 66])]));
    let mut result = names.say(from, &part);
    for _ in 0..60 {
        names.ethernet.pass(Duration::from_secs(1));
        result = result.or_else(|| names.result());
    }
    assert!(matches!(result, Some(Err(_))), "{result:?}");
}

#[test]
fn an_answer_comes_in_pieces_and_is_long() {
    let mut server = Server::new();
    let (query, connection) = server.asked_again("host.example");
    let records: Vec<(u16, &[u8])> = (0..255).map(|_| (A, &[192, 0, 2, 33][..])).collect();
    let mut long = framed(&answer(&query, 0, &records));
    // A record of another type behind them.
    let end = long.len() - 2;
    long.extend(vec![7; 10_000]);
    let len = (end as u16 + 10_000).to_be_bytes();
    long[..2].copy_from_slice(&len);
    let (last, first) = long.split_last().unwrap();
    for piece in [&first[..1], &first[1..5], &first[5..6000], &first[6000..]] {
        assert_eq!(server.write(connection, piece), None);
        // It is more than the buffer holds, and acknowledgements may come late.
        (0..10).for_each(|_| server.names.ethernet.pass(Duration::from_millis(100)));
    }
    assert!(matches!(server.write(connection, &[*last]), Some(Ok(_))));
    assert!(server.rests());
}

#[test]
fn answers_over_a_stream_are_checked() {
    let mut server = Server::new();
    let wrong: [fn(&mut Vec<u8>); 4] = [
        // Another number, another question, no answer but a question, and nothing.
        |answer| answer[1] ^= 1,
        |answer| answer[14] ^= 1,
        |answer| answer[2] &= 0x7f,
        |answer| answer.clear(),
    ];
    for change in wrong {
        let (query, connection) = server.asked_again("host.example");
        let mut bad = answer(&query, 0, &[(A, &[192, 0, 2, 66])]);
        change(&mut bad);
        // There is no other server.
        assert_eq!(server.write(connection, &framed(&bad)), Some(Err(Error::NoNameServer)));
        assert!(server.rests());
    }
    // The answer to another lookup's question is none to this one's.
    let (other, _) = server.names.query("else.example");
    let (_, connection) = server.asked_again("host.example");
    let bad = answer(&other, 0, &[(A, &[192, 0, 2, 66])]);
    assert_eq!(server.write(connection, &framed(&bad)), Some(Err(Error::NoNameServer)));
}

#[test]
fn streams_end_in_time() {
    let mut server = Server::new();
    // It closes at once, or in the middle of its answer, or sends too much.
    let (_, connection) = server.asked_again("host.example");
    assert_eq!(server.close(connection), Some(Err(Error::NoNameServer)));
    let (query, connection) = server.asked_again("host.example");
    let whole = framed(&answer(&query, 0, &[(A, &[192, 0, 2, 33])]));
    assert_eq!(server.write(connection, &whole[..20]), None);
    assert_eq!(server.close(connection), Some(Err(Error::NoNameServer)));
    let (_, connection) = server.asked_again("host.example");
    assert_eq!(server.write(connection, &[0xff, 0xff]), Some(Err(Error::NoNameServer)));
    assert!(server.rests());
    // It sends a byte now and then.
    let (_, connection) = server.asked_again("host.example");
    let mut result = server.write(connection, &[0x3f, 0]);
    for _ in 0..10 {
        assert!(result.is_none());
        server.names.ethernet.pass(Duration::from_millis(510));
        result = server.write(connection, b"x");
    }
    assert_eq!(result, Some(Err(Error::NoNameServer)));
    assert!(server.rests());
    // Nobody listens there, or the connection request is lost.
    let listener = server.listener;
    server.machine().stack.close(listener);
    for lost in [0, usize::MAX] {
        let (query, from) = server.names.query("host.example");
        let part = truncated(answer(&query, 0, &[]));
        server.names.ethernet.loses = [lost, 0];
        let mut result = server.names.say(from, &part);
        for _ in 0..6 {
            server.names.ethernet.pass(Duration::from_secs(1));
            result = result.or(server.names.result());
        }
        assert_eq!(result, Some(Err(Error::NoNameServer)));
        assert!(server.rests());
    }
}

#[test]
fn lookups_that_are_cancelled_leave_no_connection() {
    let mut server = Server::new();
    let (query, from) = server.names.query("host.example");
    let part = truncated(answer(&query, 0, &[]));
    server.names.say(from, &part);
    // A second truncated answer is no second connection, and a late whole one is none.
    server.names.say(from, &part);
    assert_eq!(server.names.say(from, &answer(&query, 0, &[(A, &[192, 0, 2, 66])])), None);
    let stack = &mut server.names.ethernet.machines[0].stack;
    assert_eq!(stack.flows.len(), 1);
    let id = (1..LOOKUPS as u64).find(|id| stack.lookups.streams.of(*id).is_some()).unwrap();
    stack.cancel_lookup(id);
    server.names.ethernet.settle();
    assert!(server.rests());
}
