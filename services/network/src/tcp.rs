//! TCP: connections between clients' data sockets and smoltcp's sockets, and direct connections between two clients.

use std::net::SocketAddr;

use network_protocol::{CONNECTED, ERROR, Error, INCOMING};
use smoltcp::socket::tcp::{self, SocketBuffer, State};
use smoltcp::time::Duration;
use smoltcp::wire::{IpEndpoint, IpListenEndpoint};

use crate::packets::Side;
use crate::ports::{self, Ends, Id};
use crate::socket::{Body, Choices, End, Flow, Phase, ReadOutcome, Socket, Transport, WriteOutcome};
use crate::stack::{DataSockets, Expected, STEPS, Source, Stack};

/// Timeout of a connection attempt to a silent peer.
const SILENCE: Duration = Duration::from_secs(120);
/// Maximum time in which a connection without a client may send its remaining data.
const ORPHANED: Duration = Duration::from_secs(60);

/// The state of a listener at a destination.
enum Place {
    /// No listener.
    None,
    /// This listener's queue is full.
    Taken(Id),
    /// This listener's queue has room.
    Free(Id),
}

impl<W: DataSockets> Stack<W> {
    fn make_tcp(&self, choices: &Choices, peer: SocketAddr, side: Side) -> tcp::Socket<'static> {
        let buffer = |len: u32| SocketBuffer::new(vec![0; len as usize]);
        let mut tcp = tcp::Socket::new(buffer(choices.receive_buffer), buffer(choices.send_buffer));
        tcp.set_max_segment_size(choices.max_segment);
        if side == Side::Loop {
            // Delayed acknowledgements save packets and cost time. Packets cost almost nothing here.
            tcp.set_ack_delay(None);
        }
        apply(&mut tcp, choices, peer);
        limit_attempt(&mut tcp);
        tcp
    }

    pub(crate) fn connect(&mut self, id: Id, to: SocketAddr, wait: bool) -> Result<(), Error> {
        let socket = self.sockets.get(&id).ok_or(Error::Invalid)?;
        Self::check_family(socket, to)?;
        match &socket.body {
            Body::Datagrams(_) => return self.connect_datagrams(id, to),
            Body::Fresh => {}
            Body::Flow(Flow { phase: Phase::Connecting(_), .. }) => return Err(Error::Already),
            Body::Flow(_) | Body::Listener(_) => return Err(Error::IsConnected),
        }
        let to = ports::target(to);
        socket.check_reach(to)?;
        let side = self.side_of(to.ip()).filter(|_| !self.is_broadcast(to.ip())).ok_or(Error::Unreachable)?;
        self.check_way(socket, to, side)?;
        if to.port() == 0 {
            return Err(Error::Refused);
        }
        let source = self.source(to.ip());
        if socket.local.is_none() {
            self.bind_to(id, SocketAddr::new(source, 0))?;
        }
        let socket = self.sockets.get_mut(&id).ok_or(Error::Invalid)?;
        let mut local = socket.local.ok_or(Error::Invalid)?;
        if local.ip().is_unspecified() {
            local.set_ip(source);
        }
        if self.flows.contains_key(&Ends(local, to)) {
            return Err(Error::AddressInUse);
        }
        socket.local = Some(local);
        // Clears the error of an earlier attempt.
        socket.error = None;
        socket.end.tell(ERROR, 0);
        let (choices, program) = (socket.choices, socket.program);
        if self.direct && side == Side::Loop {
            return self.connect_directly(id, local, to, wait);
        }
        let charged = self.charge(program, &choices).ok_or(Error::NoMemory)?;
        match self.begin(&choices, local, to, side) {
            Ok(tcp) => self.add_connection(id, tcp, side, charged),
            Err(error) => {
                self.give_back(charged);
                return Err(error);
            }
        }
        self.flows.insert(Ends(local, to), id);
        let phase = Phase::Connecting(self.now);
        let flow = Flow { way: Transport::Packets, peer: to, phase, sent_end: false, end_reported: false };
        let socket = self.sockets.get_mut(&id).ok_or(Error::Invalid)?;
        socket.body = Body::Flow(flow);
        self.touch(id);
        if !wait || side == Side::Card {
            return Err(Error::InProgress);
        }
        // Both sides are on this machine: five frames complete the handshake.
        let mut steps = STEPS;
        for _ in 0..5 {
            self.round(&mut steps);
        }
        let socket = self.sockets.get_mut(&id).ok_or(Error::Invalid)?;
        match &socket.body {
            Body::Flow(Flow { phase: Phase::Connecting(_), .. }) => Err(Error::InProgress),
            Body::Fresh => {
                socket.end.tell(ERROR, 0);
                Err(socket.error.take().unwrap_or(Error::Refused))
            }
            _ => Ok(()),
        }
    }

    /// The smoltcp socket of a connection that begins here.
    pub(crate) fn begin(
        &mut self,
        choices: &Choices,
        local: SocketAddr,
        to: SocketAddr,
        side: Side,
    ) -> Result<tcp::Socket<'static>, Error> {
        let mut tcp = self.make_tcp(choices, to, side);
        let interface = match (side, &mut self.card) {
            (Side::Loop, _) => &mut self.local.interface,
            (Side::Card, Some(card)) => {
                tcp.set_initial_sequence_number(card.initial_number(local, to, self.now));
                card.time_wait.remove(to, local);
                &mut card.link.interface
            }
            (Side::Card, None) => return Err(Error::Unreachable),
        };
        tcp.connect(interface.context(), endpoint(to), endpoint(local)).map_err(|_| Error::Unreachable)?;
        Ok(tcp)
    }

    /// Connects without packets: at once if the listener's queue has room, otherwise as soon as it has.
    fn connect_directly(&mut self, id: Id, local: SocketAddr, to: SocketAddr, wait: bool) -> Result<(), Error> {
        let joined = match self.place(to) {
            Place::Free(listener) => self.join(id, listener, local, to),
            Place::None => Err(Error::Refused),
            Place::Taken(listener) => {
                let phase = Phase::Connecting(self.now);
                let flow =
                    Flow { way: Transport::Waits(listener), peer: to, phase, sent_end: false, end_reported: false };
                if let Some(socket) = self.sockets.get_mut(&id) {
                    socket.body = Body::Flow(flow);
                }
                if let Some(Socket { body: Body::Listener(queue), .. }) = self.sockets.get_mut(&listener) {
                    queue.asking.push_back(id);
                }
                self.flows.insert(Ends(local, to), id);
                self.asking.insert((self.now + SILENCE, id));
                return Err(Error::InProgress);
            }
        };
        match joined {
            _ if wait => joined,
            Ok(()) => Err(Error::InProgress),
            Err(error) => {
                if let Some(socket) = self.sockets.get_mut(&id) {
                    socket.error = Some(error);
                    socket.end.tell(0, ERROR);
                }
                Err(Error::InProgress)
            }
        }
    }

    /// Looks up the listener of an address and whether its queue has room.
    fn place(&self, to: SocketAddr) -> Place {
        let Some(listener) = self.ports.listener(to) else { return Place::None };
        match self.sockets.get(&listener) {
            Some(Socket { body: Body::Listener(queue), .. }) if queue.has_room() => Place::Free(listener),
            Some(Socket { body: Body::Listener(_), .. }) => Place::Taken(listener),
            _ => Place::None,
        }
    }

    /// The turn of a connection that waits for a place: there may be one, it may have timed out, or the listener may be
    /// gone.
    pub(crate) fn retry_connect(&mut self, id: Id) {
        let Some(Socket { body: Body::Flow(Flow { phase: Phase::Connecting(since), peer, .. }), local, .. }) =
            self.sockets.get(&id)
        else {
            return;
        };
        let (since, to) = (*since, *peer);
        let Some(local) = *local else { return };
        let joined = match self.place(to) {
            Place::Free(listener) => {
                self.forget_flow(id);
                self.join(id, listener, local, to)
            }
            Place::Taken(_) if self.now - since < SILENCE => return,
            Place::Taken(_) => Err(Error::TimedOut),
            Place::None => Err(Error::Refused),
        };
        if let Err(error) = joined {
            self.forget_flow(id);
            self.not_connected(id, error);
        }
    }

    /// Queues turns for connections that have waited too long for a place.
    pub(crate) fn end_asking(&mut self) {
        while let Some((at, id)) = self.asking.first().copied()
            && at <= self.now
        {
            self.asking.pop_first();
            self.touch(id);
        }
    }

    /// Connects a client directly with the listener's next client: each has one end of the same data socket. Each reads
    /// what the other writes, without a copy here.
    fn join(&mut self, id: Id, listener: Id, local: SocketAddr, to: SocketAddr) -> Result<(), Error> {
        let listening = self.sockets.get(&listener).ok_or(Error::Refused)?;
        let (program, family, choices) = (listening.program, listening.family, listening.choices);
        let rule = listening.rule.clone();
        let flow = |other, peer, phase| {
            Body::Flow(Flow { way: Transport::Direct(other), peer, phase, sent_end: false, end_reported: false })
        };
        let body = flow(id, local, Phase::Waiting(listener));
        // The listener's program is charged, within its limit of sockets.
        let stream = network_protocol::Kind::Stream;
        let other = self.add(program, family, stream, body, Source::Other(id)).map_err(|_| Error::Refused)?;
        if let Some(socket) = self.sockets.get_mut(&other) {
            (socket.holders, socket.local, socket.choices) = (0, Some(to), choices);
            socket.rule = rule;
            socket.end.tell(0, CONNECTED);
        }
        if let Some(socket) = self.sockets.get_mut(&id) {
            socket.body = flow(other, to, Phase::Open);
            socket.end.tell(0, CONNECTED);
        }
        self.flows.extend([(Ends(local, to), id), (Ends(to, local), other)]);
        self.arrived(listener, other);
        Ok(())
    }

    /// The client of a direct connection has gone. The other side reads the remaining data; then, except after a reset,
    /// the end.
    fn part(&mut self, id: Id, other: Id, reset: bool) {
        self.forget_flow(id);
        self.remove(id);
        self.forget_flow(other);
        let Some(Socket { end, error, body: Body::Flow(flow), .. }) = self.sockets.get_mut(&other) else { return };
        flow.end();
        // A client that sees the end must see the error, so the error is reported first.
        if reset {
            *error = Some(Error::Reset);
            end.tell(0, ERROR);
        }
        end.cut();
    }

    /// Handles a connection request on the loopback device that smoltcp has not seen yet.
    pub(crate) fn expect(&mut self, from: SocketAddr, to: SocketAddr) -> Expected {
        if let Some(id) = self.flows.get(&Ends(to, from)) {
            return Expected::By(*id);
        }
        match self.place(to) {
            Place::None => Expected::ByNobody,
            Place::Taken(_) => Expected::Later,
            Place::Free(_) => self.arrive(from, to, Side::Loop).map_or(Expected::ByNobody, Expected::By),
        }
    }

    /// Creates the socket of a connection that arrives at a listener, if that has room.
    pub(crate) fn arrive(&mut self, from: SocketAddr, to: SocketAddr, side: Side) -> Option<Id> {
        let Place::Free(listener) = self.place(to) else { return None };
        let listening = self.sockets.get(&listener)?;
        let (program, family, choices) = (listening.program, listening.family, listening.choices);
        let rule = listening.rule.clone();
        let charged = self.charge(program, &choices)?;
        let phase = Phase::Arriving(listener);
        let flow = Flow { way: Transport::Packets, peer: from, phase, sent_end: false, end_reported: false };
        let stream = network_protocol::Kind::Stream;
        let Ok(id) = self.add(program, family, stream, Body::Flow(flow), Source::Here) else {
            self.give_back(charged);
            return None;
        };
        let mut tcp = self.make_tcp(&choices, from, side);
        let listens = tcp.listen(IpListenEndpoint::from(endpoint(to)));
        self.add_connection(id, tcp, side, charged);
        if listens.is_err() {
            self.remove(id);
            return None;
        }
        if let Some(socket) = self.sockets.get_mut(&id) {
            (socket.holders, socket.local, socket.choices) = (0, Some(to), choices);
            socket.rule = rule;
        }
        self.flows.insert(Ends(to, from), id);
        if let Some(Socket { body: Body::Listener(queue), .. }) = self.sockets.get_mut(&listener) {
            queue.coming.push(id);
        }
        Some(id)
    }

    /// Moves data between a connection and its client, and passes the end of each side on to the other.
    pub(crate) fn pump_flow(&mut self, id: Id) {
        let Some(socket) = self.sockets.get_mut(&id) else { return };
        let Socket { end, body: Body::Flow(flow), reads, writes, choices, .. } = socket else { return };
        let Some(packets) = self.packets.get_mut(&id) else { return };
        let tcp = packets.socket::<tcp::Socket<'static>>();
        let mut arrived = None;
        match (flow.phase, tcp.state()) {
            (Phase::Connecting(_), State::SynSent | State::SynReceived) => return,
            (Phase::Connecting(since), State::Closed) => {
                let error = if self.now - since >= SILENCE { Error::TimedOut } else { Error::Refused };
                self.forget_flow(id);
                self.drop_packets(id);
                return self.not_connected(id, error);
            }
            (Phase::Connecting(_), _) => {
                flow.phase = Phase::Open;
                apply(tcp, choices, flow.peer);
                end.tell(0, CONNECTED);
            }
            (Phase::Arriving(_), State::SynReceived) => return,
            // The connection ended before it was established.
            (Phase::Arriving(_), State::Listen | State::Closed) => return self.abort(id),
            (Phase::Arriving(listener), _) => {
                flow.phase = Phase::Waiting(listener);
                apply(tcp, choices, flow.peer);
                end.tell(0, CONNECTED);
                arrived = Some(listener);
            }
            _ => {}
        }
        let orphan = flow.phase == Phase::Orphan;
        // Received data.
        while tcp.can_recv() {
            if orphan {
                return self.abort(id);
            }
            let mut full = false;
            let received = tcp.recv(|bytes| match end.give(bytes) {
                WriteOutcome::Bytes(count) => (count, ()),
                WriteOutcome::Full => {
                    full = true;
                    (0, ())
                }
                WriteOutcome::Refused => (bytes.len(), ()),
            });
            if received.is_err() || full {
                if full && !std::mem::replace(writes, true) {
                    end.watch_writable();
                }
                break;
            }
        }
        let peer_ended = matches!(tcp.state(), State::CloseWait | State::LastAck | State::Closing | State::TimeWait);
        if peer_ended && !tcp.can_recv() && !flow.end_reported {
            flow.end_reported = true;
            end.finish();
        }
        // Data to send.
        while !flow.sent_end && (orphan || !*reads) && tcp.can_send() {
            let mut taken = ReadOutcome::Nothing;
            let mut room = 0;
            let sent = tcp.send(|place| {
                room = place.len();
                taken = end.take(place);
                (if let ReadOutcome::Bytes(count) = taken { count } else { 0 }, ())
            });
            match taken {
                _ if sent.is_err() => break,
                ReadOutcome::Bytes(count) if count == room || orphan => {}
                ReadOutcome::Nothing if orphan => (flow.sent_end, taken) = (true, ReadOutcome::End),
                ReadOutcome::End => flow.sent_end = true,
                ReadOutcome::Bytes(_) | ReadOutcome::Nothing => {
                    if !std::mem::replace(reads, true) {
                        end.watch_readable();
                    }
                    break;
                }
            }
            if taken == ReadOutcome::End {
                tcp.close();
            }
        }
        let over = matches!(tcp.state(), State::Closed | State::TimeWait) && !tcp.can_recv();
        if let Some(listener) = arrived {
            self.arrived(listener, id);
        }
        if over {
            self.end_flow(id);
        }
    }

    fn arrived(&mut self, listener: Id, id: Id) {
        if let Some(Socket { end, body: Body::Listener(queue), .. }) = self.sockets.get_mut(&listener) {
            queue.coming.retain(|coming| *coming != id);
            queue.waiting.push_back(id);
            end.tell(0, INCOMING);
        }
    }

    /// A connection attempt has failed.
    pub(crate) fn not_connected(&mut self, id: Id, error: Error) {
        if let Some(socket) = self.sockets.get_mut(&id) {
            socket.body = Body::Fresh;
            socket.error = Some(error);
            socket.end.tell(0, ERROR);
        }
    }

    /// smoltcp has finished with a connection. Unless both sides had closed it, it was lost.
    fn end_flow(&mut self, id: Id) {
        self.forget_flow(id);
        // The last answer must still be sent. No packet is delayed on the loopback device, so it needs no TIME-WAIT.
        self.send_packets(id);
        self.wait_for_late_segments(id);
        self.drop_packets(id);
        let Some(Socket { body: Body::Flow(flow), .. }) = self.sockets.get_mut(&id) else { return };
        if flow.phase == Phase::Orphan {
            return self.remove(id);
        }
        if flow.sent_end && flow.end_reported {
            return flow.end();
        }
        self.connection_lost(id, Error::Reset);
    }

    /// A connection has no way any more. Its smoltcp socket, if there is one, is left.
    pub(crate) fn forget_flow(&mut self, id: Id) {
        let Some(socket) = self.sockets.get_mut(&id) else { return };
        let Body::Flow(flow) = &mut socket.body else { return };
        let way = std::mem::replace(&mut flow.way, Transport::Gone);
        if way != Transport::Gone
            && let Some(local) = socket.local
        {
            self.flows.remove(&Ends(local, flow.peer));
        }
        if let (Transport::Waits(listener), Phase::Connecting(since)) = (way, flow.phase) {
            self.asking.remove(&(since + SILENCE, id));
            if let Some(Socket { body: Body::Listener(queue), .. }) = self.sockets.get_mut(&listener) {
                queue.asking.retain(|asking| *asking != id);
                // It may have had a place in the queue, which is free now.
                if let Some(next) = queue.asking.front().copied() {
                    self.touch(next);
                }
            }
        }
    }

    /// Resets a connection and removes its socket.
    pub(crate) fn abort(&mut self, id: Id) {
        let listener = match self.sockets.get(&id) {
            Some(Socket { body: Body::Flow(Flow { phase: Phase::Arriving(id) | Phase::Waiting(id), .. }), .. }) => {
                Some(*id)
            }
            _ => None,
        };
        if let Some(Socket { body: Body::Listener(queue), .. }) = listener.and_then(|id| self.sockets.get_mut(&id)) {
            queue.coming.retain(|coming| *coming != id);
            queue.waiting.retain(|waiting| *waiting != id);
        }
        if let Some(Socket { body: Body::Flow(Flow { way: Transport::Direct(other), .. }), .. }) = self.sockets.get(&id)
        {
            return self.part(id, *other, true);
        }
        self.forget_flow(id);
        if let Some(packets) = self.packets.get_mut(&id) {
            packets.socket::<tcp::Socket<'static>>().abort();
            self.end_packets(id);
        }
        self.remove(id);
    }

    /// A listener has closed: connections that were not accepted end, and those that waited for a place are refused,
    /// each in its turn.
    pub(crate) fn close_listener(&mut self, id: Id) {
        let Some(Socket { body: Body::Listener(queue), .. }) = self.sockets.get_mut(&id) else { return };
        let (waiting, coming) = (std::mem::take(&mut queue.waiting), std::mem::take(&mut queue.coming));
        let asking = std::mem::take(&mut queue.asking);
        for child in waiting.into_iter().chain(coming) {
            if let Some(socket) = self.sockets.get_mut(&child) {
                socket.closing = true;
            }
            self.touch(child);
        }
        asking.into_iter().for_each(|id| self.touch(id));
        self.remove(id);
    }

    /// The client of a connection has gone. Its remaining data is sent. If it had unread data, the connection is reset.
    pub(crate) fn close_flow(&mut self, id: Id) {
        let Some(socket) = self.sockets.get_mut(&id) else { return };
        let Body::Flow(flow) = &mut socket.body else { return };
        let mut reset = socket.choices.linger == 1 || socket.end.unread() > 0;
        match flow.way {
            Transport::Gone => return self.remove(id),
            Transport::Direct(other) => return self.part(id, other, reset),
            Transport::Waits(_) => return self.abort(id),
            Transport::Packets => {}
        }
        let packets = self.packets.get_mut(&id);
        reset |= packets.is_some_and(|packets| packets.socket::<tcp::Socket<'static>>().can_recv());
        if matches!(flow.phase, Phase::Connecting(_)) || reset {
            return self.abort(id);
        }
        flow.phase = Phase::Orphan;
        self.orphans.push_back((self.now + ORPHANED, id));
        self.touch(id);
    }

    /// Resets connections that have been without a client for too long.
    pub(crate) fn end_orphans(&mut self) {
        while let Some((at, id)) = self.orphans.front().copied()
            && at <= self.now
        {
            self.orphans.pop_front();
            self.abort(id);
        }
    }
}

/// Sets the time limit that holds until the connection is open.
pub(crate) fn limit_attempt(tcp: &mut tcp::Socket<'static>) {
    tcp.set_timeout(Some(SILENCE));
}

/// Applies options to a smoltcp socket.
pub(crate) fn apply(tcp: &mut tcp::Socket<'static>, choices: &Choices, peer: SocketAddr) {
    tcp.set_nagle_enabled(!choices.no_delay);
    let seconds = |count: u32| choices.keep_alive.then(|| Duration::from_secs(count.into()));
    tcp.set_keep_alive(seconds(choices.keep_idle));
    // A connection ends for lack of a sign of life only with keep-alive. Without it, the peer may be silent for ever.
    tcp.set_timeout(seconds(choices.keep_idle + choices.keep_interval * choices.keep_count));
    let hops = if peer.is_ipv4() { choices.ttl } else { choices.hops };
    tcp.set_hop_limit(Some(hops.max(1)));
}

/// Converts an address for smoltcp.
pub(crate) fn endpoint(address: SocketAddr) -> IpEndpoint {
    IpEndpoint::new(address.ip().into(), address.port())
}
