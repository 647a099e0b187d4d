//! The network card's interface: its addresses, its routes, and its frames.

use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use network_protocol::{CardState, Error, HEADER, is_link_local};
use rustc_hash::FxBuildHasher;
use siphasher::sip::SipHasher13;
use smoltcp::iface::{Config, Interface};
use smoltcp::socket::tcp::State;
use smoltcp::socket::{tcp, udp};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpAddress, IpCidr, Ipv4Cidr, TcpControl};

use crate::datagrams::{self, HEADERS};
use crate::frames::{self, Frame};
use crate::half_open::{HalfOpen, Offer, Ours};
use crate::ipv6::{self, V6};
use crate::lookup::{DNS, DNS_SERVER};
use crate::packets::{Link, Packets, Sent, Side};
use crate::ports::{Ends, Id};
use crate::room::InLine;
use crate::segments::Segment;
use crate::socket::{Body, Choices, End, Socket, WriteOutcome};
use crate::stack::{DataSockets, Stack, shown};
use crate::tcp::endpoint;
use crate::time_wait::TimeWait;
use crate::wire::Wire;

/// The number of the DHCP client among the smoltcp sockets. Sockets of programs have greater ones.
pub(crate) const DHCP: Id = 0;
/// The UDP ports of DHCP's servers and clients.
const DHCP_SERVER: u16 = 67;
const DHCP_CLIENT: u16 = 68;
/// Bytes of an Ethernet header.
pub(crate) const ETHERNET_HEADER: usize = 14;
/// Bytes of the headers of a segment: Ethernet, IPv4 and TCP.
const SEGMENT_HEADERS: usize = 14 + 20 + 20;
/// Bytes by which an IPv6 header is longer.
pub(crate) const V6_MORE: usize = 20;

/// Datagrams that wait for the card at most, of one socket.
pub(crate) const SENDS: usize = 8;

/// How the card gets its IPv4 address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Addressing {
    /// By DHCP.
    Dhcp,
    /// As configured.
    Static {
        /// The card's address, and the length of its network's prefix in bits.
        address: Ipv4Cidr,
        /// The router to other networks.
        gateway: Option<Ipv4Addr>,
        /// The name servers.
        name_servers: Vec<Ipv4Addr>,
    },
}

impl Addressing {
    /// Parses the service's arguments: `dhcp`, or `address=192.0.2.2/24` and perhaps `gateway=192.0.2.1` and
    /// `name-server=192.0.2.3`, up to three times.
    ///
    /// # Errors
    /// A sentence for the log.
    pub fn parse(arguments: impl Iterator<Item = String>) -> Result<Addressing, String> {
        let (mut own, mut router, mut name_servers) = (None, None, Vec::new());
        for argument in arguments {
            let wrong = || format!("`{argument}` is no argument of this service");
            match argument.split_once('=') {
                None if argument == "dhcp" => {}
                Some(("address", text)) => {
                    let (ip, bits) = text.split_once('/').ok_or_else(wrong)?;
                    let ip: Ipv4Addr = ip.parse().map_err(|_| wrong())?;
                    let bits = bits.parse().ok().filter(|bits| *bits <= 32).ok_or_else(wrong)?;
                    own = Some(Ipv4Cidr::new(ip, bits));
                }
                Some(("gateway", text)) => router = Some(text.parse().map_err(|_| wrong())?),
                Some(("name-server", text)) => name_servers.push(text.parse().map_err(|_| wrong())?),
                _ => return Err(wrong()),
            }
        }
        Ok(own.map_or(Addressing::Dhcp, |address| Addressing::Static { address, gateway: router, name_servers }))
    }
}

/// Numbers of frames.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    received: u64,
    sent: u64,
    ignored: u64,
    pub no_room: u64,
}

/// The card's interface.
pub(crate) struct Card {
    pub link: Link,
    pub mac: EthernetAddress,
    pub counts: Counts,
    /// Changes with the addresses and the routes.
    pub version: u32,
    /// Whether there is a link.
    pub online: bool,
    pub half_open: HalfOpen,
    pub time_wait: TimeWait,
    /// Without it, the card has IPv4 only.
    pub v6: Option<V6>,
    /// Determines initial sequence numbers.
    secret: [u8; 16],
    /// Sockets that have something to send, and the card has no room.
    pub in_line: InLine,
    /// Sockets that wait for the answer of a neighbour.
    asking: HashSet<Id, FxBuildHasher>,
}

