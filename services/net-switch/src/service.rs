//! The service: clients, packets, and turns of the ports.

use description::switch::{Grant, Port as Described, PortKind, check};
use net_switch::{DropReason, Ports, RX, Switch, TX};
use service::{ChannelEnds, Client, Clients, Event};
use zx::{AsHandleRef, Channel, Duration, Handle, MonotonicInstant, Port, Signals, Status};

use crate::connection::{Connection, Finish};
use crate::memory::SharedMemory;
use crate::mode::Mode;
use crate::peer::Peer;
use crate::session_port::{CardPort, ServicePort};

const CLIENTS: u64 = 1;
/// Keys with this bit belong to ports: how often a kick was replaced, generation, port, and what has come.
const OF_PORT: u64 = 1 << 63;
const CHANNEL: u64 = 0;
/// There may be frames to take, or buffers to fill.
pub const KICK: u64 = 1;
/// See [`KICK`].
pub const REFILLED: u64 = 2;
/// The card's driver among the services that this one uses.
const CARD: u16 = 0;
/// Time between an end of the card's driver and the next connection.
const AGAIN: Duration = Duration::from_millis(50);
/// Messages of a front end before others have their turn.
const MESSAGES: u32 = 8;
/// The words with which a program asks for the counters.
const COUNTERS: &str = "counters";

/// The key of a port's packets of this kind.
pub fn key(port: usize, generation: u32, what: u64) -> u64 {
    OF_PORT | u64::from(generation & 0x7fff_ffff) << 16 | (port as u64) << 4 | what
}

pub struct Service {
    pub switch: Switch<SharedMemory>,
    pub mode: Mode,
    pub port: Port,
    ends: ChannelEnds,
    pub peers: Vec<Option<Peer>>,
    /// How often a peer of each port has broken a rule.
    faults: Vec<u64>,
    generation: u32,
    /// A bit for each port that may have frames to send.
    pub active: u64,
    /// For each port whose next frame waits: the port for whose buffers, and until when.
    pub waiting: Vec<Option<(usize, MonotonicInstant)>>,
    /// The machine has a card.
    has_card: bool,
    /// When to connect to the card's driver.
    card_at: MonotonicInstant,
    /// Whether the ports of the TCP/IP service have a link: without a card always, else as long as the card has one.
    online: bool,
    /// Calls to the kernel for kicks, calls, packets and FIFOs.
    pub calls: u64,
}

/// Reads the arguments: ports, and a mode.
fn configuration() -> Result<(Vec<Described>, Mode), String> {
    let (mut ports, mut mode) = (Vec::new(), Mode::BEST);
    for argument in std::env::args().skip(1) {
        if let Some(port) = Described::from_argument(&argument) {
            ports.push(port?);
        } else if let Some(named) = argument.strip_prefix("mode=").and_then(Mode::named) {
            mode = named;
        } else {
            return Err(format!("`{argument}` is neither a port nor a mode"));
        }
    }
    check(&ports)?;
    Ok((ports, mode))
}

/// Runs the service.
///
/// # Errors
/// A sentence for the log.
pub fn run() -> Result<(), String> {
    let step = |what: &'static str| move |status: Status| format!("{what}: {status}");
    let (ports, mode) = configuration()?;
    let ports = Ports::new(&ports);
    let count = ports.len();
    let clients = Clients::take()?;
    let mut service = Service {
        switch: Switch::new(ports),
        mode,
        port: Port::create().map_err(step("a port"))?,
        ends: ChannelEnds::default(),
        peers: (0..count).map(|_| None).collect(),
        faults: vec![0; count],
        generation: 0,
        active: 0,
        waiting: vec![None; count],
        has_card: false,
        card_at: MonotonicInstant::INFINITE,
        online: true,
        calls: 0,
    };
    // A machine without a card has nobody at that port.
    if let (Some(port), Ok(channel)) = (service.switch.ports().card(), service::uses(CARD)) {
        (service.has_card, service.online) = (true, false);
        service.switch.set_link(port, false);
        service.card(port, channel);
    }
    service.watch_clients(&clients).map_err(step("clients"))?;
    loop {
        let deadline = match service.active {
            0 => service.waits_until().min(service.card_at).min(service.asks_at()),
            _ => MonotonicInstant::ZERO,
        };
        service.calls += 1;
        match service.port.wait(deadline) {
            Ok(packet) if packet.key == CLIENTS => {
                match clients.next() {
                    Ok(Event::Client(client)) => service.client(client),
                    Ok(Event::Ended(program)) => {
                        let is_ended = |peer: &Peer| peer.program() == Some(program);
                        for port in 0..count {
                            if service.peers[port].as_ref().is_some_and(is_ended) {
                                service.detach(port);
                            }
                        }
                    }
                    Err(Status::SHOULD_WAIT) => {}
                    Err(_) => return Ok(()),
                }
                service.watch_clients(&clients).map_err(step("clients"))?;
            }
            Ok(packet) => service.packet(packet.key),
            Err(Status::TIMED_OUT) => {}
            Err(status) => return Err(format!("port: {status}")),
        }
        service.stop_waiting();
        service.card_again();
        service.round();
        service.tell_link();
    }
}

