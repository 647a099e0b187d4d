//! Frames of a network card, for the network service: nothing panics, and the stack comes to rest. (smoltcp takes every
//! checksum for right in a build for a fuzzer.)
#![no_main]

use std::net::Ipv6Addr;

use network::card::Addressing;
use network::ipv6::Plan;
use network::ports::Id;
use network::socket::{End, ReadOutcome, WriteOutcome};
use network::stack::{DataSockets, Stack};
use network_protocol::{Choice, Error, Family, Kind, Request};
use service::Program;
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::Ipv4Cidr;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// Bytes before a frame: its length, and the milliseconds that pass.
const HEAD: usize = 4;

/// A data socket whose client writes nothing and reads all.
struct Silent;

impl End for Silent {
    fn take(&mut self, _: &mut [u8]) -> ReadOutcome {
        ReadOutcome::Nothing
    }
    fn give(&mut self, from: &[u8]) -> WriteOutcome {
        WriteOutcome::Bytes(from.len())
    }
    fn finish(&mut self) {}
    fn cut(&mut self) {}
    fn tell(&mut self, _: u32, _: u32) {}
    fn unread(&self) -> usize {
        0
    }
    fn watch_readable(&mut self) {}
    fn watch_writable(&mut self) {}
}

struct Clients;

impl DataSockets for Clients {
    type End = Silent;
    type ClientEnds = ();

    fn take(&mut self, _: Id, _: Kind, (): ()) -> Result<Silent, Error> {
        Ok(Silent)
    }
    fn make(&mut self, _: Id, _: Kind) -> Result<Silent, Error> {
        Ok(Silent)
    }
    fn other(&mut self, _: Id, _: &Silent) -> Result<Silent, Error> {
        Ok(Silent)
    }
}

/// A stack with a listener and a socket for datagrams, both at port 7, and one for echoes with this identifier, for each
/// family. The socket for datagrams over IPv4 is in a group. The addresses of IPv6 are the stack's: with `fixed_v6` one
/// that is configured, beside the link-local one.
fn stack(now: Instant, dhcp: bool, fixed_v6: bool) -> Stack<Clients> {
    let mut stack = Stack::new(Clients, [1; 32], now - Duration::from_secs(2), true);
    let address = Ipv4Cidr::new([192, 0, 2, 1].into(), 24);
    let gateway = Some([192, 0, 2, 2].into());
    let name_servers = vec![[192, 0, 2, 3].into()];
    let fixed = Addressing::Static { address, gateway, name_servers };
    stack.attach(MAC, 1514, if dhcp { &Addressing::Dhcp } else { &fixed });
    let mut plan = Plan::default();
    if fixed_v6 {
        plan.addresses.push((Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, 1), 64));
        plan.gateway = Some(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9));
    }
    stack.enable_ipv6(&plan);
    stack.set_room(64);
    for seconds in 0..2 {
        stack.poll(now - Duration::from_secs(2 - seconds));
    }
    stack.poll(now);
    for kind in [Kind::Stream, Kind::Datagram, Kind::Echo] {
        let id = stack.open(Program(1), Family::V6, kind, ()).unwrap();
        stack.request(id, Request::Set(Choice::OnlyV6, 1)).unwrap();
        // An identifier belongs to one socket, whatever its family.
        let port = if kind == Kind::Echo { 8 } else { 7 };
        stack.request(id, Request::Bind((Ipv6Addr::UNSPECIFIED, port).into())).unwrap();
        if kind == Kind::Stream {
            stack.request(id, Request::Listen(4)).map(drop).unwrap();
        }
        let id = stack.open(Program(1), Family::V4, kind, ()).unwrap();
        stack.request(id, Request::Bind(([0, 0, 0, 0], 7).into())).unwrap();
        match kind {
            Kind::Stream => stack.request(id, Request::Listen(4)).map(drop).unwrap(),
            // Before DHCP there is no card to join a group at.
            Kind::Datagram if !dhcp => {
                let (group, interface) = ([239, 1, 2, 3].into(), [192, 0, 2, 1].into());
                stack.request(id, Request::Group { join: true, group, interface }).unwrap();
            }
            Kind::Datagram | Kind::Echo => {}
        }
    }
    stack
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((first, mut rest)) = bytes.split_first() else { return };
    let mut now = Instant::from_secs(3);
    let mut stack = stack(now, first & 1 == 1, first & 2 == 2);
    let _ = network_protocol::Name::new("host.example").map(|name| stack.look_up(name));
    while let Some((head, after)) = rest.split_first_chunk::<HEAD>() {
        let len = usize::from(u16::from_le_bytes([head[0], head[1]]) % 1600).min(after.len());
        let (frame, next) = after.split_at(len);
        rest = next;
        now += Duration::from_millis(u16::from_le_bytes([head[2], head[3]]).into());
        stack.wire().unwrap().put(frame.to_vec());
        stack.set_room(64);
        for _ in 0..100 {
            let at = stack.poll(now);
            while stack.wire().unwrap().take().is_some() {}
            stack.set_room(64);
            if at.is_none_or(|at| at > now) {
                break;
            }
        }
        stack.looked_up();
    }
    assert!(stack.poll(now).is_none_or(|at| at > now), "it does not come to rest");
});
