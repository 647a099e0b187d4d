//! A machine that asks for its address, and servers that give one, give none, or lie.

use std::net::{Ipv4Addr, SocketAddr};

use network_protocol::{Error, Family, Kind, Request};
use proptest::prelude::*;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::time::Duration;
use smoltcp::wire::{
    DhcpMessageType, DhcpPacket, DhcpRepr, EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr, IpProtocol,
    Ipv4Packet, Ipv4Repr, UdpPacket, UdpRepr,
};

use super::machine::Machine;
use crate::card::Addressing;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const GIVEN: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 50);

fn machine() -> Machine {
    let mut machine = Machine::new(true);
    machine.stack.attach(MAC, 1514, &Addressing::Dhcp);
    machine.stack.set_room(1000);
    machine.settle();
    machine
}

/// What a client asks for: the type of its message, and the message.
fn asked(machine: &mut Machine) -> Vec<(DhcpMessageType, u32)> {
    machine.settle();
    machine.stack.set_room(1000);
    let wire = machine.stack.wire().unwrap();
    let frames: Vec<Vec<u8>> = std::iter::from_fn(|| wire.take()).collect();
    let message = |frame: &Vec<u8>| {
        let ethernet = EthernetFrame::new_checked(frame.as_slice()).ok()?;
        let ip = Ipv4Packet::new_checked(ethernet.payload()).ok()?;
        let udp = UdpPacket::new_checked(ip.payload()).ok()?;
        let packet = DhcpPacket::new_checked(udp.payload()).ok()?;
        let message = DhcpRepr::parse(&packet).ok()?;
        Some((message.message_type, message.transaction_id))
    };
    frames.iter().filter_map(message).collect()
}

/// What a server says.
#[derive(Clone, Debug)]
struct Says {
    source: Ipv4Addr,
    identifier: Ipv4Addr,
    address: Ipv4Addr,
    mask: Ipv4Addr,
    router: Option<Ipv4Addr>,
    name_server: Ipv4Addr,
    lease: u32,
}

fn good() -> Says {
    Says {
        source: SERVER,
        identifier: SERVER,
        address: GIVEN,
        mask: Ipv4Addr::new(255, 255, 255, 0),
        router: Some(SERVER),
        name_server: SERVER,
        lease: 120,
    }
}

/// A server's message to all.
fn message(kind: DhcpMessageType, transaction: u32, says: &Says) -> Vec<u8> {
    let dhcp = DhcpRepr {
        message_type: kind,
        transaction_id: transaction,
        secs: 0,
        client_hardware_address: EthernetAddress(MAC),
        client_ip: Ipv4Addr::UNSPECIFIED,
        your_ip: says.address,
        server_ip: says.source,
        router: says.router,
        subnet_mask: Some(says.mask),
        relay_agent_ip: Ipv4Addr::UNSPECIFIED,
        broadcast: true,
        requested_ip: None,
        client_identifier: None,
        server_identifier: Some(says.identifier),
        parameter_request_list: None,
        dns_servers: Some([says.name_server].into_iter().collect()),
        max_size: None,
        lease_duration: Some(says.lease),
        renew_duration: None,
        rebind_duration: None,
        additional_options: &[],
    };
    let (udp, to) = (UdpRepr { src_port: 67, dst_port: 68 }, Ipv4Addr::BROADCAST);
    let checksums = ChecksumCapabilities::default();
    let ip = Ipv4Repr {
        src_addr: says.source,
        dst_addr: to,
        next_header: IpProtocol::Udp,
        payload_len: udp.header_len() + dhcp.buffer_len(),
        hop_limit: 64,
    };
    let ethernet = EthernetRepr {
        src_addr: EthernetAddress([2, 0, 0, 0, 0, 9]),
        dst_addr: EthernetAddress::BROADCAST,
        ethertype: EthernetProtocol::Ipv4,
    };
    let mut frame = vec![0; ethernet.buffer_len() + ip.buffer_len() + ip.payload_len];
    ethernet.emit(&mut EthernetFrame::new_unchecked(&mut frame));
    let packet = &mut frame[ethernet.buffer_len()..];
    ip.emit(&mut Ipv4Packet::new_unchecked(&mut *packet), &checksums);
    let emit = |payload: &mut [u8]| dhcp.emit(&mut DhcpPacket::new_unchecked(payload)).unwrap();
    let mut datagram = UdpPacket::new_unchecked(&mut packet[ip.buffer_len()..]);
    udp.emit(&mut datagram, &says.source.into(), &to.into(), dhcp.buffer_len(), emit, &checksums);
    frame
}

