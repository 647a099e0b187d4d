//! All sockets, and the transfer between clients' data sockets and smoltcp.
//!
//! Nothing here blocks. The service makes a call for each request and for each packet of its port. Then it calls
//! [`Stack::poll`], which moves some of the waiting data and returns when it must be called again if nothing happens.
//! The limits below bound what a program can make the stack hold; a number of steps bounds the work of one call.
//! Sockets with events take turns, one of each program after the other.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use chacha20::ChaCha20Rng;
use network_protocol::{CARD, Error, Family, INCOMING, Kind, Reply, Request, is_link_local};
use rand_core::{Rng, SeedableRng};
use service::{FairQueue, Ledger, Program};
use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::socket::tcp;
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpCidr};

use crate::card::{Card, DHCP, Heard};
use crate::carrier::LIMITS;
use crate::datagrams::HEADERS;
use crate::frames::{self, Frame};
use crate::groups::{Groups, MEMBERSHIPS, MEMBERSHIPS_OF_PROGRAM};
use crate::lookup::{DNS, Lookups};
use crate::packets::{Charge, Link, Packets, Side, Timers};
use crate::ports::{Binding, Ends, Id, Numbered, Ports};
use crate::socket::{BUFFER, Body, Choices, Datagrams, End, Flow, Listener, Phase, Socket, Transport};
use crate::wire::Wire;

/// Maximum number of sockets.
pub const SOCKETS: usize = 4096;
/// Maximum number of sockets charged to one program.
pub const SOCKETS_OF_PROGRAM: usize = 1024;
/// Maximum number of control channels of one socket.
pub const HOLDERS: u32 = 64;
/// Maximum length of a listener's queue.
const BACKLOG: u32 = 1024;
/// Bytes of the buffers of connections that are charged together.
const UNIT: usize = 1 << 10;
/// Units of a connection whose client has not set the sizes.
const UNITS: u64 = (2 * BUFFER / UNIT) as u64;
/// Maximum number of turns of sockets in one poll, before the service reads its port again.
pub const STEPS: usize = 32;

/// The source of data sockets.
pub trait DataSockets {
    /// The service's end of a data socket.
    type End: End;
    /// What a client sends to create one.
    type ClientEnds;

    /// Takes the data socket that the client has created for the socket with this number. The client's job is charged
    /// for the data that waits in it.
    ///
    /// # Errors
    /// `Malformed`: it is not a data socket.
    fn take(&mut self, id: Id, kind: Kind, brought: Self::ClientEnds) -> Result<Self::End, Error>;

    /// Creates a data socket for the socket with this number.
    ///
    /// # Errors
    /// `NoMemory`.
    fn make(&mut self, id: Id, kind: Kind) -> Result<Self::End, Error>;

    /// The same data socket for the other side: the client's end of this one is the service's end of the other.
    ///
    /// # Errors
    /// `NoMemory`.
    fn other(&mut self, id: Id, end: &Self::End) -> Result<Self::End, Error>;
}

/// All sockets, and the state of the network.
pub struct Stack<W: DataSockets> {
    pub(crate) world: W,
    /// The loopback interface.
    pub(crate) local: Link,
    /// The network card's interface.
    pub(crate) card: Option<Card>,
    /// DHCP servers are asked anew after a link has come: until then the address from before stays.
    pub(crate) dhcp_waits: Option<Instant>,
    /// The name servers, and what was asked.
    pub(crate) name_servers: Vec<Ipv4Addr>,
    pub(crate) lookups: Lookups,
    /// The smoltcp sockets of connections in packets.
    pub(crate) packets: Numbered<Packets>,
    /// When they must send.
    pub(crate) timers: Timers,
    /// Without sockets: smoltcp handles frames with it that are for none.
    pub(crate) no_sockets: SocketSet<'static>,
    pub(crate) sockets: Numbered<Socket<W::End>>,
    /// Connections by local and peer address.
    pub(crate) flows: HashMap<Ends, Id>,
    pub(crate) ports: Ports,
    /// Sockets with events.
    fair_queue: FairQueue<Id>,
    /// When connections that wait for a place in a listener's queue time out.
    pub(crate) asking: BTreeSet<(Instant, Id)>,
    /// Connections without a client, oldest first.
    pub(crate) orphans: VecDeque<(Instant, Id)>,
    pub(crate) now: Instant,
    /// The last datagram that came over the card.
    pub(crate) heard: Option<Heard>,
    /// Buffer for a datagram with its header, and before it room for that of a frame.
    pub(crate) scratch: Vec<u8>,
    /// Connections between two clients bypass smoltcp.
    pub(crate) direct: bool,
    /// The multicast groups, and the memberships of programs.
    pub(crate) groups: Groups,
    pub(crate) memberships: Ledger,
    ledger: Ledger,
    /// Connections in packets: their buffers are the service's, in units of [`UNIT`].
    connections: Ledger,
    last: Id,
}