impl Service {
    fn watch_clients(&self, clients: &Clients) -> zx::Result<()> {
        let signals = Signals::CHANNEL_READABLE | Signals::CHANNEL_PEER_CLOSED;
        clients.0.wait_async(&self.port, CLIENTS, signals, 0)
    }

    /// A program connects. What it may not have, it sees closed.
    fn client(&mut self, client: Client) {
        let Client { words, rule, mut handles, program } = client;
        // A program with a rule has the ports that the rule names; services have those that they ask for.
        let grant = if rule.is_empty() { None } else { Some(Grant::decode(&rule).unwrap_or_default()) };
        let may = |name: &str| grant.as_ref().is_none_or(|grant| grant.ports.iter().any(|port| port == name));
        let Some(handle) = handles.pop() else { return };
        if words == COUNTERS {
            return self.tell_counters(handle, may);
        }
        let Some(port) = self.switch.ports().named(&words).filter(|_| may(&words)) else { return };
        let Ok(channel) = self.ends.take(handle) else { return };
        // A peer that has gone makes room, even if the packet of its end is still to come.
        let is_taken = self.peers[port].as_ref().is_some_and(|peer| {
            peer.channel().signals().is_ok_and(|signals| !signals.contains(Signals::CHANNEL_PEER_CLOSED))
        });
        let kind = self.switch.ports().kind(port);
        if is_taken || kind == PortKind::Card {
            return;
        }
        self.detach(port);
        let (mac, generation) = (self.switch.ports().mac(port), self.next_generation());
        self.add(
            port,
            match kind {
                PortKind::Service => Peer::Service(ServicePort::new(channel, program, generation, mac, self.online)),
                _ => Peer::Guest(Connection::new(channel, program, generation, mac, &self.mode)),
            },
        );
    }

    fn next_generation(&mut self) -> u32 {
        self.generation = self.generation.wrapping_add(1);
        self.generation
    }

    /// The card's driver is there, or will be soon.
    fn card(&mut self, port: usize, channel: Channel) {
        let generation = self.next_generation();
        match CardPort::new(channel, generation) {
            Ok(peer) => self.add(port, Peer::Card(peer)),
            Err(_) => self.card_at = MonotonicInstant::after(AGAIN),
        }
    }

    /// When to ask the card's driver for the next change of its link.
    fn asks_at(&mut self) -> MonotonicInstant {
        let port = self.card_port();
        port.and_then(|port| port.asks_at).unwrap_or(MonotonicInstant::INFINITE)
    }

    fn card_port(&mut self) -> Option<&mut CardPort> {
        match self.peers.get_mut(self.switch.ports().card()?)? {
            Some(Peer::Card(port)) => Some(port),
            _ => None,
        }
    }

    /// Tells the ports of the TCP/IP service whether there is a link (7).
    fn tell_link(&mut self) {
        let online = !self.has_card || self.card_port().is_some_and(|port| port.online);
        if self.online == online {
            return;
        }
        self.online = online;
        if let Some(card) = self.switch.ports().card() {
            self.switch.set_link(card, online);
        }
        for port in 0..self.peers.len() {
            if let Some(Peer::Service(peer)) = &mut self.peers[port]
                && peer.link(online).is_err()
            {
                self.detach(port);
            }
        }
    }

    /// Connects to the card's driver again, or asks for the next change of its link, when the time has come.
    fn card_again(&mut self) {
        let asks_at = self.asks_at();
        if asks_at != MonotonicInstant::INFINITE
            && asks_at <= MonotonicInstant::now()
            && let (Some(card), Some(port)) = (self.switch.ports().card(), self.card_port())
            && port.ask().is_err()
        {
            self.detach(card);
        }
        if self.card_at == MonotonicInstant::INFINITE || self.card_at > MonotonicInstant::now() {
            return;
        }
        self.card_at = MonotonicInstant::INFINITE;
        match (self.switch.ports().card(), service::uses_again(CARD)) {
            (Some(port), Ok(channel)) => self.card(port, channel),
            _ => self.card_at = MonotonicInstant::after(AGAIN),
        }
    }