/// Where a datagram that came in over IPv4 went, and so do others like it. Until then: bindings count as changes of
/// [`Ports`](crate::ports::Ports), addresses as versions of the card; options, peers and rules change by requests only,
/// which forget this.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    from: SocketAddr,
    to: SocketAddr,
    receiver: Id,
    bindings: u64,
    version: u32,
}

impl Card {
    /// A socket has sent what it could.
    pub(crate) fn has_sent(&mut self, id: Id, sent: Sent) {
        if sent.frames > 0 || !sent.wants_room {
            self.in_line.leave(id);
        }
        if sent.wants_room {
            self.in_line.wait(id);
        }
        if sent.asks {
            self.asking.insert(id);
        } else {
            self.asking.remove(&id);
        }
    }

    /// A socket is gone.
    pub(crate) fn forget(&mut self, id: Id) {
        self.in_line.leave(id);
        self.asking.remove(&id);
    }

    /// The card's IPv4 network, once it has an address.
    pub(crate) fn network(&self) -> Option<Ipv4Cidr> {
        self.link.interface.ip_addrs().iter().find_map(|cidr| match cidr {
            IpCidr::Ipv4(cidr) => Some(*cidr),
            IpCidr::Ipv6(_) => None,
        })
    }

    /// An initial sequence number (RFC 6528): a clock, and a number that depends on the addresses, so that no other
    /// connection shows it.
    pub(crate) fn initial_number(&self, here: SocketAddr, peer: SocketAddr, now: Instant) -> i32 {
        let mut hasher = SipHasher13::new_with_key(&self.secret);
        (here, peer).hash(&mut hasher);
        let clock = now.total_micros() / 4;
        (hasher.finish() as i32).wrapping_add(clock as i32)
    }

    /// What this side says in answers to connection requests of a listener: the same as smoltcp's sockets.
    fn offer(&self, choices: &Choices, peer: IpAddr) -> Offer {
        let headers = SEGMENT_HEADERS + if peer.is_ipv6() { V6_MORE } else { 0 };
        let longest = self.link.wire.mtu().saturating_sub(headers) as u16;
        let bits = u32::BITS - choices.receive_buffer.leading_zeros();
        Offer {
            window: u16::try_from(choices.receive_buffer).unwrap_or(u16::MAX),
            max_segment: choices.max_segment.map_or(longest, |limit| limit.min(longest)),
            scale: bits.saturating_sub(u16::BITS) as u8,
        }
    }

    /// Whether an answer that said this can have been for a listener with these choices. The card may have had another limit
    /// of frames then.
    fn can_have_offered(&self, offer: &Offer, choices: &Choices, peer: IpAddr) -> bool {
        let now = self.offer(choices, peer);
        (offer.window, offer.scale) == (now.window, now.scale)
            && choices.max_segment.is_none_or(|limit| offer.max_segment <= limit)
    }

    /// Repeats answers to connection requests.
    pub(crate) fn repeat_answers(&mut self, now: Instant) {
        // What the card has no room for is lost, as on any network.
        while let Some(answer) = self.half_open.next_due(self.mac, now) {
            if self.link.wire.has_room() {
                self.link.wire.send(answer.write());
            }
        }
    }

    /// Handles the next frame, a segment of a connection without a socket.
    fn without_socket(&mut self, now: Instant) -> WithoutSocket {
        let Some(segment) = self.link.wire.next().and_then(Segment::read) else { return WithoutSocket::Done };
        self.time_wait.expire(now);
        if self.half_open.has(&segment) {
            if let Some((syn, our_seq, offer)) = self.half_open.acknowledged(&segment) {
                return WithoutSocket::Opens { segment, syn: Box::new(syn), our_seq, offer };
            }
            if segment.control == TcpControl::Rst {
                self.half_open.reset(&segment);
            }
        } else if self.time_wait.has(&segment) {
            if let Some(answer) = self.time_wait.answer(&segment, self.mac) {
                self.link.wire.send(answer.write());
            }
        } else {
            return WithoutSocket::Unknown;
        }
        WithoutSocket::Done
    }