impl<W: DataSockets> Stack<W> {
    /// A stack without sockets. The seed determines sequence numbers and ports. With `direct`, clients are connected
    /// with each other directly where possible; without it, every connection uses smoltcp.
    pub fn new(world: W, seed: [u8; 32], now: Instant, direct: bool) -> Stack<W> {
        let mut wire = Wire::looped();
        let mut config = Config::new(HardwareAddress::Ip);
        let mut random = ChaCha20Rng::from_seed(seed);
        config.random_seed = random.next_u64();
        let mut interface = Interface::new(config, &mut wire, now);
        interface.update_ip_addrs(|addresses| {
            // smoltcp has room for at least two addresses.
            let _ = addresses.push(IpCidr::new(Ipv4Addr::LOCALHOST.into(), 8));
            let _ = addresses.push(IpCidr::new(Ipv6Addr::LOCALHOST.into(), 128));
        });
        // All of 127.0.0.0/8 is this machine. No other traffic comes over this wire.
        interface.set_any_ip(true);
        Stack {
            world,
            local: Link { interface, wire },
            card: None,
            dhcp_waits: None,
            name_servers: Vec::new(),
            lookups: Lookups::default(),
            packets: Numbered::default(),
            timers: Timers::new(),
            no_sockets: SocketSet::new(Vec::new()),
            sockets: Numbered::default(),
            flows: HashMap::new(),
            ports: Ports::new(random),
            fair_queue: FairQueue::default(),
            asking: BTreeSet::new(),
            orphans: VecDeque::new(),
            now,
            heard: None,
            scratch: vec![0; HEADERS + usize::from(u16::MAX)],
            direct,
            groups: Groups::default(),
            memberships: Ledger::new(MEMBERSHIPS, MEMBERSHIPS_OF_PROGRAM),
            ledger: Ledger::new(SOCKETS as u64, SOCKETS_OF_PROGRAM as u64),
            connections: Ledger::new(SOCKETS as u64 * UNITS, SOCKETS_OF_PROGRAM as u64 * UNITS),
            last: DNS,
        }
    }

    /// Sets the memory for the buffers of connections in packets, in bytes.
    pub fn limit_buffers(&mut self, bytes: u64) {
        let most = (bytes / UNIT as u64).min(SOCKETS as u64 * UNITS);
        self.connections = Ledger::new(most, SOCKETS_OF_PROGRAM as u64 * UNITS);
    }

    /// Charges a program for the buffers of a connection, before they are allocated. `None`: there is no memory.
    pub(crate) fn charge(&mut self, program: Program, choices: &Choices) -> Option<Charge> {
        let buffers = u64::from(choices.receive_buffer) + u64::from(choices.send_buffer);
        let units = buffers.div_ceil(UNIT as u64);
        self.connections.take(program, units).then_some((program, units))
    }

    /// Gives back what was charged for a connection.
    pub(crate) fn give_back(&mut self, (program, units): Charge) {
        self.connections.give(program, units);
    }

    /// Adds the smoltcp socket of a connection, whose buffers are charged.
    pub(crate) fn add_connection(&mut self, id: Id, tcp: tcp::Socket<'static>, side: Side, charged: Charge) {
        let mut packets = Packets::new(tcp, side);
        packets.charged = Some(charged);
        self.packets.insert(id, packets);
    }

