//! All sockets, and what moves between them: clients' data sockets on one side, smoltcp on the other.
//!
//! Nothing here waits. The service calls for each request and for each packet of its port, then [`Stack::poll`], which
//! moves some of what can be moved and says when it wants to be called again if nothing happens. What a program can make the
//! stack keep is bounded by the limits below; what one call does, by a number of steps. The sockets that something happened
//! to have turns, one of each program after the other.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use network_protocol::{Error, Family, INCOMING, Kind, Reply, Request};
use service::{Ledger, Program, Turns};
use smoltcp::iface::{Config, Interface, PollResult, SocketHandle, SocketSet};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpCidr};

use crate::frames::{self, Frame};
use crate::ports::{Binding, Id, Ports};
use crate::socket::{Body, Choices, Datagrams, End, Flow, Listener, Phase, Socket, Way};
use crate::wire::Wire;

/// Sockets that there may be.
pub const SOCKETS: usize = 4096;
/// Sockets that may count for one program.
pub const SOCKETS_OF_PROGRAM: usize = 1024;
/// Control channels of one socket.
pub const HOLDERS: u32 = 64;
/// The most connections that may wait for one listener.
const BACKLOG: u32 = 1024;
/// Sockets that have their turn in one poll, before the service looks at its port again.
pub const STEPS: usize = 32;
/// How often a poll goes around at most.
const ROUNDS: usize = 64;

/// Where data sockets come from.
pub trait World {
    /// The service's end of one.
    type End: End;
    /// What a client brings along from which that is made.
    type Brought;

    /// Takes one for a socket of this number that the client has made, so that its job pays for what waits in there.
    ///
    /// # Errors
    /// `Malformed`: it is none.
    fn take(&mut self, id: Id, kind: Kind, brought: Self::Brought) -> Result<Self::End, Error>;

    /// Makes one for a socket of this number.
    ///
    /// # Errors
    /// `NoMemory`.
    fn make(&mut self, id: Id, kind: Kind) -> Result<Self::End, Error>;

    /// The same data socket for the other side: what is the client's end of this one is the service's end of that.
    ///
    /// # Errors
    /// `NoMemory`.
    fn other(&mut self, id: Id, end: &Self::End) -> Result<Self::End, Error>;
}

/// All sockets.
pub struct Stack<W: World> {
    pub(crate) world: W,
    pub(crate) wire: Wire,
    pub(crate) interface: Interface,
    pub(crate) set: SocketSet<'static>,
    pub(crate) sockets: HashMap<Id, Socket<W::End>>,
    /// Connections by their own and their peer's address.
    pub(crate) flows: HashMap<(SocketAddr, SocketAddr), Id>,
    pub(crate) ports: Ports,
    /// Those that something happened to.
    turns: Turns<Id>,
    /// When those that wait for a place in a listener's queue give up.
    pub(crate) asking: BTreeSet<(Instant, Id)>,
    /// Those of smoltcp that send a last packet, a reset, and are gone then.
    pub(crate) dying: Vec<SocketHandle>,
    /// Connections without a client, by age.
    pub(crate) orphans: VecDeque<(Instant, Id)>,
    pub(crate) now: Instant,
    /// A datagram with its header, on its way through.
    pub(crate) scratch: Vec<u8>,
    /// Connections between two clients need no packets.
    pub(crate) direct: bool,
    /// When smoltcp wants to be called.
    deadline: Option<Instant>,
    ledger: Ledger,
    last: Id,
}

impl<W: World> Stack<W> {
    /// A stack without sockets. The seed chooses sequence numbers and ports. `direct` joins clients with each other where it
    /// can; without, every connection is smoltcp's.
    pub fn new(world: W, seed: u64, now: Instant, direct: bool) -> Stack<W> {
        let mut wire = Wire::default();
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = seed;
        let mut interface = Interface::new(config, &mut wire, now);
        interface.update_ip_addrs(|addresses| {
            // smoltcp has places for at least two.
            let _ = addresses.push(IpCidr::new(Ipv4Addr::LOCALHOST.into(), 8));
            let _ = addresses.push(IpCidr::new(Ipv6Addr::LOCALHOST.into(), 128));
        });
        // All of 127.0.0.0/8 is this machine. Nothing else comes over this wire.
        interface.set_any_ip(true);
        Stack {
            world,
            wire,
            interface,
            set: SocketSet::new(Vec::new()),
            sockets: HashMap::new(),
            flows: HashMap::new(),
            ports: Ports::new((seed >> 32) as u16),
            turns: Turns::default(),
            asking: BTreeSet::new(),
            dying: Vec::new(),
            orphans: VecDeque::new(),
            now,
            scratch: vec![0; network_protocol::HEADER + usize::from(u16::MAX)],
            direct,
            deadline: None,
            ledger: Ledger::new(SOCKETS as u64, SOCKETS_OF_PROGRAM as u64),
            last: 0,
        }
    }