    /// Whether packets to this address leave over the card.
    fn reaches(&self, ip: Ipv4Addr) -> bool {
        let Some(network) = self.network() else { return false };
        let sendable = !ip.is_unspecified() && !ip.is_loopback() && !ip.is_multicast();
        let by_router = || !ip.is_broadcast() && self.link.interface.routes().get_default_ipv4_route().is_some();
        sendable && (network.contains_addr(&ip) || ip.is_broadcast() || by_router())
    }
}

impl<W: DataSockets> Stack<W> {
    /// Adds the network card, or takes it again after its driver has started anew: the addresses and connections of
    /// before stay, within its new limit of frames. `mtu` is the longest frame in bytes, with its Ethernet header.
    pub fn attach(&mut self, mac: [u8; 6], mtu: usize, addressing: &Addressing) {
        let mac = EthernetAddress(mac);
        if self.card.as_ref().is_some_and(|card| card.mac == mac) {
            return self.set_mtu(mtu);
        }
        let before: Vec<IpAddr> = self.card.iter().flat_map(|card| card.link.interface.ip_addrs()).map(own).collect();
        let mut wire = Wire::card(mtu);
        let mut config = Config::new(HardwareAddress::Ethernet(mac));
        config.random_seed = self.ports.random();
        let interface = Interface::new(config, &mut wire, self.now);
        let secret = u128::from(self.ports.random()) << 64 | u128::from(self.ports.random());
        self.card = Some(Card {
            link: Link { interface, wire },
            mac,
            counts: Counts::default(),
            version: self.card.as_ref().map_or(0, |card| card.version.wrapping_add(1)),
            online: true,
            half_open: HalfOpen::default(),
            time_wait: TimeWait::default(),
            v6: None,
            secret: secret.to_ne_bytes(),
            in_line: InLine::default(),
            asking: HashSet::default(),
        });
        self.dhcp_waits = None;
        match addressing {
            Addressing::Dhcp => self.ask_dhcp(),
            Addressing::Static { address, gateway, name_servers } => {
                self.set_address(Some(*address), *gateway);
                self.set_name_servers(name_servers);
            }
        }
        let lost: Vec<IpAddr> = before.into_iter().filter(|ip| !self.owns(*ip)).collect();
        self.lose_addresses(&lost);
    }

    /// The card has another limit of frames now. Connections follow it with their next segment; a peer sends segments of
    /// the size that it was asked for when its connection began.
    fn set_mtu(&mut self, mtu: usize) {
        let Some(card) = self.card.as_mut().filter(|card| card.link.wire.mtu() != mtu) else { return };
        card.link.wire.set_mtu(mtu);
        card.link.interface.set_max_transmission_unit(mtu);
        // Those that wait may be too long, and the buffers have the size for the former limit.
        self.lose_waiting_datagrams();
    }

    /// The card's frames. `None`: there is no card.
    pub fn wire(&mut self) -> Option<&mut Wire> {
        self.card.as_mut().map(|card| &mut card.link.wire)
    }

    /// Counts frames that went out.
    pub fn count_sent(&mut self, frames: u64) {
        if let Some(card) = &mut self.card {
            card.counts.sent += frames;
        }
    }

    /// Number of frames that went out.
    pub fn frames_sent(&self) -> u64 {
        self.card.as_ref().map_or(0, |card| card.counts.sent)
    }

    /// The card's state.
    ///
    /// # Errors
    /// `NoCard`.
    pub fn card_state(&self) -> Result<CardState, Error> {
        let card = self.card.as_ref().ok_or(Error::NoCard)?;
        let Counts { received, sent, ignored, no_room } = card.counts;
        let gateway = card.link.interface.routes().get_default_ipv4_route().and_then(|route| match route.via_router {
            IpAddress::Ipv4(ip) => Some(ip),
            IpAddress::Ipv6(_) => None,
        });
        let server = |index: usize| self.name_servers.get(index).copied();
        Ok(CardState {
            mac: card.mac.0,
            online: card.online,
            mtu: (card.link.wire.mtu() - ETHERNET_HEADER) as u16,
            address: self.card_network(),
            gateway,
            name_servers: [server(0), server(1), server(2)],
            received,
            sent,
            ignored,
            no_room,
            v6: self.card_state_v6(),
        })
    }