    /// The service's end of a datagram socket's data socket, to count the errors there (protocol step 11).
    ///
    /// # Errors
    /// `Invalid`: it is not a datagram socket.
    pub fn datagram_end(&mut self, id: Id) -> Result<&mut W::End, Error> {
        let socket = self.sockets.get_mut(&id).filter(|socket| socket.kind != Kind::Stream);
        socket.map(|socket| &mut socket.end).ok_or(Error::Invalid)
    }

    /// The service's end of a socket's data socket.
    pub fn end(&self, id: Id) -> Option<&W::End> {
        self.sockets.get(&id).map(|socket| &socket.end)
    }

    /// Number of sockets.
    pub fn len(&self) -> usize {
        self.sockets.len()
    }

    /// Whether there are no sockets.
    pub fn is_empty(&self) -> bool {
        self.sockets.is_empty()
    }

    /// Creates a socket with one holder (protocol step 2), with the data socket that its client sent.
    ///
    /// # Errors
    /// `TooMany`, `NoMemory`, `Malformed`.
    pub fn open(&mut self, program: Program, family: Family, kind: Kind, brought: W::ClientEnds) -> Result<Id, Error> {
        let body = match kind {
            Kind::Stream => Body::Fresh,
            Kind::Datagram | Kind::Echo => Body::Datagrams(Datagrams { peer: None, way: None, groups: Vec::new() }),
        };
        let id = self.add(program, family, kind, body, Source::Client(brought))?;
        if kind != Kind::Stream
            && let Some(socket) = self.sockets.get_mut(&id)
        {
            // ICMP is another protocol over IPv6 than over IPv4.
            socket.choices.only_v6 = kind == Kind::Echo;
            socket.reads = true;
            socket.end.watch_readable();
        }
        Ok(id)
    }

    /// The next number of a socket.
    pub(crate) fn next_id(&mut self) -> Id {
        self.last += 1;
        self.last
    }

    /// Adds a socket.
    pub(crate) fn add(
        &mut self,
        program: Program,
        family: Family,
        kind: Kind,
        body: Body,
        source: Source<W::ClientEnds>,
    ) -> Result<Id, Error> {
        if !self.ledger.take(program, 1) {
            return Err(Error::TooMany);
        }
        let id = self.next_id();
        let end = match source {
            Source::Client(brought) => self.world.take(id, kind, brought),
            Source::Other(other) => match self.sockets.get(&other) {
                Some(other) => self.world.other(id, &other.end),
                None => Err(Error::Invalid),
            },
            Source::Here => self.world.make(id, kind),
        };
        let end = end.inspect_err(|_| self.ledger.give(program, 1))?;
        let socket = Socket {
            program,
            rule: None,
            family,
            kind,
            holders: 1,
            end,
            local: None,
            bound: None,
            error: None,
            choices: Choices::default(),
            body,
            reads: false,
            writes: false,
            touched: false,
            closing: false,
            lost: false,
        };
        self.sockets.insert(id, socket);
        Ok(id)
    }

    /// Queues a socket with an event for a turn.
    pub(crate) fn touch(&mut self, id: Id) {
        if let Some(socket) = self.sockets.get_mut(&id)
            && !std::mem::replace(&mut socket.touched, true)
        {
            self.fair_queue.push(socket.program, id);
        }
    }

    /// Removes a socket.
    pub(crate) fn remove(&mut self, id: Id) {
        self.drop_packets(id);
        self.leave_all(id);
        let Some(socket) = self.sockets.remove(&id) else { return };
        if let Some(port) = socket.bound {
            self.ports.free(socket.kind, id, port);
        }
        self.ledger.give(socket.program, 1);
    }

    /// Adds a control channel (protocol step 8).
    ///
    /// # Errors
    /// `TooMany`.
    pub fn share(&mut self, id: Id) -> Result<(), Error> {
        let socket = self.sockets.get_mut(&id).ok_or(Error::Invalid)?;
        if socket.holders >= HOLDERS {
            return Err(Error::TooMany);
        }
        socket.holders += 1;
        Ok(())
    }

    /// A control channel has closed (protocol step 9).
    pub fn close(&mut self, id: Id) {
        let Some(socket) = self.sockets.get_mut(&id) else { return };
        socket.holders = socket.holders.saturating_sub(1);
        if socket.holders > 0 {
            return;
        }
        match &socket.body {
            Body::Fresh => self.remove(id),
            Body::Listener(_) => self.close_listener(id),
            Body::Flow(_) => self.close_flow(id),
            Body::Datagrams(_) => self.close_datagrams(id),
        }
    }