    /// The end of a socket's data socket.
    pub fn end(&self, id: Id) -> Option<&W::End> {
        self.sockets.get(&id).map(|socket| &socket.end)
    }

    /// How many sockets there are.
    pub fn len(&self) -> usize {
        self.sockets.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.sockets.is_empty()
    }

    /// Makes a socket with one holder (protocol step 2), over the data socket that its client brought.
    ///
    /// # Errors
    /// `TooMany`, `NoMemory`, `Malformed`.
    pub fn open(&mut self, program: Program, family: Family, kind: Kind, brought: W::Brought) -> Result<Id, Error> {
        let body = match kind {
            Kind::Stream => Body::Fresh,
            Kind::Datagram => Body::Datagrams(Datagrams { peer: None }),
        };
        let id = self.add(program, family, kind, body, Source::Client(brought))?;
        if kind == Kind::Datagram
            && let Some(socket) = self.sockets.get_mut(&id)
        {
            socket.reads = true;
            socket.end.watch_readable();
        }
        Ok(id)
    }

    /// Adds a socket.
    pub(crate) fn add(
        &mut self,
        program: Program,
        family: Family,
        kind: Kind,
        body: Body,
        source: Source<W::Brought>,
    ) -> Result<Id, Error> {
        if !self.ledger.take(program, 1) {
            return Err(Error::TooMany);
        }
        self.last += 1;
        let id = self.last;
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
        };
        self.sockets.insert(id, socket);
        Ok(id)
    }

    /// Something happened to a socket: it gets a turn.
    pub(crate) fn touch(&mut self, id: Id) {
        if let Some(socket) = self.sockets.get_mut(&id)
            && !std::mem::replace(&mut socket.touched, true)
        {
            self.turns.push(socket.program, id);
        }
    }

    /// Forgets a socket. What smoltcp has of it must be gone.
    pub(crate) fn remove(&mut self, id: Id) {
        let Some(socket) = self.sockets.remove(&id) else { return };
        if let Some(port) = socket.bound {
            self.ports.free(socket.kind, id, port);
        }
        self.ledger.give(socket.program, 1);
    }

    /// Another control channel (protocol step 8).
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

    /// A control channel has ended (protocol step 9).
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

    /// What is asked over a control channel (protocol step 3), but for [`Request::Clone`] and [`Request::Accept`], which
    /// give handles.
    ///
    /// # Errors
    /// Why it was refused.
    pub fn request(&mut self, id: Id, request: Request) -> Result<Reply, Error> {
        let done = |()| Reply::Done;
        match request {
            Request::Bind(address) => self.bind(id, address).map(done),
            Request::Connect { to, wait } => self.connect(id, to, wait).map(done),
            Request::Listen(backlog) => self.listen(id, backlog).map(done),
            Request::LocalAddress => self.local_address(id).map(Reply::Address),
            Request::PeerAddress => self.peer_address(id).map(Reply::Address),
            Request::Set(choice, value) => self.set_choice(id, choice, value).map(done),
            Request::Get(choice) => self.choice(id, choice).map(Reply::Value),
            Request::Prepare(address) => self.prepare(id, address).map(done),
            Request::Open(..) | Request::Clone | Request::Accept => Err(Error::Malformed),
        }
    }

    /// An address as this socket may use it.
    pub(crate) fn check_family(socket: &Socket<W::End>, address: SocketAddr) -> Result<(), Error> {
        match (socket.family, address) {
            (Family::V4, SocketAddr::V6(_)) | (Family::V6, SocketAddr::V4(_)) => Err(Error::WrongFamily),
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
        if !ip.is_unspecified() && !ip.is_loopback() {
            return Err(Error::AddressNotAvailable);
        }
        self.bind_to(id, SocketAddr::new(ip, canonical.port()))
    }

    /// Binds to an address that was looked at.
    pub(crate) fn bind_to(&mut self, id: Id, mut address: SocketAddr) -> Result<(), Error> {
        let socket = self.sockets.get_mut(&id).ok_or(Error::Invalid)?;
        let both = address.ip().is_unspecified() && address.is_ipv6() && !socket.choices.only_v6;
        let binding = Binding { id, address, both, reuse: socket.choices.reuse, listens: false };
        let port = self.ports.bind(socket.kind, binding)?;
        address.set_port(port);
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
        if socket.bound.is_none() {
            let any = unspecified(socket.family);
            self.bind_to(id, any)?;
        }
        let socket = self.sockets.get_mut(&id).ok_or(Error::Invalid)?;
        self.ports.listen(id, socket.bound.ok_or(Error::Invalid)?)?;
        let (waiting, asking) = (VecDeque::new(), VecDeque::new());
        socket.body = Body::Listener(Listener { backlog, waiting, coming: Vec::new(), asking });
        socket.end.tell(0, network_protocol::LISTENING);
        Ok(())
    }

    /// Takes a connection from a listener; it has one holder then (protocol step 5).
    ///
    /// # Errors
    /// `Again`: none waits. `Invalid`: it does not listen.
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
            Some(peer) if local.ip().is_unspecified() => localhost(peer).ip(),
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

    /// There is something to take from a client, or it has ended.
    pub fn readable(&mut self, id: Id) {
        if let Some(socket) = self.sockets.get_mut(&id) {
            socket.reads = false;
            self.touch(id);
        }
    }

    /// There is room for a client's bytes.
    pub fn writable(&mut self, id: Id) {
        if let Some(socket) = self.sockets.get_mut(&id) {
            socket.writes = false;
            self.touch(id);
        }
    }

    /// Moves some of what can be moved. Gives when to call again at the latest; the same moment: there is more to do.
    pub fn poll(&mut self, now: Instant) -> Option<Instant> {
        self.now = self.now.max(now);
        self.end_orphans();
        self.end_asking();
        let timer = self.deadline.is_some_and(|at| at <= self.now);
        let mut steps = STEPS;
        for round in 0..ROUNDS {
            if timer && round == 1 {
                // Somebody's time had come in the round before. smoltcp does not say whose.
                let flows: Vec<Id> = self.flows.values().copied().collect();
                flows.into_iter().for_each(|id| self.touch(id));
            }
            let moved = self.round(&mut steps);
            let look_again = timer && round == 0;
            if !moved && !look_again {
                self.deadline = self.interface.poll_at(self.now, &self.set);
                let orphans = self.orphans.front().map(|(at, _)| *at);
                let asking = self.asking.first().map(|(at, _)| *at);
                return self.deadline.into_iter().chain(orphans).chain(asking).min();
            }
            if steps == 0 {
                break;
            }
        }
        Some(self.now)
    }

    /// A turn for each that was touched before, as long as there are steps; then a frame of each socket, then the frames that
    /// came. Says whether there was any of it.
    pub(crate) fn round(&mut self, steps: &mut usize) -> bool {
        let mut any = !self.turns.is_empty();
        for _ in 0..self.turns.len().min(*steps) {
            let Some((_, id)) = self.turns.pop() else { break };
            *steps -= 1;
            self.turn(id);
        }
        any |= self.interface.poll_egress(self.now, &mut self.wire, &mut self.set) == PollResult::SocketStateChanged;
        for handle in self.dying.drain(..) {
            self.set.remove(handle);
        }
        while let Some(frame) = self.wire.next() {
            any = true;
            match frames::look(frame) {
                Frame::Syn { from, to } => {
                    if !self.expect(from, to) {
                        self.wire.lose();
                        continue;
                    }
                }
                Frame::Segment { from, to } => {
                    if let Some(id) = self.flows.get(&(to, from)).copied() {
                        self.touch(id);
                    }
                }
                Frame::Other => {}
            }
            self.interface.poll_ingress_single(self.now, &mut self.wire, &mut self.set);
        }
        any
    }

    /// A socket's turn: some of what it has to do.
    fn turn(&mut self, id: Id) {
        let Some(socket) = self.sockets.get_mut(&id) else { return };
        socket.touched = false;
        match (&socket.body, socket.kind) {
            (_, Kind::Datagram) => self.pump_datagrams(id),
            _ if socket.closing => self.abort(id),
            (Body::Flow(Flow { way: Way::Waits(_), .. }), _) => self.ask_again(id),
            _ => self.pump_flow(id),
        }
    }
}

/// Where a socket's data socket comes from.
pub(crate) enum Source<B> {
    /// Its client brought it.
    Client(B),
    /// It is the other side of this socket's.
    Other(Id),
    /// It is made here.
    Here,
}

/// No address of a family.
pub(crate) fn unspecified(family: Family) -> SocketAddr {
    match family {
        Family::V4 => (Ipv4Addr::UNSPECIFIED, 0).into(),
        Family::V6 => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

/// The address that speaks to `peer` where none was chosen; without a port.
pub(crate) fn localhost(peer: SocketAddr) -> SocketAddr {
    match peer {
        SocketAddr::V4(_) => (Ipv4Addr::LOCALHOST, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::LOCALHOST, 0).into(),
    }
}

/// An address as a socket of this family sees it.
pub(crate) fn shown(family: Family, address: SocketAddr) -> SocketAddr {
    match family {
        Family::V4 => address,
        Family::V6 if address.ip().is_unspecified() => SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), address.port()),
        Family::V6 => network_protocol::mapped(address),
    }
}