    /// Sets the number of frames that the card takes. Returns whether a socket has waited for that, so that the stack
    /// must be called again.
    pub fn set_room(&mut self, frames: usize) -> bool {
        let Some(card) = &mut self.card else { return false };
        let frames = if card.online { frames } else { 0 };
        card.link.wire.set_room(frames);
        let due = frames >= ipv6::ROOM && card.v6.as_mut().is_some_and(|v6| std::mem::take(&mut v6.starved));
        self.call_in() || due
    }

    /// Queues turns for the first sockets that wait for the card, one for each frame that it takes. Returns whether there
    /// was one.
    pub(crate) fn call_in(&mut self) -> bool {
        let mut any = false;
        let frames = self.card.as_ref().map_or(0, |card| card.link.wire.room());
        for _ in 0..frames {
            let Some(id) = self.card.as_mut().and_then(|card| card.in_line.next()) else { break };
            self.touch_packets(id);
            any = true;
        }
        any
    }

    /// The card's IPv4 address and the length of its network's prefix in bits, once it has one.
    pub fn card_network(&self) -> Option<(Ipv4Addr, u8)> {
        self.card.as_ref()?.network().map(|cidr| (cidr.address(), cidr.prefix_len()))
    }

    pub(crate) fn set_address(&mut self, address: Option<Ipv4Cidr>, gateway: Option<Ipv4Addr>) {
        let Some(card) = &mut self.card else { return };
        let before = card.network();
        card.version = card.version.wrapping_add(1);
        let interface = &mut card.link.interface;
        interface.update_ip_addrs(|addresses| {
            addresses.retain(|cidr| matches!(cidr, IpCidr::Ipv6(_)));
            if let Some(address) = address.filter(|cidr| is_usable(cidr.address().into())) {
                // smoltcp has room for eight.
                let _ = addresses.push(IpCidr::Ipv4(address));
            }
        });
        interface.routes_mut().remove_default_ipv4_route();
        if let Some(gateway) = gateway.filter(|gateway| is_usable((*gateway).into())) {
            // The same.
            let _ = interface.routes_mut().add_default_ipv4_route(gateway);
        }
        let now = card.network();
        if now.is_some() && now != before {
            self.report_again();
        }
        let lost = before.map(|before| before.address()).filter(|ip| now.is_none_or(|now| now.address() != *ip));
        self.lose_addresses(lost.map(IpAddr::V4).as_slice());
    }