    /// Handles a request on a control channel (protocol step 3), except [`Request::Clone`] and [`Request::Accept`],
    /// which return handles.
    ///
    /// # Errors
    /// The reason of the refusal.
    pub fn request(&mut self, id: Id, request: Request<'_>) -> Result<Reply, Error> {
        let done = |()| Reply::Done;
        // The request may change who hears what.
        self.heard = None;
        if matches!(
            request,
            Request::Connect { .. } | Request::Set(..) | Request::Group { .. } | Request::GroupV6 { .. }
        ) {
            self.send_earlier(id);
        }
        if let Some(Socket { body: Body::Datagrams(datagrams), .. }) = self.sockets.get_mut(&id) {
            // The request may change it.
            datagrams.way = None;
        }
        match request {
            Request::Bind(address) => self.bind(id, address).map(done),
            Request::Connect { to, wait } => self.connect(id, to, wait).map(done),
            Request::Listen(backlog) => self.listen(id, backlog).map(done),
            Request::LocalAddress => self.local_address(id).map(Reply::Address),
            Request::PeerAddress => self.peer_address(id).map(Reply::Address),
            Request::Set(choice, value) => self.set_choice(id, choice, value).map(done),
            Request::Get(choice) => self.choice(id, choice).map(Reply::Value),
            Request::Group { join, group, interface } => self.set_group(id, join, group, interface).map(done),
            Request::GroupV6 { join, group, interface } => self.set_group_v6(id, join, group, interface).map(done),
            Request::Information => self.information(id).map(Reply::Information),
            Request::Prepare(address) => self.prepare(id, address).map(done),
            // These carry handles, or are for a client's channel.
            Request::Open(..)
            | Request::Clone
            | Request::Accept
            | Request::CountErrors
            | Request::Lookup(_)
            | Request::Card
            | Request::Settle => Err(Error::Malformed),
        }
    }

    /// Checks that this socket may use an address.
    pub(crate) fn check_family(socket: &Socket<W::End>, address: SocketAddr) -> Result<(), Error> {
        match (socket.family, address) {
            (Family::V4, SocketAddr::V6(_)) | (Family::V6, SocketAddr::V4(_)) => Err(Error::WrongFamily),
            // Only the card has such addresses, and who names one says so, as on Linux.
            (_, SocketAddr::V6(to)) if is_link_local(*to.ip()) && to.scope_id() != CARD => Err(Error::Invalid),
            _ => Ok(()),
        }
    }

    fn bind(&mut self, id: Id, address: SocketAddr) -> Result<(), Error> {
        let socket = self.sockets.get(&id).ok_or(Error::Invalid)?;
        Self::check_family(socket, address)?;
        if socket.bound.is_some() || !matches!(socket.body, Body::Fresh | Body::Datagrams(_)) {
            return Err(Error::Invalid);
        }
        let canonical = network_protocol::canonical(address);
        if canonical.is_ipv4() && address.is_ipv6() && socket.choices.only_v6 {
            return Err(Error::Invalid);
        }
        let ip = canonical.ip();
        // A receiver can bind a group's address, to hear no other group.
        let is_group = ip.is_multicast() && socket.kind == Kind::Datagram;
        if !ip.is_unspecified() && !self.is_own(ip) && !is_group {
            return Err(Error::AddressNotAvailable);
        }
        let at = SocketAddr::new(ip, canonical.port());
        socket.check_bind(at)?;
        self.bind_to(id, at)
    }

    /// Binds to an address that was checked.
    pub(crate) fn bind_to(&mut self, id: Id, mut address: SocketAddr) -> Result<(), Error> {
        let socket = self.sockets.get_mut(&id).ok_or(Error::Invalid)?;
        let both = address.ip().is_unspecified() && address.is_ipv6() && !socket.choices.only_v6;
        let binding = Binding { id, address, both, reuse: socket.choices.reuse, listens: false };
        let kind = socket.kind;
        if kind == Kind::Echo && address.port() != 0 {
            self.end_closed_echo(address.port());
        }
        let port = self.ports.bind(kind, binding)?;
        address.set_port(port);
        let socket = self.sockets.get_mut(&id).ok_or(Error::Invalid)?;
        (socket.local, socket.bound) = (Some(address), Some(port));
        Ok(())
    }