    fn add(&mut self, port: usize, peer: Peer) {
        match self.watch(port, &peer) {
            Ok(()) => self.peers[port] = Some(peer),
            Err(_) => self.detach(port),
        }
    }

    fn watch(&self, port: usize, peer: &Peer) -> zx::Result<()> {
        let signals = Signals::CHANNEL_READABLE | Signals::CHANNEL_PEER_CLOSED;
        peer.channel().wait_async(&self.port, key(port, peer.generation(), CHANNEL), signals, 0)
    }

    /// Sends the counters of the ports that a program may have, a line for each, and closes.
    fn tell_counters(&self, handle: Handle, may: impl Fn(&str) -> bool) {
        let Ok(channel) = self.ends.take(handle) else { return };
        let mut text = String::new();
        let ports = self.switch.ports();
        for port in (0..ports.len()).filter(|port| may(ports.name(*port))) {
            let counters = self.switch.counters(port);
            let dropped =
                DropReason::ALL.map(|(reason, name)| format!(" {name} {}", counters.dropped[reason as usize]));
            text.push_str(&format!(
                "{} sent {} received {} delivered {} faults {} calls {}{}\n",
                ports.name(port),
                counters.sent,
                counters.received,
                counters.delivered,
                self.faults[port],
                self.calls,
                dropped.concat(),
            ));
        }
        let _ = channel.write(text.as_bytes(), []);
    }

    /// Nothing of a port's peer is accessed any more.
    pub fn detach(&mut self, port: usize) {
        self.switch.detach(port);
        self.peers[port] = None;
        if self.switch.ports().kind(port) == PortKind::Card {
            self.card_at = MonotonicInstant::after(AGAIN);
        }
        self.active &= !(1 << port);
        self.waiting[port] = None;
        self.refilled(port);
    }

    /// There may be buffers of this port, or there are none any more: nobody waits for them.
    pub fn refilled(&mut self, receiver: usize) {
        for (port, waiting) in self.waiting.iter_mut().enumerate() {
            if waiting.is_some_and(|(to, _)| to == receiver) {
                *waiting = None;
                self.active |= 1 << port;
            }
        }
    }

    /// A peer has broken a rule.
    pub fn fault(&mut self, port: usize, why: &str) {
        self.faults[port] += 1;
        // A guest that comes back to break rules does not fill the log.
        if self.faults[port].is_power_of_two() {
            eprintln!("port {}: {why}; it is detached (time {})", self.switch.ports().name(port), self.faults[port]);
        }
        self.detach(port);
    }

    fn packet(&mut self, packet: u64) {
        let (port, what) = ((packet >> 4 & 0xfff) as usize, packet & 0xf);
        let Some(mut peer) = self.peers.get_mut(port).and_then(Option::take) else { return };
        let keys = [RX, TX].map(|queue| peer.key_of(port, queue));
        let expected = match what {
            KICK => keys[TX],
            REFILLED => keys[RX],
            what => key(port, peer.generation(), what),
        };
        if packet != expected {
            // It was for the one before.
            self.peers[port] = Some(peer);
            return;
        }
        if what == KICK || what == REFILLED {
            match &mut peer {
                Peer::Guest(connection) if what == KICK => (connection.armed, connection.fired) = (false, true),
                Peer::Guest(connection) => connection.awaits_buffers = false,
                peer => {
                    if let Some(fifos) = peer.fifos() {
                        fifos[if what == KICK { TX } else { RX }].arrived();
                    }
                }
            }
            self.peers[port] = Some(peer);
            return if what == KICK { self.activate(port) } else { self.has_buffers(port) };
        }
        let mut outcome = Ok(true);
        for _ in 0..MESSAGES {
            outcome = peer.message(port, keys, &mut self.switch, (&self.mode, &self.ends));
            if !matches!(outcome, Ok(true)) {
                break;
            }
        }
        match outcome {
            Ok(_) if self.watch(port, &peer).is_ok() => {
                if peer.sends() {
                    self.activate(port);
                }
                self.peers[port] = Some(peer);
            }
            Ok(_) | Err(Finish::Gone) => {
                drop(peer);
                self.detach(port);
            }
            Err(Finish::Fault(why)) => {
                drop(peer);
                self.fault(port, &why);
            }
        }
    }
}