    /// Handles one frame of the card. Returns whether there was one.
    pub(crate) fn receive_from_card(&mut self) -> bool {
        let Some(card) = &mut self.card else { return false };
        let Some(frame) = card.link.wire.next() else { return false };
        card.counts.received += 1;
        let plain = datagrams::read(frame, card.mac);
        if let Some((from, to, data)) = &plain
            && let Some(receiver) = self.who_heard(*from, *to)
        {
            self.deliver_to(receiver, *from, data.clone());
            return true;
        }
        let Some(card) = &mut self.card else { return false };
        let Some(frame) = card.link.wire.next() else { return false };
        let seen = match plain {
            Some((from, to, data)) => Frame::Datagram { from, to, data },
            None => frames::look_ethernet_by_smoltcp(frame, card.mac),
        };
        let of = match &seen {
            Frame::Foreign => {
                self.ignore_frame();
                return true;
            }
            Frame::TooBig { from, to, seq, mtu } => {
                self.packet_too_big(*from, *to, *seq, *mtu);
                return true;
            }
            Frame::Unreceived { from, to } => {
                self.unreceived(*from, *to);
                self.lose_frame();
                return true;
            }
            Frame::Echo { from, to, ident, message } => {
                self.deliver_echo(*from, *to, *ident, message.clone());
                return true;
            }
            Frame::NoEcho { from, to, ident, why } => {
                self.echo_failed(*from, *to, *ident, *why);
                self.lose_frame();
                return true;
            }
            Frame::Query { group, within } => {
                self.asked_for_groups(*group, *within);
                self.lose_frame();
                return true;
            }
            Frame::RouterAdvertisement { from, message } => {
                self.router_advertises(*from, message.clone());
                return true;
            }
            Frame::QueryV6 { group, within } => {
                self.asked_for_groups_v6(*group, *within);
                self.lose_frame();
                return true;
            }
            Frame::Neighbor { from, target, advertises, is_like_own } => {
                if self.neighbor_says(*from, *target, *advertises, *is_like_own) {
                    self.by_neighbor();
                }
                return true;
            }
            Frame::EchoRequest { from, to } => {
                if self.owns((*to).into()) && self.can_be_there((*from).into()) {
                    self.by_no_socket();
                } else {
                    self.ignore_frame();
                }
                return true;
            }
            Frame::Other => {
                self.by_neighbor();
                return true;
            }
            Frame::Datagram { from, to, .. }
                if from.is_ipv4() && (from.port(), to.port()) == (DHCP_SERVER, DHCP_CLIENT) =>
            {
                // The client will send to the server.
                if !is_usable(from.ip()) {
                    self.ignore_frame();
                    return true;
                }
                Some(DHCP)
            }
            Frame::Datagram { from, to, data } => {
                if !self.deliver(*from, *to, data.clone()) {
                    return true;
                }
                (from.port() == DNS_SERVER).then_some(DNS)
            }
            Frame::Syn { from, to } | Frame::Segment { from, to } if !self.is_for_card(*from, *to) => {
                self.ignore_frame();
                return true;
            }
            Frame::Segment { from, to } => match self.flows.get(&Ends(*to, *from)).copied() {
                Some(id) => Some(id),
                None => match self.without_socket() {
                    WithoutSocket::Unknown => None,
                    WithoutSocket::Done => {
                        self.lose_frame();
                        return true;
                    }
                    WithoutSocket::Opens { segment, syn, our_seq, offer } => {
                        let Some(id) = self.opened(&segment, &syn, our_seq, offer) else {
                            self.lose_frame();
                            return true;
                        };
                        Some(id)
                    }
                },
            },
            Frame::Syn { from, to } => match self.asked(*from, *to) {
                Asked::By(id) => Some(id),
                Asked::ByNobody => None,
                Asked::Answered => {
                    self.lose_frame();
                    return true;
                }
            },
        };
        let of = of.and_then(|id| Some((id, self.packets.get_mut(&id).filter(|packets| packets.side == Side::Card)?)));
        match (of, &mut self.card) {
            (Some((id, packets)), Some(card)) => {
                packets.receive(&mut card.link, self.now);
                self.touch_packets(id);
            }
            _ => self.by_no_socket(),
        }
        true
    }

    /// Handles a connection request (half-open connections, step 1).
    fn asked(&mut self, from: SocketAddr, to: SocketAddr) -> Asked {
        if let Some(id) = self.flows.get(&Ends(to, from)) {
            return Asked::By(*id);
        }
        let Some(card) = &mut self.card else { return Asked::ByNobody };
        let Some(syn) = card.link.wire.next().and_then(Segment::read) else { return Asked::Answered };
        card.time_wait.expire(self.now);
        if !card.time_wait.gives_way(&syn) {
            if let Some(answer) = card.time_wait.answer(&syn, card.mac) {
                card.link.wire.send(answer.write());
            }
            return Asked::Answered;
        }
        let Some(listener) = self.ports.listener(to) else { return Asked::ByNobody };
        let Some(Socket { body: Body::Listener(queue), choices, .. }) = self.sockets.get(&listener) else {
            return Asked::ByNobody;
        };
        // Without room the peer will repeat its request.
        if queue.has_room() {
            let our_seq = card.initial_number(to, from, self.now);
            let ours = Ours { mac: card.mac, offer: card.offer(choices, from.ip()) };
            let answer = card.half_open.syn(&syn, ours, our_seq, self.now);
            card.link.wire.send(answer.write());
        } else {
            card.counts.no_room += 1;
        }
        Asked::Answered
    }

    fn without_socket(&mut self) -> WithoutSocket {
        self.card.as_mut().map_or(WithoutSocket::Unknown, |card| card.without_socket(self.now))
    }