/// Answers what the client asks, until it asks no more.
fn serve(machine: &mut Machine, says: &Says) {
    for _ in 0..4 {
        for (kind, transaction) in asked(machine) {
            let answer = match kind {
                DhcpMessageType::Discover => DhcpMessageType::Offer,
                _ => DhcpMessageType::Ack,
            };
            machine.stack.wire().unwrap().put(message(answer, transaction, says));
        }
    }
    machine.settle();
}

fn connect(machine: &mut Machine, to: Ipv4Addr) -> Result<(), Error> {
    let socket = machine.open(Family::V4, Kind::Stream);
    let asked = machine.ask(socket, Request::Connect { to: SocketAddr::from((to, 80)), wait: false });
    machine.stack.close(socket);
    asked.map(drop)
}

#[test]
fn a_lease_is_got_renewed_and_lost() {
    let mut machine = machine();
    let far = Ipv4Addr::new(198, 51, 100, 1);
    assert_eq!(connect(&mut machine, far), Err(Error::Unreachable));
    serve(&mut machine, &good());
    assert_eq!(machine.stack.card_network(), Some((GIVEN, 24)));
    assert_eq!(connect(&mut machine, far), Err(Error::InProgress));
    // It is renewed after half of its time.
    asked(&mut machine);
    machine.pass(Duration::from_secs(61));
    // Its question is for the server alone, and waits for the server's hardware address, so it asks that first.
    assert_eq!(machine.stack.card_network(), Some((GIVEN, 24)));
    // No server answers any more.
    for _ in 0..20 {
        machine.pass(Duration::from_secs(5));
        machine.stack.set_room(1000);
    }
    assert_eq!(machine.stack.card_network(), None);
    assert_eq!(connect(&mut machine, far), Err(Error::Unreachable));
    // It asks on, and gets another one.
    for _ in 0..20 {
        machine.pass(Duration::from_secs(5));
        let other = Says { address: Ipv4Addr::new(192, 0, 2, 51), ..good() };
        serve(&mut machine, &other);
    }
    assert_eq!(machine.stack.card_network(), Some((Ipv4Addr::new(192, 0, 2, 51), 24)));
}

/// The type of what the client asks for, without the frames to neighbours.
fn kinds(machine: &mut Machine) -> Vec<DhcpMessageType> {
    asked(machine).into_iter().map(|(kind, _)| kind).collect()
}

#[test]
fn a_link_that_comes_again_leads_to_another_network() {
    let mut machine = machine();
    serve(&mut machine, &good());
    machine.stack.set_online(false);
    machine.pass(Duration::from_secs(5));
    assert_eq!(kinds(&mut machine), []);
    machine.stack.set_online(true);
    machine.stack.set_room(1000);
    // The address stays meanwhile.
    assert_eq!(kinds(&mut machine), [DhcpMessageType::Discover]);
    assert_eq!(machine.stack.card_network(), Some((GIVEN, 24)));
    machine.pass(Duration::from_secs(11));
    let other = Says { address: Ipv4Addr::new(192, 0, 2, 51), ..good() };
    serve(&mut machine, &other);
    assert_eq!(machine.stack.card_network(), Some((other.address, 24)));
    // Without a link it stays, also after one that came for a moment.
    machine.stack.set_online(false);
    machine.stack.set_online(true);
    machine.stack.set_room(1000);
    machine.settle();
    machine.stack.set_online(false);
    for _ in 0..20 {
        machine.pass(Duration::from_secs(15));
        assert_eq!(machine.stack.card_network(), Some((other.address, 24)));
    }
    // It stays no longer than a minute when no server answers.
    machine.stack.set_online(false);
    machine.stack.set_online(true);
    for seconds in [0, 15, 15, 15] {
        machine.pass(Duration::from_secs(seconds));
        machine.stack.set_room(1000);
        machine.settle();
        assert_eq!(machine.stack.card_network(), Some((other.address, 24)));
    }
    machine.pass(Duration::from_secs(30));
    machine.stack.set_room(1000);
    machine.settle();
    assert_eq!(machine.stack.card_network(), None);
    machine.pass(Duration::from_secs(30));
    serve(&mut machine, &good());
    assert_eq!(machine.stack.card_network(), Some((GIVEN, 24)));
}