    fn listen(&mut self, id: Id, backlog: u32) -> Result<(), Error> {
        let socket = self.sockets.get(&id).ok_or(Error::Invalid)?;
        let backlog = backlog.min(BACKLOG) as usize;
        match socket.body {
            Body::Fresh => {}
            Body::Listener(_) => {
                if let Some(Socket { body: Body::Listener(listener), .. }) = self.sockets.get_mut(&id) {
                    listener.backlog = backlog;
                    if let Some(next) = listener.asking.front().copied() {
                        self.touch(next);
                    }
                }
                return Ok(());
            }
            Body::Flow(_) => return Err(Error::Invalid),
            Body::Datagrams(_) => return Err(Error::NotSupported),
        }
        let was_bound = socket.bound.is_some();
        self.bind_any(id)?;
        let socket = self.sockets.get_mut(&id).ok_or(Error::Invalid)?;
        if let Err(denied) = socket.local.map_or(Err(Error::Invalid), |at| socket.check_listen(at)) {
            if let Some(port) = socket.bound.filter(|_| !was_bound) {
                self.ports.free(socket.kind, id, port);
                (socket.local, socket.bound) = (None, None);
            }
            return Err(denied);
        }
        self.ports.listen(id, socket.bound.ok_or(Error::Invalid)?)?;
        let (waiting, asking) = (VecDeque::new(), VecDeque::new());
        socket.body = Body::Listener(Listener { backlog, waiting, coming: Vec::new(), asking });
        socket.end.tell(0, network_protocol::LISTENING);
        Ok(())
    }

    /// Accepts a connection from a listener. The connection then has one holder (protocol step 5).
    ///
    /// # Errors
    /// `Again`: no connection waits. `Invalid`: the socket does not listen.
    pub fn accept(&mut self, id: Id) -> Result<(Id, SocketAddr), Error> {
        let socket = self.sockets.get_mut(&id).ok_or(Error::Invalid)?;
        let Body::Listener(listener) = &mut socket.body else { return Err(Error::Invalid) };
        let taken = listener.waiting.pop_front().ok_or(Error::Again)?;
        if listener.waiting.is_empty() {
            socket.end.tell(INCOMING, 0);
        }
        if let Some(next) = listener.asking.front().copied() {
            self.touch(next);
        }
        let socket = self.sockets.get_mut(&taken).ok_or(Error::Again)?;
        let Body::Flow(flow) = &mut socket.body else { return Err(Error::Again) };
        if flow.phase != Phase::Over {
            flow.phase = Phase::Open;
        }
        socket.holders = 1;
        Ok((taken, shown(socket.family, flow.peer)))
    }

    fn local_address(&self, id: Id) -> Result<SocketAddr, Error> {
        let socket = self.sockets.get(&id).ok_or(Error::Invalid)?;
        let Some(local) = socket.local else { return Ok(unspecified(socket.family)) };
        let peer = match &socket.body {
            Body::Datagrams(datagrams) => datagrams.peer,
            _ => None,
        };
        let ip = match peer {
            Some(peer) if local.ip().is_unspecified() => self.source(peer.ip()),
            _ => local.ip(),
        };
        Ok(shown(socket.family, SocketAddr::new(ip, local.port())))
    }

    fn peer_address(&self, id: Id) -> Result<SocketAddr, Error> {
        let socket = self.sockets.get(&id).ok_or(Error::Invalid)?;
        let peer = match &socket.body {
            Body::Flow(flow) if !matches!(flow.phase, Phase::Connecting(_)) => Some(flow.peer),
            Body::Datagrams(datagrams) => datagrams.peer,
            _ => None,
        };
        Ok(shown(socket.family, peer.ok_or(Error::NotConnected)?))
    }

    /// A client's data can be read, or the client has closed its end.
    pub fn readable(&mut self, id: Id) {
        if let Some(socket) = self.sockets.get_mut(&id) {
            socket.reads = false;
            self.touch(id);
        }
    }