    /// A segment opens a connection (half-open connections, step 3). Returns its new socket, for which the frame is.
    fn opened(&mut self, segment: &Segment, syn: &Segment, our_seq: i32, offer: Offer) -> Option<Id> {
        let listener = self.ports.listener(segment.to).and_then(|id| self.sockets.get(&id))?;
        let card = self.card.as_mut()?;
        // Another listener, with other buffers, has taken the place of the one that was asked.
        if !card.can_have_offered(&offer, &listener.choices, segment.from.ip()) {
            card.half_open.remove(segment);
            return None;
        }
        // Without room in the listener's queue, the peer sends again.
        let id = self.arrive(segment.from, segment.to, Side::Card)?;
        let (card, packets) = (self.card.as_mut()?, self.packets.get_mut(&id)?);
        packets.socket::<tcp::Socket<'static>>().set_initial_sequence_number(our_seq);
        card.link.wire.put_first(syn.write());
        packets.receive(&mut card.link, self.now);
        packets.socket::<tcp::Socket<'static>>().set_answered(offer.window);
        card.half_open.remove(segment);
        Some(id)
    }

    /// The card's next frame is a router's: it has not passed on a segment, because the path to `to` carries packets of `mtu`
    /// bytes only. Anybody can write such a message, so it must quote a segment of a connection that is in flight.
    fn packet_too_big(&mut self, from: SocketAddr, to: SocketAddr, seq: i32, mtu: usize) {
        let is_due = self.owns(from.ip()) && self.can_be_there(to.ip());
        let id = self.flows.get(&Ends(from, to)).copied().filter(|_| is_due);
        let packets = id.and_then(|id| self.packets.get_mut(&id)).filter(|packets| packets.side == Side::Card);
        let has_changed =
            packets.is_some_and(|packets| packets.socket::<tcp::Socket<'static>>().path_is_narrow(seq, mtu));
        match id {
            Some(id) if has_changed => {
                self.lose_frame();
                self.touch(id);
            }
            _ => self.ignore_frame(),
        }
    }

    /// A connection has ended on both sides. Late segments of it are answered for a while.
    pub(crate) fn wait_for_late_segments(&mut self, id: Id) {
        let Some(packets) = self.packets.get_mut(&id).filter(|packets| packets.side == Side::Card) else { return };
        let tcp = packets.socket::<tcp::Socket<'static>>();
        if tcp.state() != State::TimeWait {
            return;
        }
        let ends = (tcp.remote_endpoint(), tcp.local_endpoint());
        if let (Some(card), (Some(peer), Some(here))) = (&mut self.card, ends) {
            let [peer, here] = [peer, here].map(|end| SocketAddr::new(end.addr.into(), end.port));
            card.time_wait.add(peer, here, tcp.next_sequence_numbers(), self.now);
        }
    }

    /// Drops the card's next frame, which nobody here can want.
    pub(crate) fn ignore_frame(&mut self) {
        self.lose_frame();
        if let Some(card) = &mut self.card {
            card.counts.ignored += 1;
        }
    }

    /// Drops the card's next frame.
    pub(crate) fn lose_frame(&mut self) {
        if let Some(card) = &mut self.card {
            card.link.wire.lose();
        }
    }

    /// smoltcp handles the card's next frame, which is for no socket: it answers neighbours' requests, echo requests,
    /// segments without a connection and datagrams without a receiver.
    fn by_no_socket(&mut self) {
        if let Some(card) = &mut self.card {
            let Link { interface, wire } = &mut card.link;
            interface.poll_ingress_single(self.now, wire, &mut self.no_sockets);
        }
    }

    /// smoltcp handles the card's next frame, which may be the answer of a neighbour. Whoever waits for one looks.
    fn by_neighbor(&mut self) {
        let asking: Vec<Id> = self.card.iter().flat_map(|card| card.asking.iter().copied()).collect();
        self.by_no_socket();
        asking.into_iter().for_each(|id| self.touch_packets(id));
    }

    /// Whether an address is the card's.
    pub(crate) fn owns(&self, ip: IpAddr) -> bool {
        let Some(card) = &self.card else { return false };
        match ip {
            IpAddr::V4(ip) => card.network().is_some_and(|network| network.address() == ip),
            IpAddr::V6(ip) => card.owns_v6(ip),
        }
    }

    /// Whether a segment that came over the card has the card's address and a peer that can be there.
    fn is_for_card(&self, from: SocketAddr, to: SocketAddr) -> bool {
        self.owns(to.ip()) && self.can_be_there(from.ip()) && from.port() != 0
    }

    /// Whether an address can be another machine's.
    pub(crate) fn can_be_there(&self, from: IpAddr) -> bool {
        let has_family = match from {
            // The address of all machines of the network is no machine's.
            IpAddr::V4(ip) => {
                let network = self.card.as_ref().and_then(Card::network);
                network.is_some_and(|network| network.broadcast() != Some(ip))
            }
            IpAddr::V6(_) => self.card.as_ref().is_some_and(|card| card.v6.is_some()),
        };
        is_usable(from) && has_family && !self.owns(from)
    }

    /// Gives a datagram of the card's next frame to its receiver, and drops the frame. Returns whether the frame is
    /// still there: nobody receives it, and its sender may be told.
    fn deliver(&mut self, from: SocketAddr, to: SocketAddr, data: std::ops::Range<usize>) -> bool {
        if to.ip().is_multicast() && self.can_be_there(from.ip()) {
            self.deliver_to_group(from, (to.ip(), to.port()), data);
            return false;
        }
        let network = self.card.as_ref().and_then(Card::network);
        let to_all = match (to.ip(), network) {
            (IpAddr::V4(ip), Some(network)) => ip.is_broadcast() || network.broadcast() == Some(ip),
            _ => false,
        };
        if !(self.owns(to.ip()) || to_all) || !self.can_be_there(from.ip()) {
            self.ignore_frame();
            return false;
        }
        let Some(receiver) = self.receiver(from, to) else {
            if to_all {
                self.lose_frame();
            }
            return !to_all;
        };
        let (bindings, version) = (self.ports.changes(), self.card.as_ref().map_or(0, |card| card.version));
        self.heard = (from.is_ipv4() && to.is_ipv4()).then_some(Heard { from, to, receiver, bindings, version });
        self.deliver_to(receiver, from, data);
        false
    }

    /// The receiver of the last datagram that went this way, if no other can be now.
    fn who_heard(&self, from: SocketAddr, to: SocketAddr) -> Option<Id> {
        let (heard, card) = (self.heard.as_ref()?, self.card.as_ref()?);
        let is_same = heard.from == from
            && heard.to == to
            && heard.bindings == self.ports.changes()
            && heard.version == card.version;
        is_same.then_some(heard.receiver)
    }

    /// Gives a datagram of the card's next frame to this socket, and drops the frame.
    fn deliver_to(&mut self, receiver: Id, from: SocketAddr, data: std::ops::Range<usize>) {
        let Some(card) = &mut self.card else { return };
        if let Some(Socket { end, family, .. }) = self.sockets.get_mut(&receiver)
            && let Some(frame) = card.link.wire.next_mut()
            // The frame's headers are longer than ours, which takes their place.
            && let Some(start) = data.start.checked_sub(HEADER)
            && let Some(datagram) = frame.get_mut(start..data.end)
        {
            datagram[..HEADER].copy_from_slice(&network_protocol::encode_header(Some(shown(*family, from))));
            // If the reader has no room, the datagram is dropped, as on any network.
            if end.give(datagram) != WriteOutcome::Bytes(datagram.len()) {
                card.counts.no_room += 1;
            }
        }
        card.link.wire.lose();
    }

    /// Where packets to an address go. `None`: nowhere.
    pub(crate) fn side_of(&self, ip: IpAddr) -> Option<Side> {
        if self.is_own(ip) {
            return Some(Side::Loop);
        }
        let reaches = |card: &&Card| match ip {
            IpAddr::V4(ip) => card.reaches(ip),
            IpAddr::V6(ip) => card.reaches_v6(ip, self.now),
        };
        self.card.as_ref().filter(reaches).map(|_| Side::Card)
    }

    /// Whether packets to an address go to all machines of a network.
    pub(crate) fn is_broadcast(&self, ip: IpAddr) -> bool {
        let IpAddr::V4(v4) = ip else { return false };
        let of_card = self.card.as_ref().and_then(Card::network).and_then(|network| network.broadcast());
        crate::ports::is_broadcast(ip) || of_card == Some(v4)
    }

    /// The local address for traffic to `ip` if none was chosen.
    pub(crate) fn source(&self, ip: IpAddr) -> IpAddr {
        let own = match ip {
            IpAddr::V4(_) => self.card_network().map(|(address, _)| address.into()),
            IpAddr::V6(ip) => self.source_v6(ip).map(IpAddr::V6),
        };
        match (self.side_of(ip), own) {
            (Some(Side::Card), Some(address)) => address,
            (Some(Side::Loop), _) if self.owns(ip) => ip,
            (None, Some(address)) if ip.is_multicast() => address,
            _ => crate::stack::localhost(SocketAddr::new(ip, 0)).ip(),
        }
    }

    /// Whether an address is this machine's.
    pub(crate) fn is_own(&self, ip: IpAddr) -> bool {
        ip.is_loopback() || self.owns(ip)
    }

    /// Gives a datagram to the smoltcp socket of a datagram socket. That only sends: datagrams that come in need none.
    ///
    /// # Errors
    /// `Invalid`: it is too long. `NoMemory`: [`SENDS`] datagrams wait. `Unreachable`: there is no link.
    pub(crate) fn send_over_card(
        &mut self,
        id: Id,
        from: SocketAddr,
        to: SocketAddr,
        data: &[u8],
    ) -> Result<(), Error> {
        if !self.is_online() {
            return Err(Error::Unreachable);
        }
        let longest = self.card.as_ref().map_or(0, |card| card.link.wire.mtu().saturating_sub(HEADERS));
        let socket = self.sockets.get(&id).ok_or(Error::Invalid)?;
        if data.len() > longest.saturating_sub(if to.is_ipv6() { V6_MORE } else { 0 }) {
            return Err(Error::Invalid);
        }
        let hops = match to.ip() {
            IpAddr::V4(ip) if ip.is_multicast() => socket.choices.group_ttl,
            IpAddr::V6(ip) if ip.is_multicast() => socket.choices.group_hops,
            IpAddr::V4(_) => socket.choices.ttl,
            IpAddr::V6(_) => socket.choices.hops,
        };
        let hops = hops.max(1);
        if let Some(Socket { body: Body::Datagrams(datagrams), .. }) = self.sockets.get_mut(&id) {
            // Those behind it stay behind it.
            datagrams.way = None;
        }
        let packets = self.packets.entry(id).or_insert_with(|| {
            let none = udp::PacketBuffer::new(Vec::new(), Vec::new());
            // A datagram lies in one piece, so one that does not fit before the end leaves a gap there.
            let room = (vec![udp::PacketMetadata::EMPTY; SENDS + 1], vec![0; (SENDS + 1) * longest]);
            let mut udp = udp::Socket::new(none, udp::PacketBuffer::new(room.0, room.1));
            // The port is not 0, and the socket is new.
            let _ = udp.bind(from.port());
            Packets::new(udp, Side::Card)
        });
        let waiting = packets.datagrams.unwrap_or_default();
        if waiting >= SENDS {
            return Err(Error::NoMemory);
        }
        let udp = packets.socket::<udp::Socket<'static>>();
        udp.set_hop_limit(Some(hops));
        let mut meta = udp::UdpMetadata::from(endpoint(to));
        meta.local_address = Some(from.ip().into());
        udp.send_slice(data, meta).map_err(|_| Error::NoMemory)?;
        packets.datagrams = Some(waiting + 1);
        Ok(())
    }
}

/// The address of an interface.
fn own(cidr: &IpCidr) -> IpAddr {
    cidr.address().into()
}

/// Whether an address can be one machine's on the card's network. smoltcp would panic if it had to send to another.
pub(crate) fn is_usable(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => !ip.is_unspecified() && !ip.is_multicast() && !ip.is_broadcast() && !ip.is_loopback(),
        IpAddr::V6(ip) => {
            // All that begins like a link-local address is one, or none.
            let is_odd = ip.is_unicast_link_local() && !is_link_local(ip);
            let is_v4 = ip.segments()[..5] == [0; 5];
            !ip.is_unspecified() && !ip.is_multicast() && !ip.is_loopback() && !is_odd && !is_v4
        }
    }
}

/// What a segment of a connection without a socket means.
enum WithoutSocket {
    /// It opens a half-open connection, whose request was `syn`.
    Opens { segment: Segment, syn: Box<Segment>, our_seq: i32, offer: Offer },
    /// It was handled, or is dropped.
    Done,
    /// No such connection is known: smoltcp answers it with a reset.
    Unknown,
}

/// What became of a connection request.
enum Asked {
    /// It is for this connection.
    By(Id),
    /// Nobody listens there: smoltcp answers it with a reset.
    ByNobody,
    /// The stack has answered it, or drops it.
    Answered,
}