/// A driver that says that the link comes and goes all the time.
#[test]
fn a_link_that_flutters() {
    let mut machine = machine();
    serve(&mut machine, &good());
    for _ in 0..1000 {
        machine.stack.set_online(false);
        machine.stack.set_online(true);
        machine.stack.set_online(true);
    }
    machine.stack.set_room(1000);
    assert_eq!(kinds(&mut machine), [DhcpMessageType::Discover]);
    assert_eq!(machine.stack.card_network(), Some((GIVEN, 24)));
}

#[test]
fn a_server_that_refuses() {
    let mut machine = machine();
    for (_, transaction) in asked(&mut machine) {
        machine.stack.wire().unwrap().put(message(DhcpMessageType::Offer, transaction, &good()));
    }
    for (kind, transaction) in asked(&mut machine) {
        assert_eq!(kind, DhcpMessageType::Request);
        machine.stack.wire().unwrap().put(message(DhcpMessageType::Nak, transaction, &good()));
    }
    assert_eq!(machine.stack.card_network(), None);
    // Another transaction's answer is not this one's.
    for (_, transaction) in asked(&mut machine) {
        machine.stack.wire().unwrap().put(message(DhcpMessageType::Offer, transaction ^ 1, &good()));
    }
    assert!(asked(&mut machine).is_empty());
}

/// smoltcp would send to that address, and panic, when the lease is renewed.
#[test]
fn a_server_without_an_address() {
    let mut machine = machine();
    for source in [Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST, Ipv4Addr::LOCALHOST] {
        serve(&mut machine, &Says { source, ..good() });
        assert_eq!(machine.stack.card_network(), None);
        machine.pass(Duration::from_secs(100));
    }
}

fn address() -> impl Strategy<Value = Ipv4Addr> {
    prop_oneof![
        4 => prop::sample::select(vec![SERVER, GIVEN]),
        1 => prop::sample::select(vec![
            Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST, Ipv4Addr::LOCALHOST, Ipv4Addr::new(224, 0, 0, 1),
            Ipv4Addr::new(192, 0, 2, 255), Ipv4Addr::new(192, 0, 2, 0),
        ]),
        1 => any::<Ipv4Addr>(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// A server that says anything: nothing panics, then and later.
    #[test]
    fn a_server_that_lies(
        [source, identifier, address, name_server] in [address(), address(), address(), address()],
        mask in prop_oneof![Just(Ipv4Addr::new(255, 255, 255, 0)), address()], router in prop::option::of(address()),
        lease in prop_oneof![Just(120), 0..5_u32, any::<u32>()],
    ) {
        let mut machine = machine();
        let says = Says { source, identifier, address, mask, router, name_server, lease };
        serve(&mut machine, &says);
        if let Some(name) = network_protocol::Name::new("host.example") {
            let _ = machine.stack.look_up(name);
        }
        let _ = connect(&mut machine, Ipv4Addr::new(198, 51, 100, 1));
        for seconds in [1, 30, 40, 60, 3600] {
            machine.pass(Duration::from_secs(seconds));
            machine.stack.set_room(1000);
            serve(&mut machine, &says);
        }
        machine.stack.looked_up();
    }
}
