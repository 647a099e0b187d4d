//! Rules of programs: each way to reach another machine or program, or to be reached.

use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;

use description::network::Rule;
use network_protocol::{Choice, Error, Family, Kind, Reply, Request, decode_header, encode_header};

use super::card::{Ethernet, ip};
use super::machine::Machine;
use crate::ports::Id;

const DONE: Result<Reply, Error> = Ok(Reply::Done);
const DENIED: Result<Reply, Error> = Err(Error::Denied);

fn rule(connect: &[&str], listen: &[&str]) -> Rc<Rule> {
    Rc::new(Rule::parse(connect, listen, false).unwrap())
}

fn open(machine: &mut Machine, family: Family, kind: Kind, rule: &Rc<Rule>) -> Id {
    let id = machine.open(family, kind);
    machine.stack.set_rule(id, Some(rule.clone()));
    id
}

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn connect(machine: &mut Machine, id: Id, to: &str) -> Result<Reply, Error> {
    machine.ask(id, Request::Connect { to: at(to), wait: true })
}

fn heard(machine: &mut Machine, id: Id) -> Vec<Vec<u8>> {
    let all: Vec<Vec<u8>> = machine.pipe(id).client().inbox.drain(..).collect();
    all.iter().map(|one| decode_header(one).unwrap().1.to_vec()).collect()
}

#[test]
fn streams_connect_only_where_they_may() {
    for direct in [false, true] {
        let mut machine = Machine::new(direct);
        let rule = rule(&["127.0.0.1:80"], &[]);
        let server = machine.open(Family::V6, Kind::Stream);
        machine.ask(server, Request::Bind(at("[::]:80"))).unwrap();
        machine.ask(server, Request::Listen(9)).unwrap();
        for (family, to) in [
            (Family::V4, "127.0.0.1:81"),
            (Family::V4, "127.0.0.2:80"),
            (Family::V4, "10.0.0.1:80"),
            (Family::V4, "255.255.255.255:80"),
            (Family::V6, "[::1]:80"),
            (Family::V6, "[::]:80"),
            (Family::V6, "[::ffff:127.0.0.2]:80"),
        ] {
            let id = open(&mut machine, family, Kind::Stream, &rule);
            assert_eq!(connect(&mut machine, id, to), DENIED, "{to}");
            // Nothing has happened: it has no port, and the next attempt is its first.
            assert_eq!(machine.address(id).port(), 0);
        }
        // The unspecified address and mapped addresses are what they lead to.
        for (family, to) in
            [(Family::V4, "127.0.0.1:80"), (Family::V4, "0.0.0.0:80"), (Family::V6, "[::ffff:127.0.0.1]:80")]
        {
            let id = open(&mut machine, family, Kind::Stream, &rule);
            assert_eq!(connect(&mut machine, id, to), DONE, "{to}");
        }
    }
}

#[test]
fn listeners_are_where_they_may_be() {
    let mut machine = Machine::new(true);
    let rule = rule(&[], &["80", "127.0.0.1:8000-8100"]);
    let bind = |machine: &mut Machine, family, kind, to: &str| {
        let id = open(machine, family, kind, &rule);
        (id, machine.ask(id, Request::Bind(at(to))))
    };
    for kind in [Kind::Stream, Kind::Datagram] {
        for to in ["127.0.0.1:81", "0.0.0.0:8000", "127.0.0.2:8000", "0.0.0.0:1"] {
            assert_eq!(bind(&mut machine, Family::V4, kind, to).1, DENIED, "{to}");
        }
        for to in ["[::1]:8000", "[::]:8000", "[::ffff:127.0.0.2]:8000"] {
            assert_eq!(bind(&mut machine, Family::V6, kind, to).1, DENIED, "{to}");
        }
        for to in ["0.0.0.0:80", "127.0.0.1:8100"] {
            assert_eq!(bind(&mut machine, Family::V4, kind, to).1, DONE, "{to}");
        }
    }
    let (id, bound) = bind(&mut machine, Family::V4, Kind::Stream, "127.0.0.1:8000");
    assert_eq!((bound, machine.ask(id, Request::Listen(1))), (DONE, DONE));
    // Any port may be bound, for a client, but is no place to listen, whether the client asked for it or not.
    let (id, bound) = bind(&mut machine, Family::V4, Kind::Stream, "127.0.0.1:0");
    assert_eq!((bound, machine.ask(id, Request::Listen(1))), (DONE, DENIED));
    let id = open(&mut machine, Family::V4, Kind::Stream, &rule);
    assert_eq!(machine.ask(id, Request::Listen(1)), DENIED);
    assert_eq!(machine.address(id).port(), 0);
}

#[test]
fn a_dual_stack_listener_needs_both_families() {
    let mut machine = Machine::new(true);
    let rule = rule(&[], &["[::/0]:80"]);
    let both = open(&mut machine, Family::V6, Kind::Stream, &rule);
    assert_eq!(machine.ask(both, Request::Bind(at("[::]:80"))), DENIED);
    machine.ask(both, Request::Set(Choice::OnlyV6, 1)).unwrap();
    assert_eq!(machine.ask(both, Request::Bind(at("[::]:80"))), DONE);
    assert_eq!(machine.ask(both, Request::Listen(1)), DONE);
}