    /// There is room to write to a client.
    pub fn writable(&mut self, id: Id) {
        if let Some(socket) = self.sockets.get_mut(&id) {
            socket.writes = false;
            self.touch(id);
        }
    }

    /// Moves some of the waiting data. Returns the latest time for the next call; the current time means that there is
    /// more to do.
    pub fn poll(&mut self, now: Instant) -> Option<Instant> {
        self.now = self.now.max(now);
        self.end_orphans();
        self.end_asking();
        self.end_streams();
        self.fire_timers();
        if let Some(card) = &mut self.card {
            card.repeat_answers(self.now);
        }
        self.report_groups();
        self.tend_ipv6();
        let mut steps = STEPS;
        while self.has_work() && self.round(&mut steps) || self.call_in() {
            if steps == 0 {
                return Some(self.now);
            }
        }
        let orphans = self.orphans.front().map(|(at, _)| *at);
        let asking = self.asking.first().map(|(at, _)| *at);
        let timers = self.timers.first().map(|(at, _)| *at);
        let answers = self.card.as_ref().and_then(|card| card.half_open.deadline());
        let (groups, lookups) = (self.groups.deadline(), self.lookups.deadline(self.now));
        let (streams, ipv6) = (self.lookups.streams.deadline(), self.ipv6_deadline());
        earliest([timers, orphans, asking, answers, groups, lookups, streams, ipv6])
    }

    /// Whether a round would do anything.
    fn has_work(&self) -> bool {
        let has_frames = |card: &Card| !card.link.wire.is_empty();
        !self.fair_queue.is_empty() || !self.local.wire.is_empty() || self.card.as_ref().is_some_and(has_frames)
    }

    /// Queues a turn for each socket whose timer has fired.
    fn fire_timers(&mut self) {
        while let Some((at, id)) = self.timers.first().copied()
            && at <= self.now
        {
            self.timers.pop_first();
            if let Some(packets) = self.packets.get_mut(&id) {
                packets.fired();
            }
            self.touch_packets(id);
        }
    }

    /// One turn for each queued socket, as long as there are steps, then the received frames. Returns whether there
    /// was anything to do.
    pub(crate) fn round(&mut self, steps: &mut usize) -> bool {
        let any = !self.fair_queue.is_empty() || self.local.wire.next().is_some();
        for _ in 0..self.fair_queue.len().min(*steps) {
            let Some((_, id)) = self.fair_queue.pop() else { break };
            *steps -= 1;
            self.turn(id);
            self.send_packets(id);
        }
        while let Some(frame) = self.local.wire.next() {
            let of = match frames::look(frame) {
                Frame::Syn { from, to } => match self.expect(from, to) {
                    Expected::By(id) => Some(id),
                    Expected::ByNobody => None,
                    Expected::Later => {
                        self.local.wire.lose();
                        continue;
                    }
                },
                Frame::Segment { from, to } => self.flows.get(&Ends(to, from)).copied(),
                Frame::Datagram { .. }
                | Frame::Unreceived { .. }
                | Frame::Echo { .. }
                | Frame::NoEcho { .. }
                | Frame::TooBig { .. }
                | Frame::Query { .. }
                | Frame::RouterAdvertisement { .. }
                | Frame::Neighbor { .. }
                | Frame::QueryV6 { .. }
                | Frame::EchoRequest { .. }
                | Frame::Other
                | Frame::Foreign => None,
            };
            match of.and_then(|id| Some((id, self.packets.get_mut(&id)?))) {
                Some((id, packets)) => {
                    packets.receive(&mut self.local, self.now);
                    self.touch(id);
                }
                None => {
                    let Link { interface, wire } = &mut self.local;
                    interface.poll_ingress_single(self.now, wire, &mut self.no_sockets);
                }
            }
        }
        let mut from_card = false;
        for _ in 0..STEPS {
            if !self.receive_from_card() {
                break;
            }
            from_card = true;
        }
        any || from_card || self.call_in()
    }

    /// Sends what a socket's smoltcp socket has to send, a bounded number of frames at a time.
    pub(crate) fn send_packets(&mut self, id: Id) {
        let Some(packets) = self.packets.get_mut(&id) else { return };
        let link = match (packets.side, &mut self.card) {
            (Side::Loop, _) => &mut self.local,
            (Side::Card, Some(card)) => &mut card.link,
            (Side::Card, None) => return,
        };
        let sent = packets.send(link, self.now, id, &mut self.timers);
        if sent.more && (id <= DNS || self.lookups.streams.has(id)) {
            packets.set_timer(Some(self.now), id, &mut self.timers);
        }
        let closed = packets.is_closed();
        if let (Side::Card, Some(card)) = (packets.side, &mut self.card) {
            card.has_sent(id, sent);
            if sent.wants_room && !card.online {
                packets.set_timer(Some(self.now + LIMITS), id, &mut self.timers);
            }
        }
        if sent.more || closed {
            self.touch(id);
        }
        if sent.asks {
            self.check_router();
        }
        self.datagrams_sent(id, sent.frames);
    }

    /// Queues a turn for a socket whose smoltcp socket has something to do.
    pub(crate) fn touch_packets(&mut self, id: Id) {
        match id {
            DHCP => self.pump_dhcp(),
            DNS => {
                self.begin_streams();
                self.send_packets(DNS);
            }
            _ if self.lookups.streams.has(id) => self.pump_stream(id),
            _ => self.touch(id),
        }
    }

    /// Removes a socket's smoltcp socket, after it has sent its last frame: an acknowledgement, or a reset.
    pub(crate) fn end_packets(&mut self, id: Id) {
        self.send_packets(id);
        self.drop_packets(id);
    }

    /// Removes a socket's smoltcp socket.
    pub(crate) fn drop_packets(&mut self, id: Id) {
        if let Some(mut packets) = self.packets.remove(&id) {
            packets.set_timer(None, id, &mut self.timers);
            if let Some(charged) = packets.charged {
                self.give_back(charged);
            }
            if let Some(card) = &mut self.card {
                card.forget(id);
            }
        }
    }

    /// A socket's turn: does some of its work.
    fn turn(&mut self, id: Id) {
        let Some(socket) = self.sockets.get_mut(&id) else { return };
        socket.touched = false;
        match (&socket.body, socket.kind) {
            (_, Kind::Datagram | Kind::Echo) => self.pump_datagrams(id),
            _ if socket.closing => self.abort(id),
            _ if socket.lost => self.lose_flow(id),
            (Body::Flow(Flow { way: Transport::Waits(_), .. }), _) => self.retry_connect(id),
            _ => self.pump_flow(id),
        }
    }
}

/// The first of these times. A loop, because an iterator over options takes hundreds of instructions.
fn earliest<const N: usize>(times: [Option<Instant>; N]) -> Option<Instant> {
    let mut first: Option<Instant> = None;
    for at in times {
        if let Some(at) = at
            && first.is_none_or(|first| at < first)
        {
            first = Some(at);
        }
    }
    first
}

/// What becomes of a connection request.
pub(crate) enum Expected {
    /// It is for this connection.
    By(Id),
    /// No socket expects it: smoltcp answers it with a reset.
    ByNobody,
    /// Its listener has no room. The peer will repeat it.
    Later,
}

/// The origin of a socket's data socket.
pub(crate) enum Source<B> {
    /// Its client sent it.
    Client(B),
    /// It is the other side of this socket's.
    Other(Id),
    /// It is created here.
    Here,
}

/// The unspecified address of a family.
pub(crate) fn unspecified(family: Family) -> SocketAddr {
    match family {
        Family::V4 => (Ipv4Addr::UNSPECIFIED, 0).into(),
        Family::V6 => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

/// The local address for traffic to `peer` if none was chosen, without a port.
pub(crate) fn localhost(peer: SocketAddr) -> SocketAddr {
    match peer {
        SocketAddr::V4(_) => (Ipv4Addr::LOCALHOST, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::LOCALHOST, 0).into(),
    }
}

/// An address as a socket of this family represents it.
pub(crate) fn shown(family: Family, address: SocketAddr) -> SocketAddr {
    match family {
        Family::V4 => address,
        Family::V6 if address.ip().is_unspecified() => SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), address.port()),
        Family::V6 => match network_protocol::mapped(address) {
            SocketAddr::V6(to) if is_link_local(*to.ip()) => SocketAddrV6::new(*to.ip(), to.port(), 0, CARD).into(),
            other => other,
        },
    }
}