#[test]
fn datagrams_go_only_where_they_may() {
    let mut ethernet = Ethernet::new();
    let rule = rule(&["192.0.2.2:53", "127.0.0.1:7000"], &[]);
    let machine = &mut ethernet.machines[0];
    let id = open(machine, Family::V4, Kind::Datagram, &rule);
    let local = machine.open(Family::V4, Kind::Datagram);
    machine.ask(local, Request::Bind(at("0.0.0.0:7001"))).unwrap();
    for to in ["192.0.2.2:54", "192.0.2.3:53", "127.0.0.1:7001", "192.0.2.255:53", "239.1.2.3:53", "0.0.0.0:7001"] {
        assert_eq!(machine.ask(id, Request::Prepare(at(to))), DENIED, "{to}");
        assert_eq!(connect(machine, id, to), DENIED, "{to}");
        // A client that does not ask before.
        machine.write(id, &[&encode_header(Some(at(to)))[..], b"forbidden"].concat());
    }
    ethernet.settle();
    assert!(ethernet.frames.is_empty() && heard(&mut ethernet.machines[0], local).is_empty());
    assert_eq!(connect(&mut ethernet.machines[0], id, "192.0.2.2:53"), DONE);
    ethernet.machines[0].write(id, &[&encode_header(None)[..], b"allowed"].concat());
    ethernet.settle();
    assert!(ethernet.frames.iter().any(|frame| frame.ends_with(b"allowed")));
}

#[test]
fn datagrams_come_only_from_where_they_may() {
    let mut machine = Machine::new(true);
    let id = open(&mut machine, Family::V4, Kind::Datagram, &rule(&["127.0.0.1:7000"], &[]));
    machine.ask(id, Request::Bind(at("0.0.0.0:0"))).unwrap();
    let server = open(&mut machine, Family::V4, Kind::Datagram, &rule(&[], &["7777"]));
    machine.ask(server, Request::Bind(at("0.0.0.0:7777"))).unwrap();
    let to = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), machine.address(id).port());
    for from in ["127.0.0.1:7000", "127.0.0.1:7001", "127.0.0.2:7000"] {
        let other = machine.open(Family::V4, Kind::Datagram);
        machine.ask(other, Request::Bind(at(from))).unwrap();
        for to in [to, at("127.0.0.1:7777")] {
            machine.write(other, &[&encode_header(Some(to))[..], from.as_bytes()].concat());
        }
    }
    assert_eq!(heard(&mut machine, id), [b"127.0.0.1:7000"]);
    assert_eq!(heard(&mut machine, server).len(), 3);
}

#[test]
fn groups_are_joined_only_where_they_may() {
    let mut machine = Machine::new(true);
    let interface = Ipv4Addr::LOCALHOST;
    let group = Ipv4Addr::new(239, 1, 2, 3);
    let join = |machine: &mut Machine, id, group| machine.ask(id, Request::Group { join: true, group, interface });
    let id = open(&mut machine, Family::V4, Kind::Datagram, &rule(&["239.1.2.3:5353"], &["5353"]));
    assert_eq!(join(&mut machine, id, Ipv4Addr::new(239, 1, 2, 4)), DENIED);
    assert_eq!(join(&mut machine, id, group), DONE);
    machine.ask(id, Request::Bind(at("0.0.0.0:5353"))).unwrap();
    // A member that may neither listen nor send to the sender.
    let deaf = open(&mut machine, Family::V4, Kind::Datagram, &rule(&["239.1.2.3:5353"], &[]));
    assert_eq!(join(&mut machine, deaf, group), DONE);
    machine.ask(deaf, Request::Bind(at("0.0.0.0:0"))).unwrap();
    let deaf_port = machine.address(deaf).port();
    let sender = machine.open(Family::V4, Kind::Datagram);
    machine.ask(sender, Request::Bind(at("127.0.0.1:0"))).unwrap();
    for port in [5353, deaf_port] {
        let to = SocketAddr::new(group.into(), port);
        machine.write(sender, &[&encode_header(Some(to))[..], b"news"].concat());
    }
    assert_eq!((heard(&mut machine, id), heard(&mut machine, deaf)), (vec![b"news".to_vec()], vec![]));
}

#[test]
fn echoes_need_all_ports() {
    let mut ethernet = Ethernet::new();
    let machine = &mut ethernet.machines[0];
    let id = open(machine, Family::V4, Kind::Echo, &rule(&["192.0.2.2:*", "127.0.0.1:1-65535"], &[]));
    let request = |to: SocketAddr| [&encode_header(Some(to))[..], &[8, 0, 0, 0, 0, 0, 0, 1]].concat();
    for to in ["192.0.2.3:0", "127.0.0.1:0", "0.0.0.0:0"] {
        assert_eq!(machine.ask(id, Request::Prepare(at(to))), DENIED, "{to}");
        assert_eq!(connect(machine, id, to), DENIED, "{to}");
        machine.write(id, &request(at(to)));
    }
    ethernet.settle();
    assert!(ethernet.frames.is_empty() && heard(&mut ethernet.machines[0], id).is_empty());
    ethernet.machines[0].write(id, &request(SocketAddr::new(ip(2).into(), 0)));
    ethernet.settle();
    assert_eq!(heard(&mut ethernet.machines[0], id).len(), 1);
}

#[test]
fn an_accepted_connection_has_its_listeners_rule() {
    for direct in [false, true] {
        let mut machine = Machine::new(direct);
        let rule = rule(&[], &["80"]);
        let listener = open(&mut machine, Family::V4, Kind::Stream, &rule);
        machine.ask(listener, Request::Bind(at("127.0.0.1:80"))).unwrap();
        machine.ask(listener, Request::Listen(1)).unwrap();
        let client = machine.open(Family::V4, Kind::Stream);
        assert_eq!(connect(&mut machine, client, "127.0.0.1:80"), DONE);
        let (server, _) = machine.stack.accept(listener).unwrap();
        assert_eq!(machine.stack.sockets[&server].rule, Some(rule));
    }
}
